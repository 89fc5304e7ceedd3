//! Zipkin's first format as thrift (`TBinaryProtocol`): one span, as in a message of Scribe's, or a
//! list. Its structures have no lengths, so a list ends where it cannot be understood; a span that is
//! understood and bad costs itself only.
//!
//! Read by hand, as the fields go straight from the bytes to their places; the thrift crate is the
//! oracle of the tests.

mod walk;
pub(crate) mod write;

use crate::Limits;
use crate::decoder::{Batch, DEPTH_MAX, Scratch, Stop};
use crate::fault::{Reason, Result, Within};
use crate::texts::Texts;
use crate::v1::{SameHost, V1, V1Lists};
use crate::values;
use blkkin_model::{AnnotationRef, EndpointRef, SpanId, TraceId, ValueRef};
use walk::{BOOL, Field, I16, I32, I64, LIST, STRING, STRUCT, Walk};

pub(crate) fn decode_list(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let mut walk = Walk::new(bytes);
    let (kind, count) = walk.list()?;
    if kind != STRUCT && count > 0 {
        return Err(Reason::Expected("a list of structures").at(0).into());
    }
    for _ in 0..count {
        one(&mut walk, scratch, batch)?;
    }
    Ok(())
}

pub(crate) fn decode_one(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    one(&mut Walk::new(bytes), scratch, batch)
}

/// The size of the structure that these bytes begin with; none if its end is not among them.
pub fn thrift_span_size(bytes: &[u8], limits: &Limits) -> Option<usize> {
    let mut walk = Walk::new(bytes);
    walk.skip(STRUCT, limits.depth.min(DEPTH_MAX)).ok()?;
    Some(walk.at())
}

fn one(walk: &mut Walk<'_>, scratch: &mut Scratch, batch: &mut Batch<'_>) -> Result<(), Stop> {
    let start = walk.at();
    batch.open(start)?;
    let reader = Reader { texts: &scratch.texts, limits: batch.limits };
    let mut span = V1::new(V1Lists::lend(&mut scratch.v1));
    let mut inner = *walk;
    let given = match reader.span(&mut inner, &mut span) {
        Ok(()) => {
            walk.go_to(inner.at());
            span.give(&mut scratch.lists, batch, start)
        }
        Err(fault) => {
            // What follows can be understood if the span's end can be found.
            walk.skip(STRUCT, batch.limits.depth)?;
            batch.refuse(*fault);
            Ok(())
        }
    };
    let lists = span.give_back();
    scratch.v1 = lists;
    scratch.texts.clear();
    given
}

#[derive(Clone, Copy)]
struct Reader<'t> {
    texts: &'t Texts,
    limits: &'t Limits,
}

/// The fields of the structures, with the only type that each is read with.
mod span {
    use super::{BOOL, Field, I64, LIST, STRING};
    pub(super) const TRACE_ID: Field = Field { kind: I64, id: 1 };
    pub(super) const NAME: Field = Field { kind: STRING, id: 3 };
    pub(super) const ID: Field = Field { kind: I64, id: 4 };
    pub(super) const PARENT_ID: Field = Field { kind: I64, id: 5 };
    pub(super) const ANNOTATIONS: Field = Field { kind: LIST, id: 6 };
    pub(super) const BINARY_ANNOTATIONS: Field = Field { kind: LIST, id: 8 };
    pub(super) const DEBUG: Field = Field { kind: BOOL, id: 9 };
    pub(super) const TIMESTAMP: Field = Field { kind: I64, id: 10 };
    pub(super) const DURATION: Field = Field { kind: I64, id: 11 };
    pub(super) const TRACE_ID_HIGH: Field = Field { kind: I64, id: 12 };
}
mod annotation {
    use super::{Field, I64, STRING, STRUCT};
    pub(super) const TIMESTAMP: Field = Field { kind: I64, id: 1 };
    pub(super) const VALUE: Field = Field { kind: STRING, id: 2 };
    pub(super) const HOST: Field = Field { kind: STRUCT, id: 3 };
}
mod binary {
    use super::{Field, I32, STRING, STRUCT};
    pub(super) const KEY: Field = Field { kind: STRING, id: 1 };
    pub(super) const VALUE: Field = Field { kind: STRING, id: 2 };
    pub(super) const TYPE: Field = Field { kind: I32, id: 3 };
    pub(super) const HOST: Field = Field { kind: STRUCT, id: 4 };
}
mod endpoint {
    use super::{Field, I16, I32, STRING};
    pub(super) const IPV4: Field = Field { kind: I32, id: 1 };
    pub(super) const PORT: Field = Field { kind: I16, id: 2 };
    pub(super) const SERVICE_NAME: Field = Field { kind: STRING, id: 3 };
    pub(super) const IPV6: Field = Field { kind: STRING, id: 4 };
}

impl<'t> Reader<'t> {
    fn span(self, walk: &mut Walk<'t>, span: &mut V1<'t>) -> Result<()> {
        let (start, mut low, mut high) = (walk.at(), None, 0);
        let mut last = SameHost::default();
        while let Some(field) = walk.field()? {
            match field {
                span::TRACE_ID => low = Some(walk.i64()? as u64),
                span::TRACE_ID_HIGH => high = walk.i64()? as u64,
                span::NAME => span.name = self.text(walk).within("name")?,
                span::ID => span.id = Some(own_id(walk).within("id")?),
                span::PARENT_ID => span.parent_id = SpanId::from_number(walk.i64()? as u64),
                span::ANNOTATIONS => {
                    self.annotations(walk, span, &mut last).within("annotations")?
                }
                span::BINARY_ANNOTATIONS => {
                    self.binary_annotations(walk, span, &mut last).within("binary_annotations")?;
                }
                span::DEBUG => span.debug = walk.byte()? != 0,
                span::TIMESTAMP => span.start_ns = time(walk).within("timestamp")?,
                span::DURATION => span.duration_ns = time(walk).within("duration")?,
                _ => walk.skip(field.kind, self.limits.depth)?,
            }
        }
        if let Some(low) = low {
            let id = TraceId::from_number(u128::from(high) << 64 | u128::from(low));
            span.trace_id = Some(id.ok_or_else(|| Reason::Zero.at(start)).within("trace_id")?);
        }
        Ok(())
    }

    fn annotations(
        self,
        walk: &mut Walk<'t>,
        span: &mut V1<'t>,
        last: &mut SameHost<'t>,
    ) -> Result<()> {
        let Some(count) = walk.structures(self.limits.depth)? else { return Ok(()) };
        for _ in 0..count {
            let start = walk.at();
            let (mut time_ns, mut value, mut host) = (None, "", EndpointRef::NONE);
            while let Some(field) = walk.field()? {
                match field {
                    annotation::TIMESTAMP => time_ns = time(walk)?,
                    annotation::VALUE => value = self.text(walk)?,
                    annotation::HOST => host = self.host(walk, last)?,
                    _ => walk.skip(field.kind, self.limits.depth)?,
                }
            }
            // One without time or text is left out, as Zipkin does.
            if let (Some(time_ns), false) = (time_ns, value.is_empty()) {
                span.annotate(AnnotationRef { time_ns, value }, host, self.limits, start)?;
            }
        }
        Ok(())
    }

    fn binary_annotations(
        self,
        walk: &mut Walk<'t>,
        span: &mut V1<'t>,
        last: &mut SameHost<'t>,
    ) -> Result<()> {
        let Some(count) = walk.structures(self.limits.depth)? else { return Ok(()) };
        for _ in 0..count {
            let start = walk.at();
            let (mut key, mut value, mut kind, mut host) = ("", &b""[..], 6, EndpointRef::NONE);
            while let Some(field) = walk.field()? {
                match field {
                    binary::KEY => key = self.text(walk)?,
                    binary::VALUE => value = walk.text(self.limits.text_bytes)?,
                    binary::TYPE => kind = walk.i32()?,
                    binary::HOST => host = self.host(walk, last)?,
                    _ => walk.skip(field.kind, self.limits.depth)?,
                }
            }
            span.tag((key, self.value(kind, value)), host, self.limits, start)?;
        }
        Ok(())
    }

    /// A value that is not as large as its type says is bytes.
    #[inline]
    fn value(self, kind: i32, bytes: &'t [u8]) -> ValueRef<'t> {
        let exact = match kind {
            0 => <[u8; 1]>::try_from(bytes).map(|it| ValueRef::Bool(it != [0])),
            2 => bytes.try_into().map(|it| ValueRef::Int(i16::from_be_bytes(it).into())),
            3 => bytes.try_into().map(|it| ValueRef::Int(i32::from_be_bytes(it).into())),
            4 => bytes.try_into().map(|it| ValueRef::Int(i64::from_be_bytes(it))),
            5 => bytes.try_into().map(|it| ValueRef::Double(f64::from_be_bytes(it))),
            6 => return ValueRef::Str(self.texts.text(bytes)),
            _ => return ValueRef::Bytes(bytes),
        };
        exact.unwrap_or(ValueRef::Bytes(bytes))
    }

    /// An endpoint, which is mostly the one before.
    #[inline]
    fn host(self, walk: &mut Walk<'t>, last: &mut SameHost<'t>) -> Result<EndpointRef<'t>> {
        let start = walk.at();
        if let Some((host, size)) = last.find(walk.rest()) {
            walk.go_to(start + size);
            return Ok(host);
        }
        let rest = walk.rest();
        let host = self.endpoint(walk)?;
        last.note(rest.get(..walk.at() - start).unwrap_or_default(), host);
        Ok(host)
    }

    fn endpoint(self, walk: &mut Walk<'t>) -> Result<EndpointRef<'t>> {
        let mut endpoint = EndpointRef::NONE;
        while let Some(field) = walk.field()? {
            match field {
                endpoint::IPV4 => match walk.i32()? as u32 {
                    0 => {}
                    address => endpoint.ipv4 = Some(address.into()),
                },
                endpoint::PORT => endpoint.port = walk.i16()? as u16,
                endpoint::SERVICE_NAME => endpoint.service = self.text(walk)?,
                endpoint::IPV6 => {
                    // A number is never one of 32 bits here, but by the rules for 128.
                    let bytes = walk.text(self.limits.text_bytes)?;
                    if bytes.len() == 16 {
                        values::address_of_bytes(bytes, &mut endpoint);
                    }
                }
                _ => walk.skip(field.kind, self.limits.depth)?,
            }
        }
        Ok(endpoint)
    }

    #[inline]
    fn text(self, walk: &mut Walk<'t>) -> Result<&'t str> {
        Ok(self.texts.text(walk.text(self.limits.text_bytes)?))
    }
}

#[inline]
fn own_id(walk: &mut Walk<'_>) -> Result<SpanId> {
    let start = walk.at();
    SpanId::from_number(walk.i64()? as u64).ok_or_else(|| Reason::Zero.at(start))
}

#[inline]
fn time(walk: &mut Walk<'_>) -> Result<Option<u64>> {
    let start = walk.at();
    values::ns_if_known(walk.i64()?).map_err(|reason| reason.at(start))
}
