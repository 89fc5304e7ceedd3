//! Fills a store with spans that are to be queried, and waits until merging is at rest. Start at
//! [`load`].

use super::ingest::REQUESTS_A_BATCH;
use super::state::Bench;
use crate::bench::serving::program::{Numbers, OnDisk, SendResult};
use crate::bench::serving::running::Running;
use crate::bench::serving::wait_for_rest;
use crate::measure::{median, percentile};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Average number of spans in a request.
const SPANS_A_REQUEST: u64 = 8;

/// Length of the period over which the start times of the requests are spread. The period ends one
/// minute before the start of loading.
const PERIOD: Duration = Duration::from_secs(86_400);

/// Parameters of the requests that were sent to a store, and the results of sending them.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) numbers: Numbers,
    pub(super) sent: SendResult,
}

/// Sends about `spans` spans to a server, in requests that all differ.
pub(super) fn load(
    bench: &Bench<'_>,
    server: &Running,
    format: &str,
    spans: u64,
) -> Result<Loaded, String> {
    let step_ns = (PERIOD.as_nanos() as u64 * SPANS_A_REQUEST / spans.max(1)).max(1000);
    let now = Numbers::now();
    let origin_ns = now.origin_ns - PERIOD.as_nanos() as u64 - 60_000_000_000;
    let numbers = Numbers { seed: spans, origin_ns, step_ns };
    let mut arguments = json!({
        "format": format,
        "address": server.address(format),
        "connections": 2,
        "in_flight": 2,
        "requests_a_batch": REQUESTS_A_BATCH,
        "batches": 6,
        "first": 0,
        "requests": spans / SPANS_A_REQUEST,
        "anew": 1,
    });
    numbers.tell(&mut arguments);
    let value = bench.program.run("ingest", &arguments)?;
    let sent = SendResult::of(&value).ok_or_else(|| format!("`{value}` says too little"))?;
    Ok(Loaded { numbers, sent })
}

/// Waits until the files of a server's store are at rest, and returns their numbers and sizes. If
/// the time limit passes first, that is reported.
pub(super) fn rest(bench: &Bench<'_>, server: &Running, folder: &Path) -> Result<OnDisk, String> {
    let (disk, is_at_rest) = wait_for_rest(&bench.program, server, folder, bench.options.quick)?;
    if !is_at_rest {
        bench.report.say("its files do not come to rest");
    }
    Ok(disk)
}

/// Returns the median and the 99th percentile of `figures`, which need not be sorted.
pub(super) fn p50_and_p99(figures: &[f64]) -> (f64, f64) {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    (median(sorted.clone()), percentile(&sorted, 99))
}

#[cfg(test)]
mod tests {
    use super::p50_and_p99;

    #[test]
    fn percentiles_do_not_depend_on_order() {
        let figures: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(p50_and_p99(&figures), (100.0, 198.0));
    }
}
