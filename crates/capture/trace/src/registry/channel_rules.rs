//! The rules of one channel: patterns, filters, and the contexts that precede the fields of its
//! events.

use crate::app_context;
use crate::event_context::{self, ContextSource};
use crate::event_type::EventType;
use crate::kind::Kind;
use blkkin_control::rules::Rules;
use blkkin_control::{EventRule, Scalar, Width};
use blkkin_filter::{Filter, Integer, Operand, OperandKind, PseudoField, Step, Value, Values};
use blkkin_ring::Encoder;
use std::cell::OnceCell;

/// Rules and contexts of one channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelRules {
    pub(super) rules: Rules,
    /// Filter of each rule, by the rule's index in `rules`.
    filters: Vec<RuleFilter>,
    /// Set if a rule has a filter. Without filters, whether an event is recorded depends on its
    /// type only.
    has_filters: bool,
    /// Sources of the contexts that precede the fields of each event, in order.
    pub(crate) sources: Vec<ContextSource>,
}

/// Condition of a rule on the values of an event's fields and contexts.
#[derive(Clone, Debug)]
enum RuleFilter {
    Always,
    If(Box<Filter>),
    /// The filter cannot be parsed, probably because the agent's filter language is newer than the
    /// program's parser. The rule matches no event.
    Never,
}

impl ChannelRules {
    /// Compiles the rules that the agent sent for a channel. `sources` are the sources of the
    /// channel's contexts.
    pub(crate) fn new(rules: &[EventRule], sources: Vec<ContextSource>) -> ChannelRules {
        let condition = |rule: &EventRule| match &rule.filter {
            None => RuleFilter::Always,
            Some(text) => match Filter::parse(text) {
                Ok(filter) => RuleFilter::If(Box::new(filter)),
                Err(_) => RuleFilter::Never,
            },
        };
        let filters = rules.iter().map(condition).collect();
        let has_filters = rules.iter().any(|rule| rule.filter.is_some());
        ChannelRules { rules: Rules::new(rules), filters, has_filters, sources }
    }

    /// Returns true if a rule has a filter.
    pub(crate) fn has_filters(&self) -> bool {
        self.has_filters
    }

    /// Returns true if a rule matches an event with these fields.
    pub(crate) fn match_event(&self, event: &EventType, fields: &[u8]) -> bool {
        let mut rules = self.rules.in_force(event.name(), event.level());
        rules.any(|place| match self.filters.get(place) {
            Some(RuleFilter::Always) => true,
            Some(RuleFilter::If(filter)) => match uses_supplied(filter) {
                true => match_with_supplied(event, fields, filter),
                false => filter.eval(&EventValues::new(event, fields, filter, &[])),
            },
            Some(RuleFilter::Never) | None => false,
        })
    }

    /// Returns false if no event of a type matches a rule, as the type lacks fields that the
    /// filters need.
    pub(super) fn may_match(&self, event: &EventType) -> bool {
        // The fields of a type are known from its registration on. Callers decide about types that
        // stand for others, or are registered with their first event.
        if event.id().is_none() {
            return true;
        }
        let mut rules = self.rules.in_force(event.name(), event.level());
        rules.any(|place| match self.filters.get(place) {
            Some(RuleFilter::Always) => true,
            Some(RuleFilter::If(filter)) => filter.may_hold(|operand| has(event, operand)),
            Some(RuleFilter::Never) | None => false,
        })
    }

    /// Appends the channel's contexts to an event.
    pub(crate) fn encode_contexts(&self, encoder: &mut Encoder<'_>) {
        for source in &self.sources {
            match source {
                ContextSource::Pid => encoder.put(event_context::pid().to_le_bytes()),
                ContextSource::Tid => encoder.put(event_context::tid().to_le_bytes()),
                ContextSource::Procname => {
                    encoder.put(event_context::procname());
                    encoder.put([0]);
                }
                ContextSource::Cpu => encoder.put(event_context::cpu().to_le_bytes()),
                ContextSource::Fixed32(number) => encoder.put(number.to_le_bytes()),
                ContextSource::Fixed64(number) => encoder.put(number.to_le_bytes()),
                ContextSource::Supplied(place) => {
                    let mut text = app_context::ContextText::default();
                    app_context::read(place.unwrap_or(usize::MAX), &mut text);
                    encoder.put_string(text.as_str());
                }
            }
        }
    }
}

/// Returns whether events of a type may have a value for an operand of a filter.
fn has(event: &EventType, operand: &Operand) -> bool {
    let has_field = |name: &str| event.fields().any(|(of, _)| of == name);
    match (operand.kind, operand.path.as_slice()) {
        (OperandKind::Payload, [Step::Name(name)]) => {
            has_field(name) || operand.pseudo().is_some_and(|pseudo| !pseudo.is_late())
        }
        (OperandKind::Payload, [Step::Name(name), Step::Index(_)]) => has_field(name),
        (OperandKind::Pseudo(pseudo), _) => !pseudo.is_late(),
        (OperandKind::Context, [Step::Name(name)]) => PseudoField::of_context(name).is_some(),
        (OperandKind::AppContext, _) => true,
        _ => false,
    }
}

/// Values that a filter can use: an event's encoded fields, its name and severity, contexts that
/// are cheap to read, and application contexts. A bare name refers to a field of the payload or, if
/// the payload lacks it, to the pseudo-field of that name.
struct EventValues<'e> {
    event: &'e EventType,
    fields: &'e [u8],
    filter: &'e Filter,
    procname: OnceCell<[u8; 16]>,
    /// Values of application contexts, each with the index of its operand in the filter.
    supplied: &'e [(usize, app_context::ContextText)],
}

/// Maximum number of application contexts in one filter. Further application contexts count as
/// absent.
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

/// Evaluates a filter that uses application contexts, after copying their values into an array on
/// the stack. Not inlined, because the stack may be small, and other filters do not need that
/// array.
#[inline(never)]
fn match_with_supplied(event: &EventType, fields: &[u8], filter: &Filter) -> bool {
    let mut texts = [(usize::MAX, app_context::ContextText::default()); SUPPLIED_MAX];
    for ((operand, text), (index, name)) in texts.iter_mut().zip(supplied_names(filter)) {
        if let Some(place) = app_context::find(name) {
            *operand = index;
            app_context::read(place, text);
        }
    }
    filter.eval(&EventValues::new(event, fields, filter, &texts))
}

impl<'e> EventValues<'e> {
    fn new(
        event: &'e EventType,
        fields: &'e [u8],
        filter: &'e Filter,
        supplied: &'e [(usize, app_context::ContextText)],
    ) -> EventValues<'e> {
        EventValues { event, fields, filter, procname: OnceCell::new(), supplied }
    }

    fn pseudo(&self, pseudo: PseudoField) -> Value<'_> {
        match pseudo {
            PseudoField::Name => Value::Str(self.event.name().as_bytes()),
            PseudoField::Severity => self.event.level().value(),
            PseudoField::Cpu => Value::Uint(event_context::cpu().into()),
            PseudoField::Pid => Value::Int(event_context::pid().into()),
            PseudoField::Tid => Value::Int(event_context::tid().into()),
            PseudoField::Procname => {
                let name = self.procname.get_or_init(event_context::procname);
                Value::Str(name.split(|byte| *byte == 0).next().unwrap_or_default())
            }
            // Unknown now: the writer assigns the time later, and the reader stream and trace.
            PseudoField::Time | PseudoField::Stream | PseudoField::Trace => Value::Absent,
        }
    }

    fn supplied(&self, index: usize) -> Value<'_> {
        let found = self.supplied.iter().find(|(operand, _)| *operand == index);
        found.map_or(Value::Absent, |(_, text)| Value::Str(text.as_str().as_bytes()))
    }
}

impl Values for EventValues<'_> {
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
            (OperandKind::Context, [Step::Name(name)]) => match PseudoField::of_context(name) {
                Some(pseudo) => self.pseudo(pseudo),
                None => Value::Absent,
            },
            (OperandKind::AppContext, _) => self.supplied(index),
            _ => Value::Absent,
        }
    }
}

/// Returns the value of an event's field, or of one element of it; `None` if the event has no field
/// of that name, or if `fields` end before its end.
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
        Kind::Bytes => (
            Scalar::Unsigned { width: Width::Bits8, hex: true },
            bytes.get(4..).unwrap_or_default(),
        ),
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
