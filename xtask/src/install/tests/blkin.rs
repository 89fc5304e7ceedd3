//! Compares recordings of one blkin program by LTTng and by BlkKin: scripts for either recording
//! must work with both.

use super::support::{compile, have, installed, pkg_config, record, sources, succeed, text};
use crate::bench::lttng::{Daemon, traced};
use crate::bench::recipe::{Recipe, find_metadata};
use blkkin_sys::testing::Scratch;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;

/// Prefixes of random ids. In a comparison, an id other than 0 is replaced by its order of first
/// occurrence.
const IDS: [&str; 3] = ["trace_id = ", "span_id = ", "parent_span_id = "];
/// Prefixes of numbers that differ between recordings.
const NUMBERS: [&str; 5] = ["program:(", "trace:vpid = (", "cpu_id = ", "vpid = ", "vtid = "];

/// Returns a line of babeltrace2 without the times at its start, with `N` for each of [`NUMBERS`],
/// and with each id other than 0 replaced by its order of first occurrence.
fn blank(line: &str, ids: &mut HashMap<String, usize>) -> String {
    let mut rest = line;
    let mut out = String::new();
    // Times are at the start of the line.
    let with_names = [("timestamp = ", ", "), ("delta = +", ", ")];
    for (begin, end) in [("[", "] "), ("(+", ") ")].into_iter().chain(with_names) {
        if let Some((_, after)) = rest.strip_prefix(begin).and_then(|within| within.split_once(end))
        {
            out += &format!("{begin}{end}");
            rest = after;
        }
    }
    while let Some((at, word)) = IDS
        .iter()
        .chain(&NUMBERS)
        .filter_map(|word| Some((rest.find(word)?, word)))
        .min_by_key(|(at, _)| *at)
    {
        let (before, value) = rest.split_at(at + word.len());
        let end = value.find(|letter: char| !(letter.is_ascii_digit() || letter == '-'));
        let (value, after) = value.split_at(end.unwrap_or(value.len()));
        out += before;
        if IDS.iter().any(|id| before.ends_with(id)) && value != "0" {
            let next = ids.len() + 1;
            out += &format!("#{}", ids.entry(value.to_owned()).or_insert(next));
        } else {
            out += if value == "0" && !NUMBERS.contains(word) { "0" } else { "N" };
        }
        rest = after;
    }
    out + rest
}

/// Returns the lines that babeltrace2 prints for a trace, normalized by [`blank`].
fn printed(trace: &Path, options: &[&str]) -> Vec<String> {
    let mut command = Command::new("babeltrace2");
    let output = succeed(command.env("TZ", "UTC").args(options).arg(trace));
    let mut ids = HashMap::new();
    text(&output.stdout).lines().map(|line| blank(line, &mut ids)).collect()
}

/// Returns the JSON lines of `blkkin spans` for a trace, except lines of type `begin`. Times are
/// blanked, and each id is replaced by its order of first occurrence.
fn requests(trace: &Path) -> Vec<String> {
    let mut command = Command::new(installed().join("bin/blkkin"));
    let output = succeed(command.args(["spans", "--json"]).arg(trace));
    assert_eq!(text(&output.stderr), "");
    let mut ids = HashMap::new();
    let lines = text(&output.stdout);
    let lines = lines.lines().filter(|line| !line.contains("\"type\":\"begin\""));
    lines
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).expect("JSON");
            let object = line.as_object_mut().expect("an object");
            for key in ["trace_id", "id", "parent_id"] {
                let Some(id) = object.get_mut(key) else { continue };
                let next = ids.len() + 1;
                let text = id.as_str().expect("an id").to_owned();
                *id = (*ids.entry(text).or_insert(next)).into();
            }
            for key in ["start", "duration", "self"] {
                if let Some(time) = object.get_mut(key) {
                    assert!(time.as_u64().is_some_and(|time| time > 0 || key == "self"));
                    *time = "a time".into();
                }
            }
            let annotations = object.get_mut("annotations").and_then(Value::as_array_mut);
            annotations.into_iter().flatten().for_each(|said| said["time"] = "a time".into());
            line.to_string()
        })
        .collect()
}

/// Returns the description of a trace that babeltrace2's `sink.text.details` prints.
fn details(trace: &Path) -> String {
    let component = "--component=sink.text.details";
    text(&succeed(Command::new("babeltrace2").arg(trace).arg(component)).stdout)
}

/// Returns the lines that describe the fields of each event type, by name. The contexts count as
/// one type.
fn types(details: &str) -> BTreeMap<String, Vec<String>> {
    let stream = details.lines().skip_while(|line| !line.contains("Stream class"));
    let classes = stream.skip(1).take_while(|line| line.starts_with("    "));
    let mut types = BTreeMap::new();
    let mut name = String::new();
    let mut is_clock = false;
    for line in classes {
        // Clocks differ between recordings.
        is_clock = line.ends_with("Default clock class:") || is_clock && line.starts_with("      ");
        // Ids differ between recordings.
        if let Some((head, _)) = line.split_once(" (ID ") {
            name = head.trim().to_owned();
        }
        if !line.contains(" (ID ") && !is_clock {
            types.entry(name.clone()).or_insert_with(Vec::new).push(line.to_owned());
        }
    }
    types
}

/// Returns the entries of the trace's environment, sorted. Values that always differ between
/// recordings are blanked.
fn environment(details: &str) -> Vec<String> {
    let words = details.lines().skip_while(|line| !line.contains("Environment ("));
    let entries = words.skip(1).take_while(|line| line.starts_with("      "));
    let mut names: Vec<String> = entries
        .map(|line| {
            let (name, value) = line.trim().split_once(": ").unwrap_or((line, ""));
            // Values that always differ are reduced to their form.
            match name {
                "architecture_bit_width" => format!("{name}: {value}"),
                "tracer_name" | "trace_name" => name.to_owned(),
                _ if value.replace(',', "").parse::<i64>().is_ok() => format!("{name}: N"),
                _ if name.ends_with("datetime") => {
                    format!(
                        "{name}: {}",
                        value.replace(|letter: char| letter.is_ascii_digit(), "0")
                    )
                }
                _ => format!("{name}: {value}"),
            }
        })
        .collect();
    names.sort();
    names
}

#[test]
fn lttng_and_we_record_the_same() {
    const TEST: &str = "install-blkin-lttng";
    if !have(TEST, &["cc", "pkg-config", "babeltrace2", "lttng", "lttng-sessiond"]) {
        return;
    }
    let scratch = Scratch::new(TEST);
    let folder = sources("blkin");
    // Both recordings use the same file name, as traces contain it.
    let (theirs, ours) = (scratch.0.join("lttng/program"), scratch.0.join("blkkin/program"));
    for program in [&theirs, &ours] {
        std::fs::create_dir_all(program.parent().expect("a folder")).expect("to make it");
    }
    let include = installed().join("include");
    let includes = [
        format!("-I{}", include.display()),
        format!("-I{}", include.join("blkin").display()),
        format!("-I{}", folder.display()),
    ];
    let lttng = ["-llttng-ust", "-ldl"].map(str::to_owned);
    let both = [folder.join("program.c"), folder.join("lttng.c")];
    compile("cc", &both, &[&includes[..], &lttng].concat(), &theirs);
    compile("cc", &both[..1], &pkg_config(&["--cflags", "--libs", "blkin"]), &ours);

    let daemon = Daemon::start().expect("LTTng's session daemon");
    let output = scratch.0.join("lttng-trace");
    let session = daemon
        .session(&Recipe {
            output: &output,
            is_snapshot: false,
            channel: &["--buffers-pid", "--subbuf-size=512K", "--num-subbuf=4"],
            event: "zipkin:*",
            contexts: &["vpid", "vtid", "procname"],
        })
        .expect("a session");
    let recorded = succeed(&mut traced(&theirs));
    session.stop().expect("to stop");
    session.destroy().expect("to end");
    let theirs = find_metadata(&output).expect("LTTng's trace");
    let ours = record(&ours, &["--context=vpid,vtid,procname"]);
    let ours = find_metadata(&ours).expect("our trace");

    let count: usize = text(&recorded.stdout).trim().parse().expect("a number");
    let sets: [&[&str]; 4] = [
        &[],
        &["--names=all", "--fields=all"],
        &["--clock-cycles", "--no-delta", "--names=context,payload"],
        &["--fields=trace:hostname,trace:domain,trace:procname,trace:vpid,loglevel"],
    ];
    for options in sets {
        let (expected, got) = (printed(&theirs, options), printed(&ours, options));
        assert_eq!(expected.len(), count);
        for (line, (expected, got)) in expected.iter().zip(&got).enumerate() {
            assert_eq!(got, expected, "line {line}, {options:?}");
        }
        assert_eq!(got.len(), count);
    }
    let (expected, got) = (requests(&theirs), requests(&ours));
    for (line, (expected, got)) in expected.iter().zip(&got).enumerate() {
        assert_eq!(got, expected, "line {line}");
    }
    // 100 requests with 4 lines each, and the line of totals.
    assert_eq!((expected.len(), got.len()), (401, 401));
    let (theirs, ours) = (details(&theirs), details(&ours));
    assert_eq!(environment(&ours), environment(&theirs));
    assert_eq!(environment(&ours).len(), 14);
    assert_eq!(types(&ours), types(&theirs));
    // The contexts and three events.
    assert_eq!(types(&ours).len(), 4);
}

#[test]
fn only_ids_and_times_are_blanked() {
    let mut ids = HashMap::new();
    let mut check = |line: &str, expected: &str| assert_eq!(blank(line, &mut ids), expected);
    check(
        "[08:14:59.3] (+?.???) vm zipkin:timestamp: { cpu_id = 0 }, { vpid = 12, vtid = 13 }, \
         { trace_id = -7, span_id = -7, parent_span_id = 0, event = \"cs\" }",
        "[] (+) vm zipkin:timestamp: { cpu_id = N }, { vpid = N, vtid = N }, \
         { trace_id = #1, span_id = #1, parent_span_id = 0, event = \"cs\" }",
    );
    check(
        "timestamp = 18:31:48.8, delta = +1, name = x, trace:vpid = (7), { timestamp = 7 }",
        "timestamp = , delta = +, name = x, trace:vpid = (N), { timestamp = 7 }",
    );
    check(
        "[1] vm x: { trace_id = -7, span_id = 8, parent_span_id = -7, val = -7 }",
        "[] vm x: { trace_id = #1, span_id = #2, parent_span_id = #1, val = -7 }",
    );
}
