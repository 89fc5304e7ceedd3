//! Zipkin's thrift format with the thrift crate, in the form that the crate's code generator emits.

use super::rival::Rival;
use std::hint::black_box;
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol, TListIdentifier,
    TOutputProtocol, TStructIdentifier, TType,
};

#[derive(Default)]
struct Span {
    trace_id: i64,
    name: String,
    id: i64,
    parent_id: Option<i64>,
    annotations: Vec<Annotation>,
    binary_annotations: Vec<Binary>,
    timestamp: Option<i64>,
    duration: Option<i64>,
    trace_id_high: Option<i64>,
}

#[derive(Default)]
struct Annotation {
    timestamp: i64,
    value: String,
    host: Option<Endpoint>,
}

#[derive(Default)]
struct Binary {
    key: String,
    value: Vec<u8>,
    kind: i32,
    host: Option<Endpoint>,
}

#[derive(Default)]
struct Endpoint {
    ipv4: i32,
    port: i16,
    service_name: String,
}

type Result<T> = thrift::Result<T>;

/// Reads a structure: calls `field` with the number and type of each field. `field` must then read
/// the field's value.
fn fields<P: TInputProtocol>(
    input: &mut P,
    mut field: impl FnMut(&mut P, Option<i16>, TType) -> Result<()>,
) -> Result<()> {
    input.read_struct_begin()?;
    loop {
        let identifier = input.read_field_begin()?;
        if identifier.field_type == TType::Stop {
            break;
        }
        field(input, identifier.id, identifier.field_type)?;
        input.read_field_end()?;
    }
    input.read_struct_end()
}

fn list<P: TInputProtocol, T>(
    input: &mut P,
    mut item: impl FnMut(&mut P) -> Result<T>,
) -> Result<Vec<T>> {
    let identifier = input.read_list_begin()?;
    let items = (0..identifier.size).map(|_| item(input)).collect();
    input.read_list_end()?;
    items
}

fn read_span<P: TInputProtocol>(input: &mut P) -> Result<Span> {
    let mut span = Span::default();
    fields(input, |input, id, kind| {
        match id {
            Some(1) => span.trace_id = input.read_i64()?,
            Some(3) => span.name = input.read_string()?,
            Some(4) => span.id = input.read_i64()?,
            Some(5) => span.parent_id = Some(input.read_i64()?),
            Some(6) => span.annotations = list(input, read_annotation)?,
            Some(8) => span.binary_annotations = list(input, read_binary)?,
            Some(10) => span.timestamp = Some(input.read_i64()?),
            Some(11) => span.duration = Some(input.read_i64()?),
            Some(12) => span.trace_id_high = Some(input.read_i64()?),
            _ => input.skip(kind)?,
        }
        Ok(())
    })?;
    Ok(span)
}

fn read_annotation<P: TInputProtocol>(input: &mut P) -> Result<Annotation> {
    let mut annotation = Annotation::default();
    fields(input, |input, id, kind| {
        match id {
            Some(1) => annotation.timestamp = input.read_i64()?,
            Some(2) => annotation.value = input.read_string()?,
            Some(3) => annotation.host = Some(read_endpoint(input)?),
            _ => input.skip(kind)?,
        }
        Ok(())
    })?;
    Ok(annotation)
}

fn read_binary<P: TInputProtocol>(input: &mut P) -> Result<Binary> {
    let mut binary = Binary::default();
    fields(input, |input, id, kind| {
        match id {
            Some(1) => binary.key = input.read_string()?,
            Some(2) => binary.value = input.read_bytes()?,
            Some(3) => binary.kind = input.read_i32()?,
            Some(4) => binary.host = Some(read_endpoint(input)?),
            _ => input.skip(kind)?,
        }
        Ok(())
    })?;
    Ok(binary)
}

fn read_endpoint<P: TInputProtocol>(input: &mut P) -> Result<Endpoint> {
    let mut endpoint = Endpoint::default();
    fields(input, |input, id, kind| {
        match id {
            Some(1) => endpoint.ipv4 = input.read_i32()?,
            Some(2) => endpoint.port = input.read_i16()?,
            Some(3) => endpoint.service_name = input.read_string()?,
            _ => input.skip(kind)?,
        }
        Ok(())
    })?;
    Ok(endpoint)
}

/// Writes a field of a structure; `write` writes the field's value.
fn put<P: TOutputProtocol>(
    out: &mut P,
    kind: TType,
    id: i16,
    write: impl FnOnce(&mut P) -> Result<()>,
) -> Result<()> {
    out.write_field_begin(&TFieldIdentifier::new("", kind, id))?;
    write(out)?;
    out.write_field_end()
}

fn structure<P: TOutputProtocol>(
    out: &mut P,
    write: impl FnOnce(&mut P) -> Result<()>,
) -> Result<()> {
    out.write_struct_begin(&TStructIdentifier::new(""))?;
    write(out)?;
    out.write_field_stop()?;
    out.write_struct_end()
}

fn put_list<P: TOutputProtocol, T>(
    out: &mut P,
    items: &[T],
    mut write: impl FnMut(&mut P, &T) -> Result<()>,
) -> Result<()> {
    out.write_list_begin(&TListIdentifier::new(TType::Struct, items.len() as i32))?;
    items.iter().try_for_each(|item| write(out, item))?;
    out.write_list_end()
}

fn write_span<P: TOutputProtocol>(out: &mut P, span: &Span) -> Result<()> {
    structure(out, |out| {
        put(out, TType::I64, 1, |out| out.write_i64(span.trace_id))?;
        put(out, TType::String, 3, |out| out.write_string(&span.name))?;
        put(out, TType::I64, 4, |out| out.write_i64(span.id))?;
        if let Some(parent_id) = span.parent_id {
            put(out, TType::I64, 5, |out| out.write_i64(parent_id))?;
        }
        put(out, TType::List, 6, |out| put_list(out, &span.annotations, write_annotation))?;
        put(out, TType::List, 8, |out| put_list(out, &span.binary_annotations, write_binary))?;
        for (id, number) in [(10, span.timestamp), (11, span.duration), (12, span.trace_id_high)] {
            if let Some(number) = number {
                put(out, TType::I64, id, |out| out.write_i64(number))?;
            }
        }
        Ok(())
    })
}

fn write_annotation<P: TOutputProtocol>(out: &mut P, annotation: &Annotation) -> Result<()> {
    structure(out, |out| {
        put(out, TType::I64, 1, |out| out.write_i64(annotation.timestamp))?;
        put(out, TType::String, 2, |out| out.write_string(&annotation.value))?;
        match &annotation.host {
            Some(host) => put(out, TType::Struct, 3, |out| write_endpoint(out, host)),
            None => Ok(()),
        }
    })
}

fn write_binary<P: TOutputProtocol>(out: &mut P, binary: &Binary) -> Result<()> {
    structure(out, |out| {
        put(out, TType::String, 1, |out| out.write_string(&binary.key))?;
        put(out, TType::String, 2, |out| out.write_bytes(&binary.value))?;
        put(out, TType::I32, 3, |out| out.write_i32(binary.kind))?;
        match &binary.host {
            Some(host) => put(out, TType::Struct, 4, |out| write_endpoint(out, host)),
            None => Ok(()),
        }
    })
}

fn write_endpoint<P: TOutputProtocol>(out: &mut P, endpoint: &Endpoint) -> Result<()> {
    structure(out, |out| {
        put(out, TType::I32, 1, |out| out.write_i32(endpoint.ipv4))?;
        put(out, TType::I16, 2, |out| out.write_i16(endpoint.port))?;
        put(out, TType::String, 3, |out| out.write_string(&endpoint.service_name))
    })
}

fn read(batch: &[u8]) -> Result<Vec<Span>> {
    let mut rest = batch;
    list(&mut TBinaryInputProtocol::new(&mut rest, true), read_span)
}

pub(super) fn rival(batch: &'static [u8]) -> Rival {
    let spans = read(batch).expect("spans");
    let mut out = Vec::with_capacity(batch.len());
    Rival {
        name: "thrift crate",
        decode: Box::new(move || {
            let spans = read(black_box(batch)).expect("spans");
            black_box(&spans);
        }),
        encode: Box::new(move || {
            out.clear();
            let mut protocol = TBinaryOutputProtocol::new(&mut out, true);
            put_list(&mut protocol, black_box(&spans), write_span).expect("memory");
            assert_eq!(black_box(&out).len(), batch.len());
        }),
    }
}
