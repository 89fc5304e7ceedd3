//! What an agent finds that earlier ones have left.

mod support;

use blkkin_agent::{Limits, Options};
use blkkin_client::{Client, Patience};
use blkkin_control::{Purpose, Reply, Request, Session};
use blkkin_ring::Outcome;
use std::sync::Mutex;
use support::{LeftRings, Program, Running, events, eventually, quota};

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// More sets of rings than an agent takes are lost, which is told and counted. The program records on.
#[test]
fn more_rings_than_are_taken() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("agent.sock");
    let agent = || {
        Running::start(Options {
            socket: socket.clone(),
            is_public: false,
            group: String::new(),
            traces: None,
            manager: None,
            limits: Limits::default(),
            log: |line| LOG.lock().unwrap().push(line.to_owned()),
        })
    };
    let client = || {
        Client::connect(std::slice::from_ref(&socket), "test", "0", Patience::default()).unwrap()
    };
    let first = agent();
    let output = Some(directory.path().join("trace"));
    let session = Session { name: "s".into(), purpose: Purpose::Record, output };
    let mut command = client();
    for request in [
        Request::CreateSession(session),
        Request::EnableEvents(events("*")),
        Request::StartSession("s".into()),
    ] {
        command.ask_all(&request).unwrap();
    }
    let mut program = Program::start_at(&socket);
    program.tell(0, "test:first");
    program.record(0, 0, 0);
    let (rule_bytes, _) = quota(&mut command, blkkin_sys::user_id(), "rule-bytes");
    assert!(rule_bytes > 0);
    drop(first);
    for number in 1..100 {
        assert_eq!(program.record(0, 0, number), Outcome::Recorded);
    }
    // Memory in which there are no rings is no loss.
    let spent = (0..69).map(|_| LeftRings { file: support::sealed_memory(), is_spent: true });
    let live = LeftRings { file: program.files.remove(&0).unwrap(), is_spent: false };
    let orphans = spent.chain([live]).collect();

    let _second = agent();
    let mut program = Program::start_with(&socket, std::process::id(), orphans);
    program.tell(0, "test:first");
    eventually("it has rings, and has got all others back", || {
        program.obey();
        (!program.writers.is_empty() && program.orphan_count() == 0).then_some(())
    });
    let told = "have left more than 64 sets of rings; the others are lost: 6";
    let log = LOG.lock().unwrap().clone();
    assert!(log.iter().any(|line| line.contains(told)), "{log:?}");
    let status = client().ask_all(&Request::Status(None)).unwrap();
    let rules_again = quota(&mut client(), blkkin_sys::user_id(), "rule-bytes");
    assert_eq!(rules_again, (rule_bytes, 0), "rules of earlier agents count too");
    let lost = |reply: &Reply| match reply {
        Reply::Ended(ended) => Some(ended.packets_lost),
        _ => None,
    };
    // One for each processor that it has run on since.
    assert!(status.iter().find_map(lost).is_some_and(|lost| lost > 0), "{status:?}");
    assert_eq!(program.record(0, 0, 100), Outcome::Recorded);
    eventually("it is written", || {
        let traces = support::traces_below(&directory.path().join("trace"));
        let numbers = |trace| support::read(trace).numbers;
        traces.iter().flat_map(|trace| numbers(trace)).any(|one| one == (0, 100)).then_some(())
    });
}
