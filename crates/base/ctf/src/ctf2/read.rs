//! Reading of a JSON text sequence into a schema, one fragment after the other.

use super::classes::{Alias, Allowance, ClassReader, OuterContext, reject_extensions};
use super::clocks::clock;
use super::field_tree::FieldTree;
use super::json::{
    PathContext, Problem, array, integer, object, optional, quote, required, string, text, unsigned,
};
use super::value::{self, Object, Value};
use super::vocabulary::{BABELTRACE_NAMESPACE, LOG_LEVELS, LTTNG_NAMESPACE, unknown_word};
use crate::decode::size;
use crate::metadata::budget::{Budget, OverBudget, allocation, table_entry};
use crate::metadata::error::MetadataError;
use crate::schema::*;
use std::collections::{HashMap, HashSet};

/// Control character before each fragment of a JSON text sequence (RFC 7464).
const RECORD_SEPARATOR: char = '\u{1e}';

/// Permitted values of a fragment's `type` property.
const FRAGMENT_TYPES: [&str; 6] = [
    "preamble",
    "field-class-alias",
    "trace-class",
    "clock-class",
    "data-stream-class",
    "event-record-class",
];

pub(super) fn parse(text: &str) -> Result<Schema, MetadataError> {
    let budget = Budget::of_text(text.len());
    let mut reader = Reader::new(&budget);
    let mut next = 0;
    let mut number = 0;
    for (index, piece) in text.split(RECORD_SEPARATOR).enumerate() {
        let start = next + (piece.len() - piece.trim_start().len());
        next += piece.len() + RECORD_SEPARATOR.len_utf8();
        // RFC 7464 allows repeated separators, so an empty piece between two of them is no
        // fragment.
        if piece.trim().is_empty() {
            continue;
        }
        if index == 0 {
            let hint = "each fragment starts with the record separator, 0x1e";
            return Err(MetadataError::at(text, start, "text before the first fragment").hint(hint));
        }
        number += 1;
        let piece = piece.trim_start();
        let before = budget.passing();
        let value = value::parse(piece, &budget)
            .map_err(|error| syntax_error(text, start, piece, number, &error))?;
        reader.fragment(&value, piece.len()).map_err(|problem| {
            let label = label(number, value.get("type").and_then(Value::as_str));
            let error = MetadataError::at(text, start, format!("{label}: {}", problem.text()));
            MetadataError { hint: problem.hint, ..error }
        })?;
        budget.release_to(before);
    }
    if number == 0 {
        return Err(MetadataError::at(text, text.len(), "there is no fragment"));
    }
    reader.schema.trace.byte_order = byte_order(&reader.schema);
    Ok(reader.schema)
}

fn label(number: usize, fragment_type: Option<&str>) -> String {
    match fragment_type {
        Some(known) if FRAGMENT_TYPES.contains(&known) => format!("fragment {number} ({known})"),
        _ => format!("fragment {number}"),
    }
}

/// Makes the error for a fragment that is not JSON, or whose JSON exceeds the memory budget.
fn syntax_error(
    text: &str,
    start: usize,
    piece: &str,
    number: usize,
    error: &serde_json::Error,
) -> MetadataError {
    let lines_before = error.line().saturating_sub(1);
    let line_start: usize = piece.split_inclusive('\n').take(lines_before).map(str::len).sum();
    let offset = match error.is_eof() {
        true => piece.len(),
        false => (line_start + error.column().saturating_sub(1)).min(piece.len()),
    };
    let message = error.to_string();
    // serde_json appends a line and column within the fragment; `MetadataError` has its own.
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
    let label = label(number, None);
    // The visitor accepts JSON of any shape, so a "data" error means that the budget is exhausted.
    match error.is_data() {
        true => MetadataError::at(text, start + offset, format!("{label}: {message}"))
            .hint(OverBudget::HINT),
        false => MetadataError::at(text, start + offset, format!("{label}: not JSON: {message}")),
    }
}

/// Reader of fragments: the schema read so far, with lookup tables for the fragments that follow.
struct Reader<'t> {
    schema: Schema,
    preamble_seen: bool,
    trace_class_seen: bool,
    /// Index of each clock in the schema, by the clock's id.
    clocks: HashMap<String, usize>,
    streams: HashMap<u64, usize>,
    /// Ids of the event classes read so far, by stream index; an id must not be repeated.
    event_ids: Vec<HashSet<u64>>,
    stream_trees: Vec<FieldTree<'t>>,
    trace_tree: FieldTree<'t>,
    aliases: HashMap<String, Alias<'t>>,
    allowance: Allowance<'t>,
    /// Memory of one event class in bytes, apart from its own fields and texts, by stream index.
    event_sizes: Vec<usize>,
}

impl<'t> Reader<'t> {
    fn new(budget: &'t Budget) -> Reader<'t> {
        let (trace, clocks, streams) = (TraceClass::default(), Vec::new(), Vec::new());
        Reader {
            schema: Schema { version: Version::Ctf2, trace, clocks, streams },
            preamble_seen: false,
            trace_class_seen: false,
            clocks: HashMap::new(),
            streams: HashMap::new(),
            event_ids: Vec::new(),
            stream_trees: Vec::new(),
            trace_tree: FieldTree::default(),
            aliases: HashMap::new(),
            allowance: Allowance::new(budget),
            event_sizes: Vec::new(),
        }
    }

    /// Counts `bytes` of memory against the budget. The schema, its decoder or the reader retains
    /// this memory.
    fn keep(&self, bytes: usize) -> Result<(), Problem> {
        Ok(self.allowance.memory.charge(bytes)?)
    }

    fn fragment(&mut self, value: &Value<'t>, text_size: usize) -> Result<(), Problem> {
        let object = object(value)?;
        let fragment_type = required(object, "type", string)?;
        if self.preamble_seen == (fragment_type == "preamble") {
            return Err(Problem::new("the first fragment, and only it, must be a preamble"));
        }
        reject_extensions(object)?;
        self.keep(texts(object))?;
        match fragment_type {
            "preamble" => self.preamble(object),
            "field-class-alias" => self.alias(object, text_size),
            "trace-class" => self.trace_class(object),
            "clock-class" => self.clock_class(object, text_size),
            "data-stream-class" => self.stream_class(object),
            "event-record-class" => self.event_class(object),
            _ => Err(unknown_word(fragment_type, FRAGMENT_TYPES.into_iter())).add_step("type"),
        }
    }

    fn preamble(&mut self, object: &Object<'_>) -> Result<(), Problem> {
        let version = required(object, "version", unsigned)?;
        if version != 2 {
            return Err(Problem::new(format!("version {version} is not supported, only 2 is")));
        }
        self.schema.trace.uuid = optional(object, "uuid", uuid)?;
        self.preamble_seen = true;
        Ok(())
    }

    fn alias(&mut self, object: &Object<'t>, text_size: usize) -> Result<(), Problem> {
        let name = required(object, "name", string)?;
        if self.aliases.contains_key(name) {
            return Err(Problem::new(format!("the alias {} is declared twice", quote(name))));
        }
        // The parsed value was counted as temporary, but the alias keeps a copy of it.
        self.keep(table_entry::<String, Alias<'_>>() + self.allowance.memory.passing())?;
        let mut reader = ClassReader::new(&self.aliases, &mut self.allowance, None);
        let class = required(object, "field-class", |value| {
            reader.declare(value)?;
            Ok(value.clone())
        })?;
        self.aliases.insert(name.to_owned(), Alias { class, text_size });
        Ok(())
    }

    fn trace_class(&mut self, object: &Object<'t>) -> Result<(), Problem> {
        if self.trace_class_seen {
            return Err(Problem::new("there is a second trace class"));
        }
        if !self.schema.streams.is_empty() {
            return Err(Problem::new("the trace class must come before all data stream classes"));
        }
        self.trace_class_seen = true;
        let trace = &mut self.schema.trace;
        trace.namespace = text(object, "namespace")?;
        trace.name = text(object, "name")?;
        trace.uid = text(object, "uid")?;
        let memory = self.allowance.memory;
        let env = optional(object, "environment", |value| environment(value, memory))?;
        trace.env = env.unwrap_or_default();
        let has_uuid = trace.uuid.is_some();
        let context = OuterContext { has_uuid, clock: None, outer: &[] };
        let mut reader = ClassReader::new(&self.aliases, &mut self.allowance, Some(context));
        trace.packet_header =
            reader.root(object, "packet-header-field-class", Scope::PacketHeader)?;
        self.trace_tree = reader.into_tree();
        self.keep(self.trace_tree.size())
    }

    fn clock_class(&mut self, object: &Object<'_>, text_size: usize) -> Result<(), Problem> {
        self.keep(size_of::<Clock>() + table_entry::<String, usize>() + 2 * text_size)?;
        let clock = clock(object)?;
        let index = self.schema.clocks.len();
        if self.clocks.insert(clock.name.clone(), index).is_some() {
            let message = format!("there is a second clock class {}", quote(&clock.name));
            return Err(Problem::new(message));
        }
        self.schema.clocks.push(clock);
        Ok(())
    }

    fn stream_class(&mut self, object: &Object<'t>) -> Result<(), Problem> {
        self.keep(size::STREAM)?;
        let id = optional(object, "id", unsigned)?.unwrap_or(0);
        let index = self.schema.streams.len();
        if self.streams.insert(id, index).is_some() {
            return Err(Problem::new(format!("there is a second data stream class {id}")));
        }
        let find_clock = |value| {
            let name = string(value)?;
            let message = || format!("no clock class {} comes before this", quote(name));
            self.clocks.get(name).copied().ok_or_else(|| Problem::new(message()))
        };
        let clock = match optional(object, "default-clock-class-id", find_clock)? {
            Some(clock) => Some(clock),
            // Release candidates used this name for the property.
            None => optional(object, "default-clock-class-name", find_clock)?,
        };
        let has_uuid = self.schema.trace.uuid.is_some();
        let outer = [&self.trace_tree];
        let context = OuterContext { has_uuid, clock, outer: &outer };
        let mut reader = ClassReader::new(&self.aliases, &mut self.allowance, Some(context));
        let stream = StreamClass {
            id,
            namespace: text(object, "namespace")?,
            name: text(object, "name")?,
            uid: text(object, "uid")?,
            clock,
            packet_context: reader.root(
                object,
                "packet-context-field-class",
                Scope::PacketContext,
            )?,
            event_header: reader.root(
                object,
                "event-record-header-field-class",
                Scope::EventHeader,
            )?,
            common_context: reader.root(
                object,
                "event-record-common-context-field-class",
                Scope::CommonContext,
            )?,
            events: Vec::new(),
        };
        let tree = reader.into_tree();
        self.keep(tree.size())?;
        let context = stream.common_context.as_ref();
        self.event_sizes.push(size::EVENT + context.map_or(0, size::common_context));
        self.schema.streams.push(stream);
        self.stream_trees.push(tree);
        self.event_ids.push(HashSet::new());
        Ok(())
    }

    fn event_class(&mut self, object: &Object<'t>) -> Result<(), Problem> {
        let id = optional(object, "id", unsigned)?.unwrap_or(0);
        let stream_id = optional(object, "data-stream-class-id", unsigned)?.unwrap_or(0);
        let Some(&index) = self.streams.get(&stream_id) else {
            let message = format!("no data stream class {stream_id} comes before this");
            return Err(Problem::new(message)).add_step("data-stream-class-id");
        };
        if !self.event_ids[index].insert(id) {
            let message = format!("data stream class {stream_id} has a second event class {id}");
            return Err(Problem::new(message));
        }
        let emf_uri = attribute(object, "emf-uri").and_then(Value::as_str);
        self.keep(self.event_sizes[index] + emf_uri.map_or(0, |uri| allocation(uri.len())))?;
        let stream = &mut self.schema.streams[index];
        let has_uuid = self.schema.trace.uuid.is_some();
        let outer = [&self.trace_tree, &self.stream_trees[index]];
        let context = OuterContext { has_uuid, clock: stream.clock, outer: &outer };
        let mut reader = ClassReader::new(&self.aliases, &mut self.allowance, Some(context));
        stream.events.push(EventClass {
            id,
            namespace: text(object, "namespace")?,
            name: text(object, "name")?,
            uid: text(object, "uid")?,
            log_level: log_level(object),
            emf_uri: emf_uri.map(str::to_owned),
            specific_context: reader.root(
                object,
                "specific-context-field-class",
                Scope::SpecificContext,
            )?,
            payload: reader.root(object, "payload-field-class", Scope::Payload)?,
        });
        Ok(())
    }
}

fn uuid(value: &Value<'_>) -> Result<Uuid, Problem> {
    let numbers = array(value)?.iter().map(unsigned).collect::<Result<Vec<u64>, Problem>>()?;
    let bytes: Option<Vec<u8>> = numbers.into_iter().map(|byte| byte.try_into().ok()).collect();
    let uuid = bytes.and_then(|bytes| bytes.try_into().ok()).map(Uuid);
    uuid.ok_or_else(|| Problem::new("a UUID is 16 integers from 0 to 255"))
}

fn environment(value: &Value<'_>, memory: &Budget) -> Result<Vec<(String, EnvValue)>, Problem> {
    let entries = object(value)?;
    let mut env = Vec::with_capacity(entries.iter().len());
    for (name, value) in entries.iter() {
        let value = match value {
            Value::String(text) => EnvValue::Str(text.to_string()),
            _ => {
                let number = integer(value).add_step(quote(name))?;
                // An integer beyond the range of `i64` is stored as text.
                i64::try_from(number)
                    .map_or_else(|_| EnvValue::Str(number.to_string()), EnvValue::Int)
            }
        };
        let text = if let EnvValue::Str(text) = &value { text.len() } else { 0 };
        memory
            .charge(size_of::<(String, EnvValue)>() + allocation(name.len()) + allocation(text))?;
        env.push((name.to_string(), value));
    }
    Ok(env)
}

/// Returns the memory of the string values among a fragment's top-level properties, in bytes.
fn texts(object: &Object<'_>) -> usize {
    object.iter().filter_map(|(_, value)| value.as_str()).map(|text| allocation(text.len())).sum()
}

/// Returns LTTng's attribute `name`, else babeltrace's; `None` if both are absent. The type
/// is not checked: callers ignore malformed attributes, because attributes never affect decoding.
fn attribute<'a, 't>(object: &'a Object<'t>, name: &str) -> Option<&'a Value<'t>> {
    let attributes = object.get("attributes")?;
    let namespaces = [LTTNG_NAMESPACE, BABELTRACE_NAMESPACE];
    namespaces.iter().find_map(|namespace| attributes.get(namespace)?.get(name))
}

fn log_level(object: &Object<'_>) -> Option<i64> {
    let value = attribute(object, "log-level")?;
    let position = LOG_LEVELS.iter().position(|word| value.as_str() == Some(word));
    // Producers write words only, but CTF 1.8 permits levels without a word; the writer writes such
    // a level as a number.
    position.and_then(|level| level.try_into().ok()).or(value.as_i64())
}

/// Returns the byte order of the magic number, else that of the first fixed-length field, else
/// little-endian.
fn byte_order(schema: &Schema) -> ByteOrder {
    let streams = schema.streams.iter();
    let roots = streams.flat_map(|stream| {
        let events = stream.events.iter();
        let events = events.flat_map(|event| [&event.specific_context, &event.payload]);
        [&stream.packet_context, &stream.event_header, &stream.common_context]
            .into_iter()
            .chain(events)
    });
    let mut roots = [&schema.trace.packet_header].into_iter().chain(roots).flatten();
    // The magic number, if present, is the first field of the packet header.
    roots.find_map(first_byte_order).unwrap_or(ByteOrder::Little)
}

fn first_byte_order(class: &FieldClass) -> Option<ByteOrder> {
    match class {
        FieldClass::Int(int) => Some(int.bits.byte_order),
        FieldClass::Float(float) => Some(float.bits.byte_order),
        FieldClass::Struct(structure) => {
            structure.members.iter().find_map(|member| first_byte_order(&member.class))
        }
        FieldClass::Array(array) => first_byte_order(&array.element),
        FieldClass::Optional(optional) => first_byte_order(&optional.content),
        FieldClass::Variant(variant) => {
            variant.options.iter().find_map(|option| first_byte_order(&option.class))
        }
        FieldClass::VarInt(_)
        | FieldClass::String(_)
        | FieldClass::Text(_)
        | FieldClass::Blob(_) => None,
    }
}
