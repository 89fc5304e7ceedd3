//! The checks, in the order in which they are printed.

use super::feature::Feature::{
    self, Agent, Fentry, Io, Kprobe, Preload, Process, Profile, Raw, Syscall, Tracepoint, Uprobe,
    Usdt,
};
use super::rights::{self, Rights};
use crate::commands::io;
use crate::output::own_command;
use blkkin_client::{Client, Timeouts};
use blkkin_kernel::{
    Btf, Inability, InabilityKind, Listing, ProbeKind, SystemCall, TraceFs, abilities,
};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Maximum time to wait for the agent.
const PATIENCE: Duration = Duration::from_secs(1);
/// Features that need programs in the kernel.
const KERNEL: &[Feature] =
    &[Io, Syscall, Tracepoint, Process, Raw, Kprobe, Fentry, Uprobe, Usdt, Profile];
/// Path of the state of the kernel's lockdown mode, below the root of securityfs.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It works.
    Works,
    /// It does not work.
    Missing,
    /// Only a user with more rights can find out.
    Unknown,
    /// It is missing, but no feature fails without it.
    Note,
}

/// Thing that features of BlkKin need, and whether it is there.
#[derive(Debug)]
pub(super) struct Check {
    /// Name of the thing.
    pub(super) name: &'static str,
    pub(super) state: State,
    /// State that was found, or the reason why it does not work.
    pub(super) found: String,
    /// Features that need it.
    pub(super) features: &'static [Feature],
    /// The features as text.
    pub(super) purpose: &'static str,
    /// Command or advice that enables it.
    pub(super) fix: Option<String>,
}

impl Check {
    fn new(name: &'static str, features: &'static [Feature], purpose: &'static str) -> Check {
        Check { name, state: State::Works, found: String::new(), features, purpose, fix: None }
    }

    fn works(self, found: impl Into<String>) -> Check {
        Check { state: State::Works, found: found.into(), ..self }
    }

    fn missing(self, found: impl Into<String>, fix: impl Into<String>) -> Check {
        let fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        Check { state: State::Missing, found: found.into(), fix, ..self }
    }

    /// Sets the result of an attempt. `fix` is for a kernel or machine that lacks the feature.
    fn attempt(
        self,
        result: Result<impl Into<String>, Inability>,
        rights: &Rights,
        fix: &str,
    ) -> Check {
        match result {
            Ok(found) => self.works(found),
            Err(Inability { kind: InabilityKind::NoRight, reason }) => {
                match rights.missing().is_empty() {
                    // The first line has what to do.
                    false => Check { state: State::Unknown, found: "needs rights".into(), ..self },
                    true => self.missing(reason, REFUSED),
                }
            }
            Err(Inability { reason, .. }) => self.missing(reason, fix),
        }
    }
}

/// Advice if the kernel refuses something although the process has the capabilities.
const REFUSED: &str = "a security module, seccomp or lockdown refuses it: run it outside of the container, or as \
    `docker run --privileged`";

/// Advice for kernels without a feature.
const OTHER_KERNEL: &str = "boot a kernel of your distribution, which has it";

/// Makes all checks.
pub(super) fn all() -> Vec<Check> {
    let rights = Rights::own();
    let btf = Btf::of_kernel().map_err(Inability::from);
    let tracefs = TraceFs::open().map_err(Inability::from);
    vec![
        kernel(),
        rights_check(&rights),
        types(&btf, &rights),
        tracing(&tracefs, &rights),
        memory(&rights),
        system_calls(&tracefs, &btf, &rights),
        tracepoints(&tracefs, &rights),
        raw_tracepoints(&btf, &rights),
        kernel_functions(&rights),
        typed_functions(&btf, &rights),
        user_functions(&rights),
        clock(&rights),
        run_times(&rights),
        namespace(),
        lockdown(),
        control_groups(),
        preload(),
        agent(),
    ]
}

/// Returns true if all that a feature needs works.
pub(super) fn work_for(checks: &[Check], feature: Feature) -> bool {
    let mut needed = checks.iter().filter(|check| check.features.contains(&feature));
    needed.all(|check| check.state == State::Works)
}

fn kernel() -> Check {
    let name = rustix::system::uname();
    let found = format!(
        "{} {}, {}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy(),
        name.machine().to_string_lossy()
    );
    let check = Check::new("kernel", KERNEL, "io, all probes");
    match cfg!(target_arch = "x86_64") {
        true => check.works(found),
        false => check.missing(
            format!("{found}: kernel probes are made for x86_64 only"),
            "blkkin io --preload works on other processors",
        ),
    }
}

fn rights_check(rights: &Rights) -> Check {
    let check = Check::new("rights", KERNEL, "io, all probes");
    let who = match rights.user {
        0 => "root".to_owned(),
        user => format!("user {user}"),
    };
    let missing = rights.missing();
    if missing.is_empty() {
        return check.works(format!("{who}, all capabilities"));
    }
    let program = own_command();
    let fix = match rights.user {
        0 => {
            let options = missing.iter().map(|name| format!("--cap-add {}", &name["CAP_".len()..]));
            format!("docker run {} …", options.collect::<Vec<_>>().join(" "))
        }
        _ => format!("sudo {program} doctor"),
    };
    let settings = rights::settings();
    let settings = match settings.is_empty() {
        true => String::new(),
        false => format!(" ({})", settings.join(", ")),
    };
    check.missing(format!("{who}, without {}{settings}", missing.join(", ")), fix)
}

fn types(btf: &Result<Btf, Inability>, rights: &Rights) -> Check {
    let check = Check::new(
        "kernel's types (BTF)",
        &[Io, Syscall, Process, Raw, Fentry],
        "io, syscall, raw, fentry",
    );
    let found = btf.as_ref().map(|btf| format!("{} types", btf.end_id() - 1));
    let fix = match Path::new("/sys/kernel").exists() {
        true => "boot a kernel with CONFIG_DEBUG_INFO_BTF=y: those of distributions have it",
        false => "mount -t sysfs sysfs /sys",
    };
    check.attempt(found.map_err(Inability::clone), rights, fix)
}

fn tracing(tracefs: &Result<TraceFs, Inability>, rights: &Rights) -> Check {
    let check =
        Check::new("tracing file system", &[Io, Syscall, Tracepoint], "io, syscall, tracepoint");
    let found = tracefs.as_ref().map(|tracefs| match tracefs.mount_point() {
        Some(path) => path.to_owned(),
        None => "mounted privately".to_owned(),
    });
    let fix = "mount -t tracefs nodev /sys/kernel/tracing";
    check.attempt(found.map_err(Inability::clone), rights, fix)
}

fn memory(rights: &Rights) -> Check {
    let check = Check::new("memory for eBPF", KERNEL, "io, all probes");
    let found = abilities::map_memory().map(|bytes| format!("rings of {} MiB", bytes >> 20));
    check.attempt(found, rights, "ulimit -l unlimited")
}

/// Records no process for a moment, as `blkkin io` does.
fn system_calls(
    tracefs: &Result<TraceFs, Inability>,
    btf: &Result<Btf, Inability>,
    rights: &Rights,
) -> Check {
    let check = Check::new("system calls", &[Io, Syscall, Process], "io, syscall, process");
    let record = || -> Result<String, Inability> {
        let tracefs = tracefs.as_ref().map_err(Inability::clone)?;
        let names = tracefs.system_call_names()?;
        let calls =
            blkkin_io::call_names().filter_map(|name| tracefs.system_call(name).transpose());
        let calls = calls.collect::<Result<Vec<SystemCall>, _>>()?;
        abilities::recording(calls, btf.as_ref().map_err(Inability::clone)?)?;
        Ok(format!("{} calls", names.len()))
    };
    check.attempt(
        record(),
        rights,
        "boot a kernel with CONFIG_FTRACE_SYSCALLS=y, Linux 5.12 or newer",
    )
}

fn tracepoints(tracefs: &Result<TraceFs, Inability>, rights: &Rights) -> Check {
    let check = Check::new("tracepoints", &[Tracepoint], "tracepoint");
    let attach = || -> Result<String, Inability> {
        let tracefs = tracefs.as_ref().map_err(Inability::clone)?;
        abilities::tracepoint(tracefs)?;
        let names = Listing::new().names(ProbeKind::Tracepoint)?;
        Ok(format!("{} tracepoints", names.len()))
    };
    check.attempt(attach(), rights, OTHER_KERNEL)
}

fn raw_tracepoints(btf: &Result<Btf, Inability>, rights: &Rights) -> Check {
    let check = Check::new("raw tracepoints", &[Raw, Process, Io, Syscall], "io, raw, process");
    let attach = || -> Result<String, Inability> {
        let btf = btf.as_ref().map_err(Inability::clone)?;
        abilities::raw_tracepoint(btf)?;
        Ok(format!("{} tracepoints", btf.raw_tracepoints().count()))
    };
    check.attempt(attach(), rights, OTHER_KERNEL)
}

fn kernel_functions(rights: &Rights) -> Check {
    let check = Check::new("kernel functions", &[Kprobe], "kprobe");
    let found = abilities::kernel_function().map(|()| "by breakpoints");
    let fix = "boot a kernel with CONFIG_KPROBE_EVENTS=y: those of distributions have it";
    check.attempt(found, rights, fix)
}

fn typed_functions(btf: &Result<Btf, Inability>, rights: &Rights) -> Check {
    let check = Check::new("functions with types", &[Fentry], "fentry");
    let attach = || {
        abilities::typed_function(btf.as_ref().map_err(Inability::clone)?)?;
        Ok("attached")
    };
    let fix = "boot a kernel with CONFIG_FUNCTION_TRACER=y and CONFIG_DEBUG_INFO_BTF=y, as distributions have";
    check.attempt(attach(), rights, fix)
}

fn user_functions(rights: &Rights) -> Check {
    let check = Check::new("program functions", &[Uprobe, Usdt], "uprobe, usdt");
    let found = abilities::user_function().map(|()| "by breakpoints");
    let fix = "boot a kernel with CONFIG_UPROBE_EVENTS=y: those of distributions have it";
    check.attempt(found, rights, fix)
}

fn clock(rights: &Rights) -> Check {
    let check = Check::new("processors' clocks", &[Profile], "profile");
    let found = abilities::clock()
        .map(|()| format!("up to {} times a second", blkkin_kernel::sample_rate_max()));
    check.attempt(
        found,
        rights,
        "boot a kernel with CONFIG_PERF_EVENTS=y: those of distributions have it",
    )
}

/// Nothing fails without run times, but costly probes stay attached.
fn run_times(rights: &Rights) -> Check {
    let check = Check::new("run times of probes", &[], "agent --probe-budget");
    let found = abilities::run_times().map(|()| "measured");
    let check = check.attempt(found, rights, "boot Linux 5.8 or newer");
    match check.state {
        State::Missing => Check { state: State::Note, ..check },
        _ => check,
    }
}

fn namespace() -> Check {
    let check = Check::new("process ids", &[Io], "io");
    match io::check_namespace() {
        Ok(()) => check.works("the kernel's own"),
        Err(error) => check.missing(error.message(), "docker run --pid=host …"),
    }
}

/// Lockdown restricts root, too. What it forbids, other lines show; this one says why.
fn lockdown() -> Check {
    let check = Check::new("lockdown", &[], "-");
    let state = fs::read_to_string(LOCKDOWN);
    let mode = state.as_ref().map(|state| chosen_mode(state));
    match mode {
        Ok("confidentiality") => Check {
            state: State::Note,
            fix: Some("boot with lockdown=integrity, or without Secure Boot".into()),
            ..check.works("confidentiality: probes cannot read the kernel's memory")
        },
        Ok(mode) => check.works(mode),
        Err(_) => check.works("none visible"),
    }
}

/// Returns the word in brackets in `none [integrity] confidentiality`.
fn chosen_mode(state: &str) -> &str {
    let start = state.find('[').map_or(0, |start| start + 1);
    let rest = state.get(start..).unwrap_or_default();
    rest.split(']').next().unwrap_or_default().trim()
}

fn control_groups() -> Check {
    let check = Check::new("cgroup v2", &[], "-");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut parts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    match parts.find(|parts| parts.get(2) == Some(&"cgroup2")) {
        Some(parts) => check.works(parts.get(1).copied().unwrap_or_default()),
        None => Check {
            state: State::Note,
            fix: Some("mount -t cgroup2 none /sys/fs/cgroup".into()),
            ..check.works("not mounted; no command needs it yet")
        },
    }
}

fn preload() -> Check {
    let check = Check::new("libblkkin_preload.so", &[Preload], "io --preload");
    match io::preload_library() {
        Ok(_) => check.works("installed"),
        Err(error) => {
            check.missing("not installed beside this program", error.advice().unwrap_or_default())
        }
    }
}

fn agent() -> Check {
    let check = Check::new("agent", &[Agent], "session, event, status");
    let patience = Timeouts { opening: PATIENCE, item: PATIENCE };
    let release = env!("CARGO_PKG_VERSION");
    match Client::connect(&blkkin_client::addresses(), "blkkin", release, patience) {
        Ok(client) => {
            check.works(format!("{} at {}", client.release(), client.address().display()))
        }
        Err(blkkin_client::Error::NoDaemon { .. }) => {
            check.missing("not running", format!("{} agent &", own_command()))
        }
        Err(error) => check.missing(
            error.to_string(),
            error.hint().map(|hint| hint.to_string()).unwrap_or_default(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::chosen_mode;

    #[test]
    fn the_mode_of_lockdown_is_in_brackets() {
        assert_eq!(chosen_mode("[none] integrity confidentiality\n"), "none");
        assert_eq!(chosen_mode("none [integrity] confidentiality\n"), "integrity");
        assert_eq!(chosen_mode("none\n"), "none");
        assert_eq!(chosen_mode(""), "");
    }
}
