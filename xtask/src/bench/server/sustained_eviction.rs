//! Rate at which a server stores spans over a minute, with and without a size limit. Once the store
//! has reached the limit, the server removes as many spans as it stores. Start at [`run`].

use super::ingest;
use super::state::{Bench, clear};
use crate::bench::goal::Goal;
use crate::bench::serving::program::{OnDisk, SendResult};
use crate::bench::serving::running::metric;
use crate::measure::{Table, median, show_bytes};
use serde_json::json;

/// Size limit of the store in bytes. It is so low that the store reaches it soon.
const BYTES_MAX: u64 = 96 << 20;

/// Minimum rate under the size limit, as a fraction of the rate without the limit. Both rates are
/// of the last third of a run, so both include the cost of merging.
const SHARE_MIN: f64 = 0.9;

const FORMAT: &str = "proto3";
const WANTED: f64 = 1_000_000.0;
const LIMIT: f64 = 500_000.0;

/// Results of sending spans for a minute.
struct Minute {
    sent: SendResult,
    first: f64,
    last: f64,
    expired: f64,
    bytes: u64,
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), String> {
    let seconds = if bench.options.quick { 10.0 } else { 60.0 };
    bench.report.say(format!("{FORMAT} for {seconds} s; spans/s of the first and the last third"));
    let mut table = Table::new(&["limit", "spans", "removed", "files have", "first", "last"]);
    let mut minutes = Vec::new();
    for limit in [None, Some(BYTES_MAX)] {
        let Some(minute) = minute(bench, limit, seconds)? else {
            bench.skip("too short to tell early from late");
            return Ok(());
        };
        table.row(vec![
            limit.map_or_else(|| "none".to_owned(), show_bytes),
            format!("{:.1} M", minute.sent.spans / 1e6),
            format!("{:.1} M", minute.expired / 1e6),
            show_bytes(minute.bytes),
            format!("{:.0}", minute.first),
            format!("{:.0}", minute.last),
        ]);
        bench.report.row(json!({
            "table": "evict",
            "bytes_max": limit,
            "spans": minute.sent.spans,
            "expired": minute.expired,
            "bytes": minute.bytes,
            "spans_per_second_first_third": minute.first,
            "spans_per_second_last_third": minute.last,
            "rates": minute.sent.rates,
        }));
        minutes.push(minute);
    }
    bench.report.say(table.render());
    let last = minutes.first().map(|free| free.last);
    let what = format!("spans taken durably, {FORMAT}, at the end of {seconds} s");
    bench.report.goal(Goal::at_least(WANTED, "/s", what).limit(LIMIT).measured(last));
    let removing = minutes.get(1).filter(|limited| limited.expired > 0.0);
    let share = removing.and_then(|limited| Some(limited.last / last?));
    let goal = Goal::at_least(SHARE_MIN, " ×", "rate while the oldest spans are removed");
    bench.report.goal(goal.measured(share));
    Ok(())
}

/// Sends spans to a server for `seconds`, with `limit` as its size limit. Returns `None` if the run
/// was too short.
fn minute(
    bench: &mut Bench<'_>,
    limit: Option<u64>,
    seconds: f64,
) -> Result<Option<Minute>, String> {
    let room = bench.room("data")?;
    let server = match limit {
        Some(bytes) => bench.start_limited(&room, bytes)?,
        None => bench.start(&room)?,
    };
    let sent = bench.program.run("ingest", &ingest::arguments(&server, FORMAT, seconds))?;
    let sent = SendResult::of(&sent).ok_or_else(|| format!("`{sent}` says too little"))?;
    server.settle()?;
    let page = server.get("/metrics")?;
    let expired = metric(&page, "blkkin_store_spans_expired_total").unwrap_or(0.0);
    let disk = OnDisk::of(&bench.program, &room)?;
    bench.note_memory("spans for 60 s", server.rss_bytes_max()?);
    server.stop();
    clear(&room)?;
    let bytes = disk.parquet_bytes + disk.index_bytes;
    let ends = first_and_last(&sent.rates);
    Ok(ends.map(|(first, last)| Minute { sent, first, last, expired, bytes }))
}

/// Returns the median rate in the first third of the time, and in the last third; `None` if there
/// are fewer than four rates.
fn first_and_last(rates: &[f64]) -> Option<(f64, f64)> {
    // The last interval is left out, as it is seldom complete.
    let rates = rates.split_last()?.1;
    let third = rates.len() / 3;
    let of = |part: &[f64]| median(part.to_vec());
    (third > 0).then(|| (of(&rates[..third]), of(&rates[rates.len() - third..])))
}

#[cfg(test)]
mod tests {
    use super::first_and_last;

    #[test]
    fn early_and_late_rates_are_told_apart() {
        let rates = [100.0, 120.0, 110.0, 90.0, 5.0, 90.0, 60.0, 50.0, 55.0, 1.0];
        assert_eq!(first_and_last(&rates), Some((110.0, 55.0)));
        assert_eq!((first_and_last(&[1.0, 2.0]), first_and_last(&[])), (None, None));
    }
}
