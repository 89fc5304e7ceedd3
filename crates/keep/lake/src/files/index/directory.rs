//! What is known of a file in memory. Start at [`Directory`].

use super::NO_DURATION;
use crate::files::ascending::Shape;
use crate::files::packed::width_of;
use serde::{Deserialize, Serialize};

/// What is known of a file in memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Directory {
    /// Rows of the file.
    pub(crate) rows: u32,
    /// Requests.
    pub(crate) requests: u32,
    /// Requests that have a time, and so an ordinal.
    pub(crate) timed: u32,
    /// When the first request began.
    pub(crate) min_start_ns: u64,
    /// When the last one began.
    pub(crate) max_start_ns: u64,
    /// When requests began, since the first one.
    pub(crate) starts: Shape,
    /// What rows and numbers of spans take.
    pub(crate) widths: Widths,
    /// What the filter of the lower halves of ids takes.
    pub(crate) bloom_bytes: u64,
    /// What calls take.
    pub(crate) links_bytes: u64,
    /// The first and the last minute that calls are of.
    pub(crate) link_minutes: Option<(u64, u64)>,
    /// Services and names.
    pub(crate) texts: Vec<String>,
    /// In the order of their entries.
    pub(crate) groups: Vec<Group>,
    /// The groups of spans of these requests that are in other files, whose entries are behind those of the others.
    pub(crate) elsewhere: Vec<Group>,
    /// The lower halves of the ids of those requests, in order.
    pub(crate) lows_elsewhere: Vec<u64>,
    /// Whether that is all that files of before have of requests in this one.
    pub(crate) is_whole: bool,
    /// Tags, in order of key.
    pub(crate) keys: Vec<KeyValues>,
}

/// Bits of packed numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Widths {
    pub(crate) rows: u32,
    pub(crate) spans: u32,
}

/// Spans that have these three in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// Index into the texts.
    pub(crate) service: u32,
    /// Index into the texts.
    pub(crate) name: u32,
    /// Index into the texts.
    pub(crate) remote: u32,
    /// All of them.
    pub(crate) spans: u32,
    /// Of requests that have a time.
    pub(crate) entries: Shape,
    /// Those that failed, among the entries.
    pub(crate) errors: u32,
    /// How many entries took how long, by code and in its order.
    #[serde(with = "counts")]
    pub(crate) durations: Vec<(u16, u32)>,
    /// How many of them failed.
    #[serde(with = "counts")]
    pub(crate) failed: Vec<(u16, u32)>,
    /// Some spans, to look at.
    pub(crate) samples: Vec<Sample>,
}

/// A span, to be looked at without reading it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) trace_high: u64,
    pub(crate) trace_low: u64,
    pub(crate) id: u64,
    pub(crate) duration_ns: u64,
    pub(crate) ordinal: u32,
    pub(crate) is_error: bool,
}

/// Calls in a minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkCount {
    /// Minutes since 1970.
    pub(crate) minute: u64,
    pub(crate) parent: String,
    pub(crate) child: String,
    /// Negative where what was counted for another file turned out to be otherwise.
    pub(crate) calls: i64,
    pub(crate) errors: i64,
    /// By code and in its order.
    pub(crate) durations: Vec<(u16, i64)>,
}

/// There is no minute behind it in the time that starts have.
pub(crate) const LAST_MINUTE: u64 = u64::MAX / 60_000_000_000;

/// No file has so many calls; and those of all files together are far from where numbers end.
const CALLS_MAX: u64 = 1 << 48;

impl LinkCount {
    /// Whether a file may have it.
    pub(crate) fn is_possible(&self) -> bool {
        let numbers = self.durations.iter().map(|&(_, times)| times);
        self.minute <= LAST_MINUTE
            && numbers.chain([self.calls, self.errors]).all(|it| it.unsigned_abs() <= CALLS_MAX)
    }
}

/// The tags with a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeyValues {
    pub(crate) key: String,
    pub(crate) spans: u64,
    /// All of their texts, in order; empty if there are too many.
    pub(crate) values: Vec<String>,
}

impl Group {
    /// Bits of a symbol: those that did not fail come first, and of each kind last those without a duration.
    pub(crate) fn symbol_width(&self) -> u32 {
        width_of((self.durations.len() + self.failed.len() + 1) as u64)
    }

    /// Stands for a duration of the group, or for none, and for whether the span failed.
    pub(crate) fn symbol(&self, code: u16, is_error: bool) -> u64 {
        let (counts, first) = match is_error {
            true => (&self.failed, self.durations.len() + 1),
            false => (&self.durations, 0),
        };
        let place = counts.binary_search_by_key(&code, |(code, _)| *code);
        (first + place.unwrap_or(counts.len())) as u64
    }

    /// What symbols stand for, in order.
    pub(crate) fn symbols(&self) -> Vec<(u16, bool)> {
        let of = |counts: &[(u16, u32)], is_error| -> Vec<(u16, bool)> {
            let codes = counts.iter().map(|(code, _)| (*code).min(NO_DURATION));
            codes.chain([NO_DURATION]).map(|code| (code, is_error)).collect()
        };
        [of(&self.durations, false), of(&self.failed, true)].concat()
    }
}

/// Counts by code, of which each code is written as the difference to the one before: mostly a byte.
mod counts {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        counts: &[(u16, u32)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let mut before = 0;
        to.collect_seq(counts.iter().map(|&(code, count)| {
            let difference = code.wrapping_sub(before);
            before = code;
            (difference, count)
        }))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(
        from: D,
    ) -> Result<Vec<(u16, u32)>, D::Error> {
        let mut counts = Vec::<(u16, u32)>::deserialize(from)?;
        let mut before = 0_u16;
        for (code, _) in &mut counts {
            *code = code.wrapping_add(before);
            before = *code;
        }
        Ok(counts)
    }
}

impl Directory {
    pub(crate) fn text(&self, index: u32) -> Option<&str> {
        self.texts.get(index as usize).map(String::as_str)
    }

    /// The groups of the file's spans, and then those of spans that are elsewhere.
    pub(crate) fn all_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().chain(&self.elsewhere)
    }

    /// One of them all.
    pub(crate) fn group(&self, place: usize) -> Option<&Group> {
        let elsewhere = || self.elsewhere.get(place - self.groups.len());
        self.groups.get(place).or_else(elsewhere)
    }

    /// What it takes in memory, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let texts = |texts: &[String]| texts.iter().map(|text| text.len() + 24).sum::<usize>();
        let groups = self.all_groups().map(|group| {
            let counts = group.durations.len() + group.failed.len();
            size_of::<Group>() + 8 * counts + size_of_val(&*group.samples)
        });
        let keys = self.keys.iter().map(|key| 56 + key.key.len() + texts(&key.values));
        let lows = 8 * self.lows_elsewhere.len();
        texts(&self.texts) + groups.sum::<usize>() + keys.sum::<usize>() + lows
    }
}
