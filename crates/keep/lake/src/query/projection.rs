//! [`Projection`]: evaluates a condition on rows of a file, reading only the columns that the
//! condition needs.

use crate::Error;
use crate::files::indexed_file::IndexedFile;
use crate::files::loaded_file::LoadedFile;
use blkkin_columns::{Column, PageColumns, Texts};
use blkkin_model::{
    AnnotationRef, EndpointRef, Kind, Origin, SpanId, SpanRef, Status, TagRef, TraceId, ValueRef,
    is_own_time_key, own_time_ns,
};
use blkkin_store::{Condition, TagTest, TextField, Topic, is_cancelled, text_of};
use std::borrow::Cow;
use std::hash::{Hash, Hasher};

/// Condition, with the columns that must be read to evaluate it.
pub(crate) struct Projection<'c> {
    condition: &'c Condition,
    columns: Vec<Column>,
    /// Keys of the tags that the condition reads.
    keys: Vec<&'c str>,
    /// Set if the condition reads tags of any key.
    has_all_keys: bool,
}

/// Key and value columns of the tags of a span, its resource and its scope.
const TAGS: [(Column, Column); 3] = [
    (Column::TagKey, Column::TagValue),
    (Column::ResourceKey, Column::ResourceValue),
    (Column::ScopeKey, Column::ScopeValue),
];

/// Decoded tag value.
enum Value<'p> {
    Plain(ValueRef<'p>),
    Bytes(Vec<u8>),
}

impl Value<'_> {
    fn borrow(&self) -> ValueRef<'_> {
        match self {
            Value::Plain(value) => *value,
            Value::Bytes(bytes) => ValueRef::Bytes(bytes),
        }
    }
}

/// Description of an error in a row, such as an invalid id.
pub(crate) type Fault = &'static str;

/// Calls `each` with the rows of a file that meet a condition. The given columns are read for the
/// pages of these rows.
pub(crate) fn for_each_matching_row(
    file: &IndexedFile,
    loaded: &LoadedFile,
    projection: &Projection<'_>,
    columns: &[Column],
    mut each: impl FnMut(&PageColumns, usize) -> Result<(), Fault>,
) -> Result<(), Error> {
    let reader = loaded.columns();
    for group in 0..reader.groups() {
        let sieve = file.record_error(
            TagSieve::of(projection.condition, &|column| reader.texts(group, column))
                .map_err(|error| file.read_error(error)),
        )?;
        if sieve.rejects_all() {
            continue;
        }
        for mut page in reader.pages_of_group(group).take_while(|_| !is_cancelled()) {
            file.read_columns(loaded, &mut page, &sieve.columns())?;
            let marks = sieve.marks(&page);
            if marks.as_ref().is_some_and(|marks| !marks.contains(&true)) {
                continue;
            }
            file.read_columns(loaded, &mut page, projection.columns())?;
            let may_hold = |row: &usize| marks.as_ref().is_none_or(|marks| marks[*row]);
            let rows = (0..page.rows()).filter(may_hold);
            let holding = rows.filter_map(|row| match projection.holds(&page, row) {
                Ok(holds) => holds.then_some(Ok(row)),
                Err(fault) => Some(Err(fault)),
            });
            let holding = holding.collect::<Result<Vec<usize>, Fault>>();
            let holding =
                file.record_error(holding.map_err(|fault| fault_of(file, &page, fault)))?;
            if !holding.is_empty() {
                file.read_columns(loaded, &mut page, columns)?;
            }
            let said = holding.into_iter().try_for_each(|row| each(&page, row));
            file.record_error(said.map_err(|fault| fault_of(file, &page, fault)))?;
        }
    }
    Ok(())
}

/// Returns the error for a damaged row of a page.
pub(crate) fn fault_of(file: &IndexedFile, page: &PageColumns, fault: Fault) -> Error {
    let first = page.first_row();
    file.error(format!("a row between {first} and {}: {fault}", first + page.rows() as u64))
}

/// Assembles the span of a row from the columns that were read. The span lacks annotations and
/// tags, and its parent id shows only whether it has a parent.
pub(crate) fn span(
    page: &PageColumns,
    row: usize,
    trace_id: TraceId,
) -> Result<SpanRef<'_>, Fault> {
    let text = |column| if page.has(column) { page.text(column, row) } else { "" };
    let number = |column| if page.has(column) { page.number(column, row) } else { None };
    let some_id = SpanId::from_number(1).ok_or("an id is 0")?;
    let id = match text(Column::SpanId) {
        "" => some_id,
        text => span_id(text)?,
    };
    let has_parent = page.has(Column::ParentId) && !page.values(Column::ParentId, row).is_empty();
    let status = match (number(Column::Error), page.has(Column::Status)) {
        (Some(1), _) => Status::Error,
        (_, true) if text(Column::Status) != "ok" => Status::Unset,
        // A column that was not read is not tested by the condition. It is enough then to know that
        // the span has not failed.
        _ => Status::Ok,
    };
    Ok(SpanRef {
        parent_id: has_parent.then_some(some_id),
        kind: kind(text(Column::Kind))?,
        status,
        shared: number(Column::Shared) == Some(1),
        name: text(Column::Name),
        start_ns: number(Column::StartTime),
        duration_ns: number(Column::Duration),
        local: EndpointRef { service: text(Column::Service), ..EndpointRef::NONE },
        remote: EndpointRef { service: text(Column::RemoteService), ..EndpointRef::NONE },
        ..SpanRef::new(trace_id, id)
    })
}

/// Returns the trace id of a row. The column must have been read.
pub(crate) fn trace_id(page: &PageColumns, row: usize) -> Result<TraceId, Fault> {
    page.trace_id(row).ok_or("an id is none")
}

pub(crate) fn span_id(text: &str) -> Result<SpanId, Fault> {
    let number = u64::from_str_radix(text, 16).ok();
    number.and_then(SpanId::from_number).ok_or("an id is none")
}

/// Prefilter of the rows of a row group by their tags. A condition's tests of tags are evaluated
/// once for each text of the dictionary of values, or for each value without a dictionary.
/// Negations, tests of tags without a dictionary of keys, and all other tests count as met.
enum TagSieve<'c> {
    /// Prefilter of the rows of a row group by their tags. A condition's tests of tags are
    /// evaluated once for each text of the dictionary of values, or for each value without a
    /// dictionary. The prefilter treats every row as a match of all other tests, of negations, and
    /// of tests of tags without a dictionary of keys.
    Open,
    /// Filter that passes rows with a matching tag of the span, its resource or its scope.
    Tag(Vec<TagFilter<'c>>),
    All(Vec<TagSieve<'c>>),
    Any(Vec<TagSieve<'c>>),
}

/// Filter by the tags in one pair of columns of [`TAGS`].
struct TagFilter<'c> {
    keys: Column,
    values: Column,
    /// Dictionary code of the tag key.
    key: u32,
    /// Flags by dictionary code: set for each value that may match. `None` if the value column has
    /// no dictionary.
    may_match: Option<Vec<bool>>,
    test: &'c TagTest,
}

impl<'c> TagSieve<'c> {
    fn of<E>(
        condition: &'c Condition,
        texts: &impl Fn(Column) -> Result<Option<Texts>, E>,
    ) -> Result<TagSieve<'c>, E> {
        let all = |parts: &'c [Condition]| {
            parts.iter().map(|part| TagSieve::of(part, texts)).collect::<Result<Vec<_>, E>>()
        };
        Ok(match condition {
            Condition::All(parts) => TagSieve::All(all(parts)?),
            Condition::Any(parts) => TagSieve::Any(all(parts)?),
            Condition::Tag(key, test) => {
                let mut wanted = Vec::new();
                for (keys, values) in TAGS {
                    let Some(known) = texts(keys)? else { return Ok(TagSieve::Open) };
                    let Some(key) = known.iter().position(|text| text == key) else { continue };
                    let may_match = texts(values)?
                        .map(|texts| texts.iter().map(|text| may_match(test, text)).collect());
                    let is_possible = |may_match: &Vec<bool>| may_match.contains(&true);
                    if may_match.as_ref().is_none_or(is_possible) {
                        wanted.push(TagFilter { keys, values, key: key as u32, may_match, test });
                    }
                }
                TagSieve::Tag(wanted)
            }
            _ => TagSieve::Open,
        })
    }

    fn rejects_all(&self) -> bool {
        match self {
            TagSieve::Open => false,
            TagSieve::Tag(wanted) => wanted.is_empty(),
            TagSieve::All(parts) => parts.iter().any(TagSieve::rejects_all),
            TagSieve::Any(parts) => parts.iter().all(TagSieve::rejects_all),
        }
    }

    /// Returns the columns that [`TagSieve::marks`] needs.
    fn columns(&self) -> Vec<Column> {
        match self {
            TagSieve::Open => Vec::new(),
            TagSieve::Tag(wanted) => wanted.iter().flat_map(|it| [it.keys, it.values]).collect(),
            TagSieve::All(parts) | TagSieve::Any(parts) => {
                parts.iter().flat_map(TagSieve::columns).collect()
            }
        }
    }

    /// Returns a flag for each row of a page, set if the row passes; `None` if all rows pass.
    fn marks(&self, page: &PageColumns) -> Option<Vec<bool>> {
        match self {
            TagSieve::Open => None,
            TagSieve::Tag(wanted) => {
                let mut marks = vec![false; page.rows()];
                for wanted in wanted {
                    for (row, mark) in marks.iter_mut().enumerate() {
                        *mark |= wanted.row_may_match(page, row);
                    }
                }
                Some(marks)
            }
            TagSieve::All(parts) => {
                parts.iter().filter_map(|part| part.marks(page)).reduce(|one, of| {
                    one.into_iter().zip(of).map(|(one, other)| one && other).collect()
                })
            }
            TagSieve::Any(parts) => {
                let mut marks = vec![false; page.rows()];
                for part in parts {
                    let of = part.marks(page)?;
                    marks.iter_mut().zip(of).for_each(|(mark, of)| *mark |= of);
                }
                Some(marks)
            }
        }
    }
}

impl TagFilter<'_> {
    /// Returns whether a row may have a matching tag.
    fn row_may_match(&self, page: &PageColumns, row: usize) -> bool {
        let (keys, values) = (page.values(self.keys, row), page.values(self.values, row));
        let mut pairs = keys.zip(values);
        pairs.any(|(key, value)| {
            page.code(self.keys, key) == Some(self.key)
                && match (&self.may_match, page.code(self.values, value)) {
                    (Some(may_match), Some(code)) => may_match.get(code as usize) != Some(&false),
                    _ => may_match(self.test, page.value_text(self.values, value)),
                }
        })
    }
}

/// Returns whether a value with this text may match, whatever its type.
fn may_match(test: &TagTest, text: &str) -> bool {
    b"sibdx"
        .iter()
        .any(|&letter| value_of(letter, text).is_ok_and(|value| test.matches(value.borrow())))
}

impl<'c> Projection<'c> {
    pub(crate) fn of(condition: &'c Condition) -> Projection<'c> {
        let mut projection =
            Projection { condition, columns: Vec::new(), keys: Vec::new(), has_all_keys: false };
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
            Condition::AnyText(_) => {
                self.has_all_keys = true;
                self.columns.extend(TAGS.into_iter().flat_map(|(key, value)| [key, value]));
                self.columns.extend([
                    Column::Service,
                    Column::RemoteService,
                    Column::Name,
                    Column::AnnotationValue,
                ]);
                Column::TagLayout
            }
            Condition::Text(TextField::Service, _) => Column::Service,
            Condition::Text(TextField::RemoteService, _) => Column::RemoteService,
            Condition::Text(TextField::Name, _) => Column::Name,
            Condition::Kind(_) => Column::Kind,
            Condition::Error => Column::Error,
            Condition::StatusOk => Column::Status,
            Condition::TraceId(_) => Column::TraceId,
            Condition::Root => Column::ParentId,
            Condition::Duration(..) => Column::Duration,
            Condition::Start(..) => Column::StartTime,
            Condition::Annotation(_) | Condition::Event(_) | Condition::EventAttribute(..) => {
                Column::AnnotationValue
            }
            Condition::Link(_) | Condition::LinkAttribute(..) => {
                self.has_all_keys = true;
                self.columns.extend(TAGS.into_iter().flat_map(|(key, value)| [key, value]));
                Column::TagLayout
            }
        };
        self.columns.push(column);
    }

    /// Returns the columns that must be read before [`Projection::holds`] is called.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns whether the condition holds for a row. The page must have [`Projection::columns`].
    pub(crate) fn holds(&self, page: &PageColumns, row: usize) -> Result<bool, Fault> {
        if is_cancelled() {
            return Ok(false);
        }
        let mut values = Vec::new();
        if !self.keys.is_empty() || self.has_all_keys {
            for_each_tag(page, row, |key, letter, text, origin| {
                if self.has_all_keys || self.keys.contains(&key) {
                    values.push((key, value_of(letter, text)?, origin));
                }
                Ok(())
            })?;
        }
        let tags: Vec<TagRef<'_>> = values
            .iter()
            .map(|(key, value, origin)| TagRef { key, value: value.borrow(), origin: *origin })
            .collect();
        let annotations: Vec<AnnotationRef<'_>> = if page.has(Column::AnnotationValue) {
            let values = page.values(Column::AnnotationValue, row);
            let text = |value| page.value_text(Column::AnnotationValue, value);
            values.map(|value| AnnotationRef { time_ns: 0, value: text(value) }).collect()
        } else {
            Vec::new()
        };
        let trace_id = match page.has(Column::TraceId) {
            true => trace_id(page, row)?,
            // The condition does not test the trace id, so any id will do.
            false => TraceId::from_number(1).ok_or("an id is 0")?,
        };
        let span = span(page, row, trace_id)?;
        Ok(self.condition.holds(&SpanRef { annotations: &annotations, tags: &tags, ..span }))
    }
}

/// Calls `each` with the tags of a row in order. The arguments are key, type letter, text and
/// origin of the tag.
fn for_each_tag<'p>(
    page: &'p PageColumns,
    row: usize,
    mut each: impl FnMut(&'p str, u8, &'p str, Origin) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut lists = TAGS.map(|(keys, values)| {
        let (of_keys, of_values) = (page.values(keys, row), page.values(values, row));
        of_keys.clone().zip(of_values.clone()).take_while(move |_| of_keys == of_values)
    });
    let layout = page.text(Column::TagLayout, row).as_bytes();
    let count = page.values(Column::TagKey, row).len();
    // An empty layout means that all tags are texts of the span itself.
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
        each(
            page.value_text(TAGS[list].0, key),
            kind,
            page.value_text(TAGS[list].1, value),
            origin,
        )?;
    }
    Ok(())
}

/// Columns that [`words_of`] needs.
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

/// Text on a page, compared by address. In a dictionary-encoded column, equal texts of several rows
/// have the same address, so words are counted without comparing their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageText<'p>(&'p str);

impl PartialEq for PageText<'_> {
    fn eq(&self, other: &PageText<'_>) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for PageText<'_> {}

impl Hash for PageText<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.0.as_ptr().addr());
    }
}

/// Word of a row: the encoded value of one topic. A topic is, for example, the service or a tag
/// key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Word<'p> {
    topic: Topic<PageText<'p>>,
    letter: u8,
    text: PageText<'p>,
}

impl<'p> Word<'p> {
    /// Decodes topic and word. Both have the form that [`blkkin_store::for_each_word`] passes to
    /// its callback.
    pub(crate) fn read(self) -> Result<(Topic<&'p str>, Cow<'p, str>), Fault> {
        let topic = match self.topic {
            Topic::Tag(key) => Topic::Tag(key.0),
            Topic::Service => Topic::Service,
            Topic::Name => Topic::Name,
            Topic::Kind => Topic::Kind,
            Topic::Status => Topic::Status,
        };
        let word = match value_of(self.letter, self.text.0)? {
            Value::Plain(value) => text_of(value),
            Value::Bytes(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        };
        Ok((topic, word))
    }
}

/// Calls `each` with the words of a row, and adds its own times to `own_times`, each with its key.
/// The words of service, name, kind and status are empty if the row has no such value.
pub(crate) fn words_of<'p>(
    page: &'p PageColumns,
    row: usize,
    own_times: &mut Vec<(&'p str, u64)>,
    mut each: impl FnMut(Word<'p>),
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
    for (topic, word) in own {
        each(Word { topic, letter: b's', text: PageText(word) });
    }
    // Tags are in order of key. The last of several tags with the same key counts.
    let mut last: Option<(&str, u8, &str)> = None;
    let mut add = |(key, letter, text)| {
        if is_own_time_key(key) {
            let time = own_time_ns(key, value_of(letter, text)?.borrow());
            own_times.extend(time.map(|time| (key, time)));
        } else {
            each(Word { topic: Topic::Tag(PageText(key)), letter, text: PageText(text) });
        }
        Ok(())
    };
    for_each_tag(page, row, |key, letter, text, _| {
        let before = last.replace((key, letter, text)).filter(|(before, ..)| *before != key);
        before.map_or(Ok(()), &mut add)
    })?;
    last.map_or(Ok(()), add)
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
