//! A server without sockets: turns frame bodies into replies. A [`Handler`] implements the methods.

use crate::binary::{I64, STRING, put_text};
use crate::close_reason::CloseReason;
use crate::codes::{ResultCode, Status};
use crate::entries::Entries;
use crate::fault::Fault;
use crate::message::Header;
use crate::reply::{Failure, put_exception, put_i32, put_i64, put_map, put_string, put_void};
use crate::request::{Limits, Request, read_request};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Implementation of a server's methods. The threads of all connections call it concurrently; a
/// call blocks only its own connection. The accepting thread also calls [`Handler::closed`], for
/// connections that get no thread.
pub trait Handler: Send + Sync + 'static {
    /// Accepts all entries or none. A client sends an empty list to test whether the handler
    /// currently accepts entries.
    ///
    /// Accepted entries must not be lost: the client deletes them.
    fn log(&self, entries: &Entries<'_>) -> ResultCode;

    /// Returns the status of the service; [`Status::Alive`] by default.
    fn status(&self) -> Status {
        Status::Alive
    }

    /// Returns the explanation of the status; empty if the service has no problem.
    fn status_details(&self) -> String {
        String::new()
    }

    /// Returns the counters of the service by name; none by default.
    fn counters(&self) -> BTreeMap<String, i64> {
        BTreeMap::new()
    }

    /// Handles a client's request to reload the configuration. The handler decides whether the
    /// client is permitted to do so.
    fn reinitialize(&self, _from: SocketAddr) {}

    /// Handles a client's request to shut the service down. The handler decides whether the client
    /// is permitted to do so.
    fn shutdown(&self, _from: SocketAddr) {}

    /// Returns the name that answers fb303's `getName` call.
    fn name(&self) -> &str {
        "Scribe"
    }

    /// Returns the version of the service. The default is the version of the original server, which
    /// scripts expect.
    fn version(&self) -> &str {
        "2.2"
    }

    /// Reports a connection that the server closed or could not serve, with the reason. Not called
    /// if the peer closes or resets the connection while the server waits for a request or the rest
    /// of one, or if the connection ends because the server stops.
    fn closed(&self, _peer: Option<SocketAddr>, _why: &CloseReason) {}
}

/// Action of the connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAction {
    /// The connection continues with the next request.
    Continue,
    /// The connection sends the pending replies and closes.
    Close(Fault),
}

/// Protocol logic of a server: decodes requests, calls the handler, and encodes the replies. All
/// connections share it.
#[derive(Debug)]
pub struct Service<H> {
    handler: H,
    limits: Limits,
    started_s: u64,
    /// Options set by `setOption`. They have no effect and are only returned by `getOption` and
    /// `getOptions`.
    options: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    is_stopping: AtomicBool,
}

/// Maximum size of all options, in bytes.
const OPTIONS_BYTES_MAX: usize = 64 << 10;

/// Overhead that each option counts in addition to its key and value, in bytes.
const OPTION_BYTES: usize = 64;

impl<H: Handler> Service<H> {
    /// Creates a service that passes valid requests to `handler`.
    pub fn new(handler: H, limits: Limits) -> Service<H> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (options, is_stopping) = (Mutex::default(), AtomicBool::new(false));
        Service { handler, limits, started_s: now.as_secs(), options, is_stopping }
    }

    /// Returns the handler that implements the methods.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Returns the limits on requests.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Makes the service answer all further `Log` calls with `TRY_LATER`, and `getStatus` with
    /// [`Status::Stopping`].
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Answers the request in a frame's body. The reply, if the call expects one, is appended to
    /// `out` as a frame.
    pub fn answer(&self, body: &[u8], from: SocketAddr, out: &mut Vec<u8>) -> ConnectionAction {
        let (call, request) = match read_request(body, &self.limits) {
            Ok(read) => read,
            Err(fault) => return ConnectionAction::Close(fault),
        };
        match request {
            Ok(request) => {
                self.dispatch(&call, request, from, out);
                ConnectionAction::Continue
            }
            Err(fault) => {
                if call.kind == crate::message::CALL {
                    put_exception(out, &call, Failure::Protocol, &fault.to_string());
                }
                ConnectionAction::Close(fault)
            }
        }
    }

    /// Refuses a `Log` call whose end has not been received: appends a `TRY_LATER` reply to `out`.
    /// Returns false if `beginning` does not start with the header of such a call.
    pub fn refuse(&self, beginning: &[u8], out: &mut Vec<u8>) -> bool {
        match Header::read(beginning) {
            Ok((call, _)) if call.name == b"Log" && call.kind == crate::message::CALL => {
                put_i32(out, &call, ResultCode::TryLater.number());
                true
            }
            _ => false,
        }
    }

    fn dispatch(
        &self,
        call: &Header<'_>,
        request: Request<'_>,
        from: SocketAddr,
        out: &mut Vec<u8>,
    ) {
        // `Reinitialize` and `Shutdown` have no reply: old clients send them as calls, but do not
        // wait.
        match request {
            Request::Reinitialize => return self.handler.reinitialize(from),
            Request::Shutdown => return self.handler.shutdown(from),
            _ => {}
        }
        let start = out.len();
        self.reply(call, request, out);
        if call.kind != crate::message::CALL {
            out.truncate(start);
        }
    }

    fn reply(&self, call: &Header<'_>, request: Request<'_>, out: &mut Vec<u8>) {
        let handler = &self.handler;
        match request {
            Request::Log(entries) => {
                let code = match self.is_stopping() {
                    true => ResultCode::TryLater,
                    false => handler.log(&entries),
                };
                put_i32(out, call, code.number());
            }
            Request::Name => put_string(out, call, handler.name().as_bytes()),
            Request::Version => put_string(out, call, handler.version().as_bytes()),
            Request::Status => {
                let status = if self.is_stopping() { Status::Stopping } else { handler.status() };
                put_i32(out, call, status.number());
            }
            Request::StatusDetails => {
                put_string(out, call, handler.status_details().as_bytes());
            }
            Request::Counters => {
                put_map(out, call, I64, &handler.counters(), |out, number| {
                    out.extend_from_slice(&number.to_be_bytes());
                });
            }
            Request::Counter(key) => {
                let counters = handler.counters();
                let counter = std::str::from_utf8(key).ok().and_then(|key| counters.get(key));
                put_i64(out, call, counter.copied().unwrap_or(0));
            }
            Request::SetOption(key, value) => match self.set_option(key, value) {
                true => put_void(out, call),
                false => put_exception(out, call, Failure::Internal, "no room for more options"),
            },
            Request::GetOption(key) => {
                let options = self.options();
                put_string(out, call, options.get(key).map_or(b"", Vec::as_slice));
            }
            Request::GetOptions => {
                put_map(out, call, STRING, &self.options(), |out, value| put_text(out, value));
            }
            Request::CpuProfile(_) => put_string(out, call, b""),
            Request::AliveSince => put_i64(out, call, self.started_s as i64),
            Request::Unknown => {
                let name = String::from_utf8_lossy(call.name);
                let message = format!("there is no method {name}");
                put_exception(out, call, Failure::UnknownMethod, &message);
            }
            Request::Reinitialize | Request::Shutdown => {}
        }
    }

    fn set_option(&self, key: &[u8], value: &[u8]) -> bool {
        let mut options = self.options();
        let size = |key: &[u8], value: &[u8]| key.len() + value.len() + OPTION_BYTES;
        let others = options.iter().filter(|(other, _)| *other != key);
        let taken: usize = others.map(|(key, value)| size(key, value)).sum();
        let fits = taken + size(key, value) <= OPTIONS_BYTES_MAX;
        if fits {
            options.insert(key.to_vec(), value.to_vec());
        }
        fits
    }

    fn options(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.options.lock()
    }
}
