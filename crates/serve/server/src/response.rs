//! Functions that create HTTP answers: plain text, content types and gzip.

use blkkin_collector::{Answer, Content};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use std::io::Write;

/// Creates an answer of one line of plain text.
pub(crate) fn text(status: StatusCode, text: &'static str) -> Answer {
    typed(status, "text/plain; charset=utf-8", Content::new(text))
}

/// Creates an answer with the content type `kind`.
pub(crate) fn typed(status: StatusCode, kind: &'static str, content: Content) -> Answer {
    let mut answer = Response::new(content);
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// Returns whether the client accepts gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| {
        let (name, quality) = part.split_once(';').unwrap_or((part, ""));
        let is_refused = matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Compresses a body that is sent once: fast, at the cost of size. `None` if compression fails.
pub(crate) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    compress_with(bytes, Compression::fast())
}

/// Compresses a body that is sent often: small, at the cost of time. `None` if compression fails.
pub(crate) fn compress_well(bytes: &[u8]) -> Option<Vec<u8>> {
    compress_with(bytes, Compression::best())
}

fn compress_with(bytes: &[u8], level: Compression) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 6), level);
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}
