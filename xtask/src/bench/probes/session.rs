//! A session of an agent as a recorder: uprobes, USDT probes, and the waits of requests, which no
//! thread of the load has. Start at [`Session`].

use super::case::{Call, Case, Subject};
use super::recorder::{Recorder, Run, Workspace};
use crate::bench::agent::Agent;
use crate::bench::blkkin::count;
use crate::bench::recipe::find_metadata;
use crate::bench::recording::discarded;

pub(super) const SESSION: &str = "blkkin session";

/// `blkkin` with an agent and a session.
pub(super) struct Session {
    pub(super) program: String,
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
        agent.command(&["session", "start", "bench"])?;
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
