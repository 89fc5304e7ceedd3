//! Tests of other programs that read span files: DuckDB and pyarrow, which `cargo xtask peers`
//! installs for Python.

use blkkin_columns::{Block, Options, Sorted, Writer};
use blkkin_model::{Annotation, Kind, Origin, Span, SpanId, SpanRef, Tag, TraceId, Value};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// Returns the Python interpreter that has DuckDB and pyarrow installed. Without such an
/// interpreter, the test fails if `CI` is `true`, and is otherwise recorded as skipped.
fn python(test: &str) -> Option<PathBuf> {
    let peers = std::env::var("BLKKIN_PEERS").unwrap_or_default();
    let python = std::env::var_os("BLKKIN_PYTHON").map(PathBuf::from);
    if let Some(python) = python.filter(|_| peers.split(',').any(|peer| peer == "duckdb")) {
        return Some(python);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} needs DuckDB for Python");
    if let Some(path) = std::env::var_os("BLKKIN_SKIPS") {
        let mut skips =
            std::fs::OpenOptions::new().append(true).create(true).open(path).expect("a file");
        writeln!(skips, "{test}: no DuckDB for Python").expect("written");
    }
    None
}

/// Generates 3000 spans, each of a request of its own. The number of a span determines its fields.
fn spans() -> Vec<Span> {
    (1..=3000_u64)
        .map(|number| {
            let trace = TraceId::from_number(u128::from(number / 3 + 1) << (number % 3 * 20));
            let id = SpanId::from_number(number).expect("not 0");
            let tag = |key: &str, value, origin| Tag { key: key.to_owned(), value, origin };
            Span {
                parent_id: (number % 3 != 0).then_some(id),
                kind: Kind::Server,
                name: format!("name {}", number % 5),
                start_ns: (number % 7 != 0).then_some(1_790_000_000_000_000_000 + number),
                duration_ns: Some(number),
                annotations: vec![
                    Annotation {
                        time_ns: 1_790_000_000_000_000_000 + number,
                        value: format!("at {number}"),
                    };
                    (number % 3) as usize
                ],
                tags: vec![
                    tag("even", Value::Bool(number % 2 == 0), Origin::Span),
                    tag("host", Value::Str("h".to_owned()), Origin::Resource),
                    tag("number", Value::Int(number as i64), Origin::Span),
                ],
                ..SpanRef::new(trace.expect("not 0"), id).to_owned()
            }
        })
        .collect()
}

const SCRIPT: &str = r#"
import sys, duckdb, pyarrow.parquet
path = sys.argv[1]
query = lambda text: duckdb.connect().execute(text.format(path)).fetchall()
print(query("select count(*), sum(duration_ns), count(start_time), count(parent_id), sum(len(annotations)), sum(cardinality(tags)) from '{}'"))
print(query("select name, count(*), max(tags['number']::bigint) from '{}' group by 1 order by 1 limit 2"))
print(query("select count(*) from '{}' where tags['even'] = 'true' and resource_tags['host'] = 'h'"))
print(query("select span_id, debug, local_ipv6, cardinality(scope_tags), shared from '{}' where duration_ns = 2500"))
print(query("select count(local_ipv6), count_if(debug), sum(cardinality(scope_tags)) from '{}' where error = false"))
print(query("select span_id, epoch_ns(start_time), annotations[1].value from '{}' where trace_id = '0000000000000002' order by 1"))
file = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)
table = file.read()
print([table.column(name).null_count for name in ['status', 'local_ipv6', 'local_port', 'parent_id']])
print(table['debug'].to_pylist() == [False] * 3000, table['scope_tags'].to_pylist() == [[]] * 3000)
print(table.num_rows, file.metadata.num_row_groups, sum(table['duration_ns'].to_pylist()))
"#;

const EXPECTED: &str = "\
[(3000, 4501500, 2572, 2000, 3000, 6000)]
[('name 0', 600, 3000), ('name 1', 600, 2996)]
[(1500,)]
[('00000000000009c4', False, None, 0, False)]
[(0, 0, 0)]
[('0000000000000003', 1790000000000000003, None)]
[3000, 3000, 3000, 1000]
True True
3000 3 4501500
";

#[test]
fn duckdb_and_pyarrow_read_our_files() {
    let Some(python) = python("duckdb_and_pyarrow_read_our_files") else { return };
    let mut block = Block::new();
    for span in spans() {
        block.push(&span.ref_buffer().as_ref()).expect("room");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("spans.parquet");
    let options = Options { rows_of_group: 1024, rows_of_page: 300, ..Options::default() };
    let to = std::fs::File::create(&path).expect("a file");
    let mut writer = Writer::create(to, options).expect("a file");
    writer.append(&Sorted::of(&[&block])).expect("written");
    writer.finish().expect("written");
    let output = Command::new(python).args(["-c", SCRIPT]).arg(&path).output().expect("Python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), EXPECTED);
}
