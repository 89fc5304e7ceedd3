//! Fields as text, in a form that is the same for a field and for its counterpart in the other
//! version.

use crate::decode::{Node, NodeKind, Visitor};
use crate::schema::Scope;

#[derive(Default)]
pub(super) struct Shown {
    pub(super) text: String,
}

impl Visitor for Shown {
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
        // Tags added for the other version are not in the original.
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
