//! A span under construction, which is completed to a valid span. Start at [`SpanDraft`].

use crate::error::{Fault, FieldContext, Reason, Result};
use crate::limits::Limits;
use blkkin_model::{AnnotationRef, EndpointRef, Kind, SpanId, SpanRef, Status, TagRef, TraceId};

/// Fields of a span that is being decoded and has not been validated.
#[derive(Debug)]
pub(crate) struct SpanDraft<'b> {
    pub(crate) trace_id: Option<TraceId>,
    pub(crate) id: Option<SpanId>,
    pub(crate) parent_id: Option<SpanId>,
    pub(crate) kind: Kind,
    pub(crate) status: Status,
    pub(crate) debug: bool,
    pub(crate) shared: bool,
    pub(crate) name: &'b str,
    pub(crate) start_ns: Option<u64>,
    pub(crate) duration_ns: Option<u64>,
    pub(crate) local: EndpointRef<'b>,
    pub(crate) remote: EndpointRef<'b>,
    pub(crate) lists: Lists<'b>,
}

/// Annotations and tags of a span. Their memory is reused for the next span.
#[derive(Debug, Default)]
pub(crate) struct Lists<'b> {
    pub(crate) annotations: Vec<AnnotationRef<'b>>,
    pub(crate) tags: Vec<TagRef<'b>>,
}

impl<'b> SpanDraft<'b> {
    #[inline]
    pub(crate) fn new(lists: Lists<'b>) -> SpanDraft<'b> {
        SpanDraft {
            trace_id: None,
            id: None,
            parent_id: None,
            kind: Kind::Unspecified,
            status: Status::Unset,
            debug: false,
            shared: false,
            name: "",
            start_ns: None,
            duration_ns: None,
            local: EndpointRef::NONE,
            remote: EndpointRef::NONE,
            lists,
        }
    }

    /// Checks that the draft has both ids, normalizes it, and borrows it as a span. `offset` is the
    /// start of the span in the batch.
    #[inline]
    pub(crate) fn finish(&mut self, offset: usize) -> Result<SpanRef<'_>, Box<Fault>> {
        let missing = || Reason::Missing.at(offset);
        let trace_id = self.trace_id.ok_or_else(missing).in_field("traceId")?;
        let id = self.id.ok_or_else(missing).in_field("id")?;
        self.lists.normalize();
        Ok(SpanRef {
            trace_id,
            id,
            parent_id: self.parent_id.filter(|parent_id| *parent_id != id),
            kind: self.kind,
            status: self.status,
            debug: self.debug,
            shared: self.shared && self.kind != Kind::Client,
            name: self.name,
            start_ns: self.start_ns,
            duration_ns: self.duration_ns,
            local: self.local,
            remote: self.remote,
            annotations: &self.lists.annotations,
            tags: &self.lists.tags,
        })
    }
}

impl<'b> Lists<'b> {
    /// Takes the lists' memory for the next span and leaves `lists` empty.
    #[inline]
    pub(crate) fn take_memory(lists: &mut Lists<'static>) -> Lists<'b> {
        std::mem::take(lists)
    }

    /// Clears the lists and returns their memory for the next span.
    #[inline]
    pub(crate) fn into_memory(self) -> Lists<'static> {
        Lists { annotations: recycle(self.annotations), tags: recycle(self.tags) }
    }

    /// Adds an annotation. `offset` is the start of the annotation in the batch.
    #[inline]
    pub(crate) fn annotate(
        &mut self,
        annotation: AnnotationRef<'b>,
        limits: &Limits,
        offset: usize,
    ) -> Result<()> {
        if self.annotations.len() >= limits.annotations {
            return Err(too_many("annotations", limits.annotations, offset));
        }
        self.annotations.push(annotation);
        Ok(())
    }

    /// Adds a tag. `offset` is the start of the tag in the batch.
    #[inline]
    pub(crate) fn tag(&mut self, tag: TagRef<'b>, limits: &Limits, offset: usize) -> Result<()> {
        if self.tags.len() >= limits.tags {
            return Err(too_many("tags", limits.tags, offset));
        }
        self.tags.push(tag);
        Ok(())
    }

    /// Sorts annotations and tags and removes duplicates. Of several tags with the same key and
    /// origin, the last tag remains.
    #[inline]
    pub(crate) fn normalize(&mut self) {
        if !self.annotations.is_sorted_by(|a, b| a < b) {
            self.annotations.sort_unstable();
            self.annotations.dedup();
        }
        if !self.tags.is_sorted_by(|a, b| (a.key, a.origin) < (b.key, b.origin)) {
            self.tags.sort_by(|a, b| (a.key, a.origin).cmp(&(b.key, b.origin)));
            self.tags.dedup_by(|later, kept| {
                let same = (later.key, later.origin) == (kept.key, kept.origin);
                if same {
                    *kept = *later;
                }
                same
            });
        }
    }
}

#[cold]
fn too_many(what: &'static str, count_max: usize, offset: usize) -> Box<Fault> {
    Reason::TooMany { what, count_max: count_max as u64 }.at(offset)
}

/// Reuses the memory of a list for references of another lifetime. Collecting an empty list in
/// place retains its allocation.
#[inline]
pub(crate) fn recycle<T, U>(mut list: Vec<T>) -> Vec<U> {
    const { assert!(size_of::<T>() == size_of::<U>() && align_of::<T>() == align_of::<U>()) };
    list.clear();
    list.into_iter().map_while(|_| None).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_model::Origin;

    #[test]
    fn memory_is_used_again() {
        let list: Vec<TagRef<'_>> = Vec::with_capacity(100);
        let place = list.as_ptr() as usize;
        let again: Vec<TagRef<'static>> = recycle(list);
        assert_eq!((again.as_ptr() as usize, again.capacity()), (place, 100));
    }

    #[test]
    fn lists_are_put_in_order() {
        let tag = |key, value, origin| TagRef { origin, ..TagRef::text(key, value) };
        let note = |time_ns, value| AnnotationRef { time_ns, value };
        let mut lists = Lists {
            annotations: vec![note(2, "b"), note(1, "z"), note(2, "a"), note(2, "b")],
            tags: vec![
                tag("b", "1", Origin::Span),
                tag("a", "2", Origin::Span),
                tag("b", "3", Origin::Resource),
                tag("b", "4", Origin::Span),
                tag("", "5", Origin::Span),
                tag("b", "6", Origin::Span),
            ],
        };
        lists.normalize();
        assert_eq!(lists.annotations, [note(1, "z"), note(2, "a"), note(2, "b")]);
        let expected = [
            tag("", "5", Origin::Span),
            tag("a", "2", Origin::Span),
            tag("b", "3", Origin::Resource),
            tag("b", "6", Origin::Span),
        ];
        assert_eq!(lists.tags, expected);
    }
}
