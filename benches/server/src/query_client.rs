//! Queries a server and measures the latency of each answer. Each line `FROM TO` on standard input
//! selects a range of the questions, so that several servers can be queried in turn. Each range has
//! one connection. Start at [`run`].

use crate::arguments::Arguments;
use crate::http::{Connection, escape};
use serde_json::{Value, json};
use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

/// Maximum number of requests that a search returns.
const LIMIT: u32 = 20;

/// API by which the questions are sent.
#[derive(Clone, Copy, PartialEq)]
enum Api {
    /// BlkKin's API, which has all kinds of questions.
    Own,
    /// Zipkin's API, which has no questions about percentiles.
    Zipkin,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let api = match arguments.text("api")? {
        "own" => Api::Own,
        "zipkin" => Api::Zipkin,
        other => return Err(format!("no API `{other}`").into()),
    };
    let lines = std::fs::read_to_string(arguments.text("questions")?)?;
    let questions: Result<Vec<Value>, _> = lines.lines().map(serde_json::from_str).collect();
    let questions = questions?;
    let address = arguments.text("address")?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let range = line
            .split_once(' ')
            .and_then(|(from, to)| questions.get(from.parse().ok()?..to.parse().ok()?));
        // A new connection for each range: servers close idle connections, and other servers are
        // queried in between.
        let mut connection = Connection::open(address)?;
        connection.get("/health")?;
        let mut answers = Vec::new();
        for question in range.ok_or_else(|| format!("`{line}` is no part of the questions"))? {
            if let Some(answer) = ask(&mut connection, api, question)? {
                answers.push(answer);
            }
        }
        writeln!(out, "{}", Value::Array(answers))?;
        out.flush()?;
    }
    Ok(())
}

/// Sends a question. Returns its kind, the latency of the answer in nanoseconds, and the number of
/// results; `None` if the API has no such question.
fn ask(
    connection: &mut Connection,
    api: Api,
    question: &Value,
) -> Result<Option<Value>, Box<dyn Error>> {
    let path = path(api, question).ok_or_else(|| format!("no question: {question}"))?;
    let Some(path) = path else { return Ok(None) };
    let start = Instant::now();
    let answer = connection.get(&path)?;
    let ns = start.elapsed().as_nanos() as u64;
    if answer.status != 200 {
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        return Err(format!("{path} is answered with {}: {text}", answer.status).into());
    }
    let found = count(&serde_json::from_slice(&answer.body)?);
    let found = found.ok_or("an answer that was not expected")?;
    Ok(Some(json!([question["kind"], ns, found])))
}

/// Returns the URL path of a question, with its query string. Returns `None` if the question is
/// invalid, and `Some(None)` if the API has no such question.
fn path(api: Api, question: &Value) -> Option<Option<String>> {
    let text = |name: &str| question[name].as_str();
    let number = |name: &str| question[name].as_u64();
    if text("kind")? == "trace" {
        let id = text("trace_id")?;
        return Some(Some(match api {
            Api::Own => format!("/api/blkkin/v1/trace/{id}"),
            Api::Zipkin => format!("/api/v2/trace/{id}"),
        }));
    }
    let (start_ns, end_ns) = (number("start_ns")?, number("end_ns")?);
    let window = match api {
        Api::Own => format!("startNs={start_ns}&endNs={end_ns}"),
        Api::Zipkin => {
            format!("endTs={}&lookback={}", end_ns / 1_000_000, (end_ns - start_ns) / 1_000_000)
        }
    };
    let latency = |service: &str, name: &str| {
        let filter = escape(&format!("service == \"{service}\" && name == \"{name}\""));
        format!("/api/blkkin/v1/latency?filter={filter}&{window}")
    };
    Some(match (text("kind")?, api) {
        ("search in 1 %" | "search", Api::Own) => {
            let (service, name) = (text("service")?, text("name")?);
            let duration_ns = number("duration_ns")?;
            let filter = escape(&format!(
                "service == \"{service}\" && name == \"{name}\" && duration >= {duration_ns}"
            ));
            Some(format!("/api/blkkin/v1/search?filter={filter}&{window}&limit={LIMIT}"))
        }
        ("search in 1 %" | "search", Api::Zipkin) => {
            let (service, name) = (escape(text("service")?), escape(text("name")?));
            let duration_us = number("duration_ns")? / 1000;
            Some(format!(
                "/api/v2/traces?serviceName={service}&spanName={name}\
                 &minDuration={duration_us}&{window}&limit={LIMIT}"
            ))
        }
        ("dependencies", Api::Own) => Some(format!("/api/blkkin/v1/links?{window}")),
        ("dependencies", Api::Zipkin) => Some(format!("/api/v2/dependencies?{window}")),
        ("percentiles", Api::Own) => Some(latency(text("service")?, text("name")?)),
        ("percentiles of each", Api::Own) => Some(format!("/api/blkkin/v1/latencies?{window}")),
        _ => None,
    })
}

/// Returns the number of results in an answer: requests, links or spans; `None` if the answer has
/// no such list or number.
fn count(answer: &Value) -> Option<u64> {
    let list = |value: &Value| value.as_array().map(|list| list.len() as u64);
    list(answer)
        .or_else(|| list(&answer["requests"]))
        .or_else(|| list(&answer["links"]))
        .or_else(|| list(&answer["spans"]))
        .or_else(|| answer["latencies"].as_array()?.iter().map(|of| of["spans"].as_u64()).sum())
        .or_else(|| answer["spans"].as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_become_addresses() {
        let search = json!({"kind": "search", "service": "osd.1", "name": "do_op read",
            "duration_ns": 5_000_000, "start_ns": 1_000_000_000, "end_ns": 3_000_000_000_u64});
        let own = "/api/blkkin/v1/search?filter=service%20%3D%3D%20%22osd.1%22%20%26%26%20name%20%3D%3D%20\
                   %22do_op%20read%22%20%26%26%20duration%20%3E%3D%205000000\
                   &startNs=1000000000&endNs=3000000000&limit=20";
        assert_eq!(path(Api::Own, &search), Some(Some(own.to_owned())));
        let zipkin = "/api/v2/traces?serviceName=osd.1&spanName=do_op%20read&minDuration=5000\
                      &endTs=3000&lookback=2000&limit=20";
        assert_eq!(path(Api::Zipkin, &search), Some(Some(zipkin.to_owned())));
        let each = json!({"kind": "percentiles of each", "start_ns": 1, "end_ns": 2});
        let own = "/api/blkkin/v1/latencies?startNs=1&endNs=2";
        assert_eq!(path(Api::Own, &each), Some(Some(own.to_owned())));
        assert_eq!(path(Api::Zipkin, &each), Some(None));
        assert_eq!(path(Api::Own, &json!({"kind": "search"})), None);
    }

    #[test]
    fn answers_are_counted() {
        let check = |text: &str, expected| {
            let answer = serde_json::from_str(text).expect("JSON");
            assert_eq!(count(&answer), expected, "{text}");
        };
        check("[1,2]", Some(2));
        check(r#"{"requests": [{"spans": 9}], "next": "n1"}"#, Some(1));
        check(r#"{"links": []}"#, Some(0));
        check(r#"{"traceId": "a", "spans": [{}, {}, {}]}"#, Some(3));
        check(r#"{"latencies": [{"spans": 3}, {"spans": 4}]}"#, Some(7));
        check(r#"{"spans": 812, "percentilesNs": {}}"#, Some(812));
        check("{}", None);
    }
}
