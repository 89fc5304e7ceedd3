//! Decoding of answers of the query API, described in `docs/server-api.md`, into the rows to print.

use crate::exit::Error;
use blkkin_text::query_results::{Calls, Latencies, Latency, RequestSummary};
use serde_json::Value;

/// Removes the array `name` from an answer and returns it.
pub(super) fn list(answer: &mut Value, name: &str) -> Result<Vec<Value>, Error> {
    match answer.get_mut(name).map(Value::take) {
        Some(Value::Array(members)) => Ok(members),
        _ => Err(unexpected_answer(answer, name)),
    }
}

/// Decodes each element of an array in an answer.
pub(super) fn members<T>(
    answer: &Value,
    name: &str,
    read: impl Fn(&Value) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let members = answer[name].as_array().ok_or_else(|| unexpected_answer(answer, name))?;
    members.iter().map(read).collect()
}

pub(super) fn request_summary(of: &Value) -> Result<RequestSummary, Error> {
    Ok(RequestSummary {
        id: text(of, "traceId")?,
        start_ns: time(of, "startNs")?,
        duration_ns: number(of, "durationNs")?,
        service: text(of, "service")?,
        name: text(of, "name")?,
        spans: number(of, "spans")?,
        errors: number(of, "errors")?,
        services: of["services"].as_array().map_or(0, |services| services.len() as u64),
    })
}

pub(super) fn latency(of: &Value) -> Result<Latency, Error> {
    let bar = |bar: &Value| {
        Ok((number(bar, "leastNs")?, number(bar, "greatestNs")?, number(bar, "spans")?))
    };
    let example = |example: &Value| Ok((text(example, "traceId")?, number(example, "durationNs")?));
    let mut examples = members(of, "examples", example)?;
    // Several spans of one request may have equal durations.
    examples.dedup();
    Ok(Latency {
        spans: number(of, "spans")?,
        percentiles: percentiles(of),
        bars: members(of, "histogram", bar)?,
        examples,
    })
}

pub(super) fn latencies(of: &Value) -> Result<Latencies, Error> {
    Ok(Latencies {
        service: text(of, "service")?,
        name: text(of, "name")?,
        spans: number(of, "spans")?,
        percentiles: percentiles(of),
    })
}

pub(super) fn calls(of: &Value) -> Result<Calls, Error> {
    Ok(Calls {
        parent: text(of, "parent")?,
        child: text(of, "child")?,
        calls: number(of, "calls")?,
        errors: number(of, "errors")?,
        percentiles: percentiles(of),
    })
}

/// Formats the values in an answer, one per line. A value with a span count is followed by a tab
/// and that count.
pub(super) fn words(of: &Value) -> Result<String, Error> {
    let line = |value: &Value| match value {
        Value::String(word) => Ok(format!("{}\n", clean(word))),
        with => Ok(format!("{}\t{}\n", clean(&text(with, "key")?), number(with, "spans")?)),
    };
    Ok(members(of, "values", line)?.concat())
}

/// Replaces control characters, which a terminal would interpret, by `?`.
fn clean(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '?' } else { char }).collect()
}

/// Returns the percentiles of an answer, in ascending order.
fn percentiles(of: &Value) -> Vec<(String, u64)> {
    let known = of["percentilesNs"].as_object();
    let known =
        known.into_iter().flatten().filter_map(|(name, ns)| Some((name.clone(), ns.as_u64()?)));
    let mut known: Vec<(String, u64)> = known.collect();
    let share = |name: &str| name.parse::<f64>().unwrap_or(f64::MAX);
    known.sort_by(|one, other| share(&one.0).total_cmp(&share(&other.0)));
    known
}

pub(super) fn text(of: &Value, name: &str) -> Result<String, Error> {
    of[name].as_str().map(str::to_owned).ok_or_else(|| unexpected_answer(of, name))
}

pub(super) fn number(of: &Value, name: &str) -> Result<u64, Error> {
    of[name].as_u64().ok_or_else(|| unexpected_answer(of, name))
}

/// Decodes a time in nanoseconds. Times are strings, as they exceed the exact integers of
/// JavaScript.
pub(super) fn time(of: &Value, name: &str) -> Result<u64, Error> {
    of[name].as_str().and_then(|text| text.parse().ok()).ok_or_else(|| unexpected_answer(of, name))
}

/// Returns the error for an answer without a valid member `what`.
pub(super) fn unexpected_answer(answer: &Value, what: &str) -> Error {
    let mut shown = answer.to_string();
    if let Some((end, _)) = shown.char_indices().nth(200) {
        shown.truncate(end);
    }
    Error::failed(format!("the answer has no {what}: {shown}")).hint(
        "is it of another release than this program, or of something else than blkkin server?",
    )
}
