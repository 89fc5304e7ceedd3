//! Spans of a request in compact form, for outlines. Start at [`Rows`].

use super::own::OwnValues;
use blkkin_model::{CLOCK_KEY, Kind, SpanRef, ValueRef};
use blkkin_store::fingerprint;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Maximum number of spans that are stored in [`Rows`]; further spans change only the counts and
/// [`Rows::times`].
const ROWS_MAX: usize = 1 << 20;

/// Maximum number of annotations that are stored in [`Rows`]; further annotations are only counted.
const ANNOTATIONS_MAX: usize = 1 << 20;

/// Maximum total size of distinct strings, in bytes; a string that would exceed it is omitted.
const TEXT_BYTES_MAX: usize = 32 << 20;

/// Maximum number of clocks that are stored in [`Rows`], and maximum length of each in bytes: a
/// UUID and a number.
const CLOCKS_MAX: usize = 1 << 16;
const CLOCK_BYTES_MAX: usize = 64;

/// String number that stands for an empty or omitted string.
pub(super) const NO_TEXT: u32 = u32::MAX;

/// Span in compact form. A string number is an index in [`Rows::texts`].
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: u64,
    /// Id of the parent span; 0 for a span without a parent.
    pub(super) parent: u64,
    pub(super) start_ns: Option<u64>,
    pub(super) duration_ns: Option<u64>,
    /// String number of the service; `name` is the string number of the span's name.
    pub(super) service: u32,
    pub(super) name: u32,
    /// Span kind, encoded as in the answer.
    pub(super) kind: u8,
    pub(super) is_error: bool,
    /// True for the callee's side of a call; the caller's span may then have the same id.
    pub(super) is_callee: bool,
}

/// Annotation of a span in compact form, with the index of the span's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnnotationRow {
    pub(super) row: u32,
    pub(super) time_ns: u64,
    pub(super) value: u32,
}

/// Distinct spans of a request in compact form.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    pub(super) annotations: Vec<AnnotationRow>,
    /// Own time, from tags.
    pub(super) own: OwnValues,
    /// Clocks, from tags, each with the index of its row.
    pub(super) clocks: Vec<(u32, Box<str>)>,
    /// Number of distinct spans. Duplicates of spans beyond [`ROWS_MAX`] are not recognized, so
    /// they are counted as well. `annotation_count` is the number of annotations of all counted
    /// spans.
    pub(super) spans: u64,
    pub(super) annotation_count: u64,
    /// Earliest start and latest end of all spans, in nanoseconds since 1970; `None` if no span has
    /// a start. A span without a duration ends at its start.
    pub(super) times: Option<(u64, u64)>,
    pub(super) texts: Vec<Rc<str>>,
    numbers: HashMap<Rc<str>, u32>,
    text_bytes: usize,
    seen: HashSet<u64>,
}

impl Rows {
    /// Adds a span, unless it is a duplicate.
    pub(super) fn add(&mut self, span: &SpanRef<'_>) {
        let has_room = self.rows.len() < ROWS_MAX;
        let print = fingerprint(span);
        if self.seen.contains(&print) {
            return;
        }
        self.spans += 1;
        self.annotation_count += span.annotations.len() as u64;
        if let Some(start) = span.start_ns {
            let end = start.saturating_add(span.duration_ns.unwrap_or(0));
            let (first, last) = self.times.unwrap_or((start, end));
            self.times = Some((first.min(start), last.max(end)));
        }
        let row = self.rows.len() as u32;
        self.own.add(has_room.then_some(row), span.tags);
        if !has_room {
            return;
        }
        self.seen.insert(print);
        let clock = span.tags.iter().find(|tag| tag.key == CLOCK_KEY).map(|tag| tag.value);
        if let Some(ValueRef::Str(clock)) = clock.filter(|_| self.clocks.len() < CLOCKS_MAX)
            && clock.len() <= CLOCK_BYTES_MAX
        {
            self.clocks.push((row, clock.into()));
        }
        for annotation in span.annotations {
            if self.annotations.len() < ANNOTATIONS_MAX {
                let value = self.text(annotation.value);
                self.annotations.push(AnnotationRow { row, time_ns: annotation.time_ns, value });
            }
        }
        let (service, name) = (self.text(span.local.service), self.text(span.name));
        self.rows.push(Row {
            id: span.id.number(),
            parent: span.parent_id.map_or(0, |id| id.number()),
            start_ns: span.start_ns,
            duration_ns: span.duration_ns,
            service,
            name,
            kind: match span.kind {
                Kind::Unspecified | Kind::Internal => 0,
                Kind::Client => 1,
                Kind::Server => 2,
                Kind::Producer => 3,
                Kind::Consumer => 4,
            },
            is_error: span.is_error(),
            is_callee: span.shared || matches!(span.kind, Kind::Server | Kind::Consumer),
        });
    }

    fn text(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return NO_TEXT;
        }
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        if self.text_bytes + text.len() > TEXT_BYTES_MAX {
            return NO_TEXT;
        }
        self.text_bytes += text.len();
        let number = self.texts.len() as u32;
        let text: Rc<str> = text.into();
        self.texts.push(Rc::clone(&text));
        self.numbers.insert(text, number);
        number
    }
}
