//! Filter expressions bound to the event classes of the traces that are read.
//!
//! Binding finds the operands of the filter among the decoder's nodes, which are the fields of
//! event classes and packet contexts. This is done once for each trace. For each event, one walk
//! over the fields collects the values of these nodes, with strings copied into one buffer, and the
//! filter is evaluated on the values. The walk is omitted if no field of events is an operand.
//! Values in the packet's context are collected only if the previous event was in another packet.

use crate::event::Event;
use crate::trace::Trace;
use blkkin_ctf::decode::{Node, NodeKind, NodeLabels, Visitor};
use blkkin_ctf::schema::{EnvValue, IntKind, Scope};
use blkkin_filter::{
    Filter, FilterError, Integer, Labels, Operand, OperandKind, PseudoField, Severity, Step, Value,
    Values,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Filter with operands that are bound to the fields of a reading's traces.
#[derive(Clone, Debug)]
pub struct BoundFilter {
    filter: Arc<Filter>,
    /// Bindings of the filter, by trace id; `None` for a trace that is not bound yet.
    bindings: Vec<Option<Arc<Binding>>>,
    packet: OperandValues,
    /// Stream number and packet number of the packet to which the values in `packet` belong.
    packet_of: (usize, u64),
    event: OperandValues,
}

/// Result of binding a filter to one trace: the nodes that are operands.
#[derive(Debug)]
struct Binding {
    /// Operands whose value a node provides, by node id; most nodes provide none.
    uses: Vec<Box<[OperandUse]>>,
    /// Labels of enumerations and bit maps that are operands, by node id.
    labels: BTreeMap<u32, EnumLabels>,
    needs_packet: bool,
    needs_event: bool,
}

/// Operand of the filter whose value a node provides.
#[derive(Clone, Debug)]
struct OperandUse {
    operand: usize,
    /// Index of the required element in each array on the node's path, the outermost array first.
    indexes: Box<[u64]>,
}

impl BoundFilter {
    /// Parses a filter and binds it to `traces`. Returns an error if the filter is invalid, or
    /// names a field that none of the traces has. Without traces, a filter may name any field.
    pub fn new(text: &str, traces: &[Arc<Trace>]) -> Result<BoundFilter, FilterError> {
        let bound = BoundFilter::of_growing(text, traces)?;
        bound.refuse_unknown(traces)?;
        Ok(bound)
    }

    /// Parses a filter and binds it to `traces`. The filter may name fields that only newer
    /// metadata will add.
    pub fn of_growing(text: &str, traces: &[Arc<Trace>]) -> Result<BoundFilter, FilterError> {
        let filter = Arc::new(Filter::parse(text)?);
        let mut bound = BoundFilter {
            bindings: Vec::new(),
            packet: OperandValues::default(),
            packet_of: (usize::MAX, 0),
            event: OperandValues::default(),
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

    /// Returns an error if the filter names a field that no bound trace has. The error may suggest
    /// a name from `traces`; without traces, there is no error.
    pub fn refuse_unknown(&self, traces: &[Arc<Trace>]) -> Result<(), FilterError> {
        let known = |index: usize, operand: &Operand| {
            operand.pseudo().is_some()
                || operand.kind == OperandKind::Env
                || self.bindings.iter().flatten().any(|binding| binding.has_operand(index))
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
            names.extend(PseudoField::ALL.iter().map(|pseudo| pseudo.name()));
        }
        Err(FilterError::unknown_field(&self.filter, index, names))
    }

    /// Returns true if the filter selects the event. Returns false also if the filter uses fields
    /// of the event and the event cannot be decoded.
    pub(crate) fn accepts(&mut self, event: &mut Event<'_>) -> bool {
        let trace = event.trace();
        let binding = match self.bindings.get(trace.id) {
            Some(Some(binding)) => binding.clone(),
            _ => self.bind(trace),
        };
        let packet_of = (event.stream_number(), event.packet_number());
        if binding.needs_packet && self.packet_of != packet_of {
            self.packet_of = packet_of;
            self.packet.clear(self.filter.operands().len());
            event.visit_packet_context(&mut OperandVisitor::new(&binding, &mut self.packet));
        }
        self.event.clear(self.filter.operands().len());
        if binding.needs_event && !event.visit(&mut OperandVisitor::new(&binding, &mut self.event))
        {
            return false;
        }
        let labels = &binding.labels;
        let operands = self.filter.operands();
        // The values may be those of another trace's packet.
        let packet = binding.needs_packet.then_some(&self.packet);
        let values = &self.event;
        self.filter.eval(&EventValues { event, operands, labels, packet, values })
    }
}

/// Returns the scopes in which an operand of this kind is looked up.
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

/// Returns the scopes and names of the fields that can provide the value of a pseudo-field.
fn fields_of(pseudo: PseudoField) -> (&'static [Scope], &'static [&'static str]) {
    const CONTEXTS: &[Scope] = &[Scope::CommonContext, Scope::SpecificContext];
    match pseudo {
        PseudoField::Cpu => (
            &[Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext],
            &["cpu_id", "cpu"],
        ),
        PseudoField::Pid => (CONTEXTS, &["vpid", "pid"]),
        PseudoField::Tid => (CONTEXTS, &["vtid", "tid"]),
        PseudoField::Procname => (CONTEXTS, &["procname"]),
        _ => (&[], &[]),
    }
}

impl Binding {
    fn new(filter: &Filter, nodes: &[Node]) -> Binding {
        let mut binding = Binding {
            uses: Vec::with_capacity(nodes.len()),
            labels: BTreeMap::new(),
            needs_packet: false,
            needs_event: false,
        };
        for node in nodes {
            let node_path = node_path(nodes, node);
            let mut uses = Vec::new();
            for (operand, reference) in filter.operands().iter().enumerate() {
                let direct = scopes(reference.kind).contains(&node.scope);
                if let Some(indexes) =
                    direct.then(|| matches(&reference.path, &node_path)).flatten()
                {
                    uses.push(OperandUse { operand, indexes });
                } else if let Some(pseudo) = reference.pseudo() {
                    let (scopes, names) = fields_of(pseudo);
                    let is_named =
                        matches!(node_path[..], [PathStep::Name(name)] if names.contains(&name));
                    if is_named && scopes.contains(&node.scope) {
                        uses.push(OperandUse { operand, indexes: Box::new([]) });
                    }
                }
            }
            if !uses.is_empty() {
                binding.needs_packet |= node.scope == Scope::PacketContext;
                binding.needs_event |= node.scope != Scope::PacketContext;
                binding.labels.extend(EnumLabels::of_node(node).map(|labels| (node.id, labels)));
            }
            binding.uses.push(uses.into());
        }
        binding
    }

    fn has_operand(&self, operand: usize) -> bool {
        self.uses.iter().flatten().any(|one| one.operand == operand)
    }
}

/// Step on the path from a scope's root to a node.
enum PathStep<'n> {
    Name(&'n str),
    Element,
}

/// Returns the path from a scope's root to a node. Optional fields and variants add no step.
fn node_path<'n>(nodes: &'n [Node], node: &'n Node) -> Vec<PathStep<'n>> {
    let mut steps = Vec::new();
    let mut current = node;
    while let Some(parent) = current.parent {
        let parent = &nodes[parent as usize];
        match (&parent.kind, current.name.as_deref()) {
            (NodeKind::Struct, Some(name)) => steps.push(PathStep::Name(name)),
            (NodeKind::Array, _) => steps.push(PathStep::Element),
            _ => {}
        }
        current = parent;
    }
    steps.reverse();
    steps
}

/// Matches an operand's path against a node's path. Returns the index of the required element in
/// each array on the path, or `None` if `path` leads to another node.
fn matches(path: &[Step], node_path: &[PathStep<'_>]) -> Option<Box<[u64]>> {
    if path.len() != node_path.len() {
        return None;
    }
    let mut indexes = Vec::new();
    for (step, node_step) in path.iter().zip(node_path) {
        match (step, node_step) {
            (Step::Name(step), PathStep::Name(name)) if step == name => {}
            (Step::Index(index), PathStep::Element) => indexes.push(*index),
            _ => return None,
        }
    }
    Some(indexes.into())
}

/// Values of the filter's operands in one event or packet context.
#[derive(Clone, Debug, Default)]
struct OperandValues {
    by_operand: Vec<OperandValue>,
    /// Bytes of all strings and blobs, one after the other.
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum OperandValue {
    Nothing,
    Present,
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(Range<usize>),
    /// Value of an enumeration or bit map, and id of the node with its labels.
    Enum(Integer, u32),
}

impl OperandValues {
    fn clear(&mut self, operands: usize) {
        self.bytes.clear();
        self.by_operand.clear();
        self.by_operand.resize(operands, OperandValue::Nothing);
    }
}

/// Visitor that collects the values of the operands in an event or packet context.
struct OperandVisitor<'g> {
    binding: &'g Binding,
    values: &'g mut OperandValues,
    indexes: Vec<u64>,
    arrays: Vec<u32>,
}

impl<'g> OperandVisitor<'g> {
    fn new(binding: &'g Binding, values: &'g mut OperandValues) -> OperandVisitor<'g> {
        OperandVisitor { binding, values, indexes: Vec::new(), arrays: Vec::new() }
    }

    #[inline]
    fn value(&mut self, node: &Node, value: impl FnOnce(&mut OperandValues) -> OperandValue) {
        if self.arrays.last().is_some() && self.arrays.last() == node.parent.as_ref() {
            self.next_element();
        }
        let uses = &self.binding.uses[node.id as usize];
        if !uses.is_empty() {
            let value = value(self.values);
            for operand_use in uses.iter().filter(|one| *one.indexes == *self.indexes) {
                self.values.by_operand[operand_use.operand] = value.clone();
            }
        }
    }

    /// Advances to the next element of the innermost array. Before the first element the index is
    /// `u64::MAX`.
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
            ) => OperandValue::Enum(value, node.id),
            (_, Integer::Signed(value)) => OperandValue::Int(value),
            (_, Integer::Unsigned(value)) => OperandValue::Uint(value),
        });
    }

    fn bytes(&mut self, node: &Node, value: &[u8]) {
        self.value(node, |values| {
            let start = values.bytes.len();
            values.bytes.extend_from_slice(value);
            OperandValue::Str(start..values.bytes.len())
        });
    }
}

impl Visitor for OperandVisitor<'_> {
    fn restart(&mut self) {
        let operands = self.values.by_operand.len();
        self.values.clear(operands);
        self.indexes.clear();
        self.arrays.clear();
    }

    fn begin_struct(&mut self, node: &Node) {
        self.value(node, |_| OperandValue::Present);
    }

    fn begin_array(&mut self, node: &Node, _: u64) {
        self.value(node, |_| OperandValue::Present);
        self.arrays.push(node.id);
        self.indexes.push(u64::MAX);
    }

    fn end_array(&mut self, _: &Node) {
        self.arrays.pop();
        self.indexes.pop();
    }

    fn begin_optional(&mut self, node: &Node, present: bool) {
        self.value(node, |_| if present { OperandValue::Present } else { OperandValue::Nothing });
    }

    fn begin_variant(&mut self, node: &Node, _: usize) {
        self.value(node, |_| OperandValue::Present);
    }

    fn unsigned(&mut self, node: &Node, value: u64) {
        self.integer(node, Integer::Unsigned(value));
    }

    fn signed(&mut self, node: &Node, value: i64) {
        self.integer(node, Integer::Signed(value));
    }

    fn float(&mut self, node: &Node, value: f64) {
        self.value(node, |_| OperandValue::Float(value));
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

/// Values of the operands in one event, in the form that the filter evaluates.
struct EventValues<'a, 'e> {
    event: &'a Event<'e>,
    operands: &'a [Operand],
    labels: &'a BTreeMap<u32, EnumLabels>,
    packet: Option<&'a OperandValues>,
    values: &'a OperandValues,
}

impl EventValues<'_, '_> {
    fn operand_value<'g>(&'g self, values: &'g OperandValues, operand: usize) -> Option<Value<'g>> {
        Some(match values.by_operand.get(operand)? {
            OperandValue::Nothing => return None,
            OperandValue::Present => Value::Present,
            OperandValue::Int(value) => Value::Int(*value),
            OperandValue::Uint(value) => Value::Uint(*value),
            OperandValue::Float(value) => Value::Float(*value),
            OperandValue::Str(range) => Value::Str(&values.bytes[range.clone()]),
            OperandValue::Enum(value, node) => Value::Enum(*value, self.labels.get(node)?),
        })
    }

    fn pseudo(&self, pseudo: PseudoField) -> Option<Value<'_>> {
        match pseudo {
            PseudoField::Name => Some(Value::Str(self.event.class().name.as_ref()?.as_bytes())),
            PseudoField::Time => self.event.time().map(Value::Int),
            PseudoField::Severity => {
                let level = self.event.class().log_level?;
                let known = level.try_into().ok().and_then(Severity::from_number);
                Some(known.map_or(Value::Int(level), Severity::value))
            }
            PseudoField::Stream => self.event.stream().instance.map(Value::Uint),
            PseudoField::Trace => Some(Value::Str(self.event.trace().name.as_bytes())),
            PseudoField::Pid => self.env("vpid"),
            PseudoField::Procname => self.env("procname"),
            PseudoField::Cpu | PseudoField::Tid => None,
        }
    }

    fn env(&self, key: &str) -> Option<Value<'_>> {
        match self.event.trace().schema().trace.env(key)? {
            EnvValue::Int(value) => Some(Value::Int(*value)),
            EnvValue::Str(value) => Some(Value::Str(value.as_bytes())),
        }
    }
}

impl Values for EventValues<'_, '_> {
    fn value(&self, operand: usize) -> Value<'_> {
        let operand_value = self
            .operand_value(self.values, operand)
            .or_else(|| self.operand_value(self.packet?, operand));
        if let Some(value) = operand_value {
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

/// Labels of an enumeration or a bit map, which the filter compares with text.
#[derive(Debug)]
struct EnumLabels {
    labels: NodeLabels,
    /// Set for a bit map, in which a label names a set of bits.
    is_bit_map: bool,
}

impl Labels for EnumLabels {
    fn any(&self, value: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        match self.is_bit_map {
            true => self.labels.flags(value.bits()).any(|label| test(label.as_bytes())),
            false => self.labels.of(value.exact()).any(|label| test(label.as_bytes())),
        }
    }
}

impl EnumLabels {
    fn of_node(node: &Node) -> Option<EnumLabels> {
        let (labels, is_bit_map) = match &node.kind {
            NodeKind::Int { labels, kind, .. } => (labels, *kind == IntKind::BitMap),
            NodeKind::VarInt { labels, .. } => (labels, false),
            _ => return None,
        };
        Some(EnumLabels { labels: labels.as_ref()?.clone(), is_bit_map })
    }
}
