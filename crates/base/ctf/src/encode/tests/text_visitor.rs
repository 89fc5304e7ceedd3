//! A visitor that prints fields as text. A field and its counterpart in the other version of CTF
//! give equal text, except for an absent optional: CTF 1.8 has an empty structure in its place.

use crate::decode::{Node, NodeKind, Visitor};
use crate::schema::Scope;

#[derive(Default)]
pub(super) struct TextVisitor {
    pub(super) text: String,
}

impl Visitor for TextVisitor {
    fn restart(&mut self) {
        self.text.clear();
    }
    fn begin_scope(&mut self, scope: Scope, _: &Node) {
        self.text.push_str(&format!(" {scope:?}("));
    }
    fn end_scope(&mut self, _: Scope) {
        self.text.push(')');
    }
    fn begin_struct(&mut self, _: &Node) {
        self.text.push('{');
    }
    fn end_struct(&mut self, _: &Node) {
        self.text.push('}');
    }
    fn begin_array(&mut self, _: &Node, _: u64) {
        self.text.push('[');
    }
    fn end_array(&mut self, _: &Node) {
        self.text.push(']');
    }
    fn begin_optional(&mut self, _: &Node, _: bool) {
        self.text.push('<');
    }
    fn end_optional(&mut self, _: &Node) {
        self.text.push('>');
    }
    fn begin_variant(&mut self, _: &Node, _: usize) {
        self.text.push('<');
    }
    fn end_variant(&mut self, _: &Node) {
        self.text.push('>');
    }
    fn unsigned(&mut self, node: &Node, value: u64) {
        // The conversion adds tags, which the original does not have.
        if !node.name.as_deref().is_some_and(|name| name.ends_with("_tag")) {
            self.text.push_str(&format!("u{value} "));
        }
    }
    fn signed(&mut self, _: &Node, value: i64) {
        self.text.push_str(&format!("s{value} "));
    }
    fn float(&mut self, _: &Node, value: f64) {
        self.text.push_str(&format!("f{value:?} "));
    }
    fn string(&mut self, node: &Node, value: &[u8]) {
        let NodeKind::String(encoding) = node.kind else { panic!("{node:?}") };
        self.text.push_str(&format!("{:?} ", encoding.decode(value)));
    }
    fn blob(&mut self, _: &Node, value: &[u8]) {
        self.text.push('[');
        for byte in value {
            self.text.push_str(&format!("u{byte} "));
        }
        self.text.push(']');
    }
}
