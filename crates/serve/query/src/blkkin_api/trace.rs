//! Queries for one request: `trace/ID` returns its spans, all or those with a given span id.
//! `find/ID` returns the ids of the spans that match a filter.

use super::{condition, request_id};
use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery};
use crate::span::{SpanJson, display};
use blkkin_model::{Span, SpanId, SpanRef, TraceId};
use blkkin_store::compare;
use serde::Serialize;
use std::collections::BTreeSet;

/// Maximum number of spans in an answer to a query by span id.
const ALIKE_MAX: usize = 1000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MatchingIdsJson {
    #[serde(serialize_with = "display")]
    trace_id: TraceId,
    ids: Vec<String>,
}

impl Api {
    pub(super) fn find(&self, question: &ApiQuery<'_>, text: &str) -> Result<Answer> {
        let trace_id = request_id(text)?;
        let condition = condition(&question.params)?;
        let (mut ids, mut is_known) = (BTreeSet::new(), false);
        self.visit(trace_id, None, |span| {
            is_known = true;
            if condition.holds(span) {
                ids.insert(span.id);
            }
        })?;
        if !is_known {
            return Err(Answer::failed(404, format!("{trace_id} not found")));
        }
        let ids = ids.iter().map(SpanId::to_string).collect();
        let mut body = Vec::new();
        self.append_json(&MatchingIdsJson { trace_id, ids }, &mut body)?;
        Ok(Answer::bytes(body))
    }

    pub(super) fn trace(&self, question: &ApiQuery<'_>, text: &str) -> Result<Answer> {
        let id = request_id(text)?;
        let mut body = format!("{{\"traceId\":\"{id}\",\"spans\":[").into_bytes();
        let start = body.len();
        let mut append = |span: &SpanRef<'_>| {
            if body.len() > start {
                body.push(b',');
            }
            self.append_json(&SpanJson::from(span), &mut body)
        };
        let what = match question.params.get("span") {
            None | Some("") => {
                self.each_span(id, append)??;
                id.to_string()
            }
            Some(text) => {
                let span = span_id(text)?;
                let spans = self.spans_of_id(id, span)?;
                spans.iter().try_for_each(|span| append(&span.ref_buffer().as_ref()))?;
                format!("span {span} of {id}")
            }
        };
        if body.len() == start {
            return Err(Answer::failed(404, format!("{what} not found")));
        }
        body.extend_from_slice(b"]}");
        Ok(Answer::bytes(body))
    }

    /// Returns the distinct spans of a request that have this span id, in order of start. At
    /// most [`ALIKE_MAX`] spans are collected. Fails if the texts of fewer spans exceed the maximum
    /// size of an answer.
    fn spans_of_id(&self, id: TraceId, span: SpanId) -> Result<Vec<Span>> {
        let mut spans: Vec<Span> = Vec::new();
        let mut bytes = 0;
        self.visit(id, Some(span), |span| {
            bytes += span.text_bytes();
            if spans.len() < ALIKE_MAX && bytes <= self.settings.answer_bytes {
                spans.push(span.to_owned());
            }
        })?;
        // The JSON of spans is larger than their texts, so texts above the limit are refused early.
        self.check_size(if spans.len() < ALIKE_MAX { bytes } else { 0 })?;
        let order = |one: &Span, other: &Span| {
            compare(&one.ref_buffer().as_ref(), &other.ref_buffer().as_ref())
        };
        spans.sort_by(order);
        spans.dedup_by(|one, other| order(one, other).is_eq());
        Ok(spans)
    }

    /// Calls `each` with the spans of a request, or only with those that have the given span id.
    /// The order is arbitrary, and duplicates may be visited again.
    pub(super) fn visit(
        &self,
        id: TraceId,
        span: Option<SpanId>,
        mut each: impl FnMut(&SpanRef<'_>),
    ) -> Result<()> {
        let is_strict = self.settings.strict_trace_id;
        self.store.visit(id.low(), span, &mut |span| {
            if !is_strict || span.trace_id == id {
                each(span);
            }
        })?;
        Ok(())
    }
}

/// Parses a span id: 1 to 16 lower-case hexadecimal digits, not all of them 0.
fn span_id(text: &str) -> Result<SpanId> {
    let is_hex = text.len() <= 16 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    let number = if is_hex { u64::from_str_radix(text, 16).ok() } else { None };
    number
        .and_then(SpanId::from_number)
        .ok_or_else(|| Answer::bad(format!("span is not an id, 1 to 16 of 0-9a-f: {text}")))
}
