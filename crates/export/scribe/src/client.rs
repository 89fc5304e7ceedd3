//! A connection to a server, with one call in flight. Start at [`Client::log`].
//!
//! Each wait except name resolution has a deadline, even if the server keeps sending single bytes.

use crate::batch::Batch;
use crate::codes::{ResultCode, Status};
use crate::fault::{Fault, Reason};
use crate::frame::{self, FrameError, Frames};
use crate::message::{CALL, Header, ONE_WAY};
use crate::reply::{Answer, read_reply};
use crate::request::put_call;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Timeouts and limits of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Timeout for connecting to each address of the server.
    pub connect_timeout: Duration,
    /// Timeout for sending a call, and for receiving a complete reply.
    pub timeout: Duration,
    /// Maximum size of a reply, in bytes.
    pub reply_bytes_max: usize,
    /// True for the strict encoding of calls, false for the old encoding.
    pub is_strict: bool,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            reply_bytes_max: 4 << 20,
            is_strict: true,
        }
    }
}

/// Error of connecting or of a call. After any error but [`ClientError::Exception`], further calls
/// need a new connection. A batch should be sent again, although the server may have accepted it.
#[derive(Debug)]
pub enum ClientError {
    /// The connection could not be established.
    Connect(io::Error),
    /// The connection broke, or a timeout expired.
    Io(io::Error),
    /// The received bytes are not a frame, or the frame is too large.
    Misfit(FrameError),
    /// The reply is malformed, belongs to a different call, or has no valid result.
    Fault(Fault),
    /// The server answered the call with an exception, which has this message.
    Exception(String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Connect(error) => write!(f, "cannot connect: {error}"),
            ClientError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                write!(f, "the server has closed the connection")
            }
            ClientError::Io(error) if is_timeout(error) => {
                write!(f, "the server takes too long")
            }
            ClientError::Io(error) => write!(f, "the connection is broken: {error}"),
            ClientError::Misfit(misfit) => write!(f, "not an answer of Scribe's: {misfit}"),
            ClientError::Fault(fault) => write!(f, "the answer makes no sense: {fault}"),
            ClientError::Exception(message) => write!(f, "the server refuses it: {message}"),
        }
    }
}

impl std::error::Error for ClientError {}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

/// Client of a Scribe server, with one connection.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    options: ClientOptions,
    sequence: i32,
    /// Bytes of the reply that have been received so far.
    reply: Vec<u8>,
    call: Vec<u8>,
}

type Result<T> = std::result::Result<T, ClientError>;

impl Client {
    /// Connects to the first of the server's addresses that accepts the connection.
    pub fn connect(server: impl ToSocketAddrs, options: ClientOptions) -> Result<Client> {
        let mut failure = io::Error::other("the name has no address");
        for address in server.to_socket_addrs().map_err(ClientError::Connect)? {
            match TcpStream::connect_timeout(&address, options.connect_timeout) {
                Ok(stream) => return Client::new(stream, options).map_err(ClientError::Connect),
                Err(error) => failure = error,
            }
        }
        Err(ClientError::Connect(failure))
    }

    fn new(stream: TcpStream, options: ClientOptions) -> io::Result<Client> {
        stream.set_nodelay(true)?;
        Ok(Client { stream, options, sequence: 0, reply: Vec::new(), call: Vec::new() })
    }

    /// Sends a batch and returns the server's result. After [`ResultCode::TryLater`] and errors,
    /// the same batch should be sent again.
    pub fn log(&mut self, batch: &mut Batch) -> Result<ResultCode> {
        self.send(batch)?;
        self.receive()
    }

    /// Sends an empty batch; the result shows whether the server currently accepts entries.
    pub fn probe(&mut self) -> Result<ResultCode> {
        self.log(&mut Batch::new(self.options.is_strict))
    }

    fn send(&mut self, batch: &mut Batch) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let deadline = Instant::now() + self.options.timeout;
        write_all(&mut self.stream, batch.frame(self.sequence), deadline).map_err(ClientError::Io)
    }

    fn receive(&mut self) -> Result<ResultCode> {
        match self.receive_answer(b"Log")? {
            Answer::I32(number) => {
                let code = ResultCode::from_number(number);
                code.ok_or_else(|| ClientError::Fault(Reason::Result(number).at(0)))
            }
            _ => Err(ClientError::Fault(Reason::NoResult.at(0))),
        }
    }

    /// Requests the name of the service.
    pub fn name(&mut self) -> Result<String> {
        self.text("getName", &[])
    }

    /// Requests the version of the service.
    pub fn version(&mut self) -> Result<String> {
        self.text("getVersion", &[])
    }

    /// Requests the status of the service.
    pub fn status(&mut self) -> Result<Status> {
        match self.call("getStatus", &[])? {
            Answer::I32(number) => {
                let status = Status::from_number(number);
                status.ok_or_else(|| ClientError::Fault(Reason::Result(number).at(0)))
            }
            _ => Err(ClientError::Fault(Reason::NoResult.at(0))),
        }
    }

    /// Requests the explanation of the status.
    pub fn status_details(&mut self) -> Result<String> {
        self.text("getStatusDetails", &[])
    }

    /// Requests all counters of the service.
    pub fn counters(&mut self) -> Result<BTreeMap<String, i64>> {
        match self.call("getCounters", &[])? {
            Answer::Numbers(numbers) => {
                let numbers = numbers.into_iter();
                Ok(numbers.map(|(name, number)| (lossy(name), number)).collect())
            }
            _ => Err(ClientError::Fault(Reason::NoResult.at(0))),
        }
    }

    /// Requests the counter with this name; 0 if the server lacks it.
    pub fn counter(&mut self, name: &str) -> Result<i64> {
        self.i64("getCounter", &[name.as_bytes()])
    }

    /// Requests the start time of the service, in seconds since 1970.
    pub fn alive_since(&mut self) -> Result<i64> {
        self.i64("aliveSince", &[])
    }

    /// Requests the value of an option.
    pub fn option(&mut self, name: &str) -> Result<String> {
        self.text("getOption", &[name.as_bytes()])
    }

    /// Sets an option. Servers usually only store options, for [`Client::option`].
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<()> {
        self.call("setOption", &[name.as_bytes(), value.as_bytes()]).map(drop)
    }

    /// Requests a reload of the service's configuration. The service may ignore the request.
    pub fn reinitialize(&mut self) -> Result<()> {
        self.send_one_way("reinitialize")
    }

    /// Requests a shutdown of the service. The service may ignore the request.
    pub fn shutdown(&mut self) -> Result<()> {
        self.send_one_way("shutdown")
    }

    fn text(&mut self, name: &str, arguments: &[&[u8]]) -> Result<String> {
        match self.call(name, arguments)? {
            Answer::Text(text) => Ok(lossy(text)),
            _ => Err(ClientError::Fault(Reason::NoResult.at(0))),
        }
    }

    fn i64(&mut self, name: &str, arguments: &[&[u8]]) -> Result<i64> {
        match self.call(name, arguments)? {
            Answer::I64(number) => Ok(number),
            _ => Err(ClientError::Fault(Reason::NoResult.at(0))),
        }
    }

    fn call(&mut self, name: &str, arguments: &[&[u8]]) -> Result<Answer> {
        self.send_call(name, CALL, arguments)?;
        self.receive_answer(name.as_bytes())
    }

    fn send_one_way(&mut self, name: &str) -> Result<()> {
        self.send_call(name, ONE_WAY, &[])
    }

    fn send_call(&mut self, name: &str, kind: u8, arguments: &[&[u8]]) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let (sequence, is_strict) = (self.sequence, self.options.is_strict);
        self.call.clear();
        frame::open(&mut self.call);
        let header = Header { name: name.as_bytes(), kind, sequence, is_strict };
        put_call(&mut self.call, &header, arguments);
        frame::close(&mut self.call, 0);
        let deadline = Instant::now() + self.options.timeout;
        write_all(&mut self.stream, &self.call, deadline).map_err(ClientError::Io)
    }

    fn receive_answer(&mut self, name: &[u8]) -> Result<Answer> {
        let frames = Frames { frame_bytes_max: self.options.reply_bytes_max };
        let deadline = Instant::now() + self.options.timeout;
        self.reply.clear();
        let mut chunk = [0; 4 << 10];
        loop {
            if let Some((body, _)) = frames.next(&self.reply).map_err(ClientError::Misfit)? {
                return match read_reply(body, name, self.sequence).map_err(ClientError::Fault)? {
                    Answer::Exception { message, .. } => {
                        Err(ClientError::Exception(lossy(message)))
                    }
                    answer => Ok(answer),
                };
            }
            let read = read_some(&mut self.stream, &mut chunk, deadline);
            let size = read.map_err(ClientError::Io)?;
            self.reply.extend_from_slice(&chunk[..size]);
        }
    }
}

fn lossy(text: Vec<u8>) -> String {
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the time until the deadline, or an error if it has passed.
fn remaining(deadline: Instant) -> io::Result<Option<Duration>> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
}

fn read_some(stream: &mut TcpStream, to: &mut [u8], deadline: Instant) -> io::Result<usize> {
    loop {
        stream.set_read_timeout(remaining(deadline)?)?;
        match stream.read(to) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

pub(crate) fn write_all(
    stream: &mut TcpStream,
    mut bytes: &[u8],
    deadline: Instant,
) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(remaining(deadline)?)?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(size) => bytes = bytes.get(size..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
