//! End-to-end tests of `blkkin scribe` and `blkkin send`, including kills of the daemon, failing
//! disks, and the client published by Scribe's authors.

mod support;

use blkkin_scribe::{Batch, Client, ClientOptions, Entry, ResultCode, Status, base64};
use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::growing_trace::{Growing, Packet};
use support::process::{Running, Signal, signal, until};
use support::{Scratch, blkkin, is_installed, run, run_with_input, skip, text};

/// Returns the path of an LTTng trace of two processes whose requests have the same ids.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/traces/requests")
}

/// Running `blkkin scribe`, and the address on which it listens.
struct Daemon {
    running: Running,
    address: String,
}

impl Daemon {
    fn start(scratch: &Scratch, arguments: &[&str]) -> Daemon {
        Daemon::listening(scratch, "127.0.0.1:0", "spool", arguments)
    }

    fn listening(scratch: &Scratch, listen: &str, spool: &str, arguments: &[&str]) -> Daemon {
        let mut command = blkkin(&scratch.0);
        command.args(["scribe", "--listen", listen, "--dir", spool]).args(arguments);
        Daemon::run(&mut command)
    }

    fn run(command: &mut Command) -> Daemon {
        let mut running = Running::start(command);
        let line = loop {
            let line = running.error();
            if line.contains("listening on") {
                break line;
            }
        };
        let address = line.split("listening on ").nth(1).expect("an address");
        let address = address.split(';').next().expect("an address").to_owned();
        Daemon { running, address }
    }

    fn url(&self) -> String {
        format!("scribe://{}", self.address)
    }

    fn client(&self) -> Client {
        Client::connect(self.address.as_str(), ClientOptions::default()).expect("a connection")
    }

    fn counter(&self, name: &str) -> i64 {
        self.client().counter(name).expect("a counter")
    }

    #[track_caller]
    fn stop(self) {
        signal(self.running.id(), Signal::TERM);
        let ended = self.running.end();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    }

    fn kill(self) {
        signal(self.running.id(), Signal::KILL);
        self.running.end();
    }
}

/// Returns all lines of all files that were written for a category.
fn lines(directory: &Path, category: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory.join(category)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    // The symbolic link to the current file may be replaced meanwhile.
    paths.retain(|path| !path.to_string_lossy().contains("_current"));
    paths.sort();
    let files = paths.iter().map(|path| fs::read_to_string(path).expect("a file"));
    files.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Events pass through a forwarding daemon and a writing daemon into a file, as `view --json`
/// prints them.
#[test]
fn events_arrive_as_they_are_printed() {
    let scratch = Scratch::new("scribe");
    let out = scratch.0.join("out");
    let last = Daemon::listening(&scratch, "127.0.0.1:0", "last", &["--to", "out"]);
    let first = Daemon::start(&scratch, &["--to", &last.url()]);
    let printed = run(blkkin(&scratch.0).args(["view", "--json"]).arg(example()));
    let printed = text(&printed.stdout);
    let events: Vec<&str> =
        printed.lines().filter(|line| line.starts_with("{\"type\":\"event\"")).collect();
    assert!(events.len() > 10);
    let send = ["send", "--category", "trace", "--json", &first.url()];
    let output = run(blkkin(&scratch.0).args(send).arg(example()));
    assert_eq!(text(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["messages"], events.len());
    assert_eq!((&told["unsent"], &told["batches"]), (&0.into(), &1.into()));
    until("all have come", || lines(&out, "trace").len() == events.len());
    assert_eq!(lines(&out, "trace"), events);
    // The events are in the file before their acknowledgement is counted.
    until("all are acknowledged", || first.counter("trace:sent") == events.len() as i64);
    first.stop();
    last.stop();
}

/// The daemon does not start on an address that other machines can reach, unless `--trust-network`
/// is set, as anyone who can connect can write.
#[test]
fn it_does_not_start_where_anybody_could_write() {
    let scratch = Scratch::new("scribe-open");
    let arguments = ["scribe", "--dir", "spool", "--to", "out", "--listen", "0.0.0.0:0"];
    let output = run(blkkin(&scratch.0).args(arguments));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("can be reached from other machines, by anybody"), "{told}");
    assert!(told.contains("--trust-network"), "{told}");
    assert!(!scratch.0.join("spool").exists());
    let trusting = ["--to", "out", "--trust-network"];
    let daemon = Daemon::listening(&scratch, "0.0.0.0:0", "spool", &trusting);
    assert!(daemon.address.starts_with("0.0.0.0:"), "{}", daemon.address);
    daemon.stop();
}

/// Each span of a request arrives as a message: a span in Zipkin's Thrift format, in base64.
#[test]
fn requests_arrive_as_spans() {
    let scratch = Scratch::new("scribe");
    let out = scratch.0.join("out");
    let daemon = Daemon::start(&scratch, &["--to", "out"]);
    let output = run(blkkin(&scratch.0).args(["send", "--spans", &daemon.url()]).arg(example()));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = run(blkkin(&scratch.0).args(["spans", "--json"]).arg(example()));
    let printed = text(&printed.stdout);
    let mut expected: Vec<String> = printed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .filter(|value| value["type"] == "span")
        .map(|span| {
            let text = |key: &str| span[key].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("trace_id"), text("id"), text("service"))
        })
        .collect();
    assert!(expected.len() >= 7);
    let told = format!("{}: sent {} messages in 1 batch, ", daemon.address, expected.len());
    assert!(text(&output.stderr).starts_with(&told), "{output:?}");
    until("all have come", || lines(&out, "zipkin").len() == expected.len());
    let mut found: Vec<String> = lines(&out, "zipkin")
        .iter()
        .map(|line| {
            let mut thrift = Vec::new();
            base64::decode(line.as_bytes(), &mut thrift).expect("base64");
            let mut spans = Ids(Vec::new());
            let format = blkkin_wire::Format::ZipkinThriftSpan;
            let mut decoder = blkkin_wire::Decoder::default();
            decoder.decode(format, &thrift, &mut spans);
            assert_eq!(spans.0.len(), 1);
            spans.0.remove(0)
        })
        .collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    daemon.stop();
}

struct Ids(Vec<String>);

impl blkkin_model::SpanSink for Ids {
    fn span(&mut self, span: &blkkin_model::SpanRef<'_>) -> std::ops::ControlFlow<()> {
        self.0.push(format!("{} {} {}", span.trace_id, span.id, span.local.service));
        std::ops::ControlFlow::Continue(())
    }
}

/// Each line of standard input arrives as a message, including an empty and a long line. A line
/// larger than a server accepts is omitted with a warning.
#[test]
fn lines_arrive() {
    let scratch = Scratch::new("scribe");
    let daemon = Daemon::start(&scratch, &["--to", "out"]);
    let long = "x".repeat(700_000);
    let input = format!("one\n\n{long}\nlast, without an end");
    let send = ["send", "--lines", "--category", "log", &daemon.url(), "-"];
    let output = run_with_input(blkkin(&scratch.0).args(send), input.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = ["one", "", &long, "last, without an end"];
    until("all have come", || lines(&scratch.0.join("out"), "log").len() == 4);
    assert!(lines(&scratch.0.join("out"), "log") == expected);
    // A message larger than a server accepts is omitted and reported.
    let larger = format!("{}\nafter it\n", "y".repeat(9 << 20));
    let output = run_with_input(blkkin(&scratch.0).args(send), larger.as_bytes());
    assert_eq!(output.status.code(), Some(1));
    let warning = "warning: 1 message left out that were larger than a server takes";
    assert!(text(&output.stderr).contains(warning), "{output:?}");
    until("the rest has come", || lines(&scratch.0.join("out"), "log").len() == 5);
    daemon.stop();
}

/// Events of a growing recording are sent by `--follow` as they are recorded.
#[test]
fn events_are_sent_as_they_come() {
    let scratch = Scratch::new("scribe");
    let out = scratch.0.join("out");
    let daemon = Daemon::start(&scratch, &["--to", "out"]);
    let growing = Growing::begin(&scratch.0.join("trace"), 0);
    let packet = |seq, events: &'static [(u8, u64, u8)]| {
        let time = (events[0].1, events[0].1);
        growing.packet(Packet { stream: 0, seq, time, lost: 0, events });
    };
    packet(0, &[(0, 10, 1)]);
    let send = ["send", "--follow", "--category", "c", &daemon.url(), "trace"];
    let running = Running::start(blkkin(&scratch.0).args(send));
    until("the first has come", || lines(&out, "c").len() == 1);
    packet(1, &[(0, 20, 2)]);
    until("the second has come", || lines(&out, "c").len() == 2);
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    daemon.stop();
}

/// No acknowledged message is lost while the daemon is killed repeatedly. Each line in the files is
/// a message that was sent; a message may be there twice.
#[test]
fn no_kill_loses_what_was_answered() {
    let scratch = Scratch::new("scribe");
    let out = scratch.0.join("out");
    let mut daemon = Daemon::start(&scratch, &["--to", "out"]);
    let mut answered = 0_u64;
    let (mut tried, mut next) = (0, 0);
    for life in 0..6 {
        let address = daemon.address.clone();
        let mut batch = Batch::default();
        // The daemon is killed by another thread while this thread sends.
        let id = daemon.running.id();
        let killer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20 + 15 * life));
            signal(id, Signal::KILL);
        });
        if let Ok(mut client) = Client::connect(address.as_str(), ClientOptions::default()) {
            loop {
                batch.clear();
                for number in next..next + 50 {
                    let message = format!("{number:08}");
                    batch.push(Entry { category: b"c", message: message.as_bytes() });
                }
                tried = next + 50;
                match client.log(&mut batch) {
                    Ok(ResultCode::Ok) => (answered, next) = (answered + 50, next + 50),
                    Ok(ResultCode::TryLater) => {}
                    Err(_) => break,
                }
            }
        }
        killer.join().expect("no panic");
        daemon.running.end();
        daemon = Daemon::listening(&scratch, &address, "spool", &["--to", "out"]);
    }
    assert!(answered > 0);
    let found = || lines(&out, "c").into_iter().collect::<BTreeSet<String>>();
    until("all that was answered has come", || {
        let found = found();
        (0..answered).all(|number| found.contains(&format!("{number:08}")))
    });
    // Unacknowledged messages may be stored as well, but each line is a message that was sent.
    let strange: Vec<String> = found()
        .into_iter()
        .filter(|line| !line.parse::<u64>().is_ok_and(|number| number < tried))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
    daemon.kill();
}

/// No acknowledged message is lost while `fdatasync` fails repeatedly, on journals, positions of
/// stores, or files.
#[test]
fn a_disk_that_fails_loses_nothing() {
    if !is_installed("strace") {
        return skip("a_disk_that_fails_loses_nothing", "no strace");
    }
    for when in ["1+4", "2+3", "3+5"] {
        let scratch = Scratch::new("scribe");
        let inject = format!("inject=fdatasync:error=EIO:when={when}");
        let daemon = blkkin(&scratch.0);
        // With -D, strace is a grandchild, so that the child process is the daemon.
        let mut command = Command::new("strace");
        command.args(["-D", "-f", "-q", "-o", "trace", "-e", "trace=fdatasync", "-e", &inject]);
        command.arg(daemon.get_program()).current_dir(&scratch.0);
        command.args(["scribe", "--listen", "127.0.0.1:0", "--dir", "spool", "--to", "out"]);
        let daemon = Daemon::run(&mut command);
        let (mut client, mut batch) = (daemon.client(), Batch::default());
        for number in 0..300_u64 {
            batch.clear();
            let message = format!("{number:08}");
            batch.push(Entry { category: b"c", message: message.as_bytes() });
            until("it is taken", || client.log(&mut batch).expect("an answer") == ResultCode::Ok);
        }
        let out = scratch.0.join("out");
        until("all have come", || {
            let found: BTreeSet<String> = lines(&out, "c").into_iter().collect();
            found.into_iter().eq((0..300).map(|number| format!("{number:08}")))
        });
        let trace = fs::read_to_string(scratch.0.join("trace")).expect("what strace saw");
        assert!(trace.contains("EIO"), "nothing has failed: {trace}");
        daemon.stop();
    }
}

/// Sending is abandoned if the server stays down, and succeeds if the server starts later.
#[test]
fn sending_is_tried_again_and_given_up() {
    let scratch = Scratch::new("scribe");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let url = format!("scribe://{address}");
    let send = ["send", "--lines", "--category", "c", "--patience", "0.1", &url, "-"];
    let output = run_with_input(blkkin(&scratch.0).args(send), b"a\nb\n");
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    let told = format!("error: {address}: cannot connect: Connection refused (os error 111); 2 ");
    assert!(errors.contains(&told), "{errors}");
    fs::write(scratch.0.join("lines"), "a\nb\n").expect("to write");
    let send = ["send", "--lines", "--category", "c", &url, "lines"];
    let running = Running::start(blkkin(&scratch.0).args(send));
    std::thread::sleep(std::time::Duration::from_millis(100));
    let daemon = Daemon::listening(&scratch, &address, "spool", &["--to", "out"]);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    until("both have come", || lines(&scratch.0.join("out"), "c") == ["a", "b"]);
    daemon.stop();
}

#[test]
fn wrong_usage_is_told() {
    let scratch = Scratch::new("scribe");
    let check = |arguments: &[&str], status: i32, expected: &str| {
        let output = run(blkkin(&scratch.0).args(arguments));
        let errors = text(&output.stderr);
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
        assert_eq!(output.status.code(), Some(status), "{errors}");
    };
    check(&["scribe"], 2, "--to <TARGET>");
    check(&["scribe", "--to", "scribe://"], 2, "not of the form scribe://HOST[:PORT]");
    check(&["scribe", "--to", "http://a"], 2, "not of the form scribe://HOST[:PORT]");
    check(&["scribe", "--to", "x", "--listen", "nonsense"], 2, "no address to listen on");
    check(
        &["scribe", "--to", "x", "--listen", "0.0.0.0:0"],
        2,
        "hint: Scribe's protocol has neither passwords nor encryption; if you trust the network",
    );
    check(&["scribe", "--config", "none"], 1, "cannot read none: No such file");
    check(&["send", "--category", "c", "http://x", "t"], 2, "not of the form scribe://");
    check(&["send", "scribe://x", "t"], 2, "--category <NAME>");
    check(&["send", "--category", " ", "scribe://x", "t"], 2, "--category is empty");
    let configuration = "port=1463\nmax_queue_size=1\n<store>\ncategory=a\ntype=fiel\n</store>\n";
    fs::write(scratch.0.join("bad"), configuration).expect("to write");
    check(&["scribe", "--config", "bad", "--check"], 1, "warning: line 5: `type=fiel`: no such");
    check(&["scribe", "--config", "bad", "--check"], 1, "line 2: `max_queue_size` has no effect");
}

/// SIGHUP reloads the configuration, and faults of the new configuration are in the daemon's
/// status.
#[test]
fn the_configuration_is_read_again() {
    let scratch = Scratch::new("scribe");
    let write = |text: &str| fs::write(scratch.0.join("conf"), text).expect("to write");
    write("<store>\ncategory=default\ntype=fiel\n</store>\n");
    let daemon = Daemon::start(&scratch, &["--config", "conf"]);
    let mut client = daemon.client();
    assert_eq!(client.status().expect("a status"), Status::Warning);
    let details = client.status_details().expect("details");
    assert!(details.starts_with("line 3: `type=fiel`"), "{details}");
    write("<store>\ncategory=default\ntype=null\n</store>\n");
    signal(daemon.running.id(), Signal::HUP);
    until("it is well", || client.status().expect("a status") == Status::Alive);
    fs::remove_file(scratch.0.join("conf")).expect("to remove");
    signal(daemon.running.id(), Signal::HUP);
    until("it is not", || client.status_details().expect("details").starts_with("cannot read"));
    daemon.stop();
}

/// Python program with the client that Scribe's authors published. It uses both forms of the binary
/// protocol and the monitoring calls, as documented.
const PYTHON: &str = r#"
import builtins, sys
# The published code has this word of Python 2 where it reads maps.
builtins.xrange = range
from scribe import scribe
from thrift.transport import TTransport, TSocket
from thrift.protocol import TBinaryProtocol

def connect(strict):
    socket = TSocket.TSocket(host="127.0.0.1", port=int(sys.argv[1]))
    transport = TTransport.TFramedTransport(socket)
    protocol = TBinaryProtocol.TBinaryProtocol(
        trans=transport, strictRead=strict, strictWrite=strict)
    transport.open()
    return transport, scribe.Client(iprot=protocol, oprot=protocol)

for strict in (False, True):
    transport, client = connect(strict)
    entries = [scribe.LogEntry(category="python", message="strict %s number %d" % (strict, n))
               for n in range(1000)]
    assert client.Log(messages=entries) == scribe.ResultCode.OK
    assert client.Log(messages=[]) == scribe.ResultCode.OK
    assert client.getName() == "Scribe", client.getName()
    assert client.getVersion() == "2.2"
    assert client.getStatus() == 2, client.getStatus()
    assert client.getStatusDetails() == ""
    assert client.getCounter("python:received good") >= 1000
    assert client.getCounters()["scribe_overall:received good"] >= 1000
    assert client.aliveSince() > 1700000000
    client.setOption("key", "value")
    assert client.getOption("key") == "value"
    assert client.getOptions() == {"key": "value"}
    assert client.getCpuProfile(1) == ""
    client.reinitialize()
    assert client.Log(messages=entries[:1]) == scribe.ResultCode.OK
    transport.close()
print("done")
"#;

/// Returns a Python interpreter that has the published client of Scribe: the one installed by
/// `cargo xtask peers`, or else the system's. `None` if neither has it.
fn python() -> Option<String> {
    let named = std::env::var("BLKKIN_PYTHON").ok();
    named.into_iter().chain(["python3".to_owned()]).find(|python| {
        let mut command = Command::new(python);
        command.args(["-c", "from scribe import scribe"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

#[test]
fn the_published_client_is_served() {
    let Some(python) = python() else {
        return skip("the_published_client_is_served", "no Python with facebook-scribe");
    };
    let scratch = Scratch::new("scribe");
    let daemon = Daemon::start(&scratch, &["--to", "out"]);
    let (_, port) = daemon.address.rsplit_once(':').expect("a port");
    let output = run(Command::new(python).args(["-c", PYTHON, port]));
    assert_eq!(text(&output.stdout), "done\n", "{}", text(&output.stderr));
    until("all have come", || lines(&scratch.0.join("out"), "python").len() == 2002);
    let lines = lines(&scratch.0.join("out"), "python");
    assert_eq!(
        (lines[0].as_str(), lines[1999].as_str()),
        ("strict False number 0", "strict True number 998")
    );
    daemon.stop();
}
