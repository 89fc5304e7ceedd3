//! Writing of a schema as TSDL text that babeltrace2 can read. Start at [`write()`].
//!
//! Parsing the text of a schema that was read from TSDL yields an equal schema. Descriptive
//! properties of CTF 2 (namespaces, names and unique ids, a clock's accuracy and named origin) are
//! left out. A clock or field that CTF 1.8 cannot describe causes an error.
//!
//! babeltrace2 2.0.4 lacks some of CTF 1.8. It rejects blobs (integers over 64 bits), floats other
//! than of 32 and 64 bits, events without a name, and negative log levels. It also rejects tags
//! outside of the structures around their variant, and options that share a value.

mod classes;
mod frame;
mod names;
mod references;
mod spelling;

use crate::schema::{
    ByteOrder, Clock, ClockOrigin, EnvValue, EventClass, FieldClass, IntClass, Ranges, Role,
    Schema, Scope, StreamClass, StructClass, Uuid,
};
use frame::{Frame, Names};
use spelling::quoted;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

/// Error for a part of a schema that TSDL cannot express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    /// Name of the field that cannot be written, with its scope and its event, stream or trace; or
    /// name of the clock.
    pub field: String,
    /// Error message for users, in lower case and without a full stop.
    pub message: String,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for WriteError {}

/// Writes a schema as TSDL text. Fails if CTF 1.8 cannot describe one of the clocks or fields.
pub fn write(schema: &Schema) -> Result<String, WriteError> {
    write_additions(schema, &mut WriteProgress::default())
}

/// Progress of [`write_additions`]: the parts of a growing schema that have been written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteProgress {
    has_begun: bool,
    /// Number of events written so far, by index of the stream.
    events: Vec<usize>,
}

/// Writes the new streams, and the new events of each stream, since the last call with this
/// `written`. The first call also writes the trace, environment and clocks. The concatenated
/// results of all these calls are the text of the whole schema.
pub fn write_additions(schema: &Schema, written: &mut WriteProgress) -> Result<String, WriteError> {
    let mut writer = Writer {
        schema,
        out: String::new(),
        indent: 0,
        owner: "trace".to_owned(),
        own_clock: None,
        current: Scope::PacketHeader,
        roots: [None; 6],
        frames: Vec::new(),
        names: HashMap::new(),
        labels: HashMap::new(),
    };
    // Additions may refer to scopes and names in earlier parts, which the writer registers when it
    // writes them. So these parts are written again, and their text is discarded.
    writer.out.push_str("/* CTF 1.8 */\n");
    writer.trace()?;
    writer.env();
    for clock in &schema.clocks {
        writer.clock(clock)?;
    }
    if written.has_begun {
        writer.out.clear();
    }
    for (at, stream) in schema.streams.iter().enumerate() {
        let events_done = written.events.get(at).copied();
        if events_done == Some(stream.events.len()) {
            continue;
        }
        let start = writer.out.len();
        writer.stream(stream)?;
        if events_done.is_some() {
            writer.out.truncate(start);
        }
        for event in stream.events.iter().skip(events_done.unwrap_or(0)) {
            writer.event(stream.id, event)?;
        }
    }
    let events = schema.streams.iter().map(|stream| stream.events.len()).collect();
    *written = WriteProgress { has_begun: true, events };
    Ok(writer.out)
}

struct Writer<'s> {
    schema: &'s Schema,
    out: String,
    indent: usize,
    /// Trace, stream or event to which the current field belongs, for error messages.
    owner: String,
    /// Index of the current stream's clock; `None` if the stream has no clock.
    own_clock: Option<usize>,
    current: Scope,
    /// Structures of the current scope and the scopes before it, indexed by [`Scope`].
    roots: [Option<&'s StructClass>; 6],
    /// The structures and variants around the current field, the outermost first.
    frames: Vec<Frame<'s>>,
    /// Names of the members of each structure, by the structure's address.
    names: HashMap<*const StructClass, Rc<Names>>,
    /// Ranges of each label of a tag, by the address of the tag's class and the label.
    labels: HashMap<*const IntClass, Rc<HashMap<&'s str, &'s Ranges>>>,
}

impl<'s> Writer<'s> {
    fn trace(&mut self) -> Result<(), WriteError> {
        let trace = &self.schema.trace;
        self.open("trace {");
        self.attribute("major", 1);
        self.attribute("minor", 8);
        if let Some(uuid) = trace.uuid {
            self.uuid(uuid);
        }
        let byte_order = match trace.byte_order {
            ByteOrder::Little => "le",
            ByteOrder::Big => "be",
        };
        self.attribute("byte_order", byte_order);
        self.scope(Scope::PacketHeader, "packet.header", trace.packet_header.as_ref())?;
        self.close("};");
        Ok(())
    }

    fn env(&mut self) {
        let env = &self.schema.trace.env;
        if env.is_empty() {
            return;
        }
        self.open("env {");
        for (key, value) in env {
            let key = match spelling::is_plain(key) {
                true => key.clone(),
                false => quoted(key),
            };
            match value {
                EnvValue::Int(value) => self.attribute(&key, value),
                EnvValue::Str(text) => self.attribute(&key, quoted(text)),
            }
        }
        self.close("};");
    }

    fn clock(&mut self, clock: &Clock) -> Result<(), WriteError> {
        let fail = |message: &str| {
            Err(WriteError {
                field: format!("clock `{}`", clock.name),
                message: message.to_owned(),
            })
        };
        if clock.frequency == 0 || clock.frequency == u64::MAX {
            return fail("its frequency is none");
        }
        // Whole seconds among the cycles move to the seconds, because babeltrace2 rejects negative
        // cycles.
        let frequency = i128::from(clock.frequency);
        let cycles = i128::from(clock.offset_cycles);
        let seconds = i128::from(clock.offset_seconds) + cycles.div_euclid(frequency);
        if i64::try_from(seconds).is_err() {
            return fail("its offset needs more than 64 bits");
        }
        self.open("clock {");
        self.attribute("name", quoted(&clock.name));
        if let Some(uuid) = clock.uuid {
            self.uuid(uuid);
        }
        if let Some(description) = &clock.description {
            self.attribute("description", quoted(description));
        }
        self.attribute("freq", frequency);
        if let Some(precision) = clock.precision {
            self.attribute("precision", precision);
        }
        self.attribute("offset_s", seconds);
        self.attribute("offset", cycles.rem_euclid(frequency));
        let is_absolute = clock.origin == ClockOrigin::UnixEpoch;
        self.attribute("absolute", if is_absolute { "TRUE" } else { "FALSE" });
        self.close("};");
        Ok(())
    }

    fn stream(&mut self, stream: &'s StreamClass) -> Result<(), WriteError> {
        self.owner = format!("stream {}", stream.id);
        self.own_clock = stream.clock;
        self.open("stream {");
        if stream.id != 0 || self.schema.streams.len() > 1 || self.header_has_stream_id() {
            self.attribute("id", stream.id);
        }
        self.scope(Scope::PacketContext, "packet.context", stream.packet_context.as_ref())?;
        self.scope(Scope::EventHeader, "event.header", stream.event_header.as_ref())?;
        self.scope(Scope::CommonContext, "event.context", stream.common_context.as_ref())?;
        self.close("};");
        Ok(())
    }

    fn header_has_stream_id(&self) -> bool {
        match &self.schema.trace.packet_header {
            Some(FieldClass::Struct(header)) => header.members.iter().any(|member| {
                matches!(&member.class, FieldClass::Int(int) if int.roles.has(Role::StreamClassId))
            }),
            _ => false,
        }
    }

    fn event(&mut self, stream_id: u64, event: &'s EventClass) -> Result<(), WriteError> {
        self.owner = match &event.name {
            Some(name) => format!("event `{name}`"),
            None => format!("event {} of stream {stream_id}", event.id),
        };
        self.open("event {");
        if let Some(name) = &event.name {
            self.attribute("name", quoted(name));
        }
        self.attribute("id", event.id);
        self.attribute("stream_id", stream_id);
        if let Some(log_level) = event.log_level {
            self.attribute("loglevel", log_level);
        }
        if let Some(uri) = &event.emf_uri {
            self.attribute("model.emf.uri", quoted(uri));
        }
        self.scope(Scope::SpecificContext, "context", event.specific_context.as_ref())?;
        self.scope(Scope::Payload, "fields", event.payload.as_ref())?;
        self.close("};");
        Ok(())
    }

    /// Writes `key := struct { … };` for a scope.
    fn scope(
        &mut self,
        scope: Scope,
        key: &str,
        class: Option<&'s FieldClass>,
    ) -> Result<(), WriteError> {
        self.current = scope;
        self.frames.clear();
        self.roots[scope as usize..].fill(None);
        let structure = match class {
            None => return Ok(()),
            Some(FieldClass::Struct(structure)) => structure,
            Some(_) => return Err(self.fail("not a structure")),
        };
        self.roots[scope as usize] = Some(structure);
        self.start_line();
        self.out.push_str(key);
        self.out.push_str(" := ");
        self.structure(structure)?;
        self.out.push_str(";\n");
        Ok(())
    }

    fn uuid(&mut self, uuid: Uuid) {
        self.attribute("uuid", quoted(&uuid.to_string()));
    }

    fn attribute(&mut self, key: &str, value: impl fmt::Display) {
        self.start_line();
        self.out.push_str(&format!("{key} = {value};\n"));
    }

    fn open(&mut self, line: &str) {
        self.out.push('\n');
        self.out.push_str(line);
        self.out.push('\n');
        self.indent = 1;
    }

    fn close(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
        self.indent = 0;
    }

    fn start_line(&mut self) {
        self.out.extend(std::iter::repeat_n('\t', self.indent));
    }

    /// Makes an error about the current field.
    fn fail(&self, message: impl Into<String>) -> WriteError {
        let mut field = self.current.tsdl_name().to_owned();
        for name in self.frames.iter().filter_map(Frame::name) {
            field.push('.');
            field.push_str(name);
        }
        WriteError { field: format!("{field} of {}", self.owner), message: message.into() }
    }
}
