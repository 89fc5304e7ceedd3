//! Run times of programs, which the kernel measures only while a process requests it, because they
//! cost two readings of the clock for each run of any program.

use super::{Attribute, Command, Program, bpf, own};
use std::io;
use std::os::fd::OwnedFd;

/// Kind of statistics: times and numbers of runs.
const RUN_TIME: u32 = 0;
/// Offset of the field `run_time_ns` in `struct bpf_prog_info`.
const PROGRAM_INFO_TIME: usize = 192;
/// Offset of the field `run_cnt` in `struct bpf_prog_info`.
const PROGRAM_INFO_COUNT: usize = 200;

/// Measurement of the run times of all programs of this machine, until this value is dropped.
#[derive(Debug)]
pub struct RunTimes {
    _request: OwnedFd,
}

impl RunTimes {
    /// Begins to measure. Needs `CAP_SYS_ADMIN`. The error is `InvalidInput` on kernels before
    /// Linux 5.8.
    pub fn measure() -> io::Result<RunTimes> {
        let mut attribute = Attribute::new().u32(0, RUN_TIME);
        let request = own(bpf(Command::EnableStatistics, &mut attribute)?);
        Ok(RunTimes { _request: request })
    }
}

/// Runs of a program that were measured so far, by this process or another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramRuns {
    /// Total time in nanoseconds, on all processors.
    pub time_ns: u64,
    /// Number of runs.
    pub count: u64,
}

impl Program {
    /// Returns the runs of the program while run times [were measured](RunTimes).
    pub fn runs(&self) -> io::Result<ProgramRuns> {
        let information = self.information()?;
        let [time_ns, count] =
            [PROGRAM_INFO_TIME, PROGRAM_INFO_COUNT].map(|at| information.word(at));
        Ok(ProgramRuns { time_ns, count })
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::{ProgramRuns, RunTimes};
    use crate::bpf::{AttachPoint, Program};
    use crate::testing::skip;
    use std::io::ErrorKind;

    /// Code of the program: sets the result to 0 and ends.
    const CODE: [u64; 2] = [0xb7, 0x95];
    const RUNS: u64 = 1000;

    #[test]
    fn each_run_is_counted_while_run_times_are_measured() {
        let measured = match RunTimes::measure() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return skip("each_run_is_counted", &error.to_string());
            }
            measured => measured.expect("a kernel since Linux 5.8"),
        };
        let program = Program::load("counted", &CODE, AttachPoint::Run).expect("a program");
        let same = program.clone();
        assert!(program.is_same(&same));
        assert_eq!(program.runs().expect("runs"), ProgramRuns::default());
        for _ in 0..RUNS {
            program.run(&mut [0; 8]).expect("a run");
        }
        drop(measured);
        let runs = same.runs().expect("runs");
        assert_eq!(runs.count, RUNS);
        assert!(runs.time_ns > 0, "{runs:?}");
    }
}
