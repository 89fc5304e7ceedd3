//! Tests of the tracker with small CTF traces. A description has one event a line:
//!
//! ```text
//! END[+DURATION] PID[/TID] EVENT FIELD=VALUE ...
//! ```
//!
//! Fields that a line lacks are 0 or empty. Bytes of addresses are hexadecimal digits. The line
//! `lost` stands for lost events, and the line `cut` damages the previous event. Each operation is
//! printed as one line, shown here as two, with `?` if the operation is uncertain:
//!
//! ```text
//! START+DURATION PROGRAM[PID/TID] KIND:CALL FD>SECOND PATH -> SECOND
//!     DONE/ASKED @OFFSET ~POSITION ? = RESULT
//! ```

use blkkin_io::{DiskRequest, Operation, Tracker};
use blkkin_reader::{Consumer, Event, Loss, Reading, Source, Stream, Trace, open};
use blkkin_sys::testing::Scratch;
use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;

/// Event classes: name and fields. System calls also have `ret` and `duration`.
const CLASSES: [(&str, &str); 34] = [
    ("syscall:openat", "i32 dfd, string filename, i32 flags, u32 mode"),
    ("syscall:open", "string filename, i32 flags, u32 mode"),
    ("syscall:socket", "i32 family, i32 type, i32 protocol"),
    ("syscall:socketpair", "i32 family, i32 type, i32 protocol, i32s usockvec"),
    ("syscall:accept4", "i32 fd, bytes upeer_sockaddr, u64 upeer_addrlen, i32 flags"),
    ("syscall:connect", "i32 fd, bytes uservaddr, i32 addrlen"),
    ("syscall:bind", "i32 fd, bytes umyaddr, i32 addrlen"),
    ("syscall:sendto", "i32 fd, u64 buff, u64 len, u32 flags, bytes addr, i32 addr_len"),
    ("syscall:read", "u32 fd, u64 buf, u64 count"),
    ("syscall:write", "u64 fd, u64 buf, u64 count"),
    ("syscall:pread64", "u32 fd, u64 buf, u64 count, i64 pos"),
    ("syscall:preadv2", "u64 fd, u64 vec, u64 vlen, u64 pos_l, u64 pos_h, u32 flags"),
    ("syscall:lseek", "u32 fd, i64 offset, u32 whence"),
    ("syscall:close", "u32 fd"),
    ("syscall:close_range", "u32 fd, u32 max_fd, u32 flags"),
    ("syscall:dup", "u32 fildes"),
    ("syscall:dup2", "u32 oldfd, u32 newfd"),
    ("syscall:dup3", "u32 oldfd, u32 newfd, i32 flags"),
    ("syscall:fcntl", "u32 fd, u32 cmd, u64 arg"),
    ("syscall:mmap", "u64 addr, u64 len, u64 prot, u64 flags, u64 fd, u64 off"),
    ("syscall:sendfile64", "i32 out_fd, i32 in_fd, u64 offset, u64 count"),
    ("syscall:renameat2", "i32 olddfd, string oldname, i32 newdfd, string newname, u32 flags"),
    ("syscall:unlinkat", "i32 dfd, string pathname, i32 flag"),
    ("syscall:chdir", "string filename"),
    ("syscall:fchdir", "u32 fd"),
    ("syscall:getpid", ""),
    ("process:fork", "u32 child, u32 child_tid"),
    ("process:exec", "string filename, string name"),
    ("process:exit", "i32 code"),
    ("state:process", "u32 of_pid, u32 parent, string name, string cwd"),
    ("state:file", "u32 of_pid, i32 fd, string path"),
    (
        "uring:submit",
        "u64 ring, u64 request, u64 user_data, u32 opcode, u32 flags, i32 fd, u64 offset, \
         u32 length",
    ),
    ("uring:complete", "u64 ring, u64 request, u64 user_data, i32 ret, u32 flags"),
    (
        "disk:request",
        "device device, operation operation, u64 sector, u32 bytes, u64 queued, u64 served, \
         i32 error, call call",
    ),
];

/// Enumerations, as fields of the class with requests to disks.
const ENUMS: [(&str, &str); 3] = [
    ("device", "enum : u32 { vda = 1, vdb = 2 }"),
    ("operation", "enum : u8 { read = 0, write = 1 }"),
    (
        "call",
        "enum : i32 { unknown = -3, kernel = -2, none = -1, read = 0, write = 1, getpid = 39, \
         chdir = 80 }",
    ),
];

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := u8;
typealias integer { size = 16; align = 8; signed = false; } := u16;
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 64; align = 8; signed = false; } := u64;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; signed = true; } := i64;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_id; }; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; signed = false; map = clock.c.value; } := time;
stream { id = 0;
  packet.context := struct { time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size; u64 events_discarded; };
  event.header := struct { u16 id; time timestamp; };
  event.context := struct { u32 pid; u32 tid; };
};
"#;

/// Returns types and names of the fields of an event class.
fn fields(class: usize) -> Vec<(&'static str, &'static str)> {
    let (name, text) = CLASSES[class];
    let mut fields: Vec<_> = text.split(", ").filter_map(|field| field.split_once(' ')).collect();
    if name.starts_with("syscall:") {
        fields.extend([("i64", "ret"), ("u64", "duration")]);
    }
    fields
}

fn metadata() -> String {
    let mut text = METADATA.to_owned();
    for (id, (name, _)) in CLASSES.iter().enumerate() {
        let _ = write!(
            text,
            "event {{ id = {id}; name = \"{name}\"; stream_id = 0; fields := struct {{"
        );
        for (kind, field) in fields(id) {
            let _ = match kind {
                "bytes" => write!(text, " u32 {field}_size; u8 {field}[{field}_size];"),
                "i32s" => write!(text, " u32 {field}_size; i32 {field}[{field}_size];"),
                _ => match ENUMS.iter().find(|one| one.0 == kind) {
                    Some((_, kind)) => write!(text, " {kind} {field};"),
                    None => write!(text, " {kind} {field};"),
                },
            };
        }
        text.push_str(" }; };\n");
    }
    text
}

/// Appends the bytes of the event that a line describes.
fn write_event(bytes: &mut Vec<u8>, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [time, process, event, values @ ..] = &words[..] else { panic!("what is {line}?") };
    let (end, duration) = time.split_once('+').unwrap_or((time, "0"));
    let (pid, tid) = process.split_once('/').unwrap_or((process, process));
    let full = |name: &str| name == *event || name.strip_prefix("syscall:") == Some(event);
    let class = CLASSES.iter().position(|class| full(class.0)).expect(event);
    bytes.extend((class as u16).to_le_bytes());
    bytes.extend((number(end) as u64).to_le_bytes());
    bytes.extend((number(pid) as u32).to_le_bytes());
    bytes.extend((number(tid) as u32).to_le_bytes());
    let fields = fields(class);
    for value in values {
        let name = value.split('=').next().expect("a name");
        assert!(fields.iter().any(|field| field.1 == name), "{name} in {line}");
    }
    for (kind, name) in fields {
        let given = values.iter().filter_map(|value| value.split_once('='));
        let given = given.into_iter().find(|value| value.0 == name).map(|value| value.1);
        let value = if name == "duration" { duration } else { given.unwrap_or("") };
        match kind {
            "string" => bytes.extend(value.bytes().chain([0])),
            "bytes" => {
                let digits = value.as_bytes().chunks(2);
                let hex = |digits: &[u8]| {
                    u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap()
                };
                bytes.extend(((value.len() / 2) as u32).to_le_bytes());
                bytes.extend(digits.map(hex));
            }
            "i32s" => {
                let numbers: Vec<u32> =
                    value.split_terminator(',').map(|value| number(value) as u32).collect();
                bytes.extend((numbers.len() as u32).to_le_bytes());
                bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
            "operation" => bytes.push(number(value) as u8),
            "u32" | "i32" | "device" | "call" => bytes.extend((number(value) as u32).to_le_bytes()),
            _ => bytes.extend((number(value) as u64).to_le_bytes()),
        }
    }
}

fn number(text: &str) -> i128 {
    match text.strip_prefix("0x") {
        _ if text.is_empty() => 0,
        Some(digits) => i128::from_str_radix(digits, 16).expect("hexadecimal digits"),
        None => text.parse().unwrap_or_else(|_| panic!("{text} is no number")),
    }
}

#[derive(Default)]
struct Collector {
    tracker: Tracker,
    operations: Vec<Operation>,
    /// Operations and requests to disks of none, in the order in which they are known.
    lines: Vec<String>,
}

impl Collector {
    fn collect_disk_requests(&mut self) {
        let requests = self.tracker.take_disk_requests();
        self.lines.extend(requests.iter().map(|request| {
            let DiskRequest { program, pid, tid, cause, .. } = request;
            format!("{} {program}[{pid}/{tid}] {cause:?}", draw_request(request))
        }));
    }
}

impl Consumer for Collector {
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        let operation = self.tracker.event(event);
        self.collect_disk_requests();
        if let Some(operation) = operation {
            self.lines.push(draw(&operation));
            let requests = operation.disk.iter().map(draw_request);
            self.lines.extend(requests.map(|request| format!("  {request}")));
            self.operations.push(operation);
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, _: &Trace, _: &Stream, _: &Loss) -> ControlFlow<()> {
        self.tracker.lost();
        ControlFlow::Continue(())
    }
}

/// Stream of packets.
#[derive(Default)]
struct Packets {
    stream: Vec<u8>,
    events: Vec<u8>,
    /// Time of the packet's first event and of the last one.
    extent: Option<(u64, u64)>,
    lost: u64,
}

impl Packets {
    fn end(&mut self) {
        let events = std::mem::take(&mut self.events);
        let Some((begin, end)) = self.extent.take() else { return };
        let size = 8 * (events.len() + 40) as u32;
        self.stream.extend(0xc1fc_1fc1_u32.to_le_bytes());
        self.stream.extend(0_u32.to_le_bytes());
        self.stream.extend(begin.to_le_bytes());
        self.stream.extend(end.to_le_bytes());
        self.stream.extend(size.to_le_bytes());
        self.stream.extend(size.to_le_bytes());
        self.stream.extend(self.lost.to_le_bytes());
        self.stream.extend(events);
    }

    fn add(&mut self, line: &str) {
        match line {
            "lost" => {
                self.end();
                self.lost += 1;
            }
            "cut" => {
                self.events.pop();
                self.end();
            }
            _ => {
                write_event(&mut self.events, line);
                let time = line.split([' ', '+']).next().map_or(0, |time| number(time) as u64);
                let begin = self.extent.map_or(time, |extent| extent.0);
                self.extent = Some((begin, time));
            }
        }
    }
}

/// Writes the described trace, and passes its events to a tracker.
fn track(description: &str) -> Collector {
    let scratch = Scratch::new("io");
    fs::write(scratch.0.join("metadata"), metadata()).expect("to write metadata");
    let mut packets = Packets::default();
    for line in description.lines().map(str::trim).filter(|line| !line.is_empty()) {
        packets.add(line);
    }
    packets.end();
    fs::write(scratch.0.join("stream"), packets.stream).expect("to write packets");
    let opened = open(&[Source::Path(scratch.0.clone())]);
    assert!(opened.problems.is_empty(), "{:?}", opened.problems);
    let mut collector = Collector::default();
    let stats = Reading::new(&opened.traces).ordered(&mut collector);
    let damaged = description.matches("cut").count();
    assert_eq!(stats.problems.len(), damaged, "{:?}", stats.problems);
    collector.tracker.finish();
    collector.collect_disk_requests();
    collector
}

fn draw(operation: &Operation) -> String {
    let Operation { time_ns, duration_ns, kind, call, program, pid, tid, .. } = operation;
    let mut line = format!("{time_ns}+{duration_ns} {program}[{pid}");
    if tid != pid {
        let _ = write!(line, "/{tid}");
    }
    let _ = write!(line, "] {}", kind.word());
    if *call != kind.word() {
        let _ = write!(line, ":{call}");
    }
    let mut add = |sign: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(line, "{sign}{value}");
        }
    };
    add(" ", operation.fd.map(|fd| fd.to_string()));
    add(">", operation.second_fd.map(|fd| fd.to_string()));
    add(" ", operation.path.as_ref().map(|path| path.to_string()));
    add(" -> ", operation.second_path.as_ref().map(|path| path.to_string()));
    add(" ", operation.done.map(|done| done.to_string()));
    add(" /", operation.asked.map(|asked| asked.to_string()));
    add(" @", operation.offset.map(|offset| offset.to_string()));
    add(" ~", operation.position.map(|position| position.to_string()));
    add(" ?", (!operation.is_certain).then(String::new));
    add(
        " = ",
        Some(operation.result.map_or_else(|errno| format!("-{errno}"), |ok| ok.to_string())),
    );
    line
}

fn draw_request(request: &DiskRequest) -> String {
    let DiskRequest { time_ns, queued_ns, served_ns, device, operation, .. } = request;
    let DiskRequest { sector, bytes, error, .. } = request;
    let mut line =
        format!("{time_ns}+{queued_ns}+{served_ns} {device} {operation} {bytes}@{sector}");
    if *error != 0 {
        let _ = write!(line, " error {error}");
    }
    line
}

/// Checks operations and, below them or between them, requests to disks.
#[track_caller]
fn check_disk(description: &str, expected: &str) -> Collector {
    let collector = track(description);
    let actual: Vec<&str> = collector.lines.iter().map(|line| line.trim()).collect();
    let expected: Vec<&str> = expected.lines().map(str::trim).collect();
    assert_eq!(actual, expected);
    collector
}

#[track_caller]
fn check_lines(collector: &Collector, expected: &str) {
    let actual: Vec<String> = collector.operations.iter().map(draw).collect();
    let expected: Vec<&str> =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(actual, expected);
}

#[track_caller]
fn check(description: &str, expected: &str) {
    let collector = track(description);
    check_lines(&collector, expected);
    let counts = collector.tracker.counts();
    assert_eq!(counts.operations, collector.operations.len() as u64);
    assert_eq!((counts.malformed, counts.drops), Default::default());
    assert_eq!(counts.dropped_requests, 0);
}

/// A file's path is known from `open` to `close`; positions advance by reads.
#[test]
fn files_have_paths_and_positions() {
    check(
        "5 1 state:process of_pid=1 name=app cwd=/home
         10+2 1/3 openat dfd=-100 filename=../etc/./x ret=3
         20+2 1 read fd=3 count=4096 ret=100
         21+1 1 pread64 fd=3 count=10 pos=7 ret=10
         22+1 1 preadv2 fd=3 vlen=2 pos_l=-1 ret=5
         23+1 1 preadv2 fd=3 vlen=2 pos_l=50 ret=5
         24+1 1 lseek fd=3 offset=0 whence=0 ret=1000
         25+1 1 read fd=3 count=1 ret=1
         26+1 1 getpid ret=1
         30+1 1 mmap fd=3 len=8192 off=4096 ret=0x7f0000000000
         31+1 1 mmap fd=-1 len=8192 flags=0x22 ret=0x7f0000000000
         40+5 1 close fd=3
         50+1 1 read fd=3 count=1 ret=-9",
        "8+2 app[1/3] open:openat 3 /etc/x = 3
         18+2 app[1] read 3 /etc/x 100 /4096 ~0 = 100
         20+1 app[1] read:pread64 3 /etc/x 10 /10 @7 = 10
         21+1 app[1] read:preadv2 3 /etc/x 5 ~100 = 5
         22+1 app[1] read:preadv2 3 /etc/x 5 @50 = 5
         23+1 app[1] seek:lseek 3 /etc/x @1000 = 1000
         24+1 app[1] read 3 /etc/x 1 /1 ~1000 = 1
         29+1 app[1] map:mmap 3 /etc/x /8192 @4096 = 139637976727552
         35+5 app[1] close 3 /etc/x = 0
         49+1 app[1] read 3 /1 = -9",
    );
}

/// A child starts with a copy of its parent's state; `exec` closes descriptors only in the process
/// that calls it.
#[test]
fn fork_and_exec() {
    check(
        "1 1 process:exec filename=/bin/sh name=sh
         2 1 openat dfd=-100 filename=/keep flags=0 ret=3
         3 1 openat dfd=-100 filename=/close flags=0x80000 ret=4
         4 1 fcntl fd=3 cmd=1030 arg=5 ret=5
         5 1 fcntl fd=4 cmd=0 arg=5 ret=6
         6 1 openat filename=/flag ret=7
         7 1 fcntl fd=7 cmd=2 arg=1
         8 1 process:fork child=2 child_tid=2
         9 1 process:fork child=1 child_tid=9
         10 2 process:exec filename=/bin/cat name=cat
         11 2 write fd=3 ret=1
         12 2 write fd=4 ret=-9
         13 2 write fd=5 ret=-9
         14 2 write fd=6 ret=1
         15 2 write fd=7 ret=-9
         16 1/9 write fd=4 ret=1
         17 1/9 process:exit
         19 1 write fd=3 ret=1
         20 2 read fd=3 ret=1",
        "2+0 sh[1] open:openat 3 /keep = 3
         3+0 sh[1] open:openat 4 /close = 4
         4+0 sh[1] dup:fcntl 3>5 /keep = 5
         5+0 sh[1] dup:fcntl 4>6 /close = 6
         6+0 sh[1] open:openat 7 /flag = 7
         11+0 cat[2] write 3 /keep 1 /0 ~0 = 1
         12+0 cat[2] write 4 /0 = -9
         13+0 cat[2] write 5 /0 = -9
         14+0 cat[2] write 6 /close 1 /0 ~0 = 1
         15+0 cat[2] write 7 /0 = -9
         16+0 sh[1/9] write 4 /close 1 /0 ~1 = 1
         19+0 [1] write 3 1 /0 = 1
         20+0 cat[2] read 3 /keep 1 /0 ~1 = 1",
    );
}

#[test]
fn duplicates() {
    check(
        "1 1 open filename=/a ret=3
         2 1 open filename=/b ret=4
         3 1 dup2 oldfd=3 newfd=4 ret=4
         4 1 dup3 oldfd=3 newfd=5 flags=0x80000 ret=5
         5 1 dup fildes=5 ret=6
         6 1 dup2 oldfd=9 newfd=6 ret=-9
         7 1 read fd=4 count=10 ret=10
         8 1 read fd=6 count=10 ret=10
         9 1 process:exec name=x
         10 1 read fd=4 count=1 ret=1
         11 1 read fd=5 count=1 ret=1
         12 1 close_range fd=4 max_fd=0xffffffff
         13 1 read fd=4 ret=1
         14 1 read fd=3 ret=1
         15 1 close_range fd=3 max_fd=3 flags=4
         16 1 process:exec name=y
         17 1 read fd=3 ret=1",
        "1+0 [1] open 3 /a = 3
         2+0 [1] open 4 /b = 4
         3+0 [1] dup:dup2 3>4 /a = 4
         4+0 [1] dup:dup3 3>5 /a = 5
         5+0 [1] dup 5>6 /a = 6
         6+0 [1] dup:dup2 9>6 = -9
         7+0 [1] read 4 /a 10 /10 ~0 = 10
         8+0 [1] read 6 /a 10 /10 ~10 = 10
         10+0 x[1] read 4 /a 1 /1 ~20 = 1
         11+0 x[1] read 5 1 /1 = 1
         12+0 x[1] close:close_range 4 = 0
         13+0 x[1] read 4 1 /0 = 1
         14+0 x[1] read 3 /a 1 /0 ~21 = 1
         17+0 y[1] read 3 1 /0 = 1",
    );
}

/// A relative path starts from the working directory or from the directory of a descriptor. It
/// remains relative if that directory is unknown.
#[test]
fn relative_paths() {
    check(
        "1 1 open filename=a ret=-2
         2 1 chdir filename=b
         3 1 open filename=a ret=-2
         4 1 chdir filename=/srv/./x
         5 1 chdir filename=../y
         6 1 chdir filename=z ret=-2
         7 1 open filename=a ret=3
         8 1 openat dfd=3 filename=b ret=4
         9 1 openat dfd=8 filename=b ret=5
         10 1 openat dfd=8 filename=/b ret=-13
         11 1 unlinkat dfd=3 pathname=../c
         12 1 renameat2 olddfd=-100 oldname=a newdfd=3 newname=d
         13 1 read fd=3 ret=1
         14 1 process:fork child=2
         15 1 fchdir fd=4
         16 1 open filename=.. ret=9
         17 2 open filename=. ret=9
         18 1 open filename= ret=-14
         19 2 fchdir fd=77
         20 2 open filename=q ret=-2",
        "1+0 [1] open a = -2
         3+0 [1] open a = -2
         7+0 [1] open 3 /srv/y/a = 3
         8+0 [1] open:openat 4 /srv/y/a/b = 4
         9+0 [1] open:openat 5 b = 5
         10+0 [1] open:openat /b = -13
         11+0 [1] unlink:unlinkat /srv/y/c = 0
         12+0 [1] rename:renameat2 /srv/y/a -> /srv/y/a/d = 0
         13+0 [1] read 3 /srv/y/a 1 /0 ~0 = 1
         16+0 [1] open 9 /srv/y/a = 9
         17+0 [2] open 9 /srv/y = 9
         18+0 [1] open = -14
         20+0 [2] open q = -2",
    );
}

#[test]
fn sockets() {
    check(
        "1 1 socket family=2 type=1 ret=3
         2 1 bind fd=3 umyaddr=02001f9000000000
         3+1 1 accept4 fd=3 upeer_sockaddr=020000507f000001 flags=0x80000 ret=4
         4 1 accept4 fd=3 ret=5
         5 1 accept4 fd=3 upeer_sockaddr=02 ret=-11
         6 1 read fd=4 count=10 ret=10
         7 1 read fd=5 count=10 ret=-104
         8 1 socket family=1 type=0x80001 ret=6
         9 1 connect fd=6 uservaddr=01002f72756e2f7800 ret=-115
         10 1 write fd=6 count=3 ret=3
         11 1 connect fd=6 uservaddr=0100006e ret=-111
         12 1 sendto fd=7 len=4 addr=0200003501020304 ret=4
         13 1 sendto fd=6 len=4 ret=4
         14 1 open filename=/file ret=7
         15 1 sendfile64 out_fd=6 in_fd=7 count=100 ret=60
         16 1 sendfile64 out_fd=6 in_fd=7 offset=0x7fff0000 count=100 ret=60
         17 1 read fd=7 ret=1
         18 1 process:exec name=x
         19 1 read fd=4 ret=-9
         20 1 read fd=6 ret=-9",
        "1+0 [1] socket 3 socket:inet = 3
         2+0 [1] bind 3 0.0.0.0:8080 = 0
         2+1 [1] accept:accept4 3>4 127.0.0.1:80 = 4
         4+0 [1] accept:accept4 3>5 0.0.0.0:8080 = 5
         5+0 [1] accept:accept4 3 0.0.0.0:8080 = -11
         6+0 [1] read 4 127.0.0.1:80 10 /10 = 10
         7+0 [1] read 5 /10 = -104
         8+0 [1] socket 6 socket:unix = 6
         9+0 [1] connect 6 unix:/run/x = -115
         10+0 [1] write 6 unix:/run/x 3 /3 = 3
         11+0 [1] connect 6 unix:@n = -111
         12+0 [1] write:sendto 7 1.2.3.4:53 4 /4 = 4
         13+0 [1] write:sendto 6 unix:/run/x 4 /4 = 4
         14+0 [1] open 7 /file = 7
         15+0 [1] copy:sendfile64 7>6 /file -> unix:/run/x 60 /100 = 60
         16+0 [1] copy:sendfile64 7>6 /file -> unix:/run/x 60 /100 = 60
         17+0 [1] read 7 /file 1 /0 ~60 = 1
         19+0 x[1] read 4 /0 = -9
         20+0 x[1] read 6 /0 = -9",
    );
}

/// The recorded initial state of a process fills gaps, and does not replace state that events have
/// set.
#[test]
fn initial_state() {
    check(
        "1 1 process:exec name=new
         2 1 open filename=/told ret=4
         3 9 state:process of_pid=1 parent=0 name=old cwd=/data
         4 9 state:file of_pid=1 fd=3 path=pipe:[5]
         5 9 state:file of_pid=1 fd=4 path=/stale
         6 9 state:file of_pid=1 fd=-1 path=/bad
         7 9 state:process of_pid=2 name=other
         8+7 1 read fd=3 count=1 ret=1
         9 1 read fd=4 count=1 ret=1
         10 1 open filename=x ret=-2
         11 2 read fd=0 count=1 ret=1",
        "2+0 new[1] open 4 /told = 4
         1+7 old[1] read 3 pipe:[5] 1 /1 = 1
         9+0 old[1] read 4 /stale 1 /1 = 1
         10+0 old[1] open /data/x = -2
         11+0 other[2] read 0 1 /1 = 1",
    );
}

/// A descriptor that `close` has released may be opened again before `close` returns, so the end of
/// `close` does not end the new descriptor.
#[test]
fn descriptors_are_reused_during_close() {
    check(
        "1 1 open filename=/a ret=3
         10+2 1/2 open filename=/b ret=3
         20+15 1 close fd=3
         21 1 read fd=3 ret=1
         22+15 1/4 read fd=3 ret=1
         30 1 open filename=/c flags=0x400 ret=3
         31 1 write fd=3 count=1 ret=1",
        "1+0 [1] open 3 /a = 3
         8+2 [1/2] open 3 /b = 3
         5+15 [1] close 3 = 0
         21+0 [1] read 3 /b 1 /0 ~0 = 1
         7+15 [1/4] read 3 1 /0 = 1
         30+0 [1] open 3 /c = 3
         31+0 [1] write 3 /c 1 /1 = 1",
    );
}

#[test]
fn hostile_values() {
    check(
        "1 1 open filename=/a ret=2147483647
         2 1 read fd=2147483647 count=0xffffffffffffffff ret=1
         3 1 read fd=-1 count=1 ret=-9
         4 1 write fd=-1 count=1 ret=1
         5 1 open filename=/b ret=0x7fffffffffffffff
         6+9223372036854775807 1 dup2 oldfd=-5 newfd=-5 ret=-9
         7+18446744073709551615 1 close fd=2147483647
         8 1 lseek fd=2147483647 ret=0x7fffffffffffffff
         9 1 read fd=2147483647 ret=0x7fffffffffffffff
         10 1 pread64 fd=2147483647 pos=-1 ret=5
         11 1 close_range fd=0xffffffff max_fd=0
         12 1 connect fd=-1 uservaddr=0200005001020304
         13 1 state:file of_pid=4294967295 fd=-7 path=x
         14 1 process:fork child=1
         15 1 process:fork child=0
         16 0 process:exit
         17 1 accept4 fd=2147483647 upeer_sockaddr=ffffffffffff ret=2147483648
         18 1 dup3 oldfd=2147483647 newfd=-2 ret=2147483646
         19 1 openat dfd=-1 filename=x ret=-9",
        "1+0 [1] open 2147483647 /a = 2147483647
         2+0 [1] read 2147483647 /a 1 /18446744073709551615 ~0 = 1
         3+0 [1] read -1 /1 = -9
         4+0 [1] write -1 1 /1 = 1
         5+0 [1] open /b = 9223372036854775807
         -9223372036854775801+9223372036854775807 [1] dup:dup2 -5>-5 = -9
         -9223372036854775808+18446744073709551615 [1] close 2147483647 = 0
         8+0 [1] seek:lseek 2147483647 /a @9223372036854775807 = 9223372036854775807
         9+0 [1] read 2147483647 /a 9223372036854775807 /0 ~9223372036854775807 = 9223372036854775807
         10+0 [1] read:pread64 2147483647 /a 5 /0 ~18446744073709551614 = 5
         11+0 [1] close:close_range -1>0 = 0
         12+0 [1] connect -1 1.2.3.4:80 = 0
         17+0 [1] accept:accept4 2147483647 /a = 2147483648
         18+0 [1] dup:dup3 2147483647>2147483646 /a = 2147483646
         19+0 [1] open:openat x = -9",
    );
}

/// A socket without an address has its family as path, until it is bound or connected.
#[test]
fn sockets_without_address() {
    check(
        "1 1 socket family=10 type=2 ret=3
         2 1 socket family=1 ret=4
         3 1 socket family=16 ret=5
         4 1 socket family=17 ret=6
         5 1 socket family=40 ret=7
         6 1 socket family=-1 ret=-97
         7 1 socketpair family=1 type=0x80001 usockvec=8,9
         8 1 dup fildes=3 ret=10
         9 1 sendto fd=3 len=4 addr=0200003501020304 ret=4
         10 1 sendto fd=3 len=4 ret=4
         11 1 bind fd=3 umyaddr=02001f9000000000
         12 1 sendto fd=3 len=4 ret=4
         13 1 connect fd=4 uservaddr=0100006e
         14 1 bind fd=4 umyaddr=0100006f
         15 1 write fd=4 ret=1
         16 1 write fd=10 ret=1
         17 1 write fd=9 ret=1
         18 1 process:exec name=x
         19 1 write fd=9 ret=-9
         20 9 state:file of_pid=1 fd=11 path=socket:[77]
         21 1 read fd=11 ret=1
         22 1 bind fd=11 umyaddr=02001f9000000000
         23 1 read fd=11 ret=1",
        "1+0 [1] socket 3 socket:inet6 = 3
         2+0 [1] socket 4 socket:unix = 4
         3+0 [1] socket 5 socket:netlink = 5
         4+0 [1] socket 6 socket:packet = 6
         5+0 [1] socket 7 socket:40 = 7
         6+0 [1] socket socket:-1 = -97
         7+0 [1] socket:socketpair 8>9 socket pair = 0
         8+0 [1] dup 3>10 socket:inet6 = 10
         9+0 [1] write:sendto 3 1.2.3.4:53 4 /4 = 4
         10+0 [1] write:sendto 3 socket:inet6 4 /4 = 4
         11+0 [1] bind 3 0.0.0.0:8080 = 0
         12+0 [1] write:sendto 3 0.0.0.0:8080 4 /4 = 4
         13+0 [1] connect 4 unix:@n = 0
         14+0 [1] bind 4 unix:@o = 0
         15+0 [1] write 4 unix:@n 1 /0 = 1
         16+0 [1] write 10 socket:inet6 1 /0 = 1
         17+0 [1] write 9 socket pair 1 /0 = 1
         19+0 x[1] write 9 /0 = -9
         21+0 x[1] read 11 socket:[77] 1 /0 = 1
         22+0 x[1] bind 11 0.0.0.0:8080 = 0
         23+0 x[1] read 11 0.0.0.0:8080 1 /0 = 1",
    );
}

/// After a loss of events, state that follows from earlier events is uncertain. Arguments of calls
/// and state from later events are certain.
#[test]
fn losses_make_older_state_uncertain() {
    check(
        "1 1 chdir filename=/srv
         2 1 open filename=/a ret=3
         3 1 open filename=b ret=4
         4 1 read fd=3 count=1 ret=1
         lost
         10 1 read fd=3 count=1 ret=1
         11 1 pread64 fd=3 pos=5 ret=1
         12 1 read fd=9 ret=-9
         13 1 open filename=/c ret=5
         14 1 open filename=d ret=6
         15 1 read fd=5 ret=1
         16 1 read fd=6 ret=1
         17 1 openat dfd=5 filename=e ret=-20
         18 1 openat dfd=4 filename=e ret=-20
         19 1 openat dfd=4 filename=/e ret=7
         20 1 renameat2 olddfd=-100 oldname=/x newdfd=-100 newname=y
         21 1 sendfile64 out_fd=3 in_fd=5 ret=1
         22 1 dup fildes=3 ret=8
         23 1 close fd=8
         24 1 process:fork child=2
         25 2 read fd=3 ret=1
         26 2 read fd=5 ret=1
         27 1 chdir filename=/new
         28 1 open filename=f ret=8
         lost
         30 1 open filename=g ret=-2
         31 1 read fd=5 ret=1",
        "2+0 [1] open 3 /a = 3
         3+0 [1] open 4 /srv/b = 4
         4+0 [1] read 3 /a 1 /1 ~0 = 1
         10+0 [1] read 3 /a 1 /1 ~1 ? = 1
         11+0 [1] read:pread64 3 /a 1 /0 @5 ? = 1
         12+0 [1] read 9 /0 = -9
         13+0 [1] open 5 /c = 5
         14+0 [1] open 6 /srv/d ? = 6
         15+0 [1] read 5 /c 1 /0 ~0 = 1
         16+0 [1] read 6 /srv/d 1 /0 ~0 ? = 1
         17+0 [1] open:openat /c/e = -20
         18+0 [1] open:openat /srv/b/e ? = -20
         19+0 [1] open:openat 7 /e = 7
         20+0 [1] rename:renameat2 /x -> /srv/y ? = 0
         21+0 [1] copy:sendfile64 5>3 /c -> /a 1 /0 ? = 1
         22+0 [1] dup 3>8 /a ? = 8
         23+0 [1] close 8 /a ? = 0
         25+0 [2] read 3 /a 1 /0 ~3 ? = 1
         26+0 [2] read 5 /c 1 /0 ~2 = 1
         28+0 [1] open 8 /new/f = 8
         30+0 [1] open /new/g ? = -2
         31+0 [1] read 5 /c 1 /0 ~3 ? = 1",
    );
}

/// A recorded process state replaces all earlier state of the process, including file positions,
/// and descriptors that the recorded state does not list. A new socket address also makes a
/// descriptor certain again.
#[test]
fn later_state_is_certain_again() {
    check(
        "1 1 open filename=/a ret=3
         2 1 open filename=/b ret=4
         3 1 chdir filename=/old
         4 1 connect fd=5 uservaddr=0200005001020304
         5 1 read fd=3 ret=1
         lost
         10 9 state:process of_pid=1 name=app cwd=/data
         11 9 state:file of_pid=1 fd=3 path=/a
         12 9 state:file of_pid=1 fd=4 path=/other
         13 1 open filename=x ret=-2
         14 1 read fd=3 ret=1
         15 1 lseek fd=3 offset=100 ret=100
         16 1 read fd=3 ret=1
         17 1 read fd=4 ret=1
         18 1 read fd=5 ret=1
         19 1 bind fd=5 umyaddr=02001f9000000000
         20 1 read fd=5 ret=1
         21 1 fchdir fd=5
         22 1 open filename=x ret=-2",
        "1+0 [1] open 3 /a = 3
         2+0 [1] open 4 /b = 4
         4+0 [1] connect 5 1.2.3.4:80 = 0
         5+0 [1] read 3 /a 1 /0 ~0 = 1
         13+0 app[1] open /data/x = -2
         14+0 app[1] read 3 /a 1 /0 = 1
         15+0 app[1] seek:lseek 3 /a @100 = 100
         16+0 app[1] read 3 /a 1 /0 ~100 = 1
         17+0 app[1] read 4 /other 1 /0 = 1
         18+0 app[1] read 5 1 /0 = 1
         19+0 app[1] bind 5 0.0.0.0:8080 = 0
         20+0 app[1] read 5 0.0.0.0:8080 1 /0 = 1
         22+0 app[1] open x = -2",
    );
}

/// A damaged event has an unknown effect, so it counts as a loss.
#[test]
fn damaged_events_are_losses() {
    check(
        "1 1 open filename=/a ret=3
         2 1 read fd=3 ret=1
         3 1 close fd=3
         cut
         10 1 read fd=3 ret=1",
        "1+0 [1] open 3 /a = 3
         2+0 [1] read 3 /a 1 /0 ~0 = 1
         10+0 [1] read 3 /a 1 /0 ~1 ? = 1",
    );
}

/// Requests of io_uring become operations when they complete, in the order of their completions. A
/// request without an offset advances the position; a registered file has no path.
#[test]
fn requests_of_io_uring() {
    check(
        "1 1 process:exec name=app
         2 1 openat dfd=-100 filename=/data ret=3
         10 1/2 uring:submit ring=1 request=0xa user_data=7 opcode=22 fd=3 offset=4096 length=512
         11 1/2 uring:submit ring=1 request=0xb user_data=7 opcode=23 fd=3 offset=-1 length=100
         12 1/2 uring:submit ring=1 request=0xc user_data=7 opcode=1 flags=1 fd=0 offset=0 length=2
         13 1/2 uring:submit ring=1 request=0xd user_data=7 opcode=11 fd=0
         20 1/3 uring:complete ring=1 request=0xb user_data=7 ret=100
         21 1/3 uring:complete ring=1 request=0xd user_data=7 ret=-62
         22 1/3 uring:complete ring=1 request=0xa user_data=7 ret=-5
         23 1/3 uring:complete ring=1 request=0xc user_data=7 ret=8192
         24 1/3 uring:complete ring=1 request=0xc user_data=7 ret=8192
         30 1 uring:submit ring=1 request=0xa user_data=7 opcode=3 fd=3
         31 1 uring:submit ring=1 request=0xa user_data=7 opcode=19 fd=3
         32 1 uring:complete ring=1 request=0xa user_data=7
         33 1 uring:submit ring=1 request=0xa user_data=7 opcode=18 fd=-100
         34 1 uring:complete ring=1 request=0xa user_data=7 ret=3
         35 1 read fd=3 count=1 ret=1",
        "2+0 app[1] open:openat 3 /data = 3
         11+9 app[1/2] write:io_uring:write 3 /data 100 /100 ~0 = 100
         10+12 app[1/2] read:io_uring:read 3 /data /512 @4096 = -5
         12+11 app[1/2] read:io_uring:readv 8192 @0 = 8192
         31+1 app[1] close:io_uring:close 3 /data = 0
         33+1 app[1] open:io_uring:openat 3 = 3
         35+0 app[1] read 3 1 /1 = 1",
    );
}

/// A request that completes several times is found by its ring and its user data.
#[test]
fn requests_of_io_uring_that_complete_again() {
    check(
        "1 1 uring:submit ring=1 request=0xa user_data=7 opcode=13 fd=3
         2 1 uring:submit ring=2 request=0xb user_data=7 opcode=13 fd=4
         5 1 uring:complete ring=1 request=0 user_data=7 ret=5 flags=2
         7 1 uring:complete ring=1 request=0 user_data=7 ret=6 flags=2
         8 1 uring:complete ring=3 request=0 user_data=7 ret=6 flags=2
         9 1 uring:complete ring=1 request=0xa user_data=7 ret=-125
         10 1 uring:complete ring=1 request=0 user_data=7 ret=7 flags=2",
        "1+4 [1] accept:io_uring:accept 3>5 = 5
         5+2 [1] accept:io_uring:accept 3>6 = 6
         7+2 [1] accept:io_uring:accept 3 = -125",
    );
}

/// A request belongs to the operation of its thread that was going on when it was queued, in the
/// order of queueing. One of another moment belongs to none.
#[test]
fn requests_to_disks_belong_to_operations() {
    check_disk(
        "5 1 state:process of_pid=1 name=app
         100 1 disk:request device=1 operation=1 sector=16 bytes=4096 queued=10 served=40 call=1
         110 1 disk:request device=2 operation=0 sector=8 bytes=512 queued=90 served=10 call=1
         120+110 1 write fd=3 count=4096 ret=4096
         130+5 1 write fd=3 count=1 ret=1
         150 1 disk:request device=1 bytes=1 queued=1 served=2 error=-5 call=0
         160+13 1 read fd=3 count=1 ret=-5",
        "10+110 app[1] write 3 4096 /4096 = 4096
           10+90+10 vdb read 512@8
           50+10+40 vda write 4096@16
         125+5 app[1] write 3 1 /1 = 1
         147+13 app[1] read 3 /1 = -5
           147+1+2 vda read 1@0 error -5",
    );
}

/// A request that completes after its operation is known to have been queued by it. One that was
/// queued before the next operation was not queued by that.
#[test]
fn late_and_early_requests_belong_to_no_operation() {
    check_disk(
        "1 1 disk:request device=1 call=-1
         10+5 1 write fd=3 count=1 ret=1
         20 1 disk:request device=1 operation=1 bytes=7 served=12 call=1
         30 1 disk:request device=1 bytes=8 served=5 call=0
         50+10 1 read fd=3 count=1 ret=1
         70+1 1 disk:request device=1 bytes=9 served=60 call=1
         80 1 disk:request device=1 bytes=10 served=1 call=0",
        "1+0+0 vda read 0@0 [1/1] Fault
         5+5 [1] write 3 1 /1 = 1
         8+0+12 vda write 7@0 [1/1] EndedCall(\"write\")
         25+0+5 vda read 8@0 [1/1] Call(\"read\")
         40+10 [1] read 3 1 /1 = 1
         10+0+60 vda read 9@0 [1/1] EndedCall(\"write\")
         79+0+1 vda read 10@0 [1/1] Call(\"read\")",
    );
}

/// Threads of a process make operations at the same time, each with its own requests.
#[test]
fn overlapping_threads_have_their_own_requests() {
    check_disk(
        "10 1/2 disk:request device=1 bytes=2 served=5 call=1
         11 1/3 disk:request device=1 bytes=3 served=5 call=1
         12 9/3 disk:request device=1 bytes=9 served=5 call=1
         20+19 1/3 write fd=3 count=1 ret=1
         21+19 1/2 write fd=3 count=1 ret=1",
        "1+19 [1/3] write 3 1 /1 = 1
           6+0+5 vda read 3@0
         2+19 [1/2] write 3 1 /1 = 1
           5+0+5 vda read 2@0
         7+0+5 vda read 9@0 [9/3] Call(\"write\")",
    );
}

/// A request whose operation was lost is not joined to another one; nor is that of an earlier
/// thread with the same id, or one whose call has no known beginning.
#[test]
fn requests_are_not_joined_to_other_operations() {
    check_disk(
        "10 1 disk:request device=1 bytes=1 served=5 call=1
         lost
         30+10 1 write fd=3 count=1 ret=1
         40 1/2 disk:request device=1 bytes=2 served=5 call=1
         50 1 process:exit
         60+50 1/2 write fd=3 count=1 ret=1
         70 4 disk:request device=1 bytes=4 served=5 call=1
         80+0 4 write fd=3 count=1 ret=1",
        "5+0+5 vda read 1@0 [1/1] Call(\"write\")
         20+10 [1] write 3 1 /1 = 1
         35+0+5 vda read 2@0 [1/2] Call(\"write\")
         10+50 [1/2] write 3 1 /1 = 1
         65+0+5 vda read 4@0 [4/4] Call(\"write\")
         80+0 [4] write 3 1 /1 = 1",
    );
}

/// A request that completes after the end of its process waits for no operation. One of a later
/// process with the same id does.
#[test]
fn requests_may_complete_after_their_process() {
    check_disk(
        "10 1 disk:request device=1 served=5 call=1
         20 1 process:exit
         30 1 disk:request device=1 bytes=1 served=15 call=0
         45 1 disk:request device=1 bytes=2 served=3 call=0
         50+10 1 read fd=3 count=1 ret=1",
        "5+0+5 vda read 0@0 [1/1] Call(\"write\")
         15+0+15 vda read 1@0 [1/1] EndedCall(\"read\")
         40+10 [1] read 3 1 /1 = 1
           42+0+3 vda read 2@0",
    );
}

/// Requests of nobody, of threads of the kernel, and of calls that are no operations are released
/// at once, or when the call has ended. Malformed ones are counted.
#[test]
fn requests_without_an_operation_are_released() {
    let collector = check_disk(
        "10 0 disk:request device=1 served=5 call=-3
         11 2 disk:request device=1 served=5 call=-2
         12 3 disk:request device=7 served=5 call=39
         13 4 disk:request device=1 served=5 call=80
         14 4 disk:request device=1 served=5 call=999
         20+15 4 chdir filename=/
         21 5 disk:request device=1 served=5 call=-3",
        "5+0+5 vda read 0@0 [0/0] Unknown
         6+0+5 vda read 0@0 [2/2] KernelThread
         7+0+5 7 read 0@0 [3/3] Call(\"getpid\")
         9+0+5 vda read 0@0 [4/4] Call(\"999\")
         8+0+5 vda read 0@0 [4/4] Call(\"chdir\")
         16+0+5 vda read 0@0 [5/5] Unknown",
    );
    assert_eq!(collector.tracker.counts().malformed, 0);
}
