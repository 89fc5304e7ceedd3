//! Sends batches as calls of OpenTelemetry's `TraceService/Export`, over one HTTP/2 connection.
//! Start at [`send`].

use crate::run::{BatchAnswer, IngestRun, PAUSE, Tally};
use crate::template::Template;
use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use std::cell::RefCell;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

const PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// gRPC status code of success. With [`RESOURCE_EXHAUSTED`] or [`UNAVAILABLE`] the server is busy;
/// all other codes are errors.
const OK: &str = "0";
const RESOURCE_EXHAUSTED: &str = "8";
const UNAVAILABLE: &str = "14";

/// Sends batches over one connection until the run ends, with up to `in_flight` calls at once.
/// Returns the connection's results.
pub(crate) fn send(run: &IngestRun, pool: Vec<Template>) -> Result<Tally, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let local = LocalSet::new();
    local.block_on(&runtime, connect(run, pool)).map_err(|why| format!("{}: {why}", run.host))
}

async fn connect(run: &IngestRun, pool: Vec<Template>) -> Result<Tally, String> {
    let stream = TcpStream::connect(&run.host).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let (sender, connection) = h2::client::handshake(stream).await.map_err(text_of)?;
    let driver = tokio::task::spawn_local(connection);
    let (tally, pool) = (RefCell::new(Tally::default()), RefCell::new(pool));
    let calls = (0..run.in_flight()).map(|_| calls(run, sender.clone(), &pool, &tally));
    let result = all(calls.collect()).await;
    driver.abort();
    result.map(|()| tally.into_inner())
}

/// Polls the futures until all have ended or one has failed.
async fn all(futures: Vec<impl Future<Output = Result<(), String>>>) -> Result<(), String> {
    let mut running: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        let mut failure = None;
        running.retain_mut(|future| match future.as_mut().poll(context) {
            std::task::Poll::Pending => true,
            std::task::Poll::Ready(result) => {
                failure = failure.take().or(result.err());
                false
            }
        });
        match failure {
            Some(failure) => std::task::Poll::Ready(Err(failure)),
            None if running.is_empty() => std::task::Poll::Ready(Ok(())),
            None => std::task::Poll::Pending,
        }
    })
    .await
}

/// Sends one batch after another, each in a call of its own, until the run ends. Repeats the call
/// while the server is busy; fails if it is still busy when [`IngestRun::is_patient`] turns false.
async fn calls(
    run: &IngestRun,
    sender: SendRequest<Bytes>,
    pool: &RefCell<Vec<Template>>,
    tally: &RefCell<Tally>,
) -> Result<(), String> {
    let mut sender = sender;
    loop {
        // Takes the least recently used template.
        let mut template = pool.borrow_mut().remove(0);
        let Some(first) = run.next(&mut template) else { return Ok(()) };
        let (bytes, since) = (Bytes::copy_from_slice(template.bytes()), Instant::now());
        loop {
            sender = sender.ready().await.map_err(text_of)?;
            match call(&mut sender, &run.host, bytes.clone()).await.map_err(text_of)? {
                BatchAnswer::Accepted => break,
                BatchAnswer::Busy if run.is_patient() => {
                    tally.borrow_mut().refused();
                    tokio::time::sleep(PAUSE).await;
                }
                BatchAnswer::Busy => {
                    return Err(format!("requests from {first} on are never taken"));
                }
                BatchAnswer::Error(why) => return Err(why),
            }
        }
        tally.borrow_mut().taken(run, &template, since);
        pool.borrow_mut().push(template);
    }
}

fn text_of(error: h2::Error) -> String {
    error.to_string()
}

async fn call(
    sender: &mut SendRequest<Bytes>,
    host: &str,
    bytes: Bytes,
) -> Result<BatchAnswer, h2::Error> {
    let request = Request::post(format!("http://{host}{PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a good request");
    let (answer, mut stream) = sender.send_request(request, false)?;
    stream.send_data(bytes, true)?;
    let (head, mut body) = answer.await?.into_parts();
    let mut message = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        message.extend_from_slice(&part);
    }
    let trailers = body.trailers().await?.unwrap_or(head.headers);
    Ok(read_answer(&trailers, &message))
}

fn read_answer(trailers: &HeaderMap, message: &[u8]) -> BatchAnswer {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    match text("grpc-status") {
        // A message has a prefix of five bytes. A longer message reports refused spans.
        OK if message.len() <= 5 => BatchAnswer::Accepted,
        RESOURCE_EXHAUSTED | UNAVAILABLE => BatchAnswer::Busy,
        code => BatchAnswer::Error(format!("status {code}: {}", text("grpc-message"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn what_servers_say_is_understood() {
        let check = |code: &'static str, message: &[u8]| {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static(code));
            read_answer(&trailers, message)
        };
        assert_eq!(check("0", &[0, 0, 0, 0, 0]), BatchAnswer::Accepted);
        assert!(matches!(check("0", &[0, 0, 0, 0, 2, 10, 0]), BatchAnswer::Error(_)));
        assert_eq!(check("14", b""), BatchAnswer::Busy);
        assert!(matches!(check("3", b""), BatchAnswer::Error(_)));
        assert!(matches!(read_answer(&HeaderMap::new(), b""), BatchAnswer::Error(_)));
    }
}
