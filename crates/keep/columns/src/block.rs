//! [`Block`]: an append-only batch of spans in columns. Start at [`Block::push`].
//!
//! A row takes 66 bytes, four more for each tag, at most eight more for each numeric tag value, and
//! twelve for each annotation. Once any trace id has a nonzero upper half, the upper half takes
//! eight more bytes in each row. Texts, byte strings, endpoints and tag layouts are stored once per
//! block.

use crate::dictionary::{Blobs, Texts};
use crate::endpoint::{EndpointId, Endpoints, Entry};
use crate::layout::{Layout, LayoutId, Layouts, ValueType};
use crate::schema::{KINDS, STATUSES};
use blkkin_model::{
    AnnotationRef, EndpointRef, Kind, SpanId, SpanRef, SpanSink, Status, TagRef, TraceId, ValueRef,
};
use std::fmt;
use std::ops::{ControlFlow, Range};

/// Number of a span in its block, from 0 in the order in which spans were appended.
pub type Row = u32;

/// Maximum weight of one span in bytes, so that pages of files stay small. The weight is 1 plus the
/// size of the span's texts and byte strings, plus [`ITEM_WEIGHT`] for each tag and annotation.
const WEIGHT_MAX: usize = 8 << 20;

/// Weight of a tag or an annotation in bytes, apart from its texts and byte strings.
const ITEM_WEIGHT: usize = 16;

/// Maximum length of each column of a block, in bytes or values. Offsets into columns have 32 bits.
const COLUMN_SIZE_MAX: usize = 1 << 31;

/// Append-only batch of spans in columns.
pub struct Block {
    texts: Texts,
    endpoints: Endpoints,
    layouts: Layouts,
    trace_low: Vec<u64>,
    /// Upper halves of trace ids. The list is empty until a row has a nonzero upper half.
    trace_high: Vec<u64>,
    id: Vec<u64>,
    /// Span id of the parent; 0 if the span has no parent.
    parent: Vec<u64>,
    start: Vec<u64>,
    duration: Vec<u64>,
    flags: Vec<u16>,
    name: Vec<u32>,
    local: Vec<EndpointId>,
    remote: Vec<EndpointId>,
    layout: Vec<LayoutId>,
    /// End of each row's range in `values`. The range starts where the range of the previous row
    /// ends.
    values_end: Vec<u32>,
    /// Encoded tag values of all rows: the dictionary id of a text or a byte string, 0 or 1 for a
    /// flag, or an index into `numbers`.
    values: Vec<u32>,
    /// Integer and floating-point tag values, stored as their 64 bits.
    numbers: Vec<u64>,
    blobs: Blobs,
    /// End of each row's range in `annotation_time` and `annotation_value`. The range starts where
    /// the range of the previous row ends.
    annotations_end: Vec<u32>,
    annotation_time: Vec<u64>,
    annotation_value: Vec<u32>,
    /// Upper bound of the weight of a single span in the block.
    weight_max: usize,
}

/// Reason why a block refused a span, or the spans of another block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// The block has too little room left. An empty block would accept the span or spans.
    Full,
    /// The span's weight exceeds the limit, so that no block accepts the span.
    TooLarge,
}

/// Reusable buffers for the annotations and tags of a [`SpanRef`].
#[derive(Default)]
pub struct Scratch<'b> {
    annotations: Vec<AnnotationRef<'b>>,
    tags: Vec<TagRef<'b>>,
}

const STATUS_SHIFT: u16 = 3;
const DEBUG: u16 = 1 << 5;
const SHARED: u16 = 1 << 6;
const HAS_START: u16 = 1 << 7;
const HAS_DURATION: u16 = 1 << 8;
const ERROR: u16 = 1 << 9;

impl Default for Block {
    fn default() -> Block {
        Block::new()
    }
}

impl Block {
    /// Creates an empty block.
    pub fn new() -> Block {
        Block {
            texts: Texts::new(),
            endpoints: Endpoints::new(),
            layouts: Layouts::new(),
            trace_low: Vec::new(),
            trace_high: Vec::new(),
            id: Vec::new(),
            parent: Vec::new(),
            start: Vec::new(),
            duration: Vec::new(),
            flags: Vec::new(),
            name: Vec::new(),
            local: Vec::new(),
            remote: Vec::new(),
            layout: Vec::new(),
            values_end: Vec::new(),
            values: Vec::new(),
            numbers: Vec::new(),
            blobs: Blobs::new(),
            annotations_end: Vec::new(),
            annotation_time: Vec::new(),
            annotation_value: Vec::new(),
            weight_max: 0,
        }
    }

    /// Appends a span and returns its row. A refused span leaves the block unchanged.
    pub fn push(&mut self, span: &SpanRef<'_>) -> Result<Row, PushError> {
        let weight = weight(span);
        if weight > WEIGHT_MAX {
            return Err(PushError::TooLarge);
        }
        let fullest = [
            self.texts.bytes(),
            self.values.len(),
            self.blobs.bytes(),
            self.annotation_time.len(),
            self.layouts.shapes(),
            self.trace_low.len(),
        ];
        if fullest.into_iter().any(|used| used + weight > COLUMN_SIZE_MAX) {
            return Err(PushError::Full);
        }
        self.weight_max = self.weight_max.max(weight);
        let row = self.trace_low.len();
        let high = span.trace_id.high();
        if high != 0 || !self.trace_high.is_empty() {
            self.trace_high.resize(row, 0);
            self.trace_high.push(high);
        }
        self.trace_low.push(span.trace_id.low());
        self.id.push(span.id.number());
        self.parent.push(span.parent_id.map_or(0, SpanId::number));
        self.start.push(span.start_ns.unwrap_or(0));
        self.duration.push(span.duration_ns.unwrap_or(0));
        self.flags.push(flags(span));
        let name = self.texts.intern(span.name);
        self.name.push(name);
        self.local.push(self.endpoints.intern(&span.local, &mut self.texts));
        self.remote.push(self.endpoints.intern(&span.remote, &mut self.texts));
        for annotation in span.annotations {
            self.annotation_time.push(annotation.time_ns);
            self.annotation_value.push(self.texts.intern(annotation.value));
        }
        self.annotations_end.push(self.annotation_time.len() as u32);
        let layout = self.layouts.intern(span.tags, name, &mut self.texts);
        self.layout.push(layout);
        self.push_values(layout, span.tags);
        Ok(row as Row)
    }

    fn push_values(&mut self, layout: LayoutId, tags: &[TagRef<'_>]) {
        let last = self.layouts.last(layout);
        for (tag, last) in tags.iter().zip(last) {
            let value = match tag.value {
                ValueRef::Str(text) => {
                    if self.texts.get(*last) != text {
                        *last = self.texts.intern(text);
                    }
                    *last
                }
                ValueRef::Int(number) => push_number(&mut self.numbers, last, number as u64),
                ValueRef::Double(number) => push_number(&mut self.numbers, last, number.to_bits()),
                ValueRef::Bool(flag) => flag.into(),
                ValueRef::Bytes(bytes) => {
                    if self.blobs.get(*last) != bytes {
                        *last = self.blobs.intern(bytes);
                    }
                    *last
                }
            };
            self.values.push(value);
        }
        self.values_end.push(self.values.len() as u32);
    }

    /// Appends all spans of another block, or none if they do not all fit.
    pub fn append(&mut self, other: &Block) -> Result<(), PushError> {
        let sizes = [
            (self.texts.bytes(), other.texts.bytes()),
            (self.values.len(), other.values.len()),
            (self.blobs.bytes(), other.blobs.bytes()),
            (self.annotation_time.len(), other.annotation_time.len()),
            (self.layouts.shapes(), other.layouts.shapes()),
            (self.trace_low.len(), other.trace_low.len()),
        ];
        if sizes.into_iter().any(|(used, more)| used + more > COLUMN_SIZE_MAX) {
            return Err(PushError::Full);
        }
        let texts: Vec<u32> = (0..other.texts.len())
            .map(|id| self.texts.intern(other.texts.get(id as u32)))
            .collect();
        let endpoint = |entry: &Entry| Entry { service: texts[entry.service as usize], ..*entry };
        let endpoints: Vec<EndpointId> = other
            .endpoints
            .entries()
            .iter()
            .map(|entry| self.endpoints.intern_entry(endpoint(entry)))
            .collect();
        let layouts: Vec<LayoutId> = (0..other.layouts.len())
            .map(|id| self.layouts.intern_layout(other.layouts.get(id as u32), &texts, &self.texts))
            .collect();
        let blobs: Vec<u32> = (0..other.blobs.len())
            .map(|id| self.blobs.intern(other.blobs.get(id as u32)))
            .collect();
        self.append_values(other, &texts, &blobs);
        // The writer divides spans into pages by this bound.
        self.weight_max = self.weight_max.max(other.weight_max);
        if !(self.trace_high.is_empty() && other.trace_high.is_empty()) {
            self.trace_high.resize(self.trace_low.len(), 0);
            self.trace_high.extend(&other.trace_high);
            self.trace_high.resize(self.trace_low.len() + other.trace_low.len(), 0);
        }
        self.trace_low.extend(&other.trace_low);
        self.id.extend(&other.id);
        self.parent.extend(&other.parent);
        self.start.extend(&other.start);
        self.duration.extend(&other.duration);
        self.flags.extend(&other.flags);
        self.name.extend(other.name.iter().map(|id| texts[*id as usize]));
        self.local.extend(other.local.iter().map(|id| endpoints[*id as usize]));
        self.remote.extend(other.remote.iter().map(|id| endpoints[*id as usize]));
        self.layout.extend(other.layout.iter().map(|id| layouts[*id as usize]));
        let before = self.annotation_time.len() as u32;
        self.annotations_end.extend(other.annotations_end.iter().map(|end| end + before));
        self.annotation_time.extend(&other.annotation_time);
        let values = other.annotation_value.iter();
        self.annotation_value.extend(values.map(|id| texts[*id as usize]));
        Ok(())
    }

    fn append_values(&mut self, other: &Block, texts: &[u32], blobs: &[u32]) {
        let [before, numbers] = [self.values.len(), self.numbers.len()].map(|len| len as u32);
        let mut at = 0;
        for (layout, end) in other.layout.iter().zip(&other.values_end) {
            let values = &other.values[at as usize..*end as usize];
            let shapes = other.layouts.get(*layout);
            self.values.extend(values.iter().zip(shapes).map(|(value, shape)| match shape.value {
                ValueType::Str => texts[*value as usize],
                ValueType::Int | ValueType::Double => value + numbers,
                ValueType::Bool => *value,
                ValueType::Bytes => blobs[*value as usize],
            }));
            at = *end;
        }
        self.values_end.extend(other.values_end.iter().map(|end| end + before));
        self.numbers.extend(&other.numbers);
    }

    /// Returns the number of spans.
    pub fn len(&self) -> usize {
        self.trace_low.len()
    }

    /// Returns whether the block has no spans.
    pub fn is_empty(&self) -> bool {
        self.trace_low.is_empty()
    }

    /// Returns the approximate memory that the block has allocated, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let of_8 = [
            &self.trace_low,
            &self.trace_high,
            &self.id,
            &self.parent,
            &self.start,
            &self.duration,
            &self.numbers,
            &self.annotation_time,
        ];
        let of_4 = [
            &self.name,
            &self.local,
            &self.remote,
            &self.layout,
            &self.values_end,
            &self.values,
            &self.annotations_end,
            &self.annotation_value,
        ];
        of_8.iter().map(|column| column.capacity() * 8).sum::<usize>()
            + of_4.iter().map(|column| column.capacity() * 4).sum::<usize>()
            + self.flags.capacity() * 2
            + self.blobs.memory()
            + self.texts.memory()
            + self.endpoints.memory()
            + self.layouts.memory()
    }

    /// Removes all spans and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.texts.clear();
        self.endpoints.clear();
        self.layouts.clear();
        for column in [
            &mut self.trace_low,
            &mut self.trace_high,
            &mut self.id,
            &mut self.parent,
            &mut self.start,
            &mut self.duration,
            &mut self.numbers,
            &mut self.annotation_time,
        ] {
            column.clear();
        }
        for column in [
            &mut self.name,
            &mut self.local,
            &mut self.remote,
            &mut self.layout,
            &mut self.values_end,
            &mut self.values,
            &mut self.annotations_end,
            &mut self.annotation_value,
        ] {
            column.clear();
        }
        self.flags.clear();
        self.blobs.clear();
        self.weight_max = 0;
    }

    /// Returns the span of a row, borrowed from the block and from `scratch`.
    pub fn span<'s, 'b: 's>(&'b self, row: Row, scratch: &'s mut Scratch<'b>) -> SpanRef<'s> {
        scratch.annotations.clear();
        scratch.annotations.extend(self.annotations(row));
        scratch.tags.clear();
        scratch.tags.extend(self.tags(row));
        SpanRef {
            annotations: &scratch.annotations,
            tags: &scratch.tags,
            ..self.span_without_lists(row)
        }
    }

    /// Returns the span of a row without its annotations and tags. Many such spans can be borrowed
    /// at once.
    pub fn span_without_lists(&self, row: Row) -> SpanRef<'_> {
        SpanRef {
            parent_id: self.parent_id(row),
            kind: self.kind(row),
            status: self.status(row),
            debug: self.is_debug(row),
            shared: self.is_shared(row),
            name: self.text(self.name_id(row)),
            start_ns: self.start_ns(row),
            duration_ns: self.duration_ns(row),
            local: self.endpoint(self.local_id(row)),
            remote: self.endpoint(self.remote_id(row)),
            ..SpanRef::new(self.trace_id(row), self.id(row))
        }
    }

    /// Returns the trace id of a span, combined from its two halves of 64 bits.
    #[inline]
    pub fn trace_id(&self, row: Row) -> TraceId {
        let number = u128::from(self.trace_high(row)) << 64 | u128::from(self.trace_low(row));
        TraceId::from_number(number).expect("came from one that was not 0")
    }

    /// Returns the lower half of a span's trace id.
    #[inline]
    pub fn trace_low(&self, row: Row) -> u64 {
        self.trace_low[row as usize]
    }

    /// Returns the upper half of a span's trace id.
    #[inline]
    pub fn trace_high(&self, row: Row) -> u64 {
        self.trace_high.get(row as usize).copied().unwrap_or(0)
    }

    /// Returns the lower halves of the trace ids of all rows.
    #[inline]
    pub fn trace_lows(&self) -> &[u64] {
        &self.trace_low
    }

    /// Returns the span id of the span in a row.
    #[inline]
    pub fn id(&self, row: Row) -> SpanId {
        SpanId::from_number(self.id[row as usize]).expect("came from one that was not 0")
    }

    /// Returns the id of a span's parent; `None` if the span has no parent.
    #[inline]
    pub fn parent_id(&self, row: Row) -> Option<SpanId> {
        SpanId::from_number(self.parent[row as usize])
    }

    /// Returns the start time of a span, in nanoseconds since 1970; `None` if it is unknown.
    #[inline]
    pub fn start_ns(&self, row: Row) -> Option<u64> {
        (self.flags[row as usize] & HAS_START != 0).then(|| self.start[row as usize])
    }

    /// Returns the duration of a span in nanoseconds; `None` if it is unknown.
    #[inline]
    pub fn duration_ns(&self, row: Row) -> Option<u64> {
        (self.flags[row as usize] & HAS_DURATION != 0).then(|| self.duration[row as usize])
    }

    /// Returns the role of a span in a call or message.
    #[inline]
    pub fn kind(&self, row: Row) -> Kind {
        KINDS[usize::from(self.flags[row as usize] & 7)]
    }

    /// Returns the status with which a span ended.
    #[inline]
    pub fn status(&self, row: Row) -> Status {
        STATUSES[usize::from(self.flags[row as usize] >> STATUS_SHIFT & 3)]
    }

    /// Returns whether the sender requires that the span is stored regardless of sampling.
    #[inline]
    pub fn is_debug(&self, row: Row) -> bool {
        self.flags[row as usize] & DEBUG != 0
    }

    /// Returns whether the other side of the call assigned the span's id and uses the same id for
    /// its own span.
    #[inline]
    pub fn is_shared(&self, row: Row) -> bool {
        self.flags[row as usize] & SHARED != 0
    }

    /// Returns whether the span failed ([`SpanRef::is_error`]).
    #[inline]
    pub fn is_error(&self, row: Row) -> bool {
        self.flags[row as usize] & ERROR != 0
    }

    /// Returns the text id of a span's name.
    #[inline]
    pub fn name_id(&self, row: Row) -> u32 {
        self.name[row as usize]
    }

    /// Returns the id of a span's local endpoint, the service that recorded the span; 0 if it is
    /// unknown.
    #[inline]
    pub fn local_id(&self, row: Row) -> EndpointId {
        self.local[row as usize]
    }

    /// Returns the id of a span's remote endpoint; 0 if the span has none.
    #[inline]
    pub fn remote_id(&self, row: Row) -> EndpointId {
        self.remote[row as usize]
    }

    /// Returns the text id of the service that recorded a span; 0 if the service is unknown.
    #[inline]
    pub fn service_id(&self, row: Row) -> u32 {
        self.endpoints.entry(self.local_id(row)).service
    }

    /// Returns the text id of a span's remote service; 0 if the service is unknown.
    #[inline]
    pub fn remote_service_id(&self, row: Row) -> u32 {
        self.endpoints.entry(self.remote_id(row)).service
    }

    /// Returns the id of a span's tag layout.
    #[inline]
    pub fn layout_id(&self, row: Row) -> LayoutId {
        self.layout[row as usize]
    }

    /// Returns the tag layout with the given id.
    #[inline]
    pub fn layout(&self, id: LayoutId) -> Layout<'_> {
        self.layouts.get(id)
    }

    /// Returns the number of distinct tag layouts. Layout ids count from 0, and layout 0 is empty.
    pub fn layouts(&self) -> usize {
        self.layouts.len()
    }

    /// Returns the text with text id `id`.
    #[inline]
    pub fn text(&self, id: u32) -> &str {
        self.texts.get(id)
    }

    /// Returns the number of distinct texts. Text ids count from 0, and text 0 is the empty text.
    pub fn texts(&self) -> usize {
        self.texts.len()
    }

    /// Returns the text id of a text; `None` if the block does not contain the text.
    pub fn text_id(&self, text: &str) -> Option<u32> {
        self.texts.find(text)
    }

    /// Returns the endpoint with the given id.
    #[inline]
    pub fn endpoint(&self, id: EndpointId) -> EndpointRef<'_> {
        self.endpoints.get(id, &self.texts)
    }

    /// Returns the number of distinct endpoints. Endpoint ids count from 0, and endpoint 0 has no
    /// information.
    pub fn endpoints(&self) -> usize {
        self.endpoints.entries().len()
    }

    /// Returns the number of stored integer and floating-point tag values.
    pub(crate) fn numbers(&self) -> usize {
        self.numbers.len()
    }

    /// Returns an upper bound of the weight of a single span in the block.
    pub(crate) fn heaviest(&self) -> usize {
        self.weight_max
    }

    /// Returns the weight of a span in bytes, as defined at [`WEIGHT_MAX`].
    pub(crate) fn weight(&self, row: Row) -> usize {
        weight(&self.span(row, &mut Scratch::default()))
    }

    pub(crate) fn endpoint_entry(&self, id: EndpointId) -> &Entry {
        self.endpoints.entry(id)
    }

    /// Returns the annotations of a span, in the order in which they were appended.
    pub fn annotations(
        &self,
        row: Row,
    ) -> impl ExactSizeIterator<Item = AnnotationRef<'_>> + Clone {
        let (times, values) = self.annotation_ids(row);
        times
            .iter()
            .zip(values)
            .map(|(time_ns, value)| AnnotationRef { time_ns: *time_ns, value: self.text(*value) })
    }

    /// Returns the times of a span's annotations in nanoseconds since 1970, and the text ids of
    /// their texts.
    #[inline]
    pub fn annotation_ids(&self, row: Row) -> (&[u64], &[u32]) {
        let range = range(&self.annotations_end, row);
        (&self.annotation_time[range.clone()], &self.annotation_value[range])
    }

    /// Returns the tags of a span, in the order of the span's layout.
    pub fn tags(&self, row: Row) -> impl ExactSizeIterator<Item = TagRef<'_>> + Clone {
        let layout = self.layout(self.layout_id(row));
        layout.iter().zip(self.values(row)).map(|(shape, value)| TagRef {
            key: self.text(shape.key),
            value: self.value(shape.value, *value),
            origin: shape.origin,
        })
    }

    /// Returns the encoded values of a span's tags, one for each [`Shape`](crate::Shape) of its
    /// layout. [`Block::value`] decodes a value. The encoded value of a text is its text id.
    #[inline]
    pub fn values(&self, row: Row) -> &[u32] {
        &self.values[range(&self.values_end, row)]
    }

    /// Decodes a tag value of type `kind` that [`Block::values`] returned.
    #[inline]
    pub fn value(&self, kind: ValueType, value: u32) -> ValueRef<'_> {
        let number = || self.numbers[value as usize];
        match kind {
            ValueType::Str => ValueRef::Str(self.text(value)),
            ValueType::Int => ValueRef::Int(number() as i64),
            ValueType::Double => ValueRef::Double(f64::from_bits(number())),
            ValueType::Bool => ValueRef::Bool(value != 0),
            ValueType::Bytes => ValueRef::Bytes(self.blobs.get(value)),
        }
    }
}

/// Sink that appends spans to the block, and stops at the first span that the block refuses.
impl SpanSink for Block {
    fn span(&mut self, span: &SpanRef<'_>) -> ControlFlow<()> {
        match self.push(span) {
            Ok(_) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("len", &self.len())
            .field("memory_bytes", &self.memory_bytes())
            .finish()
    }
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PushError::Full => f.write_str("the block is full"),
            PushError::TooLarge => {
                write!(f, "a span of more than {} MiB", WEIGHT_MAX >> 20)
            }
        }
    }
}

impl std::error::Error for PushError {}

#[inline]
fn range(ends: &[u32], row: Row) -> Range<usize> {
    let row = row as usize;
    let start = if row == 0 { 0 } else { ends[row - 1] as usize };
    start..ends[row] as usize
}

/// Returns the index in `numbers` of a number equal to `number`. `last` is the index returned by
/// the previous call for the same tag of the same layout; 0 before the first call. If `numbers` has
/// another or no number at `last`, `number` is appended and `last` becomes its index.
fn push_number(numbers: &mut Vec<u64>, last: &mut u32, number: u64) -> u32 {
    if numbers.get(*last as usize) != Some(&number) {
        *last = numbers.len() as u32;
        numbers.push(number);
    }
    *last
}

fn flags(span: &SpanRef<'_>) -> u16 {
    let flag = |is, flag| if is { flag } else { 0 };
    span.kind as u16
        | (span.status as u16) << STATUS_SHIFT
        | flag(span.debug, DEBUG)
        | flag(span.shared, SHARED)
        | flag(span.start_ns.is_some(), HAS_START)
        | flag(span.duration_ns.is_some(), HAS_DURATION)
        | flag(span.is_error(), ERROR)
}

/// Returns the weight of a span. Appending the span extends no column of a block by more than this
/// many bytes or values.
fn weight(span: &SpanRef<'_>) -> usize {
    1 + span.text_bytes() + (span.tags.len() + span.annotations.len()) * ITEM_WEIGHT
}
