//! Processor time that attached probes take: the run times of their programs, which the kernel
//! measures, and the time of breakpoints, which it does not measure. A measured run contains a
//! reading of the clock, so that short programs seem to take longer than they do.

use crate::own_function;
use blkkin_sys::bpf::{AttachPoint, Link};
use std::io;
use std::sync::OnceLock;

/// Estimated time for which a breakpoint in a program interrupts it, in nanoseconds, if it cannot
/// be measured. Processors need about 1 µs for the trap, the search for the probe and the displaced
/// instruction; in a virtual machine, 4.3 µs were measured, of which eBPF took 0.1 µs.
const USER_TRAP_NS: u64 = 1000;
/// Estimated time of a breakpoint in the kernel, in nanoseconds. The kernel's own documentation of
/// kprobes has 0.4 to 1.0 µs for older processors. Where the kernel replaces the breakpoint by a
/// jump, the estimate is too high.
const KERNEL_TRAP_NS: u64 = 400;

/// Returns the processor time in nanoseconds that programs have taken while run times were
/// measured. Attachments of the same program must be adjacent.
pub(crate) fn total_ns<'l>(links: impl Iterator<Item = &'l Link>) -> io::Result<u64> {
    let mut total = 0u64;
    let mut last: Option<&Link> = None;
    for link in links {
        let program = link.program();
        if last.replace(link).is_some_and(|last| last.program().is_same(program)) {
            continue;
        }
        let runs = program.runs()?;
        let unmeasured = runs.count.saturating_mul(trap_ns(program.place()));
        total = total.saturating_add(runs.time_ns).saturating_add(unmeasured);
    }
    Ok(total)
}

/// Returns the time in nanoseconds that a breakpoint adds to each run of a program.
fn trap_ns(place: AttachPoint) -> u64 {
    match place {
        AttachPoint::UserInstruction | AttachPoint::UserInstructions => {
            static MEASURED_NS: OnceLock<u64> = OnceLock::new();
            *MEASURED_NS.get_or_init(|| own_function::trap_ns().unwrap_or(USER_TRAP_NS))
        }
        AttachPoint::Instruction => KERNEL_TRAP_NS,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::bpf::{Program, RunTimes};
    use blkkin_sys::testing::skip;
    use std::time::{Duration, Instant};

    const PERIOD_NS: u64 = 1_000_000;

    /// A program at several timers is counted once.
    #[test]
    fn attachments_share_the_runs_of_their_program() {
        let Ok(measured) = RunTimes::measure() else {
            return skip("attachments_share_the_runs", "run times are not measured");
        };
        let program = Program::load("timer", &own_function::NOTHING, AttachPoint::Timer).unwrap();
        let links = [(); 2].map(|()| program.attach_to_timer(0, PERIOD_NS).unwrap());
        let begin = Instant::now();
        while program.runs().unwrap().count < 10 {
            assert!(begin.elapsed() < Duration::from_secs(10), "the timers do not run");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(measured);
        let runs = program.runs().unwrap();
        // Other tests may measure meanwhile, so there may be further runs.
        let shared = |links: &[Link]| total_ns(links.iter()).unwrap();
        let (before, both) = (runs.time_ns, shared(&links));
        let after = program.runs().unwrap().time_ns;
        assert!((before..=after).contains(&both), "{before} {both} {after}");
        assert!(before > 0);
    }

    #[test]
    fn breakpoints_cost_more_than_the_runs_of_their_program() {
        const CALLS: u64 = 100;
        let name = "breakpoints_cost_more";
        let Ok(_measured) = RunTimes::measure() else { return skip(name, "not measured") };
        let Some(link) = own_function::attach() else { return skip(name, "not permitted") };
        for _ in 0..CALLS {
            own_function::function();
        }
        let runs = link.program().runs().unwrap();
        assert!(runs.count >= CALLS, "{runs:?}");
        let trap = trap_ns(AttachPoint::UserInstruction);
        let cost = total_ns([&link].into_iter()).unwrap();
        assert!(trap > 0 && cost >= runs.time_ns + CALLS * trap, "{runs:?} {trap} {cost}");
        assert!(trap_ns(AttachPoint::Instruction) > trap_ns(AttachPoint::FunctionEntry(1)));
    }
}
