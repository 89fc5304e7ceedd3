//! [`Builder`]: builds the index of a span file from its rows.

use super::directory::{Directory, Group, KeyValues, LinkCount, Sample, Widths};
use super::{ANY_TEXT, CODE_BITS, HEADER_BYTES, MAGIC, NO_DURATION};
use crate::files::ascending;
use crate::files::bloom;
use crate::files::packed::{pack, width_of};
use blkkin_store::Durations;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Maximum number of groups by service, name and remote service. Beyond it, spans are grouped by
/// service alone, in at most as many further groups, and all remaining spans are in one group. The
/// limits keep the number of groups small if names never recur.
const GROUPS_MAX: usize = 16 << 10;

/// Maximum number of sample spans in each bucket of a group. A bucket has the spans whose durations
/// have the same binary logarithm. Failed spans have separate buckets.
const SAMPLES_MAX: usize = 2;

/// Fields of a span's row that the index needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) trace_low: u64,
    pub(crate) trace_high: u64,
    pub(crate) id: u64,
    pub(crate) start_ns: Option<u64>,
    pub(crate) duration_ns: Option<u64>,
    pub(crate) is_root: bool,
    pub(crate) is_error: bool,
    pub(crate) service: &'a str,
    pub(crate) name: &'a str,
    pub(crate) remote: &'a str,
}

/// Builder of the index of one span file.
pub(crate) struct Builder {
    rows: Vec<RowEntry>,
    requests: Vec<Request>,
    texts: HashMap<Box<str>, u32, RandomState>,
    groups: HashMap<GroupKey, u32, RandomState>,
    /// Sample spans of each group, by the number of the group.
    samples: Vec<Samples>,
    /// Spans of this file's requests that are in earlier files.
    elsewhere: Vec<ElsewhereSpan>,
    elsewhere_groups: HashMap<GroupKey, u32, RandomState>,
    /// Set while `elsewhere` is complete: it then has each span in earlier files that belongs to a
    /// request of this file.
    pub(crate) is_whole: bool,
    /// Lower and upper half of the last row's trace id.
    last_id: Option<(u64, u64)>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder {
            rows: Vec::new(),
            requests: Vec::new(),
            texts: HashMap::default(),
            groups: HashMap::default(),
            samples: Vec::new(),
            elsewhere: Vec::new(),
            elsewhere_groups: HashMap::default(),
            is_whole: true,
            last_id: None,
        }
    }
}

type GroupKey = [u32; 3];

/// Width in bits of a duration code and the error flag together. An entry stores both in its lower
/// bits, and the ordinal in the bits above.
const FLAG_BITS: u32 = CODE_BITS + 1;

#[derive(Clone, Copy)]
struct RowEntry {
    group: u32,
    /// Duration code in the lower bits, and the error flag in the bit above.
    flags: u16,
}

/// Span in an earlier file, with the position of its request in this file.
struct ElsewhereSpan {
    place: u32,
    row: RowEntry,
}

/// Sample spans of a group. Their `ordinal` fields contain the positions of requests in the file
/// until `finish` replaces them by ordinals.
#[derive(Clone, Default)]
struct Samples {
    samples: Vec<Sample>,
    /// Bitmaps of the buckets that have enough samples: the first for spans without an error, the
    /// second for failed spans. Bit n stands for durations with the binary logarithm n.
    enough: [u64; 2],
}

impl Samples {
    fn add(&mut self, row: &Row<'_>, duration_ns: u64, place: u32) {
        let bit = 1 << duration_ns.checked_ilog2().unwrap_or(0);
        let enough = &mut self.enough[usize::from(row.is_error)];
        if *enough & bit != 0 {
            return;
        }
        self.samples.push(Sample {
            trace_high: row.trace_high,
            trace_low: row.trace_low,
            id: row.id,
            duration_ns,
            ordinal: place,
            is_error: row.is_error,
        });
        let is_alike = |sample: &&Sample| {
            sample.is_error == row.is_error
                && 1 << sample.duration_ns.checked_ilog2().unwrap_or(0) == bit
        };
        if self.samples.iter().filter(is_alike).count() >= SAMPLES_MAX {
            *enough |= bit;
        }
    }
}

#[derive(Clone, Copy)]
struct Request {
    low: u64,
    high: u64,
    first_row: u32,
    /// Earliest start of the spans without a parent.
    root_ns: Option<u64>,
    first_ns: Option<u64>,
    end_ns: u64,
}

impl Request {
    fn add(&mut self, row: &Row<'_>) {
        let Some(start) = row.start_ns else { return };
        let earlier = |known: Option<u64>| Some(known.map_or(start, |known| known.min(start)));
        self.first_ns = earlier(self.first_ns);
        if row.is_root {
            self.root_ns = earlier(self.root_ns);
        }
        self.end_ns = self.end_ns.max(start.saturating_add(row.duration_ns.unwrap_or_default()));
    }

    /// Returns the start of the request: the earliest start of its root spans, or of all spans if
    /// no root span has a start; `None` if no span has a start.
    fn start_ns(&self) -> Option<u64> {
        self.root_ns.or(self.first_ns)
    }

    /// Returns the code of the time from the earliest start to the latest end of the request's
    /// spans; [`NO_DURATION`] if no span has a start.
    fn duration_code(&self) -> u16 {
        let length = self.first_ns.map(|first| self.end_ns.saturating_sub(first));
        length.map_or(NO_DURATION, Durations::code)
    }
}

impl Builder {
    /// Adds the next row of the file. Rows must be in order of the lower half of the trace id, then
    /// of the upper half.
    pub(crate) fn push(&mut self, row: &Row<'_>) {
        let id = (row.trace_low, row.trace_high);
        if self.last_id != Some(id) {
            self.last_id = Some(id);
            self.requests.push(Request {
                low: row.trace_low,
                high: row.trace_high,
                first_row: self.rows.len() as u32,
                root_ns: None,
                first_ns: None,
                end_ns: 0,
            });
        }
        self.requests.last_mut().expect("one was pushed").add(row);
        let group = self.group(row);
        if let Some(duration_ns) = row.duration_ns {
            let place = self.requests.len() as u32 - 1;
            self.samples[group as usize].add(row, duration_ns, place);
        }
        self.rows.push(RowEntry::of(row, group));
    }

    /// Adds a span of an earlier file. The span is ignored if its request is not in this file.
    pub(crate) fn push_elsewhere(&mut self, row: &Row<'_>) {
        let id = (row.trace_low, row.trace_high);
        let place = self.requests.binary_search_by_key(&id, |of| (of.low, of.high));
        let Ok(place) = place else { return };
        self.requests[place].add(row);
        let key = self.group_key(row, self.elsewhere_groups.len());
        let next = self.elsewhere_groups.len() as u32;
        let group = *self.elsewhere_groups.entry(key).or_insert(next);
        self.elsewhere.push(ElsewhereSpan { place: place as u32, row: RowEntry::of(row, group) });
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    fn group(&mut self, row: &Row<'_>) -> u32 {
        let key = self.group_key(row, self.groups.len());
        let next = self.groups.len() as u32;
        let group = *self.groups.entry(key).or_insert(next);
        self.samples.resize_with(self.groups.len(), Samples::default);
        group
    }

    fn group_key(&mut self, row: &Row<'_>, count: usize) -> GroupKey {
        let service = if count < 2 * GROUPS_MAX { self.text(row.service) } else { ANY_TEXT };
        let is_named = count < GROUPS_MAX;
        let name = if is_named { self.text(row.name) } else { ANY_TEXT };
        let remote = if is_named { self.text(row.remote) } else { ANY_TEXT };
        [service, name, remote]
    }

    fn text(&mut self, text: &str) -> u32 {
        if let Some(&index) = self.texts.get(text) {
            return index;
        }
        let next = self.texts.len() as u32;
        self.texts.insert(text.into(), next);
        next
    }

    /// Finishes the index. Returns the directory and the bytes of the whole index.
    pub(crate) fn finish(
        mut self,
        links: &[LinkCount],
        keys: Vec<KeyValues>,
    ) -> Result<(Directory, Vec<u8>), postcard::Error> {
        let mut by_time: Vec<u32> = (0..self.requests.len() as u32)
            .filter(|&place| self.requests[place as usize].start_ns().is_some())
            .collect();
        let start = |place: u32| self.requests[place as usize].start_ns().unwrap_or_default();
        by_time.sort_by_key(|&place| start(place));
        let ends = by_time.first().zip(by_time.last());
        let (min_start_ns, max_start_ns) =
            ends.map_or((0, 0), |(&first, &last)| (start(first), start(last)));
        let rows_of = |place: u32| {
            let first = self.requests[place as usize].first_row;
            let next = self.requests.get(place as usize + 1);
            first..next.map_or(self.rows.len() as u32, |next| next.first_row)
        };
        let spans_max = by_time.iter().map(|&place| rows_of(place).len()).max().unwrap_or(0);
        let widths =
            Widths { rows: width_of(self.rows.len() as u64), spans: width_of(spans_max as u64) };
        let mut body = Vec::with_capacity(self.rows.len() * 5);
        let timed = || by_time.iter().copied();
        let since: Vec<(u64, u64)> =
            timed().map(|place| (start(place) - min_start_ns, 0)).collect();
        let starts = ascending::write(&since, 0, &mut body);
        pack(timed().map(|place| u64::from(rows_of(place).start)), widths.rows, &mut body);
        pack(timed().map(|place| rows_of(place).len() as u64), widths.spans, &mut body);
        let codes = timed().map(|place| self.requests[place as usize].duration_code().into());
        pack(codes, CODE_BITS, &mut body);

        let mut ordinals = vec![None; self.requests.len()];
        for (&place, ordinal) in by_time.iter().zip(0..) {
            ordinals[place as usize] = Some(ordinal);
        }
        let mut groups = empty_groups(&self.groups);
        self.rows.iter().for_each(|row| groups[row.group as usize].spans += 1);
        for (group, samples) in groups.iter_mut().zip(std::mem::take(&mut self.samples)) {
            group.samples = samples.samples;
            group.samples.retain_mut(|sample| {
                let ordinal = ordinals[sample.ordinal as usize];
                sample.ordinal = ordinal.unwrap_or_default();
                ordinal.is_some()
            });
        }
        let mut entries: Vec<Vec<u64>> = vec![Vec::new(); groups.len()];
        for (ordinal, place) in timed().enumerate() {
            for row in rows_of(place) {
                let row = self.rows[row as usize];
                let entry = (ordinal as u64) << FLAG_BITS | u64::from(row.flags);
                entries[row.group as usize].push(entry);
            }
        }
        let mut elsewhere = empty_groups(&self.elsewhere_groups);
        let mut entries_elsewhere: Vec<Vec<u64>> = vec![Vec::new(); elsewhere.len()];
        for ElsewhereSpan { place, row } in &self.elsewhere {
            if let Some(ordinal) = ordinals[*place as usize] {
                let entry = u64::from(ordinal) << FLAG_BITS | u64::from(row.flags);
                entries_elsewhere[row.group as usize].push(entry);
            }
        }
        entries_elsewhere.iter_mut().for_each(|entries| entries.sort_unstable());
        entries.append(&mut entries_elsewhere);
        for (group, entries) in groups.iter_mut().chain(&mut elsewhere).zip(entries) {
            count(group, &entries);
            let symbol =
                |entry: u64| group.symbol(entry as u16 & NO_DURATION, entry >> CODE_BITS & 1 != 0);
            let entries: Vec<(u64, u64)> =
                entries.iter().map(|&entry| (entry >> FLAG_BITS, symbol(entry))).collect();
            group.entries = ascending::write(&entries, group.symbol_width(), &mut body);
        }
        let lows = self.elsewhere.iter().map(|it| self.requests[it.place as usize].low);
        let mut lows_elsewhere: Vec<u64> = lows.collect();
        lows_elsewhere.sort_unstable();
        lows_elsewhere.dedup();

        let body_links = postcard::to_allocvec(links)?;
        let lows: Vec<u64> = self.requests.iter().map(|request| request.low).collect();
        let bloom = bloom::make(&lows);
        body.extend_from_slice(&bloom);
        body.extend_from_slice(&body_links);
        let mut texts = vec![String::new(); self.texts.len()];
        for (text, index) in self.texts {
            texts[index as usize] = text.into();
        }
        let directory = Directory {
            rows: self.rows.len() as u32,
            requests: lows.len() as u32,
            timed: by_time.len() as u32,
            min_start_ns,
            max_start_ns,
            starts,
            widths,
            bloom_bytes: bloom.len() as u64,
            links_bytes: body_links.len() as u64,
            link_minutes: links.first().zip(links.last()).map(|(a, b)| (a.minute, b.minute)),
            texts,
            groups,
            elsewhere,
            lows_elsewhere,
            is_whole: self.is_whole,
            keys,
        };
        let bytes = assemble(&directory, &body)?;
        Ok((directory, bytes))
    }
}

impl RowEntry {
    fn of(row: &Row<'_>, group: u32) -> RowEntry {
        let code = row.duration_ns.map_or(NO_DURATION, Durations::code);
        RowEntry { group, flags: code | u16::from(row.is_error) << CODE_BITS }
    }
}

fn empty_groups(keys: &HashMap<GroupKey, u32, RandomState>) -> Vec<Group> {
    let mut groups = vec![Group::default(); keys.len()];
    for (&[service, name, remote], &index) in keys {
        groups[index as usize] = Group { service, name, remote, ..Group::default() };
    }
    groups
}

fn count(group: &mut Group, entries: &[u64]) {
    let has_failed = |entry: &&u64| **entry >> CODE_BITS & 1 != 0;
    group.durations = counts(entries.iter());
    group.failed = counts(entries.iter().filter(has_failed));
    group.errors = entries.iter().filter(has_failed).count() as u32;
}

/// Counts entries by duration code. Entries without a duration are not counted.
fn counts<'e>(entries: impl Iterator<Item = &'e u64>) -> Vec<(u16, u32)> {
    let mut codes: Vec<u16> = entries.map(|&entry| entry as u16 & NO_DURATION).collect();
    codes.sort_unstable();
    let known = codes.chunk_by(|one, other| one == other).filter(|codes| codes[0] != NO_DURATION);
    known.map(|codes| (codes[0], codes.len() as u32)).collect()
}

fn assemble(directory: &Directory, body: &[u8]) -> Result<Vec<u8>, postcard::Error> {
    let directory = postcard::to_allocvec(directory)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + directory.len() + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&(directory.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&directory).to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
    bytes.extend_from_slice(&directory);
    bytes.extend_from_slice(body);
    Ok(bytes)
}
