//! Results of a load: counts, latencies and errors.

use std::fmt::{self, Write};
use std::time::Duration;

/// Counts, latencies and errors of a finished load.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Time in which the slowest client made its requests.
    pub duration: Duration,
    /// Latencies of successful reads in nanoseconds, capped at `u32::MAX` (4.3 s). Reads of the
    /// final verification are not included.
    pub(super) reads: Vec<u32>,
    /// Latencies of successful writes in nanoseconds, capped at `u32::MAX` (4.3 s).
    pub(super) writes: Vec<u32>,
    /// Number of successful flushes.
    pub flushes: u64,
    /// Number of failed requests.
    pub errors: u64,
    /// Number of reads whose contents are no possible version of the block.
    pub mismatches: u64,
    /// Number of blocks that were read again at the end.
    pub verified: u64,
    /// Description of a mismatch: the first of the lowest-numbered client with mismatches.
    pub example: Option<String>,
}

/// Sorted latencies of one kind of request, in nanoseconds.
struct Latency<'a>(&'a [u32]);

impl Report {
    pub(super) fn add(&mut self, other: Report) {
        self.duration = self.duration.max(other.duration);
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.flushes += other.flushes;
        self.errors += other.errors;
        self.mismatches += other.mismatches;
        self.verified += other.verified;
        self.example = self.example.take().or(other.example);
    }

    pub(super) fn finish(&mut self) {
        self.reads.sort_unstable();
        self.writes.sort_unstable();
    }

    /// Returns the number of successful reads and writes per second.
    pub fn iops(&self) -> f64 {
        (self.reads.len() + self.writes.len()) as f64 / self.duration.as_secs_f64().max(1e-9)
    }

    /// Returns true if there were no mismatches.
    pub fn is_right(&self) -> bool {
        self.mismatches == 0
    }

    /// Returns the number of successful writes.
    pub fn write_count(&self) -> u64 {
        self.writes.len() as u64
    }

    /// Returns the number of successful reads before the final verification.
    pub fn read_count(&self) -> u64 {
        self.reads.len() as u64
    }

    /// Formats the results as one line of JSON. Latencies are in microseconds.
    pub fn json(&self) -> String {
        let mut line = format!(
            "{{\"schema\":\"blkkin.blockstack.load.v1\",\"seconds\":{:.3},\"iops\":{:.1},\
             \"flushes\":{},\"errors\":{},\"mismatches\":{},\"verified\":{}",
            self.duration.as_secs_f64(),
            self.iops(),
            self.flushes,
            self.errors,
            self.mismatches,
            self.verified,
        );
        for (name, latencies) in [("read", &self.reads), ("write", &self.writes)] {
            let latency = Latency(latencies);
            let _ = write!(line, ",\"{name}\":{{\"count\":{}", latencies.len());
            for (name, part) in PERCENTILES {
                let _ = write!(line, ",\"{name}_us\":{:.1}", latency.us(part));
            }
            line.push('}');
        }
        line.push('}');
        line
    }
}

/// Reported percentiles, with their names.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

impl Latency<'_> {
    /// Returns a percentile in microseconds, or 0 without latencies. `part` is between 0 and 1.
    fn us(&self, part: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let at = (last as f64 * part).round() as usize;
        self.0.get(at).map_or(0.0, |ns| f64::from(*ns) / 1000.0)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.duration.as_secs_f64();
        writeln!(f, "{:.0} requests a second for {seconds:.2} s", self.iops())?;
        for (name, latencies) in [("reads", &self.reads), ("writes", &self.writes)] {
            let latency = Latency(latencies);
            write!(f, "{name:<7}{:>9} ", latencies.len())?;
            for (name, part) in PERCENTILES {
                write!(f, "  {name} {:.0} µs", latency.us(part))?;
            }
            writeln!(f)?;
        }
        write!(
            f,
            "{} flushes, {} errors, {} blocks read again at the end, {} mismatches",
            self.flushes, self.errors, self.verified, self.mismatches
        )?;
        match &self.example {
            Some(example) => write!(f, "\nfirst: {example}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let mut report = Report { duration: Duration::from_secs(2), ..Report::default() };
        report.add(Report {
            reads: (1..=101).rev().map(|at| at * 1000).collect(),
            ..Report::default()
        });
        report.finish();
        assert_eq!(report.iops(), 50.5);
        let latency = Latency(&report.reads);
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|part| latency.us(part)), [1.0, 51.0, 100.0, 101.0]);
        assert_eq!(Latency(&[]).us(0.5), 0.0);
        assert!(report.json().contains("\"read\":{\"count\":101,\"p50_us\":51.0"));
    }
}
