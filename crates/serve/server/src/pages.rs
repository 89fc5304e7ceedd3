//! Pages about the server itself: health, metrics, status and configuration. Start at [`page`].

use crate::guard::Access;
use crate::metrics;
use crate::response::typed;
use crate::shared::Shared;
use blkkin_collector::{Answer, Content};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Page about the server itself, for probes, monitoring and Zipkin's web page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Health,
    /// Health as in [`Self::Health`], but with HTTP status 503 after the store refused a batch,
    /// until the store accepts a batch or a minute has passed.
    Readiness,
    Info,
    /// Metrics in Prometheus's text format, or in Zipkin's JSON if the `Accept` header starts with
    /// JSON.
    Metrics,
    Prometheus,
    ZipkinMetrics,
    Config,
    /// Metrics in the JSON of BlkKin's own API.
    Counters,
    /// Version, uptime, connections and security, in the JSON of BlkKin's own API.
    Status,
}

/// Creates the answer with a page's content.
pub(crate) fn page(shared: &Shared, page: Page, headers: &HeaderMap) -> Answer {
    match page {
        // 200 even while the store refuses batches: the server still answers queries, so a
        // supervisor must not restart it.
        Page::Health => health(shared, headers),
        Page::Readiness => {
            let mut answer = health(shared, headers);
            if shared.collector.refusal().is_some() {
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            }
            answer
        }
        Page::Info => pretty(&json!({
            "zipkin": { "version": env!("CARGO_PKG_VERSION"), "commit": "unknown" },
        })),
        Page::Metrics if wants_json(headers) => pretty(&metrics::zipkin(shared)),
        Page::Metrics | Page::Prometheus => {
            typed(StatusCode::OK, PROMETHEUS, Content::new(metrics::prometheus(shared)))
        }
        Page::ZipkinMetrics => pretty(&metrics::zipkin(shared)),
        Page::Config => config(),
        Page::Counters => plain(&metrics::blkkin_json(shared)),
        Page::Status => plain(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptimeSeconds": shared.start.elapsed().as_secs(),
            "connections": shared.connections.count(),
            "connectionsMax": shared.settings.connections_max,
            "tls": shared.settings.tls.is_some(),
            "tokens": shared.guard.has_tokens(),
        })),
    }
}

/// Creates the answer with the health in Zipkin's JSON, and with a description of each problem in
/// the list `troubles`.
fn health(shared: &Shared, headers: &HeaderMap) -> Answer {
    let refusal = shared.collector.refusal();
    let counters = shared.store.counters();
    // The status `DOWN` would mean that queries are not answered either.
    let status = if refusal.is_some() { "OUT_OF_SERVICE" } else { "UP" };
    let mut troubles = Vec::new();
    if let Some(reason) = refusal {
        // The reason may contain file names, so only clients with read access get it.
        let reason = Some(reason).filter(|_| shared.guard.permits(headers, Access::Read));
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        troubles.push(format!("the store refuses batches{reason}"));
    }
    for (count, what) in [
        (counters.lost, "spans lost with files that cannot be read"),
        (counters.damaged, "spans in files of which something cannot be read"),
        (counters.damages, "places found damaged at the start"),
    ] {
        if count > 0 {
            troubles.push(format!("{count} {what}"));
        }
    }
    let mut health = json!({
        "status": status,
        "zipkin": { "status": status, "details": { "BlkKin{}": { "status": status } } },
    });
    if !troubles.is_empty() {
        health["troubles"] = troubles.into();
    }
    pretty(&health)
}

/// Creates the answer with the configuration that Zipkin's web page requests when it starts.
fn config() -> Answer {
    let mut answer = plain(&json!({
        "environment": "",
        "queryLimit": 10,
        "defaultLookback": 900_000,
        "searchEnabled": true,
        "logsUrl": null,
        "supportUrl": null,
        "archivePostUrl": null,
        "archiveUrl": null,
        "dependency": { "enabled": true, "lowErrorRate": 0.5, "highErrorRate": 0.75 },
    }));
    let minutes = HeaderValue::from_static("max-age=600");
    answer.headers_mut().insert(header::CACHE_CONTROL, minutes);
    answer
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.trim_start().starts_with("application/json"))
}

fn plain(value: &Value) -> Answer {
    json_text(value.to_string())
}

fn pretty(value: &Value) -> Answer {
    json_text(format!("{value:#}"))
}

fn json_text(text: String) -> Answer {
    typed(StatusCode::OK, "application/json; charset=utf-8", Content::new(text))
}
