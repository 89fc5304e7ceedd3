//! What a request's words say, and the one order of its parts, in which they are looked at. It
//! depends on what they say alone.

use crate::pending::{Kept, KeptValue, Part, Pending, Voice};
use crate::words::{OWN, Word, Words};
use std::cmp::Ordering;

/// The texts of a request, to compare them by what they say: their numbers depend on the order in
/// which they came.
#[derive(Clone, Copy)]
pub(crate) struct Texts<'p> {
    pub(crate) pending: &'p Pending,
    pub(crate) words: &'p Words,
}

impl<'p> Texts<'p> {
    pub(crate) fn get(self, word: Word) -> &'p str {
        self.pending.text(self.words, word)
    }

    pub(crate) fn is_same(self, a: Word, b: Word) -> bool {
        a == b || ((a.0 | b.0) & OWN != 0 && self.get(a) == self.get(b))
    }

    fn compare_words(self, a: Word, b: Word) -> Ordering {
        if a == b { Ordering::Equal } else { self.get(a).cmp(self.get(b)) }
    }

    /// By span and time, and then by all else, so that there is only one order.
    pub(crate) fn compare(self, a: &Part, b: &Part) -> Ordering {
        let (voice_a, voice_b) = (self.pending.voice_of(a), self.pending.voice_of(b));
        let by_time = voice_a.span.cmp(&voice_b.span).then(a.time.cmp(&b.time));
        by_time.then_with(|| self.compare_what(&a.what, &b.what)).then_with(|| {
            if a.voice == b.voice { Ordering::Equal } else { self.compare_voices(voice_a, voice_b) }
        })
    }

    fn compare_what(self, a: &Kept, b: &Kept) -> Ordering {
        let rank = |what: &Kept| match what {
            Kept::Span { .. } => 0,
            Kept::Undated(_) => 1,
            Kept::Event(_) => 2,
            Kept::Tag(..) => 3,
        };
        match (a, b) {
            (Kept::Undated(a), Kept::Undated(b)) => a.cmp(b),
            (Kept::Event(a), Kept::Event(b)) => self.compare_words(*a, *b),
            (Kept::Tag(key_a, a), Kept::Tag(key_b, b)) => {
                self.compare_words(*key_a, *key_b).then_with(|| self.compare_values(*a, *b))
            }
            (
                Kept::Span {
                    start: start_a,
                    duration: duration_a,
                    target: target_a,
                    kind: kind_a,
                    debug: debug_a,
                },
                Kept::Span { start, duration, target, kind, debug },
            ) => (start_a, duration_a, kind_a, debug_a)
                .cmp(&(start, duration, kind, debug))
                .then_with(|| self.compare_words(*target_a, *target)),
            _ => rank(a).cmp(&rank(b)),
        }
    }

    fn compare_values(self, a: KeptValue, b: KeptValue) -> Ordering {
        use KeptValue::{Bool, Double, Int, Text};
        let rank = |value| match value {
            Text(_) => 0,
            Int(_) => 1,
            Bool(_) => 2,
            Double(_) => 3,
        };
        match (a, b) {
            (Text(a), Text(b)) => self.compare_words(a, b),
            (Int(a), Int(b)) => a.cmp(&b),
            (Bool(a), Bool(b)) => a.cmp(&b),
            (Double(a), Double(b)) => a.total_cmp(&b),
            _ => rank(a).cmp(&rank(b)),
        }
    }

    fn compare_voices(self, a: &Voice, b: &Voice) -> Ordering {
        self.compare_words(a.service, b.service)
            .then_with(|| self.compare_words(a.name, b.name))
            .then_with(|| (a.parent, a.port, a.high).cmp(&(b.parent, b.port, b.high)))
            .then_with(|| self.compare_words(a.ip, b.ip))
    }
}
