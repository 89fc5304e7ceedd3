//! Complete HTTP answers: a body in memory, and trailers for gRPC. Start at [`Answer`].

use crate::Reservation;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// HTTP answer whose whole body is in memory.
pub type Answer = Response<Content>;

/// Body of an answer, with optional trailers.
#[derive(Debug, Default)]
pub struct Content {
    bytes: Bytes,
    trailers: Option<HeaderMap>,
}

/// Bytes of a body, and the reservation of their memory in a budget until they are sent.
struct BudgetedBytes {
    bytes: Vec<u8>,
    _hold: Reservation,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Content {
    /// Creates a body from bytes, without trailers.
    pub fn new(bytes: impl Into<Bytes>) -> Content {
        Content { bytes: bytes.into(), trailers: None }
    }

    /// Creates a body whose memory stays reserved by `hold` until the body is sent.
    pub fn with_reservation(bytes: Vec<u8>, hold: Reservation) -> Content {
        Content::new(Bytes::from_owner(BudgetedBytes { bytes, _hold: hold }))
    }

    /// Replaces the trailers that are sent after the body.
    pub fn with_trailers(self, trailers: HeaderMap) -> Content {
        Content { trailers: Some(trailers), ..self }
    }

    /// Returns the bytes of the body, without trailers.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the trailers that are sent after the body; `None` for a body without trailers.
    pub fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_ref()
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// Creates an answer. `kind` is the content type, which is omitted if the body is empty.
pub(crate) fn answer(status: StatusCode, kind: &'static str, bytes: impl Into<Bytes>) -> Answer {
    let content = Content::new(bytes);
    let is_empty = content.bytes.is_empty();
    let mut answer = Response::new(content);
    *answer.status_mut() = status;
    if !is_empty {
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    answer
}
