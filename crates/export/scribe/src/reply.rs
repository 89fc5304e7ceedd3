//! Replies of servers: encoding and decoding. Replies are written in the strict encoding, which all
//! clients read; replies of old servers in the old encoding are read, too.

use crate::binary::{I32, I64, Input, MAP, Result, STRING, STRUCT, put_field, put_stop, put_text};
use crate::fault::{Fault, Reason};
use crate::frame;
use crate::message::{EXCEPTION, Header, REPLY};
use std::collections::BTreeMap;

/// Exception types of Thrift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    UnknownMethod = 1,
    Internal = 6,
    Protocol = 7,
}

/// Writes a reply to `call` as a frame; `put` writes the result.
fn put_reply(out: &mut Vec<u8>, call: &Header<'_>, kind: u8, put: impl FnOnce(&mut Vec<u8>)) {
    let start = frame::open(out);
    Header { kind, is_strict: true, ..*call }.write(out);
    put(out);
    put_stop(out);
    frame::close(out, start);
}

pub(crate) fn put_void(out: &mut Vec<u8>, call: &Header<'_>) {
    put_reply(out, call, REPLY, |_| ());
}

pub(crate) fn put_i32(out: &mut Vec<u8>, call: &Header<'_>, number: i32) {
    put_reply(out, call, REPLY, |out| {
        put_field(out, I32, 0);
        out.extend_from_slice(&number.to_be_bytes());
    });
}

pub(crate) fn put_i64(out: &mut Vec<u8>, call: &Header<'_>, number: i64) {
    put_reply(out, call, REPLY, |out| {
        put_field(out, I64, 0);
        out.extend_from_slice(&number.to_be_bytes());
    });
}

pub(crate) fn put_string(out: &mut Vec<u8>, call: &Header<'_>, text: &[u8]) {
    put_reply(out, call, REPLY, |out| {
        put_field(out, STRING, 0);
        put_text(out, text);
    });
}

/// Writes a map with text keys. `put` writes a value of type `kind`.
pub(crate) fn put_map<V>(
    out: &mut Vec<u8>,
    call: &Header<'_>,
    kind: u8,
    map: &BTreeMap<impl AsRef<[u8]>, V>,
    put: impl Fn(&mut Vec<u8>, &V),
) {
    put_reply(out, call, REPLY, |out| {
        put_field(out, MAP, 0);
        out.extend_from_slice(&[STRING, kind]);
        out.extend_from_slice(&(map.len() as u32).to_be_bytes());
        for (key, value) in map {
            put_text(out, key.as_ref());
            put(out, value);
        }
    });
}

pub(crate) fn put_exception(out: &mut Vec<u8>, call: &Header<'_>, failure: Failure, message: &str) {
    put_reply(out, call, EXCEPTION, |out| {
        put_field(out, STRING, 1);
        put_text(out, message.as_bytes());
        put_field(out, I32, 2);
        out.extend_from_slice(&(failure as i32).to_be_bytes());
    });
}

/// Decoded reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// No result, as for `setOption`.
    Void,
    /// A 32-bit number: a result code or service status.
    I32(i32),
    /// A 64-bit number: a counter or a time.
    I64(i64),
    /// A text, such as the name of the service.
    Text(Vec<u8>),
    /// A map from names to numbers, or an empty map of any types.
    Numbers(BTreeMap<Vec<u8>, i64>),
    /// A map from names to texts.
    Texts(BTreeMap<Vec<u8>, Vec<u8>>),
    /// The call failed.
    Exception {
        /// Error message of the server.
        message: Vec<u8>,
        /// Exception type of Thrift, such as 1 for an unknown method.
        kind: i32,
    },
}

/// Reads the reply to a call of method `name` with number `sequence`.
pub fn read_reply(body: &[u8], name: &[u8], sequence: i32) -> Result<Answer> {
    let mut input = Input::new(body);
    let header = Header::read_from(&mut input)?;
    if header.sequence != sequence {
        return Err(Reason::WrongReply.at(0));
    }
    match header.kind {
        // Some servers omit the method's name in exceptions.
        EXCEPTION => exception(input),
        REPLY if header.name == name => result(input),
        REPLY => Err(Reason::WrongReply.at(0)),
        kind => Err(Reason::Kind(kind).at(0)),
    }
}

fn exception(mut input: Input<'_>) -> Result<Answer> {
    let (mut message, mut number) = (Vec::new(), 0);
    while let Some(field) = input.field()? {
        match field {
            (STRING, 1) => message = input.text()?.to_vec(),
            (I32, 2) => number = input.i32()?,
            (kind, _) => input.skip(kind)?,
        }
    }
    Ok(Answer::Exception { message, kind: number })
}

fn result(mut input: Input<'_>) -> Result<Answer> {
    let mut answer = Answer::Void;
    while let Some(field) = input.field()? {
        answer = match field {
            (I32, 0) => Answer::I32(input.i32()?),
            (I64, 0) => Answer::I64(input.i64()?),
            (STRING, 0) => Answer::Text(input.text()?.to_vec()),
            (MAP, 0) => map(&mut input)?,
            // A declared exception of the method; Scribe's methods have none.
            (STRUCT, 1..) => return Err(Reason::NoResult.at(input.at())),
            (kind, _) => {
                input.skip(kind)?;
                continue;
            }
        };
    }
    Ok(answer)
}

fn map(input: &mut Input<'_>) -> Result<Answer> {
    let start = input.at();
    let (kinds, count) = input.map()?;
    fn read<'a, V>(
        input: &mut Input<'a>,
        count: usize,
        value: impl Fn(&mut Input<'a>) -> Result<V>,
    ) -> std::result::Result<BTreeMap<Vec<u8>, V>, Fault> {
        let mut map = BTreeMap::new();
        for _ in 0..count {
            let key = input.text()?.to_vec();
            map.insert(key, value(input)?);
        }
        Ok(map)
    }
    match kinds {
        // An empty map may omit its types.
        [_, I64] => read(input, count, Input::i64).map(Answer::Numbers),
        _ if count == 0 => Ok(Answer::Numbers(BTreeMap::new())),
        [STRING, STRING] => {
            read(input, count, |input| input.text().map(<[u8]>::to_vec)).map(Answer::Texts)
        }
        [_, kind] => Err(Reason::Type(kind).at(start)),
    }
}
