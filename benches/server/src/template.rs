//! Batches that are encoded before the clock starts, and become other requests by overwriting their ids and times where
//! they lie. So each batch that is sent is new to who gets it, and costs its sender next to nothing.
//! Start at [`Template`].

use crate::base64;
use crate::format::{Form, Format};
use crate::numbers::Numbers;
use blkkin_model::{Span, Value};
use std::collections::HashMap;
use std::ops::Range;

/// An encoded batch, and where in it ids and times are.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    /// What is sent, with all headers that go with it.
    bytes: Vec<u8>,
    /// Scribe's base64 hides what is patched: it is patched here, and then packed again.
    unpacked: Vec<u8>,
    patches: Vec<Patch>,
    repacks: Vec<Repack>,
    requests: u64,
    spans: u64,
}

/// One value that is overwritten.
#[derive(Clone, Copy, Debug)]
struct Patch {
    offset: u32,
    /// Counted within the batch.
    request: u32,
    what: What,
    form: Form,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    TraceHigh,
    TraceLow,
    /// The span that is counted so within its request.
    Span(u32),
    /// So long after the request's start, in nanoseconds.
    Time(u64),
    Place,
}

/// Bytes that are packed again as base64.
#[derive(Clone, Debug)]
struct Repack {
    from: Range<usize>,
    to: usize,
}

/// Values that are looked for, by their bytes. Most places hold none of them, and a filter says so at once.
#[derive(Default)]
struct Wanted {
    values: HashMap<u128, (u32, What, Form)>,
    filter: Vec<u64>,
}

const FILTER_BITS: u32 = 22;

impl Template {
    /// A batch of these requests, numbered so, in a format.
    pub(crate) fn new(
        format: Format,
        host: &str,
        numbers: &Numbers,
        first: u64,
        requests: &[Vec<Span>],
    ) -> Template {
        let spans: Vec<&Span> = requests.iter().flatten().collect();
        let encoded = format.encode(&spans, host);
        let looked_at =
            if encoded.unpacked.is_empty() { &encoded.bytes } else { &encoded.unpacked };
        let wanted = wanted(format, numbers, first, requests);
        let patches = find(looked_at, &wanted);
        let repacks = repacks(&patches, &encoded.messages);
        Template {
            patches,
            repacks,
            requests: requests.len() as u64,
            spans: spans.len() as u64,
            bytes: encoded.bytes,
            unpacked: encoded.unpacked,
        }
    }

    /// Makes it the requests from this number on.
    pub(crate) fn patch(&mut self, numbers: &Numbers, first: u64) {
        let is_packed = !self.unpacked.is_empty();
        let bytes = if is_packed { &mut self.unpacked } else { &mut self.bytes };
        for patch in &self.patches {
            let request = first + u64::from(patch.request);
            let value = match patch.what {
                What::TraceHigh => numbers.trace_id(request).0,
                What::TraceLow => numbers.trace_id(request).1,
                What::Span(index) => numbers.span_id(request, index.into()),
                What::Time(after_ns) => numbers.start_ns(request) + after_ns,
                What::Place => numbers.place(request),
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

/// All that is to be overwritten in a batch.
fn wanted(format: Format, numbers: &Numbers, first: u64, requests: &[Vec<Span>]) -> Wanted {
    let (id, time) = (format.id_form(), format.time_form());
    let mut wanted = Wanted { filter: vec![0; 1 << (FILTER_BITS - 6)], ..Wanted::default() };
    for (request, spans) in requests.iter().enumerate() {
        let (number, request) = (first + request as u64, request as u32);
        let start_ns = numbers.start_ns(number);
        let (high, low) = numbers.trace_id(number);
        wanted.add(high, request, What::TraceHigh, id);
        wanted.add(low, request, What::TraceLow, id);
        let mut ids: HashMap<u64, u32> = HashMap::new();
        for span in spans {
            let index = ids.len() as u32;
            let index = *ids.entry(span.id.number()).or_insert(index);
            wanted.add(span.id.number(), request, What::Span(index), id);
            let start = span.start_ns.unwrap_or(start_ns);
            let end = start + span.duration_ns.unwrap_or(0);
            let notes = span.annotations.iter().map(|note| note.time_ns);
            for at in notes.chain([start, end]) {
                wanted.add(at, request, What::Time(at - start_ns), time);
            }
        }
        let place = numbers.place(number);
        let is_told = |value: &Value| matches!(value, Value::Str(text) if text.ends_with(&format!("{place:016x}")));
        if spans.iter().flat_map(|span| &span.tags).any(|tag| is_told(&tag.value)) {
            wanted.add(place, request, What::Place, Form::Hex);
        }
    }
    wanted
}

/// Where they are.
fn find(bytes: &[u8], wanted: &Wanted) -> Vec<Patch> {
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

impl Wanted {
    fn add(&mut self, value: u64, request: u32, what: What, form: Form) {
        let mut bytes = [0; 16];
        let len = form.write(value, &mut bytes, 0);
        let (word, bit) = filter_bit(&bytes);
        self.filter[word] |= bit;
        self.values.insert(key(&bytes[..len]), (request, what, form));
    }

    /// What begins here, and how long it is.
    fn at(&self, bytes: &[u8]) -> Option<(usize, (u32, What, Form))> {
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

/// The groups of three bytes that patches are in; those of one message are packed apart from those of the next.
fn repacks(patches: &[Patch], messages: &[(Range<usize>, usize)]) -> Vec<Repack> {
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
    use crate::requests;
    use blkkin_model::{SpanId, TraceId};

    const NUMBERS: Numbers =
        Numbers { seed: 9, origin_ns: 1_700_000_000_000_000_000, step_ns: 77_000_000 };

    /// What a batch should be after it was patched: its spans with everything that was overwritten.
    fn expected(numbers: &Numbers, first: u64, drafts: &[Vec<Span>], from: u64) -> Vec<Vec<Span>> {
        let one = |(index, spans): (usize, &Vec<Span>)| {
            let (old, new) = (from + index as u64, first + index as u64);
            let shift = numbers.start_ns(new).wrapping_sub(pool().start_ns(old));
            let (high, low) = numbers.trace_id(new);
            let place = |of: &Numbers, number| format!("{:016x}", of.place(number));
            let (old_place, new_place) = (place(&pool(), old), place(numbers, new));
            let ids: Vec<SpanId> = spans.iter().map(|span| span.id).collect();
            let id = |old: SpanId| {
                let index = ids.iter().position(|&id| id == old).expect("known");
                SpanId::from_number(numbers.span_id(new, index as u64)).expect("not 0")
            };
            let mut spans = spans.clone();
            for span in &mut spans {
                let number = u128::from(high) << 64 | u128::from(low);
                span.trace_id = TraceId::from_number(number).expect("not 0");
                span.id = id(span.id);
                span.parent_id = span.parent_id.map(id);
                span.start_ns = span.start_ns.map(|start| start.wrapping_add(shift));
                for note in &mut span.annotations {
                    note.time_ns = note.time_ns.wrapping_add(shift);
                }
                for tag in &mut span.tags {
                    if let Value::Str(text) = &mut tag.value {
                        *text = text.replace(&old_place, &new_place);
                    }
                }
            }
            spans
        };
        drafts.iter().enumerate().map(one).collect()
    }

    fn pool() -> Numbers {
        crate::pool::NUMBERS
    }

    #[test]
    fn patched_batches_are_what_encoding_anew_would_give() {
        let from = 40;
        let drafts: Vec<Vec<Span>> =
            (from..from + 60).map(|number| requests::request(&pool(), number)).collect();
        for format in Format::ALL {
            let mut template = Template::new(format, "a:1", &pool(), from, &drafts);
            for first in [1_000_000, 5] {
                template.patch(&NUMBERS, first);
                let expected = expected(&NUMBERS, first, &drafts, from);
                let spans: Vec<&Span> = expected.iter().flatten().collect();
                let anew = format.encode(&spans, "a:1").bytes;
                assert!(template.bytes() == anew, "{format:?} from {first}");
            }
        }
    }

    #[test]
    fn what_it_holds_is_counted() {
        let drafts = vec![requests::request(&pool(), 1), requests::request(&pool(), 2)];
        let template = Template::new(Format::ZipkinJson, "a:1", &pool(), 1, &drafts);
        assert_eq!(template.requests(), 2);
        assert_eq!(template.spans(), (drafts[0].len() + drafts[1].len()) as u64);
    }
}
