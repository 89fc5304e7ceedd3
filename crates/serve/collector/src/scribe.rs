//! Spans over Scribe, which the first programs with Zipkin tracers use. Start at [`ScribeSpans`].
//!
//! Each entry of the category `zipkin` is a Thrift span in base64; other entries are ignored. The
//! spans of a call become a single Thrift list, so the store gets a single batch per call.
//! Undecodable entries are counted, but do not fail the call: sending them again would not help,
//! and most of these senders stop after a failed call.

use crate::{Collector, Transport};
use blkkin_scribe::{Entries, Handler, ResultCode, base64};
use blkkin_store::Policy;
use blkkin_wire::{Format, Limits, thrift_span_size};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Scribe category whose entries are spans, compared case-insensitively.
const CATEGORY: &[u8] = b"zipkin";

/// Thrift's type code of structs. The header of a Thrift list is the type code of its elements and
/// their number as a 32-bit integer.
const STRUCT: u8 = 12;
const LIST_HEADER: usize = 5;

/// Handler of Scribe calls that passes the spans of each call to a collector.
pub struct ScribeSpans(pub Arc<Collector>);

impl Handler for ScribeSpans {
    fn log(&self, entries: &Entries<'_>) -> ResultCode {
        let collector = &self.0;
        let mut hold = collector.budget().reservation();
        // The decoded spans are not larger than the entries.
        if hold.grow_to(entries.payload_bytes() + LIST_HEADER).is_err() {
            collector.count_turned_away(Transport::Scribe);
            return ResultCode::TryLater;
        }
        let SpanList { bytes, spans, unreadable } = SpanList::of(entries);
        let result = match spans {
            0 => Ok(()),
            _ => collector
                .accept(Transport::Scribe, Format::ZipkinThrift, Policy::EachSpan, &bytes)
                .map(drop),
        };
        if result.is_err() {
            return ResultCode::TryLater;
        }
        collector.count_unreadable(Transport::Scribe, unreadable);
        ResultCode::Ok
    }

    fn counters(&self) -> BTreeMap<String, i64> {
        let counters = self.0.counters(Transport::Scribe);
        let names = [
            ("received good", counters.spans),
            ("received bad", counters.spans_dropped),
            ("denied for queue size", counters.messages_turned_away),
        ];
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        ["zipkin", "scribe_overall"]
            .iter()
            .flat_map(|category| {
                names.map(|(name, count)| (format!("{category}:{name}"), number(count)))
            })
            .collect()
    }
}

/// Spans of one call, encoded as a Thrift list.
struct SpanList {
    bytes: Vec<u8>,
    spans: u32,
    /// Number of entries of the call that could not be decoded to a span.
    unreadable: u64,
}

impl SpanList {
    fn of(entries: &Entries<'_>) -> SpanList {
        let mut list = SpanList { bytes: vec![STRUCT, 0, 0, 0, 0], spans: 0, unreadable: 0 };
        for entry in entries.iter() {
            if entry.category.eq_ignore_ascii_case(CATEGORY) {
                list.push(entry.message);
            }
        }
        list.bytes[1..LIST_HEADER].copy_from_slice(&list.spans.to_be_bytes());
        list
    }

    fn push(&mut self, message: &[u8]) {
        let start = self.bytes.len();
        let decoded = base64::decode(message, &mut self.bytes).ok();
        // A span without an end marker would include the bytes of the spans after it.
        let size =
            decoded.and_then(|()| thrift_span_size(&self.bytes[start..], &Limits::default()));
        self.bytes.truncate(start + size.unwrap_or(0));
        match size {
            Some(_) => self.spans += 1,
            None => self.unreadable += 1,
        }
    }
}
