//! Tests of query results: tables and their columns, SQL features and functions, the examples of
//! the help, output formats, the row limit, and the number of bytes read.

use crate::support::{MS, NOON, Store, requests, run_query, span, tag};
use blkkin_model::{Annotation, Origin, Value};
use blkkin_sql::{EXAMPLES, Format, TABLES};

#[test]
fn examples_have_the_answers_that_they_promise() {
    let mut spans = requests();
    let exception = r#""exception": {"exception.type":"IOError"}"#;
    spans[0].annotations.push(Annotation { time_ns: NOON, value: exception.into() });
    spans[0].tags.push(tag("blkkin.own.disk", Value::Int(5000), Origin::Span));
    spans[0].tags.push(tag("blkkin.own.running", Value::Int(700), Origin::Span));
    spans[2].tags.push(tag("blkkin.own.disk", Value::Str("3000".into()), Origin::Span));
    let store = Store::of(&spans);
    let answers: [&[&str]; 8] = [
        &[
            "000000000000000a,qemu,read,2026-11-21T12:03:20Z,100000000",
            "0000000000000009,qemu,write,2026-11-21T12:03:00Z,90000000",
        ],
        &[
            "qemu,read,5,60000000.0,",
            "qemu,write,5,50000000.0,",
            "osd.3,object,5,30000000.0,",
            "osd.7,object,5,25000000.0,",
        ],
        &["node-osd.3,5,2", "kvm1,10,0", "node-osd.7,5,0"],
        &[
            "0000000000000001,write,2026-11-21T12:00:20Z,10000000",
            "0000000000000005,write,2026-11-21T12:01:40Z,50000000",
            "0000000000000009,write,2026-11-21T12:03:00Z,90000000",
        ],
        &["0000000000000002,object,received,0", "0000000000000002,object,journaled,2000000"],
        &["IOError,qemu,1"],
        &["qemu,disk,2,8000", "qemu,running,1,700"],
        &[
            "2026-11-21T12:00:00Z,1",
            "2026-11-21T12:01:00Z,1",
            "2026-11-21T12:02:00Z,2",
            "2026-11-21T12:03:00Z,1",
        ],
    ];
    for (example, expected) in EXAMPLES.iter().zip(answers) {
        let rows = store.rows(example.sql);
        let all = expected.iter().zip(&rows).all(|(start, row)| row.starts_with(start));
        assert!(
            all && (rows.len() == expected.len() || rows.len() == 10),
            "{}: {rows:#?}",
            example.sql
        );
    }
    // The 99th percentile of five durations is approximately their maximum.
    let rows = store.rows(EXAMPLES[1].sql);
    let p99: f64 = rows[0].rsplit(',').next().and_then(|p99| p99.parse().ok()).expect("a number");
    assert!((90e6..=100e6).contains(&p99), "{p99}");
}

/// The columns of each table have the names and types that `--tables` lists.
#[test]
fn tables_have_the_columns_that_are_listed() {
    let store = Store::of(&requests());
    for table in &TABLES {
        let columns = store.rows(&format!("DESCRIBE {}", table.name));
        assert_eq!(columns.len(), table.columns.len(), "{columns:#?}");
        for (line, column) in columns.iter().zip(table.columns) {
            let kinds: &[&str] = match column.kind {
                "text" => &["Utf8View", "Utf8"],
                "int" => &["Int64", "Int32"],
                "bool" => &["Boolean"],
                "time" => &["Timestamp(ns"],
                "map" => &["Map("],
                other => panic!("{other} is no type"),
            };
            let says =
                |kind: &&str| line.replace('"', "").starts_with(&format!("{},{kind}", column.name));
            assert!(kinds.iter().any(says), "{}: {line}", table.name);
        }
    }
    let listed = store.rows("SHOW TABLES");
    for table in &TABLES {
        assert!(
            listed.iter().any(|line| line.contains(&format!(",{},", table.name))),
            "{listed:#?}"
        );
    }
    assert!(!listed.iter().any(|line| line.contains(",files,")), "{listed:#?}");
}

#[test]
fn tags_are_in_order_with_their_types() {
    let mut one = span(1, 2, 0, "a", "b");
    one.tags = vec![
        tag("z", Value::Int(-7), Origin::Resource),
        tag("y", Value::Str("text".into()), Origin::Span),
        tag("x", Value::Bool(true), Origin::Scope),
        tag("w", Value::Double(0.5), Origin::Span),
        tag("v", Value::Bytes(vec![1, 255]), Origin::Span),
    ];
    let mut plain = span(3, 4, 0, "a", "b");
    plain.tags = vec![tag("k", Value::Str(String::new()), Origin::Span)];
    let store = Store::of(&[one, span(2, 3, 0, "a", "none"), plain]);
    let rows = store.rows("SELECT trace_id, key, value, type, origin FROM tags");
    assert_eq!(
        rows,
        [
            "0000000000000001,z,-7,int,resource",
            "0000000000000001,y,text,text,span",
            "0000000000000001,x,true,bool,scope",
            "0000000000000001,w,0.5,double,span",
            "0000000000000001,v,01ff,bytes,span",
            "0000000000000003,k,\"\",text,span",
        ]
    );
    let rows = store.rows("SELECT span_id FROM spans WHERE tags['w'] = '0.5'");
    assert_eq!(rows, ["0000000000000002"]);
    assert_eq!(store.rows("SELECT count(*) FROM spans WHERE tags['w'] IS NULL"), ["2"]);
}

#[test]
fn what_is_not_known_is_null() {
    let mut unknown = span(1, 1, 0, "", "");
    unknown.start_ns = None;
    unknown.duration_ns = None;
    let store = Store::of(&[unknown]);
    let sql = "SELECT service, name, start_time, duration_ns, local_port, tags['a'] FROM spans";
    assert_eq!(store.rows(sql), [",,,,,"]);
    let table = store.query(Format::Table, sql);
    assert_eq!(table.lines().nth(1).map(|row| row.matches("NULL").count()), Some(6), "{table}");
    let json = store.query(Format::Ndjson, "SELECT service, error FROM spans");
    assert_eq!(json, "{\"service\":null,\"error\":false}\n");
}

#[test]
fn answers_have_the_format_that_is_asked_for() {
    let store = Store::of(&requests());
    let sql = "SELECT name, count(*) AS spans, sum(duration_ns) AS total_ns FROM spans \
               GROUP BY name ORDER BY name";
    let table = "\
name    spans  total_ns
object     10  275.0 ms
read        5  300.0 ms
write       5  250.0 ms
";
    assert_eq!(store.query(Format::Table, sql), table);
    let csv = "name,spans,total_ns\nobject,10,275000000\nread,5,300000000\nwrite,5,250000000\n";
    assert_eq!(store.query(Format::Csv, sql), csv);
    let line = |name: &str, spans: u64, total: u64| {
        format!("{{\"name\":\"{name}\",\"spans\":{spans},\"total_ns\":{total}}}")
    };
    let lines =
        [line("object", 10, 275 * MS), line("read", 5, 300 * MS), line("write", 5, 250 * MS)];
    assert_eq!(store.query(Format::Ndjson, sql), format!("{}\n", lines.join("\n")));
    assert_eq!(store.query(Format::Json, sql), format!("[\n{}\n]\n", lines.join(",\n")));
    let none = "SELECT name FROM spans WHERE name = 'nothing'";
    assert_eq!(store.query(Format::Json, none), "[]\n");
    assert_eq!(store.query(Format::Table, none), "name\n");
    let escaped = store.query(Format::Table, "SELECT 'a' || chr(27) || chr(10) AS text");
    assert_eq!(escaped, "text\na\\u{1b}\\n\n");
}

#[test]
fn rows_beyond_the_limit_are_told() {
    let store = Store::of(&requests());
    for (limit, rows, is_cut) in
        [(Some(3), 3, true), (Some(19), 19, true), (Some(20), 20, false), (None, 20, false)]
    {
        let options = blkkin_sql::Options { rows_max: limit, ..store.options() };
        let (answer, summary) = run_query(&options, Format::Csv, "SELECT span_id FROM spans");
        let summary = summary.expect("an answer");
        assert_eq!((summary.rows, summary.is_cut), (rows, is_cut), "{limit:?}");
        assert_eq!(answer.expect("an answer").lines().count(), rows + 1);
    }
}

/// A query for a single request in `spans`, `tags` or `requests` reads less than a quarter of the
/// bytes of a scan of all spans. So does a query of a single column.
#[test]
fn a_request_is_found_without_reading_all() {
    let mut store = Store::new();
    for file in 0..3_u64 {
        let spans: Vec<_> = (0..8000_u64)
            .map(|at| {
                let request = (at * 3 + file + 1) << 40;
                let mut span = span(request, at + 1, 0, "service", &format!("name {}", at % 7));
                span.start_ns = Some(NOON + at);
                // Random text, because it compresses poorly.
                let mut random = request;
                let mut next = || {
                    random = (random ^ random >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at;
                    format!("{random:016x}")
                };
                let text: String = (0..20).map(|_| next()).collect();
                span.tags = vec![tag("n", Value::Str(text), Origin::Span)];
                span
            })
            .collect();
        store.add(file + 1, &spans);
    }
    let read = |sql: &str| {
        let (answer, summary) = run_query(&store.options(), Format::Csv, sql);
        let answer = answer.expect("an answer");
        (
            answer.lines().skip(1).map(str::to_owned).collect::<Vec<_>>(),
            summary.expect("an answer").bytes_read,
        )
    };
    let (_, all) =
        read("SELECT trace_id, span_id, service, name, tags FROM spans WHERE name <> ''");
    let id = format!("{:016x}", (3000_u64 * 3 + 2) << 40);
    for sql in [
        format!("SELECT span_id FROM spans WHERE trace_id = '{id}'"),
        format!("SELECT span_id FROM tags WHERE trace_id = '{id}'"),
        format!("SELECT value FROM tags WHERE trace_id = '{id}' AND key = 'n'"),
        format!("SELECT trace_id FROM requests WHERE trace_id = '{id}'"),
    ] {
        let (rows, some) = read(&sql);
        assert_eq!(rows.len(), 1, "{sql}");
        assert!(some * 4 < all, "{sql}: {some} of {all} bytes");
    }
    let (rows, some) = read("SELECT count(duration_ns) FROM spans");
    assert_eq!(rows, ["24000"]);
    assert!(some * 4 < all, "{some} of {all} bytes");
}

#[test]
fn requests_and_services_are_summed_up() {
    let store = Store::of(&requests());
    let rows = store.rows("SELECT * FROM requests WHERE trace_id = '0000000000000004'");
    assert_eq!(rows, ["0000000000000004,2026-11-21T12:01:20Z,40000000,2,2,1,qemu,read"]);
    let rows = store.rows("SELECT service, spans, errors FROM services ORDER BY service");
    assert_eq!(rows, ["osd.3,5,2", "osd.7,5,0", "qemu,10,0"]);
}

/// Queries can use window functions, joins, WITH, regular expressions and dates.
#[test]
fn the_usual_sql_is_there() {
    let store = Store::of(&requests());
    for (sql, expected) in [
        (
            "SELECT max(rank) FROM (SELECT rank() OVER (PARTITION BY service ORDER BY duration_ns) AS rank FROM spans)",
            "10",
        ),
        (
            "SELECT count(*) FROM spans a JOIN spans b ON a.trace_id = b.trace_id AND a.parent_id = b.span_id",
            "10",
        ),
        (
            "WITH slow AS (SELECT * FROM spans WHERE duration_ns > 50000000) SELECT count(*) FROM slow",
            "5",
        ),
        ("SELECT count(*) FROM spans WHERE service ~ '^osd\\.[37]$'", "10"),
        ("SELECT count(*) FROM spans WHERE regexp_like(name, 're+ad') AND name LIKE 'r%'", "5"),
        ("SELECT date_part('minute', max(start_time)) FROM spans", "3"),
        (
            "SELECT count(*) FROM spans WHERE start_time < TIMESTAMP '2026-11-21T12:01:00Z' - INTERVAL '30 seconds'",
            "2",
        ),
        ("SELECT round(stddev(duration_ns) / 1e6, 1) FROM spans WHERE service = 'qemu'", "30.3"),
        (
            "SELECT string_agg(DISTINCT service, '+' ORDER BY service) FROM spans",
            "osd.3+osd.7+qemu",
        ),
        (
            "SELECT upper(substr(name, 1, 2)) || '-' || to_char(start_time, '%H:%M') FROM spans ORDER BY start_time LIMIT 1",
            "WR-12:00",
        ),
        (
            "SELECT CAST(sum(CAST(value AS BIGINT)) AS BIGINT) FROM tags WHERE type = 'int'",
            "225280",
        ),
    ] {
        assert_eq!(store.rows(sql), [expected], "{sql}");
    }
    let plan = store.query(Format::Table, "EXPLAIN SELECT trace_id FROM spans WHERE name = 'read'");
    assert!(plan.contains("DataSourceExec") && plan.lines().count() > 4, "{plan}");
}

#[test]
fn functions_of_other_databases_are_there() {
    let store = Store::of(&requests());
    for (sql, expected) in [
        (
            "SELECT max_by(trace_id, duration_ns), min_by(name, duration_ns) FROM spans WHERE kind = 'client'",
            "000000000000000a,write",
        ),
        ("SELECT max_by(name, duration_ns) FILTER (WHERE service <> 'qemu') FROM spans", "object"),
        ("SELECT max_by(1, CAST(NULL AS BIGINT)) FROM spans", ""),
        (
            "SELECT string_agg(DISTINCT CAST(width_bucket(duration_ns / 1e6, 0, 100, 4) AS VARCHAR), '' ORDER BY CAST(width_bucket(duration_ns / 1e6, 0, 100, 4) AS VARCHAR)) FROM spans",
            "12345",
        ),
        (
            "SELECT count(DISTINCT time_bucket(INTERVAL '1 minute', start_time)) = count(DISTINCT date_bin(INTERVAL '1 minute', start_time)) FROM spans",
            "true",
        ),
        ("SELECT json_get_int('{\"a\":{\"b\":[1,2]}}', 'a', 'b', 1)", "2"),
        (
            "SELECT '{\"a\":\"x\"}' ->> 'a', json_length('[1,2,3]'), json_contains('{\"a\":1}', 'b')",
            "x,3,false",
        ),
        ("SELECT count(*) FROM spans WHERE resource_tags['host'] = 'node-osd.3'", "5"),
        ("SELECT count(*) FROM spans WHERE scope_tags['library'] = 'ceph'", "10"),
    ] {
        assert_eq!(store.rows(sql), [expected], "{sql}");
    }
    let json =
        r#"SELECT '{"a":1,"b":"x"}' -> 'a' AS a, '{"a":1,"b":"x"}' -> 'b' AS b, '{}' -> 'c' AS c"#;
    assert_eq!(store.query(Format::Ndjson, json), "{\"a\":\"1\",\"b\":\"\\\"x\\\"\",\"c\":null}\n");
    assert_eq!(store.rows(json), ["1,\"\"\"x\"\"\","]);
    let error = store.error("SELECT max_by(name, duration_ns ORDER BY service) FROM spans");
    assert!(error.to_string().contains("has a meaning here"), "{error}");
    let error = store.error("SELECT width_bucket(1, 2, 2, 5)").to_string();
    assert!(error.contains("bounds that differ"), "{error}");
    let error = store.error("SELECT max_by(name, duration_ns) OVER () FROM spans").to_string();
    assert!(error.contains("max_by cannot be used over a window"), "{error}");
}

#[test]
fn events_and_links_have_columns_of_their_own() {
    let mut spans = requests();
    let event = |value: &str| Annotation { time_ns: NOON, value: value.into() };
    spans[0].annotations = vec![
        event("plain"),
        event(r#""exception": {"exception.type":"IOError","retries":3,"at":[1,2]}"#),
    ];
    let link = "000000000000000000000000000000ab|00000000000000a1|k=v|{\"reason\":\"retry\"}|0";
    spans[0].tags.push(tag("otlp.link.0", Value::Str(link.into()), Origin::Span));
    spans[0].tags.push(tag("otlp.link.1", Value::Str("no link".into()), Origin::Span));
    let store = Store::of(&spans);
    let rows = |sql: &str| store.rows(sql);
    assert_eq!(
        rows("SELECT event, count(*) FROM annotations GROUP BY event ORDER BY event"),
        ["exception,1", "journaled,10", "plain,1", "received,10"]
    );
    assert_eq!(
        rows(
            "SELECT attributes['exception.type'], attributes['retries'], attributes['at'], json_get_int(attributes['at'], 1) FROM annotations WHERE event = 'exception'"
        ),
        ["IOError,3,\"[1,2]\",2"]
    );
    assert_eq!(
        rows("SELECT cardinality(attributes) FROM annotations WHERE event = 'plain'"),
        ["0"]
    );
    assert_eq!(
        rows(
            "SELECT trace_id, linked_trace_id, linked_span_id, trace_state, attributes['reason'], service FROM links"
        ),
        ["0000000000000001,00000000000000ab,00000000000000a1,k=v,retry,qemu"]
    );
}

#[test]
fn own_times_and_disk_times_have_columns_of_their_own() {
    let mut spans = requests();
    let int = |key: &str, number: i64| tag(key, Value::Int(number), Origin::Span);
    let text = |key: &str, text: &str| tag(key, Value::Str(text.into()), Origin::Span);
    spans[0].tags.extend([
        int("blkkin.disk.nvme0n1.served", 30),
        int("blkkin.disk.vda.model", 7),
        int("blkkin.disk.vda.queued", 1000),
        int("blkkin.disk.vda.served", 2000),
        text("blkkin.own.bands", "disk 0 3000 vda;running 3000 500"),
        int("blkkin.own.disk", 3000),
        int("blkkin.own.running", 500),
    ]);
    spans[1].tags.extend([
        text("blkkin.disk.vda.queued", "soon"),
        text("blkkin.own.disk", "4000"),
        text("blkkin.own.lock", "-1"),
        text("blkkin.own.network", ""),
        text("blkkin.own.sleep", "0"),
    ]);
    let store = Store::of(&spans);
    let rows = |sql: &str| store.rows(sql);
    assert_eq!(
        rows(
            "SELECT trace_id, span_id, service, name, kind, ns, duration_ns FROM own_time ORDER BY ns DESC"
        ),
        [
            "0000000000000001,0000000000000011,osd.7,object,disk,4000,5000000",
            "0000000000000001,0000000000000010,qemu,write,disk,3000,10000000",
            "0000000000000001,0000000000000010,qemu,write,running,500,10000000",
            "0000000000000001,0000000000000011,osd.7,object,sleep,0,5000000",
        ]
    );
    assert_eq!(
        rows("SELECT service, device, queued_ns, served_ns FROM disk_time ORDER BY device"),
        ["qemu,nvme0n1,0,30", "qemu,vda,1000,2000"]
    );
    // Rows of one span are joined without the tags.
    assert_eq!(
        rows(
            "SELECT device, ns FROM own_time JOIN disk_time USING (trace_id, span_id) WHERE own_time.kind = 'disk' ORDER BY device"
        ),
        ["nvme0n1,3000", "vda,3000"]
    );
    let table = store.query(Format::Table, "SELECT ns FROM own_time WHERE kind = 'disk' LIMIT 1");
    assert_eq!(table.lines().nth(1).map(str::trim), Some("3.000 µs"), "{table}");
}

#[test]
fn a_store_without_files_is_empty() {
    let store = Store::new();
    assert_eq!(store.rows("SELECT count(*) FROM spans"), ["0"]);
    assert_eq!(store.rows("SELECT * FROM tags"), [""; 0]);
    assert_eq!(store.rows("SELECT * FROM own_time"), [""; 0]);
}
