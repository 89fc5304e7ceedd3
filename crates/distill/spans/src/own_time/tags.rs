//! Own time as tags, with which it is sent to a server: see [`blkkin_model::own_time`]. `DETAIL` is
//! the device, the thread that released the lock, or the system call.

use super::{Detail, OwnTime};
use crate::request::Step;
use blkkin_model::{
    BANDS_KEY, DISK_TIME_PREFIX, OWN_TIME_PREFIX, Origin, SpanRef, TagRef, ValueRef,
};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

impl Step<'_> {
    /// Calls `take` with the span as it is sent: with the tags of its own time, if that is known.
    /// They replace tags with the same keys.
    pub fn with_own_tags<R>(&self, take: impl FnOnce(&SpanRef<'_>) -> R) -> R {
        let Some(own) = &self.own else { return take(&self.span) };
        let (numbers, bands) = own.tag_values();
        let numbers = numbers.iter().map(|(key, value)| (&**key, ValueRef::Int(*value)));
        let values = numbers.chain([(BANDS_KEY, ValueRef::Str(&bands))]);
        let mut tags: Vec<TagRef<'_>> =
            values.map(|(key, value)| TagRef { key, value, origin: Origin::Span }).collect();
        let computed = tags.len();
        for tag in self.span.tags {
            if tags[..computed].iter().all(|own| own.key != tag.key) {
                tags.push(*tag);
            }
        }
        tags.sort_by(|a, b| (a.key, a.origin).cmp(&(b.key, b.origin)));
        take(&SpanRef { tags: &tags, ..self.span })
    }
}

/// Maximum number of devices in the tags of a span, those with the most time first. Servers limit
/// the number of tags.
const DISKS_MAX: usize = 100;

impl OwnTime<'_> {
    /// Returns keys and values of the tags with numbers, and the text of the bands.
    fn tag_values(&self) -> (BTreeMap<String, i64>, String) {
        let mut numbers = BTreeMap::new();
        let mut add = |key: String, ns: u64| {
            if ns > 0 {
                let sum = numbers.entry(key).or_insert(0i64);
                *sum = sum.saturating_add_unsigned(ns);
            }
        };
        for (kind, ns) in self.sums() {
            add(format!("{OWN_TIME_PREFIX}{}", kind.name()), ns);
        }
        let mut disks: Vec<_> = self.disks.iter().collect();
        disks.sort_by_key(|disk| Reverse(disk.queued_ns.saturating_add(disk.served_ns)));
        for disk in disks.into_iter().take(DISKS_MAX) {
            let device = word(disk.device);
            add(format!("{DISK_TIME_PREFIX}{device}.queued"), disk.queued_ns);
            add(format!("{DISK_TIME_PREFIX}{device}.served"), disk.served_ns);
        }
        let mut bands = String::new();
        for band in &self.bands {
            let separator = if bands.is_empty() { "" } else { ";" };
            let (kind, start, duration) = (band.kind.name(), band.start_ns, band.duration_ns);
            // Writing to a string cannot fail.
            let _ = write!(bands, "{separator}{kind} {start} {duration}");
            let _ = match band.detail {
                Detail::None => Ok(()),
                Detail::Waker(thread) => write!(bands, " {thread}"),
                Detail::Device(name) | Detail::Call(name) => write!(bands, " {}", word(name)),
            };
        }
        (numbers, bands)
    }
}

/// Replaces the characters of a name that would end it in the text of the bands.
fn word(name: &str) -> Cow<'_, str> {
    let is_end = |char: char| char == ';' || char.is_whitespace() || char.is_control();
    if name.contains(is_end) { name.replace(is_end, "_").into() } else { name.into() }
}
