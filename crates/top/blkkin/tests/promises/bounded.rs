//! Tests of channels whose events wait for space in the ring, and of channels that limit the size
//! of events.

use super::*;

/// Acts as a tested program: for each input line, records `TEST_COUNT` events, and prints the time
/// needed in microseconds.
#[test]
#[ignore = "a program of other tests"]
fn bursts() {
    let count = env_number("TEST_COUNT", 1000);
    // The first event of a type registers the type.
    record(0);
    say("\nready");
    let mut next = 1;
    for _ in std::io::stdin().lines() {
        let begun = Instant::now();
        for number in next..next + count {
            record(number);
        }
        next += count;
        say(begun.elapsed().as_micros());
    }
    say(next);
}

/// Acts as a tested program: for each input line, records an event with a long string.
#[test]
#[ignore = "a program of other tests"]
fn texts() {
    let text = "x".repeat(env_number("TEST_COUNT", 1000) as usize);
    event!(Level::Info, "test:text", text = "short");
    say("\nready");
    for (number, _) in std::io::stdin().lines().enumerate() {
        event!(Level::Info, "test:text", text = &*text);
        say(number);
    }
    say(0);
}

/// Starts a session with a channel of small rings and the given further options.
fn record_with(node: &Node, options: &[&str]) {
    node.run(&["session", "create", "s", "-o", node.output().to_str().unwrap()]);
    let small = ["channel", "create", "c", "--subbuf-size", "4096", "--num-subbuf", "2"];
    node.run(&[&small, options].concat());
    node.run(&["event", "enable", "test:*"]);
    node.run(&["session", "start", "s"]);
}

fn program(node: &Node, name: &str, count: u64) -> Program {
    let mut command = node.test_program(&[], name);
    command.env("TEST_COUNT", count.to_string());
    let program = Program::start(command);
    eventually("it is recorded", || (traces_below(&node.output()).len() == 1).then_some(()));
    program
}

#[test]
fn a_burst_waits_for_room() {
    let count = env_number("TEST_BURST", 50_000);
    let lost_with = |options: &[&str]| {
        let node = Node::new();
        let _agent = node.agent();
        record_with(&node, options);
        let mut program = program(&node, "bounded::bursts", count);
        let took_us = program.count();
        let tried = program.end();
        node.end_session();
        (check_all(&node.output(), tried), took_us)
    };
    let (lost, _) = lost_with(&[]);
    assert!(lost > 0, "the rings are too large for this test");
    let (lost_waiting, took_us) = lost_with(&["--blocking=5s"]);
    assert_eq!(lost_waiting, 0);
    let figures = format!("{count} events into 8 KiB: {lost} lost; 0 with --blocking");
    figure("blocking", &format!("{figures}, in {} ms", took_us / 1000));
}

/// A stopped agent delays a program by a single wait for space in the ring. Events wait again once
/// the agent has read the ring.
#[test]
fn a_stopped_agent_delays_a_program_once() {
    let node = Node::new();
    let agent = node.agent();
    record_with(&node, &["--blocking=300ms"]);
    let listed = node.run(&["channel", "list"]);
    assert!(listed.contains("wait 300ms, discard"), "{listed}");
    let mut program = program(&node, "bounded::bursts", 5000);
    let mut longest = 0;
    for _ in 0..2 {
        signal(agent.id(), Signal::STOP);
        let took_ms = program.count() / 1000;
        assert!((300..3000).contains(&took_ms), "5000 events took {took_ms} ms");
        longest = longest.max(took_ms);
        // The agent has not read the ring since, so events do not wait again.
        let again_ms = program.count() / 1000;
        assert!(again_ms < 300, "5000 more events took {again_ms} ms");
        signal(agent.id(), Signal::CONT);
        let is_read = || node.run(&["status", "--json", "--interval", "0"]);
        eventually("it is read", || is_read().contains("\"bytes_waiting\":0").then_some(()));
    }
    let tried = program.end();
    node.end_session();
    let lost = check_all(&node.output(), tried);
    assert!(lost > 0);
    figure("blocking", &format!("5000 events of a program whose agent stands still: {longest} ms"));
}

/// Long strings are truncated to keep an event within the channel's limit, which may not exceed a
/// sub-buffer. `view` shows the truncation, and the agent counts the truncated events, also those
/// of programs that have ended.
#[test]
fn strings_are_bounded_as_a_channel_says() {
    let node = Node::new();
    let _agent = node.agent();
    record_with(&node, &["--string-max", "1K"]);
    let too_large =
        node.command(&["channel", "create", "d", "--string-max=8K", "--subbuf-size=4K"]);
    let mut too_large = too_large;
    let refused = too_large.output().unwrap();
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("a sub-buffer of 4096 bytes holds events of up to"), "{words}");
    assert_eq!(refused.status.code(), Some(1));
    let listed = node.run(&["channel", "list", "--json"]);
    assert!(listed.contains("\"string_max\":1024"), "{listed}");
    let mut program = program(&node, "bounded::texts", 3000);
    program.count();
    program.count();
    let cut = || {
        let status = node.run(&["status", "--json", "--interval", "0"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let rows = status["programs"].as_array().unwrap().iter();
        rows.map(|row| row["events_cut"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(cut(), 2);
    program.end();
    eventually("it has ended", || node.applications().is_empty().then_some(()));
    assert_eq!(cut(), 2);
    let told = node.run(&["status", "--interval", "0"]);
    assert!(told.contains("ended programs: long strings of 2 events were shortened"), "{told}");
    node.end_session();
    for format in [&[][..], &["--json"]] {
        let mut view = node.command(&["view"]);
        let shown = run(view.args(format).arg(node.output()));
        let lines = shown.lines().filter(|line| line.contains("test:text"));
        let sizes: Vec<usize> = lines.map(|line| line.matches('x').count()).collect();
        assert_eq!(shown.matches("...[cut: 3000 bytes]").count(), 2, "{shown}");
        assert!(sizes.iter().all(|size| *size < 1024) && sizes[2] > 900, "{sizes:?}");
    }
}
