//! Whether a server that has to remove as much as it takes still takes as much. Start at [`run`].

use super::program::{OnDisk, Sent};
use super::running::{Running, Store, metric};
use super::{Bench, clear, ingest, median};
use crate::bench::goal::Goal;
use crate::measure::show_bytes;
use serde_json::json;

/// A day's spans, had they come slowly: so many bytes are soon full.
const BYTES_MAX: u64 = 96 << 20;

/// Of the rate that there was before.
const SHARE_MIN: f64 = 0.9;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), String> {
    if !bench.abilities.data || bench.abilities.limit.is_none() {
        bench.skip("`blkkin server` has no durable store with a limit on bytes");
        return Ok(());
    }
    let seconds = if bench.options.quick { 12.0 } else { 60.0 };
    let room = bench.room("data")?;
    let server = Running::blkkin(bench, &Store::Limited(room.clone(), BYTES_MAX))?;
    let sent = bench.program.run("ingest", &ingest::arguments(&server, "proto3", seconds))?;
    let sent = Sent::of(&sent).ok_or_else(|| format!("`{sent}` says too little"))?;
    server.settle()?;
    let page = server.get("/metrics")?;
    let expired = metric(&page, "blkkin_store_spans_expired_total").unwrap_or(0.0);
    let disk = OnDisk::of(&bench.program, &room)?;
    bench.rss_bytes_max = bench.rss_bytes_max.max(server.rss_bytes_max()?);
    server.stop();
    clear(&room)?;
    let Some((before, after)) = halves(&sent.rates) else {
        bench.skip("too short to tell early from late");
        return Ok(());
    };
    let bytes = disk.parquet_bytes + disk.index_bytes;
    bench.report.say(format!(
        "{:.0} million spans in {seconds} s, a limit of {}: {:.0} million were removed, files have {}\n\
         spans/s in the first third {before:.0}, in the last {after:.0}\n",
        sent.spans / 1e6,
        show_bytes(BYTES_MAX),
        expired / 1e6,
        show_bytes(bytes),
    ));
    bench.report.row(json!({
        "table": "evict",
        "spans": sent.spans,
        "expired": expired,
        "bytes_max": BYTES_MAX,
        "bytes": bytes,
        "spans_per_second_first_third": before,
        "spans_per_second_last_third": after,
        "rates": sent.rates,
    }));
    if expired == 0.0 {
        bench.skip("nothing was removed, so there is nothing to compare");
    }
    let goal = Goal::at_least(SHARE_MIN, " ×", "rate while the oldest spans are removed");
    bench.report.goal(goal.measured((expired > 0.0).then_some(after / before)));
    Ok(())
}

/// The rates of the first and the last third of the time.
fn halves(rates: &[f64]) -> Option<(f64, f64)> {
    // The last part is seldom a whole one.
    let rates = rates.split_last()?.1;
    let third = rates.len() / 3;
    let of = |part: &[f64]| median(part.to_vec());
    (third > 0).then(|| (of(&rates[..third]), of(&rates[rates.len() - third..])))
}

#[cfg(test)]
mod tests {
    use super::halves;

    #[test]
    fn early_and_late_rates_are_told_apart() {
        let rates = [100.0, 120.0, 110.0, 90.0, 5.0, 90.0, 60.0, 50.0, 55.0, 1.0];
        assert_eq!(halves(&rates), Some((110.0, 55.0)));
        assert_eq!((halves(&[1.0, 2.0]), halves(&[])), (None, None));
    }
}
