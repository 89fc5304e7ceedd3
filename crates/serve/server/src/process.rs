//! Metrics of the server's process from `/proc`, named as in Prometheus's client libraries. Start
//! at [`process`].

use crate::exposition::{Exposition, Type};
use std::fs;

/// Clock ticks per second in `/proc/PID/stat` (USER_HZ), the same on every supported architecture.
const TICKS: f64 = 100.0;

/// Metrics of the server's process; `None` where the kernel does not provide a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Process {
    cpu_seconds: Option<f64>,
    start_seconds: Option<f64>,
    resident_bytes: Option<u64>,
    virtual_bytes: Option<u64>,
    threads: Option<u64>,
    open_files: Option<u64>,
    open_files_max: Option<u64>,
}

/// Writes all available metrics of the server's process.
pub(crate) fn process(out: &mut Exposition) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut process = Process::of(
        &read("/proc/self/stat"),
        &read("/proc/stat"),
        &read("/proc/self/status"),
        &read("/proc/self/limits"),
    );
    // The listing includes the directory's own descriptor.
    process.open_files =
        fs::read_dir("/proc/self/fd").ok().map(|files| (files.count() as u64).saturating_sub(1));
    process.write(out);
}

impl Process {
    fn of(stat: &str, system: &str, status: &str, limits: &str) -> Process {
        // The program name may contain spaces and parentheses.
        let fields: Vec<&str> =
            stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
        let ticks = |field: usize| fields.get(field)?.parse().ok().map(|ticks: f64| ticks / TICKS);
        let value = |text: &str, name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let kib = |name| value(status, name).map(|kib| kib << 10);
        let boot = value(system, "btime ");
        Process {
            // Fields 14 and 15 of `stat` are user and system time, 22 is the start; index 0 here is
            // field 3.
            cpu_seconds: ticks(11).zip(ticks(12)).map(|(user, system)| user + system),
            start_seconds: ticks(19).zip(boot).map(|(start, boot)| start + boot as f64),
            resident_bytes: kib("VmRSS:"),
            virtual_bytes: kib("VmSize:"),
            threads: value(status, "Threads:"),
            open_files: None,
            open_files_max: value(limits, "Max open files "),
        }
    }

    fn write(&self, out: &mut Exposition) {
        let float = |number: Option<u64>| number.map(|number| number as f64);
        for (name, kind, help, number) in [
            (
                "cpu_seconds_total",
                Type::Counter,
                "Processor time of the server, in seconds",
                self.cpu_seconds,
            ),
            (
                "start_time_seconds",
                Type::Gauge,
                "When the server started, in seconds since 1970",
                self.start_seconds,
            ),
            (
                "resident_memory_bytes",
                Type::Gauge,
                "Memory that the server takes",
                float(self.resident_bytes),
            ),
            (
                "virtual_memory_bytes",
                Type::Gauge,
                "Address space of the server",
                float(self.virtual_bytes),
            ),
            ("threads", Type::Gauge, "Threads of the server", float(self.threads)),
            ("open_fds", Type::Gauge, "Open files and sockets", float(self.open_files)),
            (
                "max_fds",
                Type::Gauge,
                "Most files and sockets that may be open",
                float(self.open_files_max),
            ),
        ] {
            let Some(number) = number else { continue };
            let name = format!("process_{name}");
            out.family(&name, kind, help);
            out.number(&name, &[], number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says() {
        let stat = "7 (a) b) (c) S 1 7 7 0 -1 4194560 2 0 0 0 150 51 0 0 20 0 9 0 4200 1000 20 18";
        let status = "Name:\ta\nVmSize:\t     2048 kB\nVmRSS:\t 1024 kB\nThreads:\t9\n";
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024  4096  files\n";
        let expected = Process {
            cpu_seconds: Some(2.01),
            start_seconds: Some(1_795_341_834.0),
            resident_bytes: Some(1 << 20),
            virtual_bytes: Some(2 << 20),
            threads: Some(9),
            open_files: None,
            open_files_max: Some(1024),
        };
        let found = Process::of(stat, "cpu  1 2\nbtime 1795341792\n", status, limits);
        assert_eq!(found, expected);
        assert_eq!(Process::of("", "", "", ""), Process::default());
        assert_eq!(
            Process::of("7 (a) S", "btime x", "VmRSS: -1 kB", "Max open files  unlimited"),
            Process::default()
        );
    }
}
