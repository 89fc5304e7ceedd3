//! Confinement of the agent's threads: limits on the files that they can open for reading, on their
//! system calls, and on their capabilities. An intruder who takes over the agent through a message
//! cannot start programs, cannot connect to other machines, and can open for reading only the files
//! in [`READ`] and in the directories passed to [`confine`]. The announcer's thread can open other
//! files too, but ends a few seconds after the agent's start.
//!
//! Restrictions that the kernel does not support are skipped and logged. One gap is not logged:
//! Landlock without rules for TCP (before Linux 6.7). Seccomp refuses TCP sockets as well.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Capabilities that the agent keeps if it has them: to access files with another user's rights,
/// and to override file permissions when it accesses files as root.
const CAPABILITIES: CapabilitySet =
    CapabilitySet::SETUID.union(CapabilitySet::SETGID).union(CapabilitySet::DAC_OVERRIDE);
/// Capability to inspect processes of other users.
const INSPECT_CAPABILITY: CapabilitySet = CapabilitySet::SYS_PTRACE;

/// Files that the agent may read: about processes and their control groups, processors, users, and
/// the time zone.
const READ: [&str; 10] = [
    "/proc",
    "/sys/devices/system/cpu",
    crate::memory_limit::CGROUPS,
    "/etc/passwd",
    "/etc/group",
    crate::ranges::PATH,
    crate::approved_probes::PATH,
    "/etc/localtime",
    "/etc/timezone",
    "/usr/share/zoneinfo",
];

/// Confines this thread, and all threads that it starts later. Files in the directories `traces`
/// stay readable. Returns a log line for each restriction that failed.
pub(crate) fn confine(traces: &mut dyn Iterator<Item = OwnedFd>) -> Vec<String> {
    let steps = [
        ("powers of root", drop_capabilities(CAPABILITIES)),
        (
            "new privileges",
            rustix::thread::set_no_new_privs(true).map_err(|error| error.to_string()),
        ),
        ("files", restrict_files(traces)),
        ("system calls", restrict_calls(Network::Unreachable)),
    ];
    described(steps)
}

/// Returns a log line for each step that failed.
fn described<const N: usize>(steps: [(&str, Result<(), String>); N]) -> Vec<String> {
    let failed = |(what, done): (&str, Result<(), String>)| {
        done.err().map(|error| format!("cannot give up {what}: {error}"))
    };
    steps.into_iter().filter_map(failed).collect()
}

/// Confines this thread, and all threads that it starts later, as the agent is confined. Unlike the
/// agent, they can connect to other machines, and read files as their user. Returns a log line for
/// each restriction that failed.
pub fn confine_forwarder() -> Vec<String> {
    let steps = [
        ("powers of root", drop_capabilities(CAPABILITIES)),
        (
            "new privileges",
            rustix::thread::set_no_new_privs(true).map_err(|error| error.to_string()),
        ),
        ("system calls", restrict_calls(Network::Reachable)),
    ];
    described(steps)
}

/// Confines this thread to reading symbolic links. As root, the thread can also read those in
/// `/proc` of other users' processes.
pub(crate) fn confine_to_links() {
    // Restrictions that fail here also fail in `confine`, whose caller logs them.
    let _ = drop_capabilities(INSPECT_CAPABILITY);
    let _ = rustix::thread::set_no_new_privs(true);
    let _ = permit(&[]);
}

/// Confines this thread to opening, reading and writing files. As root, the thread can also inspect
/// processes of other users. The announcer writes only to pages that other processes have open.
pub(crate) fn confine_to_announcing() {
    // The caller of `confine` logs restrictions that fail.
    let _ = drop_capabilities(INSPECT_CAPABILITY);
    let _ = rustix::thread::set_no_new_privs(true);
    let _ = permit(&[
        libc::SYS_openat,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open,
        libc::SYS_getdents64,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_lseek,
        libc::SYS_fcntl,
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_pwrite64,
        libc::SYS_close,
        libc::SYS_getcwd,
    ]);
}

fn drop_capabilities(powers: CapabilitySet) -> Result<(), String> {
    if blkkin_sys::user_id() == 0 {
        rustix::thread::set_thread_groups(&[]).map_err(|error| error.to_string())?;
    }
    let now = rustix::thread::capabilities(None).map_err(|error| error.to_string())?;
    let kept = now.permitted & powers;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).map_err(|error| error.to_string())
}

fn restrict_files(traces: &mut dyn Iterator<Item = OwnedFd>) -> Result<(), String> {
    // Writing is not restricted: users choose the directories of their traces, and the kernel
    // checks their permissions.
    let handled = AccessFs::Execute | AccessFs::ReadFile;
    let restrict = || {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(handled & AccessFs::from_all(ABI::V1))?
            // TCP ports can be neither bound nor connected, not even with sockets that other
            // processes pass.
            .handle_access(AccessNet::from_all(ABI::V4))?
            .create()?;
        for path in READ.iter().map(Path::new).filter(|path| path.exists()) {
            if let Ok(place) = PathFd::new(path) {
                rules = rules.add_rule(PathBeneath::new(place, AccessFs::ReadFile))?;
            }
        }
        for trace in traces {
            rules = rules.add_rule(PathBeneath::new(trace, AccessFs::ReadFile))?;
        }
        rules.restrict_self()
    };
    match restrict() {
        Ok(status) if status.ruleset == RulesetStatus::NotEnforced => {
            Err("this kernel has no Landlock".to_owned())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// System calls that the agent is refused, whatever their arguments. With them, an intruder could
/// gain rights, reach other processes and machines, or disturb the whole machine.
const REFUSED: [libc::c_long; 53] = [
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_kcmp,
    libc::SYS_personality,
    libc::SYS_clock_settime,
    libc::SYS_settimeofday,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_swapoff,
    libc::SYS_request_key,
    libc::SYS_mknodat,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_connect,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_io_uring_setup,
    libc::SYS_open_by_handle_at,
    libc::SYS_userfaultfd,
    libc::SYS_kill,
    libc::SYS_pidfd_send_signal,
];

/// Returns the numbers of the refused calls. On x86-64 these include the numbers of the x32 ABI,
/// which have the bit `SHORT`: the refused numbers with that bit, and 512 to 547, which exist only
/// in x32. A seccomp filter can recognize the x32 ABI only by that bit.
fn refused() -> impl Iterator<Item = libc::c_long> {
    const SHORT: libc::c_long = 0x4000_0000;
    let others = REFUSED.into_iter().chain(512..=547).map(|call| call | SHORT);
    REFUSED.into_iter().chain(others.filter(|_| cfg!(target_arch = "x86_64")))
}

/// Permission to connect to other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Reachable,
    Unreachable,
}

fn restrict_calls(network: Network) -> Result<(), String> {
    let mut rules: BTreeMap<i64, _> = refused().map(|call| (call, Vec::new())).collect();
    // The old calls `fork` and `vfork` start processes in any case.
    #[cfg(target_arch = "x86_64")]
    rules.extend([libc::SYS_fork, libc::SYS_vfork].map(|call| (call, Vec::new())));
    // Refuses to start processes; threads can be started.
    let is_process = SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64);
    rules.insert(libc::SYS_clone, vec![rule(0, is_process, 0)?]);
    if network == Network::Reachable {
        rules.remove(&libc::SYS_connect);
    } else {
        // Only Unix sockets can be made; the agent needs them to notify the service manager.
        rules.insert(libc::SYS_socket, vec![rule(0, SeccompCmpOp::Ne, libc::AF_UNIX as u64)?]);
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    filter_calls(rules, SeccompAction::Allow, refuse)?;
    // The arguments of `clone3` are in memory, which a filter cannot read. C libraries fall back to
    // `clone` if the kernel does not know it.
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    filter_calls([(libc::SYS_clone3, Vec::new())].into(), SeccompAction::Allow, unknown)
}

/// Returns a rule that matches a system call if `operator` holds between the low 32 bits of the
/// call's argument number `argument` and `value`.
fn rule(argument: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| error.to_string())
}

/// System calls that [`permit`] permits to every thread: to wait, to allocate memory, to handle
/// signals, to end, and to read symbolic links.
const PERMITTED: [libc::c_long; 13] = [
    libc::SYS_readlinkat,
    libc::SYS_futex,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_sched_yield,
    libc::SYS_gettid,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
];

/// Restricts this thread to the calls in [`PERMITTED`] and `others`, to `readlink`, and to mapping
/// memory that is not executable.
fn permit(others: &[libc::c_long]) -> Result<(), String> {
    let permitted = PERMITTED.iter().chain(others);
    let mut rules: BTreeMap<i64, _> = permitted.map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_readlink, Vec::new());
    // Memory can be mapped, but not for code.
    let is_no_code = rule(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)?;
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![is_no_code.clone()]);
    }
    filter_calls(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// Installs a seccomp filter. `fitting` is the action for calls that match `rules`, `others` the
/// action for all other calls.
fn filter_calls(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    others: SeccompAction,
    fitting: SeccompAction,
) -> Result<(), String> {
    let program = program(rules, others, fitting)?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

/// Compiles a seccomp filter. `fitting` is the action for calls that match `rules`, `others` the
/// action for all other calls.
fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    others: SeccompAction,
    fitting: SeccompAction,
) -> Result<BpfProgram, String> {
    let architecture: TargetArch =
        std::env::consts::ARCH.try_into().map_err(|error| format!("{error}"))?;
    let filter = SeccompFilter::new(rules, others, fitting, architecture);
    let program: Result<BpfProgram, _> = filter.and_then(TryInto::try_into);
    program.map_err(|error| error.to_string())
}

/// Returns a seccomp filter that refuses one system call, for tests.
#[cfg(test)]
pub(crate) fn filter_for_test() -> BpfProgram {
    let refused = [(libc::SYS_reboot, Vec::new())].into();
    program(refused, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32)).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;

    /// An intruder in the inspecting thread can read links, and nothing else.
    #[test]
    fn links_can_be_read_and_nothing_else() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let path = std::env::temp_dir().join(format!("blkkin-links-{}", std::process::id()));
        let pid = rustix::process::getpid();
        let try_all = || {
            confine_to_links();
            let done = [
                ("to read a file", std::fs::read("/etc/passwd").is_ok()),
                ("to read memory", std::fs::File::open("/proc/self/mem").is_ok()),
                ("to list files", std::fs::read_dir("/").is_ok()),
                ("to make a file", std::fs::File::create(&path).is_ok()),
                ("to remove one", std::fs::remove_file(&path).is_ok()),
                ("to connect", TcpStream::connect(address).is_ok()),
                ("to start a program", Command::new("/bin/true").status().is_ok()),
                ("to signal", rustix::process::test_kill_process(pid).is_ok()),
                ("to be another user", blkkin_sys::as_user(1, 1, || Ok(())).is_ok()),
            ];
            let powers = rustix::thread::capabilities(None).map(|sets| sets.permitted);
            (done, std::fs::read_link("/proc/self/exe"), powers)
        };
        let (done, link, powers) = std::thread::scope(|scope| scope.spawn(try_all).join().unwrap());
        let done: Vec<&str> =
            done.iter().filter(|(_, done)| *done).map(|(what, _)| *what).collect();
        assert_eq!(done, Vec::<&str>::new());
        assert_eq!(link.unwrap(), std::env::current_exe().unwrap());
        // Reading the capabilities is a refused call as well.
        assert!(powers.is_err());
        assert!(std::fs::read("/bin/true").is_ok(), "other threads are not confined");
    }

    /// Work that the agent does with another user's rights cannot override file permissions, even
    /// if the agent runs as root.
    #[test]
    fn others_act_without_power_over_files() {
        if blkkin_sys::user_id() != 0 {
            return;
        }
        let confined = std::thread::spawn(|| {
            confine(&mut std::iter::empty());
            let powers = || Ok(rustix::thread::capabilities(None)?.effective);
            let own = powers().map_err(|error: std::io::Error| error.to_string()).unwrap();
            (own, blkkin_sys::as_user(65_534, 65_534, powers).unwrap())
        });
        let (own, others) = confined.join().unwrap();
        assert!(own.contains(CapabilitySet::DAC_OVERRIDE));
        assert!(!others.contains(CapabilitySet::DAC_OVERRIDE));
    }

    /// A confined thread cannot start programs, connect, listen, or read files outside of [`READ`].
    /// System calls that the agent needs still succeed.
    #[test]
    fn little_is_left_to_do() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(TcpStream::connect(address).is_ok());
        let inspector = crate::process::ProcessInspector::start().unwrap();
        assert!(std::fs::read("/etc/shadow").is_ok() || blkkin_sys::user_id() != 0);
        let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
        let other = sleeper.id();
        let confined = std::thread::spawn(move || {
            let missing = confine(&mut std::iter::empty());
            let has = |what: &str| !missing.iter().any(|missing| missing.contains(what));
            if has("system calls") {
                assert!(TcpStream::connect(address).is_err());
                assert!(TcpListener::bind("127.0.0.1:0").is_err());
                assert!(std::net::UdpSocket::bind("127.0.0.1:0").is_err());
                // TCP Fast Open connects by sending, without a call of `connect`; so TCP sockets
                // cannot be made at all.
                let stream = rustix::net::socket(
                    rustix::net::AddressFamily::INET,
                    rustix::net::SocketType::STREAM,
                    None,
                );
                assert!(stream.is_err());
                assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
                assert!(std::os::unix::net::UnixDatagram::unbound().is_ok());
                assert!(Command::new("/bin/true").status().is_err());
                for call in refused() {
                    assert_eq!(blkkin_sys::testing::error_of(call), libc::EPERM, "{call:#x}");
                }
            }
            if has("files") {
                assert!(std::fs::read("/etc/shadow").is_err());
                assert!(std::fs::read("/bin/true").is_err());
            }
            // System calls that the agent needs.
            assert!(std::fs::read_to_string("/etc/passwd").is_ok());
            let looked = inspector.inspect(other, 0).unwrap();
            assert!(looked.executable.ends_with("sleep"), "{looked:?}");
            assert!(std::fs::read("/sys/devices/system/cpu/online").is_ok());
            let path = std::env::temp_dir().join(format!("blkkin-confined-{}", std::process::id()));
            std::fs::write(&path, "trace").unwrap();
            std::fs::remove_file(&path).unwrap();
            missing
        });
        let confined = confined.join();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        let missing = confined.unwrap();
        assert_eq!(missing, Vec::<String>::new(), "this kernel has all of it");
        assert!(std::fs::read("/bin/true").is_ok(), "other threads are not confined");
    }
}
