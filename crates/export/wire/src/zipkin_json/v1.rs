//! Zipkin's first format as JSON.

use super::{endpoint, open_batch};
use crate::decoder::{Batch, Scratch, Stop};
use crate::fault::{Reason, Result, Within};
use crate::json::{Reader, Refused, keys, spans};
use crate::texts::Texts;
use crate::v1::{SameHost, V1, V1Lists};
use blkkin_model::{AnnotationRef, EndpointRef, TraceId, ValueRef};

keys! {
    /// Keys of a span.
    span {
        TRACE_ID = "traceId",
        ID = "id",
        NAME = "name",
        PARENT_ID = "parentId",
        TIMESTAMP = "timestamp",
        DURATION = "duration",
        ANNOTATIONS = "annotations",
        BINARY_ANNOTATIONS = "binaryAnnotations",
        DEBUG = "debug",
    }
    /// Keys of an annotation.
    annotation { TIMESTAMP = "timestamp", VALUE = "value", ENDPOINT = "endpoint", }
    /// Keys of a binary annotation.
    binary { KEY = "key", VALUE = "value", ENDPOINT = "endpoint", }
}

/// In what order a sender writes keys.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    span: span::Keys,
    annotation: annotation::Keys,
    binary: binary::Keys,
    endpoint: endpoint::Keys,
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
        let mut span = V1::new(V1Lists::lend(&mut scratch.v1));
        let mut inner = reader.with(&scratch.texts);
        let read = inner.v1_span(&mut span, &mut scratch.orders.v1);
        let end = inner.at();
        let given = match read {
            Ok(()) => span.give(&mut scratch.lists, batch, start).map_err(Refused::from),
            Err(fault) => Err(fault.into()),
        };
        let lists = span.give_back();
        scratch.v1 = lists;
        scratch.texts.clear();
        given.map(|()| end)
    })
}

/// In what order endpoints have their keys, and the last one of the span.
type Hosts<'o, 't> = (&'o mut endpoint::Keys, SameHost<'t>);

impl<'t> Reader<'t> {
    fn v1_span(&mut self, span: &mut V1<'t>, orders: &mut Orders) -> Result<()> {
        let Orders { span: order, annotation, binary, endpoint } = orders;
        let hosts = &mut (endpoint, SameHost::default());
        self.object(&span::NAMES, order, |reader, key| {
            match key {
                span::TRACE_ID => span.trace_id = Some(reader.v1_trace_id().within("traceId")?),
                span::ID => span.id = Some(reader.span_id().within("id")?),
                span::NAME => span.name = reader.optional_text().within("name")?,
                span::PARENT_ID => span.parent_id = reader.parent_id().within("parentId")?,
                span::TIMESTAMP => span.start_ns = reader.optional_time().within("timestamp")?,
                span::DURATION => span.duration_ns = reader.optional_time().within("duration")?,
                span::ANNOTATIONS => {
                    reader.v1_annotations(span, annotation, hosts).within("annotations")?;
                }
                span::BINARY_ANNOTATIONS => {
                    let read = reader.binary_annotations(span, binary, hosts);
                    read.within("binaryAnnotations")?;
                }
                _ => span.debug = reader.flag().within("debug")?,
            }
            Ok(())
        })
    }

    /// Of one that is neither short nor whole, only the lower half counts.
    fn v1_trace_id(&mut self) -> Result<TraceId> {
        self.peek()?;
        let start = self.at();
        let id = self.trace_id()?;
        // Digits and quotes; escapes there are none.
        if !id.is_wide() || self.at() - start == 34 {
            return Ok(id);
        }
        TraceId::from_number(id.low().into()).ok_or_else(|| Reason::Zero.at(start))
    }

    fn v1_annotations(
        &mut self,
        span: &mut V1<'t>,
        order: &mut annotation::Keys,
        hosts: &mut Hosts<'_, 't>,
    ) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.list(|reader| {
            reader.peek()?;
            let start = reader.at();
            let (mut time_ns, mut value, mut host) = (None, None, EndpointRef::NONE);
            reader.object(&annotation::NAMES, order, |reader, key| {
                match key {
                    annotation::TIMESTAMP => time_ns = Some(reader.time()?),
                    annotation::VALUE => value = Some(reader.text_or_number()?),
                    _ => host = reader.host(hosts)?,
                }
                Ok(())
            })?;
            let (Some(time_ns), Some(value)) = (time_ns, value) else {
                return Err(Reason::Missing.at(start));
            };
            span.annotate(AnnotationRef { time_ns, value }, host, reader.limits(), start)
        })
    }

    fn binary_annotations(
        &mut self,
        span: &mut V1<'t>,
        order: &mut binary::Keys,
        hosts: &mut Hosts<'_, 't>,
    ) -> Result<()> {
        if self.null()? {
            return Ok(());
        }
        self.list(|reader| {
            reader.peek()?;
            let start = reader.at();
            let (mut name, mut value, mut host) = (None, None, EndpointRef::NONE);
            reader.object(&binary::NAMES, order, |reader, key| {
                match key {
                    binary::KEY => name = Some(reader.text_or_number()?),
                    binary::VALUE => value = Some(reader.binary_value()?),
                    _ => host = reader.host(hosts)?,
                }
                Ok(())
            })?;
            let (Some(name), Some(value)) = (name, value) else {
                return Err(Reason::Missing.at(start));
            };
            span.tag((name, value), host, reader.limits(), start)
        })
    }

    /// An endpoint, which is mostly the one before.
    #[inline]
    fn host(&mut self, (order, last): &mut Hosts<'_, 't>) -> Result<EndpointRef<'t>> {
        self.peek()?;
        let start = self.at();
        if let Some((host, size)) = last.find(self.rest()) {
            self.go_to(start + size);
            return Ok(host);
        }
        let rest = self.rest();
        let host = self.endpoint(order)?;
        last.note(rest.get(..self.at() - start).unwrap_or_default(), host);
        Ok(host)
    }

    fn binary_value(&mut self) -> Result<ValueRef<'t>> {
        Ok(match self.peek()? {
            b'"' => ValueRef::Str(self.string()?),
            b't' | b'f' => ValueRef::Bool(self.boolean()?),
            _ => {
                let text = self.number()?;
                match text.parse() {
                    Ok(number) => ValueRef::Int(number),
                    Err(_) => ValueRef::Double(text.parse().unwrap_or(f64::NAN)),
                }
            }
        })
    }
}
