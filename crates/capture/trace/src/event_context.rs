//! What can be said of where an event happens: process, thread, processor, namespaces.

use crate::app_context;
use blkkin_control::Context;
use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a context comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContextSource {
    Pid,
    Tid,
    Procname,
    Cpu,
    /// What was found when the channel came.
    Fixed32(u32),
    /// As above.
    Fixed64(u64),
    /// What the program says, under the name at that place.
    Supplied(Option<usize>),
}

/// The process, as it was asked when a channel came: a child has none before it has been asked itself.
static PID: AtomicU32 = AtomicU32::new(0);

/// Its process, as it sees itself.
pub(crate) fn pid() -> i32 {
    PID.load(Ordering::Relaxed).cast_signed()
}

/// This thread, as it sees itself. A system call the first time in each thread.
pub(crate) fn tid() -> i32 {
    blkkin_sys::thread_id().cast_signed()
}

/// The processor, a moment ago.
pub(crate) fn cpu() -> u32 {
    u32::try_from(blkkin_sys::current_cpu()).unwrap_or(0)
}

/// The thread's name, as it was when the thread was first asked, with NULs behind: a name that it gets
/// later does not show, as with LTTng, because to ask is a system call.
pub(crate) fn procname() -> [u8; 16] {
    thread_local! {
        /// No destructor, so that it can be used as long as there is a thread.
        static KNOWN: Cell<Option<[u8; 16]>> = const { Cell::new(None) };
    }
    if let Some(name) = KNOWN.get() {
        return name;
    }
    let name = blkkin_sys::process::thread_name();
    KNOWN.set(Some(name));
    name
}

/// Where the contexts of a channel come from. Of what belongs to the whole process, what it is now.
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

/// The inode of a namespace of this process; 0 if the kernel has none of that kind.
fn namespace(kind: &str) -> u32 {
    let found = std::fs::metadata(format!("/proc/self/ns/{kind}"));
    found.ok().and_then(|found| u32::try_from(found.ino()).ok()).unwrap_or(0)
}

/// The inode of this process's control group in the unified hierarchy, which is what the kernel calls its
/// number.
fn cgroup() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    roots.iter().find_map(|root| {
        std::fs::metadata(format!("{root}/cgroup.controllers")).ok()?;
        Some(std::fs::metadata(format!("{root}/{path}")).ok()?.ino())
    })
}
