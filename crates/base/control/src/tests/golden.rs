//! The encoded bytes of each message of a connection, so that they cannot change unnoticed. A
//! change of these bytes requires another major version, except for new kinds, new variants of
//! choices, and new fields at the ends of bodies.
//!
//! Bytes are in hexadecimal; text in quotes is literal.

use super::{decode, descriptors, frame, received};
use crate::message::Messages;
use crate::{
    Activity, AddChannel, Answer, Application, Applications, AwaitedChange, Cause, Channel,
    ChannelName, ChannelRule, Chunk, Chunks, Clock, Context, Decoder, Destination, DroppedPackets,
    EventRule, EventType, Events, EvictedRings, Failed, Field, FieldKind, ForwardProgress,
    ForwardReport, ForwardTask, Forwarding, FromApplication, Hello, Hook, HookReport, KeepChannel,
    KernelRule, Level, Levels, Loss, Mode, NewChannel, NewPart, NewSharedChannel, Opening, Orphan,
    Processes, Purpose, Quota, Reach, RecentSnapshot, RedactedEvents, RedactedRule, Redaction,
    RedactionMethod, Refused, Reply, Request, RetainingSession, Retention, Ring, RingTotals, Role,
    Rotation, Rule, Selection, Session, SessionForward, SessionLimit, SessionRotation,
    SessionState, Sharing, Snapshot, SpanSlot, SpoolSize, ToApplication, Unavailable, Version,
    Welcome, Width, code,
};

fn destination() -> Destination {
    Destination { target: "net:x".into(), is_spool: true, drops_oldest: true }
}

fn progress() -> ForwardProgress {
    ForwardProgress {
        is_connected: true,
        packets: 4,
        bytes: 5,
        path: "p".into(),
        trouble: Some("t".into()),
    }
}

/// Parses hexadecimal bytes and quoted text into bytes.
fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in text.split('"').enumerate() {
        if index % 2 == 1 {
            bytes.extend(part.bytes());
            continue;
        }
        let digits: Vec<char> = part.chars().filter(|digit| !digit.is_whitespace()).collect();
        for pair in digits.chunks(2) {
            let pair: String = pair.iter().collect();
            bytes.push(u8::from_str_radix(&pair, 16).expect("hexadecimal"));
        }
    }
    bytes
}

/// Checks that each message encodes to its text and decodes from it, and that each kind has a case.
fn check<M: Messages>(cases: Vec<(M, &str)>) {
    for (message, text) in &cases {
        let bytes = bytes(text);
        assert_eq!(frame(message), bytes, "{message:?}: {}", frame(message).escape_ascii());
        let own = descriptors(message.kind().descriptors());
        let all = decode(&mut Decoder::new(), &bytes, own);
        assert_eq!(all, (vec![received(message.clone())], Ok(())));
    }
    for kind in M::KINDS {
        assert!(cases.iter().any(|(message, _)| message.kind() == *kind), "{}", kind.name);
    }
}

fn event_type() -> EventType {
    let widths = [Width::Bits8, Width::Bits16, Width::Bits32, Width::Bits64];
    let kinds = [
        FieldKind::Unsigned { width: widths[0], hex: true },
        FieldKind::Signed { width: widths[1], hex: false },
        FieldKind::Unsigned { width: widths[2], hex: false },
        FieldKind::Signed { width: widths[3], hex: true },
        FieldKind::F32,
        FieldKind::F64,
        FieldKind::Bool,
        FieldKind::String,
        FieldKind::Bytes,
    ];
    let field = |(name, kind): (char, FieldKind)| Field { name: name.into(), kind };
    EventType {
        index: 0x01020304,
        name: "p:n".into(),
        level: Level::Debug,
        file: "a.c".into(),
        line: 515,
        fields: ('a'..='i').zip(kinds).map(field).collect(),
    }
}

/// Encoded body of [`event_type`], without the frame's header.
const EVENT_TYPE: &str = r#"
    04030201 03000000"p:n" 0e 03000000"a.c" 03020000 0900
    01000000"a" 00 00 01  01000000"b" 01 01 00  01000000"c" 00 02 00  01000000"d" 01 03 01
    01000000"e" 02  01000000"f" 03  01000000"g" 04  01000000"h" 05  01000000"i" 06"#;

fn channel() -> Channel {
    Channel {
        name: "c".into(),
        mode: Mode::Overwrite,
        subbuffer_size: Some(4096),
        subbuffer_count: Some(4),
        contexts: vec![Context::Tid],
        wait_us: 258,
        event_size: Some(513),
    }
}

fn session() -> Session {
    Session { name: "s".into(), purpose: Purpose::Snapshot, output: Some("/tmp".into()) }
}

fn selection() -> Selection {
    Selection {
        names: vec!["a*".into(), "b".into()],
        excluded: vec!["ab".into()],
        levels: Levels::AtLeast { level: Level::Warning },
        filter: Some("x>1".into()),
        processes: Processes { pids: vec![258], executables: vec!["dd".into()], children: true },
    }
}

/// Expected encoding of [`selection`] in the body of a message.
const SELECTION: &str = r#"
    0200 02000000"a*" 01000000"b"  0100 02000000"ab"  01 04  01 03000000"x>1"
    0100 02010000  0100 02000000"dd"  01"#;

fn redactions() -> Vec<Redaction> {
    let events = Some("p:*".into());
    let (hash, length) = (RedactionMethod::Hash, RedactionMethod::Length);
    vec![
        Redaction { events: None, field: "f*".into(), method: hash },
        Redaction { events, field: "g".into(), method: length },
    ]
}

/// Expected encoding of [`redactions`] in the body of a message.
const REDACTIONS: &str = r#"0200 00 02000000"f*" 00  01 03000000"p:*" 01000000"g" 01"#;

fn events(channel: Option<&str>, selection: Selection) -> Events {
    Events { session: "s".into(), channel: channel.map(str::to_owned), selection }
}

#[test]
fn openings() {
    let version = Version::OURS;
    let hello =
        |role| Opening::Hello(Hello { version, role, program: "dd".into(), release: "9".into() });
    check(vec![
        (
            hello(Role::Application { pid: 7, clock: Clock::Monotonic }),
            r#"1b000000 0100 "blkkin"01000200 00 07000000 01 02000000"dd" 01000000"9""#,
        ),
        (
            hello(Role::Application { pid: 7, clock: Clock::Tsc }),
            r#"1b000000 0100 "blkkin"01000200 00 07000000 00 02000000"dd" 01000000"9""#,
        ),
        (hello(Role::Command), r#"16000000 0100 "blkkin"01000200 01 02000000"dd" 01000000"9""#),
        (hello(Role::Kernel), r#"16000000 0100 "blkkin"01000200 02 02000000"dd" 01000000"9""#),
    ]);
    let refused = |try_again| Refused { version, try_again, reason: "no".into() };
    check(vec![
        (
            Answer::Welcome(Welcome { version, release: "9".into() }),
            r#"0f000000 0200 "blkkin"01000200 01000000"9""#,
        ),
        (Answer::Refused(refused(false)), r#"11000000 0300 "blkkin"01000200 00 02000000"no""#),
        (Answer::Refused(refused(true)), r#"11000000 0300 "blkkin"01000200 01 02000000"no""#),
    ]);
}

#[test]
fn applications() {
    check(vec![
        (FromApplication::Catalog, "00000000 0111"),
        (
            FromApplication::Orphan(Orphan { number: 3, is_spent: true }),
            "05000000 0511 03000000 01",
        ),
        (FromApplication::Goodbye, "00000000 0201"),
        (FromApplication::Ping(0x0102030405060708), "08000000 0301 0807060504030201"),
        (FromApplication::Pong(1), "08000000 0401 0100000000000000"),
        (FromApplication::KernelRings(1), "04000000 0611 01000000"),
        (
            FromApplication::Unavailable(Unavailable { channel: 1, reason: "no".into() }),
            r#"0a000000 0701 01000000 02000000"no""#,
        ),
    ]);
    let mut contexts = Context::ALL.to_vec();
    contexts.push(Context::Supplied { name: "p:q".into() });
    let replaces = Some(3);
    let add = AddChannel { channel: 1, session: "s".into(), contexts, replaces };
    let rule = |enabled, filter: Option<&str>| EventRule {
        enabled,
        names: vec!["a*".into()],
        excluded: vec!["ab".into()],
        levels: Levels::Exactly { level: Level::Warning },
        filter: filter.map(str::to_owned),
    };
    check(vec![
        (
            ToApplication::AddChannel(add),
            r#"25000000 0122 01000000 01000000"s"
               0e00 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 03000000"p:q" 01 03000000"#,
        ),
        (ToApplication::RemoveChannel(1), "04000000 0202 01000000"),
        (
            ToApplication::Rule(ChannelRule { channel: 1, rule: rule(true, Some("x")) }),
            r#"1d000000 0302 01000000 01 0100 02000000"a*" 0100 02000000"ab" 02 04 01 01000000"x""#,
        ),
        (
            ToApplication::Rule(ChannelRule { channel: 1, rule: rule(false, None) }),
            r#"18000000 0302 01000000 00 0100 02000000"a*" 0100 02000000"ab" 02 04 00"#,
        ),
        (ToApplication::Apply(1), "04000000 0402 01000000"),
        (ToApplication::Sampling(Some("1/5".into())), r#"08000000 0502 01 03000000"1/5""#),
        (ToApplication::Sampling(None), "01000000 0502 00"),
        (ToApplication::Ping(1), "08000000 0602 0100000000000000"),
        (ToApplication::Pong(1), "08000000 0702 0100000000000000"),
        (ToApplication::Release(1), "04000000 0802 01000000"),
        (
            ToApplication::KeepChannel(KeepChannel { channel: 1, orphan: 2 }),
            "08000000 0902 01000000 02000000",
        ),
        (
            ToApplication::KernelRule(KernelRule {
                channel: 1,
                enabled: true,
                selection: selection(),
                redactions: redactions(),
            }),
            &format!("4b000000 0a02 01000000 01 {SELECTION} {REDACTIONS}"),
        ),
        (
            ToApplication::SpanSlot(SpanSlot { process: 7, offset: 0x1_ffff_ffe0 }),
            "0c000000 0b02 07000000 e0ffffff01000000",
        ),
        (ToApplication::RecordState(1), "04000000 1002 01000000"),
    ]);
}

#[test]
fn requests() {
    let plain = Session { purpose: Purpose::Record, output: None, ..session() };
    let plain_channel = Channel::named("c");
    let new = |channel| NewChannel { session: "s".into(), channel };
    let named = || ChannelName { session: "s".into(), channel: "c".into() };
    let all = |levels| Selection { levels, ..Selection::for_names(["*"]) };
    let applications = Applications { processes: selection().processes, event_types: true };
    check(vec![
        (Request::CreateSession(session()), r#"0f000000 0103 01000000"s" 01 01 04000000"/tmp""#),
        (Request::CreateSession(plain), r#"07000000 0103 01000000"s" 00 00"#),
        (Request::StartSession("s".into()), r#"05000000 0203 01000000"s""#),
        (Request::StopSession("s".into()), r#"05000000 0303 01000000"s""#),
        (Request::DestroySession("s".into()), r#"05000000 0403 01000000"s""#),
        (Request::ClearSession("s".into()), r#"05000000 0503 01000000"s""#),
        (
            Request::Snapshot(Snapshot { session: "s".into(), output: Some("/a".into()) }),
            r#"0c000000 0603 01000000"s" 01 02000000"/a""#,
        ),
        (Request::ListSessions(None), "01000000 0703 00"),
        (Request::ListSessions(Some("s".into())), r#"06000000 0703 01 01000000"s""#),
        (
            Request::CreateChannel(new(channel())),
            r#"25000000 0803 01000000"s" 01000000"c" 01 01 0010000000000000 01 04000000 0100 01 02010000
               01 01020000"#,
        ),
        (
            Request::CreateChannel(new(plain_channel)),
            r#"14000000 0803 01000000"s" 01000000"c" 00 00 00 0000 00000000 00"#,
        ),
        (
            Request::EnableEvents(events(Some("c"), selection())),
            &format!(r#"39000000 0903 01000000"s" 01 01000000"c" {SELECTION}"#),
        ),
        (
            Request::DisableEvents(events(None, all(Levels::Exactly { level: Level::Emergency }))),
            r#"17000000 0a03 01000000"s" 00 0100 01000000"*" 0000 02 00 00 0000 0000 00"#,
        ),
        (
            Request::DisableEvents(events(None, all(Levels::Any))),
            r#"16000000 0a03 01000000"s" 00 0100 01000000"*" 0000 00 00 0000 0000 00"#,
        ),
        (
            Request::ListApplications(applications),
            r#"10000000 0b03 0100 02010000 0100 02000000"dd" 01 01"#,
        ),
        (Request::Status(Some("s".into())), r#"06000000 0c03 01 01000000"s""#),
        (Request::GetSampling, "00000000 0d03"),
        (Request::SetSampling(Some("5/s".into())), r#"08000000 0e03 01 03000000"5/s""#),
        (
            Request::LimitSession(SessionLimit { session: "s".into(), size_max: 258 }),
            r#"0d000000 0f03 01000000"s" 0201000000000000"#,
        ),
        (
            Request::CreateKernelChannel(new(Channel::named("c"))),
            r#"14000000 1003 01000000"s" 01000000"c" 00 00 00 0000 00000000 00"#,
        ),
        (
            Request::EnableKernelEvents(events(Some("c"), selection())),
            &format!(r#"39000000 1103 01000000"s" 01 01000000"c" {SELECTION}"#),
        ),
        (
            Request::DisableKernelEvents(events(None, all(Levels::Any))),
            r#"16000000 1203 01000000"s" 00 0100 01000000"*" 0000 00 00 0000 0000 00"#,
        ),
        (
            Request::EnableRedactedEvents(RedactedEvents {
                events: events(Some("c"), selection()),
                redactions: redactions(),
            }),
            &format!(r#"51000000 1303 01000000"s" 01 01000000"c" {SELECTION} {REDACTIONS}"#),
        ),
        (
            Request::CreateRetainingSession(RetainingSession {
                session: session(),
                retention: Retention { keep_ms: Some(258), memory: None },
            }),
            r#"19000000 1403 01000000"s" 01 01 04000000"/tmp" 01 0201000000000000 00"#,
        ),
        (
            Request::AwaitChange(AwaitedChange { session: "s".into(), seen: Some(258) }),
            r#"0e000000 1503 01000000"s" 01 0201000000000000"#,
        ),
        (
            Request::RecentSnapshot(RecentSnapshot {
                snapshot: Snapshot { session: "s".into(), output: None },
                keep_ms: 258,
            }),
            r#"0e000000 1603 01000000"s" 00 0201000000000000"#,
        ),
        (Request::AwaitSignal(Some(258)), "09000000 1703 01 0201000000000000"),
        (
            Request::ForwardSession(SessionForward {
                session: "s".into(),
                destination: destination(),
            }),
            r#"10000000 2003 01000000"s" 05000000"net:x" 01 01"#,
        ),
        (Request::AwaitForwarding(true), "01000000 2103 01"),
        (
            Request::ReportForwarding(ForwardReport {
                number: 2,
                progress: progress(),
                bytes_removed: 3,
                is_delivered: true,
            }),
            r#"2d000000 2203 0200000000000000 01 0400000000000000 0500000000000000 01000000"p"
               01 01000000"t" 0300000000000000 01"#,
        ),
        (
            Request::ReportDropped(DroppedPackets { number: 2, to_drop: 3, packets: 4, bytes: 5 }),
            "20000000 2303 0200000000000000 0300000000000000 0400000000000000 0500000000000000",
        ),
        (
            Request::ReportSpoolSize(SpoolSize { number: 2, bytes: 3 }),
            "10000000 2403 0200000000000000 0300000000000000",
        ),
        (
            Request::DivideSession(SessionRotation {
                session: "s".into(),
                rotation: Rotation {
                    size: Some(258),
                    age_ms: None,
                    files: Some(3),
                    total: None,
                    name_pattern: Some("x".into()),
                    hook: Some(Hook { command: "y".into(), timeout_ms: 258 }),
                },
            }),
            r#"29000000 3003 01000000"s" 01 0201000000000000 00 01 03000000 00 01 01000000"x"
               01 01000000"y" 0201000000000000"#,
        ),
        (Request::RotateSession("s".into()), r#"05000000 3103 01000000"s""#),
        (Request::ListChunks("s".into()), r#"05000000 3203 01000000"s""#),
        (Request::WriteDirectly("s".into()), r#"05000000 3403 01000000"s""#),
        (
            Request::CreateSharedChannel(NewSharedChannel {
                session: "s".into(),
                channel: Channel::named("c"),
                is_kernel: true,
            }),
            r#"15000000 3503 01000000"s" 01000000"c" 00 00 00 0000 00000000 00 01"#,
        ),
        (
            Request::CreatePart(NewPart {
                session: "s".into(),
                channel: "c".into(),
                of: "d".into(),
                percent: 25,
            }),
            r#"13000000 3603 01000000"s" 01000000"c" 01000000"d" 19000000"#,
        ),
        (Request::RemoveChannel(named()), r#"0a000000 3703 01000000"s" 01000000"c""#),
        (
            Request::ReportHook(HookReport {
                session: "s".into(),
                number: 2,
                sequence: 3,
                failure: Some("z".into()),
            }),
            r#"1b000000 3303 01000000"s" 0200000000000000 0300000000000000 01 01000000"z""#,
        ),
    ]);
}

#[test]
fn replies() {
    let failed = |hint| Failed { code: code::QUOTA.into(), message: "too much".into(), hint };
    let state = |activity| {
        Reply::Session(SessionState { session: session(), activity, owner: 1000, created_ns: 258 })
    };
    let application = Application {
        pid: 9,
        pid_inner: 1,
        uid: 1000,
        program: "dd".into(),
        executable: "/bin/dd".into(),
        release: "9".into(),
        clock: Clock::Tsc,
        event_type_count: 3,
        event_types_refused: 4,
    };
    let ring = Ring {
        session: "s".into(),
        channel: "c".into(),
        pid: 9,
        cpu: Some(1),
        time_ns: 2,
        events_recorded: Some(3),
        events_discarded: 4,
        packets_taken: 5,
        packets_lost: 6,
        bytes_written: 7,
        bytes_waiting: 8,
        size: 9,
        events_cut: 10,
    };
    let ended = RingTotals {
        session: "s".into(),
        channel: "c".into(),
        rings: 2,
        events_recorded: None,
        events_discarded: 4,
        packets_taken: 5,
        packets_lost: 6,
        bytes_written: 7,
        events_cut: 8,
    };
    let quota = Quota { uid: 1000, what: "things".into(), used: 1, limit: 2, refused: 3 };
    let loss = |cause, reason: Option<&str>| Loss {
        session: "s".into(),
        is_destroyed: false,
        cause,
        events: 2,
        packets: 3,
        uncounted: 4,
        reason: reason.map(str::to_owned),
    };
    let rule = Rule { channel: "c".into(), enabled: true, selection: selection() };
    let released =
        EvictedRings { session: "s".into(), channel: "c".into(), rings: 2, packets_lost: 3 };
    let reach = Reach {
        session: "s".into(),
        channel: "c".into(),
        pid: 9,
        is_complete: true,
        age_ns: 2,
        memory: 3,
        memory_max: 4,
    };
    check(vec![
        (Reply::Done, "00000000 0104"),
        (Reply::Failed(failed(None)), r#"16000000 0204 05000000"quota" 08000000"too much" 00"#),
        (
            Reply::Failed(failed(Some("less".into()))),
            r#"1e000000 0204 05000000"quota" 08000000"too much" 01 04000000"less""#,
        ),
        (
            state(Activity::New),
            r#"1c000000 0304 01000000"s" 01 01 04000000"/tmp" 00 e8030000 0201000000000000"#,
        ),
        (
            state(Activity::Active),
            r#"1c000000 0304 01000000"s" 01 01 04000000"/tmp" 01 e8030000 0201000000000000"#,
        ),
        (
            state(Activity::Stopped),
            r#"1c000000 0304 01000000"s" 01 01 04000000"/tmp" 02 e8030000 0201000000000000"#,
        ),
        (
            Reply::Channel(channel()),
            r#"20000000 0404 01000000"c" 01 01 0010000000000000 01 04000000 0100 01 02010000
               01 01020000"#,
        ),
        (
            Reply::KernelChannel(Channel::named("c")),
            r#"0f000000 0f04 01000000"c" 00 00 00 0000 00000000 00"#,
        ),
        (Reply::Rule(rule.clone()), &format!(r#"34000000 0504 01000000"c" 01 {SELECTION}"#)),
        (
            Reply::RedactedRule(RedactedRule { rule, redactions: redactions() }),
            &format!(r#"4c000000 1004 01000000"c" 01 {SELECTION} {REDACTIONS}"#),
        ),
        (
            Reply::Application(application),
            r#"2b000000 0604 09000000 01000000 e8030000 02000000"dd" 07000000"/bin/dd"
               01000000"9" 00 03000000 04000000"#,
        ),
        (Reply::EventType(event_type()), &format!("57000000 0704 {EVENT_TYPE}")),
        (
            Reply::Ring(ring),
            r#"5c000000 0804 01000000"s" 01000000"c" 09000000 01 01000000 0200000000000000
               01 0300000000000000 0400000000000000 0500000000000000 0600000000000000
               0700000000000000 0800000000000000 0900000000000000 0a00000000000000"#,
        ),
        (Reply::Sampling(Some("1/5".into())), r#"08000000 0904 01 03000000"1/5""#),
        (Reply::Written("/tmp/s".into()), r#"0a000000 0a04 06000000"/tmp/s""#),
        (
            Reply::Ended(ended),
            r#"37000000 0b04 01000000"s" 01000000"c" 02000000 00 0400000000000000
               0500000000000000 0600000000000000 0700000000000000 0800000000000000"#,
        ),
        (
            Reply::Quota(quota),
            r#"26000000 0c04 e8030000 06000000"things" 0100000000000000 0200000000000000
               0300000000000000"#,
        ),
        (
            Reply::Released(released),
            r#"1a000000 0d04 01000000"s" 01000000"c" 0200000000000000 0300000000000000"#,
        ),
        (
            Reply::Retention(Retention { keep_ms: None, memory: Some(258) }),
            "0a000000 1104 00 01 0201000000000000",
        ),
        (
            Reply::Reach(reach),
            r#"27000000 1204 01000000"s" 01000000"c" 09000000 01 0200000000000000
               0300000000000000 0400000000000000"#,
        ),
        (
            Reply::ForwardTask(ForwardTask {
                number: 2,
                name: "s".into(),
                user: 1000,
                group: 9,
                directory: "/tmp".into(),
                destination: destination(),
                has_ended: true,
                to_drop: 7,
            }),
            r#"31000000 2004 0200000000000000 01000000"s" e8030000 09000000 04000000"/tmp"
               05000000"net:x" 01 01 01 0700000000000000"#,
        ),
        (
            Reply::Forwarding(Forwarding {
                session: "s".into(),
                destination: destination(),
                progress: progress(),
                has_ended: true,
            }),
            r#"2d000000 2104 01000000"s" 05000000"net:x" 01 01 01 0400000000000000
               0500000000000000 01000000"p" 01 01000000"t" 01"#,
        ),
        (
            Reply::Chunks(Chunks {
                session: "s".into(),
                number: 2,
                is_destroyed: true,
                rotation: Rotation::default(),
                count: 3,
                bytes: 4,
                removed: 5,
                removed_bytes: 6,
                hook_failures: 7,
            }),
            r#"3c000000 3004 01000000"s" 0200000000000000 01 00 00 00 00 00 00 0300000000000000
               0400000000000000 0500000000000000 0600000000000000 0700000000000000"#,
        ),
        (
            Reply::Chunk(Chunk {
                sequence: 1,
                path: "/a/b".into(),
                bytes: 258,
                is_closed: true,
                is_handled: false,
            }),
            r#"1a000000 3104 0100000000000000 04000000"/a/b" 0201000000000000 01 00"#,
        ),
        (Reply::Changes(258), "08000000 1304 0201000000000000"),
        (Reply::SizeMax(258), "08000000 3204 0201000000000000"),
        (Reply::Direct(258), "08000000 3304 0201000000000000"),
        (Reply::Sharing(Sharing::Shared), "01000000 3404 00"),
        (
            Reply::Sharing(Sharing::Part { of: "c".into(), percent: 25 }),
            r#"0a000000 3404 01 01000000"c" 19000000"#,
        ),
        (
            Reply::Loss(loss(Cause::Output, Some("full"))),
            r#"28000000 0e04 01000000"s" 00 01 0200000000000000 0300000000000000 0400000000000000
               01 04000000"full""#,
        ),
        (
            Reply::Loss(Loss { is_destroyed: true, ..loss(Cause::CutOff, None) }),
            r#"20000000 0e04 01000000"s" 01 09 0200000000000000 0300000000000000 0400000000000000
               00"#,
        ),
    ]);
}
