//! One connection to a server, made when it is needed, with one request on it at a time. Start at [`Connection`].

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

/// Whom to ask, and how much of an answer to wait for.
#[derive(Clone, Debug)]
pub struct Peer {
    /// A name or an address.
    pub host: String,
    /// Where it listens.
    pub port: u16,
    /// With TLS, to those who are trusted so.
    pub tls: Option<Tls>,
    /// HTTP/2, from the first byte on.
    pub is_http2: bool,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long an answer may take, to its end.
    pub answer_timeout: Duration,
    /// So much of its body is kept.
    pub answer_bytes_max: usize,
}

/// To a server; there is none before something is asked.
pub struct Connection {
    peer: Peer,
    open: Option<Open>,
}

enum Open {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// What the server has answered.
#[derive(Debug, Default)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// As much of its body as is kept.
    pub body: Vec<u8>,
    /// There was more of the body.
    pub is_cut: bool,
    /// What came behind the body.
    pub trailers: HeaderMap,
}

impl Connection {
    /// One that is made later.
    pub fn new(peer: Peer) -> Connection {
        Connection { peer, open: None }
    }

    /// Sends a request and waits for the answer, or says in words why there is none. If the future is dropped, nobody
    /// knows whether the server has got the request.
    pub async fn ask(
        &mut self,
        request: impl Fn() -> Result<Request<Full<Bytes>>, String>,
    ) -> Result<Answer, String> {
        let (patience, bytes_max) = (self.peer.answer_timeout, self.peer.answer_bytes_max);
        // One that was kept may have been closed meanwhile, which shows only when it is used.
        if let Some(open) = self.open.take() {
            match timeout(patience, open.ask(request()?, bytes_max)).await {
                Ok(Ok((answer, open))) => {
                    self.open = open;
                    return Ok(answer);
                }
                Ok(Err(_)) => {}
                Err(_) => return Err(late("answer", patience)),
            }
        }
        let connecting = self.peer.connect_timeout;
        let open = timeout(connecting, connect(&self.peer)).await;
        let open = open.map_err(|_| late("connection", connecting))??;
        let asked = timeout(patience, open.ask(request()?, bytes_max)).await;
        let (answer, open) = asked.map_err(|_| late("answer", patience))??;
        self.open = open;
        Ok(answer)
    }
}

async fn connect(peer: &Peer) -> Result<Open, String> {
    let connected = TcpStream::connect((peer.host.as_str(), peer.port)).await;
    let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
    // Requests are written as a whole; only their ends would wait.
    let _ = stream.set_nodelay(true);
    match &peer.tls {
        None => shake_hands(stream, peer.is_http2).await,
        Some(tls) => shake_hands(tls.connect(stream).await?, peer.is_http2).await,
    }
}

fn late(what: &str, patience: Duration) -> String {
    format!("no {what} within {} s", patience.as_secs_f64())
}

async fn shake_hands(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    is_http2: bool,
) -> Result<Open, String> {
    let stream = TokioIo::new(stream);
    if is_http2 {
        let (sender, driver) =
            http2::handshake(TokioExecutor::new(), stream).await.map_err(|error| cause(&error))?;
        // What it ends with shows in the request, too.
        tokio::spawn(async move { drop(driver.await) });
        return Ok(Open::Http2(sender));
    }
    let (sender, driver) = http1::handshake(stream).await.map_err(|error| cause(&error))?;
    tokio::spawn(async move { drop(driver.await) });
    Ok(Open::Http1(sender))
}

impl Open {
    /// Asks, and reads the answer. The connection can be used again if it is returned, too.
    async fn ask(
        self,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<(Answer, Option<Open>), String> {
        let (response, connection) = match self {
            Open::Http1(mut sender) => {
                sender.ready().await.map_err(|error| cause(&error))?;
                let response = sender.send_request(request).await.map_err(|error| cause(&error))?;
                (response, Open::Http1(sender))
            }
            Open::Http2(mut sender) => {
                sender.ready().await.map_err(|error| cause(&error))?;
                let response = sender.send_request(request).await.map_err(|error| cause(&error))?;
                (response, Open::Http2(sender))
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

/// An error with what has caused it.
fn cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
