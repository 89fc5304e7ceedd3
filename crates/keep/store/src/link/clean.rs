//! Step 1 of linking: turns spans into nodes. Start at `Linker::merge_parts`.

use super::nodes::{Linker, Node, call_or_message};
use blkkin_model::{Kind, SpanRef};
use std::cmp::Ordering;

impl Linker {
    pub(super) fn merge_parts(&mut self, spans: &[SpanRef<'_>], counts: impl Fn(usize) -> bool) {
        let Linker { order, nodes, .. } = self;
        order.clear();
        order.extend(0..spans.len());
        order.sort_unstable_by(|&one, &other| compare_parts(&spans[one], &spans[other]));
        nodes.clear();
        for &at in order.iter() {
            let span = &spans[at];
            let counts = counts(at);
            match nodes.last_mut().filter(|last| last.is_part(span, spans)) {
                Some(last) => last.merge(at, span, counts),
                None => nodes.push(Node::new(at, span, counts)),
            }
        }
        for at in 1..nodes.len() {
            let (before, from_here) = nodes.split_at_mut(at);
            if let (Some(last), Some(node)) = (before.last(), from_here.first_mut()) {
                node.inherit(last);
            }
        }
    }
}

/// Compares spans by id, shared flag and kind, then by endpoint, then by the remaining fields.
/// Unshared client spans precede all other spans with the same id, and shared spans come last. The
/// order does not depend on the order in which spans arrive.
fn compare_parts(one: &SpanRef<'_>, other: &SpanRef<'_>) -> Ordering {
    let key = |span: &SpanRef<'_>| {
        let is_client = span.kind == Kind::Client;
        (span.id, span.shared, !span.shared && !is_client, !span.local.is_none())
    };
    key(one).cmp(&key(other)).then_with(|| {
        let (here, there) = (one.local, other.local);
        let names = (here.service.is_empty(), there.service.is_empty());
        names
            .0
            .cmp(&names.1)
            .then_with(|| lower(here.service).cmp(lower(there.service)))
            .then_with(|| none_last(here.ipv4, there.ipv4))
            .then_with(|| none_last(here.ipv6, there.ipv6))
            .then_with(|| remaining_fields(one).cmp(&remaining_fields(other)))
    })
}

/// Returns a sort key of those fields that linking needs and [`compare_parts`] has not compared.
/// The linker reads no other fields, so spans with equal keys are interchangeable.
fn remaining_fields<'a>(span: &SpanRef<'a>) -> impl Ord + use<'a> {
    let parent = span.parent_id.map(|id| id.number());
    let times = (span.start_ns, span.duration_ns);
    (
        times,
        parent,
        call_or_message(span.kind),
        span.is_error(),
        span.remote.service,
        span.local.port,
    )
}

fn none_last<T: Ord>(one: Option<T>, other: Option<T>) -> Ordering {
    (one.is_none(), one).cmp(&(other.is_none(), other))
}

fn lower(text: &str) -> impl Iterator<Item = u8> {
    text.bytes().map(|byte| byte.to_ascii_lowercase())
}
