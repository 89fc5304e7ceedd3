//! A connection to a server: batches are sent and answered one after the other. Start at [`Client::log`].
//!
//! Every wait has its end, also if the server sends a byte now and then.

use crate::batch::Batch;
use crate::codes::{ResultCode, Status};
use crate::fault::{Fault, Reason};
use crate::frame::{self, Frames, Misfit};
use crate::message::{CALL, Header, ONE_WAY};
use crate::reply::{Answer, read_reply};
use crate::request::put_call;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long to wait for a server, and how large its replies may be.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// For a connection, to each of the server's addresses.
    pub connect_timeout: Duration,
    /// For a batch to be sent, and for a whole reply to come.
    pub timeout: Duration,
    /// A reply.
    pub reply_bytes_max: usize,
    /// Whether calls have the form with a version; else the one that the first servers wrote.
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

/// Why a server could not be asked. But for [`ClientError::Exception`], the connection is of no use any more: what was
/// sent may have been taken or not, and should be sent again on another one.
#[derive(Debug)]
pub enum ClientError {
    /// No connection.
    Connect(io::Error),
    /// The connection is broken, or it took too long.
    Io(io::Error),
    /// What came is not a frame.
    Misfit(Misfit),
    /// What came is not the reply.
    Fault(Fault),
    /// The server could not do it.
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

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    options: ClientOptions,
    sequence: i32,
    /// What has come of the reply.
    reply: Vec<u8>,
    call: Vec<u8>,
}

type Result<T> = std::result::Result<T, ClientError>;

impl Client {
    /// Connects to the first of the server's addresses that answers.
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

    /// Hands over a batch, and says what the server makes of it. On [`ResultCode::TryLater`] and on errors the same
    /// batch should be sent again.
    pub fn log(&mut self, batch: &mut Batch) -> Result<ResultCode> {
        self.send(batch)?;
        self.receive()
    }

    /// Asks whether the server would take entries now.
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

    /// What the service is called.
    pub fn name(&mut self) -> Result<String> {
        self.text("getName", &[])
    }

    /// Which version it is.
    pub fn version(&mut self) -> Result<String> {
        self.text("getVersion", &[])
    }

    /// How it is.
    pub fn status(&mut self) -> Result<Status> {
        match self.call("getStatus", &[])? {
            Answer::I32(number) => {
                let status = Status::from_number(number);
                status.ok_or_else(|| ClientError::Fault(Reason::Result(number).at(0)))
            }
            _ => Err(ClientError::Fault(Reason::NoResult.at(0))),
        }
    }

    /// And why.
    pub fn status_details(&mut self) -> Result<String> {
        self.text("getStatusDetails", &[])
    }

    /// All counters.
    pub fn counters(&mut self) -> Result<BTreeMap<String, i64>> {
        match self.call("getCounters", &[])? {
            Answer::Numbers(numbers) => {
                let numbers = numbers.into_iter();
                Ok(numbers.map(|(name, number)| (lossy(name), number)).collect())
            }
            _ => Err(ClientError::Fault(Reason::NoResult.at(0))),
        }
    }

    /// The counter of this name; 0 if there is none.
    pub fn counter(&mut self, name: &str) -> Result<i64> {
        self.i64("getCounter", &[name.as_bytes()])
    }

    /// When the service was started, in seconds since 1970.
    pub fn alive_since(&mut self) -> Result<i64> {
        self.i64("aliveSince", &[])
    }

    /// The value of an option.
    pub fn option(&mut self, name: &str) -> Result<String> {
        self.text("getOption", &[name.as_bytes()])
    }

    /// Sets an option, which changes nothing but what [`Client::option`] says.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<()> {
        self.call("setOption", &[name.as_bytes(), value.as_bytes()]).map(drop)
    }

    /// Has the service read its configuration again, if it lets us.
    pub fn reinitialize(&mut self) -> Result<()> {
        self.tell("reinitialize")
    }

    /// Has the service end, if it lets us.
    pub fn shutdown(&mut self) -> Result<()> {
        self.tell("shutdown")
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
        self.put(name, CALL, arguments)?;
        self.receive_answer(name.as_bytes())
    }

    fn tell(&mut self, name: &str) -> Result<()> {
        self.put(name, ONE_WAY, &[])
    }

    fn put(&mut self, name: &str, kind: u8, arguments: &[&[u8]]) -> Result<()> {
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

/// What is left until then; an error if nothing is.
fn left(deadline: Instant) -> io::Result<Option<Duration>> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
}

fn read_some(stream: &mut TcpStream, to: &mut [u8], deadline: Instant) -> io::Result<usize> {
    loop {
        stream.set_read_timeout(left(deadline)?)?;
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
        stream.set_write_timeout(left(deadline)?)?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(size) => bytes = bytes.get(size..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
