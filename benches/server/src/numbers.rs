//! Ids and times computed from a request's number, so that sent requests can be queried without
//! storing them. Start at [`Numbers`].

use blkkin_model::{Span, SpanId, TraceId};
use std::collections::HashMap;

/// Parameters from which the ids and times of a run's requests are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Numbers {
    /// Seed of the ids and of the start times' jitter; runs with different seeds have different
    /// ids.
    pub(crate) seed: u64,
    /// Start of request 0 without its jitter, in nanoseconds since 1970.
    pub(crate) origin_ns: u64,
    /// Average time between the starts of two requests, in nanoseconds.
    pub(crate) step_ns: u64,
}

/// Maximum number of distinct span ids in a request.
pub(crate) const SPANS_MAX: u64 = 1 << 16;

/// Nanoseconds per microsecond, the resolution of some formats. Requests start at whole
/// microseconds.
const MICROSECOND: u64 = 1000;

impl Numbers {
    /// Returns the upper and lower half of a request's trace id.
    pub(crate) fn trace_id(&self, request: u64) -> (u64, u64) {
        let number = request.wrapping_add(self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
        (not_0(mix(number ^ 0x6c62_272e_07bb_0142)), not_0(mix(number)))
    }

    /// Returns the span id of the span `index` in a request.
    pub(crate) fn span_id(&self, request: u64, index: u64) -> u64 {
        let number = request.wrapping_mul(SPANS_MAX).wrapping_add(index);
        not_0(mix(number.wrapping_add(mix(self.seed))))
    }

    /// Returns the start time of a request. Requests start in the order of their numbers.
    pub(crate) fn start_ns(&self, request: u64) -> u64 {
        let jitter = mix(request ^ self.seed) % self.step_ns.max(1);
        let ns = self.origin_ns + request * self.step_ns + jitter;
        ns - ns % MICROSECOND
    }
}

/// Start time of a request, and the index of each of its span ids.
pub(crate) struct RequestIds {
    /// Start time of the request in nanoseconds, rounded down to whole microseconds.
    pub(crate) start_ns: u64,
    /// Index of each span id. Both sides of a call may have the same span id.
    pub(crate) indices: HashMap<u64, u32>,
}

impl RequestIds {
    pub(crate) fn of(spans: &[Span]) -> RequestIds {
        let start_ns = spans.iter().filter_map(|span| span.start_ns).min().unwrap_or(0);
        let mut indices = HashMap::new();
        for span in spans {
            let index = indices.len() as u32;
            indices.entry(span.id.number()).or_insert(index);
        }
        RequestIds { start_ns: start_ns - start_ns % MICROSECOND, indices }
    }

    /// Replaces the ids in `spans` by those of request number `request`, and shifts all times to
    /// that request's start. Keeps the ids of parents outside the request.
    pub(crate) fn renumber(&self, spans: &mut [Span], numbers: &Numbers, request: u64) {
        let (high, low) = numbers.trace_id(request);
        let trace_id = TraceId::from_number(u128::from(high) << 64 | u128::from(low));
        let start_ns = numbers.start_ns(request);
        let time = |ns: u64| start_ns + ns.saturating_sub(self.start_ns);
        let id = |old: SpanId| match self.indices.get(&old.number()) {
            Some(&index) => {
                SpanId::from_number(numbers.span_id(request, index.into())).unwrap_or(old)
            }
            None => old,
        };
        for span in spans {
            span.trace_id = trace_id.unwrap_or(span.trace_id);
            span.id = id(span.id);
            span.parent_id = span.parent_id.map(id);
            span.start_ns = span.start_ns.map(time);
            span.annotations.iter_mut().for_each(|note| note.time_ns = time(note.time_ns));
        }
    }
}

/// Returns 1 in place of 0, which is no valid id.
fn not_0(number: u64) -> u64 {
    number.max(1)
}

/// Returns a hash of a number. The hash is a bijection: different numbers have different hashes.
pub(crate) fn mix(number: u64) -> u64 {
    let mut number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Random number generator; the field is its state.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_do_not_come_again() {
        let numbers = Numbers { seed: 1, origin_ns: 0, step_ns: 1000 };
        let other = Numbers { seed: 2, ..numbers };
        let traces: HashSet<_> = (0..10_000)
            .flat_map(|request| [numbers.trace_id(request).1, other.trace_id(request).1])
            .collect();
        assert_eq!(traces.len(), 20_000);
        let spans: HashSet<_> = (0..1000)
            .flat_map(|request| (0..20).map(move |index| numbers.span_id(request, index)))
            .collect();
        assert_eq!(spans.len(), 20_000);
    }

    #[test]
    fn requests_are_in_order_of_time() {
        let numbers = Numbers { seed: 1, origin_ns: 1_700_000_000_000_000_000, step_ns: 50_000 };
        let starts: Vec<u64> = (0..1000).map(|request| numbers.start_ns(request)).collect();
        assert!(starts.is_sorted());
        assert!(starts.iter().all(|start| start % 1000 == 0));
        assert!(starts[999] - starts[0] > 998 * 49_000);
    }
}
