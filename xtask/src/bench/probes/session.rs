//! A session of an agent as a recorder: uprobes, USDT probes, and the waits of requests, which no
//! thread of the load has. Start at [`Session`].

use super::case::{Call, Case, Subject};
use super::recorder::{Recorder, Run, Workspace};
use crate::bench::agent::Agent;
use crate::bench::blkkin::count;
use crate::bench::recipe::find_metadata;
use crate::bench::recording::discarded;
use blkkin_sys::bpf::program_ids;
use std::time::{Duration, Instant};

pub(super) const SESSION: &str = "blkkin session";

/// `blkkin` with an agent and a session.
pub(super) struct Session {
    pub(super) program: String,
}

/// Time that the agent has to attach the probes, and the interval between two checks.
const ATTACH_TIME_MAX: Duration = Duration::from_secs(20);
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Returns the number of programs in the kernel.
fn program_count() -> Result<usize, String> {
    let ids = program_ids().map_err(|error| format!("programs of the kernel: {error}"))?;
    Ok(ids.len())
}

fn wait_until(is_attached: impl Fn() -> Result<bool, String>) -> Result<(), String> {
    let start = Instant::now();
    while !is_attached()? {
        if start.elapsed() > ATTACH_TIME_MAX {
            return Err("the agent attaches no probe".to_owned());
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    // The others follow.
    std::thread::sleep(10 * CHECK_INTERVAL);
    Ok(())
}

impl Recorder for Session {
    fn name(&self) -> &'static str {
        SESSION
    }

    fn records(&self, call: &Call) -> bool {
        call.subject != Subject::SystemCalls
    }

    fn is_peer(&self) -> bool {
        false
    }

    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String> {
        let load = workspace.load.program().display();
        let event = match case.call.subject {
            Subject::SystemCalls => return Err("system calls are recorded by blkkin io".to_owned()),
            Subject::Function => ["--probe".to_owned(), format!("uprobe:{load}:bench_hit")],
            Subject::Usdt => ["--probe".to_owned(), format!("usdt:{load}:bench:hit")],
            Subject::Waits => ["--kernel".to_owned(), "request:wait".to_owned()],
        };
        let agent = Agent::start(&self.program, &workspace.folder)?;
        let trace = workspace.folder.join("session");
        agent.command(&["session", "create", "--output", &trace.to_string_lossy(), "bench"])?;
        // The state of all processes is not under measurement.
        agent.command(&["event", "enable", "--no-state", &event[0], &event[1]])?;
        let others = program_count()?;
        agent.command(&["session", "start", "bench"])?;
        wait_until(|| Ok(program_count()? > others))?;
        let cost = workspace.load.run(case)?;
        agent.command(&["session", "destroy", "bench"])?;
        drop(agent);
        if case.attempted() == 0 {
            return Ok(Run::bare(cost, case));
        }
        let delivered = Some(count(&self.program, &trace, None)?);
        let lost = find_metadata(&trace)?.parent().map(discarded).transpose()?;
        Ok(Run { delivered, lost, ..Run::bare(cost, case) })
    }
}
