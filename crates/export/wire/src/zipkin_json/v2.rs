//! Zipkin's second format as JSON.

use super::{endpoint, open_batch};
use crate::decoder::{Batch, Scratch, Stop};
use crate::draft::{Draft, Lists};
use crate::fault::{Reason, Result, Within};
use crate::json::{Reader, Refused, keys, spans};
use crate::texts::Texts;
use blkkin_model::{AnnotationRef, Kind, TagRef};

keys! {
    /// Keys of a span.
    span {
        TRACE_ID = "traceId",
        PARENT_ID = "parentId",
        ID = "id",
        KIND = "kind",
        NAME = "name",
        TIMESTAMP = "timestamp",
        DURATION = "duration",
        LOCAL_ENDPOINT = "localEndpoint",
        REMOTE_ENDPOINT = "remoteEndpoint",
        ANNOTATIONS = "annotations",
        TAGS = "tags",
        DEBUG = "debug",
        SHARED = "shared",
    }
    /// Keys of an annotation.
    annotation { TIMESTAMP = "timestamp", VALUE = "value", }
}

/// In what order a sender writes keys.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    span: span::Keys,
    local: endpoint::Keys,
    remote: endpoint::Keys,
    annotation: annotation::Keys,
}

pub(crate) fn decode(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let texts = Texts::default();
    let mut reader = Reader::new(bytes, &texts, batch.limits);
    if !open_batch(&mut reader)? {
        return Ok(());
    }
    spans(&mut reader, batch, |reader, batch| {
        let start = reader.at();
        let mut draft = Draft::new(Lists::lend(&mut scratch.lists));
        let mut inner = reader.with(&scratch.texts);
        let read = inner.span(&mut draft, &mut scratch.orders.v2);
        let end = inner.at();
        let closed = match read {
            Ok(()) => batch.close(&mut draft, start).map_err(Refused::from),
            Err(fault) => Err(fault.into()),
        };
        scratch.lists = draft.lists.give_back();
        scratch.texts.clear();
        closed.map(|()| end)
    })
}

impl<'t> Reader<'t> {
    fn span(&mut self, draft: &mut Draft<'t>, orders: &mut Orders) -> Result<()> {
        let Orders { span, local, remote, annotation } = orders;
        self.object(&span::NAMES, span, |reader, key| {
            match key {
                span::TRACE_ID => draft.trace_id = Some(reader.trace_id().within("traceId")?),
                span::PARENT_ID => draft.parent_id = reader.parent_id().within("parentId")?,
                span::ID => draft.id = Some(reader.span_id().within("id")?),
                span::KIND => draft.kind = reader.kind().within("kind")?,
                span::NAME => draft.name = reader.optional_text().within("name")?,
                span::TIMESTAMP => draft.start_ns = reader.optional_time().within("timestamp")?,
                span::DURATION => draft.duration_ns = reader.optional_time().within("duration")?,
                span::LOCAL_ENDPOINT => {
                    draft.local = reader.endpoint(local).within("localEndpoint")?;
                }
                span::REMOTE_ENDPOINT => {
                    draft.remote = reader.endpoint(remote).within("remoteEndpoint")?;
                }
                span::ANNOTATIONS => {
                    reader.annotations(&mut draft.lists, annotation).within("annotations")?;
                }
                span::TAGS => reader.tags(&mut draft.lists).within("tags")?,
                span::DEBUG => draft.debug = reader.flag().within("debug")?,
                _ => draft.shared = reader.flag().within("shared")?,
            }
            Ok(())
        })
    }

    #[inline]
    fn kind(&mut self) -> Result<Kind> {
        if self.null()? {
            return Ok(Kind::Unspecified);
        }
        let start = self.at();
        Ok(match self.string()? {
            "CLIENT" => Kind::Client,
            "SERVER" => Kind::Server,
            "PRODUCER" => Kind::Producer,
            "CONSUMER" => Kind::Consumer,
            _ => return Err(Reason::UnknownKind.at(start)),
        })
    }

    #[inline]
    fn annotations(&mut self, lists: &mut Lists<'t>, order: &mut annotation::Keys) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.list(|reader| {
            reader.peek()?;
            let start = reader.at();
            let (mut time_ns, mut value) = (None, None);
            reader.object(&annotation::NAMES, order, |reader, key| {
                match key {
                    annotation::TIMESTAMP => time_ns = Some(reader.time()?),
                    _ => value = Some(reader.text_or_number()?),
                }
                Ok(())
            })?;
            let (Some(time_ns), Some(value)) = (time_ns, value) else {
                return Err(Reason::Missing.at(start));
            };
            lists.annotate(AnnotationRef { time_ns, value }, reader.limits(), start)
        })
    }

    #[inline]
    fn tags(&mut self, lists: &mut Lists<'t>) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.map(|reader, key| {
            let value = reader.text_or_number()?;
            lists.tag(TagRef::text(key, value), reader.limits(), reader.at())
        })
    }
}
