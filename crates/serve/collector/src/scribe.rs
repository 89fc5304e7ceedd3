//! Spans as Zipkin's first senders hand them over, by Scribe. Start at [`ScribeSpans`].
//!
//! Each entry is one span of thrift's in base64. Those of a call become one list, so that the store is asked once for
//! them all. Entries of which nothing can be made are counted, and the call goes well nevertheless: sending them again
//! would not help, and most senders of the time end when a call does not.

use crate::{Collector, Transport};
use blkkin_scribe::{Entries, Handler, ResultCode, base64};
use blkkin_store::Policy;
use blkkin_wire::{Format, Limits, thrift_span_size};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The category of spans, in any case.
const CATEGORY: &[u8] = b"zipkin";

/// What a list of structures begins with: their type, before their number in 32 bits.
const STRUCT: u8 = 12;
const LIST_HEADER: usize = 5;

/// Takes Scribe's calls, and gives the spans in them to a collector.
pub struct ScribeSpans(pub Arc<Collector>);

impl Handler for ScribeSpans {
    fn log(&self, entries: &Entries<'_>) -> ResultCode {
        let collector = &self.0;
        let mut hold = collector.budget().hold();
        // Decoded they are smaller.
        if hold.grow_to(entries.payload_bytes() + LIST_HEADER).is_err() {
            collector.count_turned_away(Transport::Scribe);
            return ResultCode::TryLater;
        }
        let List { bytes, spans, unreadable } = List::of(entries);
        let result = match spans {
            0 => Ok(()),
            _ => collector
                .take(Transport::Scribe, Format::ZipkinThrift, Policy::EachSpan, &bytes)
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

/// The spans of a call, as a list of thrift's.
struct List {
    bytes: Vec<u8>,
    spans: u32,
    /// Entries that are no span.
    unreadable: u64,
}

impl List {
    fn of(entries: &Entries<'_>) -> List {
        let mut list = List { bytes: vec![STRUCT, 0, 0, 0, 0], spans: 0, unreadable: 0 };
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
        // One without an end would take those behind it with it.
        let size =
            decoded.and_then(|()| thrift_span_size(&self.bytes[start..], &Limits::default()));
        self.bytes.truncate(start + size.unwrap_or(0));
        match size {
            Some(_) => self.spans += 1,
            None => self.unreadable += 1,
        }
    }
}
