//! Minimal gRPC client that sends and returns raw bytes. Start at [`call`].

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;

pub(crate) const OTLP: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
pub(crate) const ZIPKIN: &str = "/zipkin.proto3.SpanService/Report";

/// Result of a gRPC call: HTTP status, gRPC's fields from the trailers or, without trailers, from
/// the headers, and the answer's message with gRPC's prefix.
#[derive(Debug)]
pub(crate) struct CallResult {
    pub(crate) http: u16,
    pub(crate) status: String,
    pub(crate) text: String,
    pub(crate) details: String,
    pub(crate) message: Vec<u8>,
}

/// Makes a gRPC call with the given body, and waits until it ends.
pub(crate) fn call(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> CallResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
        tokio::spawn(connection);
        let mut request = http::Request::post(format!("http://{address}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let reply = sender.send_request(request).await.expect("an answer");
        let (head, body) = reply.into_parts();
        let body = body.collect().await.expect("its body");
        let all = body.trailers().cloned().unwrap_or_else(|| head.headers.clone());
        let find =
            |name: &str| all.get(name).map_or("", |value| value.to_str().expect("text")).to_owned();
        CallResult {
            http: head.status.as_u16(),
            status: find("grpc-status"),
            text: find("grpc-message"),
            details: find("grpc-status-details-bin"),
            message: body.to_bytes().to_vec(),
        }
    })
}

/// Returns a message with gRPC's prefix: compression flag and length.
pub(crate) fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let len = (message.len() as u32).to_be_bytes();
    [&[flag], &len[..], message].concat()
}
