//! Renders lists and maps in protobuf as JSON text.

use crate::error::{Fault, Reason, Result};
use crate::limits::Limits;
use crate::protobuf::Input;
use crate::render::{base64, double, signed, string};

use super::proto::keys::{any, list, map, pair};

/// Writes a protobuf value as JSON. `depth` is the nesting depth of the value.
pub(super) fn value(
    out: &mut Vec<u8>,
    mut input: Input<'_>,
    limits: &Limits,
    depth: usize,
) -> Result<()> {
    if depth > limits.depth {
        return Err(Reason::TooDeep.at(input.at()));
    }
    let start = out.len();
    while let Some(key) = input.key()? {
        // The last of several values applies.
        out.truncate(start);
        match key {
            any::STRING => string(out, &String::from_utf8_lossy(input.text(limits.text_bytes)?)),
            any::BOOL => {
                out.extend_from_slice(if input.varint()? == 0 { b"false" } else { b"true" })
            }
            any::INT => signed(out, input.varint()? as i64),
            any::DOUBLE => double(out, f64::from_bits(input.fixed64()?)),
            any::ARRAY => array(out, input.message()?, limits, depth + 1)?,
            any::MAP => pairs(out, input.message()?, map::VALUES, limits, depth + 1)?,
            any::BYTES => {
                out.push(b'"');
                base64(out, input.text(limits.text_bytes)?);
                out.push(b'"');
            }
            _ => input.skip(key)?,
        }
        if out.len() > limits.text_bytes {
            return Err(too_long(limits, input.at()));
        }
    }
    if out.len() == start {
        out.extend_from_slice(b"null");
    }
    Ok(())
}

fn array(out: &mut Vec<u8>, mut input: Input<'_>, limits: &Limits, depth: usize) -> Result<()> {
    out.push(b'[');
    let mut is_first = true;
    while let Some(key) = input.key()? {
        if key == list::VALUES {
            separate(out, &mut is_first);
            value(out, input.message()?, limits, depth)?;
        } else {
            input.skip(key)?;
        }
    }
    out.push(b']');
    Ok(())
}

/// Writes the attributes in a message as a JSON map. `field` is the key of the attributes' field.
pub(super) fn pairs(
    out: &mut Vec<u8>,
    mut input: Input<'_>,
    field: u32,
    limits: &Limits,
    depth: usize,
) -> Result<()> {
    out.push(b'{');
    let mut is_first = true;
    while let Some(key) = input.key()? {
        if key == field {
            separate(out, &mut is_first);
            one_pair(out, input.message()?, limits, depth)?;
        } else {
            input.skip(key)?;
        }
    }
    out.push(b'}');
    Ok(())
}

fn one_pair(out: &mut Vec<u8>, mut input: Input<'_>, limits: &Limits, depth: usize) -> Result<()> {
    let (mut name, mut what) = (&b""[..], None);
    while let Some(key) = input.key()? {
        match key {
            pair::KEY => name = input.text(limits.text_bytes)?,
            pair::VALUE => what = Some(input.message()?),
            _ => input.skip(key)?,
        }
    }
    string(out, &String::from_utf8_lossy(name));
    out.push(b':');
    match what {
        Some(what) => value(out, what, limits, depth),
        None => {
            out.extend_from_slice(b"null");
            Ok(())
        }
    }
}

fn separate(out: &mut Vec<u8>, is_first: &mut bool) {
    if !std::mem::take(is_first) {
        out.push(b',');
    }
}

/// Checks the size of rendered text and converts the bytes to a string.
pub(super) fn text(out: Vec<u8>, limits: &Limits, offset: usize) -> Result<String> {
    if out.len() > limits.text_bytes {
        return Err(too_long(limits, offset));
    }
    Ok(String::from_utf8(out).unwrap_or_default())
}

fn too_long(limits: &Limits, offset: usize) -> Box<Fault> {
    let count_max = limits.text_bytes as u64;
    Reason::TooMany { what: "bytes", count_max }.at(offset)
}
