//! Configuration of a channel: full-ring behaviour, sizes of sub-buffers and events, and contexts.

use crate::encoding::{Distinct, List, Number, Optional, RecordForm};
use crate::limits::{CONTEXTS_MAX, EVENT_NAME_SIZE_MAX};
use crate::text::{Letters, NAME, Text};

const SUPPLIED: Text = Text::new(Letters::Name, EVENT_NAME_SIZE_MAX);

/// Returns the encoding of a channel's contexts: a list whose items have distinct names.
pub(crate) const fn contexts() -> Distinct<Context, RecordForm> {
    Distinct {
        list: List { count_min: 0, count_max: CONTEXTS_MAX, of: RecordForm },
        name: Context::name,
    }
}

/// Longest waiting time in microseconds (10 minutes) that [`Channel::wait_us`] permits, except
/// [`WAIT_FOREVER`].
pub const WAIT_MAX_US: u32 = 600_000_000;

/// Permitted values of [`Channel::event_size`], in bytes.
pub const EVENT_SIZES: std::ops::RangeInclusive<u32> = 512..=1 << 20;

/// Value of [`Channel::wait_us`] for a wait without a time limit. The program then waits for free
/// space in a full ring until the agent has read nothing from any of the channel's rings for 10 s.
pub const WAIT_FOREVER: u32 = u32::MAX;

record! {
    /// Configuration of a channel. The agent chooses values for the fields that are `None`.
    pub struct Channel {
        /// Name of the channel, unique in its session.
        pub name: String = NAME,
        /// Behaviour of the channel's rings when they are full.
        pub mode: Mode = RecordForm,
        /// Size of a sub-buffer in bytes: a power of two.
        pub subbuffer_size: Option<u64> = Optional(Number),
        /// Number of sub-buffers in each ring: a power of two.
        pub subbuffer_count: Option<u32> = Optional(Number),
        /// Contexts recorded with each event, in this order.
        pub contexts: Vec<Context> = contexts(),
        /// Maximum time that a program waits for free space in a full ring before it drops an
        /// event, in microseconds: up to [`WAIT_MAX_US`], or [`WAIT_FOREVER`].
        pub wait_us: u32 = Number,
        /// Size of the largest event in bytes, within [`EVENT_SIZES`] and at most the capacity of a
        /// sub-buffer. Strings of larger events are shortened to fit.
        pub event_size: Option<u32> = Optional(Number),
    }
}

impl Channel {
    /// Makes a channel with this name and default values.
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

    /// Returns the size of a ring in bytes; 0 while the agent has not chosen it.
    pub fn ring_size(&self) -> u64 {
        let count = u64::from(self.subbuffer_count.unwrap_or(0));
        self.subbuffer_size.unwrap_or(0).saturating_mul(count)
    }
}

choice! {
    /// Role of a channel in sharing memory.
    pub enum Sharing {
        /// Channel whose memory is divided among its parts. It has no events of its own.
        0 "shared" Shared,
        /// Channel that has a part of a shared channel's memory.
        1 "part" Part {
            /// Name of the shared channel.
            of: String = NAME,
            /// Maximum size of the channel's rings, in percent of the shared channel's.
            percent: u32 = Number,
        },
    }
}

impl Sharing {
    /// Returns whether the channel is a part of the shared channel `shared`.
    pub fn is_part_of(&self, shared: &str) -> bool {
        matches!(self, Sharing::Part { of, .. } if of == shared)
    }
}

choice! {
    /// Behaviour of a ring that has too little free space for the next event.
    #[derive(Copy)]
    pub enum Mode {
        /// Mode that drops new events and counts them.
        0 "discard" Discard,
        /// Mode in which new events overwrite the oldest ones.
        1 "overwrite" Overwrite,
    }
}

choice! {
    /// Context: a value that is recorded with each event in addition to the event's own fields.
    pub enum Context {
        /// Process id in the process's own PID namespace.
        0 "pid" Pid,
        /// Thread id in the process's own PID namespace.
        1 "tid" Tid,
        /// Name of the thread, which is by default the program's name.
        2 "procname" Procname,
        /// Number of the processor on which the event was recorded.
        3 "cpu" Cpu,
        /// Inode of the PID namespace.
        4 "pid_ns" PidNamespace,
        /// Inode of the mount namespace.
        5 "mnt_ns" MountNamespace,
        /// Inode of the user namespace.
        6 "user_ns" UserNamespace,
        /// Inode of the network namespace.
        7 "net_ns" NetworkNamespace,
        /// Inode of the time namespace.
        8 "time_ns" TimeNamespace,
        /// Inode of the UTS namespace (host names).
        9 "uts_ns" UtsNamespace,
        /// Inode of the IPC namespace (System V objects).
        10 "ipc_ns" IpcNamespace,
        /// Inode of the cgroup namespace.
        11 "cgroup_ns" CgroupNamespace,
        /// Id of the cgroup of the process.
        12 "cgroup_id" CgroupId,
        /// Application context: a text that the program sets for the whole process.
        13 "supplied" Supplied {
            /// Name in the form `provider:name`.
            name: String = SUPPLIED,
        },
    }
}

impl Context {
    /// List of all contexts except [`Context::Supplied`].
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

    /// Returns the context's name for display, such as `pid`. For [`Context::Supplied`], returns
    /// the name under which the program sets the text.
    pub fn name(&self) -> &str {
        match self {
            Context::Supplied { name } => name,
            context => context.word(),
        }
    }
}
