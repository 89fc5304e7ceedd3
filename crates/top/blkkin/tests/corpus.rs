//! Reading of the good and broken traces in `tests/corpus`, each of which covers one case. A trace
//! is made from its recipe in a scratch directory. `view` must print the expectation beside the
//! recipe (`NAME.txt`, and `NAME.err` for standard error) with any number of threads, and from
//! standard input if possible; `--count` and `--json` must have the same number of events.
//! babeltrace2 must print the same events for a good trace that it can read.
//!
//! After an intended change, write the expectations again and check the difference:
//! `BLKKIN_WRITE_EXPECTATIONS=1 cargo test -p blkkin --test corpus`

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use support::corpus::{corpus, differs, expectation, for_each, losses, writes_expectations};
use support::recipe::Recipe;
use support::{blkkin, is_installed, run, run_with_input, skip, text};

fn view(directory: &Path, arguments: &[&str]) -> Output {
    run(blkkin(directory).arg("view").args(arguments))
}

/// Reads a trace in all ways, and returns the differences from the expectation beside the recipe.
/// For `--count` and `--json`, only the number of events is compared. Writes the expectation first
/// if an environment variable requests it.
fn check_all_ways(folder: &str, exit: i32, recipe: &Recipe, directory: &Path) -> Vec<String> {
    let name = recipe.name.as_str();
    if writes_expectations() {
        let Output { stdout, stderr, .. } = view(directory, &["--threads", "1", name]);
        for (extension, content) in [("txt", stdout), ("err", stderr)] {
            let path = corpus().join(folder).join(format!("{name}.{extension}"));
            // Empty output has no file.
            let _ = fs::remove_file(&path);
            if !content.is_empty() {
                fs::write(path, content).expect("to write");
            }
        }
    }
    let expected = expectation(folder, name, "txt");
    let expected_err = expectation(folder, name, "err");
    let events = expected.iter().filter(|&&byte| byte == b'\n').count();
    let mut wrong = Vec::new();

    for threads in ["1", "2", "3"] {
        let output = view(directory, &["--threads", threads, name]);
        let what = |stream: &str| format!("--threads {threads}, standard {stream}");
        wrong.extend(differs(&what("output"), &expected, &output.stdout));
        wrong.extend(differs(&what("error"), &expected_err, &output.stderr));
        if output.status.code() != Some(exit) {
            wrong.push(format!("--threads {threads} ends with {}", output.status));
        }
    }

    let output = view(directory, &["--count", name]);
    // Without the printed events, losses are only reported as totals.
    let expected_err = text(&expected_err);
    let totals = expected_err.lines().filter(|line| !line.starts_with("WARNING"));
    let totals: String = totals.map(|line| format!("{line}\n")).collect();
    wrong.extend(differs("--count, standard error", totals.as_bytes(), &output.stderr));
    if exit == 0 {
        wrong.extend(check_count(folder, recipe, directory));
    }

    let output = view(directory, &["--json", name]);
    let mut json_events = 0;
    for line in text(&output.stdout).lines() {
        match serde_json::from_str::<serde_json::Value>(line) {
            Ok(value) if value["type"] == "event" => json_events += 1,
            Ok(_) => (),
            Err(error) => wrong.push(format!("--json: {error} in {line}")),
        }
    }
    if std::str::from_utf8(&output.stdout).is_err() {
        wrong.push("--json prints what is not UTF-8".to_owned());
    }
    if json_events != events {
        wrong.push(format!("--json has {json_events} events, not {events}"));
    }

    if let Some(input) = recipe.as_stdin() {
        let output = run_with_input(blkkin(directory).args(["view", "-"]), &input);
        wrong.extend(differs("standard input", &expected, &output.stdout));
        if output.status.code() != Some(exit) {
            wrong.push(format!("standard input ends with {}", output.status));
        }
    }
    wrong
}

/// Checks that `--count` prints the number of events that `view` prints; returns the difference.
fn check_count(folder: &str, recipe: &Recipe, directory: &Path) -> Option<String> {
    let expected = expectation(folder, &recipe.name, "txt");
    let events = expected.iter().filter(|&&byte| byte == b'\n').count();
    let output = view(directory, &["--count", &recipe.name]);
    differs("--count", format!("{events}\n").as_bytes(), &output.stdout)
}

#[test]
fn broken_traces_count_as_many_events_as_they_show() {
    for_each("broken", |recipe, directory| {
        check_count("broken", recipe, directory).into_iter().collect()
    });
}

#[test]
fn good_traces_read_in_full() {
    for_each("good", |recipe, directory| check_all_ways("good", 0, recipe, directory));
}

#[test]
fn broken_traces_read_as_far_as_they_are_sound() {
    for_each("broken", |recipe, directory| check_all_ways("broken", 1, recipe, directory));
}

/// Sets of options that both `view` and babeltrace2 accept, each with the time zone of the run.
const OPTIONS: &[(&str, &[&str])] = &[
    ("UTC", &[]),
    ("UTC", &["--names", "all", "--fields", "all"]),
    ("UTC", &["--names", "none"]),
    ("UTC", &["--clock-seconds", "--no-delta"]),
    ("UTC", &["--clock-cycles"]),
    ("UTC", &["--clock-date", "--clock-gmt"]),
    ("UTC", &["--color", "always"]),
    ("UTC", &["--color", "always", "--names", "all", "--fields", "all"]),
    ("Europe/Athens", &[]),
    ("Europe/Athens", &["--clock-date"]),
];

#[test]
fn good_traces_read_as_babeltrace2_reads_them() {
    if !is_installed("babeltrace2") {
        return skip("corpus", "babeltrace2 is not installed");
    }
    for_each("good", |recipe, directory| {
        if recipe.not_babeltrace.is_some() {
            return Vec::new();
        }
        let mut wrong = Vec::new();
        for (zone, options) in OPTIONS {
            let mut theirs = Command::new("babeltrace2");
            let theirs = theirs.current_dir(directory).env("TZ", zone).args(*options);
            if options.contains(&"--color") {
                // Without a terminal, `--color always` is not sufficient for babeltrace2.
                theirs.env("BABELTRACE_TERM_COLOR", "always");
            }
            let mut theirs = run(theirs.arg(&recipe.name));
            if options.contains(&"--color") && theirs.stdout.ends_with(b"\n\x1b[0m") {
                // babeltrace2 ends coloured output with a reset.
                theirs.stdout.truncate(theirs.stdout.len() - 4);
            }
            let ours =
                run(blkkin(directory).env("TZ", zone).arg("view").args(*options).arg(&recipe.name));
            let what = format!("TZ={zone} {}", options.join(" "));
            wrong.extend(differs(&what, &theirs.stdout, &ours.stdout));
            if !theirs.status.success() {
                wrong.push(format!("babeltrace2 fails:\n{}", text(&theirs.stderr)));
                break;
            }
        }
        wrong
    });
}

/// A time range shows only the part of a loss that lies within the range, as in babeltrace2. The
/// number of lost events in that part is unknown.
#[test]
fn losses_read_as_babeltrace2_reads_them() {
    if !is_installed("babeltrace2") {
        return skip("corpus", "babeltrace2 is not installed");
    }
    // Ends of ranges within a packet, between packets, and at packets' first and last nanoseconds.
    let ends = [99, 101, 1000, 1200, 1500, 1700, 2000, 2300, 3200, 5000];
    for_each("good", |recipe, directory| {
        // babeltrace2 reads a counter of 32 bits as one of 64.
        const NOT_BABELTRACE: [&str; 1] = ["discarded-counter-wraps"];
        let name = recipe.name.as_str();
        let has_losses = text(&expectation("good", name, "err")).contains("WARNING");
        let is_refused = recipe.not_babeltrace.is_some() || NOT_BABELTRACE.contains(&name);
        if !has_losses || is_refused {
            return Vec::new();
        }
        let ranges = ends.iter().enumerate().flat_map(|(index, begin)| {
            ends[index..].iter().step_by(1 + index % 3).map(move |end| (begin, end))
        });
        let mut wrong = Vec::new();
        for (begin, end) in ranges {
            let range = [begin, end].map(|ns| format!("1000000000.{ns:09}"));
            let range = ["--begin", &range[0], "--end", &range[1]];
            let mut theirs = Command::new("babeltrace2");
            let theirs = run(theirs.current_dir(directory).env("TZ", "UTC").args(range).arg(name));
            for threads in ["1", "2"] {
                let ours =
                    view(directory, &[&["--threads", threads][..], &range, &[name]].concat());
                let what = format!("{begin} to {end}, --threads {threads}");
                wrong.extend(differs(&what, &theirs.stdout, &ours.stdout));
                let [theirs, ours] = [&theirs, &ours].map(losses);
                wrong.extend(differs(&what, theirs.as_bytes(), ours.as_bytes()));
            }
        }
        wrong
    });
}
