//! What a user says of a channel: what to do when it is full, its size, and what to add to events.

use crate::form::{Distinct, List, Number, Optional, Own};
use crate::limits::{CONTEXTS_MAX, EVENT_NAME_SIZE_MAX};
use crate::text::{Letters, NAME, Text};

const SUPPLIED: Text = Text::new(Letters::Name, EVENT_NAME_SIZE_MAX);

/// How contexts are sent: no two of one name.
pub(crate) const fn contexts() -> Distinct<Context, Own> {
    Distinct { list: List { count_min: 0, count_max: CONTEXTS_MAX, of: Own }, name: Context::name }
}

/// Longest time in microseconds that an event may wait for room, but for ever.
pub const WAIT_MAX_US: u32 = 600_000_000;

/// Bytes of the smallest and the largest bound on a channel's events.
pub const EVENT_SIZES: std::ops::RangeInclusive<u32> = 512..=1 << 20;

/// Waiting as long as the agent reads.
pub const WAIT_FOREVER: u32 = u32::MAX;

record! {
    /// A channel of a session. Where nothing is said, the daemon chooses.
    pub struct Channel {
        /// Its name.
        pub name: String = NAME,
        /// What happens when it is full.
        pub mode: Mode = Own,
        /// Bytes of a sub-buffer: a power of two.
        pub subbuffer_size: Option<u64> = Optional(Number),
        /// Sub-buffers of a ring: a power of two.
        pub subbuffer_count: Option<u32> = Optional(Number),
        /// What is added to each event.
        pub contexts: Vec<Context> = contexts(),
        /// Microseconds that programs wait for room where a ring is full, before an event is lost: at most
        /// [`WAIT_MAX_US`], or [`WAIT_FOREVER`].
        pub wait_us: u32 = Number,
        /// Bytes of the largest event, whose strings are shortened to fit: within [`EVENT_SIZES`],
        /// and no more than a sub-buffer holds.
        pub event_size: Option<u32> = Optional(Number),
    }
}

impl Channel {
    /// One of which nothing else is said.
    pub fn named(name: impl Into<String>) -> Channel {
        let (subbuffer_size, subbuffer_count, contexts) = (None, None, Vec::new());
        Channel {
            name: name.into(),
            mode: Mode::Discard,
            subbuffer_size,
            subbuffer_count,
            contexts,
            wait_us: 0,
            event_size: None,
        }
    }
}

choice! {
    /// What happens to events that find their ring full.
    #[derive(Copy)]
    pub enum Mode {
        /// They are dropped, and counted.
        0 "discard" Discard,
        /// They take the place of the oldest ones.
        1 "overwrite" Overwrite,
    }
}

choice! {
    /// What is added to each event.
    pub enum Context {
        /// Process, as it sees itself.
        0 "pid" Pid,
        /// Thread, as it sees itself.
        1 "tid" Tid,
        /// Name of the thread, which by default is the program's.
        2 "procname" Procname,
        /// Processor.
        3 "cpu" Cpu,
        /// Inode of the namespace of process ids; so with all that follow.
        4 "pid_ns" PidNamespace,
        /// Of mounts.
        5 "mnt_ns" MountNamespace,
        /// Of users.
        6 "user_ns" UserNamespace,
        /// Of networks.
        7 "net_ns" NetworkNamespace,
        /// Of times.
        8 "time_ns" TimeNamespace,
        /// Of host names.
        9 "uts_ns" UtsNamespace,
        /// Of System V's objects.
        10 "ipc_ns" IpcNamespace,
        /// Of control groups.
        11 "cgroup_ns" CgroupNamespace,
        /// Number of the control group.
        12 "cgroup_id" CgroupId,
        /// What the program gives under a name.
        13 "supplied" Supplied {
            /// `provider:name`.
            name: String = SUPPLIED,
        },
    }
}

impl Context {
    /// Those that need no name.
    pub const ALL: [Context; 13] = [
        Context::Pid,
        Context::Tid,
        Context::Procname,
        Context::Cpu,
        Context::PidNamespace,
        Context::MountNamespace,
        Context::UserNamespace,
        Context::NetworkNamespace,
        Context::TimeNamespace,
        Context::UtsNamespace,
        Context::IpcNamespace,
        Context::CgroupNamespace,
        Context::CgroupId,
    ];

    /// Its word, or the name under which the program supplies it.
    pub fn name(&self) -> &str {
        match self {
            Context::Supplied { name } => name,
            context => context.word(),
        }
    }
}
