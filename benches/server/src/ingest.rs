//! Sends batches over several connections, for a given time or number of requests, and counts the
//! acknowledged spans. Start at [`run`].

use crate::arguments::Arguments;
use crate::figures::{latencies, own_cpu_seconds};
use crate::format::Format;
use crate::http::Connection;
use crate::run::{BatchAnswer, IngestRun, PAUSE, SLOT, Tally};
use crate::template::Template;
use crate::{grpc, pool};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A batch that was sent and is not acknowledged yet. It has the time of its first attempt, and the
/// number of the first request in it.
struct BatchInFlight {
    template: Template,
    first: u64,
    since: Instant,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Value, Box<dyn Error>> {
    let format = arguments.text("format")?;
    let format = Format::of(format).ok_or_else(|| format!("no format `{format}`"))?;
    let host = arguments.text("address")?.to_owned();
    let connections = arguments.number("connections")?.max(1);
    let in_flight = arguments.number("in_flight")?.max(1);
    let requests_a_batch = arguments.number("requests_a_batch")?.max(1);
    // Each connection needs a template for each batch in flight, and one more.
    let batches = arguments.number("batches")?.max(connections * (in_flight + 1));
    let mut pools: Vec<Vec<Template>> = (0..connections).map(|_| Vec::new()).collect();
    for (index, template) in
        pool::make(format, &host, batches, requests_a_batch).into_iter().enumerate()
    {
        pools[index % connections as usize].push(template);
    }
    let first = arguments.number("first")?;
    let run = IngestRun {
        format,
        host,
        numbers: arguments.numbers()?,
        in_flight: in_flight as usize,
        until: arguments.seconds("seconds")?,
        requests_end: arguments.number("requests").map_or(u64::MAX, |requests| first + requests),
        next_request: AtomicU64::new(first),
        is_new: arguments.number("anew").unwrap_or(0) > 0,
        start: Instant::now(),
    };
    let run = &run;
    let cpu_seconds = own_cpu_seconds();
    let tallies: Result<Vec<Tally>, String> = std::thread::scope(|scope| {
        let threads: Vec<_> = pools
            .into_iter()
            .map(|pool| {
                scope.spawn(move || match format {
                    Format::OtlpGrpc => grpc::send(run, pool),
                    _ => send(run, pool),
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let cpu_seconds = own_cpu_seconds() - cpu_seconds;
    let requests = run.next_request.load(Ordering::Relaxed) - first;
    Ok(summary(&tallies?, requests, cpu_seconds))
}

/// Sends batches over one connection until the run ends, and returns the connection's results.
fn send(run: &IngestRun, pool: Vec<Template>) -> Result<Tally, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", run.host);
    let mut connection = Connection::open(&run.host).map_err(failed)?;
    let mut tally = Tally::default();
    let mut free = VecDeque::from(pool);
    let mut waiting: VecDeque<BatchInFlight> = VecDeque::new();
    let mut again: VecDeque<BatchInFlight> = VecDeque::new();
    loop {
        while waiting.len() < run.in_flight {
            let sent = match again.pop_front() {
                Some(sent) => sent,
                None => match begin(run, &mut free) {
                    Some(sent) => sent,
                    None => break,
                },
            };
            connection.send(sent.template.bytes()).map_err(failed)?;
            waiting.push_back(sent);
        }
        let Some(sent) = waiting.pop_front() else { return Ok(tally) };
        match read_answer(run.format, &mut connection).map_err(failed)? {
            BatchAnswer::Accepted => {
                tally.taken(run, &sent.template, sent.since);
                free.push_back(sent.template);
            }
            BatchAnswer::Busy if run.is_patient() => {
                tally.refused();
                again.push_back(sent);
                std::thread::sleep(PAUSE);
            }
            BatchAnswer::Busy => {
                return Err(format!("requests from {} on are never taken", sent.first));
            }
            BatchAnswer::Error(why) => return Err(format!("{} says {why}", run.host)),
        }
    }
}

fn begin(run: &IngestRun, free: &mut VecDeque<Template>) -> Option<BatchInFlight> {
    let mut template = free.pop_front()?;
    match run.next(&mut template) {
        Some(first) => Some(BatchInFlight { template, first, since: Instant::now() }),
        None => {
            free.push_back(template);
            None
        }
    }
}

fn read_answer(format: Format, connection: &mut Connection) -> std::io::Result<BatchAnswer> {
    if format == Format::Scribe {
        let len = connection.exactly(4)?;
        let len = u32::from_be_bytes([len[0], len[1], len[2], len[3]]) as usize;
        return Ok(of_scribe(&connection.exactly(len.min(1 << 20))?));
    }
    let answer = connection.answer()?;
    Ok(of_http(answer.status, &answer.body))
}

fn of_http(status: u16, body: &[u8]) -> BatchAnswer {
    match status {
        200 if body.is_empty() || body == b"{}" => BatchAnswer::Accepted,
        202 => BatchAnswer::Accepted,
        429 | 503 => BatchAnswer::Busy,
        _ => BatchAnswer::Error(format!("{status}: {}", String::from_utf8_lossy(body))),
    }
}

/// Interprets the reply to Scribe's `Log`, whose field 0 is a 32-bit integer: 0 is OK, 1 is
/// TRY_LATER.
fn of_scribe(reply: &[u8]) -> BatchAnswer {
    const BEFORE: [u8; 11] = [0x80, 1, 0, 2, 0, 0, 0, 3, b'L', b'o', b'g'];
    let field = reply.strip_prefix(&BEFORE).and_then(|rest| rest.get(4..));
    match field {
        Some([8, 0, 0, 0, 0, 0, 0, 0]) => BatchAnswer::Accepted,
        Some([8, 0, 0, 0, 0, 0, 1, 0]) => BatchAnswer::Busy,
        _ => BatchAnswer::Error(format!("{reply:?}")),
    }
}

fn summary(tallies: &[Tally], requests: u64, cpu_seconds: f64) -> Value {
    let sum = |figure: fn(&Tally) -> u64| tallies.iter().map(figure).sum::<u64>();
    let last = tallies.iter().map(|tally| tally.last).max().unwrap_or_default();
    let slots = tallies.iter().map(|tally| tally.slots.len()).max().unwrap_or(0);
    let rate = |slot: usize| {
        let spans: u64 = tallies.iter().filter_map(|tally| tally.slots.get(slot)).sum();
        spans as f64 / SLOT.as_secs_f64()
    };
    let ns = tallies.iter().flat_map(|tally| tally.latencies.iter().copied()).collect();
    json!({
        "spans": sum(|tally| tally.spans),
        "requests": requests,
        "bytes": sum(|tally| tally.bytes),
        "refusals": sum(|tally| tally.refusals),
        "seconds": last.as_secs_f64(),
        "own_cpu_seconds": cpu_seconds,
        "acknowledgement": latencies(ns),
        "rates": (0..slots).map(rate).collect::<Vec<f64>>(),
        "rates_every_ms": SLOT.as_millis() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_servers_say_is_understood() {
        assert_eq!(of_http(202, b""), BatchAnswer::Accepted);
        assert_eq!(of_http(200, b""), BatchAnswer::Accepted);
        assert_eq!(of_http(503, b"later"), BatchAnswer::Busy);
        assert_eq!(
            of_http(200, b"\x0a\x02\x08\x01"),
            BatchAnswer::Error("200: \n\u{2}\u{8}\u{1}".to_owned())
        );
        assert_eq!(of_http(400, b"no"), BatchAnswer::Error("400: no".to_owned()));
        let reply = |code: u8| {
            let head = [0x80, 1, 0, 2, 0, 0, 0, 3, b'L', b'o', b'g', 0, 0, 0, 7];
            [&head[..], &[8, 0, 0, 0, 0, 0, code, 0]].concat()
        };
        assert_eq!(of_scribe(&reply(0)), BatchAnswer::Accepted);
        assert_eq!(of_scribe(&reply(1)), BatchAnswer::Busy);
        assert!(matches!(of_scribe(&reply(2)), BatchAnswer::Error(_)));
        assert!(matches!(of_scribe(b"hello"), BatchAnswer::Error(_)));
    }

    #[test]
    fn connections_are_summed() {
        let one = Tally { spans: 10, slots: vec![4, 6], ..Tally::default() };
        let other =
            Tally { spans: 5, slots: vec![5], last: Duration::from_secs(1), ..Tally::default() };
        let value = summary(&[one, other], 3, 0.5);
        assert_eq!((&value["spans"], &value["seconds"]), (&json!(15), &json!(1.0)));
        assert_eq!(value["rates"], json!([18.0, 12.0]));
    }
}
