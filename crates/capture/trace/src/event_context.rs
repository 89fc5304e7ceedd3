//! Values of event contexts: process, thread, processor, namespaces, control group. The module
//! [`app_context`] has those of application contexts.

use crate::app_context;
use blkkin_control::Context;
use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Source of a context field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContextSource {
    Pid,
    Tid,
    Procname,
    Cpu,
    /// A 32-bit value, read once when the channel was added.
    Fixed32(u32),
    /// A 64-bit value, read once when the channel was added.
    Fixed64(u64),
    /// An application context, given by its index; `None` if the context could not be added to the
    /// table.
    Supplied(Option<usize>),
}

/// Process id, read whenever a channel is added. A forked child inherits no channels, so it reads
/// its own id when its first channel is added.
static PID: AtomicU32 = AtomicU32::new(0);

/// Returns the process id, in the process's own PID namespace.
pub(crate) fn pid() -> i32 {
    PID.load(Ordering::Relaxed).cast_signed()
}

/// Returns the thread id, in the process's own PID namespace. The first call in each thread and
/// process makes system calls, and so does each call if the id cannot be cached.
pub(crate) fn tid() -> i32 {
    blkkin_sys::thread_id().cast_signed()
}

/// Returns the number of the processor that the thread runs on; 0 if it is unknown. The value may
/// be outdated on return.
pub(crate) fn cpu() -> u32 {
    u32::try_from(blkkin_sys::current_cpu()).unwrap_or(0)
}

/// Returns the thread's name, padded with NULs. The name is cached at the thread's first call,
/// because reading it is a system call; a later change does not show, as with LTTng.
pub(crate) fn procname() -> [u8; 16] {
    thread_local! {
        /// Cached name of the thread. Has no destructor, so that it can be used until the thread
        /// ends.
        static KNOWN: Cell<Option<[u8; 16]>> = const { Cell::new(None) };
    }
    if let Some(name) = KNOWN.get() {
        return name;
    }
    let name = blkkin_sys::process::thread_name();
    KNOWN.set(Some(name));
    name
}

/// Returns the sources of a channel's contexts. Reads the process id, namespaces and control group
/// now, and adds the names of new application contexts to their table.
pub(crate) fn sources(contexts: &[Context]) -> Vec<ContextSource> {
    PID.store(std::process::id(), Ordering::Relaxed);
    contexts.iter().map(source).collect()
}

fn source(context: &Context) -> ContextSource {
    ContextSource::Fixed32(match context {
        Context::Pid => return ContextSource::Pid,
        Context::Tid => return ContextSource::Tid,
        Context::Procname => return ContextSource::Procname,
        Context::Cpu => return ContextSource::Cpu,
        Context::CgroupId => return ContextSource::Fixed64(cgroup().unwrap_or(0)),
        Context::Supplied { name } => return ContextSource::Supplied(app_context::reserve(name)),
        Context::PidNamespace => namespace("pid"),
        Context::MountNamespace => namespace("mnt"),
        Context::UserNamespace => namespace("user"),
        Context::NetworkNamespace => namespace("net"),
        Context::TimeNamespace => namespace("time"),
        Context::UtsNamespace => namespace("uts"),
        Context::IpcNamespace => namespace("ipc"),
        Context::CgroupNamespace => namespace("cgroup"),
    })
}

/// Returns the inode of this process's namespace of a kind, such as `net`; 0 if it is unknown, as
/// with kernels without namespaces of that kind.
fn namespace(kind: &str) -> u32 {
    let found = std::fs::metadata(format!("/proc/self/ns/{kind}"));
    found.ok().and_then(|found| u32::try_from(found.ino()).ok()).unwrap_or(0)
}

/// Returns the inode of this process's control group in the unified hierarchy; `None` if it is
/// unknown. The kernel uses the inode as the group's id.
fn cgroup() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    roots.iter().find_map(|root| {
        std::fs::metadata(format!("{root}/cgroup.controllers")).ok()?;
        Some(std::fs::metadata(format!("{root}/{path}")).ok()?.ino())
    })
}
