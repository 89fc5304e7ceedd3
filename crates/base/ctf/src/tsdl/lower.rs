//! Conversion of the syntax tree to a [`Schema`]. Start at [`lower`]. It processes the blocks in
//! the order of their dependencies (byte order, environment, clocks, types, trace, streams,
//! events), whatever their order in the text.

use super::attributes::{AttributeReader, named_byte_order};
use super::clock::clock;
use super::declare::{Declarations, Environment};
use super::expand::{Expander, ScopeTypes, scope_of};
use super::lexer::shortened;
use super::syntax::{Attribute, Block, BlockKind, Statement, Syntax, Value};
use super::types::Type;
use super::{parser, roles};
use crate::decode::size;
use crate::metadata::budget::{Budget, allocation, table_entry};
use crate::metadata::error::MetadataError;
use crate::metadata::suggest::{CANDIDATES_MAX, did_you_mean};
use crate::schema::{
    ByteOrder, EnvValue, EventClass, FieldClass, Role, Schema, Scope, StreamClass, TraceClass,
    Version,
};
use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

/// Converts the syntax tree of a text to a schema, and parses the `event` blocks one by one.
pub(super) fn lower<'t>(
    text: &'t str,
    syntax: Syntax<'t>,
    budget: &'t Budget,
) -> Result<Schema, MetadataError> {
    let Syntax { statements, events, size } = syntax;
    let trace = only_trace_block(text, &statements)?;
    let byte_order = trace_byte_order(text, trace)?;
    let reader = AttributeReader { text, budget, byte_order, clocks: HashMap::new() };
    let mut declarations = Declarations::new(reader);
    declarations.env = environment(&declarations.reader, &statements)?;
    let is_lttng = matches!(
        declarations.env.get("tracer_name"),
        Some(EnvValue::Str(name)) if name.starts_with("lttng")
    );
    let mut clocks = Vec::new();
    for block in blocks(&statements, BlockKind::Clock) {
        let clock = clock(&declarations.reader, block, is_lttng)?;
        let known = &mut declarations.reader.clocks;
        if known.insert(clock.name.clone(), clocks.len()).is_some() {
            let message = format!("2nd clock named `{}`", shortened(&clock.name));
            return Err(MetadataError::at(text, block.at, message));
        }
        clocks.push(clock);
    }
    for statement in &statements {
        declarations.declare(statement)?;
    }
    let mut lowering = Lowering {
        expander: Expander::new(text, budget, clocks),
        declarations,
        trace: TraceClass { byte_order, ..TraceClass::default() },
        streams: Vec::new(),
        stream_by_id: HashMap::new(),
    };
    lowering.trace(trace)?;
    for block in blocks(&statements, BlockKind::Stream) {
        lowering.stream(block)?;
    }
    let trace_at = trace.at;
    drop(statements);
    budget.release_to(budget.passing() - size);
    for at in events {
        let before = budget.passing();
        lowering.event(&parser::event(text, at, budget)?)?;
        budget.release_to(before);
    }
    lowering.finish(trace_at)
}

fn blocks<'s, 't>(
    statements: &'s [Statement<'t>],
    wanted: BlockKind,
) -> impl Iterator<Item = &'s Block<'t>> {
    statements.iter().filter_map(move |statement| match statement {
        Statement::Block(block) if block.kind == wanted => Some(block),
        _ => None,
    })
}

fn only_trace_block<'s, 't>(
    text: &str,
    statements: &'s [Statement<'t>],
) -> Result<&'s Block<'t>, MetadataError> {
    let mut found = blocks(statements, BlockKind::Trace);
    let Some(trace) = found.next() else {
        return Err(MetadataError::at(text, text.len(), "there is no `trace` block"));
    };
    match found.next() {
        None => Ok(trace),
        Some(second) => Err(MetadataError::at(text, second.at, "2nd `trace` block")),
    }
}

fn trace_byte_order(text: &str, trace: &Block<'_>) -> Result<ByteOrder, MetadataError> {
    let Some(attribute) = trace.attributes().find(|attribute| attribute.key == "byte_order") else {
        return Err(MetadataError::at(text, trace.at, "`trace` block without `byte_order`"));
    };
    named_byte_order(&attribute.value).ok_or_else(|| {
        MetadataError::at(text, attribute.value_at, "a trace's byte order is be, le or network")
    })
}

/// Merges all `env` blocks; the last value of a repeated key counts.
fn environment<'t>(
    reader: &AttributeReader<'t>,
    statements: &[Statement<'t>],
) -> Result<Environment<'t>, MetadataError> {
    let mut env = Environment::default();
    for attribute in blocks(statements, BlockKind::Env).flat_map(Block::attributes) {
        let value = match &attribute.value {
            Value::Text(text) => EnvValue::Str(text.to_string()),
            Value::Integer(value) => {
                let value = i64::try_from(*value)
                    .or_else(|_| u64::try_from(*value).map(u64::cast_signed))
                    .map_err(|_| reader.bad_value(attribute, "an integer of 64 bits"))?;
                EnvValue::Int(value)
            }
        };
        let strings = match &value {
            EnvValue::Str(text) => 2 * allocation(attribute.key.len()) + allocation(text.len()),
            EnvValue::Int(_) => 2 * allocation(attribute.key.len()),
        };
        let entry = size_of::<(String, EnvValue)>() + table_entry::<Cow<'_, str>, usize>();
        reader.charge(attribute.at, entry + strings)?;
        match env.index.entry(attribute.key.clone()) {
            Entry::Occupied(known) => env.list[*known.get()].1 = value,
            Entry::Vacant(vacant) => {
                vacant.insert(env.list.len());
                env.list.push((attribute.key.to_string(), value));
            }
        }
    }
    Ok(env)
}

struct Lowering<'t> {
    declarations: Declarations<'t>,
    expander: Expander<'t>,
    trace: TraceClass,
    streams: Vec<Stream<'t>>,
    stream_by_id: HashMap<u64, usize>,
}

/// A stream class under construction, to which events are added.
struct Stream<'t> {
    class: StreamClass,
    at: usize,
    types: ScopeTypes<'t>,
    event_ids: HashSet<u64>,
    /// Memory of one event class in bytes: with its copy of the common context, without its own
    /// fields and names.
    event_size: usize,
}

impl<'t> Lowering<'t> {
    fn error(&self, at: usize, message: impl Into<String>) -> MetadataError {
        self.expander.error(at, message)
    }

    fn keep(&self, at: usize, bytes: usize) -> Result<(), MetadataError> {
        self.declarations.reader.charge(at, bytes)
    }

    /// Processes the statements of a block in a new lexical scope. Declares the block's types, and
    /// passes its attributes to `attribute`. Returns the field classes that the block assigns to
    /// scopes.
    fn block(
        &mut self,
        block: &Block<'t>,
        mut attribute: impl FnMut(&AttributeReader<'t>, &Attribute<'t>) -> Result<(), MetadataError>,
    ) -> Result<ScopeClasses, MetadataError> {
        let expander = &mut self.expander;
        self.declarations.scoped(|declarations| {
            let mut assigned: Vec<(Scope, Type<'t>, usize)> = Vec::new();
            for statement in &block.body {
                match declarations.declare(statement)? {
                    Some(Statement::Attribute(found)) => {
                        attribute(&declarations.reader, found)?;
                    }
                    Some(Statement::Assignment { key, at, class }) => {
                        let Some(scope) = scope_of(block.kind, key) else { continue };
                        if assigned.iter().any(|&(other, ..)| other == scope) {
                            return Err(expander.error(*at, format!("`{key}` for the 2nd time")));
                        }
                        assigned.push((scope, declarations.type_of(class)?, class.at));
                    }
                    _ => (),
                }
            }
            // Lengths may refer to a scope that is assigned further down in the text.
            assigned.sort_by_key(|&(scope, ..)| scope);
            let mut classes = ScopeClasses::default();
            for (scope, class, at) in assigned {
                classes.0[scope as usize] = Some(expander.scope(scope, &class, at)?);
            }
            Ok(classes)
        })
    }

    fn trace(&mut self, block: &Block<'t>) -> Result<(), MetadataError> {
        let (mut major, mut minor, mut uuid, mut byte_order) = (None, None, None, None);
        let mut classes = self.block(block, |reader, attribute| match attribute.key.as_ref() {
            "major" | "minor" => {
                let (slot, expected) = match attribute.key == "major" {
                    true => (&mut major, 1),
                    false => (&mut minor, 8),
                };
                if reader.unsigned(attribute)? != expected {
                    let expected = format!("{expected}: only CTF 1.8 is written in TSDL");
                    return Err(reader.bad_value(attribute, &expected));
                }
                reader.set_once(slot, attribute, expected)
            }
            "uuid" => reader.set_once(&mut uuid, attribute, reader.uuid(attribute)?),
            "byte_order" => reader.set_once(&mut byte_order, attribute, ()),
            _ => Ok(()),
        })?;
        for (found, name) in [(major, "major"), (minor, "minor")] {
            if found.is_none() {
                return Err(self.error(block.at, format!("`trace` block without `{name}`")));
            }
        }
        self.trace.uuid = uuid;
        self.trace.packet_header = classes.take(Scope::PacketHeader);
        Ok(())
    }

    fn stream(&mut self, block: &Block<'t>) -> Result<(), MetadataError> {
        self.expander.scopes[1..].fill(None);
        let mut id = None;
        let mut classes = self.block(block, |reader, attribute| match attribute.key.as_ref() {
            "id" => reader.set_once(&mut id, attribute, reader.unsigned(attribute)?),
            _ => Ok(()),
        })?;
        if id.is_none() && !self.streams.is_empty() {
            let error = self.error(block.at, "`stream` block without `id`");
            return Err(error.hint("only a trace's first stream can do without"));
        }
        let class = StreamClass {
            id: id.unwrap_or(0),
            packet_context: classes.take(Scope::PacketContext),
            event_header: classes.take(Scope::EventHeader),
            common_context: classes.take(Scope::CommonContext),
            ..StreamClass::default()
        };
        self.add_stream(class, block.at)
    }

    fn add_stream(&mut self, class: StreamClass, at: usize) -> Result<(), MetadataError> {
        if self.stream_by_id.insert(class.id, self.streams.len()).is_some() {
            return Err(self.error(at, format!("2nd stream with id {}", class.id)));
        }
        self.keep(at, size::STREAM + size_of::<Stream<'_>>())?;
        let types = self.expander.scopes.clone();
        let event_size =
            size::EVENT + class.common_context.as_ref().map_or(0, size::common_context);
        self.streams.push(Stream { class, at, types, event_ids: HashSet::new(), event_size });
        Ok(())
    }

    fn event(&mut self, block: &Block<'t>) -> Result<(), MetadataError> {
        let stream = self.stream_of_event(block)?;
        self.expander.scopes.clone_from(&self.streams[stream].types);
        let (mut id, mut stream_id, mut name) = (None, None, None);
        let (mut log_level, mut emf_uri) = (None, None);
        let mut classes = self.block(block, |reader, attribute| {
            let text = || reader.string_value(attribute).map(str::to_owned);
            match attribute.key.as_ref() {
                "id" => reader.set_once(&mut id, attribute, reader.unsigned(attribute)?),
                "stream_id" => reader.set_once(&mut stream_id, attribute, ()),
                "name" => reader.set_once(&mut name, attribute, text()?),
                "loglevel" => {
                    let level = i64::try_from(reader.signed(attribute)?)
                        .map_err(|_| reader.bad_value(attribute, "an integer of 64 bits"))?;
                    reader.set_once(&mut log_level, attribute, level)
                }
                "model.emf.uri" => reader.set_once(&mut emf_uri, attribute, text()?),
                _ => Ok(()),
            }
        })?;
        let names = [&name, &emf_uri].into_iter().flatten().map(|name| allocation(name.len()));
        self.keep(block.at, self.streams[stream].event_size + names.sum::<usize>())?;
        let stream = &mut self.streams[stream];
        if id.is_none() && !stream.class.events.is_empty() {
            let error = self.error(block.at, "`event` block without `id`");
            return Err(error.hint("only a stream's first event can do without"));
        }
        let id = id.unwrap_or(0);
        if !stream.event_ids.insert(id) {
            let message = format!("2nd event with id {id} in stream {}", stream.class.id);
            return Err(self.error(block.at, message));
        }
        stream.class.events.push(EventClass {
            id,
            name,
            log_level,
            // An empty URI counts as absent, as in babeltrace2.
            emf_uri: emf_uri.filter(|uri: &String| !uri.is_empty()),
            specific_context: classes.take(Scope::SpecificContext),
            payload: classes.take(Scope::Payload),
            ..EventClass::default()
        });
        Ok(())
    }

    /// Returns the index of an event's stream. An event without `stream_id` belongs to the trace's
    /// only stream. If there is no stream yet, such an event adds an implicit stream with id 0.
    fn stream_of_event(&mut self, block: &Block<'t>) -> Result<usize, MetadataError> {
        let Some(attribute) = block.attributes().find(|attribute| attribute.key == "stream_id")
        else {
            return match self.streams.len() {
                0 => {
                    self.expander.scopes[1..].fill(None);
                    self.add_stream(StreamClass::default(), block.at)?;
                    Ok(0)
                }
                1 => Ok(0),
                streams => {
                    let error = self.error(block.at, "`event` block without `stream_id`");
                    Err(error.hint(format!("the trace has {streams} streams")))
                }
            };
        };
        let id = self.declarations.reader.unsigned(attribute)?;
        self.stream_by_id.get(&id).copied().ok_or_else(|| {
            let error = self.error(attribute.value_at, format!("there is no stream {id}"));
            let ids = self.stream_by_id.keys().take(CANDIDATES_MAX).map(u64::to_string);
            let ids: Vec<String> = ids.collect();
            did_you_mean(error, &id.to_string(), ids.iter().map(String::as_str))
        })
    }

    /// Checks the conditions that involve all streams and events, assigns each stream's clock, and
    /// assembles the schema.
    fn finish(self, trace_at: usize) -> Result<Schema, MetadataError> {
        let header = self.trace.packet_header.as_ref();
        if self.streams.len() > 1 && !has_role(header, Role::StreamClassId) {
            let message =
                format!("packet header without `stream_id` for {} streams", self.streams.len());
            return Err(self.error(trace_at, message));
        }
        for Stream { class, at, .. } in &self.streams {
            let header = class.event_header.as_ref();
            if class.events.len() > 1 && !has_role(header, Role::EventClassId) {
                let count = class.events.len();
                let message = format!("stream's event header without `id` for {count} events");
                return Err(self.error(*at, message));
            }
        }
        let mut streams: Vec<StreamClass> =
            self.streams.into_iter().map(|stream| stream.class).collect();
        streams.iter_mut().for_each(roles::assign_clock);
        let trace = TraceClass { env: self.declarations.env.list, ..self.trace };
        let clocks = self.expander.clocks;
        Ok(Schema { version: Version::Ctf1, trace, clocks, streams })
    }
}

/// Field classes of a block, indexed by [`Scope`].
#[derive(Default)]
struct ScopeClasses([Option<FieldClass>; 6]);

impl ScopeClasses {
    fn take(&mut self, scope: Scope) -> Option<FieldClass> {
        self.0[scope as usize].take()
    }
}

fn has_role(class: Option<&FieldClass>, role: Role) -> bool {
    match class {
        Some(FieldClass::Int(int)) => int.roles.has(role),
        Some(FieldClass::Struct(structure)) => {
            structure.members.iter().any(|member| has_role(Some(&member.class), role))
        }
        Some(FieldClass::Variant(variant)) => {
            variant.options.iter().any(|option| has_role(Some(&option.class), role))
        }
        Some(FieldClass::Array(array)) => has_role(Some(&array.element), role),
        _ => false,
    }
}
