//! Numbers of events, requests and losses in a trace of the chain. Start at [`count`].

use crate::bench::blkkin;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Numbers of events, sampled requests and losses in a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Recorded {
    pub(super) events: u64,
    pub(super) requests: u64,
    pub(super) lost: u64,
}

impl Recorded {
    pub(super) fn events_a_request(&self) -> f64 {
        self.events as f64 / self.requests as f64
    }
}

/// Counts a trace's events, the sampled requests of the NBD server, and the lost events and
/// packets.
pub(super) fn count(blkkin: &str, trace: &Path) -> Result<Recorded, String> {
    let output = Command::new(blkkin).args(["info", "--json"]).arg(trace).output();
    let output = output.map_err(|error| format!("cannot start {blkkin}: {error}"))?;
    let value: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("blkkin info of {}: {error}", trace.display()))?;
    let total = |name: &str| {
        let number = value.get("total").and_then(|total| total.get(name)).and_then(Value::as_u64);
        number.ok_or_else(|| format!("blkkin info of {} tells no {name}", trace.display()))
    };
    let of_requests = r#"name == "blkkin:span" && service_name == "nbd" && kind == 2"#;
    Ok(Recorded {
        events: total("events")?,
        requests: blkkin::count(blkkin, trace, Some(of_requests))?,
        lost: total("events_lost")? + total("packets_lost")?,
    })
}
