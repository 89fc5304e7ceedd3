//! Output of `merge`, `cut` and `convert`: `view` must find the same events and losses in the
//! output as in the source, or in the source's time range for `cut`. babeltrace2 must find them in
//! output of CTF 1.8. If events are displayed differently in the output, `NAME.merge.txt`,
//! `NAME.ctf1.txt` or `NAME.ctf2.txt` beside the recipe contains the text.
//!
//! After an intended change, write the expectations again and check the difference:
//! `BLKKIN_WRITE_EXPECTATIONS=1 cargo test -p blkkin --test rewrite`

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::corpus::{corpus, differs, for_each, losses, writes_expectations};
use support::recipe::Recipe;
use support::{Scratch, blkkin, is_installed, run, run_with_input, skip, text};

/// Recipes that are not compared with babeltrace2, each with the reason: babeltrace2 cannot read
/// the trace, prints wrong times, or prints messages although the trace is correct.
const NOT_BABELTRACE: &[(&str, &str)] = &[
    ("clock-before-1970", "it tells only the first time before 1970 from one after"),
    ("clock-offset-negative", "it warns of each time before 1970"),
    ("loglevels", "it warns of the level that LTTng does not have"),
    ("lookup-each-scope", "it knows no dynamic length in an event's own context"),
];

/// Commands that write a whole trace, each as the suffix of its output and its arguments.
const WAYS: [(&str, &[&str]); 3] = [
    ("merge", &["merge"]),
    ("ctf1", &["convert", "--to", "ctf1"]),
    ("ctf2", &["convert", "--to", "ctf2"]),
];

fn write(directory: &Path, arguments: &[&str], from: &str, to: &str) -> Output {
    run(blkkin(directory).args(arguments).args([from, "-o", to]))
}

fn view(directory: &Path, arguments: &[&str]) -> Output {
    run(blkkin(directory).arg("view").args(arguments))
}

fn expectation_path(name: &str, way: &str) -> PathBuf {
    corpus().join("good").join(format!("{name}.{way}.txt"))
}

/// Reads the expected output of `view` for a trace written in the given way.
fn expectation(name: &str, way: &str) -> Vec<u8> {
    let whole = || corpus().join("good").join(format!("{name}.txt"));
    fs::read(expectation_path(name, way)).or_else(|_| fs::read(whole())).unwrap_or_default()
}

/// Writes the file with the expected output of a written trace, or removes the file if the output
/// equals that of the source.
fn write_expectation(name: &str, way: &str, content: &[u8]) {
    let path = expectation_path(name, way);
    let _ = fs::remove_file(&path);
    if expectation(name, way) != content {
        fs::write(path, content).expect("to write");
    }
}

/// Writes a trace in all ways; returns the way's name, the output path and the command's output for
/// each.
fn write_all_ways(
    directory: &Path,
    name: &str,
) -> impl Iterator<Item = (&'static str, String, Output)> {
    WAYS.iter().map(move |(way, arguments)| {
        let path = format!("{name}.{way}");
        let written = write(directory, arguments, name, &path);
        (*way, path, written)
    })
}

/// Checks that babeltrace2 reads `path` as `view` does, and reports only losses; returns the
/// differences.
fn check_babeltrace(directory: &Path, path: &str, view: &Output) -> Vec<String> {
    // babeltrace2 prints absolute paths, so it gets one.
    let theirs = run(Command::new("babeltrace2").env("TZ", "UTC").arg(directory.join(path)));
    let mut wrong = Vec::new();
    if !theirs.status.success() {
        wrong.push("babeltrace2 fails".to_owned());
    }
    wrong.extend(differs("babeltrace2", &theirs.stdout, &view.stdout));
    let messages = text(&theirs.stderr);
    let only_losses: String = messages
        .lines()
        .filter(|line| line.starts_with("WARNING: Tracer "))
        .map(|line| format!("{line}\n"))
        .collect();
    wrong.extend(differs("babeltrace2, messages", only_losses.as_bytes(), &theirs.stderr));
    let theirs = losses(&theirs);
    wrong.extend(differs("babeltrace2, losses", theirs.as_bytes(), losses(view).as_bytes()));
    wrong
}

fn check_ways(recipe: &Recipe, directory: &Path) -> Vec<String> {
    let name = recipe.name.as_str();
    let source = view(directory, &[name]);
    let mut wrong = Vec::new();
    for (way, path, written) in write_all_ways(directory, name) {
        let mut fails = |what: &str, error: String| wrong.push(format!("{way}, {what}: {error}"));
        if !written.status.success() {
            fails("writing", text(&written.stderr));
            continue;
        }
        let ours = view(directory, &[&path]);
        if writes_expectations() {
            write_expectation(name, way, &ours.stdout);
        }
        let expected = expectation(name, way);
        differs("text", &expected, &ours.stdout).into_iter().for_each(|e| fails("view", e));
        differs("losses", losses(&source).as_bytes(), losses(&ours).as_bytes())
            .into_iter()
            .for_each(|e| fails("view", e));
        if !ours.status.success() {
            fails("view", text(&ours.stderr));
        }
        let is_ctf1 = match way {
            "merge" => !name.starts_with("ctf2-"),
            way => way == "ctf1",
        };
        let is_asked = !NOT_BABELTRACE.iter().any(|(other, _)| *other == name);
        if is_ctf1 && is_asked && is_installed("babeltrace2") {
            check_babeltrace(directory, &path, &ours)
                .into_iter()
                .for_each(|error| fails("babeltrace2", error));
        }
    }
    if let Some(input) = recipe.as_stdin() {
        let path = format!("{name}.stdin");
        let written = run_with_input(blkkin(directory).args(["merge", "-", "-o", &path]), &input);
        if !written.status.success() {
            wrong.push(format!("from standard input: {}", text(&written.stderr)));
        }
        let ours = view(directory, &[&path]);
        wrong.extend(differs("standard input", &expectation(name, "merge"), &ours.stdout));
        let [ours, expected] = [&ours, &source].map(losses);
        wrong.extend(differs("standard input", expected.as_bytes(), ours.as_bytes()));
    }
    wrong
}

#[test]
fn what_is_written_reads_as_what_was_read() {
    if !is_installed("babeltrace2") {
        skip("rewrite", "babeltrace2 is not installed");
    }
    for_each("good", check_ways);
}

/// Formats nanoseconds in the syntax of `--begin`.
fn seconds(ns: i64) -> String {
    format!("{}.{:09}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000))
}

/// Returns the times of all events. Returns none if an event has no time or a time before 1970,
/// which cannot be written as seconds.
fn times(directory: &Path, name: &str) -> Vec<i64> {
    let output = view(directory, &["--json", name]);
    let lines = text(&output.stdout);
    let values = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let events = values.filter(|value: &serde_json::Value| value["type"] == "event");
    let times: Option<Vec<i64>> = events.map(|event| event["time"].as_i64()).collect();
    times.filter(|times| times.iter().all(|&time| time >= 0)).unwrap_or_default()
}

fn check_cuts(recipe: &Recipe, directory: &Path) -> Vec<String> {
    let name = recipe.name.as_str();
    let mut wrong = Vec::new();
    let times = times(directory, name);
    let (Some(&first), Some(&last)) = (times.first(), times.last()) else { return wrong };
    let middle = times[times.len() / 2];
    // Expected text is read from the written trace, whose times may be shown differently.
    let whole = format!("{name}.whole");
    write(directory, &["merge"], name, &whole);
    let ranges = [
        (middle, last),
        (first, middle),
        (middle, middle),
        (first + 1, last - 1),
        (last + 1, last + 2),
    ];
    for (number, (begin, end)) in ranges.into_iter().enumerate() {
        let (begin, end) = (seconds(begin), seconds(end));
        if begin > end {
            continue;
        }
        let mut fails = |what: &str, error: String| wrong.push(format!("{begin}: {what}: {error}"));
        let range = ["--begin", &begin, "--end", &end];
        let path = format!("{name}.cut{number}");
        let cut = write(directory, &[&["cut"][..], &range].concat(), name, &path);
        if !cut.status.success() {
            fails("cut", text(&cut.stderr));
            continue;
        }
        let expected = view(directory, &[&range[..], &[&whole]].concat());
        let ours = view(directory, &[&path]);
        differs("text", &expected.stdout, &ours.stdout).into_iter().for_each(|e| fails("view", e));
        if !ours.status.success() {
            fails("view", text(&ours.stderr));
        }
        // Only for two ranges, as babeltrace2 is slow.
        let is_asked = number < 2 && !NOT_BABELTRACE.iter().any(|(other, _)| *other == name);
        if !name.starts_with("ctf2-") && is_asked && is_installed("babeltrace2") {
            check_babeltrace(directory, &path, &ours)
                .into_iter()
                .for_each(|error| fails("babeltrace2", error));
        }
    }
    wrong
}

#[test]
fn a_cut_has_the_events_of_the_range() {
    if !is_installed("babeltrace2") {
        skip("rewrite", "babeltrace2 is not installed");
    }
    for_each("good", check_cuts);
}

/// A cut trace reports the whole of each loss that overlaps the time range, as its source does. The
/// number of lost events within the range is unknown.
#[test]
fn a_cut_has_the_losses_that_it_touches_whole() {
    let scratch = Scratch::new("cut-losses");
    let name = "losses-beside-gaps";
    Recipe::read(&corpus().join("good").join(format!("{name}.ctf"))).write(&scratch.0);
    let source = losses(&view(&scratch.0, &[name]));
    let source: Vec<&str> = source.lines().collect();
    let check = |begin: i64, end: i64, expected: &[usize]| {
        let path = format!("{begin}-{end}");
        let range = [begin, end].map(|ns| seconds(1_000_000_000_000_000_000 + ns));
        let cut =
            write(&scratch.0, &["cut", "--begin", &range[0], "--end", &range[1]], name, &path);
        assert!(cut.status.success(), "{}", text(&cut.stderr));
        let ours = view(&scratch.0, &[&path]);
        let expected: String = expected.iter().map(|&loss| format!("{}\n", source[loss])).collect();
        assert_eq!(losses(&ours), expected, "from {begin} to {end}");
        if is_installed("babeltrace2") {
            assert_eq!(check_babeltrace(&scratch.0, &path, &ours), Vec::<String>::new());
        }
    };
    check(0, 9999, &[0, 1, 2, 3, 4]);
    check(0, 99, &[]);
    check(100, 999, &[0]);
    check(400, 500, &[0]);
    check(1000, 1000, &[0, 1, 2]);
    check(1001, 1499, &[1, 2]);
    check(1501, 1999, &[1]);
    check(2000, 2000, &[1, 3]);
    check(2001, 2499, &[3]);
    check(2501, 2999, &[]);
    check(2600, 3000, &[4]);
    check(3100, 3200, &[4]);
    check(4000, 5000, &[4]);
    check(4001, 5000, &[]);
    if !is_installed("babeltrace2") {
        skip("rewrite", "babeltrace2 is not installed");
    }
}

/// Checks that unreadable parts of a trace are reported and all readable parts are written; returns
/// the differences.
fn check_broken(recipe: &Recipe, directory: &Path) -> Vec<String> {
    let name = recipe.name.as_str();
    let source = view(directory, &[name]);
    let mut wrong = Vec::new();
    for (way, path, written) in write_all_ways(directory, name) {
        if written.status.code() != Some(1) {
            wrong.push(format!("{way} ends with {}", written.status));
        }
        let told = text(&written.stderr);
        let errors = |text: &str| {
            let lines = text.lines().filter(|l| l.starts_with("error:") || l.starts_with("hint:"));
            lines.map(|line| format!("{line}\n")).collect::<String>()
        };
        let expected = errors(&text(&source.stderr));
        wrong.extend(differs(way, expected.as_bytes(), errors(&told).as_bytes()));
        if !directory.join(&path).exists() {
            wrong.extend(differs("nothing is written", &[], &source.stdout));
            continue;
        }
        let ours = view(directory, &[&path]);
        wrong.extend(differs("losses", losses(&source).as_bytes(), losses(&ours).as_bytes()));
        if way == "merge" || !name.starts_with("ctf2-") {
            wrong.extend(differs(way, &source.stdout, &ours.stdout));
        }
        if !ours.status.success() {
            wrong.push(format!("{way} is broken, too: {}", text(&ours.stderr)));
        }
        let is_ctf1 = way == "ctf1" || way == "merge" && !name.starts_with("ctf2-");
        if is_ctf1 && is_installed("babeltrace2") {
            wrong.extend(check_babeltrace(directory, &path, &ours));
        }
    }
    wrong
}

#[test]
fn broken_traces_are_written_as_far_as_they_are_sound() {
    if !is_installed("babeltrace2") {
        skip("rewrite", "babeltrace2 is not installed");
    }
    for_each("broken", check_broken);
}
