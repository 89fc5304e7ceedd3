//! [`Directory`]: the part of an index that stays in memory while the file is in use.

use super::NO_DURATION;
use crate::files::ascending::ListShape;
use crate::files::packed::width_of;
use serde::{Deserialize, Serialize};

/// Directory of an index: sizes and parameters of its sections, and the groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Directory {
    /// Number of rows of the file.
    pub(crate) rows: u32,
    /// Number of requests in the file.
    pub(crate) requests: u32,
    /// Number of requests with a start time, and thus an ordinal.
    pub(crate) timed: u32,
    /// Earliest start of a request, in nanoseconds since 1970; 0 if no request has a start.
    pub(crate) min_start_ns: u64,
    /// Latest start of a request, in nanoseconds since 1970; 0 if no request has a start.
    pub(crate) max_start_ns: u64,
    /// Parameters of the list of request starts, which are relative to `min_start_ns`.
    pub(crate) starts: ListShape,
    /// Widths of the packed lists of first rows and of span counts.
    pub(crate) widths: Widths,
    /// Size of the Bloom filter in bytes.
    pub(crate) bloom_bytes: u64,
    /// Size of the encoded calls in bytes.
    pub(crate) links_bytes: u64,
    /// First and last minute with calls, counted since 1970; `None` if the file has no calls.
    pub(crate) link_minutes: Option<(u64, u64)>,
    /// Names of services, spans and remote services.
    pub(crate) texts: Vec<String>,
    /// Groups of the file's spans, in the order of their entries in the body.
    pub(crate) groups: Vec<Group>,
    /// Groups of the spans in earlier files. These spans belong to requests of this file. The
    /// entries of these groups follow the entries of `groups`.
    pub(crate) elsewhere: Vec<Group>,
    /// Lower halves of the trace ids of requests with spans in earlier files, ascending.
    pub(crate) lows_elsewhere: Vec<u64>,
    /// Set if `elsewhere` is complete: it covers all spans of this file's requests in earlier
    /// files.
    pub(crate) is_whole: bool,
    /// Tag keys with their values, in order of key.
    pub(crate) keys: Vec<KeyValues>,
}

/// Widths of packed first rows and packed span counts, in bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Widths {
    pub(crate) rows: u32,
    pub(crate) spans: u32,
}

/// Group of spans with the same service, name and remote service. A field that is
/// [`ANY_TEXT`](super::ANY_TEXT) stands for different texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Group {
    /// Service, as an index into [`Directory::texts`].
    pub(crate) service: u32,
    /// Name of the spans, as an index into [`Directory::texts`].
    pub(crate) name: u32,
    /// Remote service, as an index into [`Directory::texts`].
    pub(crate) remote: u32,
    /// Number of the file's spans in the group; 0 for a group of [`Directory::elsewhere`].
    pub(crate) spans: u32,
    /// Parameters of the list of entries. An entry is a span of a request that has a start time.
    pub(crate) entries: ListShape,
    /// Number of entries of failed spans.
    pub(crate) errors: u32,
    /// Number of entries for each duration code, in ascending order of code. Entries without a
    /// duration are not counted, neither here nor in `failed`.
    #[serde(with = "counts")]
    pub(crate) durations: Vec<(u16, u32)>,
    /// Number of entries of failed spans for each duration code, in ascending order of code.
    #[serde(with = "counts")]
    pub(crate) failed: Vec<(u16, u32)>,
    /// Sample spans, shown as examples of durations.
    pub(crate) samples: Vec<Sample>,
}

/// Sample span: ids, duration and error flag of one span, and the ordinal of its request. Queries
/// show the sample without reading the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) trace_high: u64,
    pub(crate) trace_low: u64,
    pub(crate) id: u64,
    pub(crate) duration_ns: u64,
    pub(crate) ordinal: u32,
    pub(crate) is_error: bool,
}

/// Counts of the calls from one service to another in one minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkCount {
    /// Minute in which the requests began, counted since 1970; 0 in a sum over several minutes.
    pub(crate) minute: u64,
    pub(crate) parent: String,
    pub(crate) child: String,
    /// Number of calls. A negative number corrects the count of an earlier file.
    pub(crate) calls: i64,
    pub(crate) errors: i64,
    /// Number of calls for each duration code, in ascending order of code.
    pub(crate) durations: Vec<(u16, i64)>,
}

/// Last minute, counted since 1970, that a 64-bit time in nanoseconds can express.
pub(crate) const LAST_MINUTE: u64 = u64::MAX / 60_000_000_000;

/// Maximum absolute value of each count in a file. The limit keeps sums over files far from
/// overflow.
const CALLS_MAX: u64 = 1 << 48;

impl LinkCount {
    /// Returns whether the minute and the counts are within the limits of a valid file.
    pub(crate) fn is_possible(&self) -> bool {
        let numbers = self.durations.iter().map(|&(_, times)| times);
        self.minute <= LAST_MINUTE
            && numbers.chain([self.calls, self.errors]).all(|it| it.unsigned_abs() <= CALLS_MAX)
    }
}

/// Tag key with its values in a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeyValues {
    pub(crate) key: String,
    pub(crate) spans: u64,
    /// All values of the key as text, in order. Empty if the values are too many, too long, or byte
    /// strings.
    pub(crate) values: Vec<String>,
}

impl Group {
    /// Returns the width of a symbol in bits. Symbols of spans without an error come first, then
    /// symbols of failed spans. Each of the two ranges ends with the symbol for spans without a
    /// duration.
    pub(crate) fn symbol_width(&self) -> u32 {
        width_of((self.durations.len() + self.failed.len() + 1) as u64)
    }

    /// Returns the symbol of a duration code and an error flag.
    pub(crate) fn symbol(&self, code: u16, is_error: bool) -> u64 {
        let (counts, first) = match is_error {
            true => (&self.failed, self.durations.len() + 1),
            false => (&self.durations, 0),
        };
        let place = counts.binary_search_by_key(&code, |(code, _)| *code);
        (first + place.unwrap_or(counts.len())) as u64
    }

    /// Returns the duration code and the error flag of each symbol, in order of symbol.
    pub(crate) fn symbols(&self) -> Vec<(u16, bool)> {
        let of = |counts: &[(u16, u32)], is_error| -> Vec<(u16, bool)> {
            let codes = counts.iter().map(|(code, _)| (*code).min(NO_DURATION));
            codes.chain([NO_DURATION]).map(|code| (code, is_error)).collect()
        };
        [of(&self.durations, false), of(&self.failed, true)].concat()
    }
}

/// Serialization of counts by duration code. Each code is stored as the difference to the previous
/// code, mostly in one byte.
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

    /// Returns the groups of the file's spans, followed by the groups of spans in earlier files.
    pub(crate) fn all_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().chain(&self.elsewhere)
    }

    /// Returns the group at an index of [`Directory::all_groups`]; `None` if the index is too
    /// large.
    pub(crate) fn group(&self, place: usize) -> Option<&Group> {
        let elsewhere = || self.elsewhere.get(place - self.groups.len());
        self.groups.get(place).or_else(elsewhere)
    }

    /// Returns the approximate memory of the directory in bytes.
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
