//! What servers answer: writes replies, always in the strict form, which all clients read; and reads them.

use crate::binary::{I32, I64, MAP, Result, STRING, STRUCT, Walk, put_field, put_stop, put_text};
use crate::fault::{Fault, Reason};
use crate::frame;
use crate::message::{EXCEPTION, Header, REPLY};
use std::collections::BTreeMap;

/// Why a call failed, as Thrift numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    UnknownMethod = 1,
    Internal = 6,
    Protocol = 7,
}

/// Adds a frame with a reply, whose result `put` writes.
fn put_reply(out: &mut Vec<u8>, asked: &Header<'_>, kind: u8, put: impl FnOnce(&mut Vec<u8>)) {
    let start = frame::open(out);
    Header { kind, is_strict: true, ..*asked }.write(out);
    put(out);
    put_stop(out);
    frame::close(out, start);
}

pub(crate) fn put_nothing(out: &mut Vec<u8>, asked: &Header<'_>) {
    put_reply(out, asked, REPLY, |_| ());
}

pub(crate) fn put_i32(out: &mut Vec<u8>, asked: &Header<'_>, number: i32) {
    put_reply(out, asked, REPLY, |out| {
        put_field(out, I32, 0);
        out.extend_from_slice(&number.to_be_bytes());
    });
}

pub(crate) fn put_i64(out: &mut Vec<u8>, asked: &Header<'_>, number: i64) {
    put_reply(out, asked, REPLY, |out| {
        put_field(out, I64, 0);
        out.extend_from_slice(&number.to_be_bytes());
    });
}

pub(crate) fn put_string(out: &mut Vec<u8>, asked: &Header<'_>, text: &[u8]) {
    put_reply(out, asked, REPLY, |out| {
        put_field(out, STRING, 0);
        put_text(out, text);
    });
}

/// A map from texts to what `put` writes, of type `kind`.
pub(crate) fn put_map<V>(
    out: &mut Vec<u8>,
    asked: &Header<'_>,
    kind: u8,
    map: &BTreeMap<impl AsRef<[u8]>, V>,
    put: impl Fn(&mut Vec<u8>, &V),
) {
    put_reply(out, asked, REPLY, |out| {
        put_field(out, MAP, 0);
        out.extend_from_slice(&[STRING, kind]);
        out.extend_from_slice(&(map.len() as u32).to_be_bytes());
        for (key, value) in map {
            put_text(out, key.as_ref());
            put(out, value);
        }
    });
}

pub(crate) fn put_exception(
    out: &mut Vec<u8>,
    asked: &Header<'_>,
    failure: Failure,
    message: &str,
) {
    put_reply(out, asked, EXCEPTION, |out| {
        put_field(out, STRING, 1);
        put_text(out, message.as_bytes());
        put_field(out, I32, 2);
        out.extend_from_slice(&(failure as i32).to_be_bytes());
    });
}

/// What a server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing, which is an answer to `setOption`.
    Nothing,
    /// A number of 32 bits: a result, or how the service is.
    I32(i32),
    /// A number of 64 bits.
    I64(i64),
    /// A text.
    Text(Vec<u8>),
    /// Numbers by their names.
    Numbers(BTreeMap<Vec<u8>, i64>),
    /// Texts by their names.
    Texts(BTreeMap<Vec<u8>, Vec<u8>>),
    /// The server could not do what was asked.
    Exception {
        /// Why, in its words.
        message: Vec<u8>,
        /// Why, by Thrift's numbers.
        kind: i32,
    },
}

/// Reads the reply to a call of `name` with the number `sequence`.
pub fn read_reply(body: &[u8], name: &[u8], sequence: i32) -> Result<Answer> {
    let mut walk = Walk::new(body);
    let header = Header::walk(&mut walk)?;
    if header.sequence != sequence {
        return Err(Reason::Foreign.at(0));
    }
    match header.kind {
        // Some servers name no method in an exception.
        EXCEPTION => exception(walk),
        REPLY if header.name == name => result(walk),
        REPLY => Err(Reason::Foreign.at(0)),
        kind => Err(Reason::Kind(kind).at(0)),
    }
}

fn exception(mut walk: Walk<'_>) -> Result<Answer> {
    let (mut message, mut number) = (Vec::new(), 0);
    while let Some(field) = walk.field()? {
        match field {
            (STRING, 1) => message = walk.text()?.to_vec(),
            (I32, 2) => number = walk.i32()?,
            (kind, _) => walk.skip(kind)?,
        }
    }
    Ok(Answer::Exception { message, kind: number })
}

fn result(mut walk: Walk<'_>) -> Result<Answer> {
    let mut answer = Answer::Nothing;
    while let Some(field) = walk.field()? {
        answer = match field {
            (I32, 0) => Answer::I32(walk.i32()?),
            (I64, 0) => Answer::I64(walk.i64()?),
            (STRING, 0) => Answer::Text(walk.text()?.to_vec()),
            (MAP, 0) => map(&mut walk)?,
            // An exception of the method's own; those of Scribe have none.
            (STRUCT, 1..) => return Err(Reason::NoResult.at(walk.at())),
            (kind, _) => {
                walk.skip(kind)?;
                continue;
            }
        };
    }
    Ok(answer)
}

fn map(walk: &mut Walk<'_>) -> Result<Answer> {
    let start = walk.at();
    let (kinds, count) = walk.map()?;
    fn read<'a, V>(
        walk: &mut Walk<'a>,
        count: usize,
        value: impl Fn(&mut Walk<'a>) -> Result<V>,
    ) -> std::result::Result<BTreeMap<Vec<u8>, V>, Fault> {
        let mut map = BTreeMap::new();
        for _ in 0..count {
            let key = walk.text()?.to_vec();
            map.insert(key, value(walk)?);
        }
        Ok(map)
    }
    match kinds {
        // An empty one may have no types.
        [_, I64] => read(walk, count, Walk::i64).map(Answer::Numbers),
        _ if count == 0 => Ok(Answer::Numbers(BTreeMap::new())),
        [STRING, STRING] => {
            read(walk, count, |walk| walk.text().map(<[u8]>::to_vec)).map(Answer::Texts)
        }
        [_, kind] => Err(Reason::Type(kind).at(start)),
    }
}
