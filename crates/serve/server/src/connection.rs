//! Handling of one connection, from the TLS handshake to its end. Start at [`serve`].

use crate::connections::{Connection, Slot};
use crate::counts::Count;
use crate::route;
use crate::shared::Shared;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{interval, timeout};

/// Maximum duration of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Timeout for reading a request from a connection without a slot. Only requests that the client
/// has already sent are answered.
const LAST_REQUEST_TIMEOUT: Duration = Duration::from_millis(20);

/// Maximum size of the input buffer, and of the output buffer, of an HTTP/1.1 connection, in bytes.
const READ_BUFFER_BYTES_MAX: usize = 128 << 10;

/// Serves a connection until its end. After `stop` turns true, the connection ends once its open
/// requests are answered.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    slot: Slot,
    mut stop: watch::Receiver<bool>,
) {
    let Ok(local) = stream.local_addr() else { return };
    let _ = stream.set_nodelay(true);
    let connection = slot.connection.clone();
    let Some(tls) = shared.tls() else {
        let io = ActivityStream { io: stream, connection: connection.clone() };
        return serve_http(&shared, io, connection, local.ip(), &mut stop).await;
    };
    let handshake = timeout(HANDSHAKE, tls.accept(stream));
    let handshake = tokio::select! {
        handshake = handshake => handshake,
        () = connection.leave.notified() => return,
        _ = stop.wait_for(|stop| *stop) => return,
    };
    match handshake {
        Ok(Ok(stream)) => {
            let io = ActivityStream { io: stream, connection: connection.clone() };
            serve_http(&shared, io, connection, local.ip(), &mut stop).await;
        }
        _ => shared.counts.add(Count::HandshakesFailed),
    }
}

async fn serve_http<S>(
    shared: &Arc<Shared>,
    io: ActivityStream<S>,
    connection: Arc<Connection>,
    local: IpAddr,
    stop: &mut watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let idle = shared.settings.idle_timeout;
    let builder = builder(idle);
    let this = connection.clone();
    let service = service_fn(|request: Request<Incoming>| {
        let underway = this.begin();
        let shared = shared.clone();
        let is_leaving = this.is_leaving();
        async move {
            let answer = match is_leaving {
                true => route::no_slot(),
                false => route::answer(&shared, request, local).await,
            };
            drop(underway);
            Ok::<_, Infallible>(answer)
        }
    });
    let mut conversation = pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut look = interval((idle / 4).max(Duration::from_millis(10)));
    let mut is_leaving = *stop.borrow_and_update();
    let mut was_notified = false;
    if is_leaving {
        conversation.as_mut().graceful_shutdown();
    }
    loop {
        tokio::select! {
            // An error needs no report: the client has disconnected, or already got an error
            // response.
            _ = &mut conversation => return,
            _ = stop.changed(), if !is_leaving => {
                is_leaving = true;
                conversation.as_mut().graceful_shutdown();
            }
            () = connection.leave.notified() => break,
            _ = look.tick() => {
                if connection.is_idle(idle) {
                    // The graceful shutdown closes an idle HTTP/1.1 connection, and notifies an
                    // HTTP/2 client. A connection still open at the next check is closed then.
                    if was_notified {
                        shared.counts.add(Count::Idle);
                        return;
                    }
                    was_notified = true;
                    conversation.as_mut().graceful_shutdown();
                }
            }
        }
    }
    let Some(_farewell) = shared.connections.farewell() else { return };
    if timeout(LAST_REQUEST_TIMEOUT, &mut conversation).await.is_err() && !connection.is_quiet() {
        // Answers a request that began before the connection lost its slot.
        conversation.as_mut().graceful_shutdown();
        let _ = conversation.await;
    }
}

/// Returns the HTTP server for a connection, which detects HTTP/1.1 or HTTP/2 by the first bytes.
fn builder(idle: Duration) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_buf_size(READ_BUFFER_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(64)
        .max_header_list_size(16 << 10)
        .initial_stream_window_size(512 << 10)
        .initial_connection_window_size(1 << 20)
        .max_frame_size(64 << 10)
        .max_send_buf_size(256 << 10);
    builder
}

/// Stream of a connection. Each write of at least one byte is recorded as activity.
struct ActivityStream<S> {
    io: S,
    connection: Arc<Connection>,
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.touched(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, parts);
        self.touched(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl<S> ActivityStream<S> {
    fn touched(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.connection.touch();
        }
        written
    }
}
