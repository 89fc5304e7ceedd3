//! Execution of queries on blocking threads: a limited number at a time, each with a deadline.
//! Start at [`run_query`].

use crate::counts::Count;
use crate::response::{accepts_gzip, compress, text, typed};
use crate::shared::Shared;
use blkkin_collector::{Answer, Content};
use blkkin_query::{Api, Kind};
use blkkin_store::Cancel;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// Size in bytes above which answers are compressed.
const COMPRESSED_MIN: usize = 2 << 10;

/// Interval of the staggered checks for waiting queries. A query that has run for half of the time
/// limit checks repeatedly whether other queries wait for a slot. Its first check is delayed by one
/// interval for each slot that was free at its start. Further checks follow every `queries_max`
/// intervals.
const SHARE_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs a query on a blocking thread. A query that exceeds its deadline is cancelled and answered
/// with the status `late`. A query whose client disconnects is cancelled, too. The thread of a
/// cancelled query keeps the slot until the query ends.
///
/// A query may use its whole time if no other query waits for a slot. After running for half of the
/// time limit, a query is cancelled at the first check that finds a waiting query.
pub(crate) async fn run_query(
    shared: &Arc<Shared>,
    headers: &HeaderMap,
    late: StatusCode,
    question: impl FnOnce(&Api) -> blkkin_query::Answer + Send + 'static,
) -> Answer {
    let end = Instant::now() + shared.settings.query_timeout;
    let compresses = accepts_gzip(headers);
    let (api, questions) = (shared.api.clone(), shared.query_slots.clone());
    // This future ends when the query is answered or late. If the client disconnects, the future is
    // dropped.
    let canceller = CancelOnDrop(Cancel::default());
    let cancel = canceller.0.clone();
    let share = shared.settings.query_timeout / 2;
    let work = async move {
        let slot = questions.acquire_owned().await.ok()?;
        let free = shared.query_slots.available_permits();
        let mut answering = tokio::task::spawn_blocking(move || {
            let answer = cancel.run(|| question(&api));
            let compressed =
                (compresses && answer.body.len() > COMPRESSED_MIN).then(|| compress(&answer.body));
            drop(slot);
            (answer, compressed.flatten())
        });
        // The checks are staggered, so that queries that began together are cancelled one at a
        // time.
        let mut until_check = share + SHARE_CHECK_INTERVAL * u32::try_from(free).unwrap_or(0);
        loop {
            match timeout(until_check, &mut answering).await {
                Ok(done) => return done.ok().map(Some),
                Err(_) if has_waiting_queries(shared) => return Some(None),
                Err(_) => {
                    until_check = SHARE_CHECK_INTERVAL * shared.settings.queries_max.max(1) as u32
                }
            }
        }
    };
    match timeout_at(end, work).await {
        Ok(Some(Some((answer, compressed)))) => to_http(shared, answer, compressed),
        Ok(None) => text(StatusCode::INTERNAL_SERVER_ERROR, "the question could not be answered"),
        Ok(Some(None)) | Err(_) => {
            shared.counts.add(Count::QueriesLate);
            text(late, "the question takes too long")
        }
    }
}

/// Guard that cancels a query when it is dropped, such as when the client disconnects.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Returns whether queries wait for a slot. Each running or waiting query holds a clone of the
/// semaphore.
fn has_waiting_queries(shared: &Shared) -> bool {
    let running = shared.settings.queries_max.max(1) - shared.query_slots.available_permits();
    Arc::strong_count(&shared.query_slots) - 1 > running
}

fn to_http(shared: &Shared, answer: blkkin_query::Answer, compressed: Option<Vec<u8>>) -> Answer {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = match answer.kind {
        Kind::Json => "application/json; charset=utf-8",
        Kind::Text => "text/plain; charset=utf-8",
    };
    let is_compressed = compressed.is_some();
    let bytes = compressed.unwrap_or(answer.body);
    let mut hold = shared.answers.reservation();
    if hold.grow_to(bytes.capacity()).is_err() {
        shared.counts.add(Count::AnswersTurnedAway);
        let mut answer =
            text(StatusCode::SERVICE_UNAVAILABLE, "too many answers are being sent at the moment");
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return answer;
    }
    let mut to_http = typed(status, kind, Content::with_reservation(bytes, hold));
    let headers = to_http.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(seconds) = answer.max_age_s
        && let Ok(value) = HeaderValue::try_from(format!("max-age={seconds}, must-revalidate"))
    {
        headers.insert(header::CACHE_CONTROL, value);
    }
    to_http
}
