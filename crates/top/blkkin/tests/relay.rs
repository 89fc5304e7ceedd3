//! `blkkin relay` with LTTng's daemons as producers and `babeltrace2` as viewer, and
//! `blkkin forward` with both relays.

mod support;

use blkkin_sys::testing::Scratch;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::lttng::{BY_PROCESS, BY_USER, EVENTS, Lttng, ROUNDS, start};
use support::node::eventually;
use support::process::{Running, Signal, signal};
use support::relay::{Kind, Relay};
use support::{blkkin, is_installed, run, skip, text};

/// Returns the directories of all traces below `path`.
fn traces(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.join("metadata").is_file() {
            found.push(path.clone());
        }
        if path.is_dir() {
            found.extend(traces(&path));
        }
    }
    found
}

/// Returns the number of events that babeltrace2 reads in a trace, after checking that
/// `blkkin view` prints the same.
#[track_caller]
fn events(trace: &Path) -> usize {
    let theirs = run(Command::new("babeltrace2").env("TZ", "UTC").arg(trace));
    assert!(theirs.status.success(), "{trace:?}: {}", text(&theirs.stderr));
    let ours = run(blkkin(Path::new("/")).arg("view").arg(trace));
    assert!(ours.status.success(), "{trace:?}: {}", text(&ours.stderr));
    assert_eq!(text(&ours.stdout), text(&theirs.stdout), "{trace:?}");
    text(&theirs.stdout).lines().count()
}

/// Starts babeltrace2 as a viewer of the relay's only session.
fn babeltrace2(relay: &Relay) -> Running {
    let before = relay.viewers();
    let session = relay.session().expect("a session");
    let url = session["url"].as_str().expect("a URL");
    let mut command = Command::new("babeltrace2");
    command.env("TZ", "UTC").args(["--no-delta", "--input-format=lttng-live", url]);
    let running = Running::start(&mut command);
    eventually("the relay has another viewer", || {
        relay.viewers().filter(|_| relay.viewers() > before)
    });
    running
}

/// Several viewers get all events of a session that are recorded while they are attached.
#[test]
fn babeltrace2_views_sessions_of_lttng() {
    let Some(lttng) = start("relay-babeltrace2") else { return };
    for channel in [BY_USER, BY_PROCESS] {
        let relay = Relay::start(&lttng, Kind::Ours);
        let session = relay.create(&lttng, "babeltrace", channel);
        let mut program = lttng.program(ROUNDS);
        eventually("the relay has the streams", || {
            relay.session()?["streams"].as_u64().filter(|streams| *streams > 1)
        });
        let viewers: Vec<Running> = (0..2).map(|_| babeltrace2(&relay)).collect();
        for _ in 0..3 {
            program.once_more();
        }
        program.end();
        drop(session);
        for viewer in viewers {
            let ended = viewer.end();
            assert_eq!(ended.status.code(), Some(0), "{ended:?}");
            // The first packets may arrive before or after the viewer.
            let seen = ended.lines.len();
            assert!((3 * EVENTS..=4 * EVENTS).contains(&seen), "{seen}");
            let recorded = relay.recorded();
            assert_eq!(recorded.len(), 4 * EVENTS);
            assert_eq!(ended.lines, recorded[recorded.len() - seen..]);
        }
        drop(relay);
        fs::remove_dir_all(lttng.scratch.0.join("Ours")).expect("the relay's directory");
    }
}

/// Creates a session at a relay that is not live.
fn create(lttng: &Lttng, relay: &Relay, name: &str, kind: &[&str], channel: &[&str]) {
    let url = format!("--set-url=net://127.0.0.1:{}:{}", relay.control, relay.data);
    lttng.lttng(&[&["create", name, &url][..], kind].concat());
    lttng.lttng(&[&["enable-channel", "-s", name, "--userspace"][..], channel, &["ch"]].concat());
    lttng.lttng(&["enable-event", "-s", name, "--userspace", "-c", "ch", "blkkin_sample:*"]);
    lttng.lttng(&["start", name]);
}

/// Each chunk of a rotated session is a complete trace; cleared events are gone.
#[test]
fn sessions_of_lttng_rotate_and_are_cleared() {
    let Some(lttng) = start("relay-rotation") else { return };
    for channel in [BY_USER, BY_PROCESS] {
        let relay = Relay::start(&lttng, Kind::Ours);
        let name = format!("blkkin-rotated-{}", std::process::id());
        create(&lttng, &relay, &name, &[], channel);
        let mut program = lttng.program(ROUNDS);
        lttng.lttng(&["rotate", &name]);
        program.once_more();
        lttng.lttng(&["rotate", &name]);
        program.once_more();
        lttng.lttng(&["clear", &name]);
        program.once_more();
        program.once_more();
        program.end();
        lttng.lttng(&["destroy", &name]);
        let mut counts: Vec<(PathBuf, usize)> = traces(&relay.directory)
            .into_iter()
            .map(|trace| (trace.clone(), events(&trace)))
            .collect();
        counts.sort();
        let numbers: Vec<usize> = counts.iter().map(|(_, count)| *count).collect();
        assert_eq!(numbers, [EVENTS, EVENTS, 2 * EVENTS], "{counts:?}");
        drop(relay);
        fs::remove_dir_all(lttng.scratch.0.join("Ours")).expect("the relay's directory");
    }
}

#[test]
fn snapshots_of_lttng_have_directories_of_their_own() {
    let Some(lttng) = start("relay-snapshots") else { return };
    let relay = Relay::start(&lttng, Kind::Ours);
    let name = format!("blkkin-snapshots-{}", std::process::id());
    create(&lttng, &relay, &name, &["--snapshot"], BY_USER);
    for _ in 0..2 {
        lttng.program(ROUNDS).end();
        lttng.lttng(&["snapshot", "record", "-s", &name]);
    }
    lttng.lttng(&["destroy", &name]);
    let mut found = traces(&relay.directory);
    found.sort();
    let numbers: Vec<usize> = found.iter().map(|trace| events(trace)).collect();
    assert_eq!(numbers, [EVENTS, 2 * EVENTS], "{found:?}");
}

/// A directory that LTTng or a rotation wrote arrives at each relay as it is.
#[test]
fn traces_are_forwarded_to_both_relays() {
    let Some(lttng) = start("relay-forward") else { return };
    let session = lttng.session("forwarded", &[], BY_USER);
    lttng.program(ROUNDS).end();
    let directory = session.end();
    let expected = events(&directory);
    for kind in [Kind::Ours, Kind::Lttng] {
        if kind == Kind::Lttng && !is_installed("lttng-relayd") {
            return skip("traces_are_forwarded_to_both_relays", "lttng-relayd is not installed");
        }
        let relay = Relay::start(&lttng, kind);
        let url = format!("net://127.0.0.1:{}:{}", relay.control, relay.data);
        let mut forward = blkkin(Path::new("/"));
        forward.args(["forward", "--json", "--name", "copy"]).arg(&directory).arg(&url);
        let forwarded = run(&mut forward);
        assert!(forwarded.status.success(), "{}", text(&forwarded.stderr));
        let told: serde_json::Value = serde_json::from_slice(&forwarded.stdout).expect("JSON");
        assert_eq!(
            (&told["schema"], &told["session"]),
            (&"blkkin.forward.v1".into(), &"copy".into())
        );
        let copies = traces(&relay.directory);
        assert_eq!(copies.len(), 1, "{copies:?}");
        assert_eq!(events(&copies[0]), expected);
        let lines = |path: &Path| {
            let output = run(Command::new("babeltrace2").env("TZ", "UTC").arg(path));
            text(&output.stdout).to_owned()
        };
        assert_eq!(lines(&copies[0]), lines(&directory));
    }
}

/// The relay tells systemd when it is ready and when it stops.
#[test]
fn it_runs_as_a_service() {
    let scratch = Scratch::new("relay-service");
    let manager = UnixDatagram::bind(scratch.0.join("notify")).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let said = || {
        let mut bytes = [0; 100];
        let size = manager.recv(&mut bytes).expect("a word");
        text(&bytes[..size]).to_owned()
    };
    let mut command = blkkin(&scratch.0);
    command.args(["relay", "--output", "sessions", "--control-port", "0"]);
    command.args(["--data-port", "0", "--live-port", "0"]).env("NOTIFY_SOCKET", "notify");
    let mut relay = command.stderr(Stdio::null()).spawn().expect("a relay");
    assert_eq!(said(), "READY=1");
    signal(relay.id(), Signal::TERM);
    assert_eq!(said(), "STOPPING=1");
    assert!(relay.wait().expect("its end").success());
}

#[test]
fn commands_say_what_is_wrong() {
    for (words, status, part) in [
        (&["relay", "--listen", "0.0.0.0"][..], 2, "--trusted-network"),
        (&["relay", "--listen", "nowhere"], 2, "--listen"),
        (&["forward", "/nonexistent", "net://localhost"], 1, "is no directory"),
        (&["forward", "/tmp", "localhost"], 2, "net://HOST"),
        (&["forward", "--name", "a/b", "/tmp", "net://localhost"], 2, "--name"),
        (&["forward", "/tmp", "net://127.0.0.1:1:1"], 1, "blkkin relay"),
    ] {
        let output = run(blkkin(Path::new("/")).args(words));
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {errors}");
        assert!(errors.contains(part), "{words:?}: {errors}");
    }
}
