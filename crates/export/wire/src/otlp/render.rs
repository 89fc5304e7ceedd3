//! What values that are lists or maps become: JSON text.

use crate::Limits;
use crate::fault::{Reason, Result};
use crate::protobuf::Walk;
use crate::render::{base64, double, signed, string};

use super::proto::keys::{any, list, map, pair};

/// Writes a value of protobuf's as JSON. `depth` is how many lists and maps it is in.
pub(super) fn value(
    out: &mut Vec<u8>,
    mut walk: Walk<'_>,
    limits: &Limits,
    depth: usize,
) -> Result<()> {
    if depth > limits.depth {
        return Err(Reason::TooDeep.at(walk.at()));
    }
    let start = out.len();
    while let Some(key) = walk.key()? {
        // Of several the last one counts.
        out.truncate(start);
        match key {
            any::STRING => string(out, &String::from_utf8_lossy(walk.text(limits.text_bytes)?)),
            any::BOOL => {
                out.extend_from_slice(if walk.varint()? == 0 { b"false" } else { b"true" })
            }
            any::INT => signed(out, walk.varint()? as i64),
            any::DOUBLE => double(out, f64::from_bits(walk.fixed64()?)),
            any::ARRAY => array(out, walk.message()?, limits, depth + 1)?,
            any::MAP => pairs(out, walk.message()?, map::VALUES, limits, depth + 1)?,
            any::BYTES => {
                out.push(b'"');
                base64(out, walk.text(limits.text_bytes)?);
                out.push(b'"');
            }
            _ => walk.skip(key)?,
        }
        if out.len() > limits.text_bytes {
            return Err(too_long(limits, walk.at()));
        }
    }
    if out.len() == start {
        out.extend_from_slice(b"null");
    }
    Ok(())
}

fn array(out: &mut Vec<u8>, mut walk: Walk<'_>, limits: &Limits, depth: usize) -> Result<()> {
    out.push(b'[');
    let mut is_first = true;
    while let Some(key) = walk.key()? {
        if key == list::VALUES {
            separate(out, &mut is_first);
            value(out, walk.message()?, limits, depth)?;
        } else {
            walk.skip(key)?;
        }
    }
    out.push(b']');
    Ok(())
}

/// Writes as a map all pairs that are fields of a message, by this key.
pub(super) fn pairs(
    out: &mut Vec<u8>,
    mut walk: Walk<'_>,
    field: u32,
    limits: &Limits,
    depth: usize,
) -> Result<()> {
    out.push(b'{');
    let mut is_first = true;
    while let Some(key) = walk.key()? {
        if key == field {
            separate(out, &mut is_first);
            one_pair(out, walk.message()?, limits, depth)?;
        } else {
            walk.skip(key)?;
        }
    }
    out.push(b'}');
    Ok(())
}

fn one_pair(out: &mut Vec<u8>, mut walk: Walk<'_>, limits: &Limits, depth: usize) -> Result<()> {
    let (mut name, mut what) = (&b""[..], None);
    while let Some(key) = walk.key()? {
        match key {
            pair::KEY => name = walk.text(limits.text_bytes)?,
            pair::VALUE => what = Some(walk.message()?),
            _ => walk.skip(key)?,
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

/// What was rendered, as text.
pub(super) fn text(out: Vec<u8>, limits: &Limits, offset: usize) -> Result<String> {
    if out.len() > limits.text_bytes {
        return Err(too_long(limits, offset));
    }
    Ok(String::from_utf8(out).unwrap_or_default())
}

fn too_long(limits: &Limits, offset: usize) -> Box<crate::Fault> {
    let count_max = limits.text_bytes as u64;
    Reason::TooMany { what: "bytes", count_max }.at(offset)
}
