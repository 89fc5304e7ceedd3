//! Tests of errors: for SQL that is invalid or not permitted, for queries that a limit stops, and
//! for damaged or missing files.

use crate::support::{Store, requests, run_query, span, tag};
use blkkin_model::{Origin, Value};
use blkkin_sql::{Format, Options};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn errors_say_where_and_what_to_do() {
    let store = Store::of(&requests());
    for (sql, message, place, hint) in [
        (
            "SELECT servce FROM spans",
            "there is no column `servce`",
            Some((1, 8)),
            "did you mean `service`?",
        ),
        (
            "SELECT name\nFROM spans\nWHERE duration_n > 1",
            "there is no column `duration_n`",
            Some((3, 7)),
            "`duration_ns`",
        ),
        ("SELECT name FROM spams", "there is no table `spams`", None, "did you mean `spans`?"),
        (
            "SELECT name FROM spans WHERE service = \"osd 3\"",
            "there is no column `osd 3`",
            Some((1, 40)),
            "'osd 3'",
        ),
        ("SELECT name FRM spans WHERE", "this is no SQL", Some((1, 17)), ""),
        ("SELECT 'abc", "this is no SQL", Some((1, 8)), ""),
        ("SELECT", "this is no SQL", None, ""),
        ("", "there is no SQL", None, "SELECT"),
        ("SELECT 1; SELECT 2", "", None, ""),
        (
            "SELECT aprox_median(duration_ns) FROM spans",
            "invalid function 'aprox_median'",
            None,
            "approx_median",
        ),
        ("SELECT repeat('x', 1000000000)", "the function `repeat` is left out", None, "memory"),
        ("SELECT trace_id FROM spans a, spans b", "", None, ""),
    ] {
        let error = store.error(sql);
        let said = error.to_string();
        assert!(said.contains(message), "{sql}: {said}");
        assert!(error.is_usage(), "{sql}: {said}");
        let found = error.place().map(|place| (place.line, place.column));
        if place.is_some() {
            assert_eq!(found, place, "{sql}: {said}");
        }
        let said = error.hint_text().unwrap_or_default();
        assert!(said.contains(hint), "{sql}: {said}");
    }
    let error = store.error("SELECT name,\n  servce FROM spans");
    let expected = "    servce FROM spans\n    ^";
    assert_eq!(error.excerpt("SELECT name,\n  servce FROM spans").as_deref(), Some(expected));
}

#[test]
fn nothing_is_changed_and_no_other_file_is_read() {
    let store = Store::of(&requests());
    let other = store.path().join("other.csv");
    fs::write(&other, "a,b\n1,2\n").expect("written");
    let out = store.path().join("out");
    let (other, out) = (other.display(), out.display());
    for sql in [
        format!("COPY (SELECT 1) TO '{out}.csv'"),
        format!("COPY spans TO '{out}.parquet' STORED AS PARQUET"),
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{other}'"),
        "CREATE TABLE t AS SELECT 1".into(),
        "CREATE VIEW v AS SELECT 1".into(),
        "SELECT 1 INTO t".into(),
        "INSERT INTO spans SELECT * FROM spans".into(),
        "DELETE FROM spans".into(),
        "UPDATE spans SET name = ''".into(),
        "DROP TABLE spans".into(),
        "DROP VIEW spans".into(),
        "TRUNCATE TABLE spans".into(),
        "SET datafusion.execution.batch_size = 1".into(),
        "RESET datafusion.execution.batch_size".into(),
        "PREPARE p AS SELECT 1".into(),
        "EXECUTE p".into(),
        "BEGIN".into(),
        "USE other".into(),
        "CREATE FUNCTION f(BIGINT) RETURNS BIGINT RETURN $1".into(),
        format!("EXPLAIN COPY (SELECT 1) TO '{out}.csv'"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{out}.csv'"),
        format!("SELECT * FROM '{other}'"),
        format!("SELECT * FROM \"{other}\""),
        format!("SELECT * FROM read_csv('{other}')"),
        "SELECT * FROM files".into(),
        "SELECT * FROM '/etc/passwd'".into(),
        "SELECT * FROM \"file:///etc/passwd\"".into(),
    ] {
        let error = store.error(&sql);
        assert!(error.is_usage(), "{sql}: {error}");
    }
    let mut names: Vec<_> = fs::read_dir(store.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["manifest", "other.csv", "spans"]);
}

/// Runs a query that a limit must stop. Returns the time until it stopped, and the error message.
fn stopped(store: &Store, options: &Options, sql: &str) -> (Duration, String) {
    let started = Instant::now();
    let (answer, _) = run_query(options, Format::Csv, sql);
    let took = started.elapsed();
    let Err(error) = answer else { panic!("{} has an answer: {sql}", store.path().display()) };
    assert!(error.is_stopped(), "{sql}: {error}");
    (took, error.to_string())
}

#[test]
fn endless_queries_are_stopped_in_time() {
    let store = Store::of(&requests());
    let options = Options { timeout: Duration::from_millis(500), ..store.options() };
    for sql in [
        // The join has 20¹² rows.
        "SELECT count(*) FROM spans a, spans b, spans c, spans d, spans e, spans f, spans g, spans h, \
         spans i, spans j, spans k, spans l WHERE a.name < l.service",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
        "SELECT count(*) FROM generate_series(1, 1000000000000) a WHERE a.value % 7 = 8",
    ] {
        let (took, said) = stopped(&store, &options, sql);
        // The promise is twice the timeout; the test allows more, for a busy machine.
        assert!(took < Duration::from_secs(5), "{sql}: {took:?}");
        assert!(said.contains("longer than"), "{sql}: {said}");
    }
}

#[test]
fn queries_that_need_much_memory_are_stopped() {
    let store = Store::of(&requests());
    let options = Options { memory_bytes: 128 << 20, ..store.options() };
    for sql in [
        // The sort must buffer all rows.
        "SELECT a.value, row_number() OVER (ORDER BY a.value % 1000, b.value) AS n \
         FROM generate_series(1, 100000) a, generate_series(1, 100000) b ORDER BY n DESC, 1 LIMIT 5",
        "SELECT string_agg(CAST(value AS VARCHAR), ',') FROM generate_series(1, 10000000000)",
    ] {
        let before = peak_bytes();
        let (_, said) = stopped(&store, &options, sql);
        assert!(said.contains("memory"), "{sql}: {said}");
        let grown = peak_bytes().saturating_sub(before);
        assert!(grown < 400 << 20, "{sql}: {grown} bytes");
    }
}

/// Returns the peak resident memory of this process, in bytes.
fn peak_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// Long or deeply nested SQL ends with a result or a proper error, not with a crash.
#[test]
fn long_and_deep_sql_ends_well() {
    let store = Store::of(&requests());
    let many = |part: &str, between: &str, count: usize| vec![part; count].join(between);
    for sql in [
        format!("SELECT {}", many("1", "+", 300)),
        format!("SELECT 1 WHERE {}", many("true", " AND ", 300)),
        format!("SELECT 1 WHERE {}", many("1=2", " OR ", 300)),
        format!("SELECT count(*) FROM spans WHERE {}", many("name = 'a'", " OR ", 300)),
        format!("SELECT {}", many("'a'", "||", 300)),
        format!("SELECT count(*) FROM spans WHERE name IN ({})", many("'a'", ",", 2000)),
        many("SELECT 1", " UNION ALL ", 100),
        format!("SELECT {}1{}", "(".repeat(40), ")".repeat(40)),
        format!("SELECT '{}'", "x".repeat(60_000)),
    ] {
        let (answer, _) = run_query(&store.options(), Format::Csv, &sql);
        let start = &sql[..60];
        assert!(answer.is_ok() || answer.is_err_and(|error| !error.is_stopped()), "{start}");
    }
    for (sql, said) in [
        (format!("SELECT {}1{}", "(".repeat(2000), ")".repeat(2000)), "nested too deeply"),
        (format!("SELECT {}1", "- ".repeat(2000)), "nested too deeply"),
        (format!("SELECT {} true", "NOT ".repeat(2000)), ""),
        (many("(SELECT 1", " UNION ", 200) + &")".repeat(200), "nested too deeply"),
        (format!("SELECT {}", many("1", "+", 5000)), "words and signs"),
        (format!("SELECT '{}'", "x".repeat(70_000)), "bytes"),
    ] {
        let error = store.error(&sql);
        assert!(error.is_usage() && error.to_string().contains(said), "{error}");
    }
    // The automaton of this regular expression would take gigabytes.
    let error =
        store.error("SELECT count(*) FROM spans WHERE name ~ '((a{1,1000}){1,1000}){1,1000}'");
    assert!(!error.is_stopped(), "{error}");
    // This regular expression takes exponential time in a backtracking engine.
    let sql = format!("SELECT '{}' ~ '^(a+)+$' AS is_so", "a".repeat(50_000) + "!");
    assert_eq!(store.rows(&sql), ["false"]);
}

fn flip(path: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = fs::read(path).expect("a file");
    let at = at(bytes.len());
    bytes[at] ^= 0x55;
    fs::write(path, bytes).expect("written");
}

#[test]
fn damaged_files_are_named_and_left_out_by_choice() {
    let requests = requests();
    // The offsets are in the first column's pages, and in the footer.
    for at in [|_: usize| 60, |len: usize| len - 40, |len: usize| len - 2] {
        let mut store = Store::of(&requests[..10]);
        store.add(2, &requests[10..]);
        flip(&store.file(2), at);
        let sql = "SELECT trace_id, name FROM spans WHERE service <> ''";
        let error = store.error(sql);
        assert!(error.to_string().starts_with("spans/0000000002.parquet is damaged"), "{error}");
        assert!(!error.is_usage() && !error.is_stopped());
        assert_eq!(error.hint_text(), Some("--skip-damaged answers from all other files"));
        let options = Options { skip_damaged: true, ..store.options() };
        let (answer, summary) = run_query(&options, Format::Csv, sql);
        assert_eq!(answer.expect("an answer").lines().count(), 11);
        let left_out = summary.expect("an answer").left_out;
        assert!(left_out.len() == 1 && left_out[0].starts_with("spans/0000000002"), "{left_out:?}");
    }
}

/// An empty file beside a large one is reported as damaged. DataFusion itself skips an empty file
/// without an error if it splits files into parts, which it does from 10 MB on.
#[test]
fn empty_files_beside_large_ones_are_named() {
    let mut random = 1_u64;
    let texts = (1..=20_000_u64).map(|number| {
        let mut large = span(number, number, 0, "disk", "read");
        let digits = (0..40).map(|_| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            format!("{random:016x}")
        });
        large.tags = vec![tag("text", Value::Str(digits.collect()), Origin::Span)];
        large
    });
    let mut store = Store::of(&texts.collect::<Vec<_>>());
    store.add(2, &requests());
    fs::write(store.file(2), "").expect("cut");
    let error = store.error("SELECT count(*) FROM spans");
    assert!(error.to_string().starts_with("spans/0000000002.parquet is damaged"), "{error}");
}

#[test]
fn files_of_another_length_are_named() {
    let requests = requests();
    for length in [0, 1, 100] {
        let mut store = Store::of(&requests[..10]);
        store.add(2, &requests[10..]);
        let file = fs::OpenOptions::new().write(true).open(store.file(2)).expect("opened");
        file.set_len(length).expect("cut");
        let sql = "SELECT count(*) FROM spans";
        let error = store.error(sql);
        assert!(error.to_string().starts_with("spans/0000000002.parquet is damaged"), "{error}");
        let options = Options { skip_damaged: true, ..store.options() };
        let (answer, summary) = run_query(&options, Format::Csv, sql);
        assert_eq!(answer.expect("an answer").lines().last(), Some("10"));
        assert_eq!(summary.expect("an answer").left_out.len(), 1);
    }
}

#[test]
fn files_without_a_manifest_are_refused() {
    let store = Store::of(&requests());
    fs::create_dir(store.path().join("journal")).expect("made");
    fs::remove_file(store.path().join("manifest")).expect("removed");
    let error = store.error("SELECT count(*) FROM spans");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("store adopt")), "{error}");
}

#[test]
fn only_files_of_the_manifest_count() {
    let requests = requests();
    let mut store = Store::of(&requests[..10]);
    store.add(2, &requests[10..]);
    assert_eq!(store.rows("SELECT count(*) FROM spans"), ["20"]);
    store.remove_from_manifest(2);
    assert_eq!(store.rows("SELECT count(*) FROM spans"), ["10"]);
    // The manifest names a file that does not exist.
    fs::remove_file(store.file(1)).expect("removed");
    let error = store.error("SELECT 1");
    assert!(error.to_string().contains("0000000001.parquet"), "{error}");
    fs::write(store.path().join("manifest"), "{}").expect("written");
    assert!(store.error("SELECT 1").to_string().contains("manifest"));
    fs::remove_file(store.path().join("manifest")).expect("removed");
    let error = store.error("SELECT 1");
    assert!(error.to_string().contains("no manifest"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("--data")));
}
