//! Spans of Zipkin's first format, as thrift and JSON have them: times and addresses are annotations
//! there, each with the host that it is said of. `convert` makes of one the spans that it is, one
//! for each host.

mod convert;
#[cfg(test)]
mod tests;

use crate::Limits;
use crate::decoder::{Batch, Stop};
use crate::draft::{Draft, Lists, recycle};
use crate::fault::{Fault, Reason, Result};
use blkkin_model::{AnnotationRef, EndpointRef, SpanId, TagRef, TraceId, ValueRef};
use convert::Part;

/// A span of the first format while it is read.
#[derive(Debug)]
pub(crate) struct V1<'b> {
    pub(crate) trace_id: Option<TraceId>,
    pub(crate) id: Option<SpanId>,
    pub(crate) parent_id: Option<SpanId>,
    pub(crate) name: &'b str,
    pub(crate) debug: bool,
    pub(crate) start_ns: Option<u64>,
    pub(crate) duration_ns: Option<u64>,
    hosts_max: usize,
    lists: V1Lists<'b>,
}

/// A host as it was read, and the bytes that it was read from: in a span, the same bytes come again
/// and again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SameHost<'b> {
    bytes: &'b [u8],
    host: EndpointRef<'b>,
}

impl<'b> SameHost<'b> {
    /// The host, and how many bytes it takes, if these bytes begin as the ones before.
    #[inline]
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<(EndpointRef<'b>, usize)> {
        let is_same = !self.bytes.is_empty() && bytes.starts_with(self.bytes);
        is_same.then_some((self.host, self.bytes.len()))
    }

    /// Remembers a host. From its first byte to its last one, nothing else can follow.
    #[inline]
    pub(crate) fn note(&mut self, bytes: &'b [u8], host: EndpointRef<'b>) {
        *self = SameHost { bytes, host };
    }
}

/// What happened, and at which host.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moment<'b> {
    note: AnnotationRef<'b>,
    host: EndpointRef<'b>,
    part: usize,
}

/// What is known, and of which host.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fact<'b> {
    tag: TagRef<'b>,
    host: EndpointRef<'b>,
    part: usize,
}

/// The lists of such a span. Their memory goes from span to span.
#[derive(Debug, Default)]
pub(crate) struct V1Lists<'b> {
    moments: Vec<Moment<'b>>,
    facts: Vec<Fact<'b>>,
    parts: Vec<Part<'b>>,
}

impl<'b> V1<'b> {
    #[inline]
    pub(crate) fn new(lists: V1Lists<'b>) -> V1<'b> {
        V1 {
            trace_id: None,
            id: None,
            parent_id: None,
            name: "",
            debug: false,
            start_ns: None,
            duration_ns: None,
            hosts_max: 0,
            lists,
        }
    }

    /// Adds an annotation that is at `offset`.
    #[inline]
    pub(crate) fn annotate(
        &mut self,
        note: AnnotationRef<'b>,
        host: EndpointRef<'b>,
        limits: &Limits,
        offset: usize,
    ) -> Result<()> {
        if self.lists.moments.len() >= limits.annotations {
            return Err(too_many("annotations", limits.annotations, offset));
        }
        self.lists.moments.push(Moment { note, host, part: 0 });
        Ok(())
    }

    /// Adds a binary annotation that is at `offset`.
    #[inline]
    pub(crate) fn tag(
        &mut self,
        (key, value): (&'b str, ValueRef<'b>),
        host: EndpointRef<'b>,
        limits: &Limits,
        offset: usize,
    ) -> Result<()> {
        if self.lists.facts.len() >= limits.tags {
            return Err(too_many("tags", limits.tags, offset));
        }
        let tag = TagRef { value, ..TagRef::text(key, "") };
        self.lists.facts.push(Fact { tag, host, part: 0 });
        Ok(())
    }

    /// Gives away the spans that it is. `offset` is where it starts.
    pub(crate) fn give(
        &mut self,
        scratch: &mut Lists<'static>,
        batch: &mut Batch<'_>,
        offset: usize,
    ) -> Result<(), Stop> {
        if let Err(fault) = self.convert(batch.limits, offset) {
            batch.refuse(*fault);
            return Ok(());
        }
        for part in 0..self.lists.parts.len() {
            let mut draft = self.part(part, Lists::lend(scratch));
            let given = match draft.finish(offset) {
                Ok(span) => batch.give(&span, offset),
                // The ids, which all parts have in common.
                Err(fault) => {
                    batch.refuse(*fault);
                    *scratch = draft.lists.give_back();
                    return Ok(());
                }
            };
            *scratch = draft.lists.give_back();
            given?;
        }
        batch.next();
        Ok(())
    }

    /// The span of a host.
    fn part(&self, index: usize, mut lists: Lists<'b>) -> Draft<'b> {
        let here = |part: usize| part == index;
        let moments = self.lists.moments.iter().filter(|it| here(it.part));
        lists.annotations.extend(moments.map(|it| it.note));
        let facts = self.lists.facts.iter().filter(|it| here(it.part));
        lists.tags.extend(facts.map(|it| it.tag));
        let part = self.lists.parts[index];
        Draft {
            trace_id: self.trace_id,
            id: self.id,
            parent_id: self.parent_id,
            kind: part.kind,
            debug: self.debug,
            shared: part.shared,
            name: self.name,
            start_ns: part.start_ns,
            duration_ns: part.duration_ns,
            local: part.local,
            remote: part.remote,
            ..Draft::new(lists)
        }
    }

    /// Gives the memory back.
    #[inline]
    pub(crate) fn give_back(self) -> V1Lists<'static> {
        V1Lists {
            moments: recycle(self.lists.moments),
            facts: recycle(self.lists.facts),
            parts: recycle(self.lists.parts),
        }
    }
}

impl<'b> V1Lists<'b> {
    /// Lends the memory.
    #[inline]
    pub(crate) fn lend(lists: &mut V1Lists<'static>) -> V1Lists<'b> {
        std::mem::take(lists)
    }
}

#[cold]
fn too_many(what: &'static str, count_max: usize, offset: usize) -> Box<Fault> {
    Reason::TooMany { what, count_max: count_max as u64 }.at(offset)
}
