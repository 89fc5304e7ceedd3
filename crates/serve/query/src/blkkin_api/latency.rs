//! Query `latency`: histogram and percentiles of the durations of matching spans, with example
//! spans.

use super::{Percentiles, condition, percentiles, window};
use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery};
use crate::span::display;
use blkkin_model::{SpanId, TraceId};
use blkkin_store::Durations;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LatencyJson {
    spans: u64,
    percentiles_ns: Percentiles,
    histogram: Vec<BarJson>,
    examples: Vec<ExampleJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BarJson {
    least_ns: u64,
    greatest_ns: u64,
    spans: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExampleJson {
    #[serde(serialize_with = "display")]
    trace_id: TraceId,
    #[serde(serialize_with = "display")]
    id: SpanId,
    duration_ns: u64,
}

impl Api {
    pub(super) fn latency(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let params = &question.params;
        let latency = self.store.latency(window(params)?, &condition(params)?)?;
        let durations = &latency.durations;
        let histogram = durations.counts().iter().map(|&(code, spans)| BarJson {
            least_ns: Durations::least(code),
            greatest_ns: Durations::greatest(code),
            spans,
        });
        let examples = latency.examples.iter().map(|example| ExampleJson {
            trace_id: example.trace_id,
            id: example.id,
            duration_ns: example.duration_ns,
        });
        self.json(&LatencyJson {
            spans: durations.count(),
            percentiles_ns: percentiles(durations),
            histogram: histogram.collect(),
            examples: examples.collect(),
        })
    }
}
