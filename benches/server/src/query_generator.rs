//! Generates questions about sent spans, one line of JSON each, so that all compared servers answer
//! the same questions. Start at [`run`].

use crate::arguments::Arguments;
use crate::format::Format;
use crate::numbers::{Numbers, Random};
use crate::pool::RequestSource;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;

/// Maximum number of requests from which services, names and durations are collected.
const SAMPLE: u64 = 20_000;

/// Sorted durations in nanoseconds, by service and span name.
type Pairs = BTreeMap<(String, String), Vec<u64>>;

/// Kinds of queries, in the order in which the generator cycles through them.
pub(crate) const KINDS: [&str; 6] =
    ["trace", "search in 1 %", "search", "dependencies", "percentiles", "percentiles of each"];

/// Maximum number of queries of the kind `percentiles of each`, which are similar and expensive.
const EACH_MAX: u64 = 8;

pub(crate) fn run(arguments: &Arguments) -> Result<Vec<Value>, Box<dyn Error>> {
    let numbers = arguments.numbers()?;
    let (requests, count) = (arguments.number("requests")?, arguments.number("count")?);
    let pairs = pairs(SAMPLE.min(requests));
    let mut random = Random(numbers.seed ^ 0xa5c);
    let mut questions = Vec::new();
    // Kinds alternate, so that any range of the questions has the same mix.
    for index in 0..count {
        for kind in KINDS {
            if kind != "percentiles of each" || index % count.div_ceil(EACH_MAX) == 0 {
                questions.push(question(kind, &numbers, requests, &pairs, &mut random));
            }
        }
    }
    Ok(questions)
}

fn pairs(sample: u64) -> Pairs {
    let mut pairs = Pairs::new();
    let mut source = RequestSource::new(Format::OtlpHttp, 1);
    for _ in 0..sample {
        for span in source.request() {
            let durations = pairs.entry((span.local.service, span.name)).or_default();
            durations.extend(span.duration_ns);
        }
    }
    // Pairs with fewer durations are too rare for percentiles.
    pairs.retain(|_, durations| {
        durations.sort_unstable();
        durations.len() >= 20
    });
    pairs
}

fn question(
    kind: &str,
    numbers: &Numbers,
    requests: u64,
    pairs: &Pairs,
    random: &mut Random,
) -> Value {
    let whole = (numbers.origin_ns, numbers.origin_ns + (requests + 1) * numbers.step_ns);
    let length = whole.1 - whole.0;
    let all: Vec<_> = pairs.iter().collect();
    let ((service, name), durations) = random.pick(&all);
    // About one of ten to one of a thousand spans with this service and name, and at least one,
    // reaches the threshold.
    let rare = *random.pick(&[10, 30, 100, 300, 1000]);
    let duration_ns = durations[durations.len() - 1 - (durations.len() - 1) / rare];
    match kind {
        "trace" => {
            let (high, low) = numbers.trace_id(random.below(requests));
            json!({"kind": kind, "trace_id": format!("{high:016x}{low:016x}")})
        }
        "search in 1 %" | "search" => {
            let (start_ns, end_ns) = match kind {
                "search" => (whole.0 + random.below(length / 1000), whole.1),
                _ => {
                    let start_ns = whole.0 + random.below(length - length / 100);
                    (start_ns, start_ns + length / 100)
                }
            };
            json!({"kind": kind, "service": service, "name": name, "duration_ns": duration_ns,
                   "start_ns": start_ns, "end_ns": end_ns})
        }
        "dependencies" => {
            let start_ns = whole.0 + random.below(length / 3);
            let end_ns = whole.1 - random.below(length / 3);
            json!({"kind": kind, "start_ns": start_ns, "end_ns": end_ns})
        }
        _ => {
            let start_ns = whole.0 + random.below(length / 100);
            let mut question = json!({"kind": kind, "start_ns": start_ns, "end_ns": whole.1});
            if kind == "percentiles" {
                question["service"] = json!(service);
                question["name"] = json!(name);
            }
            question
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_asked_as_often() {
        let arguments = r#"{"seed": 4, "origin_ns": 1700000000000000000, "step_ns": 50000,
                            "requests": 5000, "count": 40}"#;
        let questions = run(&Arguments::parse(arguments).expect("good")).expect("good");
        let of = |kind: &str| questions.iter().filter(|question| question["kind"] == kind).count();
        assert_eq!(KINDS.map(of), [40, 40, 40, 40, 40, 8]);
        let one = &questions[1];
        let length =
            one["end_ns"].as_u64().expect("a time") - one["start_ns"].as_u64().expect("a time");
        assert_eq!(length, 5001 * 50_000 / 100);
        let distinct: std::collections::HashSet<String> =
            questions.iter().map(Value::to_string).collect();
        assert!(
            distinct.len() + 3 > questions.len(),
            "{} are alike",
            questions.len() - distinct.len()
        );
    }
}
