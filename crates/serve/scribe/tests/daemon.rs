//! Tests of the daemon in this process. Its stores are files and servers, which are available or
//! unavailable, or answer `TRY_LATER`. Tests of unavailable stores number the messages, and check
//! that each message answered with `OK` arrives later.

use blkkin_scribe::{
    Batch, Client, ClientOptions, Entries, Entry, Handler, ResultCode, RunningServer, Server,
    ServerOptions, Status,
};
use blkkin_scribed::{Config, Daemon, Options, Plan, Remote};
use blkkin_sys::testing::Scratch;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time limit for a condition that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

struct TestDaemon {
    address: SocketAddr,
    remote: Remote,
    thread: Option<JoinHandle<()>>,
}

/// Starts a daemon that reads this configuration from a file in `directory`.
fn start(directory: &Path, configuration: &str) -> TestDaemon {
    let path = directory.join("scribe.conf");
    fs::write(&path, configuration).expect("to write");
    let configure = move || Plan::of(&Config::read(&fs::read_to_string(&path).expect("to read")));
    let (told, hear) = std::sync::mpsc::channel();
    let directory = directory.join("spool");
    let thread = thread::spawn(move || {
        let daemon = Daemon::start(Options {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            directory,
            configure: Box::new(configure),
            log: |_| (),
        });
        let daemon = daemon.expect("a daemon");
        told.send((daemon.address(), daemon.remote())).expect("the test waits");
        daemon.run();
    });
    let (address, remote) = hear.recv().expect("an address");
    TestDaemon { address, remote, thread: Some(thread) }
}

impl TestDaemon {
    fn client(&self) -> Client {
        Client::connect(self.address, ClientOptions::default()).expect("a connection")
    }

    fn stop(mut self) {
        self.remote.stop();
        self.thread.take().expect("once").join().expect("no panic");
    }

    fn send(&self, category: &[u8], messages: impl Iterator<Item = String>) -> ResultCode {
        let mut batch = Batch::default();
        for message in messages {
            batch.push(Entry { category, message: message.as_bytes() });
        }
        self.client().log(&mut batch).expect("an answer")
    }

    fn counters(&self) -> BTreeMap<String, i64> {
        self.client().counters().expect("counters")
    }

    fn counter(&self, name: &str) -> i64 {
        self.client().counter(name).expect("a counter")
    }

    fn details(&self) -> String {
        self.client().status_details().expect("details")
    }
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it does not come to be: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn numbered(count: u64) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("message {number}"))
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Second Scribe server, to which the daemon forwards messages. Stores them in memory.
#[derive(Default)]
struct Downstream {
    got: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    tries_later: AtomicBool,
}

struct DownstreamHandler(Arc<Downstream>);

impl Handler for DownstreamHandler {
    fn log(&self, entries: &Entries<'_>) -> ResultCode {
        if self.0.tries_later.load(Ordering::SeqCst) {
            return ResultCode::TryLater;
        }
        let mut got = self.0.got.lock().expect("no panic");
        got.extend(entries.iter().map(|entry| (entry.category.to_vec(), entry.message.to_vec())));
        ResultCode::Ok
    }
}

fn downstream(address: &str) -> (RunningServer<DownstreamHandler>, Arc<Downstream>) {
    let downstream = Arc::new(Downstream::default());
    let server = Server::bind(address, ServerOptions::default()).expect("a port");
    (server.start(DownstreamHandler(Arc::clone(&downstream))).expect("a thread"), downstream)
}

impl Downstream {
    fn messages(&self) -> Vec<String> {
        let got = self.got.lock().expect("no panic");
        got.iter().map(|(_, message)| String::from_utf8_lossy(message).into_owned()).collect()
    }
}

fn network(port: u16) -> String {
    format!(
        "<store>\ncategory=default\ntype=network\nremote_host=127.0.0.1\nremote_port={port}\n\
         timeout=5000\n</store>\n"
    )
}

fn files(path: &Path) -> String {
    format!(
        "<store>\ncategory=default\ntype=file\nfile_path={}\nadd_newlines=1\n</store>\n",
        path.display()
    )
}

/// A category's messages go to the stores with its exact name, else to those with the longest
/// matching prefix, else to the default stores. Each category has its own files.
#[test]
fn messages_go_where_their_category_says() {
    let scratch = Scratch::new("scribed");
    let store = |category: &str, more: &str| {
        let path = scratch.0.join("out").display().to_string();
        format!(
            "<store>\ncategory={category}\ntype=file\nfile_path={path}\nadd_newlines=1\n{more}\n\
             </store>\n"
        )
    };
    let configuration = [
        store("exact other", "sub_directory=exact\nbase_filename=base"),
        store("ex*", "sub_directory=short"),
        store("exa*", "sub_directory=long"),
        store("default", ""),
        "<store>\ncategory=nothing*\ntype=null\n</store>\n".to_owned(),
    ];
    let daemon = start(&scratch.0, &configuration.concat());
    for category in ["exact", "exa", "ex", "else", "nothing at all", "exact"] {
        let messages = [format!("to {category}")].into_iter();
        assert_eq!(daemon.send(category.as_bytes(), messages), ResultCode::Ok);
    }
    let out = scratch.0.join("out");
    let check = |path: &str, expected: &str| {
        until(path, || text(&out.join(path)) == expected);
    };
    check("exact/base_00000", "to exact\nto exact\n");
    check("long/exa/exa_00000", "to exa\n");
    check("short/ex/ex_00000", "to ex\n");
    check("else/else_current", "to else\n");
    until("ignored", || daemon.counter("scribe_overall:ignored") == 1);
    assert_eq!(daemon.counter("exact:received good"), 2);
    until("sent", || daemon.counter("scribe_overall:sent") == 5);
    let mut client = daemon.client();
    assert_eq!(client.status().expect("a status"), Status::Alive);
    assert_eq!(client.status_details().expect("details"), "");
    daemon.stop();
}

/// Messages that cannot be stored are discarded, counted by cause, and answered with `OK`.
#[test]
fn what_is_thrown_away_is_counted() {
    let scratch = Scratch::new("scribed");
    let out = scratch.0.join("out");
    let configuration = files(&out).replace("category=default", "category=a*");
    let daemon = start(&scratch.0, &configuration);
    let long = [b'a'; 3000];
    for category in [&b""[..], b"b", b"a/../../b", &long, b"a"] {
        assert_eq!(daemon.send(category, numbered(2)), ResultCode::Ok);
    }
    until("the file", || text(&out.join("a/a_00000")).lines().count() == 2);
    let counters = daemon.counters();
    let counter = |name: &str| counters.get(&format!("scribe_overall:{name}")).copied();
    assert_eq!(counter("received blank category"), Some(2));
    assert_eq!(counter("received bad"), Some(6));
    assert_eq!(counter("received good"), Some(2));
    assert_eq!(counter("denied for queue size"), None);
    let entries = fs::read_dir(&out).expect("a directory").count();
    assert_eq!(entries, 1, "nothing is outside of its place");
    daemon.stop();
}

/// Messages and categories of arbitrary bytes are forwarded unchanged, even if a category is no
/// valid file name.
#[test]
fn any_bytes_go_on_to_another_server() {
    let scratch = Scratch::new("scribed");
    let (server, downstream) = downstream("127.0.0.1:0");
    let daemon = start(&scratch.0, &network(server.address().port()));
    let long = vec![b'c'; 100_000];
    let all: [(&[u8], &[u8]); 5] = [
        (b"category", b"\0nul\0\xff\n"),
        (b"../../etc/passwd\0", b""),
        (&long, b"of a long category"),
        (b"\xff\xfe", &[0; 300_000]),
        ("\u{e4}".as_bytes(), b"x"),
    ];
    let mut batch = Batch::default();
    for (category, message) in all {
        batch.push(Entry { category, message });
    }
    assert_eq!(daemon.client().log(&mut batch).expect("an answer"), ResultCode::Ok);
    until("all of it", || downstream.got.lock().expect("no panic").len() == 5);
    let mut got = downstream.got.lock().expect("no panic").clone();
    let mut expected = all.map(|(category, message)| (category.to_vec(), message.to_vec()));
    got.sort();
    expected.sort();
    assert!(got == expected);
    daemon.stop();
}

/// Messages wait in the journal while the next server answers `TRY_LATER` or is unavailable, also
/// across a restart of the daemon. Later they arrive in order.
#[test]
fn messages_wait_for_a_server() {
    let scratch = Scratch::new("scribed");
    let (server, downstream_one) = downstream("127.0.0.1:0");
    downstream_one.tries_later.store(true, Ordering::SeqCst);
    let address = server.address();
    let daemon = start(&scratch.0, &network(address.port()));
    let mut sent: Vec<String> = numbered(1000).collect();
    assert_eq!(daemon.send(b"c", sent.iter().cloned()), ResultCode::Ok);
    until("the status", || daemon.details().contains("try later"));
    assert_eq!(daemon.client().status().expect("a status"), Status::Warning);
    assert!(daemon.counter("c:retries") > 0);
    assert_eq!(daemon.counter("c:requeue"), 1000);
    downstream_one.tries_later.store(false, Ordering::SeqCst);
    until("all of it", || downstream_one.messages() == sent);
    until("the status", || daemon.details().is_empty());
    drop(server);
    assert_eq!(daemon.send(b"c", (1000..1500).map(|n| format!("message {n}"))), ResultCode::Ok);
    until("the status", || daemon.details().contains("category c: "));
    daemon.stop();
    // The daemon resumes the category's delivery without a new message.
    let (_server, downstream_two) = downstream(&address.to_string());
    let daemon = start(&scratch.0, &network(address.port()));
    sent = (1000..1500).map(|n| format!("message {n}")).collect();
    until("the rest", || downstream_two.messages() == sent);
    until("nothing lost", || daemon.counter("scribe_overall:sent") == 500);
    assert_eq!(daemon.counter("scribe_overall:lost"), 0);
    daemon.stop();
}

fn buffer(primary: &Path, secondary: &Path) -> String {
    format!(
        "buffer::retry_interval=1\nfile::add_newlines=1\n<store>\ncategory=default\ntype=buffer\n\
         <primary>\ntype=file\nfile_path={}\n</primary>\n\
         <secondary>\ntype=file\nfile_path={}\n</secondary>\n</store>\n",
        primary.display(),
        secondary.display()
    )
}

/// Asserts that a primary store gets all messages once and in order after it was unavailable.
fn primary_comes_back(count: u64) {
    let scratch = Scratch::new("scribed");
    let (primary, secondary) = (scratch.0.join("primary"), scratch.0.join("secondary"));
    fs::write(&primary, "in the way").expect("to write");
    let daemon = start(&scratch.0, &buffer(&primary, &secondary));
    let all: Vec<String> = numbered(count).collect();
    let mut client = daemon.client();
    let mut batch = Batch::default();
    for part in all.chunks(1000) {
        batch.clear();
        let entry = |message: &String| {
            batch.push(Entry { category: b"c", message: message.as_bytes() });
        };
        part.iter().for_each(entry);
        assert_eq!(client.log(&mut batch).expect("an answer"), ResultCode::Ok);
    }
    until("the status", || daemon.details().contains("DISCONNECTED: "));
    assert!(secondary.join("queue").is_dir(), "the secondary names where messages wait");
    assert_eq!(daemon.counter("scribe_overall:sent"), 0);
    fs::remove_file(&primary).expect("to remove");
    let expected = all.join("\n") + "\n";
    until("all of it", || text(&primary.join("c/c_00000")).len() == expected.len());
    assert!(text(&primary.join("c/c_00000")) == expected);
    until("the status", || daemon.details().is_empty());
    assert_eq!(daemon.counter("c:received good"), count as i64);
    assert_eq!(daemon.counter("c:sent"), count as i64);
    daemon.stop();
}

#[test]
fn ten_thousand_messages_wait_for_their_primary() {
    primary_comes_back(10_000);
}

#[test]
fn two_hundred_thousand_messages_wait_for_their_primary() {
    primary_comes_back(200_000);
}

/// A category whose server is unavailable fills only its own quota. Then only its messages are
/// answered with `TRY_LATER`. All messages answered with `OK` arrive when the server is back.
#[test]
fn a_full_quota_is_told_and_hurts_nobody_else() {
    let scratch = Scratch::new("scribed");
    let (server, _) = downstream("127.0.0.1:0");
    let address = server.address();
    drop(server);
    let stores = network(address.port()).replace("category=default", "category=full");
    let stores = format!("quota=1\n{stores}{}", files(&scratch.0.join("out")));
    let daemon = start(&scratch.0, &stores);
    let message = |number: u64| format!("{number:08}{}", "m".repeat(100_000));
    let mut taken = 0;
    let start = Instant::now();
    while daemon.send(b"full", (taken * 10..taken * 10 + 10).map(message)) == ResultCode::Ok {
        taken += 1;
        assert!(taken < 100 && start.elapsed() < PATIENCE, "there is no limit");
    }
    assert!(taken > 5);
    assert!(daemon.counter("scribe_overall:denied for queue size") > 0);
    assert!(daemon.counter("full:queue bytes on disk") <= 16 << 20);
    assert_eq!(daemon.send(b"other", numbered(10)), ResultCode::Ok);
    until("the other", || text(&scratch.0.join("out/other/other_00000")).lines().count() == 10);
    assert!(daemon.details().starts_with("category full: "), "{}", daemon.details());
    let (_server, downstream) = downstream(&address.to_string());
    until("room", || daemon.send(b"full", [message(99_999_999)].into_iter()) == ResultCode::Ok);
    until("all of it", || downstream.messages().iter().any(|got| got.starts_with("99999999")));
    let got = downstream.messages();
    for number in 0..taken * 10 {
        let expected = format!("{number:08}");
        assert!(got.iter().any(|message| message.starts_with(&expected)), "{number} is missing");
    }
    daemon.stop();
}

#[test]
fn stores_of_stores_get_what_is_theirs() {
    let scratch = Scratch::new("scribed");
    let out = scratch.0.join("out").display().to_string();
    let (server, downstream) = downstream("127.0.0.1:0");
    let port = server.address().port();
    drop(server);
    // The server is unavailable; the file stores get their messages nevertheless.
    let configuration = format!(
        "file::add_newlines=1\nfile::file_path={out}\n<store>\ncategory=all\ntype=multi\n\
         <store0>\ntype=bucket\nnum_buckets=2\nbucket_type=key_modulo\nremove_key=yes\n\
         bucket_subdir=b\n<bucket>\ntype=file\n</bucket>\n</store0>\n\
         <store1>\ntype=network\nremote_host=127.0.0.1\nremote_port={port}\n</store1>\n\
         <store2>\ntype=category\n<model>\ntype=file\nfile_path={out}/model\n</model>\n</store2>\n\
         </store>\n\
         <store>\ncategory=any\nmust_succeed=no\ntype=multi\nreport_success=any\n\
         <store0>\ntype=network\nremote_host=127.0.0.1\nremote_port={port}\n</store0>\n\
         <store1>\ntype=file\n</store1>\n</store>\n\
         <store>\ncategory=lost\nmust_succeed=no\ntype=network\nremote_host=127.0.0.1\n\
         remote_port={port}\n</store>\n"
    );
    let daemon = start(&scratch.0, &configuration);
    assert_eq!(daemon.details(), "");
    let messages = ["4:even", "5:odd", "no key", "6:even too"].map(str::to_owned);
    assert_eq!(daemon.send(b"all", messages.clone().into_iter()), ResultCode::Ok);
    let check = |path: &str, expected: &str| {
        until(path, || text(&Path::new(&out).join(path)) == expected);
    };
    check("b000/all_00000", "no key\n");
    check("b001/all_00000", "even\neven too\n");
    check("b002/all_00000", "odd\n");
    check("model/all/all_00000", "4:even\n5:odd\nno key\n6:even too\n");
    assert_eq!(daemon.send(b"any", numbered(1)), ResultCode::Ok);
    check("any_00000", "message 0\n");
    assert_eq!(daemon.send(b"lost", numbered(3)), ResultCode::Ok);
    until("what is lost", || daemon.counter("lost:lost") == 3);
    assert_eq!(daemon.counter("lost:bytes lost"), 3 * (9 + 4));
    until("what one of them lost", || daemon.counter("any:lost") == 1);
    assert!(downstream.messages().is_empty());
    let server = Server::bind(("127.0.0.1", port), ServerOptions::default()).expect("a port");
    let _server = server.start(DownstreamHandler(Arc::clone(&downstream))).expect("a thread");
    until("the server", || downstream.messages() == messages);
    daemon.stop();
}

/// The daemon reports a configuration error with its line, and uses the stores without errors. A
/// reload applies a corrected configuration. Clients control the daemon only if that is permitted.
#[test]
fn a_bad_configuration_is_a_warning() {
    let scratch = Scratch::new("scribed");
    let check = |text: &str, expected: &str| {
        let plan = Plan::of(&Config::read(text));
        let told: Vec<String> = plan.problems.iter().map(ToString::to_string).collect();
        assert_eq!(told, [expected]);
    };
    let good = "<store>\ncategory=default\ntype=null\n</store>\n";
    let with = |text: &str| format!("{good}{text}");
    check("", "no store is configured");
    check(&with("<store>\ntype=null\n</store>"), "line 5: the store has no `category`");
    check(&with("<store>\ncategory=a\n</store>"), "line 5: the store has no `type`");
    check(
        &with("<store>\ncategory=a\ntype=fiel\n</store>"),
        "line 7: `type=fiel`: no such type; there are file, network, buffer, multi, bucket, \
         category, multifile and null",
    );
    check(
        &with("<store>\ncategory=a\ntype=thriftfile\n</store>"),
        "line 7: `type=thriftfile` is not supported; use `type=file`",
    );
    check(
        &with("<store>\ncategory=a\ntype=file\nfs_type=hdfs\n</store>"),
        "line 8: files in HDFS are not supported; use a local `file_path`, or another server",
    );
    check(
        &with("<store>\ncategory=a\ntype=file\nbase_filename=../b\n</store>"),
        "line 8: `base_filename=../b`: not the name of one file",
    );
    check(
        &with("<store>\ncategory=a\ntype=network\n</store>"),
        "line 5: the store has neither `remote_host` nor `service_list`",
    );
    check(
        &with(
            "<store>\ncategory=a\ntype=buffer\n<primary>\ntype=multi\n<store0>\ntype=null\n\
               </store0>\n</primary>\n</store>",
        ),
        "line 5: a multi or buffer store cannot be a primary; put the buffer into it",
    );
    check(
        &with("<store>\ncategory=a\ntype=bucket\n</store>"),
        "line 5: `num_buckets` has to be from 1 to 1000",
    );
    check(&with("max_conn=many"), "line 5: `max_conn=many`: not a number; 0 is used");
    check(&with("port=99999"), "line 5: there is no port 99999");
    check(&with("<sotre>\n</sotre>"), "line 5: `<sotre>` is no store");

    let configuration =
        format!("{}<store>\ncategory=b\ntype=x\n</store>", files(&scratch.0.join("out")));
    let daemon = start(&scratch.0, &configuration);
    let mut client = daemon.client();
    assert_eq!(client.status().expect("a status"), Status::Warning);
    assert!(client.status_details().expect("details").starts_with("line 9: `type=x`"));
    assert_eq!(daemon.send(b"a", numbered(1)), ResultCode::Ok);
    until("the file", || text(&scratch.0.join("out/a/a_00000")) == "message 0\n");
    // Remote control by Scribe's scripts (reload, shutdown) is refused unless `permit_control` is
    // set.
    client.reinitialize().expect("to be sent");
    client.shutdown().expect("to be sent");
    assert_eq!(client.status().expect("a status"), Status::Warning);
    fs::write(scratch.0.join("scribe.conf"), files(&scratch.0.join("new"))).expect("to write");
    daemon.remote.reload();
    until("the new one", || client.status().expect("a status") == Status::Alive);
    assert_eq!(daemon.send(b"a", numbered(1)), ResultCode::Ok);
    until("the file", || text(&scratch.0.join("new/a/a_00000")) == "message 0\n");
    let permitted = format!("permit_control=yes\n{}", files(&scratch.0.join("newer")));
    fs::write(scratch.0.join("scribe.conf"), permitted).expect("to write");
    daemon.remote.reload();
    until("the new one", || {
        client.status().expect("a status") == Status::Alive
            && daemon.send(b"d", numbered(1)) == ResultCode::Ok
            && scratch.0.join("newer").exists()
    });
    client.shutdown().expect("to be sent");
    let mut daemon = daemon;
    daemon.thread.take().expect("once").join().expect("no panic");
}

#[test]
fn rates_are_limited() {
    let scratch = Scratch::new("scribed");
    let configuration = "max_msg_per_second=100\n<store>\ncategory=default\ntype=null\n</store>\n";
    let daemon = start(&scratch.0, configuration);
    let mut denied = 0;
    // Only one of the calls in a second is accepted, since two have more messages than the limit.
    for _ in 0..20 {
        denied += u64::from(daemon.send(b"c", numbered(60)) == ResultCode::TryLater);
    }
    assert!(denied > 0);
    assert_eq!(daemon.counter("scribe_overall:denied for rate"), denied as i64 * 60);
    until("another second", || daemon.send(b"c", numbered(5000)) == ResultCode::Ok);
    daemon.stop();
}

/// The call with all waiting messages times out on a slow line, and smaller calls then succeed.
#[test]
fn a_slow_line_gets_smaller_calls() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let got = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&got);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, keeps) = (stream.expect("a connection"), Arc::clone(&keeps));
            thread::spawn(move || serve_slowly(stream, &keeps));
        }
    });
    let scratch = Scratch::new("scribed");
    let configuration = network(port).replace("timeout=5000", "timeout=300");
    let daemon = start(&scratch.0, &configuration);
    let message = |number: u64| format!("{number:04}{}", "m".repeat(1000));
    let all: Vec<String> = (0..300).map(message).collect();
    assert_eq!(daemon.send(b"c", all.iter().cloned()), ResultCode::Ok);
    until("all of it", || daemon.counter("c:sent") == 300);
    let mut got = got.lock().expect("no panic").clone();
    // A call that timed out may have been delivered twice.
    got.dedup();
    let seen: std::collections::BTreeSet<String> = got.into_iter().collect();
    assert!(seen.into_iter().eq(all));
    assert!(daemon.counter("c:retries") > 0);
    daemon.stop();
}

/// Answers Scribe calls on a connection, but reads at most 20 KiB in 100 ms.
fn serve_slowly(mut stream: TcpStream, keeps: &Mutex<Vec<String>>) -> Option<()> {
    loop {
        let mut head = [0; 4];
        stream.read_exact(&mut head).ok()?;
        let mut body = vec![0; u32::from_be_bytes(head) as usize];
        for part in body.chunks_mut(2 << 10) {
            stream.read_exact(part).ok()?;
            thread::sleep(Duration::from_millis(10));
        }
        let limits = blkkin_scribe::Limits::default();
        let (_, request) = blkkin_scribe::read_request(&body, &limits).expect("a call");
        let Ok(blkkin_scribe::Request::Log(entries)) = request else { panic!("{request:?}") };
        let text = |entry: Entry<'_>| String::from_utf8_lossy(entry.message).into_owned();
        keeps.lock().expect("no panic").extend(entries.iter().map(text));
        let (downstream, from) = (Arc::default(), (Ipv4Addr::LOCALHOST, 1).into());
        let mut reply = Vec::new();
        blkkin_scribe::Service::new(DownstreamHandler(downstream), limits)
            .answer(&body, from, &mut reply);
        stream.write_all(&reply).ok()?;
    }
}
