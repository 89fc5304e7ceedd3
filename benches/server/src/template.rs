//! Batches that are encoded before the measurement. Before each use, their ids and times are
//! patched in place. Each sent batch is therefore new to its receiver, and costs its sender next to
//! nothing. Start at [`Template`].

use crate::base64;
use crate::format::{EncodedBatch, Format, Message, NumberEncoding};
use crate::numbers::{Numbers, RequestIds};
use blkkin_model::Span;
use std::collections::HashMap;
use std::ops::Range;

/// An encoded batch with the positions of its ids and times.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// Bytes of the batch, as in [`EncodedBatch`].
    bytes: Vec<u8>,
    /// Scribe messages before base64; empty in other formats. The messages are patched here, and
    /// then encoded again.
    unpacked: Vec<u8>,
    patches: Vec<Patch>,
    repacks: Vec<Repack>,
    requests: u64,
    spans: u64,
}

/// An id or time in a batch that is overwritten before each use of the batch.
#[derive(Clone, Copy, Debug)]
struct Patch {
    offset: u32,
    /// Index of the request in the batch.
    request: u32,
    what: ValueKind,
    form: NumberEncoding,
}

/// Kind of a patched value, from which its new content is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    TraceHigh,
    TraceLow,
    /// Id of the span with this index in its request.
    Span(u32),
    /// Time after the request's start, in nanoseconds.
    Time(u64),
}

/// A range of `unpacked` to be encoded again as base64, and the offset of its base64 text in
/// `bytes`.
#[derive(Clone, Debug)]
struct Repack {
    from: Range<usize>,
    to: usize,
}

/// Values to be found in a batch, by their encoded bytes. A Bloom filter with one hash rejects most
/// positions quickly.
#[derive(Default)]
struct SearchTable {
    values: HashMap<u128, (u32, ValueKind, NumberEncoding)>,
    filter: Vec<u64>,
}

const FILTER_BITS: u32 = 22;

impl Template {
    /// Encodes a batch, and finds the ids and times to patch.
    pub(crate) fn new(format: Format, host: &str, requests: &[Vec<Span>]) -> Template {
        let (mut template, messages) = Template::of(format, host, requests);
        let is_packed = !template.unpacked.is_empty();
        let bytes = if is_packed { &template.unpacked } else { &template.bytes };
        template.patches = find(bytes, &wanted(format, requests));
        template.repacks = repacks(&template.patches, &messages);
        template
    }

    /// Encodes a batch that will not be patched, so its values are not searched for.
    pub(crate) fn encoded(format: Format, host: &str, requests: &[Vec<Span>]) -> Template {
        Template::of(format, host, requests).0
    }

    fn of(format: Format, host: &str, requests: &[Vec<Span>]) -> (Template, Vec<Message>) {
        let spans: Vec<&Span> = requests.iter().flatten().collect();
        let EncodedBatch { bytes, unpacked, messages } = format.encode(&spans, host);
        let (requests, spans) = (requests.len() as u64, spans.len() as u64);
        let (patches, repacks) = (Vec::new(), Vec::new());
        (Template { bytes, unpacked, patches, repacks, requests, spans }, messages)
    }

    /// Overwrites the ids and times by those of the requests from number `first` on.
    pub(crate) fn patch(&mut self, numbers: &Numbers, first: u64) {
        let is_packed = !self.unpacked.is_empty();
        let bytes = if is_packed { &mut self.unpacked } else { &mut self.bytes };
        for patch in &self.patches {
            let request = first + u64::from(patch.request);
            let value = match patch.what {
                ValueKind::TraceHigh => numbers.trace_id(request).0,
                ValueKind::TraceLow => numbers.trace_id(request).1,
                ValueKind::Span(index) => numbers.span_id(request, index.into()),
                ValueKind::Time(after_ns) => numbers.start_ns(request) + after_ns,
            };
            patch.form.write(value, bytes, patch.offset as usize);
        }
        for repack in &self.repacks {
            base64::encode(&self.unpacked[repack.from.clone()], &mut self.bytes[repack.to..]);
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    pub(crate) fn spans(&self) -> u64 {
        self.spans
    }
}

/// Returns a table of all ids and times in a batch, each with its kind.
fn wanted(format: Format, requests: &[Vec<Span>]) -> SearchTable {
    let (id, time) = (format.id_form(), format.time_form());
    let mut wanted =
        SearchTable { filter: vec![0; 1 << (FILTER_BITS - 6)], ..SearchTable::default() };
    for (request, spans) in (0..).zip(requests) {
        let counted = RequestIds::of(spans);
        if let Some(span) = spans.first() {
            wanted.add(span.trace_id.high(), request, ValueKind::TraceHigh, id);
            wanted.add(span.trace_id.low(), request, ValueKind::TraceLow, id);
        }
        for (&number, &index) in &counted.indices {
            wanted.add(number, request, ValueKind::Span(index), id);
        }
        for ns in spans.iter().flat_map(times) {
            wanted.add(ns, request, ValueKind::Time(ns - counted.start_ns), time);
        }
    }
    wanted
}

/// Returns all times of a span that any format may contain. A format of whole microseconds may have
/// a different end time, because it adds a rounded start and a rounded duration.
fn times(span: &Span) -> Vec<u64> {
    let (start_ns, takes_ns) = (span.start_ns.unwrap_or(0), span.duration_ns.unwrap_or(0));
    let end_ns = start_ns - start_ns % 1000 + takes_ns - takes_ns % 1000;
    let notes = span.annotations.iter().map(|note| note.time_ns);
    notes.chain([start_ns, start_ns + takes_ns, end_ns]).collect()
}

/// Returns the positions of all values of `wanted` in `bytes`.
fn find(bytes: &[u8], wanted: &SearchTable) -> Vec<Patch> {
    let mut patches = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let Some((len, (request, what, form))) = wanted.at(&bytes[at..]) else {
            at += 1;
            continue;
        };
        patches.push(Patch { offset: at as u32, request, what, form });
        at += len;
    }
    patches
}

impl SearchTable {
    fn add(&mut self, value: u64, request: u32, what: ValueKind, form: NumberEncoding) {
        let mut bytes = [0; 16];
        let len = form.write(value, &mut bytes, 0);
        let (word, bit) = filter_bit(&bytes);
        self.filter[word] |= bit;
        self.values.insert(key(&bytes[..len]), (request, what, form));
    }

    /// Returns the size of the value at the start of `bytes`, and its request, kind and encoding.
    /// Returns `None` if there is no value.
    fn at(&self, bytes: &[u8]) -> Option<(usize, (u32, ValueKind, NumberEncoding))> {
        let (word, bit) = filter_bit(bytes.get(..8)?);
        if self.filter[word] & bit == 0 {
            return None;
        }
        [16, 8].into_iter().find_map(|len| {
            let found = self.values.get(&key(bytes.get(..len)?))?;
            (found.2.len() == len).then_some((len, *found))
        })
    }
}

fn filter_bit(bytes: &[u8]) -> (usize, u64) {
    let first = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let hash = first.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS);
    ((hash >> 6) as usize, 1 << (hash & 63))
}

fn key(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |key, &byte| key << 8 | u128::from(byte))
}

/// Returns the patched ranges, extended to base64's groups of three bytes. Groups count from the
/// start of each Scribe message, as messages are encoded separately.
fn repacks(patches: &[Patch], messages: &[Message]) -> Vec<Repack> {
    let mut repacks: Vec<Repack> = Vec::new();
    for patch in patches {
        let offset = patch.offset as usize;
        let behind = messages.partition_point(|(from, _)| from.start <= offset);
        let Some((message, to)) = behind.checked_sub(1).map(|index| &messages[index]) else {
            continue;
        };
        let start = message.start + (offset - message.start) / 3 * 3;
        let end = offset + patch.form.len() - message.start;
        let end = (message.start + end.div_ceil(3) * 3).min(message.end);
        match repacks.last_mut() {
            Some(last) if last.from.start >= message.start && last.from.end >= start => {
                last.from.end = last.from.end.max(end);
            }
            _ => {
                repacks.push(Repack { from: start..end, to: to + (start - message.start) / 3 * 4 })
            }
        }
    }
    repacks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::RequestSource;

    const NUMBERS: Numbers =
        Numbers { seed: 9, origin_ns: 1_700_000_000_000_000_000, step_ns: 77_000_000 };

    fn requests(format: Format) -> Vec<Vec<Span>> {
        let mut source = RequestSource::new(format, 7);
        (0..80).map(|_| source.request()).collect()
    }

    #[test]
    fn patched_batches_are_what_encoding_anew_would_give() {
        for format in Format::ALL {
            let requests = requests(format);
            let mut template = Template::new(format, "a:1", &requests);
            for first in [1_000_000, 5] {
                template.patch(&NUMBERS, first);
                let mut renumbered = requests.clone();
                for (number, spans) in (first..).zip(&mut renumbered) {
                    RequestIds::of(spans).renumber(spans, &NUMBERS, number);
                    assert_ne!(spans[0].id, requests[0][0].id);
                }
                let spans: Vec<&Span> = renumbered.iter().flatten().collect();
                let anew = format.encode(&spans, "a:1").bytes;
                assert!(template.bytes() == anew, "{format:?} from {first}");
            }
        }
    }

    #[test]
    fn what_it_holds_is_counted() {
        let requests = requests(Format::ZipkinJson);
        let template = Template::new(Format::ZipkinJson, "a:1", &requests[..2]);
        assert_eq!(template.requests(), 2);
        assert_eq!(template.spans(), (requests[0].len() + requests[1].len()) as u64);
    }
}
