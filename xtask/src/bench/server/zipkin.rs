//! Latency of the queries of Zipkin's API, on our server and on Zipkin's, with the same spans.
//! Start at [`run`].

use super::load::load;
use super::query_latency::{Candidate, OURS, ask_in_turn, tell};
use super::state::{Bench, clear};
use crate::bench::serving::running::Running;
use crate::tools::at;
use serde_json::json;
use std::fs;

const SPANS: u64 = 500_000;
const COUNT: u64 = 60;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), String> {
    let Some(jar) = bench.peers.zipkin.clone() else {
        bench.skip("there is no server of Zipkin's");
        return Ok(());
    };
    let data = bench.room("data")?;
    let ours = bench.start(&data)?;
    let theirs = Running::zipkin(&bench.folder, &jar, 2 * SPANS)?;
    let loaded = load(bench, &ours, "proto3", SPANS)?;
    let again = load(bench, &theirs, "proto3", SPANS)?;
    ours.settle()?;
    theirs.settle()?;
    if loaded.sent.requests != again.sent.requests {
        return Err("the servers were sent different requests".to_owned());
    }
    let questions = bench.folder.join("questions.jsonl");
    let mut arguments = json!({"requests": loaded.sent.requests, "count": COUNT});
    loaded.numbers.tell(&mut arguments);
    let text = bench.program.text("questions", &arguments)?;
    fs::write(&questions, &text).map_err(at(&questions))?;
    let lines = text.lines().count();
    let ask = |name, server: &Running| -> Result<Candidate, String> {
        let asking = json!({"api": "zipkin", "address": server.web(), "questions": questions});
        Ok(Candidate::new(name, bench.program.ask(&asking)?, lines))
    };
    let mut candidates = vec![ask(OURS, &ours)?, ask("Zipkin", &theirs)?];
    ask_in_turn(&mut candidates, lines)?;
    tell(bench, "Zipkin's API, 500 thousand spans", &candidates);
    for candidate in candidates {
        candidate.asked.end()?;
    }
    ours.stop();
    theirs.stop();
    clear(&data)
}
