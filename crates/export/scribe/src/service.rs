//! A server without sockets: the body of a frame in, the reply out. What it cannot answer itself it asks a
//! [`Handler`].

use crate::binary::{I64, STRING, put_text};
use crate::codes::{ResultCode, Status};
use crate::entries::Entries;
use crate::fault::Fault;
use crate::message::Header;
use crate::reply::{Failure, put_exception, put_i32, put_i64, put_map, put_nothing, put_string};
use crate::request::{Limits, Request, read_request};
use crate::server::Closed;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Does what a server is there for. It is called by many threads at once, one for each connection, and only the
/// connection that it is called for waits.
pub trait Handler: Send + Sync + 'static {
    /// Takes entries, all of them or none. An empty list asks whether some would be taken.
    ///
    /// What it has taken it keeps, whatever happens then: the client forgets it.
    fn log(&self, entries: &Entries<'_>) -> ResultCode;

    /// How it is.
    fn status(&self) -> Status {
        Status::Alive
    }

    /// Why it is so; nothing if all is well.
    fn status_details(&self) -> String {
        String::new()
    }

    /// What it has counted.
    fn counters(&self) -> BTreeMap<String, i64> {
        BTreeMap::new()
    }

    /// Somebody wants the configuration to be read again. Who may want that is for the handler to say.
    fn reinitialize(&self, _from: SocketAddr) {}

    /// Somebody wants the service to end. Who may want that is for the handler to say.
    fn shutdown(&self, _from: SocketAddr) {}

    /// What the service is called.
    fn name(&self) -> &str {
        "Scribe"
    }

    /// Its version: that of the protocol's first server, by which scripts know it.
    fn version(&self) -> &str {
        "2.2"
    }

    /// A connection was closed because of what the other side did, or did not do.
    fn closed(&self, _peer: Option<SocketAddr>, _why: &Closed) {}
}

/// What to do when a request has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on with the next one.
    Continue,
    /// Send what was answered, and close the connection.
    Close(Fault),
}

/// Answers requests.
#[derive(Debug)]
pub struct Service<H> {
    handler: H,
    limits: Limits,
    started_s: u64,
    /// What `setOption` has set. It changes nothing but what `getOption` says.
    options: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    is_stopping: AtomicBool,
}

/// What options may take together, keys and values.
const OPTIONS_BYTES_MAX: usize = 64 << 10;

/// What each is counted for beside its bytes.
const OPTION_BYTES: usize = 64;

impl<H: Handler> Service<H> {
    /// One that asks `handler`.
    pub fn new(handler: H, limits: Limits) -> Service<H> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (options, is_stopping) = (Mutex::default(), AtomicBool::new(false));
        Service { handler, limits, started_s: now.as_secs(), options, is_stopping }
    }

    /// Who is asked.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// How large what clients send may be.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes nothing any more.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Answers what is in a frame; the reply, if one is wanted, is added to `out` as a frame.
    pub fn answer(&self, body: &[u8], from: SocketAddr, out: &mut Vec<u8>) -> Next {
        let (asked, request) = match read_request(body, &self.limits) {
            Ok(read) => read,
            Err(fault) => return Next::Close(fault),
        };
        match request {
            Ok(request) => {
                self.do_it(&asked, request, from, out);
                Next::Continue
            }
            Err(fault) => {
                if asked.kind == crate::message::CALL {
                    put_exception(out, &asked, Failure::Protocol, &fault.to_string());
                }
                Next::Close(fault)
            }
        }
    }

    /// Answers a request of which only the beginning was kept, because there was no room for more. Whether that could
    /// be done.
    pub fn refuse(&self, beginning: &[u8], out: &mut Vec<u8>) -> bool {
        match Header::read(beginning) {
            Ok((asked, _)) if asked.name == b"Log" && asked.kind == crate::message::CALL => {
                put_i32(out, &asked, ResultCode::TryLater.number());
                true
            }
            _ => false,
        }
    }

    fn do_it(&self, asked: &Header<'_>, request: Request<'_>, from: SocketAddr, out: &mut Vec<u8>) {
        // These two are never answered: clients of the time say that they are calls, but do not wait.
        match request {
            Request::Reinitialize => return self.handler.reinitialize(from),
            Request::Shutdown => return self.handler.shutdown(from),
            _ => {}
        }
        let start = out.len();
        self.reply(asked, request, out);
        if asked.kind != crate::message::CALL {
            out.truncate(start);
        }
    }

    fn reply(&self, asked: &Header<'_>, request: Request<'_>, out: &mut Vec<u8>) {
        let handler = &self.handler;
        match request {
            Request::Log(entries) => {
                let code = match self.is_stopping() {
                    true => ResultCode::TryLater,
                    false => handler.log(&entries),
                };
                put_i32(out, asked, code.number());
            }
            Request::Name => put_string(out, asked, handler.name().as_bytes()),
            Request::Version => put_string(out, asked, handler.version().as_bytes()),
            Request::Status => {
                let status = if self.is_stopping() { Status::Stopping } else { handler.status() };
                put_i32(out, asked, status.number());
            }
            Request::StatusDetails => {
                put_string(out, asked, handler.status_details().as_bytes());
            }
            Request::Counters => {
                put_map(out, asked, I64, &handler.counters(), |out, number| {
                    out.extend_from_slice(&number.to_be_bytes());
                });
            }
            Request::Counter(key) => {
                let counters = handler.counters();
                let counter = std::str::from_utf8(key).ok().and_then(|key| counters.get(key));
                put_i64(out, asked, counter.copied().unwrap_or(0));
            }
            Request::SetOption(key, value) => match self.set_option(key, value) {
                true => put_nothing(out, asked),
                false => put_exception(out, asked, Failure::Internal, "no room for more options"),
            },
            Request::GetOption(key) => {
                let options = self.options();
                put_string(out, asked, options.get(key).map_or(b"", Vec::as_slice));
            }
            Request::GetOptions => {
                put_map(out, asked, STRING, &self.options(), |out, value| put_text(out, value));
            }
            Request::CpuProfile(_) => put_string(out, asked, b""),
            Request::AliveSince => put_i64(out, asked, self.started_s as i64),
            Request::Unknown => {
                let name = String::from_utf8_lossy(asked.name);
                let message = format!("there is no method {name}");
                put_exception(out, asked, Failure::UnknownMethod, &message);
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
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
