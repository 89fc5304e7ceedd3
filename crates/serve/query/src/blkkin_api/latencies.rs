//! Query `latencies`: latency of matching spans by service and name.

use super::{Percentiles, condition, limit_of, percentiles, window};
use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery};
use blkkin_store::{Condition, TextField, TextTest};
use serde::Serialize;
use std::collections::HashSet;

/// Default and maximum of the parameter `limit`, the number of examined pairs of service and name.
const LIMIT: usize = 1000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LatenciesJson {
    latencies: Vec<LatencyJson>,
    /// Number of pairs of service and name that were not examined because of the limit.
    left_out: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LatencyJson {
    service: String,
    name: String,
    spans: u64,
    percentiles_ns: Percentiles,
}

impl Api {
    pub(super) fn latencies(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let params = &question.params;
        let (window, condition) = (window(params)?, condition(params)?);
        let limit = limit_of(params, LIMIT, LIMIT)?;
        let (mut latencies, mut seen, mut left_out) = (Vec::new(), HashSet::new(), 0);
        for service in self.store.services()? {
            for name in self.store.span_names(&service)? {
                // Conditions ignore case, so pairs that differ only in case are a single pair.
                if !seen.insert([&service, &name].map(|text| text.to_ascii_lowercase())) {
                    continue;
                }
                // Pairs without a matching span count towards the limit, too, as examining them
                // takes as long.
                if seen.len() > limit {
                    left_out += 1;
                    continue;
                }
                let is = |field, text: &String| Condition::Text(field, TextTest::Is(text.clone()));
                let pair = [is(TextField::Service, &service), is(TextField::Name, &name)];
                let of_pair = Condition::All(pair.into_iter().chain([condition.clone()]).collect());
                let durations = self.store.latency(window, &of_pair)?.durations;
                if durations.count() > 0 {
                    let (service, spans) = (service.clone(), durations.count());
                    let percentiles_ns = percentiles(&durations);
                    latencies.push(LatencyJson { service, name, spans, percentiles_ns });
                }
            }
        }
        self.json(&LatenciesJson { latencies, left_out })
    }
}
