//! Tests with batches of other senders; `golden/README.md` documents their origin.

use crate::check::good;
use blkkin_model::{Endpoint, Kind, Origin, Span, Status, Value};
use blkkin_wire::Format;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[test]
fn golden_batches_say_what_they_should() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut batches = 0;
    for sender in ["blkin-annotation", "blkin-key", "opentelemetry", "py_zipkin"] {
        for format in Format::ALL {
            let file = folder.join(format!("{sender}.{}", format.name()));
            let Ok(batch) = std::fs::read(&file) else { continue };
            compare(&file, &show(&good(format, &batch)));
            batches += 1;
        }
    }
    assert_eq!(batches, 9);
}

fn compare(batch: &Path, found: &str) {
    let mut name = batch.file_name().expect("a file").to_owned();
    name.push(".txt");
    let expected = std::fs::read_to_string(batch.with_file_name(&name)).unwrap_or_default();
    if found != expected {
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(&name);
        std::fs::write(&place, found).expect("written");
        panic!("{name:?} is not what is now in {}", place.display());
    }
}

/// Formats spans as text: a line for the ids, and a line for each property.
fn show(spans: &[Span]) -> String {
    let mut out = String::new();
    for span in spans {
        show_span(&mut out, span).expect("memory");
    }
    out
}

fn show_span(out: &mut String, span: &Span) -> std::fmt::Result {
    write!(out, "span {} {}", span.trace_id, span.id)?;
    if let Some(parent_id) = span.parent_id {
        write!(out, " of {parent_id}")?;
    }
    for (word, is_so) in [(" debug", span.debug), (" shared", span.shared)] {
        out.push_str(if is_so { word } else { "" });
    }
    writeln!(out)?;
    writeln!(out, "  name {:?}", span.name)?;
    if span.kind != Kind::Unspecified {
        writeln!(out, "  kind {:?}", span.kind)?;
    }
    if span.status != Status::Unset {
        writeln!(out, "  status {:?}", span.status)?;
    }
    let or_none = |ns: Option<u64>| ns.map_or("unknown".to_owned(), |ns| ns.to_string());
    writeln!(out, "  from {} for {}", or_none(span.start_ns), or_none(span.duration_ns))?;
    show_end(out, "local", &span.local)?;
    show_end(out, "remote", &span.remote)?;
    for note in &span.annotations {
        writeln!(out, "  at {} {:?}", note.time_ns, note.value)?;
    }
    for tag in &span.tags {
        let origin = match tag.origin {
            Origin::Resource => " (resource)",
            Origin::Scope => " (scope)",
            Origin::Span => "",
        };
        match &tag.value {
            Value::Str(text) => writeln!(out, "  {:?} = {text:?}{origin}", tag.key)?,
            other => writeln!(out, "  {:?} = {other:?}{origin}", tag.key)?,
        }
    }
    Ok(())
}

fn show_end(out: &mut String, word: &str, end: &Endpoint) -> std::fmt::Result {
    if end.as_ref().is_none() {
        return Ok(());
    }
    write!(out, "  {word} {:?}", end.service)?;
    if let Some(address) = end.ipv4 {
        write!(out, " {address}")?;
    }
    if let Some(address) = end.ipv6 {
        write!(out, " {address}")?;
    }
    writeln!(out, " port {}", end.port)
}
