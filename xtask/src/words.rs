//! `cargo xtask words`: a ratchet for the rules on words and names that a program can check.
//!
//! [`RULES`] lists the rules. `xtask/words.txt` has the counts of each crate, which may only
//! decrease. The other rules of CONTRIBUTING.md's register need readers; `--sample` draws doc
//! comments for them.

use crate::tools::{Outcome, at, workspace_root};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Lower the ratchet to today's counts; no count is ever raised
    #[arg(long)]
    update: bool,
    /// List what is counted in a crate, such as `carry/agent`, with file and line
    #[arg(long, value_name = "CRATE")]
    list: Option<String>,
    /// Print this many doc comments of all crates, drawn at random, each with the item below it
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["update", "list"])]
    sample: Option<usize>,
    /// Seed of the sample
    #[arg(long, default_value_t = 1, requires = "sample")]
    seed: u64,
}

/// Names of the rules, in the order of the ratchet's columns.
const RULES: [&str; 4] = ["opener", "none", "width", "type"];

/// First words of doc comments that open with a clause in place of a subject.
const OPENERS: [&str; 14] = [
    "What", "Who", "Whoever", "Whose", "Those", "That", "Of", "So", "Whether", "Where", "Which",
    "How", "As", "None",
];

/// Phrases that leave open whether a number is zero, a list empty, or a value absent or invalid.
const NONE_TEXTS: [&str; 3] = ["is none", "are none", "be none"];

/// Maximum width of a comment line in columns.
const WIDTH_MAX: usize = 100;

/// Maximum width of a commit subject in columns.
const SUBJECT_MAX: usize = 72;

/// Type names that are participles, pronouns, prepositions or adverbs rather than nouns.
const TYPE_NAMES: [&str; 108] = [
    "About",
    "Above",
    "Accepted",
    "Added",
    "Adopted",
    "Alike",
    "Allocated",
    "Aside",
    "Asked",
    "Asking",
    "At",
    "Before",
    "Begun",
    "Behind",
    "Beside",
    "Between",
    "Beyond",
    "Broken",
    "Built",
    "Came",
    "Changing",
    "Closed",
    "Concerned",
    "Confined",
    "Connected",
    "Counted",
    "Denied",
    "Destroyed",
    "Done",
    "Drained",
    "Drawn",
    "Each",
    "Earlier",
    "Elsewhere",
    "Ended",
    "Entered",
    "Exceeded",
    "Found",
    "Gained",
    "Gathered",
    "Given",
    "Heard",
    "Hearing",
    "Held",
    "How",
    "Kept",
    "Known",
    "Largest",
    "Left",
    "Linked",
    "Listed",
    "Loaded",
    "Look",
    "Looker",
    "Lost",
    "Made",
    "Meanwhile",
    "Measured",
    "Named",
    "Next",
    "Nobody",
    "Noted",
    "Nothing",
    "Offered",
    "Opened",
    "Other",
    "Ours",
    "Over",
    "Own",
    "Packed",
    "Passed",
    "Place",
    "Places",
    "Planted",
    "Refused",
    "Released",
    "Replaced",
    "Rest",
    "Resumed",
    "Said",
    "Saved",
    "Saying",
    "Seen",
    "Sent",
    "Served",
    "Shown",
    "Skipped",
    "Sorted",
    "Spoken",
    "Started",
    "Stored",
    "Taken",
    "Taking",
    "Tall",
    "Then",
    "Timed",
    "Told",
    "Tried",
    "Underway",
    "Until",
    "Usual",
    "Wanted",
    "Way",
    "What",
    "Whole",
    "Within",
    "Written",
    "Wrote",
];

/// Path of the ratchet file below the workspace root.
const RATCHET: &str = "xtask/words.txt";

const RATCHET_HEADER: &str = "\
# Counts of `cargo xtask words`, which may only go down: `cargo xtask words --update` lowers them.
# crate opener none width type; the last line counts commits whose subject is too long.
";

/// Counts by crate, in the order of [`RULES`].
type Counts = BTreeMap<String, [usize; RULES.len()]>;

/// A breach of a rule, with its line number.
#[derive(Debug, PartialEq)]
struct Finding {
    rule: usize,
    line: usize,
    text: String,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let root = workspace_root();
    let mut files = Vec::new();
    for folder in ["benches", "crates", "examples", "fuzz", "tests", "xtask"] {
        find_sources(&root.join(folder), &mut files)?;
    }
    if let Some(count) = options.sample {
        return sample(&root, &files, count, options.seed);
    }
    let mut counts = Counts::new();
    for path in &files {
        let name = path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned();
        let text = fs::read_to_string(path).map_err(at(path))?;
        let own = counts.entry(crate_of(&name)).or_default();
        for finding in findings(&text) {
            own[finding.rule] += 1;
            if options.list.as_ref().is_some_and(|wanted| *wanted == crate_of(&name)) {
                println!("{name}:{}: {}: {}", finding.line, RULES[finding.rule], finding.text);
            }
        }
    }
    if options.list.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    let long_subjects = long_subjects(&root);
    let path = root.join(RATCHET);
    let ratchet = fs::read_to_string(&path).unwrap_or_default();
    let (mut limits, limit_of_subjects) =
        parse(&ratchet).map_err(|why| format!("{RATCHET}: {why}"))?;
    if options.update {
        let lowered = lower(&counts, &limits);
        let subjects = long_subjects.len().min(limit_of_subjects.unwrap_or(usize::MAX));
        fs::write(&path, render(&lowered, subjects)).map_err(at(&path))?;
        limits = lowered;
    }
    let mut problems = compare(&counts, &limits);
    if limit_of_subjects.is_some_and(|limit| long_subjects.len() > limit) {
        let newest = long_subjects.first().map_or("", String::as_str);
        problems.push(format!("a commit's subject has more than {SUBJECT_MAX} columns: {newest}"));
    }
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    let sums = counts.values().fold([0; RULES.len()], |mut sums, own| {
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        sums
    });
    println!(
        "words: doc comments that open without a subject: {}; \"is none\": {}; comment lines over {WIDTH_MAX} columns: {}; \
         type names that are no nouns: {}; subjects over {SUBJECT_MAX} columns: {}",
        sums[0],
        sums[1],
        sums[2],
        sums[3],
        long_subjects.len()
    );
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reports each count that differs from its limit. A higher count is a regression; for a lower
/// count, the ratchet needs to be lowered.
fn compare(counts: &Counts, limits: &Counts) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, own) in counts {
        let limits = limits.get(name).copied().unwrap_or_default();
        for (rule, (count, limit)) in own.iter().zip(limits).enumerate() {
            let rule = RULES[rule];
            if *count > limit {
                problems.push(format!(
                    "{name}: {count} of `{rule}`, and there may be {limit}: see `cargo xtask words --list {name}`"
                ));
            } else if *count < limit {
                problems.push(format!(
                    "{name}: {count} of `{rule}`, fewer than the {limit} of {RATCHET}: run `cargo xtask words --update`"
                ));
            }
        }
    }
    problems
}

/// Returns the lower of count and limit for each rule. A crate without limits is new and keeps its
/// counts.
fn lower(counts: &Counts, limits: &Counts) -> Counts {
    let mut lowered = counts.clone();
    for (name, own) in &mut lowered {
        let Some(limits) = limits.get(name) else { continue };
        own.iter_mut().zip(limits).for_each(|(count, limit)| *count = (*count).min(*limit));
    }
    lowered
}

fn render(counts: &Counts, subjects: usize) -> String {
    let mut text = RATCHET_HEADER.to_owned();
    for (name, own) in counts {
        let numbers: Vec<String> = own.iter().map(usize::to_string).collect();
        let _ = writeln!(text, "{name} {}", numbers.join(" "));
    }
    let _ = writeln!(text, "subjects {subjects}");
    text
}

fn parse(text: &str) -> Result<(Counts, Option<usize>), String> {
    let (mut counts, mut subjects) = (Counts::new(), None);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let wrong =
            || format!("line {}: `{line}` is not a crate and {} numbers", index + 1, RULES.len());
        let (name, numbers) = line.split_once(' ').ok_or_else(wrong)?;
        let numbers: Vec<usize> = numbers
            .split(' ')
            .map(|number| number.parse().map_err(|_| wrong()))
            .collect::<Result<_, _>>()?;
        match (name, &numbers[..]) {
            ("subjects", [count]) => subjects = Some(*count),
            (name, numbers) => {
                counts.insert(name.to_owned(), numbers.try_into().map_err(|_| wrong())?);
            }
        }
    }
    Ok((counts, subjects))
}

/// Returns the crate of a file: its folder below `crates`, or a folder beside `crates`.
fn crate_of(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    match parts[..] {
        ["crates", station, name, ..] => format!("{station}/{name}"),
        ["benches" | "examples" | "tests", name, ..] => format!("{}/{name}", parts[0]),
        _ => parts[0].to_owned(),
    }
}

/// Returns all breaches of rules in the text of a file.
fn findings(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_in_doc = false;
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let mut find = |rule: &str, text: &str| {
            let rule = RULES.iter().position(|name| *name == rule).unwrap_or_default();
            findings.push(Finding { rule, line: index + 1, text: text.to_owned() });
        };
        if let Some(comment) = code.strip_prefix("//") {
            let doc = comment.strip_prefix(['/', '!']);
            let words = doc.unwrap_or(comment).trim();
            let first = words.split(|sign: char| !sign.is_alphanumeric()).next().unwrap_or("");
            // Only the first line of a paragraph can open it.
            if doc.is_some() && !is_in_doc && OPENERS.contains(&first) {
                find("opener", words);
            }
            if NONE_TEXTS.iter().any(|text| words.contains(text)) {
                find("none", words);
            }
            if line.chars().count() > WIDTH_MAX {
                find("width", words);
            }
            is_in_doc = doc.is_some() && !words.is_empty();
            continue;
        }
        is_in_doc = false;
        if let Some(name) = type_name(code)
            && TYPE_NAMES.contains(&name)
        {
            find("type", name);
        }
    }
    findings
}

/// Returns the name of the type that a line defines.
fn type_name(code: &str) -> Option<&str> {
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => code,
    };
    let code = code.trim_start();
    let rest = ["struct ", "enum ", "union ", "trait ", "type "]
        .iter()
        .find_map(|word| code.strip_prefix(word))?;
    let end = rest.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

/// Returns commit subjects that are too long, newest first. The list is empty outside a repository.
fn long_subjects(root: &Path) -> Vec<String> {
    let log = Command::new("git")
        .args(["log", "--format=%s"])
        .current_dir(root)
        .stderr(Stdio::null())
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let log = log.unwrap_or_default();
    log.lines().filter(|line| line.chars().count() > SUBJECT_MAX).map(str::to_owned).collect()
}

/// Prints doc comments drawn at random, each with the item that it documents.
fn sample(root: &Path, files: &[PathBuf], count: usize, seed: u64) -> Outcome {
    let mut comments = Vec::new();
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
        let text = fs::read_to_string(path).map_err(at(path))?;
        comments.extend(
            doc_comments(&text).into_iter().map(|(line, text)| format!("{name}:{line}\n{text}")),
        );
    }
    let mut state = seed;
    for index in 0..count.min(comments.len()) {
        let other = index + (random(&mut state) as usize) % (comments.len() - index);
        comments.swap(index, other);
        println!("{}\n", comments[index]);
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns each doc comment with its line number and the first line of its item.
fn doc_comments(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_doc = |index: usize| {
        lines.get(index).is_some_and(|line| {
            let line = line.trim_start();
            line.starts_with("///") || line.starts_with("//!")
        })
    };
    let mut comments = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        if !is_doc(index) {
            index += 1;
            continue;
        }
        let start = index;
        while is_doc(index) {
            index += 1;
        }
        let is_item =
            |line: &&&str| !line.trim().is_empty() && !line.trim_start().starts_with("#[");
        let item = lines[index..].iter().find(is_item).copied().unwrap_or("");
        comments.push((start + 1, [&lines[start..index], &[item]].concat().join("\n")));
    }
    comments
}

/// Advances a `SplitMix64` generator and returns the next number.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn find_sources(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let is_output = path.file_name().is_some_and(|name| name == "target" || name == "corpus");
        if path.is_dir() && !is_output {
            find_sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Counts, RULES, compare, crate_of, doc_comments, findings, lower, parse, render};

    #[test]
    fn each_rule_finds_its_own() {
        let wide = format!("    // {}", "x".repeat(95));
        let cases = [
            ("/// What a store takes.\nfn f() {}", vec!["opener"]),
            ("//! Whether it is open.", vec!["opener"]),
            ("/// A store.\n/// What follows is the second line.", vec![]),
            ("/// A store.\n///\n/// Of these there are two.", vec!["opener"]),
            ("// What a plain comment begins with.", vec![]),
            ("/// Whatever it is", vec![]),
            ("// an id is none", vec!["none"]),
            (&wide, vec!["width"]),
            ("pub(crate) struct Told {", vec!["type"]),
            ("enum Told<'a> { A }", vec!["type"]),
            ("    type Place = u8;", vec!["type"]),
            ("struct ToldBatch;\nlet Told = 1;", vec![]),
        ];
        for (text, wanted) in cases {
            let rules: Vec<&str> = findings(text).iter().map(|one| RULES[one.rule]).collect();
            assert_eq!(rules, wanted, "{text}");
        }
    }

    #[test]
    fn counts_only_go_down() {
        let counts = |numbers: [usize; 4]| Counts::from([("base/ctf".to_owned(), numbers)]);
        let limits = counts([3, 0, 2, 1]);
        assert_eq!(compare(&counts([3, 0, 2, 1]), &limits), Vec::<String>::new());
        assert_eq!(compare(&counts([4, 0, 2, 1]), &limits).len(), 1);
        // A lower count is reported until the ratchet is lowered.
        assert_eq!(compare(&counts([2, 0, 2, 1]), &limits).len(), 1);
        assert_eq!(lower(&counts([4, 0, 1, 1]), &limits), counts([3, 0, 1, 1]));
        // A new crate has no limits until they are written.
        assert_eq!(compare(&counts([1, 0, 0, 0]), &Counts::new()).len(), 1);
        let text = render(&limits, 7);
        assert_eq!(parse(&text), Ok((limits, Some(7))));
        assert!(parse("base/ctf 1 2 3").is_err());
        assert!(parse("base/ctf 1 2 3 x").is_err());
    }

    #[test]
    fn files_belong_to_crates() {
        let cases = [
            ("crates/base/ctf/src/lib.rs", "base/ctf"),
            ("xtask/src/main.rs", "xtask"),
            ("tests/conformance/src/lib.rs", "tests/conformance"),
            ("fuzz/fuzz_targets/x.rs", "fuzz"),
        ];
        for (file, wanted) in cases {
            assert_eq!(crate_of(file), wanted);
        }
    }

    #[test]
    fn samples_have_the_item_below() {
        let text = "/// One.\n/// Two.\n#[inline]\nfn f() {}\n\n    /// Three.\n    x: u8,\n";
        let wanted = [
            (1, "/// One.\n/// Two.\nfn f() {}".to_owned()),
            (6, "    /// Three.\n    x: u8,".to_owned()),
        ];
        assert_eq!(doc_comments(text), wanted);
    }
}
