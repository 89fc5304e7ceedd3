//! Cost of BlkKin while nothing is recorded: memory of a program that is connected to an agent, and
//! wake-ups of the agent.

use super::blkkin::compile_c;
use super::fixed_rate::Place;
use crate::bench::agent::Agent;
use crate::bench::goal::Goal;
use crate::bench::lttng::KEYVAL_STRING;
use crate::bench::recipe::{Output, Recipe};
use crate::bench::report::Report;
use crate::process::{Memory, Process};
use serde_json::json;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Time in which programs and sessions finish their start.
const SETTLING: Duration = Duration::from_millis(1500);

pub(super) fn measure(
    report: &mut Report,
    place: &Place<'_>,
    is_quick: bool,
) -> Result<(), String> {
    let program = place.folder.join("idle");
    compile_c(&program, &["tracer/blkkin/idle.c"])?;
    memory(report, place.agent, &program)?;
    let duration = Duration::from_secs(if is_quick { 2 } else { 10 });
    wake_ups(report, place, &program, duration)
}

/// A running program that does nothing, and ends on drop.
struct Idle(Child);

impl Idle {
    fn start(agent: &Agent, program: &Path, is_disabled: bool) -> Result<Idle, String> {
        let failed = |error| format!("cannot start {}: {error}", program.display());
        let mut command = agent.traced(program);
        if is_disabled {
            command.env("BLKKIN_DISABLE", "1");
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut idle = Idle(child);
        if let Some(stdout) = &mut idle.0.stdout {
            stdout.read_exact(&mut [0]).map_err(failed)?;
        }
        Ok(idle)
    }

    fn process(&self) -> Process {
        Process(self.0.id())
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Measures the memory of a program that no session records. It is compared with the same program
/// with the library disabled. Both run at the same time, so that both share the library's pages.
fn memory(report: &mut Report, agent: &Agent, program: &Path) -> Result<(), String> {
    let (known, inert) = (Idle::start(agent, program, false)?, Idle::start(agent, program, true)?);
    sleep(SETTLING);
    let (known, inert) = (known.process().memory()?, inert.process().memory()?);
    let beyond = |of: fn(Memory) -> u64| of(known).saturating_sub(of(inert));
    let (private, proportional) =
        (beyond(|memory| memory.private), beyond(|memory| memory.proportional));
    report.row(json!({
        "table": "idle memory",
        "private_bytes": known.private,
        "private_bytes_more": private,
        "proportional_bytes": known.proportional,
        "proportional_bytes_more": proportional,
    }));
    let most = private.max(proportional) as f64 / f64::from(1 << 20);
    let what = "memory of an idle program that an agent knows";
    report.goal(Goal::at_most(1.0, " MiB", what).measured(Some(most)));
    Ok(())
}

/// Counts the wake-ups of an agent whose session records an idle program, and those of the program.
fn wake_ups(
    report: &mut Report,
    place: &Place<'_>,
    program: &Path,
    duration: Duration,
) -> Result<(), String> {
    let output = Output::below(place.folder, "idle")?;
    let session = place.agent.session(&Recipe {
        output: &output.0.join("session"),
        is_snapshot: false,
        channel: &[],
        event: KEYVAL_STRING,
        contexts: &[],
    })?;
    let idle = Idle::start(place.agent, program, false)?;
    let (agent, program) = (Process(place.agent.id()), idle.process());
    sleep(SETTLING);
    let seconds = || agent.cpu_seconds().map(|(user, system)| user + system);
    let before = (agent.sleeps()?, program.sleeps()?, seconds()?);
    sleep(duration);
    let after = (agent.sleeps()?, program.sleeps()?, seconds()?);
    drop(idle);
    session.destroy()?;
    let (agent, program) = (after.0 - before.0, after.1 - before.1);
    report.row(json!({
        "table": "idle agent",
        "seconds": duration.as_secs(),
        "agent_wake_ups": agent,
        "agent_cpu_seconds": after.2 - before.2,
        "program_wake_ups": program,
    }));
    report.say(format!(
        "while nothing happened for {} s, the agent woke up {agent} times and used {:.2} s of \
         processors; the program woke up {program} times",
        duration.as_secs(),
        after.2 - before.2
    ));
    let what = format!("wake-ups of the agent in {} s of nothing", duration.as_secs());
    report.goal(Goal::at_most(0.0, "", what).measured(Some(agent as f64)));
    Ok(())
}
