//! What one channel is to record: rules, their filters, and what stands before the fields of its events.

use super::EventRule;
use crate::event::{EventType, Kind};
use crate::supplied;
use crate::surroundings;
use blkkin_control::Scalar;
use blkkin_control::rules::Rules;
use blkkin_filter::{Filter, Integer, OperandKind, Pseudo, Step, Value, Values};
use blkkin_ring::Encoder;
use std::cell::OnceCell;

/// What a channel is to record.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(super) rules: Rules,
    /// By the places of the rules.
    filters: Vec<Condition>,
    /// What stands before the fields, in this order.
    pub(crate) sources: Vec<Source>,
}

/// What a rule says of an event's values.
#[derive(Clone, Debug)]
enum Condition {
    Always,
    If(Box<Filter>),
    /// The daemon's words are beyond what this program understands.
    Never,
}

/// Where a context comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Pid,
    Tid,
    Procname,
    Cpu,
    /// What was found when the channel came.
    Fixed32(u32),
    /// As above.
    Fixed64(u64),
    /// What the program says, under the name at that place.
    Supplied(Option<usize>),
}

impl Orders {
    /// Rules, as they were sent, and contexts.
    pub(crate) fn new(rules: &[EventRule], sources: Vec<Source>) -> Orders {
        let condition = |rule: &EventRule| match &rule.filter {
            None => Condition::Always,
            Some(text) => match Filter::parse(text) {
                Ok(filter) => Condition::If(Box::new(filter)),
                Err(_) => Condition::Never,
            },
        };
        let filters = rules.iter().map(condition).collect();
        Orders { rules: Rules::new(rules), filters, sources }
    }

    /// Whether an event with these fields is to be recorded.
    pub(crate) fn want(&self, event: &EventType, fields: &[u8]) -> bool {
        let mut rules = self.rules.in_force(event.name(), event.level());
        rules.any(|place| match self.filters.get(place) {
            Some(Condition::Always) => true,
            Some(Condition::If(filter)) => match uses_supplied(filter) {
                true => want_with_supplied(event, fields, filter),
                false => filter.eval(&Recorded::new(event, fields, filter, &[])),
            },
            Some(Condition::Never) | None => false,
        })
    }

    /// Appends the contexts to an event.
    pub(crate) fn encode_contexts(&self, encoder: &mut Encoder<'_>) {
        let mut text = supplied::Text::default();
        for source in &self.sources {
            match source {
                Source::Pid => encoder.put(surroundings::pid().to_le_bytes()),
                Source::Tid => encoder.put(surroundings::tid().to_le_bytes()),
                Source::Procname => {
                    encoder.put(surroundings::procname());
                    encoder.put([0]);
                }
                Source::Cpu => encoder.put(surroundings::cpu().to_le_bytes()),
                Source::Fixed32(number) => encoder.put(number.to_le_bytes()),
                Source::Fixed64(number) => encoder.put(number.to_le_bytes()),
                Source::Supplied(place) => {
                    supplied::get(place.unwrap_or(usize::MAX), &mut text);
                    encoder.put_string(text.as_str());
                }
            }
        }
    }
}

/// An event as filters see it: its encoded fields, and what can be known of it at little cost. Payload
/// fields count before others of their name.
struct Recorded<'e> {
    event: &'e EventType,
    fields: &'e [u8],
    filter: &'e Filter,
    procname: OnceCell<[u8; 16]>,
    /// Contexts of the program's, with the places of their operands.
    supplied: &'e [(usize, supplied::Text)],
}

/// Contexts of the program's that a filter can compare with. More than these are absent.
const SUPPLIED_MAX: usize = 2;

fn supplied_names(filter: &Filter) -> impl Iterator<Item = (usize, &str)> {
    filter.operands().iter().enumerate().filter_map(|(index, operand)| {
        match (operand.kind, operand.path.as_slice()) {
            (OperandKind::AppContext, [Step::Name(name)]) => Some((index, &**name)),
            _ => None,
        }
    })
}

fn uses_supplied(filter: &Filter) -> bool {
    supplied_names(filter).next().is_some()
}

/// What a filter says of an event if it needs contexts of the program's. They are filled in before, in place: the
/// stack may be small. In a function of its own, as other filters do not need room for them.
#[inline(never)]
fn want_with_supplied(event: &EventType, fields: &[u8], filter: &Filter) -> bool {
    let mut texts = [(usize::MAX, supplied::Text::default()); SUPPLIED_MAX];
    for ((operand, text), (index, name)) in texts.iter_mut().zip(supplied_names(filter)) {
        if let Some(place) = supplied::place_of(name) {
            *operand = index;
            supplied::get(place, text);
        }
    }
    filter.eval(&Recorded::new(event, fields, filter, &texts))
}

impl<'e> Recorded<'e> {
    fn new(
        event: &'e EventType,
        fields: &'e [u8],
        filter: &'e Filter,
        supplied: &'e [(usize, supplied::Text)],
    ) -> Recorded<'e> {
        Recorded { event, fields, filter, procname: OnceCell::new(), supplied }
    }

    fn pseudo(&self, pseudo: Pseudo) -> Value<'_> {
        match pseudo {
            Pseudo::Name => Value::Str(self.event.name().as_bytes()),
            Pseudo::Severity => Value::Uint(self.event.level().number()),
            Pseudo::Cpu => Value::Uint(surroundings::cpu().into()),
            Pseudo::Pid => Value::Int(surroundings::pid().into()),
            Pseudo::Tid => Value::Int(surroundings::tid().into()),
            Pseudo::Procname => {
                let name = self.procname.get_or_init(surroundings::procname);
                Value::Str(name.split(|byte| *byte == 0).next().unwrap_or_default())
            }
            // They come later than events are recorded.
            Pseudo::Time | Pseudo::Stream | Pseudo::Trace => Value::Absent,
        }
    }

    fn supplied(&self, index: usize) -> Value<'_> {
        let found = self.supplied.iter().find(|(operand, _)| *operand == index);
        found.map_or(Value::Absent, |(_, text)| Value::Str(text.as_str().as_bytes()))
    }
}

impl Values for Recorded<'_> {
    fn value(&self, index: usize) -> Value<'_> {
        let Some(operand) = self.filter.operands().get(index) else { return Value::Absent };
        match (operand.kind, operand.path.as_slice()) {
            (OperandKind::Payload, [Step::Name(name), Step::Index(index)]) => {
                field(self.event, self.fields, name, Some(*index)).unwrap_or(Value::Absent)
            }
            (OperandKind::Payload, [Step::Name(name)]) => {
                let field = field(self.event, self.fields, name, None);
                field.or_else(|| Some(self.pseudo(operand.pseudo()?))).unwrap_or(Value::Absent)
            }
            (OperandKind::Pseudo(pseudo), _) => self.pseudo(pseudo),
            (OperandKind::Context, [Step::Name(name)]) => match context(name) {
                Some(pseudo) => self.pseudo(pseudo),
                None => Value::Absent,
            },
            (OperandKind::AppContext, _) => self.supplied(index),
            _ => Value::Absent,
        }
    }
}

/// What a context of that name is; LTTng's names count, too.
fn context(name: &str) -> Option<Pseudo> {
    Some(match name {
        "pid" | "vpid" => Pseudo::Pid,
        "tid" | "vtid" => Pseudo::Tid,
        "procname" => Pseudo::Procname,
        "cpu" | "cpu_id" => Pseudo::Cpu,
        _ => return None,
    })
}

/// The value of a field by its name, or of its element with that number; `None` if the event has none of that name.
fn field<'f>(
    event: &EventType,
    fields: &'f [u8],
    name: &str,
    element: Option<u64>,
) -> Option<Value<'f>> {
    let mut rest = fields;
    for (of, kind) in event.fields() {
        let (bytes, behind) = rest.split_at_checked(kind.size_in(rest))?;
        if of == name {
            return Some(match element {
                Some(index) => self::element(kind, bytes, index),
                None => value(kind, bytes),
            });
        }
        rest = behind;
    }
    None
}

fn element(kind: Kind, bytes: &[u8], index: u64) -> Value<'_> {
    let (of, bytes) = match kind {
        Kind::Array(of, _) => (of, bytes),
        Kind::Sequence(of) => (of, bytes.get(4..).unwrap_or_default()),
        _ => return Value::Absent,
    };
    let found = usize::try_from(index).ok().and_then(|index| bytes.chunks(of.bytes()).nth(index));
    found.map_or(Value::Absent, |bytes| number(of, bytes))
}

fn value(kind: Kind, bytes: &[u8]) -> Value<'_> {
    match kind {
        Kind::String => Value::Str(bytes.strip_suffix(b"\0").unwrap_or(bytes)),
        Kind::Enum(of, labels) => match number(of, bytes) {
            Value::Int(number) => Value::Enum(Integer::Signed(number), labels),
            Value::Uint(number) => Value::Enum(Integer::Unsigned(number), labels),
            other => other,
        },
        kind => kind.scalar().map_or(Value::Present, |of| number(of, bytes)),
    }
}

fn number(of: Scalar, bytes: &[u8]) -> Value<'static> {
    let mut word = [0; 8];
    let size = bytes.len().min(8);
    word[..size].copy_from_slice(&bytes[..size]);
    let bits = u64::from_le_bytes(word);
    match of {
        Scalar::Unsigned { .. } | Scalar::Bool => Value::Uint(bits),
        Scalar::Signed { width, .. } => {
            let unused = 64 - 8 * width.bytes();
            Value::Int(bits.cast_signed() << unused >> unused)
        }
        Scalar::F32 => Value::Float(f32::from_bits(bits as u32).into()),
        Scalar::F64 => Value::Float(f64::from_bits(bits)),
    }
}
