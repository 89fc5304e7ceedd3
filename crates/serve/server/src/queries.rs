//! Questions are asked on threads of their own: so many at a time, each for so long. Start at [`ask`].

use crate::shared::{Count, Shared};
use blkkin_collector::{Answer, Content};
use blkkin_query::{Api, Kind};
use blkkin_store::Cancel;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// Smaller answers are not packed.
const PACKED_MIN: usize = 2 << 10;

/// While a question waits for a place, how often those that have had their share look whether to
/// give up theirs.
const LOOK: Duration = Duration::from_millis(50);

/// Has a question answered. One that takes too long is answered with `late` and cancelled, as it is
/// when its client leaves; its thread keeps its place until it sees that, and nobody else gets the
/// place before.
///
/// As long as places are free, a question has all of its time. When others wait for a place, half
/// of it is its share.
pub(crate) async fn ask(
    shared: &Arc<Shared>,
    headers: &HeaderMap,
    late: StatusCode,
    question: impl FnOnce(&Api) -> blkkin_query::Answer + Send + 'static,
) -> Answer {
    let end = Instant::now() + shared.settings.question_time;
    let packs = accepts_gzip(headers);
    let (api, questions) = (shared.api.clone(), shared.questions.clone());
    // This future ends when the question is answered, is late, or its client has left.
    let at_end = AtEnd(Cancel::default());
    let cancel = at_end.0.clone();
    let share = shared.settings.question_time / 2;
    let work = async move {
        let place = questions.acquire_owned().await.ok()?;
        let free = shared.questions.available_permits();
        let mut answering = tokio::task::spawn_blocking(move || {
            let answer = cancel.run(|| question(&api));
            let packed = (packs && answer.body.len() > PACKED_MIN).then(|| pack(&answer.body));
            drop(place);
            (answer, packed.flatten())
        });
        // Questions that began together do not look together, so that one gives up its place for
        // one that waits.
        let mut look = share + LOOK * u32::try_from(free).unwrap_or(0);
        loop {
            match timeout(look, &mut answering).await {
                Ok(done) => return done.ok().map(Some),
                Err(_) if is_waited_for(shared) => return Some(None),
                Err(_) => look = LOOK * shared.settings.questions_max.max(1) as u32,
            }
        }
    };
    match timeout_at(end, work).await {
        Ok(Some(Some((answer, packed)))) => written(shared, answer, packed),
        Ok(None) => text(StatusCode::INTERNAL_SERVER_ERROR, "the question could not be answered"),
        Ok(Some(None)) | Err(_) => {
            shared.counts.add(Count::QuestionsLate);
            text(late, "the question takes too long")
        }
    }
}

/// Cancels a question when it is dropped.
struct AtEnd(Cancel);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Whether questions wait for a place. Each question that has a place or waits for one has a clone
/// of the semaphore.
fn is_waited_for(shared: &Shared) -> bool {
    let running = shared.settings.questions_max.max(1) - shared.questions.available_permits();
    Arc::strong_count(&shared.questions) - 1 > running
}

/// A line of text.
pub(crate) fn text(status: StatusCode, text: &'static str) -> Answer {
    typed(status, "text/plain; charset=utf-8", Content::new(text))
}

/// Something of a type.
pub(crate) fn typed(status: StatusCode, kind: &'static str, content: Content) -> Answer {
    let mut answer = Response::new(content);
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

fn written(shared: &Shared, answer: blkkin_query::Answer, packed: Option<Vec<u8>>) -> Answer {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = match answer.kind {
        Kind::Json => "application/json; charset=utf-8",
        Kind::Text => "text/plain; charset=utf-8",
    };
    let is_packed = packed.is_some();
    let bytes = packed.unwrap_or(answer.body);
    let mut hold = shared.answers.hold();
    if hold.grow_to(bytes.capacity()).is_err() {
        shared.counts.add(Count::AnswersTurnedAway);
        let mut answer =
            text(StatusCode::SERVICE_UNAVAILABLE, "too many answers are being sent at the moment");
        answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return answer;
    }
    let mut written = typed(status, kind, Content::held(bytes, hold));
    let headers = written.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_packed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(seconds) = answer.good_for
        && let Ok(value) = HeaderValue::try_from(format!("max-age={seconds}, must-revalidate"))
    {
        headers.insert(header::CACHE_CONTROL, value);
    }
    written
}

/// Whether who asks takes answers that are packed.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| {
        let (name, quality) = part.split_once(';').unwrap_or((part, ""));
        let is_refused = matches!(quality.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000");
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

fn pack(bytes: &[u8]) -> Option<Vec<u8>> {
    pack_with(bytes, Compression::fast())
}

/// Packs what is sent often.
pub(crate) fn pack_well(bytes: &[u8]) -> Option<Vec<u8>> {
    pack_with(bytes, Compression::best())
}

fn pack_with(bytes: &[u8], how: Compression) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 6), how);
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}
