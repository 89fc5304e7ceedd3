//! Decoding of clients' calls with their arguments, and encoding of calls.

use crate::binary::{I32, Input, LIST, Result, STRING, put_field, put_stop, put_text};
use crate::entries::Entries;
use crate::fault::Reason;
use crate::message::{CALL, Header, ONE_WAY};

/// Limits on the calls that a server accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a frame's body, in bytes.
    pub frame_bytes_max: usize,
    /// Maximum number of entries in a `Log` call.
    pub entries_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { frame_bytes_max: 16 << 20, entries_max: 1 << 20 }
    }
}

/// A decoded call of a client, with its arguments.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Call of `Log` with these entries.
    Log(Entries<'a>),
    /// Request for the name of the service.
    Name,
    /// Request for the version of the service.
    Version,
    /// Request for the status of the service.
    Status,
    /// Request for the explanation of the status.
    StatusDetails,
    /// Request for all counters.
    Counters,
    /// Request for the counter with this name.
    Counter(&'a [u8]),
    /// Request to store an option: key and value.
    SetOption(&'a [u8], &'a [u8]),
    /// Request for the option with this key.
    GetOption(&'a [u8]),
    /// Request for all options.
    GetOptions,
    /// Request for a CPU profile of this many seconds.
    CpuProfile(i32),
    /// Request for the start time of the service.
    AliveSince,
    /// Request to reload the configuration, never answered.
    Reinitialize,
    /// Request to shut down, never answered.
    Shutdown,
    /// Call of an unknown method.
    Unknown,
}

/// Reads a call. If only the arguments are faulty, the header is returned with the fault.
pub fn read_request<'a>(
    body: &'a [u8],
    limits: &Limits,
) -> Result<(Header<'a>, Result<Request<'a>>)> {
    let mut input = Input::new(body);
    let header = Header::read_from(&mut input)?;
    match header.kind {
        CALL | ONE_WAY => Ok((header, arguments(header.name, input, limits))),
        kind => Err(Reason::Kind(kind).at(0)),
    }
}

fn arguments<'a>(name: &[u8], mut input: Input<'a>, limits: &Limits) -> Result<Request<'a>> {
    let mut texts: [&[u8]; 2] = [b""; 2];
    let (mut number, mut entries) = (0, Entries::default());
    let is_log = name == b"Log";
    if request_of_method(name).is_none() {
        // Arguments of unknown methods are not validated.
        return Ok(Request::Unknown);
    }
    while let Some((kind, id)) = input.field()? {
        match (kind, id) {
            (LIST, 1) if is_log => entries = Entries::read(&mut input, limits.entries_max)?,
            (STRING, 1) => texts[0] = input.text()?,
            (STRING, 2) => texts[1] = input.text()?,
            (I32, 1) => number = input.i32()?,
            (kind, _) => input.skip(kind)?,
        }
    }
    Ok(match request_of_method(name) {
        Some(Request::Log(_)) => Request::Log(entries),
        Some(Request::Counter(_)) => Request::Counter(texts[0]),
        Some(Request::SetOption(..)) => Request::SetOption(texts[0], texts[1]),
        Some(Request::GetOption(_)) => Request::GetOption(texts[0]),
        Some(Request::CpuProfile(_)) => Request::CpuProfile(number),
        Some(request) => request,
        None => Request::Unknown,
    })
}

fn request_of_method(name: &[u8]) -> Option<Request<'static>> {
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

/// Writes the body of an fb303 call with text arguments.
pub(crate) fn put_call(out: &mut Vec<u8>, header: &Header<'_>, arguments: &[&[u8]]) {
    header.write(out);
    for (id, argument) in (1..).zip(arguments) {
        put_field(out, STRING, id);
        put_text(out, argument);
    }
    put_stop(out);
}
