//! Drawing of the request in a query's answer, as `blkkin spans` draws requests. Start at [`draw`].

use super::answers::{text, time, unexpected_answer};
use crate::exit::Error;
use blkkin_model::{Kind, ValueRef};
use blkkin_spans::{
    Assembler, CompleteSpan, END, LOST, Limits, ReportContent, Request, START, SpanReport,
};
use blkkin_text::query_results::Options;
use blkkin_text::requests::TreePrinter;
use serde_json::Value;
use std::ops::ControlFlow;

/// Assembles the spans of an answer into a request; returns its picture as text.
pub(in crate::commands) fn draw(
    answer: &Value,
    options: &Options,
    annotations: bool,
) -> Result<String, Error> {
    let spans = answer["spans"].as_array().ok_or_else(|| unexpected_answer(answer, "spans"))?;
    let mut out = String::new();
    let mut printer = TreePrinter::new(blkkin_text::requests::Options {
        color: options.color,
        ascii: options.ascii,
        width: options.width,
        annotations,
        kernel: false,
        utc: options.utc,
        absolute: true,
    });
    let mut print_request = |request: &Request<'_>| {
        printer.print(&mut out, request);
        ControlFlow::Continue(())
    };
    // The answer is one request and already in memory, so no limit applies.
    let limits = Limits { bytes: usize::MAX, bytes_of_request: usize::MAX, ..Limits::default() };
    let limits = Limits { spans: usize::MAX, spans_of_request: usize::MAX, ..limits };
    let mut assembler = Assembler::new(limits);
    assembler.add_loss(LOSING, None, None);
    // Tags of a span without a time are given the earliest start of the request.
    let first = spans.iter().filter_map(|span| time(span, "startNs").ok()).min().unwrap_or(0);
    for span in spans {
        report_span(span, first, &mut |said| {
            let _ = assembler.add(said, 0, &mut print_request);
        })?;
    }
    let _ = assembler.finish(&mut print_request);
    Ok(out)
}

/// Event source for spans that are tagged as having lost their start or end. The assembler treats
/// this source as losing events at all times.
const LOSING: u32 = 1;

/// Converts a span of an answer, with its tags and annotations, into span reports, and calls the
/// parameter `report_span` with each. `first` is the time of the reports of a span without a start.
fn report_span(
    span: &Value,
    first: u64,
    report_span: &mut impl FnMut(&SpanReport<'_>),
) -> Result<(), Error> {
    let id = |name: &str| u64::from_str_radix(span[name].as_str()?, 16).ok();
    let trace_id = text(span, "traceId")?;
    let trace_id =
        u128::from_str_radix(&trace_id, 16).map_err(|_| unexpected_answer(span, "traceId"))?;
    let local = &span["local"];
    let address = local["ipv4"].as_str().or(local["ipv6"].as_str()).unwrap_or_default();
    let texts = BorrowedTexts::of(span);
    let mut fields = texts.fields(span);
    let mut is_lost = |key: &str| {
        let before = fields.len();
        fields.retain(|field| *field != (key, ValueRef::Str(LOST)));
        fields.len() < before
    };
    let (end_is_lost, start_is_lost) = (is_lost(END), is_lost(START));
    let said = SpanReport {
        trace_id: trace_id as u64,
        trace_id_high: (trace_id >> 64) as u64,
        span_id: id("id").ok_or_else(|| unexpected_answer(span, "id"))?,
        parent_id: id("parentId").unwrap_or(0),
        name: span["name"].as_str().unwrap_or_default(),
        service: local["service"].as_str().unwrap_or_default(),
        ip: address,
        port: local["port"].as_i64().and_then(|port| port.try_into().ok()).unwrap_or(0),
        time_ns: time(span, "startNs").unwrap_or(first),
        source: if end_is_lost || start_is_lost { LOSING } else { 0 },
        content: ReportContent::Event(""),
    };
    let kind = kind(span["kind"].as_str().unwrap_or_default());
    let whole = time(span, "startNs").ok().map(|start_ns| CompleteSpan {
        start_ns,
        duration_ns: span["durationNs"].as_u64().unwrap_or(0),
        kind,
        debug: span["debug"].as_bool().unwrap_or(false),
        target: "",
        fields: &fields,
    });
    // A client, server or producer span without an end is reported by its start event and its
    // tags, as its program recorded it.
    let begin = match kind {
        Kind::Client => Some("cs"),
        Kind::Server => Some("sr"),
        Kind::Producer => Some("ms"),
        _ => None,
    };
    let has_no_end = span["durationNs"].is_null() && !said.service.is_empty();
    let begin = begin.filter(|_| has_no_end && !start_is_lost);
    let is_undated = whole.is_none()
        && !start_is_lost
        && span["annotations"].as_array().is_none_or(Vec::is_empty);
    if is_undated {
        report_span(&SpanReport { content: ReportContent::Undated(kind), ..said });
    }
    match (whole, begin) {
        (Some(whole), None) if !start_is_lost => {
            report_span(&SpanReport { content: ReportContent::Span(whole), ..said })
        }
        (whole, begin) => {
            if let (Some(_), Some(begin)) = (whole, begin) {
                report_span(&SpanReport { content: ReportContent::Event(begin), ..said });
            }
            for (key, value) in &fields {
                report_span(&SpanReport { content: ReportContent::KeyValue(key, *value), ..said });
            }
        }
    }
    for annotation in span["annotations"].as_array().into_iter().flatten() {
        let value = annotation["value"].as_str().unwrap_or_default();
        let time_ns = time(annotation, "timeNs").unwrap_or(said.time_ns);
        report_span(&SpanReport { content: ReportContent::Event(value), time_ns, ..said });
    }
    Ok(())
}

fn kind(word: &str) -> Kind {
    match word {
        "internal" => Kind::Internal,
        "client" => Kind::Client,
        "server" => Kind::Server,
        "producer" => Kind::Producer,
        "consumer" => Kind::Consumer,
        _ => Kind::Unspecified,
    }
}

/// Values derived from a span of an answer: the text of its remote endpoint, which the fields
/// borrow, and whether a field `error` is added, as for a failed span without a tag `error`.
struct BorrowedTexts {
    remote: Option<String>,
    is_error: bool,
}

impl BorrowedTexts {
    fn of(span: &Value) -> BorrowedTexts {
        let remote = span.get("remote").map(|remote| {
            let word = |name: &str| remote[name].as_str().unwrap_or_default();
            let port = remote["port"].as_u64().map(|port| format!(":{port}")).unwrap_or_default();
            let address = format!("{}{}{port}", word("ipv4"), word("ipv6"));
            format!("{} {address}", word("service")).trim().to_owned()
        });
        let tags = span["tags"].as_array();
        let has_error_tag = tags.into_iter().flatten().any(|tag| tag["key"] == "error");
        BorrowedTexts { remote, is_error: span["isError"] == true && !has_error_tag }
    }

    fn fields<'a>(&'a self, span: &'a Value) -> Vec<(&'a str, ValueRef<'a>)> {
        let tags = span["tags"].as_array().into_iter().flatten();
        let mut fields: Vec<_> = tags
            .filter_map(|tag| {
                let value = match &tag["value"] {
                    Value::String(text) => ValueRef::Str(text),
                    Value::Bool(bool) => ValueRef::Bool(*bool),
                    Value::Number(number) => match number.as_i64() {
                        Some(int) => ValueRef::Int(int),
                        None => ValueRef::Double(number.as_f64()?),
                    },
                    _ => return None,
                };
                Some((tag["key"].as_str()?, value))
            })
            .collect();
        if self.is_error {
            fields.push(("error", ValueRef::Bool(true)));
        }
        fields.extend(self.remote.as_deref().map(|remote| ("remote", ValueRef::Str(remote))));
        fields
    }
}
