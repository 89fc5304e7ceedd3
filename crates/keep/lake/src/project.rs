//! Asks rows of a file whether a condition holds for them, and reads no more columns than it is about. Start at
//! [`Projection::of`].

use crate::Error;
use crate::part::{Loaded, Part};
use blkkin_columns::{Column, PageColumns};
use blkkin_model::{
    AnnotationRef, EndpointRef, Kind, Origin, SpanId, SpanRef, Status, TagRef, TraceId, ValueRef,
};
use blkkin_store::{Condition, TextField, Topic, text_of};
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::ControlFlow;

/// What a condition is about.
pub(crate) struct Projection<'c> {
    condition: &'c Condition,
    columns: Vec<Column>,
    /// Of tags.
    keys: Vec<&'c str>,
}

/// Those of the span, of its process and of its library.
const TAGS: [(Column, Column); 3] = [
    (Column::TagKey, Column::TagValue),
    (Column::ResourceKey, Column::ResourceValue),
    (Column::ScopeKey, Column::ScopeValue),
];

/// The value of a tag, as its letter says.
enum Value<'p> {
    Plain(ValueRef<'p>),
    Bytes(Vec<u8>),
}

/// What is wrong with a row.
pub(crate) type Fault = &'static str;

/// Calls `each` with all rows of a file, page by page, of which these columns are read.
pub(crate) fn scan(
    part: &Part,
    loaded: &Loaded,
    columns: &[Column],
    mut each: impl FnMut(&PageColumns, usize) -> Result<(), Fault>,
) -> Result<(), Error> {
    for group in 0..loaded.columns().groups() {
        let mut rows = |page: &PageColumns| (0..page.rows()).try_for_each(|row| each(page, row));
        scan_group(part, loaded, group, [columns, &[]], |_| Ok(Some(())), |page, ()| rows(page))?;
    }
    Ok(())
}

/// Goes through a row group page by page, of which the first columns are read, and the others too if `choose` says what
/// is wanted of a page: `visit` is called with that.
pub(crate) fn scan_group<T>(
    part: &Part,
    loaded: &Loaded,
    group: usize,
    [columns, more]: [&[Column]; 2],
    mut choose: impl FnMut(&PageColumns) -> Result<Option<T>, Fault>,
    mut visit: impl FnMut(&PageColumns, T) -> Result<(), Fault>,
) -> Result<(), Error> {
    let mut columns = columns.to_vec();
    columns.sort_unstable();
    columns.dedup();
    let file = loaded.columns();
    let fault = Cell::new(None);
    // What is wrong with a page is said by the second step, which ends the scan.
    let choose = |page: &PageColumns| choose(page).map_err(|it| fault.set(Some(it))).transpose();
    let flow = file.scan_in_two(group, &columns, more, choose, |page, chosen| {
        match chosen.map(|chosen| visit(page, chosen)) {
            Ok(Ok(())) => ControlFlow::Continue(()),
            Ok(Err(it)) => {
                fault.set(Some(it));
                ControlFlow::Break(())
            }
            Err(()) => ControlFlow::Break(()),
        }
    });
    let _ = part.note(flow.map_err(|error| part.error(error)))?;
    if let Some(fault) = fault.get() {
        let rows = file.group_rows(group);
        let (first, end) = (rows.start, rows.end);
        let text = format!("a row between {first} and {end}: {fault}");
        part.note(Err(part.error(text)))?;
    }
    Ok(())
}

impl<'c> Projection<'c> {
    pub(crate) fn of(condition: &'c Condition) -> Projection<'c> {
        let mut projection = Projection { condition, columns: Vec::new(), keys: Vec::new() };
        projection.add(condition);
        projection.columns.sort_unstable();
        projection.columns.dedup();
        projection
    }

    fn add(&mut self, condition: &'c Condition) {
        let column = match condition {
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().for_each(|part| self.add(part));
                return;
            }
            Condition::Not(part) => return self.add(part),
            Condition::Tag(key, _) => {
                self.keys.push(key);
                self.columns.extend(TAGS.into_iter().flat_map(|(key, value)| [key, value]));
                Column::TagLayout
            }
            Condition::Text(TextField::Service, _) => Column::Service,
            Condition::Text(TextField::RemoteService, _) => Column::RemoteService,
            Condition::Text(TextField::Name, _) => Column::Name,
            Condition::Kind(_) => Column::Kind,
            Condition::Error => Column::Error,
            Condition::Root => Column::ParentId,
            Condition::Duration(..) => Column::Duration,
            Condition::Start(..) => Column::StartTime,
            Condition::Annotation(_) => Column::AnnotationValue,
        };
        self.columns.push(column);
    }

    /// Those that must be read.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Whether the condition holds for a row.
    pub(crate) fn holds(&self, page: &PageColumns, row: usize) -> Result<bool, Fault> {
        let reads = |column: Column| self.columns.contains(&column);
        let text = |column| if reads(column) { page.text(column, row) } else { "" };
        let number = |column| if reads(column) { page.number(column, row) } else { None };
        let mut values = Vec::new();
        if !self.keys.is_empty() {
            let push = |key, value, origin| values.push((key, value, origin));
            tags(page, row, |key| self.keys.contains(&key), push)?;
        }
        let tags: Vec<TagRef<'_>> = values
            .iter()
            .map(|(key, value, origin)| {
                let value = match value {
                    Value::Plain(value) => *value,
                    Value::Bytes(bytes) => ValueRef::Bytes(bytes),
                };
                TagRef { key, value, origin: *origin }
            })
            .collect();
        let annotations: Vec<AnnotationRef<'_>> = if reads(Column::AnnotationValue) {
            let values = page.values(Column::AnnotationValue, row);
            let text = |value| page.value_text(Column::AnnotationValue, value);
            values.map(|value| AnnotationRef { time_ns: 0, value: text(value) }).collect()
        } else {
            Vec::new()
        };
        let is_error = number(Column::Error) == Some(1);
        // Who it is does not matter here, nor whose child.
        let (trace_id, id) = (TraceId::from_number(1), SpanId::from_number(1));
        let (trace_id, id) = trace_id.zip(id).ok_or("an id is 0")?;
        Ok(self.condition.holds(&SpanRef {
            parent_id: (!text(Column::ParentId).is_empty()).then_some(id),
            kind: kind(text(Column::Kind))?,
            status: if is_error { Status::Error } else { Status::Ok },
            name: text(Column::Name),
            start_ns: number(Column::StartTime),
            duration_ns: number(Column::Duration),
            local: EndpointRef { service: text(Column::Service), ..EndpointRef::NONE },
            remote: EndpointRef { service: text(Column::RemoteService), ..EndpointRef::NONE },
            annotations: &annotations,
            tags: &tags,
            ..SpanRef::new(trace_id, id)
        }))
    }
}

/// The tags of a row whose keys are wanted, in their order.
fn tags<'p>(
    page: &'p PageColumns,
    row: usize,
    is_wanted: impl Fn(&str) -> bool,
    mut each: impl FnMut(&'p str, Value<'p>, Origin),
) -> Result<(), Fault> {
    let mut lists = TAGS.map(|(keys, values)| {
        let (of_keys, of_values) = (page.values(keys, row), page.values(values, row));
        of_keys.clone().zip(of_values.clone()).take_while(move |_| of_keys == of_values)
    });
    let layout = page.text(Column::TagLayout, row).as_bytes();
    let count = page.values(Column::TagKey, row).len();
    // Without a layout all are text of the span.
    let letters = (0..if layout.is_empty() { count } else { layout.len() })
        .map(|at| layout.get(at).copied().unwrap_or(b's'));
    for letter in letters {
        let (list, origin, kind) = match letter {
            b's' | b'i' | b'b' | b'd' | b'x' => (0, Origin::Span, letter),
            b'S' | b'I' | b'B' | b'D' | b'X' => (1, Origin::Resource, letter.to_ascii_lowercase()),
            b't' => (2, Origin::Scope, b's'),
            b'j' | b'c' | b'e' => (2, Origin::Scope, letter - 1),
            b'y' => (2, Origin::Scope, b'x'),
            _ => return Err("there is no such letter in a layout"),
        };
        let (key, value) = lists[list].next().ok_or("a layout has more tags than there are")?;
        let key = page.value_text(TAGS[list].0, key);
        if is_wanted(key) {
            let text = page.value_text(TAGS[list].1, value);
            each(key, value_of(kind, text)?, origin);
        }
    }
    Ok(())
}

/// What [`words_of`] needs.
pub(crate) const WORDS: [Column; 12] = [
    Column::Kind,
    Column::Status,
    Column::Error,
    Column::Name,
    Column::Service,
    Column::TagKey,
    Column::TagValue,
    Column::ResourceKey,
    Column::ResourceValue,
    Column::ScopeKey,
    Column::ScopeValue,
    Column::TagLayout,
];

/// Calls `each` with the words of a row, as [`blkkin_store::words_of`] does for a span.
pub(crate) fn words_of<'p>(
    page: &'p PageColumns,
    row: usize,
    mut each: impl FnMut(Topic<&'p str>, Cow<'p, str>),
) -> Result<(), Fault> {
    let status = match page.number(Column::Error, row) {
        Some(1) => "error",
        _ if page.text(Column::Status, row) == "ok" => "ok",
        _ => "",
    };
    let own = [
        (Topic::Service, page.text(Column::Service, row)),
        (Topic::Name, page.text(Column::Name, row)),
        (Topic::Kind, page.text(Column::Kind, row)),
        (Topic::Status, status),
    ];
    let own = own.into_iter().filter(|(_, word)| !word.is_empty());
    own.for_each(|(topic, word)| each(topic, Cow::Borrowed(word)));
    // The last tag with a key counts, and they are in order of key.
    let mut last: Option<(&str, Value<'_>)> = None;
    let mut tell = |(key, value): (&'p str, Value<'p>)| {
        let text = match value {
            Value::Plain(value) => text_of(value),
            Value::Bytes(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        };
        if !text.is_empty() {
            each(Topic::Tag(key), text);
        }
    };
    tags(
        page,
        row,
        |_| true,
        |key, value, _| {
            if let Some(before) = last.replace((key, value)).filter(|before| before.0 != key) {
                tell(before);
            }
        },
    )?;
    last.into_iter().for_each(tell);
    Ok(())
}

fn value_of(letter: u8, text: &str) -> Result<Value<'_>, Fault> {
    let value = match letter {
        b'i' => text.parse().ok().map(ValueRef::Int),
        b'b' => text.parse().ok().map(ValueRef::Bool),
        b'd' => match text.strip_prefix("NaN:") {
            Some(bits) => u64::from_str_radix(bits, 16).ok().map(f64::from_bits),
            None => text.parse().ok(),
        }
        .map(ValueRef::Double),
        b'x' => return bytes_of(text).map(Value::Bytes).ok_or("bytes are not hexadecimal"),
        _ => Some(ValueRef::Str(text)),
    };
    value.map(Value::Plain).ok_or("a value is not of the type that it should be")
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

fn kind(text: &str) -> Result<Kind, Fault> {
    Ok(match text {
        "" => Kind::Unspecified,
        "internal" => Kind::Internal,
        "client" => Kind::Client,
        "server" => Kind::Server,
        "producer" => Kind::Producer,
        "consumer" => Kind::Consumer,
        _ => return Err("there is no such kind"),
    })
}
