//! The interface to consumers of decoded fields.

use super::node::Node;
use crate::schema::Scope;

/// Receiver of the visible fields of an event or packet context, in the order of their bytes.
///
/// Every `begin_…` is followed by its `end_…`, unless the walk stops early. Strings and blobs
/// borrow the packet's bytes. The default methods ignore their fields.
#[allow(unused_variables, reason = "the names are for whoever writes a visitor")]
pub trait Visitor {
    /// True if the visitor receives fields. Otherwise the decoder visits no field, and skips runs
    /// of fields in one step.
    const USES_VALUES: bool = true;

    /// Discards the fields received since the event's start, because the view ended within the
    /// event. The decoder then visits the event again from its first field. This happens rarely.
    fn restart(&mut self);
    /// Starts a scope; `node` is its structure, whose members follow.
    fn begin_scope(&mut self, scope: Scope, node: &Node) {}
    /// Ends the scope, after all of its members.
    fn end_scope(&mut self, scope: Scope) {}
    /// Starts a structure, whose members follow.
    fn begin_struct(&mut self, node: &Node) {}
    /// Ends the structure, after all of its members.
    fn end_struct(&mut self, node: &Node) {}
    /// Starts an array, whose `length` elements follow.
    fn begin_array(&mut self, node: &Node, length: u64) {}
    /// Ends the array, after all of its elements.
    fn end_array(&mut self, node: &Node) {}
    /// Starts an optional. If `present`, its content follows, unless the content is hidden.
    fn begin_optional(&mut self, node: &Node, present: bool) {}
    /// Ends the optional, after its content if that is present.
    fn end_optional(&mut self, node: &Node) {}
    /// Starts a variant; the option with the index `option` in the schema follows.
    fn begin_variant(&mut self, node: &Node, option: usize) {}
    /// Ends the variant, after its selected option.
    fn end_variant(&mut self, node: &Node) {}
    /// Receives an unsigned integer, a boolean, or the bits of a bit array or bit map.
    fn unsigned(&mut self, node: &Node, value: u64) {}
    /// Receives a signed integer of at most 64 bits.
    fn signed(&mut self, node: &Node, value: i64) {}
    /// Receives a floating-point number of any width, converted to `f64`.
    fn float(&mut self, node: &Node, value: f64) {}
    /// Receives a string in the node's encoding, without terminator and padding. The decoder does
    /// not check the string's validity.
    fn string(&mut self, node: &Node, value: &[u8]) {}
    /// Receives the bytes of a blob.
    fn blob(&mut self, node: &Node, value: &[u8]) {}
}

/// A visitor that ignores all fields, for finding the end of an event.
#[derive(Debug)]
pub struct NullVisitor;

impl Visitor for NullVisitor {
    const USES_VALUES: bool = false;

    fn restart(&mut self) {}
}
