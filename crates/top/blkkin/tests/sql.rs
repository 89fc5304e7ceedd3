//! Output and exit status of `blkkin sql`. Results are tested in `serve/sql`.
#![cfg(feature = "sql")]

mod support;

use blkkin_columns::{Block, Options, Sorted, Writer};
use blkkin_model::{EndpointRef, Kind, SpanId, SpanRef, Status, TraceId};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use support::{Scratch, blkkin, run, run_with_input, text, with_limit};

/// Creates a store of three spans, as a server would.
fn store(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    let mut block = Block::new();
    for number in 1..=3_u64 {
        let span = SpanRef {
            trace_id: TraceId::from_number(number.into()).expect("not 0"),
            id: SpanId::from_number(number).expect("not 0"),
            parent_id: None,
            kind: Kind::Server,
            status: Status::Unset,
            debug: false,
            shared: false,
            name: "read",
            start_ns: Some(1_795_262_400_000_000_000),
            duration_ns: Some(number * 1_500_000),
            local: EndpointRef { service: "osd.3", ..EndpointRef::NONE },
            remote: EndpointRef::NONE,
            annotations: &[],
            tags: &[],
        };
        block.push(&span).expect("room");
    }
    let mut writer = Writer::create(Vec::new(), Options::default()).expect("a file");
    writer.append(&Sorted::of(&[&block])).expect("written");
    let (bytes, _) = writer.finish().expect("written");
    fs::create_dir(scratch.0.join("spans")).expect("made");
    fs::write(scratch.0.join("spans/0000000001.parquet"), &bytes).expect("written");
    let manifest = format!(
        r#"{{"format":1,"incompat":0,"commit":1,"journal_sequence":0,"next_file":2,"totals":{{}},"files":[{{"number":1,"tier":0,"spans":3,"bytes":{},"index_bytes":0,"min_start_ns":0,"max_start_ns":1,"received_ns":0}}]}}"#,
        bytes.len()
    );
    let crc = crc32c::crc32c(manifest.as_bytes());
    fs::write(scratch.0.join("manifest"), format!("{manifest}\n{crc:08x}\n")).expect("written");
    scratch
}

fn sql(directory: &Path) -> Command {
    let mut command = blkkin(Path::new("/"));
    command.arg("sql").arg("--data").arg(directory);
    command
}

#[track_caller]
fn check(output: &Output, status: i32, out: &str, errors: &str) {
    assert_eq!(text(&output.stderr), errors);
    assert_eq!(text(&output.stdout), out);
    assert_eq!(output.status.code(), Some(status));
}

#[test]
fn data_and_talk_go_apart() {
    let store = store("sql-streams");
    let question = "SELECT span_id, duration_ns FROM spans ORDER BY 2 DESC";
    let table = "\
span_id           duration_ns
0000000000000003     4.500 ms
0000000000000002     3.000 ms
0000000000000001     1.500 ms
";
    check(&run(sql(&store.0).arg(question)), 0, table, "");
    let cut = run(sql(&store.0).args(["--limit", "1", "--format", "csv", question]));
    let note = "only the first 1 row shown; --limit shows more\n";
    check(&cut, 0, "span_id,duration_ns\n0000000000000003,4500000\n", note);

    let wrong = "\
error: there is no column `nam`, at line 1, column 8
  SELECT nam FROM spans
         ^
hint: did you mean `name`? `blkkin sql --tables` lists tables and columns
";
    check(&run(sql(&store.0).arg("SELECT nam FROM spans")), 2, "", wrong);
    let endless = "SELECT count(*) FROM generate_series(1, 1000000000000) a WHERE a.value % 7 = 8";
    let stopped = run(sql(&store.0).args(["--timeout", "0.2", endless]));
    let told = "\
error: the query took longer than 200ms
hint: ask for less: a shorter time, a LIMIT; or raise --timeout
";
    check(&stopped, 1, "", told);
    let missing = run(sql(&store.0.join("nowhere")).arg("SELECT 1"));
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("nowhere: "), "{}", text(&missing.stderr));
}

/// A query that cannot be interrupted is stopped by ending the program. In this test, an expression
/// doubles a text forty times.
#[test]
fn nothing_outlives_its_limits() {
    let store = store("sql-limits");
    let doubled: String =
        (1..=40).map(|n| format!(", q{n} AS (SELECT t || t AS t FROM q{})", n - 1)).collect();
    let sql_text =
        format!("WITH q0 AS (SELECT name AS t FROM spans){doubled} SELECT length(t) FROM q40");
    // As a safeguard, the address space is limited to 6,000,000 KiB, including the threads' stacks.
    let mut question = sql(&store.0);
    question.args(["--memory", "128M", "--timeout", "20", &sql_text]);
    let output = run(&mut with_limit("-v 6000000", &question));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.starts_with("error: the query needs more memory"), "{told}");
}

#[test]
fn the_question_may_come_from_standard_input() {
    let store = store("sql-input");
    let question = b"SELECT count(*) AS spans\nFROM spans;\n";
    let output = run_with_input(sql(&store.0).args(["--format", "ndjson"]), question);
    check(&output, 0, "{\"spans\":3}\n", "");
}

#[test]
fn help_teaches() {
    let tables = run(blkkin(Path::new("/")).args(["sql", "--tables"]));
    let tables = text(&tables.stdout);
    for line in [
        "spans  ",
        "  duration_ns  ",
        "annotations  ",
        "  since_start_ns  ",
        "own_time  ",
        "tags  ",
    ] {
        assert!(tables.lines().any(|one| one.starts_with(line)), "{line}:\n{tables}");
    }
    let help = run(blkkin(Path::new("/")).args(["sql", "--help"]));
    let help = text(&help.stdout);
    assert_eq!(help.matches("\n  # ").count(), 8, "{help}");
    assert!(help.contains("approx_percentile_cont(duration_ns, 0.99)"), "{help}");
}
