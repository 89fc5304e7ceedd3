//! Zipkin's second format as protobuf (`zipkin.proto3`): a list of spans, each a message of its own,
//! so that a bad one costs itself only.

pub(crate) mod write;

use crate::decoder::{Batch, Scratch, Stop};
use crate::draft::{Draft, Lists};
use crate::fault::{Reason, Result, Within};
use crate::protobuf::{Walk, fixed64, sized, varint};
use crate::texts::Texts;
use crate::{Limits, values};
use blkkin_model::{AnnotationRef, EndpointRef, Kind, SpanId, TagRef, TraceId};

/// Keys of the fields.
pub(crate) mod list {
    pub(crate) const SPANS: u32 = super::sized(1);
}
pub(crate) mod span {
    use super::{fixed64, sized, varint};
    pub(crate) const TRACE_ID: u32 = sized(1);
    pub(crate) const PARENT_ID: u32 = sized(2);
    pub(crate) const ID: u32 = sized(3);
    pub(crate) const KIND: u32 = varint(4);
    pub(crate) const NAME: u32 = sized(5);
    pub(crate) const TIMESTAMP: u32 = fixed64(6);
    pub(crate) const DURATION: u32 = varint(7);
    pub(crate) const LOCAL_ENDPOINT: u32 = sized(8);
    pub(crate) const REMOTE_ENDPOINT: u32 = sized(9);
    pub(crate) const ANNOTATIONS: u32 = sized(10);
    pub(crate) const TAGS: u32 = sized(11);
    pub(crate) const DEBUG: u32 = varint(12);
    pub(crate) const SHARED: u32 = varint(13);
}
pub(crate) mod endpoint {
    use super::{sized, varint};
    pub(crate) const SERVICE_NAME: u32 = sized(1);
    pub(crate) const IPV4: u32 = sized(2);
    pub(crate) const IPV6: u32 = sized(3);
    pub(crate) const PORT: u32 = varint(4);
}
pub(crate) mod annotation {
    use super::{fixed64, sized};
    pub(crate) const TIMESTAMP: u32 = fixed64(1);
    pub(crate) const VALUE: u32 = sized(2);
}
pub(crate) mod tag {
    use super::sized;
    pub(crate) const KEY: u32 = sized(1);
    pub(crate) const VALUE: u32 = sized(2);
}

pub(crate) fn decode(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let mut walk = Walk::new(bytes);
    while let Some(key) = walk.key()? {
        if key != list::SPANS {
            walk.skip(key)?;
            continue;
        }
        let start = walk.at();
        batch.open(start)?;
        let message = walk.message()?;
        let reader = Reader { texts: &scratch.texts, limits: batch.limits };
        let mut draft = Draft::new(Lists::lend(&mut scratch.lists));
        let read = reader.span(message, &mut draft);
        let closed = batch.close_read(read, &mut draft, start);
        scratch.lists = draft.lists.give_back();
        scratch.texts.clear();
        closed?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Reader<'t> {
    texts: &'t Texts,
    limits: &'t Limits,
}

impl<'t> Reader<'t> {
    fn span(self, mut walk: Walk<'t>, draft: &mut Draft<'t>) -> Result<()> {
        while let Some(key) = walk.key()? {
            match key {
                span::TRACE_ID => draft.trace_id = Some(trace_id(&mut walk).within("traceId")?),
                span::PARENT_ID => draft.parent_id = span_id(&mut walk).within("parentId")?,
                span::ID => draft.id = Some(own_id(&mut walk).within("id")?),
                span::KIND => draft.kind = kind(walk.varint()?),
                span::NAME => draft.name = self.text(&mut walk).within("name")?,
                span::TIMESTAMP => {
                    draft.start_ns = time(&mut walk, Walk::fixed64).within("timestamp")?;
                }
                span::DURATION => {
                    draft.duration_ns = time(&mut walk, Walk::varint).within("duration")?;
                }
                span::LOCAL_ENDPOINT => {
                    draft.local = self.endpoint(&mut walk).within("localEndpoint")?;
                }
                span::REMOTE_ENDPOINT => {
                    draft.remote = self.endpoint(&mut walk).within("remoteEndpoint")?;
                }
                span::ANNOTATIONS => {
                    self.annotation(&mut walk, &mut draft.lists).within("annotations")?;
                }
                span::TAGS => self.tag(&mut walk, &mut draft.lists).within("tags")?,
                span::DEBUG => draft.debug = walk.varint()? != 0,
                span::SHARED => draft.shared = walk.varint()? != 0,
                _ => walk.skip(key)?,
            }
        }
        Ok(())
    }

    fn endpoint(self, walk: &mut Walk<'t>) -> Result<EndpointRef<'t>> {
        let (mut walk, mut endpoint) = (walk.message()?, EndpointRef::NONE);
        while let Some(key) = walk.key()? {
            match key {
                endpoint::SERVICE_NAME => endpoint.service = self.text(&mut walk)?,
                endpoint::IPV4 | endpoint::IPV6 => {
                    values::address_of_bytes(walk.sized()?, &mut endpoint);
                }
                endpoint::PORT => {
                    let start = walk.at();
                    // An int32 that is negative is written as 64 bits.
                    let number = walk.varint()? as i64;
                    endpoint.port = values::port(number).map_err(|reason| reason.at(start))?;
                }
                _ => walk.skip(key)?,
            }
        }
        Ok(endpoint)
    }

    /// One without time or text is left out, as Zipkin does.
    fn annotation(self, walk: &mut Walk<'t>, lists: &mut Lists<'t>) -> Result<()> {
        let (start, mut walk) = (walk.at(), walk.message()?);
        let (mut time_ns, mut value) = (None, "");
        while let Some(key) = walk.key()? {
            match key {
                annotation::TIMESTAMP => time_ns = time(&mut walk, Walk::fixed64)?,
                annotation::VALUE => value = self.text(&mut walk)?,
                _ => walk.skip(key)?,
            }
        }
        match time_ns {
            Some(time_ns) if !value.is_empty() => {
                lists.annotate(AnnotationRef { time_ns, value }, self.limits, start)
            }
            _ => Ok(()),
        }
    }

    /// A part that is not there is empty, as protobuf has it. Zipkin leaves out what has no key.
    fn tag(self, walk: &mut Walk<'t>, lists: &mut Lists<'t>) -> Result<()> {
        let (start, mut walk) = (walk.at(), walk.message()?);
        let (mut key, mut value) = ("", "");
        while let Some(field) = walk.key()? {
            match field {
                tag::KEY => key = self.text(&mut walk)?,
                tag::VALUE => value = self.text(&mut walk)?,
                _ => walk.skip(field)?,
            }
        }
        lists.tag(TagRef::text(key, value), self.limits, start)
    }

    #[inline]
    fn text(self, walk: &mut Walk<'t>) -> Result<&'t str> {
        Ok(self.texts.text(walk.text(self.limits.text_bytes)?))
    }
}

#[inline]
fn trace_id(walk: &mut Walk<'_>) -> Result<TraceId> {
    let start = walk.at();
    let number = values::id_of_bytes(walk.sized()?, 16);
    let id = number.and_then(|number| TraceId::from_number(number).ok_or(Reason::Zero));
    id.map_err(|reason| reason.at(start))
}

#[inline]
fn own_id(walk: &mut Walk<'_>) -> Result<SpanId> {
    let start = walk.at();
    span_id(walk)?.ok_or_else(|| Reason::Zero.at(start))
}

#[inline]
fn span_id(walk: &mut Walk<'_>) -> Result<Option<SpanId>> {
    let start = walk.at();
    let number = values::id_of_bytes(walk.sized()?, 8).map_err(|reason| reason.at(start))?;
    Ok(SpanId::from_number(number as u64))
}

#[inline]
fn time<'t>(
    walk: &mut Walk<'t>,
    read: impl FnOnce(&mut Walk<'t>) -> Result<u64>,
) -> Result<Option<u64>> {
    let start = walk.at();
    // Zipkin's numbers are signed.
    let us = read(walk)? as i64;
    values::ns_if_known(us).map_err(|reason| reason.at(start))
}

fn kind(number: u64) -> Kind {
    match number {
        1 => Kind::Client,
        2 => Kind::Server,
        3 => Kind::Producer,
        4 => Kind::Consumer,
        _ => Kind::Unspecified,
    }
}
