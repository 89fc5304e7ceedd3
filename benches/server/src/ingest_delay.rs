//! Measures the time from sending a span until a search finds it. Start at [`run`].

use crate::arguments::Arguments;
use crate::figures::latencies;
use crate::http::{Answer, Connection};
use crate::numbers::mix;
use serde_json::{Value, json};
use std::error::Error;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Delay between two searches for a span, and before a refused span is sent again. It keeps the
/// load on the server low.
const PAUSE: Duration = Duration::from_millis(2);

/// Delay from the last search for a span until the next span is sent.
const REST: Duration = Duration::from_millis(40);

/// Time after which a span that no search has found counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn run(arguments: &Arguments) -> Result<Value, Box<dyn Error>> {
    let address = arguments.text("address")?;
    let seconds = arguments.seconds("seconds")?.ok_or("no `seconds`")?;
    // Searches use their own connection, so they do not wait for the sender.
    let mut sender = Connection::open(address)?;
    let mut asker = Connection::open(address)?;
    let (start, mut ns, mut lost, mut searches) = (Instant::now(), Vec::new(), 0, 0_u64);
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    while start.elapsed() < seconds {
        let unique = format!("{:016x}", mix(began + ns.len() as u64 + lost));
        let sent = Instant::now();
        post(&mut sender, address, &unique)?;
        let found = loop {
            searches += 1;
            if is_found(&asker.get(&path(&unique))?, &unique)? {
                break true;
            }
            if sent.elapsed() > PATIENCE {
                break false;
            }
            std::thread::sleep(PAUSE);
        };
        match found {
            true => ns.push(sent.elapsed().as_nanos() as u64),
            false => lost += 1,
        }
        std::thread::sleep(REST);
    }
    Ok(json!({"visible": latencies(ns), "lost": lost, "searches": searches}))
}

fn post(connection: &mut Connection, host: &str, unique: &str) -> Result<(), Box<dyn Error>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    let body = format!(
        "[{{\"traceId\":\"{unique}\",\"id\":\"{unique}\",\"name\":\"probe\",\"timestamp\":{now},\
         \"duration\":1000,\"localEndpoint\":{{\"serviceName\":\"probe\"}},\
         \"tags\":{{\"probe\":\"{unique}\"}}}}]"
    );
    let len = body.len();
    let request = format!(
        "POST /api/v2/spans HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Content-Length: {len}\r\n\r\n{body}"
    );
    // A refused span cannot be found, so the span is sent again while the server is busy.
    for _ in 0..1000 {
        connection.send(request.as_bytes())?;
        match connection.answer()?.status {
            200 | 202 => return Ok(()),
            429 | 503 => std::thread::sleep(PAUSE),
            status => return Err(format!("{host} answers a span with {status}").into()),
        }
    }
    Err(format!("{host} is always busy").into())
}

/// Returns the path of a search for the span, which both our server and Zipkin's understand.
fn path(unique: &str) -> String {
    format!(
        "/api/v2/traces?serviceName=probe&annotationQuery=probe%3D{unique}&limit=1&lookback=600000"
    )
}

fn is_found(answer: &Answer, unique: &str) -> Result<bool, String> {
    match answer.status {
        200 => Ok(answer.body.windows(unique.len()).any(|part| part == unique.as_bytes())),
        503 => Ok(false),
        status => Err(format!(
            "a search is answered with {status}: {}",
            String::from_utf8_lossy(&answer.body)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        let found = |status, body: &[u8]| is_found(&Answer { status, body: body.to_vec() }, "00ab");
        assert_eq!(found(200, b"[]"), Ok(false));
        assert_eq!(found(200, b"[[{\"traceId\":\"00ab\"}]]"), Ok(true));
        assert_eq!(found(503, b""), Ok(false));
        assert!(found(400, b"no").is_err());
    }
}
