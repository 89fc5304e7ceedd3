//! Own time of a span: what the part of its duration was spent on in which no child ran. Start at
//! [`OwnTime`].
//!
//! Each moment of the own time belongs to one kind. If a thread showed the span and did not wait,
//! the moment is [`OwnKind::Running`]; threads whose ids are not known are counted. Otherwise it
//! belongs to the first kind, in the order of [`OwnKind::ALL`], for which a thread waits. A moment
//! without a thread is [`OwnKind::Elsewhere`], or [`OwnKind::Unknown`] if the events cannot tell:
//! no thread's run was reported, or the trace that reports them lost events while the span lasted.

mod bands;
mod limit;
mod matching;
mod tags;

pub use blkkin_model::{BANDS_MAX, OwnKind};
pub(crate) use matching::set_activities;

/// Division of a span's self time into bands, each of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnTime<'a> {
    /// Nanoseconds of each kind, by number of the kind. Their sum is the span's self time.
    sums: [u64; OwnKind::ALL.len()],
    /// Disk requests of the span by device, sorted by name. The requests may be asynchronous, so
    /// their times are not part of the self time.
    pub disks: Vec<DiskTime<'a>>,
    /// Bands in order of time, at most [`BANDS_MAX`]. Further bands are merged into a neighbour, or
    /// left out between two children, the shortest first.
    pub bands: Vec<Band<'a>>,
}

/// Sums over a span's requests to one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTime<'a> {
    /// Name of the device.
    pub device: &'a str,
    /// Number of requests.
    pub requests: u64,
    /// Nanoseconds until the requests were issued to the device.
    pub queued_ns: u64,
    /// Nanoseconds in which the device served the requests.
    pub served_ns: u64,
}

/// Part of a span's own time that was spent on one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band<'a> {
    /// Kind of each moment of the band.
    pub kind: OwnKind,
    /// Nanoseconds from the start of the span to the start of the band.
    pub start_ns: u64,
    /// Nanoseconds.
    pub duration_ns: u64,
    /// Cause of the wait, as far as it is known.
    pub detail: Detail<'a>,
}

/// Detail of a [`Band`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail<'a> {
    /// Nothing is known.
    None,
    /// Name of the disk that was waited for.
    Device(&'a str),
    /// Id of the thread that released the lock.
    Waker(u32),
    /// Name of the system call in which a thread waited.
    Call(&'a str),
}

impl Band<'_> {
    /// Returns the end of the band, in nanoseconds from the start of the span.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// Returns true if two bands are of one kind with one detail, and no time is between them.
    fn is_continued_by(&self, next: &Band<'_>) -> bool {
        (self.end_ns(), self.kind, self.detail) == (next.start_ns, next.kind, next.detail)
    }
}

impl OwnTime<'_> {
    /// Returns the nanoseconds of a kind.
    pub fn sum_ns(&self, kind: OwnKind) -> u64 {
        self.sums[kind as usize]
    }

    /// Returns the kinds with at least a nanosecond, in the order of [`OwnKind::ALL`].
    pub fn sums(&self) -> impl Iterator<Item = (OwnKind, u64)> {
        OwnKind::ALL.into_iter().map(|kind| (kind, self.sum_ns(kind))).filter(|(_, ns)| *ns > 0)
    }

    /// Returns the span's self time in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.sums.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}
