//! Small stores in the format that the server writes, and helpers that query them. Start at
//! [`Store`].

use blkkin_columns::{Block, Options as Written, Sorted, Writer};
use blkkin_model::{Annotation, Endpoint, Kind, Origin, Span, SpanId, Status, Tag, TraceId, Value};
use blkkin_sql::{Error, Format, Options, Printer, Summary};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Time base of the tests: 2026-11-21T12:00:00Z, in nanoseconds since 1970.
pub(crate) const NOON: u64 = 1_795_262_400_000_000_000;

pub(crate) const MS: u64 = 1_000_000;

/// Store of span files in a temporary directory.
pub(crate) struct Store {
    directory: TempDir,
    files: Vec<(u64, usize, u64)>,
}

impl Store {
    pub(crate) fn new() -> Store {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("spans")).expect("a directory");
        let store = Store { directory, files: Vec::new() };
        store.write_manifest();
        store
    }

    /// Creates a store with one file, which contains these spans.
    pub(crate) fn of(spans: &[Span]) -> Store {
        let mut store = Store::new();
        store.add(1, spans);
        store
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn file(&self, number: u64) -> PathBuf {
        self.path().join(format!("spans/{number:010}.parquet"))
    }

    /// Writes a file with these spans, and names it in the manifest.
    pub(crate) fn add(&mut self, number: u64, spans: &[Span]) {
        let mut block = Block::new();
        for span in spans {
            block.push(&span.ref_buffer().as_ref()).expect("room");
        }
        let options = Written { rows_of_group: 4096, rows_of_page: 128, ..Written::default() };
        let mut writer = Writer::create(Vec::new(), options).expect("a file");
        writer.append(&Sorted::of(&[&block])).expect("written");
        let (bytes, _) = writer.finish().expect("written");
        fs::write(self.file(number), &bytes).expect("written");
        self.files.push((number, spans.len(), bytes.len() as u64));
        self.write_manifest();
    }

    /// Removes a file from the manifest, but not from the disk.
    pub(crate) fn remove_from_manifest(&mut self, number: u64) {
        self.files.retain(|(one, ..)| *one != number);
        self.write_manifest();
    }

    pub(crate) fn write_manifest(&self) {
        let files: Vec<String> = self
            .files
            .iter()
            .map(|(number, spans, bytes)| {
                format!(
                    r#"{{"number":{number},"tier":0,"spans":{spans},"bytes":{bytes},"index_bytes":0,"min_start_ns":0,"max_start_ns":1,"received_ns":0}}"#
                )
            })
            .collect();
        let text = format!(
            r#"{{"format":1,"incompat":0,"commit":1,"journal_sequence":0,"next_file":99,"totals":{{}},"files":[{}]}}"#,
            files.join(",")
        );
        let crc = crc32c::crc32c(text.as_bytes());
        fs::write(self.path().join("manifest"), format!("{text}\n{crc:08x}\n")).expect("written");
    }

    pub(crate) fn options(&self) -> Options {
        options(self.path())
    }

    #[track_caller]
    pub(crate) fn query(&self, format: Format, sql: &str) -> String {
        let (answer, _) = run_query(&self.options(), format, sql);
        answer.unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    /// Runs a query and returns the lines of its CSV output after the header.
    #[track_caller]
    pub(crate) fn rows(&self, sql: &str) -> Vec<String> {
        self.query(Format::Csv, sql).lines().skip(1).map(str::to_owned).collect()
    }

    #[track_caller]
    pub(crate) fn error(&self, sql: &str) -> Error {
        match run_query(&self.options(), Format::Csv, sql) {
            (Ok(answer), _) => panic!("has an answer: {answer}"),
            (Err(error), _) => error,
        }
    }
}

pub(crate) fn options(directory: &Path) -> Options {
    Options {
        directory: directory.to_owned(),
        rows_max: Some(1000),
        timeout: Duration::from_secs(60),
        memory_bytes: 512 << 20,
        skip_damaged: false,
    }
}

pub(crate) fn run_query(
    options: &Options,
    format: Format,
    sql: &str,
) -> (Result<String, Error>, Option<Summary>) {
    let mut out = Vec::new();
    let done = blkkin_sql::run(options, sql, &mut Printer::new(format, &mut out));
    let text = String::from_utf8(out).expect("text");
    match done {
        Ok(summary) => (Ok(text), Some(summary)),
        Err(error) => (Err(error), None),
    }
}

pub(crate) fn span(request: u64, id: u64, parent: u64, service: &str, name: &str) -> Span {
    Span {
        trace_id: TraceId::from_number(request.into()).expect("not 0"),
        id: SpanId::from_number(id).expect("not 0"),
        parent_id: SpanId::from_number(parent),
        kind: Kind::Server,
        status: Status::Unset,
        debug: false,
        shared: false,
        name: name.into(),
        start_ns: Some(NOON),
        duration_ns: Some(MS),
        local: Endpoint { service: service.into(), ..Endpoint::default() },
        remote: Endpoint::default(),
        annotations: Vec::new(),
        tags: Vec::new(),
    }
}

pub(crate) fn tag(key: &str, value: Value, origin: Origin) -> Tag {
    Tag { key: key.into(), value, origin }
}

/// Returns the spans of ten requests, each with a client span of qemu and a child server span of
/// osd.3 or osd.7. Request n starts n × 20 s after noon and takes n × 10 ms; its server span takes
/// half of that time. Every fourth request has an error in the server span.
pub(crate) fn requests() -> Vec<Span> {
    let mut spans = Vec::new();
    for number in 1..=10_u64 {
        let start = NOON + number * 20_000 * MS;
        let mut root =
            span(number, number * 16, 0, "qemu", if number % 2 == 0 { "read" } else { "write" });
        root.kind = Kind::Client;
        root.start_ns = Some(start);
        root.duration_ns = Some(number * 10 * MS);
        let volume = format!("vol-{}", number % 4 + 6);
        root.tags = vec![
            tag("host", Value::Str("kvm1".into()), Origin::Resource),
            tag("volume", Value::Str(volume), Origin::Span),
        ];
        let service = if number % 2 == 0 { "osd.3" } else { "osd.7" };
        let mut below = span(number, number * 16 + 1, number * 16, service, "object");
        below.start_ns = Some(start + MS);
        below.duration_ns = Some(number * 5 * MS);
        let annotation = |at, value: &str| Annotation { time_ns: start + at, value: value.into() };
        below.annotations = vec![annotation(MS, "received"), annotation(3 * MS, "journaled")];
        below.tags = vec![
            tag("bytes", Value::Int(4096 * number as i64), Origin::Span),
            tag("host", Value::Str(format!("node-{service}")), Origin::Resource),
            tag("library", Value::Str("ceph".into()), Origin::Scope),
        ];
        if number % 4 == 0 {
            below.status = Status::Error;
        }
        spans.extend([root, below]);
    }
    spans
}
