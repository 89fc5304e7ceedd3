//! Resolution of a request's symbols to strings, and a total order of its reports that depends only
//! on their content.

use crate::interner::{Interner, REQUEST_LOCAL, Symbol};
use crate::open_request::{Body, OpenRequest, Report, Reporter, TagValue};
use std::cmp::Ordering;

/// Access to the strings behind a request's symbols. Symbols are compared by string, because the
/// number of a symbol depends on the order of arrival.
#[derive(Clone, Copy)]
pub(crate) struct Resolver<'p> {
    pub(crate) request: &'p OpenRequest,
    pub(crate) interner: &'p Interner,
}

impl<'p> Resolver<'p> {
    pub(crate) fn get(self, symbol: Symbol) -> &'p str {
        self.request.text(self.interner, symbol)
    }

    pub(crate) fn is_same(self, a: Symbol, b: Symbol) -> bool {
        a == b || ((a.0 | b.0) & REQUEST_LOCAL != 0 && self.get(a) == self.get(b))
    }

    fn compare_symbols(self, a: Symbol, b: Symbol) -> Ordering {
        if a == b { Ordering::Equal } else { self.get(a).cmp(self.get(b)) }
    }

    /// Compares two reports by span and time, and then by all other contents except the source, so
    /// that only duplicates are equal.
    pub(crate) fn compare(self, a: &Report, b: &Report) -> Ordering {
        let (reporter_a, reporter_b) = (self.request.reporter_of(a), self.request.reporter_of(b));
        let by_time = reporter_a.span.cmp(&reporter_b.span).then(a.time.cmp(&b.time));
        by_time.then_with(|| self.compare_bodies(&a.body, &b.body)).then_with(|| {
            if a.reporter == b.reporter {
                Ordering::Equal
            } else {
                self.compare_reporters(reporter_a, reporter_b)
            }
        })
    }

    fn compare_bodies(self, a: &Body, b: &Body) -> Ordering {
        let rank = |body: &Body| match body {
            Body::Span { .. } => 0,
            Body::Undated(_) => 1,
            Body::Event(_) => 2,
            Body::Tag(..) => 3,
        };
        match (a, b) {
            (Body::Undated(a), Body::Undated(b)) => a.cmp(b),
            (Body::Event(a), Body::Event(b)) => self.compare_symbols(*a, *b),
            (Body::Tag(key_a, a), Body::Tag(key_b, b)) => {
                self.compare_symbols(*key_a, *key_b).then_with(|| self.compare_values(*a, *b))
            }
            (
                Body::Span {
                    start: start_a,
                    duration: duration_a,
                    target: target_a,
                    kind: kind_a,
                    debug: debug_a,
                },
                Body::Span { start, duration, target, kind, debug },
            ) => (start_a, duration_a, kind_a, debug_a)
                .cmp(&(start, duration, kind, debug))
                .then_with(|| self.compare_symbols(*target_a, *target)),
            _ => rank(a).cmp(&rank(b)),
        }
    }

    fn compare_values(self, a: TagValue, b: TagValue) -> Ordering {
        use TagValue::{Bool, Double, Int, Text};
        let rank = |value| match value {
            Text(_) => 0,
            Int(_) => 1,
            Bool(_) => 2,
            Double(_) => 3,
        };
        match (a, b) {
            (Text(a), Text(b)) => self.compare_symbols(a, b),
            (Int(a), Int(b)) => a.cmp(&b),
            (Bool(a), Bool(b)) => a.cmp(&b),
            (Double(a), Double(b)) => a.total_cmp(&b),
            _ => rank(a).cmp(&rank(b)),
        }
    }

    fn compare_reporters(self, a: &Reporter, b: &Reporter) -> Ordering {
        self.compare_symbols(a.service, b.service)
            .then_with(|| self.compare_symbols(a.name, b.name))
            .then_with(|| (a.parent, a.port, a.high).cmp(&(b.parent, b.port, b.high)))
            .then_with(|| self.compare_symbols(a.ip, b.ip))
    }
}
