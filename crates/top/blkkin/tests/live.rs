//! `blkkin live`, and `blkkin view` and `blkkin spans` of a relay's sessions, with LTTng's session
//! daemon as the producer. The relays are `lttng-relayd` and `blkkin relay`.

mod support;

use std::path::Path;
use support::lttng::{BY_PROCESS, BY_USER, EVENTS, Lttng, ROUNDS, start};
use support::node::eventually;
use support::process::{Ended, Running};
use support::relay::{Kind, Relay, free_ports};
use support::{blkkin, is_installed, run, skip, text};

fn lines(running: &mut Running, count: usize) -> Vec<String> {
    (0..count).map(|_| running.line()).collect()
}

/// Checks what a viewer has printed against what the relay has on its disk.
#[track_caller]
fn check_equal(mut lines: Vec<String>, ended: Ended, mut recorded: Vec<String>) {
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    lines.extend(ended.lines);
    // On a busy machine, a stream can be silent for longer than others wait for it.
    if !ended.errors.is_empty() {
        assert!(
            ended.errors.iter().all(|line| line.contains("came too late")),
            "{:?}",
            ended.errors
        );
        lines.sort();
        recorded.sort();
    }
    let different = lines.iter().zip(&recorded).position(|(ours, theirs)| ours != theirs);
    if let Some(line) = different {
        panic!("line {line}:\n{}\n{}", lines[line], recorded[line]);
    }
    assert_eq!(lines.len(), recorded.len());
}

/// Views a session from its beginning to its end, with programs that start before and later.
fn view_to_the_end(lttng: &Lttng, relay: &Relay, channel: &[&str], viewers: usize) {
    let session = relay.create(lttng, "live", channel);
    let mut program = lttng.program(ROUNDS);
    let words = ["view", "--no-delta", "--from", "beginning"];
    let mut running: Vec<Running> = (0..viewers).map(|_| relay.view(&words)).collect();
    let mut seen: Vec<Vec<String>> = running.iter_mut().map(|view| lines(view, EVENTS)).collect();
    program.once_more();
    let other = lttng.program(ROUNDS);
    for (view, seen) in running.iter_mut().zip(&mut seen) {
        seen.extend(lines(view, 2 * EVENTS));
    }
    program.once_more();
    // lttng-relayd can say that a stream has ended before it has given all packets, if the program
    // ends first.
    if relay.kind == Kind::Lttng {
        for (view, seen) in running.iter_mut().zip(&mut seen) {
            seen.extend(lines(view, EVENTS));
        }
    }
    program.end();
    other.end();
    drop(session);
    for (view, seen) in running.into_iter().zip(seen) {
        let ended = view.end();
        check_equal(seen, ended, relay.recorded());
    }
    assert_eq!(relay.recorded().len(), 4 * EVENTS);
}

fn start_with_relayd(test: &str) -> Option<Lttng> {
    match is_installed("lttng-relayd") {
        true => start(test),
        false => {
            skip(test, "lttng-relayd is not installed");
            None
        }
    }
}

#[test]
fn sessions_of_lttng_relayd_are_viewed_to_their_end() {
    let Some(lttng) = start_with_relayd("live-relayd") else { return };
    for channel in [BY_USER, BY_PROCESS] {
        let relay = Relay::start(&lttng, Kind::Lttng);
        view_to_the_end(&lttng, &relay, channel, 1);
        drop(relay);
        std::fs::remove_dir_all(lttng.scratch.0.join("Lttng")).expect("the relay's directory");
    }
}

#[test]
fn sessions_of_blkkin_relay_are_viewed_to_their_end() {
    let Some(lttng) = start("live-relay") else { return };
    let relay = Relay::start(&lttng, Kind::Ours);
    view_to_the_end(&lttng, &relay, BY_USER, 2);
}

#[test]
fn views_begin_now_and_end_by_limit_interrupt_or_loss() {
    let Some(lttng) = start_with_relayd("live-now") else { return };
    let mut relay = Relay::start(&lttng, Kind::Lttng);
    let session = relay.create(&lttng, "now", BY_USER);
    let mut program = lttng.program(ROUNDS);
    let table = text(&run(&mut relay.ls(&[])).stdout);
    let row = table.lines().nth(1).expect("a session");
    assert!(row.contains(&session.name) && row.contains("0.1 s"), "{table}");

    // The first events are printed, and are left out by the next viewer.
    let limit = ["view", "--from", "beginning", "--limit", "600", "--count"];
    let ended = relay.view(&limit).end();
    assert_eq!((ended.status.code(), &ended.lines[..]), (Some(0), &["600".to_owned()][..]));
    eventually("the viewer has detached", || relay.viewers().filter(|count| *count == 0));
    let filter = ["view", "--json", "--filter", "name == \"blkkin_sample:integers\""];
    let mut view = relay.view(&filter);
    let other = run(blkkin(Path::new("/"))
        .arg("view")
        .arg(relay.session().expect("it")["url"].as_str().expect("a URL")));
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("another viewer is attached"), "{other:?}");
    program.once_more();
    let mut events = 0;
    while events < ROUNDS {
        let line: serde_json::Value = serde_json::from_str(&view.line()).expect("JSON");
        if line["type"] == "event" {
            assert_eq!(line["name"], "blkkin_sample:integers");
            events += 1;
        }
    }
    view.interrupt();
    let ended = view.end();
    assert_eq!((ended.status.code(), ended.errors.len()), (Some(130), 0), "{ended:?}");
    let end: serde_json::Value = serde_json::from_str(&ended.lines[0]).expect("JSON");
    assert_eq!(end["events"], ROUNDS);

    // Sessions that do not exist.
    let url = format!("{}/host/nobody/nothing", relay.url());
    let missing = run(blkkin(Path::new("/")).args(["view", &url]));
    assert_eq!(missing.status.code(), Some(1));
    let errors = text(&missing.stderr);
    assert!(errors.contains("no session `nothing`") && errors.contains(&session.name), "{errors}");

    // The relay dies.
    eventually("the viewer has detached", || relay.viewers().filter(|count| *count == 0));
    let mut view = relay.view(&["view", "--from", "beginning"]);
    lines(&mut view, 2 * EVENTS);
    relay.child.kill().expect("to kill the relay");
    let ended = view.end();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let told = ended.errors.iter().any(|line| {
        line.contains("was lost") && line.contains(&format!("({} events had come)", 2 * EVENTS))
    });
    assert!(told, "{ended:?}");
    program.end();
}

#[test]
fn commands_say_how_relays_are_read() {
    let port = free_ports()[0];
    let url = format!("net://127.0.0.1:{port}/host/node/web");
    for (words, status, part) in [
        (&["view", &url][..], 1, "no relay answers at net://127.0.0.1"),
        (&["spans", "--follow", &url], 1, "no relay answers"),
        (&["spans", &url], 2, "add --follow"),
        (&["info", &url], 2, "blkkin view"),
        (&["merge", &url, "-o", "x"], 2, "blkkin view"),
        (&["view", &url, "/tmp"], 2, "alone"),
        (&["view", "net://127.0.0.1"], 2, "blkkin live ls net://127.0.0.1"),
        (&["view", "net://127.0.0.1/web"], 2, "/host/NAME/SESSION"),
        (&["view", "--from", "now", "/tmp"], 2, "net://"),
        (&["live", "ls", "net://127.0.0.1:x"], 2, "1 to 65535"),
    ] {
        let output = run(blkkin(Path::new("/")).args(words));
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {errors}");
        assert!(errors.contains(part), "{words:?}: {errors}");
    }
}
