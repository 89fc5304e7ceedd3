//! Decoder of Zipkin v1 as thrift (`TBinaryProtocol`): a single span, as in a Scribe message, or a
//! list. Thrift structures have no length, so a span that is broken or nested too deep ends the
//! list; any other fault within a span affects only that span.
//!
//! This parser is hand-written, as fields are stored directly from the bytes; the thrift crate is
//! the oracle in the tests.

mod input;
pub(crate) mod write;

use crate::arena::Arena;
use crate::batch::{Batch, Stop};
use crate::error::{FieldContext, Reason, Result};
use crate::limits::{DEPTH_MAX, Limits};
use crate::span_draft::Lists;
use crate::v1::{HostCache, V1Lists, V1Span};
use crate::values;
use blkkin_model::{AnnotationRef, EndpointRef, Origin, SpanId, TagRef, TraceId, ValueRef};
use input::{BOOL, Field, I16, I32, I64, Input, LIST, STRING, STRUCT};

/// Buffers of the decoder, reused for the next span.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lists: Lists<'static>,
    arena: Arena,
    v1: V1Lists<'static>,
}

pub(crate) fn decode_list(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let mut input = Input::new(bytes);
    let (kind, count) = input.list()?;
    if kind != STRUCT && count > 0 {
        return Err(Reason::Expected("a list of structures").at(0).into());
    }
    for _ in 0..count {
        decode_span(&mut input, scratch, batch)?;
    }
    Ok(())
}

pub(crate) fn decode_one(
    bytes: &[u8],
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    decode_span(&mut Input::new(bytes), scratch, batch)
}

/// Returns the size of the structure at the start of `bytes`; `None` if it is incomplete, invalid
/// or nested too deep.
pub fn thrift_span_size(bytes: &[u8], limits: &Limits) -> Option<usize> {
    let mut input = Input::new(bytes);
    input.skip(STRUCT, limits.depth.min(DEPTH_MAX)).ok()?;
    Some(input.at())
}

fn decode_span(
    input: &mut Input<'_>,
    scratch: &mut Scratch,
    batch: &mut Batch<'_>,
) -> Result<(), Stop> {
    let start = input.at();
    batch.open(start)?;
    let reader = Reader { arena: &scratch.arena, limits: batch.limits };
    let mut span = V1Span::new(V1Lists::take_memory(&mut scratch.v1));
    let mut inner = *input;
    let given = match reader.span(&mut inner, &mut span) {
        Ok(()) => {
            input.go_to(inner.at());
            span.emit(&mut scratch.lists, batch, start)
        }
        Err(fault) => {
            // Decoding can continue if the end of the span can be found.
            input.skip(STRUCT, batch.limits.depth)?;
            batch.refuse(*fault);
            Ok(())
        }
    };
    let lists = span.into_memory();
    scratch.v1 = lists;
    scratch.arena.clear();
    given
}

#[derive(Clone, Copy)]
struct Reader<'t> {
    arena: &'t Arena,
    limits: &'t Limits,
}

/// Thrift types and numbers of a span's fields. The decoder skips a field whose type differs.
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
    fn span(self, input: &mut Input<'t>, span: &mut V1Span<'t>) -> Result<()> {
        let (start, mut low, mut high) = (input.at(), None, 0);
        let mut last = HostCache::default();
        while let Some(field) = input.field()? {
            match field {
                span::TRACE_ID => low = Some(input.i64()? as u64),
                span::TRACE_ID_HIGH => high = input.i64()? as u64,
                span::NAME => span.name = self.text(input).in_field("name")?,
                span::ID => span.id = Some(own_id(input).in_field("id")?),
                span::PARENT_ID => span.parent_id = SpanId::from_number(input.i64()? as u64),
                span::ANNOTATIONS => {
                    self.annotations(input, span, &mut last).in_field("annotations")?
                }
                span::BINARY_ANNOTATIONS => {
                    self.binary_annotations(input, span, &mut last)
                        .in_field("binary_annotations")?;
                }
                span::DEBUG => span.debug = input.byte()? != 0,
                span::TIMESTAMP => span.start_ns = time(input).in_field("timestamp")?,
                span::DURATION => span.duration_ns = time(input).in_field("duration")?,
                _ => input.skip(field.kind, self.limits.depth)?,
            }
        }
        if let Some(low) = low {
            let id = TraceId::from_number(u128::from(high) << 64 | u128::from(low));
            span.trace_id = Some(id.ok_or_else(|| Reason::Zero.at(start)).in_field("trace_id")?);
        }
        Ok(())
    }

    fn annotations(
        self,
        input: &mut Input<'t>,
        span: &mut V1Span<'t>,
        last: &mut HostCache<'t>,
    ) -> Result<()> {
        let Some(count) = input.structures(self.limits.depth)? else { return Ok(()) };
        for _ in 0..count {
            let start = input.at();
            let (mut time_ns, mut value, mut host) = (None, "", EndpointRef::NONE);
            while let Some(field) = input.field()? {
                match field {
                    annotation::TIMESTAMP => time_ns = time(input)?,
                    annotation::VALUE => value = self.text(input)?,
                    annotation::HOST => host = self.host(input, last)?,
                    _ => input.skip(field.kind, self.limits.depth)?,
                }
            }
            // An annotation without time or text is dropped, as in Zipkin.
            if let (Some(time_ns), false) = (time_ns, value.is_empty()) {
                span.annotate(AnnotationRef { time_ns, value }, host, self.limits, start)?;
            }
        }
        Ok(())
    }

    fn binary_annotations(
        self,
        input: &mut Input<'t>,
        span: &mut V1Span<'t>,
        last: &mut HostCache<'t>,
    ) -> Result<()> {
        let Some(count) = input.structures(self.limits.depth)? else { return Ok(()) };
        for _ in 0..count {
            let start = input.at();
            let (mut key, mut value, mut kind, mut host) = ("", &b""[..], 6, EndpointRef::NONE);
            while let Some(field) = input.field()? {
                match field {
                    binary::KEY => key = self.text(input)?,
                    binary::VALUE => value = input.text(self.limits.text_bytes)?,
                    binary::TYPE => kind = input.i32()?,
                    binary::HOST => host = self.host(input, last)?,
                    _ => input.skip(field.kind, self.limits.depth)?,
                }
            }
            let tag = TagRef { key, value: self.value(kind, value), origin: Origin::Span };
            span.tag(tag, host, self.limits, start)?;
        }
        Ok(())
    }

    /// Converts the value of a binary annotation according to its `AnnotationType`. A value of an
    /// unknown type, or whose size does not fit the type, remains a byte string.
    #[inline]
    fn value(self, kind: i32, bytes: &'t [u8]) -> ValueRef<'t> {
        let exact = match kind {
            0 => <[u8; 1]>::try_from(bytes).map(|it| ValueRef::Bool(it != [0])),
            2 => bytes.try_into().map(|it| ValueRef::Int(i16::from_be_bytes(it).into())),
            3 => bytes.try_into().map(|it| ValueRef::Int(i32::from_be_bytes(it).into())),
            4 => bytes.try_into().map(|it| ValueRef::Int(i64::from_be_bytes(it))),
            5 => bytes.try_into().map(|it| ValueRef::Double(f64::from_be_bytes(it))),
            6 => return ValueRef::Str(self.arena.text(bytes)),
            _ => return ValueRef::Bytes(bytes),
        };
        exact.unwrap_or(ValueRef::Bytes(bytes))
    }

    /// Reads an endpoint, which usually equals the previous endpoint.
    #[inline]
    fn host(self, input: &mut Input<'t>, last: &mut HostCache<'t>) -> Result<EndpointRef<'t>> {
        let start = input.at();
        if let Some((host, size)) = last.find(input.rest()) {
            input.go_to(start + size);
            return Ok(host);
        }
        let rest = input.rest();
        let host = self.endpoint(input)?;
        last.store(rest.get(..input.at() - start).unwrap_or_default(), host);
        Ok(host)
    }

    fn endpoint(self, input: &mut Input<'t>) -> Result<EndpointRef<'t>> {
        let mut endpoint = EndpointRef::NONE;
        while let Some(field) = input.field()? {
            match field {
                endpoint::IPV4 => match input.i32()? as u32 {
                    0 => {}
                    address => endpoint.ipv4 = Some(address.into()),
                },
                endpoint::PORT => endpoint.port = input.i16()? as u16,
                endpoint::SERVICE_NAME => endpoint.service = self.text(input)?,
                endpoint::IPV6 => {
                    // An IPv6 field must have 16 bytes; four bytes are not accepted as an IPv4
                    // address.
                    let bytes = input.text(self.limits.text_bytes)?;
                    if bytes.len() == 16 {
                        values::address_of_bytes(bytes, &mut endpoint);
                    }
                }
                _ => input.skip(field.kind, self.limits.depth)?,
            }
        }
        Ok(endpoint)
    }

    #[inline]
    fn text(self, input: &mut Input<'t>) -> Result<&'t str> {
        Ok(self.arena.text(input.text(self.limits.text_bytes)?))
    }
}

#[inline]
fn own_id(input: &mut Input<'_>) -> Result<SpanId> {
    let start = input.at();
    SpanId::from_number(input.i64()? as u64).ok_or_else(|| Reason::Zero.at(start))
}

#[inline]
fn time(input: &mut Input<'_>) -> Result<Option<u64>> {
    let start = input.at();
    values::ns_if_known(input.i64()?).map_err(|reason| reason.at(start))
}
