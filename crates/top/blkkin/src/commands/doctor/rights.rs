//! Rights of this process: its capabilities, and the kernel's settings for other users.

use std::fs;

/// Capability that kernel probes need, with its number.
const CAPABILITIES: [(&str, u32); 3] =
    [("CAP_BPF", CAP_BPF), ("CAP_PERFMON", CAP_PERFMON), ("CAP_SYS_ADMIN", CAP_SYS_ADMIN)];
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Rights of a process.
pub(super) struct Rights {
    pub(super) user: u32,
    /// Effective capabilities, a bit for each.
    capabilities: u64,
}

impl Rights {
    /// Returns the rights of this process.
    pub(super) fn own() -> Rights {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Rights { user: blkkin_sys::user_id(), capabilities: capabilities_in(&status) }
    }

    /// Returns the names of the capabilities that are missing for kernel probes. CAP_SYS_ADMIN
    /// includes the others.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let has = |number: u32| self.capabilities >> number & 1 == 1;
        let missing =
            CAPABILITIES.iter().filter(|(_, number)| !has(*number) && !has(CAP_SYS_ADMIN));
        missing.map(|(name, _)| *name).collect()
    }
}

/// Returns the effective capabilities in the text of `/proc/PID/status`.
fn capabilities_in(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Returns the kernel's settings that keep other users from probes, as `name=value`.
pub(super) fn settings() -> Vec<String> {
    let names = ["unprivileged_bpf_disabled", "perf_event_paranoid"];
    let setting = |name: &&str| {
        let value = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        Some(format!("{name}={}", value.trim()))
    };
    names.iter().filter_map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_includes_the_other_capabilities() {
        let check = |mask: u64, expected: &[&str]| {
            let status = format!("Name:\tx\nCapEff:\t{mask:016x}\nCapBnd:\tffff\n");
            let rights = Rights { user: 1, capabilities: capabilities_in(&status) };
            assert_eq!(rights.missing(), expected, "{mask:x}");
        };
        check(0, &["CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"]);
        check(1 << CAP_SYS_ADMIN, &[]);
        check(1 << CAP_BPF | 1 << CAP_PERFMON, &["CAP_SYS_ADMIN"]);
        check(0x1ff_ffff_ffff, &[]);
        assert_eq!(capabilities_in("CapEff:\tx\n"), 0);
    }
}
