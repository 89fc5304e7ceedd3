//! A request while its events still come: what was said, in few bytes.
//!
//! Who speaks ([`Voice`]: span, parent, name, service, address) is kept once, each thing that is
//! said is a [`Part`]. Texts are words; those for which there is no word are in the request itself.

use crate::said::{Said, What, Whole};
use crate::words::{OWN, Word, Words};
use blkkin_model::{Kind, ValueRef};
use std::collections::{HashMap, HashSet};
use std::mem::size_of;

/// Who says something of which span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Voice {
    pub(crate) span: u64,
    pub(crate) parent: u64,
    /// The upper half of the trace id; 0 if not told.
    pub(crate) high: u64,
    pub(crate) name: Word,
    pub(crate) service: Word,
    pub(crate) ip: Word,
    pub(crate) port: i32,
}

/// Something that was said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) time: u64,
    pub(crate) voice: u32,
    /// The number of the trace that has it.
    pub(crate) source: u32,
    pub(crate) what: Kept,
}

/// What was said.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kept {
    Event(Word),
    Tag(Word, KeptValue),
    Span { start: u64, duration: u64, target: Word, kind: Kind, debug: bool },
    Undated(Kind),
}

impl Kept {
    /// Whether this part describes a whole span. A span has one such part at most.
    pub(crate) fn is_span(&self) -> bool {
        matches!(self, Kept::Span { .. } | Kept::Undated(_))
    }
}

/// The value of a tag.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeptValue {
    Text(Word),
    Int(i64),
    Bool(bool),
    Double(f64),
}

/// What was said of a request so far.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// The lower half of the trace id.
    pub(crate) low: u64,
    /// Upper halves that were told by themselves.
    pub(crate) wide: Vec<u64>,
    pub(crate) voices: Vec<Voice>,
    pub(crate) parts: Vec<Part>,
    /// Of voices, once there are many.
    numbers: HashMap<Voice, u32>,
    texts: String,
    /// Where in `texts` each text ends.
    ends: Vec<u32>,
    /// Events that found no room.
    pub(crate) left_out: u64,
    /// Whether it has been given out before.
    pub(crate) is_late: bool,
    /// When something came last, by the clock of whoever adds.
    pub(crate) heard: i64,
    /// Position in the order of idle requests: `heard`, or the time when the wait was last extended.
    pub(crate) touched: i64,
    /// Neighbours in the order of that.
    pub(crate) older: u32,
    pub(crate) newer: u32,
}

/// As many voices are looked through one by one.
const FEW_VOICES: usize = 12;
/// More than that many upper halves of one lower half are not told apart.
const WIDE_MAX: usize = 8;
/// What it takes to keep a request of which nothing is known, with its places in tables.
const SIZE: usize = size_of::<Pending>() + 64;
/// An entry of a hash table, with what is free of it.
const NUMBER_SIZE: usize = 2 * (size_of::<(Voice, u32)>() + 1);

impl Pending {
    /// Bytes that it takes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        SIZE + self.voices.capacity() * size_of::<Voice>()
            + self.parts.capacity() * size_of::<Part>()
            + self.numbers.len() * NUMBER_SIZE
            + self.texts.capacity()
            + self.ends.capacity() * 4
    }

    /// True if a span has been mentioned, by an event of its own or as a parent, and its end has not come.
    pub(crate) fn has_unended(&self) -> bool {
        let ended = self.parts.iter().filter(|part| part.what.is_span());
        let ended: HashSet<u64> = ended.map(|part| self.voices[part.voice as usize].span).collect();
        let mut known = self.voices.iter().flat_map(|voice| [voice.span, voice.parent]);
        known.any(|span| span != 0 && !ended.contains(&span))
    }

    /// Forgets everything but, if it is little, the memory.
    pub(crate) fn clear(&mut self) {
        const KEPT_MAX: usize = 8 << 10;
        if self.bytes() > KEPT_MAX {
            *self = Pending::default();
            return;
        }
        self.wide.clear();
        self.voices.clear();
        self.parts.clear();
        self.numbers.clear();
        self.texts.clear();
        self.ends.clear();
        (self.left_out, self.is_late) = (0, false);
    }

    /// Keeps the upper half of the trace id.
    pub(crate) fn add_wide(&mut self, high: u64) {
        if high != 0 && !self.wide.contains(&high) && self.wide.len() < WIDE_MAX {
            self.wide.push(high);
        }
    }

    /// Keeps what was said, unless that takes more than so many voices.
    #[inline]
    pub(crate) fn add(&mut self, said: &Said<'_>, words: &mut Words, voices_max: usize) -> bool {
        let voice = Voice {
            span: said.span_id,
            parent: said.parent_id,
            high: said.trace_id_high,
            name: self.word(words, said.name),
            service: self.word(words, said.service),
            ip: self.word(words, said.ip),
            port: said.port,
        };
        let Some(voice) = self.voice(voice, voices_max) else { return false };
        let (time, source) = (said.time_ns, said.source);
        let what = match said.what {
            What::Event(text) => Kept::Event(self.word(words, text)),
            What::KeyValue(key, value) => Kept::Tag(self.word(words, key), self.value(value)),
            What::Span(Whole { start_ns, duration_ns, kind, debug, target, fields }) => {
                for (key, value) in fields {
                    let what = Kept::Tag(self.word(words, key), self.value(*value));
                    self.parts.push(Part { time, voice, source, what });
                }
                let target = self.word(words, target);
                Kept::Span { start: start_ns, duration: duration_ns, target, kind, debug }
            }
            What::Undated(kind) => Kept::Undated(kind),
            What::WideTraceId => return true,
        };
        self.parts.push(Part { time, voice, source, what });
        true
    }

    #[inline]
    fn voice(&mut self, voice: Voice, voices_max: usize) -> Option<u32> {
        let number = self.voices.len() as u32;
        if self.voices.len() <= FEW_VOICES {
            if let Some(known) = self.voices.iter().rposition(|known| *known == voice) {
                return Some(known as u32);
            }
        } else {
            if self.voices.last() == Some(&voice) {
                return Some(number - 1);
            }
            if self.numbers.is_empty() {
                self.numbers.extend(self.voices.iter().zip(0..).map(|(voice, at)| (*voice, at)));
            }
            if let Some(known) = self.numbers.get(&voice) {
                return Some(*known);
            }
        }
        if self.voices.len() >= voices_max {
            return None;
        }
        self.voices.push(voice);
        if self.voices.len() > FEW_VOICES + 1 {
            self.numbers.insert(voice, number);
        }
        Some(number)
    }

    #[inline]
    fn word(&mut self, words: &mut Words, text: &str) -> Word {
        words.find(text).unwrap_or_else(|| self.own(text))
    }

    fn own(&mut self, text: &str) -> Word {
        let word = Word(OWN | self.ends.len() as u32);
        self.texts.push_str(text);
        // What does not fit into 32 bits is more than any request may take.
        self.ends.push(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        word
    }

    fn value(&mut self, value: ValueRef<'_>) -> KeptValue {
        match value {
            // Values rarely come again.
            ValueRef::Str("") => KeptValue::Text(Word::NONE),
            ValueRef::Str(text) => KeptValue::Text(self.own(text)),
            ValueRef::Int(number) => KeptValue::Int(number),
            ValueRef::Bool(flag) => KeptValue::Bool(flag),
            ValueRef::Double(number) => KeptValue::Double(number),
            ValueRef::Bytes(bytes) => KeptValue::Text(self.own(&String::from_utf8_lossy(bytes))),
        }
    }

    pub(crate) fn text<'p>(&'p self, words: &'p Words, word: Word) -> &'p str {
        let Word(number) = word;
        if number & OWN == 0 {
            return words.text(word);
        }
        let number = (number & !OWN) as usize;
        let end = |number: usize| self.ends.get(number).map_or(0, |end| *end as usize);
        let start = number.checked_sub(1).map_or(0, end);
        self.texts.get(start..end(number)).unwrap_or_default()
    }

    pub(crate) fn value_of<'p>(&'p self, words: &'p Words, value: KeptValue) -> ValueRef<'p> {
        match value {
            KeptValue::Text(word) => ValueRef::Str(self.text(words, word)),
            KeptValue::Int(number) => ValueRef::Int(number),
            KeptValue::Bool(flag) => ValueRef::Bool(flag),
            KeptValue::Double(number) => ValueRef::Double(number),
        }
    }

    /// What a part has been said by.
    pub(crate) fn voice_of(&self, part: &Part) -> &Voice {
        &self.voices[part.voice as usize]
    }
}
