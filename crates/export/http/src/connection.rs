//! A lazily opened connection to a server, which sends one request at a time. Start at
//! [`Connection`].

use crate::tls::Tls;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Address and protocol of a server, and limits for connecting and for answers.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Host name or IP address.
    pub host: String,
    /// TCP port of the server.
    pub port: u16,
    /// TLS settings, if the connection is encrypted.
    pub tls: Option<Tls>,
    /// True for HTTP/2 with prior knowledge, false for HTTP/1.1.
    pub is_http2: bool,
    /// Timeout for opening a connection.
    pub connect_timeout: Duration,
    /// Timeout for a complete answer.
    pub answer_timeout: Duration,
    /// Maximum size of a stored body in bytes; longer bodies are truncated.
    pub answer_bytes_max: usize,
}

/// A connection to a server, opened by the first request.
pub struct Connection {
    peer: Peer,
    open: Option<OpenConnection>,
}

enum OpenConnection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// HTTP response of the server.
#[derive(Debug, Default)]
pub struct Answer {
    /// Status code of the response.
    pub status: StatusCode,
    /// Headers of the response.
    pub headers: HeaderMap,
    /// Body of the response, possibly truncated.
    pub body: Vec<u8>,
    /// True if the body was truncated.
    pub is_cut: bool,
    /// Trailers after the body, as gRPC uses them.
    pub trailers: HeaderMap,
}

impl Connection {
    /// Creates a connection that is closed until the first request.
    pub fn new(peer: Peer) -> Connection {
        Connection { peer, open: None }
    }

    /// Sends a request and returns the answer, or the reason why there is no answer. A request that
    /// fails on a reused connection, except by a timeout, is sent again on a new one. If the future
    /// is dropped, it is unknown whether the server has received the request.
    pub async fn send(
        &mut self,
        request: impl Fn() -> Result<Request<Full<Bytes>>, String>,
    ) -> Result<Answer, String> {
        let (patience, bytes_max) = (self.peer.answer_timeout, self.peer.answer_bytes_max);
        // The server may have closed an idle connection; the client detects that only when it
        // sends.
        if let Some(open) = self.open.take() {
            match timeout(patience, open.send(request()?, bytes_max)).await {
                Ok(Ok((answer, open))) => {
                    self.open = open;
                    return Ok(answer);
                }
                Ok(Err(_)) => {}
                Err(_) => return Err(timed_out("answer", patience)),
            }
        }
        let connecting = self.peer.connect_timeout;
        let open = timeout(connecting, connect(&self.peer)).await;
        let open = open.map_err(|_| timed_out("connection", connecting))??;
        let asked = timeout(patience, open.send(request()?, bytes_max)).await;
        let (answer, open) = asked.map_err(|_| timed_out("answer", patience))??;
        self.open = open;
        Ok(answer)
    }
}

async fn connect(peer: &Peer) -> Result<OpenConnection, String> {
    let connected = TcpStream::connect((peer.host.as_str(), peer.port)).await;
    let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
    // Each request is written with one call, so Nagle's algorithm would only delay its end.
    let _ = stream.set_nodelay(true);
    match &peer.tls {
        None => handshake(stream, peer.is_http2).await,
        Some(tls) => handshake(tls.connect(stream).await?, peer.is_http2).await,
    }
}

fn timed_out(what: &str, patience: Duration) -> String {
    format!("no {what} within {} s", patience.as_secs_f64())
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    is_http2: bool,
) -> Result<OpenConnection, String> {
    let stream = TokioIo::new(stream);
    if is_http2 {
        let (sender, driver) =
            http2::handshake(TokioExecutor::new(), stream).await.map_err(|error| cause(&error))?;
        // The request reports the driver's errors, too.
        tokio::spawn(async move { drop(driver.await) });
        return Ok(OpenConnection::Http2(sender));
    }
    let (sender, driver) = http1::handshake(stream).await.map_err(|error| cause(&error))?;
    tokio::spawn(async move { drop(driver.await) });
    Ok(OpenConnection::Http1(sender))
}

impl OpenConnection {
    /// Sends a request and reads the answer. Also returns the connection, unless the answer was
    /// truncated. The server may have closed the returned connection.
    async fn send(
        self,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<(Answer, Option<OpenConnection>), String> {
        let (response, connection) = match self {
            OpenConnection::Http1(mut sender) => {
                sender.ready().await.map_err(|error| cause(&error))?;
                let response = sender.send_request(request).await.map_err(|error| cause(&error))?;
                (response, OpenConnection::Http1(sender))
            }
            OpenConnection::Http2(mut sender) => {
                sender.ready().await.map_err(|error| cause(&error))?;
                let response = sender.send_request(request).await.map_err(|error| cause(&error))?;
                (response, OpenConnection::Http2(sender))
            }
        };
        let answer = read(response, bytes_max).await?;
        let connection = (!answer.is_cut).then_some(connection);
        Ok((answer, connection))
    }
}

async fn read(response: Response<Incoming>, bytes_max: usize) -> Result<Answer, String> {
    let (head, mut body) = response.into_parts();
    let mut answer = Answer { status: head.status, headers: head.headers, ..Answer::default() };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| cause(&error))?;
        match frame.into_data() {
            Ok(data) => {
                let room = bytes_max - answer.body.len();
                answer.body.extend_from_slice(data.get(..room).unwrap_or(&data));
                if data.len() > room {
                    answer.is_cut = true;
                    return Ok(answer);
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    answer.trailers = trailers;
                }
            }
        }
    }
    Ok(answer)
}

/// Formats an error with its chain of causes.
fn cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
