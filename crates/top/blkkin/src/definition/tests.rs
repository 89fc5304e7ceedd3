//! Tests of session definitions: a written one reads as itself, and bad ones name their line.

use super::*;
use blkkin_control::{
    Channel, Context, Hook, Level, Levels, Mode, Processes, Purpose, Redaction, RedactionMethod,
    Rule, Selection, Sharing,
};

fn definition() -> Definition {
    let user = Channel {
        mode: Mode::Overwrite,
        subbuffer_size: Some(256 << 10),
        subbuffer_count: Some(4),
        contexts: vec![Context::Pid, Context::Supplied { name: "db:query".into() }],
        wait_us: 1000,
        event_size: Some(4096),
        ..Channel::named("a \"quoted\" \\ name")
    };
    let selection = Selection {
        names: vec!["rpc:*".into(), "disk:*".into()],
        excluded: vec!["rpc:ping".into()],
        levels: Levels::AtLeast { level: Level::Warning },
        filter: Some("ret < 0 &&\n name == \"x#y\"".into()),
        processes: Processes { pids: vec![7, 8], executables: vec!["osd*".into()], children: true },
    };
    let only = Selection {
        levels: Levels::Exactly { level: Level::Info },
        ..Selection::for_names(["syscall:*"])
    };
    let rule =
        |channel: &str, enabled, selection| Rule { channel: channel.into(), enabled, selection };
    let redaction =
        Redaction { events: None, field: "filename".into(), method: RedactionMethod::Hash };
    Definition {
        session: Session {
            name: "web".into(),
            purpose: Purpose::Record,
            output: Some("/data/web".into()),
        },
        retention: Retention::default(),
        net: None,
        size_max: Some(10 << 30),
        is_direct: true,
        rotation: Some(Rotation {
            size: Some(10 << 20),
            age_ms: Some(600_000),
            files: Some(3),
            total: Some(1 << 30),
            name_pattern: Some("{host}-%F".into()),
            hook: Some(Hook { command: "zstd -r \"$1\" # all".into(), timeout_ms: 60_000 }),
        }),
        channels: vec![
            SessionChannel::new(user.clone(), false),
            SessionChannel::new(Channel::named("kernel0"), true),
            SessionChannel {
                sharing: Some(Sharing::Shared),
                ..SessionChannel::new(Channel::named("all"), false)
            },
            SessionChannel {
                sharing: Some(Sharing::Part { of: "all".into(), percent: 25 }),
                ..SessionChannel::new(Channel::named("quarter"), false)
            },
        ],
        rules: vec![
            RedactedRule { rule: rule(&user.name, true, selection), redactions: vec![] },
            RedactedRule { rule: rule("kernel0", true, only), redactions: vec![redaction] },
            RedactedRule {
                rule: rule(&user.name, false, Selection::for_names(["*"])),
                redactions: vec![],
            },
        ],
        triggers: vec![TriggerWords {
            name: "slow".into(),
            words: ["--slower", "5ms", "--snapshot", "web"].map(String::from).into(),
        }],
    }
}

#[test]
fn definitions_read_as_they_were_written() {
    let all = definition();
    assert_eq!(Definition::from_text(&all.to_text()).unwrap(), all);
    let plain = Definition {
        triggers: Vec::new(),
        session: Session { name: "s".into(), purpose: Purpose::Snapshot, output: None },
        retention: Retention { keep_ms: Some(120_000), memory: Some(1 << 28) },
        net: None,
        size_max: None,
        is_direct: false,
        rotation: None,
        channels: vec![],
        rules: vec![],
    };
    assert_eq!(Definition::from_text(&plain.to_text()).unwrap(), plain);
    let target = || "net://collector:1:2".parse().unwrap();
    let net = Some(Relay { target: target(), drops_oldest: false });
    let age_ms = Some(60_000);
    let rotation = Some(Rotation { age_ms, ..Rotation::default() });
    let sent = Definition { net, rotation, ..definition() };
    assert_eq!(Definition::from_text(&sent.to_text()).unwrap(), sent);
    let net = Some(Relay { target: target(), drops_oldest: true });
    let mut spooled = Definition { net, rotation: None, ..definition() };
    spooled.session.output = None;
    assert_eq!(Definition::from_text(&spooled.to_text()).unwrap(), spooled);
    let divided = Definition { rotation: Some(Rotation::default()), ..definition() };
    assert_eq!(Definition::from_text(&divided.to_text()).unwrap(), divided);
}

/// Comments, empty lines and both kinds of strings are read.
#[test]
fn files_may_be_written_by_hand() {
    let text = "\n# mine\n[session] # the only one\nname = 'we\\b' # name\n\n[chunks]\nsize = 8192\n\
                [[channel]]\nname = \"c\"\ncontexts = [ \"vpid\" , 'tid', ]\n[[rule]]\nchannel = \"c\"\n\
                events = [\"*\"]\n";
    let read = Definition::from_text(text).unwrap();
    assert_eq!(read.session.name, "we\\b");
    assert_eq!(read.rotation.unwrap().size, Some(8192));
    assert_eq!(read.channels[0].channel.contexts, [Context::Pid, Context::Tid]);
    assert_eq!(read.rules.len(), 1);
}

#[track_caller]
fn check(text: &str, line: usize, message: &str, hint: Option<&str>) {
    let error = Definition::from_text(text).unwrap_err();
    assert_eq!((error.line, error.message.as_str(), error.hint.as_deref()), (line, message, hint));
}

#[test]
fn bad_files_are_refused_with_line_and_suggestion() {
    let session = "[session]\nname = \"s\"\n";
    let with = |more: &str| format!("{session}{more}");
    check("", 1, "there is no [session]", None);
    check("[sesion]\n", 1, "there is no table `sesion`", Some("did you mean `session`?"));
    check("[[session]]\n", 1, "write the heading as [session]", None);
    check("[session]\n", 1, "`session` lacks its `name`", None);
    check("version = 2\n", 1, "version 2 is not known, only 1", None);
    check(
        &with("sise-max = 1\n"),
        3,
        "there is no `sise-max` in `session`",
        Some("did you mean `size-max`?"),
    );
    check(
        &with("purpose = \"recrod\"\n"),
        3,
        "`purpose`: `recrod` is not known",
        Some("did you mean `record`?"),
    );
    check(&with("output = \"web\"\n"), 3, "`output`: `web` is not an absolute path", None);
    check(&with("name = \"t\"\n"), 3, "`name` is there already", None);
    check(&with("keep = \"2min\"\n"), 1, "`keep` and `memory` need purpose = \"snapshot\"", None);
    check(&with("[chunks]\nfiles = 1\n"), 4, "`files`: at least 2, and not that many", None);
    check(
        &with("[chunks]\nsize = \"big\"\n"),
        4,
        "`size`: not a size in bytes, such as 4096, 256K or 1M",
        None,
    );
    check(
        &with("[chunks]\nsize = big\n"),
        4,
        "`big` is no value: write strings in quotes, as \"big\"",
        None,
    );
    check(&with("[chunks]\n[chunks]\n"), 4, "there is a table `chunks` already", None);
    check(&with("what\n"), 3, "`what` is neither a heading nor KEY = VALUE", None);
    check(&with("output = \"/a\" x\n"), 3, "`x` follows the value", None);
    check(&with("output = \"/a\n"), 3, "a string lacks its closing quote", None);
    let channel = with("[[channel]]\nname = \"main\"\n");
    let rule = |more: &str| format!("{channel}[[rule]]\n{more}");
    check(
        &rule("channel = \"mian\"\n"),
        6,
        "`channel`: there is no channel `mian` above",
        Some("did you mean `main`?"),
    );
    check(&rule("channel = \"main\"\n"), 5, "`rule` lacks its `events`", None);
    check(
        &rule("channel = \"main\"\nevents = \"*\"\n"),
        7,
        "`events`: not an array, such as [\"a\", \"b\"]",
        None,
    );
    let events = rule("channel = \"main\"\nevents = [\"*\"]\n");
    check(&format!("{events}pids = [1, [2]]\n"), 8, "an array must not contain another one", None);
    check(
        &format!("{events}redact = [\"a=hash\"]\n"),
        8,
        "`redact`: only events of the kernel are redacted",
        None,
    );
    let error = Definition::from_text(&format!("{events}filter = \"a <\"\n")).unwrap_err();
    assert!(error.line == 8 && error.message.starts_with("`filter`:"), "{error:?}");
    let error = Definition::from_text(&format!("{events}level = \"wraning\"\n")).unwrap_err();
    assert!(error.line == 8 && error.message.contains("did you mean `warning`?"), "{error:?}");
}

/// No text makes the parser panic: all prefixes of a definition, and each with one byte changed.
#[test]
fn damaged_files_do_no_harm() {
    let text = definition().to_text();
    for (at, _) in text.char_indices() {
        let _ = Definition::from_text(&text[..at]);
        for other in ["\"", "[", "]", "=", "\\", "\u{e9}", "\n"] {
            let _ = Definition::from_text(&format!("{}{other}{}", &text[..at], &text[at..]));
        }
    }
}
