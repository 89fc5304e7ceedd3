//! A filter expression bound to the event classes of the traces that are read.
//!
//! Binding finds, once a trace, which nodes are operands of the filter. For an event, the values
//! of these nodes are gathered in one walk, strings copied into one buffer, and then the filter
//! is asked. An event without any of the operands costs a walk and no more.

use crate::event::Event;
use crate::trace::Trace;
use blkkin_ctf::decode::{Node, NodeKind, NodeLabels, Visitor};
use blkkin_ctf::schema::{EnvValue, IntKind, Scope};
use blkkin_filter::{
    Filter, FilterError, Integer, Labels, Operand, OperandKind, Pseudo, Severity, Step, Value,
    Values,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// A filter that can be asked about events of certain traces.
#[derive(Clone, Debug)]
pub struct BoundFilter {
    filter: Arc<Filter>,
    /// By trace id.
    bindings: Vec<Option<Arc<Binding>>>,
    packet: Gathered,
    /// Stream and number of the packet whose context is in `packet`.
    packet_of: (usize, u64),
    event: Gathered,
}

/// Which nodes of a trace are operands.
#[derive(Debug)]
struct Binding {
    /// By node id; few are not empty.
    wanted: Vec<Box<[Wanted]>>,
    /// Of nodes that are operands, by node id.
    labels: BTreeMap<u32, EnumLabels>,
    wants_packet: bool,
    wants_event: bool,
}

/// A node that is an operand.
#[derive(Clone, Debug)]
struct Wanted {
    operand: usize,
    /// Of the elements on the way, from the outermost array.
    indexes: Box<[u64]>,
}

impl BoundFilter {
    /// Parses a filter and binds it to `traces`; a field that none of them has is an error.
    pub fn new(text: &str, traces: &[Arc<Trace>]) -> Result<BoundFilter, FilterError> {
        let bound = BoundFilter::of_growing(text, traces)?;
        bound.refuse_unknown(traces)?;
        Ok(bound)
    }

    /// Parses a filter and binds it to `traces`, which may get more fields.
    pub fn of_growing(text: &str, traces: &[Arc<Trace>]) -> Result<BoundFilter, FilterError> {
        let filter = Arc::new(Filter::parse(text)?);
        let mut bound = BoundFilter {
            bindings: Vec::new(),
            packet: Gathered::default(),
            packet_of: (usize::MAX, 0),
            event: Gathered::default(),
            filter,
        };
        for trace in traces {
            bound.bind(trace);
        }
        Ok(bound)
    }

    fn bind(&mut self, trace: &Trace) -> Arc<Binding> {
        if self.bindings.len() <= trace.id {
            self.bindings.resize(trace.id + 1, None);
        }
        let binding = Arc::new(Binding::new(&self.filter, trace.decoder().nodes()));
        self.bindings[trace.id] = Some(binding.clone());
        binding
    }

    /// Gives an error if there is a field that none of `traces` has.
    pub fn refuse_unknown(&self, traces: &[Arc<Trace>]) -> Result<(), FilterError> {
        let known = |index: usize, operand: &Operand| {
            operand.pseudo().is_some()
                || operand.kind == OperandKind::Env
                || self.bindings.iter().flatten().any(|binding| binding.knows(index))
        };
        let operands = self.filter.operands().iter().enumerate();
        let unknown = operands.into_iter().find(|(index, operand)| !known(*index, operand));
        let Some((index, operand)) = unknown.filter(|_| !traces.is_empty()) else { return Ok(()) };
        let mut names = BTreeSet::new();
        for node in traces.iter().flat_map(|trace| trace.decoder().nodes()) {
            if scopes(operand.kind).contains(&node.scope) {
                names.extend(node.name.as_deref());
            }
        }
        if operand.kind == OperandKind::Payload {
            names.extend(Pseudo::ALL.iter().map(|pseudo| pseudo.name()));
        }
        Err(FilterError::unknown_field(&self.filter, index, names))
    }

    /// Whether an event passes.
    pub(crate) fn accepts(&mut self, event: &mut Event<'_>) -> bool {
        let trace = event.trace();
        let binding = match self.bindings.get(trace.id) {
            Some(Some(binding)) => binding.clone(),
            _ => self.bind(trace),
        };
        let packet_of = (event.stream_number(), event.packet_number());
        if binding.wants_packet && self.packet_of != packet_of {
            self.packet_of = packet_of;
            self.packet.clear(self.filter.operands().len());
            event.visit_packet_context(&mut Gather::new(&binding, &mut self.packet));
        }
        self.event.clear(self.filter.operands().len());
        if binding.wants_event && !event.visit(&mut Gather::new(&binding, &mut self.event)) {
            return false;
        }
        let labels = &binding.labels;
        let operands = self.filter.operands();
        let (packet, gathered) = (&self.packet, &self.event);
        self.filter.eval(&Answers { event, operands, labels, packet, gathered })
    }
}

/// The scopes in which an operand of a kind is looked up.
fn scopes(kind: OperandKind) -> &'static [Scope] {
    match kind {
        OperandKind::Payload => &[Scope::Payload],
        OperandKind::Context | OperandKind::AppContext => {
            &[Scope::CommonContext, Scope::SpecificContext]
        }
        OperandKind::Packet => &[Scope::PacketContext],
        OperandKind::Pseudo(_) | OperandKind::Env => &[],
    }
}

/// The fields that a pseudo-field is read from, the first that there is.
fn fields_of(pseudo: Pseudo) -> (&'static [Scope], &'static [&'static str]) {
    const CONTEXTS: &[Scope] = &[Scope::CommonContext, Scope::SpecificContext];
    match pseudo {
        Pseudo::Cpu => (
            &[Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext],
            &["cpu_id", "cpu"],
        ),
        Pseudo::Pid => (CONTEXTS, &["vpid", "pid"]),
        Pseudo::Tid => (CONTEXTS, &["vtid", "tid"]),
        Pseudo::Procname => (CONTEXTS, &["procname"]),
        _ => (&[], &[]),
    }
}

impl Binding {
    fn new(filter: &Filter, nodes: &[Node]) -> Binding {
        let mut binding = Binding {
            wanted: Vec::with_capacity(nodes.len()),
            labels: BTreeMap::new(),
            wants_packet: false,
            wants_event: false,
        };
        for node in nodes {
            let way = way(nodes, node);
            let mut wanted = Vec::new();
            for (operand, reference) in filter.operands().iter().enumerate() {
                let direct = scopes(reference.kind).contains(&node.scope);
                if let Some(indexes) = direct.then(|| matches(&reference.path, &way)).flatten() {
                    wanted.push(Wanted { operand, indexes });
                } else if let Some(pseudo) = reference.pseudo() {
                    let (scopes, names) = fields_of(pseudo);
                    let is_one = matches!(way[..], [Way::Name(name)] if names.contains(&name));
                    if is_one && scopes.contains(&node.scope) {
                        wanted.push(Wanted { operand, indexes: Box::new([]) });
                    }
                }
            }
            if !wanted.is_empty() {
                binding.wants_packet |= node.scope == Scope::PacketContext;
                binding.wants_event |= node.scope != Scope::PacketContext;
                binding.labels.extend(EnumLabels::of_node(node).map(|labels| (node.id, labels)));
            }
            binding.wanted.push(wanted.into());
        }
        binding
    }

    fn knows(&self, operand: usize) -> bool {
        self.wanted.iter().flatten().any(|wanted| wanted.operand == operand)
    }
}

/// A step from a scope to a node.
enum Way<'n> {
    Name(&'n str),
    Element,
}

/// The way from a scope to a node, through optionals and variants without a step.
fn way<'n>(nodes: &'n [Node], node: &'n Node) -> Vec<Way<'n>> {
    let mut way = Vec::new();
    let mut current = node;
    while let Some(parent) = current.parent {
        let parent = &nodes[parent as usize];
        match (&parent.kind, current.name.as_deref()) {
            (NodeKind::Struct, Some(name)) => way.push(Way::Name(name)),
            (NodeKind::Array, _) => way.push(Way::Element),
            _ => {}
        }
        current = parent;
    }
    way.reverse();
    way
}

/// The indexes that the elements on the way must have, if the path leads this way.
fn matches(path: &[Step], way: &[Way<'_>]) -> Option<Box<[u64]>> {
    if path.len() != way.len() {
        return None;
    }
    let mut indexes = Vec::new();
    for (step, way) in path.iter().zip(way) {
        match (step, way) {
            (Step::Name(step), Way::Name(name)) if step == name => {}
            (Step::Index(index), Way::Element) => indexes.push(*index),
            _ => return None,
        }
    }
    Some(indexes.into())
}

/// Values of operands, by operand.
#[derive(Clone, Debug, Default)]
struct Gathered {
    values: Vec<Gained>,
    /// Bytes of all strings.
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Gained {
    Nothing,
    Present,
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(Range<usize>),
    /// The value, and which of the binding's labels are its.
    Enum(Integer, u32),
}

impl Gathered {
    fn clear(&mut self, operands: usize) {
        self.bytes.clear();
        self.values.clear();
        self.values.resize(operands, Gained::Nothing);
    }
}

/// Gathers the values of operands.
struct Gather<'g> {
    binding: &'g Binding,
    gathered: &'g mut Gathered,
    indexes: Vec<u64>,
    arrays: Vec<u32>,
}

impl<'g> Gather<'g> {
    fn new(binding: &'g Binding, gathered: &'g mut Gathered) -> Gather<'g> {
        Gather { binding, gathered, indexes: Vec::new(), arrays: Vec::new() }
    }

    #[inline]
    fn value(&mut self, node: &Node, value: impl FnOnce(&mut Gathered) -> Gained) {
        if self.arrays.last().is_some() && self.arrays.last() == node.parent.as_ref() {
            self.next_element();
        }
        let wanted = &self.binding.wanted[node.id as usize];
        if !wanted.is_empty() {
            let value = value(self.gathered);
            for wanted in wanted.iter().filter(|wanted| *wanted.indexes == *self.indexes) {
                self.gathered.values[wanted.operand] = value.clone();
            }
        }
    }

    /// An array's element begins; `u64::MAX` stood for "before the first".
    fn next_element(&mut self) {
        if let Some(index) = self.indexes.last_mut() {
            *index = index.wrapping_add(1);
        }
    }

    fn integer(&mut self, node: &Node, value: Integer) {
        self.value(node, |_| match (&node.kind, value) {
            (
                NodeKind::Int { labels: Some(_), .. } | NodeKind::VarInt { labels: Some(_), .. },
                _,
            ) => Gained::Enum(value, node.id),
            (_, Integer::Signed(value)) => Gained::Int(value),
            (_, Integer::Unsigned(value)) => Gained::Uint(value),
        });
    }

    fn bytes(&mut self, node: &Node, value: &[u8]) {
        self.value(node, |gathered| {
            let start = gathered.bytes.len();
            gathered.bytes.extend_from_slice(value);
            Gained::Str(start..gathered.bytes.len())
        });
    }
}

impl Visitor for Gather<'_> {
    fn restart(&mut self) {
        let operands = self.gathered.values.len();
        self.gathered.clear(operands);
        self.indexes.clear();
        self.arrays.clear();
    }

    fn begin_struct(&mut self, node: &Node) {
        self.value(node, |_| Gained::Present);
    }

    fn begin_array(&mut self, node: &Node, _: u64) {
        self.value(node, |_| Gained::Present);
        self.arrays.push(node.id);
        self.indexes.push(u64::MAX);
    }

    fn end_array(&mut self, _: &Node) {
        self.arrays.pop();
        self.indexes.pop();
    }

    fn begin_optional(&mut self, node: &Node, present: bool) {
        self.value(node, |_| if present { Gained::Present } else { Gained::Nothing });
    }

    fn begin_variant(&mut self, node: &Node, _: usize) {
        self.value(node, |_| Gained::Present);
    }

    fn unsigned(&mut self, node: &Node, value: u64) {
        self.integer(node, Integer::Unsigned(value));
    }

    fn signed(&mut self, node: &Node, value: i64) {
        self.integer(node, Integer::Signed(value));
    }

    fn float(&mut self, node: &Node, value: f64) {
        self.value(node, |_| Gained::Float(value));
    }

    fn string(&mut self, node: &Node, value: &[u8]) {
        match &node.kind {
            NodeKind::String(encoding) if encoding.unit_size() > 1 => {
                self.bytes(node, encoding.decode(value).as_bytes());
            }
            _ => self.bytes(node, value),
        }
    }

    fn blob(&mut self, node: &Node, value: &[u8]) {
        self.bytes(node, value);
    }
}

/// Answers the filter's questions about one event.
struct Answers<'a, 'e> {
    event: &'a Event<'e>,
    operands: &'a [Operand],
    labels: &'a BTreeMap<u32, EnumLabels>,
    packet: &'a Gathered,
    gathered: &'a Gathered,
}

impl Answers<'_, '_> {
    fn gained<'g>(&'g self, gathered: &'g Gathered, operand: usize) -> Option<Value<'g>> {
        Some(match gathered.values.get(operand)? {
            Gained::Nothing => return None,
            Gained::Present => Value::Present,
            Gained::Int(value) => Value::Int(*value),
            Gained::Uint(value) => Value::Uint(*value),
            Gained::Float(value) => Value::Float(*value),
            Gained::Str(range) => Value::Str(&gathered.bytes[range.clone()]),
            Gained::Enum(value, node) => Value::Enum(*value, self.labels.get(node)?),
        })
    }

    fn pseudo(&self, pseudo: Pseudo) -> Option<Value<'_>> {
        match pseudo {
            Pseudo::Name => Some(Value::Str(self.event.class().name.as_ref()?.as_bytes())),
            Pseudo::Time => self.event.time().map(Value::Int),
            Pseudo::Severity => {
                let level = self.event.class().log_level?;
                let known = level.try_into().ok().and_then(Severity::from_number);
                Some(known.map_or(Value::Int(level), Severity::value))
            }
            Pseudo::Stream => self.event.stream().instance.map(Value::Uint),
            Pseudo::Trace => Some(Value::Str(self.event.trace().name.as_bytes())),
            Pseudo::Pid => self.env("vpid"),
            Pseudo::Procname => self.env("procname"),
            Pseudo::Cpu | Pseudo::Tid => None,
        }
    }

    fn env(&self, key: &str) -> Option<Value<'_>> {
        match self.event.trace().schema().trace.env(key)? {
            EnvValue::Int(value) => Some(Value::Int(*value)),
            EnvValue::Str(value) => Some(Value::Str(value.as_bytes())),
        }
    }
}

impl Values for Answers<'_, '_> {
    fn value(&self, operand: usize) -> Value<'_> {
        let gained =
            self.gained(self.gathered, operand).or_else(|| self.gained(self.packet, operand));
        if let Some(value) = gained {
            return value;
        }
        let Some(reference) = self.operands.get(operand) else { return Value::Absent };
        let value = match (reference.kind, &*reference.path) {
            (OperandKind::Env, [Step::Name(key)]) => self.env(key),
            _ => reference.pseudo().and_then(|pseudo| self.pseudo(pseudo)),
        };
        value.unwrap_or(Value::Absent)
    }
}

/// An enumeration's labels, as the filter asks for them.
#[derive(Debug)]
struct EnumLabels {
    labels: NodeLabels,
    /// Bit map: the labels are names of bits.
    of_bits: bool,
}

impl Labels for EnumLabels {
    fn any(&self, value: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        match self.of_bits {
            true => self.labels.flags(value.bits()).any(|label| test(label.as_bytes())),
            false => self.labels.of(value.exact()).any(|label| test(label.as_bytes())),
        }
    }
}

impl EnumLabels {
    fn of_node(node: &Node) -> Option<EnumLabels> {
        let (labels, of_bits) = match &node.kind {
            NodeKind::Int { labels, kind, .. } => (labels, *kind == IntKind::BitMap),
            NodeKind::VarInt { labels, .. } => (labels, false),
            _ => return None,
        };
        Some(EnumLabels { labels: labels.as_ref()?.clone(), of_bits })
    }
}
