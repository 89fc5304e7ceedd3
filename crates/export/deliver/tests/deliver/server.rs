//! A scripted server that records its requests, over HTTP/1 or HTTP/2, with or without TLS.

use crate::accounts::numbers;
use blkkin_wire::Format;
use flate2::read::GzDecoder;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

/// A request as the server received it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Scripted reaction of the server to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Status 200, a body and trailers.
    Trailers(Vec<u8>, Vec<(&'static str, String)>),
    /// No answer: the connection is closed (HTTP/1), or the stream is reset (HTTP/2).
    Reset,
    /// No answer for this long, then the same as `Reset`.
    Silence(Duration),
}

impl Reply {
    pub(crate) fn status(status: u16) -> Reply {
        Reply::Answer(status, Vec::new(), Vec::new())
    }
}

/// Function that chooses the reaction to a request, by its content and the number of earlier
/// requests.
type Script = Box<dyn Fn(usize, &ReceivedRequest) -> Reply + Send + Sync>;

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<SharedState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

struct SharedState {
    asked: Mutex<Vec<ReceivedRequest>>,
    script: Script,
}

/// Protocol of the server: HTTP version and TLS.
#[derive(Clone, Default)]
pub(crate) struct ServerOptions {
    pub(crate) is_http2: bool,
    pub(crate) tls: Option<TlsAcceptor>,
}

impl Server {
    pub(crate) fn new(
        script: impl Fn(usize, &ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Server {
        Server::start(ServerOptions::default(), script)
    }

    pub(crate) fn start(
        how: ServerOptions,
        script: impl Fn(usize, &ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Server {
        let shared = Arc::new(SharedState { asked: Mutex::default(), script: Box::new(script) });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let kept = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
                tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(serve(stream, how.clone(), Arc::clone(&kept)));
                    }
                });
                let _ = stopped.await;
            });
            runtime.shutdown_background();
        });
        Server { address, shared, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<ReceivedRequest> {
        self.shared.asked.lock().expect("no panic").clone()
    }

    /// Returns the numbers of all received spans, in order.
    #[track_caller]
    pub(crate) fn numbers(&self, format: Format) -> Vec<u64> {
        self.asked().iter().flat_map(|asked| asked.numbers(format)).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    #[track_caller]
    pub(crate) fn numbers(&self, format: Format) -> Vec<u64> {
        let is_grpc = self.header("content-type") == Some("application/grpc");
        let (is_gzip, body) = match is_grpc {
            true => {
                let (prefix, body) = self.body.split_at(5);
                assert_eq!(prefix[1..], u32::try_from(body.len()).expect("a size").to_be_bytes());
                assert_eq!(prefix[0] == 1, self.header("grpc-encoding") == Some("gzip"));
                (prefix[0] == 1, body)
            }
            false => (self.header("content-encoding") == Some("gzip"), self.body.as_slice()),
        };
        let mut plain = Vec::new();
        match is_gzip {
            true => drop(GzDecoder::new(body).read_to_end(&mut plain).expect("gzip")),
            false => plain.extend_from_slice(body),
        }
        numbers(format, &plain)
    }
}

async fn serve(stream: tokio::net::TcpStream, how: ServerOptions, shared: Arc<SharedState>) {
    match how.tls {
        None => converse(stream, how.is_http2, shared).await,
        Some(acceptor) => {
            if let Ok(stream) = acceptor.accept(stream).await {
                converse(stream, how.is_http2, shared).await;
            }
        }
    }
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    is_http2: bool,
    shared: Arc<SharedState>,
) {
    let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
    let stream = TokioIo::new(stream);
    // Connection errors are part of the tests.
    if is_http2 {
        let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await;
    } else {
        let _ = http1::Builder::new().serve_connection(stream, service).await;
    }
}

/// A body, optionally with trailers.
type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

async fn answer(
    request: Request<Incoming>,
    shared: Arc<SharedState>,
) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes().to_vec();
    let asked = ReceivedRequest { uri: head.uri, headers: head.headers, body };
    let reply = {
        let mut list = shared.asked.lock().expect("no panic");
        let reply = (shared.script)(list.len(), &asked);
        list.push(asked);
        reply
    };
    let trailers_of = |list: Vec<(&'static str, String)>| {
        let pairs = list
            .into_iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        pairs.collect::<HeaderMap>()
    };
    match reply {
        Reply::Reset => Err(io::Error::other("reset")),
        Reply::Silence(time) => {
            tokio::time::sleep(time).await;
            Err(io::Error::other("silence"))
        }
        Reply::Answer(status, headers, body) => {
            let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
            *response.status_mut() = status.try_into().expect("a status");
            *response.headers_mut() = trailers_of(headers);
            Ok(response)
        }
        Reply::Trailers(body, trailers) => {
            let trailers = trailers_of(trailers);
            let body = Full::new(Bytes::from(body)).with_trailers(async { Some(Ok(trailers)) });
            let mut response = Response::new(body.boxed());
            response
                .headers_mut()
                .insert("content-type", "application/grpc".parse().expect("a value"));
            Ok(response)
        }
    }
}
