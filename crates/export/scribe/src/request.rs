//! What clients ask: reads a call with its arguments, and writes one.

use crate::binary::{I32, LIST, Result, STRING, Walk, put_field, put_stop, put_text};
use crate::entries::Entries;
use crate::fault::Reason;
use crate::message::{CALL, Header, ONE_WAY};

/// How large what clients send may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A frame.
    pub frame_bytes_max: usize,
    /// Entries of a `Log`.
    pub entries_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { frame_bytes_max: 16 << 20, entries_max: 1 << 20 }
    }
}

/// What a client asks.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// To take these.
    Log(Entries<'a>),
    /// What the service is called.
    Name,
    /// Which version it is.
    Version,
    /// How it is.
    Status,
    /// And why.
    StatusDetails,
    /// All counters.
    Counters,
    /// The counter of this name.
    Counter(&'a [u8]),
    /// To keep a value by a name.
    SetOption(&'a [u8], &'a [u8]),
    /// The value of that name.
    GetOption(&'a [u8]),
    /// All of them.
    GetOptions,
    /// A profile, for so many seconds.
    CpuProfile(i32),
    /// When it was started.
    AliveSince,
    /// To read its configuration again. Never answered.
    Reinitialize,
    /// To end. Never answered.
    Shutdown,
    /// Something else.
    Unknown,
}

/// Reads a call. A fault within its arguments still tells whose they are.
pub fn read_request<'a>(
    body: &'a [u8],
    limits: &Limits,
) -> Result<(Header<'a>, Result<Request<'a>>)> {
    let mut walk = Walk::new(body);
    let header = Header::walk(&mut walk)?;
    match header.kind {
        CALL | ONE_WAY => Ok((header, arguments(header.name, walk, limits))),
        kind => Err(Reason::Kind(kind).at(0)),
    }
}

fn arguments<'a>(name: &[u8], mut walk: Walk<'a>, limits: &Limits) -> Result<Request<'a>> {
    let mut texts: [&[u8]; 2] = [b""; 2];
    let (mut number, mut entries) = (0, Entries::default());
    let is_log = name == b"Log";
    if request_named(name).is_none() {
        // Its arguments may be anything.
        return Ok(Request::Unknown);
    }
    while let Some((kind, id)) = walk.field()? {
        match (kind, id) {
            (LIST, 1) if is_log => entries = Entries::read(&mut walk, limits.entries_max)?,
            (STRING, 1) => texts[0] = walk.text()?,
            (STRING, 2) => texts[1] = walk.text()?,
            (I32, 1) => number = walk.i32()?,
            (kind, _) => walk.skip(kind)?,
        }
    }
    Ok(match request_named(name) {
        Some(Request::Log(_)) => Request::Log(entries),
        Some(Request::Counter(_)) => Request::Counter(texts[0]),
        Some(Request::SetOption(..)) => Request::SetOption(texts[0], texts[1]),
        Some(Request::GetOption(_)) => Request::GetOption(texts[0]),
        Some(Request::CpuProfile(_)) => Request::CpuProfile(number),
        Some(request) => request,
        None => Request::Unknown,
    })
}

fn request_named(name: &[u8]) -> Option<Request<'static>> {
    Some(match name {
        b"Log" => Request::Log(Entries::default()),
        b"getName" => Request::Name,
        b"getVersion" => Request::Version,
        b"getStatus" => Request::Status,
        b"getStatusDetails" => Request::StatusDetails,
        b"getCounters" => Request::Counters,
        b"getCounter" => Request::Counter(b""),
        b"setOption" => Request::SetOption(b"", b""),
        b"getOption" => Request::GetOption(b""),
        b"getOptions" => Request::GetOptions,
        b"getCpuProfile" => Request::CpuProfile(0),
        b"aliveSince" => Request::AliveSince,
        b"reinitialize" => Request::Reinitialize,
        b"shutdown" => Request::Shutdown,
        _ => return None,
    })
}

/// Adds the body of a call of fb303's, whose arguments are texts.
pub(crate) fn put_call(out: &mut Vec<u8>, header: &Header<'_>, arguments: &[&[u8]]) {
    header.write(out);
    for (id, argument) in (1..).zip(arguments) {
        put_field(out, STRING, id);
        put_text(out, argument);
    }
    put_stop(out);
}
