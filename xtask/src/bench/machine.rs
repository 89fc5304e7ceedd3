//! The machine on which a bench runs. Figures depend on it, and on its load.

use serde_json::{Value, json};
use std::fs;
use std::process::Command;

/// Maximum load average of the machine. Above it, other processes distort the figures, and the
/// bench says so.
pub(super) const LOAD_AVERAGE_MAX: f64 = 0.5;

/// Returns a description of the machine for the JSON line, because figures depend on it.
pub(super) fn description() -> Value {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    json!({
        "cpu": after_colon(&cpuinfo, "model name"),
        "cpus": std::thread::available_parallelism().map_or(1, usize::from),
        "memory": after_colon(&meminfo, "MemTotal"),
        "kernel": kernel.trim(),
        "load_average": load_average(),
        "rustc": rustc.unwrap_or_default(),
    })
}

/// Returns the machine's load average over the last minute; 0 if it is unknown.
pub(super) fn load_average() -> f64 {
    let loadavg = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loadavg.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Returns the text after the colon in the first line that begins with `key`.
fn after_colon<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::after_colon;

    #[test]
    fn proc_files_are_read() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz: fast\nprocessor\t: 1\n";
        assert_eq!(after_colon(text, "model name"), Some("A CPU @ 3 GHz: fast"));
        assert_eq!(after_colon(text, "flags"), None);
    }
}
