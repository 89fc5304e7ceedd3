//! Tests with descriptors whose closing blocks, outputs that hang, and requests that cause much
//! work. Other commands are answered meanwhile, and quotas are returned.

mod support;

use blkkin_control::{
    Applications, Clock, Hello, Opening, Processes, Purpose, Reply, Request, Role, Session,
    Snapshot, Version, encode,
};
use blkkin_sys::socket::Socket;
use blkkin_sys::testing::{Mounted, skip};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::{Duration, Instant};
use support::{Node, Program, events, eventually, figure, quota};

/// Time within which the agent must answer other commands. It is long, because the machine may be
/// busy.
const ANSWERED: Duration = Duration::from_secs(5);
/// Time for which closing a lingering socket blocks; much longer than [`ANSWERED`].
const LINGER: Duration = Duration::from_secs(40);

/// Returns a TCP socket and its peer. Closing the socket blocks for [`LINGER`], because the peer
/// does not read.
fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 1 << 16]).is_ok() {}
    rustix::net::sockopt::set_socket_linger(&socket, Some(LINGER)).unwrap();
    (socket, peer)
}

/// Returns a socket with a lingering TCP socket in its queue, and the peer of the TCP socket. The
/// agent cannot switch off the lingering of a queued socket.
fn nested() -> (OwnedFd, TcpStream) {
    let (socket, peer) = lingering();
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let near = Socket::from(OwnedFd::from(near));
    near.send(b"x", &[socket.as_fd()]).unwrap();
    (far.into(), peer)
}

/// Connects to the agent, and sends bytes together with descriptors. Returns the connection.
fn pass(path: &Path, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Socket {
    let socket = Socket::connect(path).unwrap();
    assert_eq!(socket.send(bytes, descriptors).unwrap(), bytes.len());
    socket
}

fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    let role = Role::Application { pid: std::process::id(), clock: Clock::Monotonic };
    let (program, release) = ("waits".into(), "0".into());
    let hello = Hello { version: Version::OURS, role, program, release };
    encode(&Opening::Hello(hello), &mut bytes).unwrap();
    bytes
}

/// Six bytes, the size of a message header, that are not a valid message.
const NONSENSE: [u8; 6] = [0, 0, 0, 0, 0xff, 0xff];
/// An encoded `Catalog` message.
const CATALOG: [u8; 6] = [0, 0, 0, 0, 1, 0x11];

fn greeted_catalog() -> Vec<u8> {
    [&hello()[..], &CATALOG].concat()
}

/// Connects ten times as a command; returns the longest time until the agent has answered.
fn answered_within(node: &Node) -> Duration {
    let path = node.agent.as_ref().unwrap().socket().to_owned();
    let mut longest = Duration::ZERO;
    for _ in 0..10 {
        let begun = Instant::now();
        let client = blkkin_client::Client::connect(
            std::slice::from_ref(&path),
            "test",
            "0",
            blkkin_client::Timeouts::default(),
        );
        let answered =
            client.and_then(|mut client| client.request_all(&Request::ListSessions(None)));
        longest = longest.max(begun.elapsed());
        assert!(answered.is_ok(), "{answered:?} after {longest:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    longest
}

#[track_caller]
fn check_answers(what: &str, node: &Node) {
    let longest = answered_within(node);
    figure("N8", &format!("{what}: others are answered within {longest:?}"));
    assert!(longest < ANSWERED, "{what}: {longest:?}");
}

/// N8: A lingering socket blocks no command. The socket is passed with invalid bytes, with a
/// message that takes no descriptor, in place of a catalog, or with more descriptors than a message
/// may have.
#[test]
fn n8_sockets_that_linger_have_nobody_wait() {
    let node = Node::new();
    let path = node.agent.as_ref().unwrap().socket().to_owned();
    // The order matters: if a close blocked the agent's main thread, later checks could not show
    // another fault.
    let check = |what: &str, bytes: &[u8], others: usize| {
        let (socket, _peer) = lingering();
        let filler = std::fs::File::open("/dev/null").unwrap();
        let mut all = vec![filler.as_fd(); others];
        all.push(socket.as_fd());
        let _connection = send_in_pieces(&path, bytes, &all);
        drop(socket);
        std::thread::sleep(Duration::from_millis(50));
        check_answers(what, &node);
    };
    check("with nonsense", &NONSENSE, 0);
    check("with a message that has none", &hello(), 0);
    check("as a catalog", &greeted_catalog(), 0);
    check("as one of very many", &NONSENSE, 100);
}

/// Connects and sends bytes with descriptors, also with more than the 16 that [`Socket::send`]
/// accepts.
fn send_in_pieces(path: &Path, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Socket {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    let socket = Socket::connect(path).unwrap();
    let mut room = vec![std::mem::MaybeUninit::uninit(); 2048];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
    let pieces = [std::io::IoSlice::new(bytes)];
    let sent = rustix::net::sendmsg(&socket, &pieces, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
    assert_eq!(sent, bytes.len());
    socket
}

/// N8: Sockets whose close blocks occupy eight threads of the pool. Commands are answered
/// meanwhile, and the quota is returned once the sockets can be closed.
#[test]
fn n8_what_cannot_be_closed_keeps_nothing_of_others() {
    let mut node = Node::new();
    let path = node.agent.as_ref().unwrap().socket().to_owned();
    let user = blkkin_sys::user_id();
    let descriptors = |node: &mut Node| quota(&mut node.client, user, "descriptors").0;
    let before = descriptors(&mut node);
    let mut peers = Vec::new();
    for number in 0..12 {
        let (socket, peer) = nested();
        let bytes = if number % 2 == 0 { NONSENSE.to_vec() } else { greeted_catalog() };
        drop(pass(&path, &bytes, &[socket.as_fd()]));
        peers.push(peer);
    }
    std::thread::sleep(Duration::from_millis(300));
    check_answers("while 12 cannot be closed", &node);
    for _ in 0..100 {
        drop(node.agent.as_ref().map(|agent| Socket::connect(agent.socket()).unwrap()));
    }
    check_answers("after 100 more connections", &node);
    drop(peers);
    eventually("all is given back", || (descriptors(&mut node) == before).then_some(()));
}

/// N8: A request with an output on an unresponsive file system fails before the client's timeout.
/// Other commands are answered meanwhile.
#[test]
fn n8_outputs_that_hang_have_nobody_wait() {
    let test = "n8_outputs_that_hang_have_nobody_wait";
    let Some((fuse, mounted)) = hung(test) else { return };
    let mut node = Node::new();
    node.record_all(Purpose::Snapshot);
    let mut program = Program::start(&node);
    program.add_type(0, "honest:event");
    program.record(0, 0, 0);
    let output = mounted.path().join("trace");
    let requests = [
        Request::CreateSession(Session {
            name: "hangs".into(),
            purpose: Purpose::Record,
            output: Some(output.clone()),
        }),
        Request::Snapshot(Snapshot { session: "s".into(), output: Some(output) }),
    ];
    for request in requests {
        let client = blkkin_client::Client::connect(
            &[node.agent.as_ref().unwrap().socket().to_owned()],
            "test",
            "0",
            blkkin_client::Timeouts::default(),
        );
        let mut client = client.unwrap();
        std::thread::scope(|scope| {
            let asks = scope.spawn(move || client.request_all(&request));
            std::thread::sleep(Duration::from_millis(100));
            check_answers("while an output hangs", &node);
            let answered = asks.join().unwrap().unwrap_err().to_string();
            assert!(answered.contains("does not answer"), "{answered}");
        });
    }
    drop(fuse);
}

/// Mounts a file system in user space that does not answer; skips the test and returns `None` if
/// that is not possible. Accesses fail once the returned file is closed; the mount ends when
/// `Mounted` is dropped.
fn hung(test: &str) -> Option<(std::fs::File, Mounted)> {
    let fuse = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    let fuse = fuse.map_err(|error| error.to_string()).and_then(|fuse| {
        rustix::io::fcntl_setfd(&fuse, rustix::io::FdFlags::empty()).unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
        Ok((Mounted::new(&["-i", "-t", "fuse", "-o", &options, "hung"])?, fuse))
    });
    match fuse {
        Ok((mounted, fuse)) => Some((fuse, mounted)),
        Err(error) => {
            skip(test, &format!("a file system in user space cannot be mounted: {error}"));
            None
        }
    }
}

/// Guard that sets a flag on drop, so that other threads of the test end.
struct Over<'d>(&'d AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// N9: Snapshots end and other commands are answered, while a process advances the write position
/// of one of its rings as fast as possible and eight commands request snapshots.
#[test]
fn n9_snapshots_end() {
    let mut node = Node::new();
    node.record_all(Purpose::Snapshot);
    let program = Program::start(&node);
    let shape = *program.writers[&0].shape();
    let (memory, size) = (&program.memories[&0], shape.ring_size() as u64);
    let done = AtomicBool::new(false);
    let answered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let _over = Over(&done);
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    memory.word(4096).fetch_add(2 * size, Relaxed);
                }
            });
        }
        for _ in 0..8 {
            let mut client = blkkin_client::Client::connect(
                &[node.agent.as_ref().unwrap().socket().to_owned()],
                "test",
                "0",
                blkkin_client::Timeouts::default(),
            )
            .unwrap();
            let (done, answered) = (&done, &answered);
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let request = Snapshot { session: "s".into(), output: None };
                    client.request_all(&Request::Snapshot(request)).unwrap();
                    answered.fetch_add(1, SeqCst);
                }
            });
        }
        eventually("a snapshot is taken", || (answered.load(SeqCst) > 8).then_some(()));
        let longest = answered_within(&node);
        figure("N9", &format!("beside eight snapshots of wild rings, answers take {longest:?}"));
        assert!(longest < ANSWERED, "{longest:?}");
    });
}

/// Number of event types that each program of a test describes.
const TYPES: u32 = 8000;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Returns 512 short patterns that are expensive to match, different ones for each `rule`.
fn patterns(rule: usize) -> Vec<String> {
    (0..512)
        .map(|at| {
            let number = rule * 512 + at;
            format!("*{:03x}{:03x}*", number / 4096, number % 4096)
        })
        .collect()
}

/// N9: The memory of the process grows by less than 160 MiB with as many rules as the quota
/// permits, 40 at most, and with 4 programs of [`TYPES`] types each. Other commands are answered
/// meanwhile.
#[test]
fn n9_rules_and_types_without_number() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let mut programs: Vec<Program> = (0..4).map(|_| Program::start(&node)).collect();
    for program in &mut programs {
        for index in 0..TYPES {
            program.add_type(index, &format!("hostile:event-{index:05}"));
        }
    }
    let before = resident_kib();
    let mut rules = 0;
    let mut client = node.client;
    let (done, longest) = (AtomicBool::new(false), AtomicU64::new(0));
    let refused = std::thread::scope(|scope| {
        let over = Over(&done);
        for program in &mut programs {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    program.handle_messages();
                    program.record(0, TYPES - 1, 1);
                    program.wake();
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
        let path = node.agent.as_ref().unwrap().socket().to_owned();
        let (done, longest) = (&done, &longest);
        scope.spawn(move || {
            while !done.load(Relaxed) {
                let begun = Instant::now();
                let patience = blkkin_client::Timeouts {
                    opening: Duration::from_secs(60),
                    item: Duration::from_secs(60),
                };
                let addresses = [path.clone()];
                let client = blkkin_client::Client::connect(&addresses, "test", "0", patience);
                let answer =
                    client.and_then(|mut one| one.request_all(&Request::ListSessions(None)));
                // Only the time matters: the answer is a long list of all sessions and rules.
                drop(answer);
                longest.fetch_max(begun.elapsed().as_millis() as u64, SeqCst);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let refused = loop {
            let mut request = events("x");
            request.selection.names = patterns(rules);
            match client.request_all(&Request::EnableEvents(request)) {
                Ok(_) => rules += 1,
                Err(error) => break error.to_string(),
            }
            if rules >= 40 {
                break "none".into();
            }
        };
        std::thread::sleep(Duration::from_secs(3));
        drop(over);
        refused
    });
    let grown = resident_kib().saturating_sub(before) / 1024;
    let longest = Duration::from_millis(longest.load(SeqCst));
    figure(
        "N9",
        &format!(
            "{rules} rules of 512 patterns ({refused}), 4 programs of {TYPES} types: {grown} MiB more, answers within \
             {longest:?}"
        ),
    );
    // The test's own programs, in the same process, also store the rules: four times the text.
    assert!(grown < 160, "{grown} MiB");
    assert!(longest < ANSWERED, "{longest:?}");
}

/// N9: A command receives a list far larger than the socket's buffer completely, even if it begins
/// to read late.
#[test]
fn n9_long_lists_are_sent_as_they_are_read() {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let mut programs: Vec<Program> = (0..8).map(|_| Program::start(&node)).collect();
    for program in &mut programs {
        for index in 0..8192 {
            program.add_type(index, &format!("long:{}-{index:05}", "x".repeat(40)));
        }
        program.record(0, 0, 1);
        program.wake();
    }
    let all = |event_types| {
        Request::ListApplications(Applications { processes: Processes::default(), event_types })
    };
    let count = |replies: &[Reply]| {
        let types = replies.iter().map(|reply| match reply {
            Reply::Application(one) => one.event_type_count as usize,
            _ => 0,
        });
        types.sum::<usize>()
    };
    eventually("all types are known", || (count(&node.ask(&all(false))) == 8 * 8192).then_some(()));
    let mut replies = node.client.request(&all(true)).unwrap();
    // The command pauses before it reads.
    std::thread::sleep(Duration::from_millis(500));
    let types = replies.by_ref().filter(|reply| matches!(reply, Ok(Reply::EventType(_)))).count();
    assert_eq!(types, 8 * 8192);
    let longest = answered_within(&node);
    assert!(longest < ANSWERED, "{longest:?}");
}
