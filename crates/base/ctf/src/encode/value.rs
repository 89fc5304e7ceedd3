//! Fields as a tree of values, for producers of single events and for tests.

use super::error::EncodeError;
use crate::decode::{Node, NodeKind, Visitor};
use crate::schema::Scope;

/// Value of a field to encode, or of a decoded field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An unsigned integer, a boolean, or the bits of a bit array or bit map.
    Unsigned(u64),
    /// A signed integer of at most 64 bits.
    Signed(i64),
    /// A floating-point number, whatever the format of its field.
    Float(f64),
    /// A string, in the encoding of its node.
    String(Vec<u8>),
    /// The bytes of a blob.
    Blob(Vec<u8>),
    /// A structure, by the values of its visible members in order.
    Struct(Vec<Value>),
    /// An array, by the values of its elements in order.
    Array(Vec<Value>),
    /// An optional, with its content; `None` if the content is absent or not visible.
    Optional(Option<Box<Value>>),
    /// A variant, by the index and the value of the selected option.
    Variant(usize, Box<Value>),
}

impl Value {
    /// Passes the value of a scope to `visitor`. `nodes` are the nodes of the decoder for which the
    /// encoder was made; `root` is the id of the scope's node among them.
    pub fn visit(
        &self,
        nodes: &[Node],
        root: u32,
        visitor: &mut impl Visitor,
    ) -> Result<(), EncodeError> {
        let node = nodes.get(root as usize).ok_or_else(|| class_mismatch(None))?;
        let Value::Struct(members) = self else { return Err(class_mismatch(Some(node))) };
        visitor.begin_scope(node.scope, node);
        self::members(members, nodes, node, visitor)?;
        visitor.end_scope(node.scope);
        Ok(())
    }

    fn field(
        &self,
        nodes: &[Node],
        node: &Node,
        visitor: &mut impl Visitor,
    ) -> Result<(), EncodeError> {
        match (self, &node.kind) {
            (Value::Unsigned(value), NodeKind::Int { .. } | NodeKind::VarInt { .. }) => {
                visitor.unsigned(node, *value);
            }
            (Value::Signed(value), NodeKind::Int { .. } | NodeKind::VarInt { .. }) => {
                visitor.signed(node, *value);
            }
            (Value::Float(value), NodeKind::Float) => visitor.float(node, *value),
            (Value::String(value), NodeKind::String(_)) => visitor.string(node, value),
            (Value::Blob(value), NodeKind::Blob) => visitor.blob(node, value),
            (Value::Struct(values), NodeKind::Struct) => {
                visitor.begin_struct(node);
                members(values, nodes, node, visitor)?;
                visitor.end_struct(node);
            }
            (Value::Array(values), NodeKind::Array) => {
                visitor.begin_array(node, values.len() as u64);
                for value in values {
                    value.field(nodes, child(nodes, node, 0)?, visitor)?;
                }
                visitor.end_array(node);
            }
            (Value::Optional(value), NodeKind::Optional) => {
                visitor.begin_optional(node, value.is_some());
                if let Some(value) = value {
                    value.field(nodes, child(nodes, node, 0)?, visitor)?;
                }
                visitor.end_optional(node);
            }
            (Value::Variant(option, value), NodeKind::Variant { .. }) => {
                visitor.begin_variant(node, *option);
                value.field(nodes, child(nodes, node, *option)?, visitor)?;
                visitor.end_variant(node);
            }
            _ => return Err(class_mismatch(Some(node))),
        }
        Ok(())
    }
}

fn members(
    values: &[Value],
    nodes: &[Node],
    parent: &Node,
    visitor: &mut impl Visitor,
) -> Result<(), EncodeError> {
    let mut children = children(nodes, parent);
    for value in values {
        value.field(
            nodes,
            children.next().ok_or_else(|| class_mismatch(Some(parent)))?,
            visitor,
        )?;
    }
    match children.next() {
        None => Ok(()),
        Some(missing) => Err(class_mismatch(Some(missing))),
    }
}

/// Iterates over the children of `parent`. They directly follow their parent in `nodes`,
/// interleaved with their own descendants.
fn children<'n>(nodes: &'n [Node], parent: &Node) -> impl Iterator<Item = &'n Node> {
    let id = parent.id;
    let within = move |node: &&Node| node.parent.is_some_and(|parent| parent >= id);
    let after = nodes.get(id as usize + 1..).unwrap_or_default().iter();
    after.take_while(within).filter(move |node| node.parent == Some(id))
}

fn child<'n>(nodes: &'n [Node], parent: &Node, index: usize) -> Result<&'n Node, EncodeError> {
    children(nodes, parent).nth(index).ok_or_else(|| class_mismatch(Some(parent)))
}

fn class_mismatch(node: Option<&Node>) -> EncodeError {
    EncodeError::new(match node.and_then(|node| node.name.as_deref()) {
        Some(name) => format!("the value does not go with the class of field `{name}`"),
        None => "the value does not go with the field's class".to_owned(),
    })
}

/// A visitor that collects fields as values.
#[derive(Debug, Default)]
pub struct ValueCollector {
    /// Scopes visited so far, with their values.
    pub scopes: Vec<(Scope, Value)>,
    /// Values in the unfinished compound fields, the outermost field first.
    open: Vec<Vec<Value>>,
    options: Vec<usize>,
}

impl ValueCollector {
    fn add(&mut self, value: Value) {
        if let Some(open) = self.open.last_mut() {
            open.push(value);
        }
    }

    fn begin(&mut self) {
        self.open.push(Vec::new());
    }

    fn end(&mut self) -> Vec<Value> {
        self.open.pop().unwrap_or_default()
    }
}

impl Visitor for ValueCollector {
    fn restart(&mut self) {
        *self = ValueCollector::default();
    }
    fn begin_scope(&mut self, _: Scope, _: &Node) {
        self.begin();
    }
    fn end_scope(&mut self, scope: Scope) {
        if let Some(members) = self.open.pop() {
            self.scopes.push((scope, Value::Struct(members)));
        }
    }
    fn begin_struct(&mut self, _: &Node) {
        self.begin();
    }
    fn end_struct(&mut self, _: &Node) {
        let members = self.end();
        self.add(Value::Struct(members));
    }
    fn begin_array(&mut self, _: &Node, _: u64) {
        self.begin();
    }
    fn end_array(&mut self, _: &Node) {
        let elements = self.end();
        self.add(Value::Array(elements));
    }
    fn begin_optional(&mut self, _: &Node, _: bool) {
        self.begin();
    }
    fn end_optional(&mut self, _: &Node) {
        let content = self.end().pop().map(Box::new);
        self.add(Value::Optional(content));
    }
    fn begin_variant(&mut self, _: &Node, option: usize) {
        self.begin();
        self.options.push(option);
    }
    fn end_variant(&mut self, _: &Node) {
        let value = self.end().pop();
        if let (Some(option), Some(value)) = (self.options.pop(), value) {
            self.add(Value::Variant(option, Box::new(value)));
        }
    }
    fn unsigned(&mut self, _: &Node, value: u64) {
        self.add(Value::Unsigned(value));
    }
    fn signed(&mut self, _: &Node, value: i64) {
        self.add(Value::Signed(value));
    }
    fn float(&mut self, _: &Node, value: f64) {
        self.add(Value::Float(value));
    }
    fn string(&mut self, _: &Node, value: &[u8]) {
        self.add(Value::String(value.to_vec()));
    }
    fn blob(&mut self, _: &Node, value: &[u8]) {
        self.add(Value::Blob(value.to_vec()));
    }
}
