//! What is said of the server itself. Start at [`page`].

use crate::ask::typed;
use crate::metrics;
use crate::shared::Shared;
use blkkin_collector::{Answer, Content};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Something that is said of the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Health,
    Info,
    /// Numbers for Prometheus, or for who wants JSON, as Zipkin says them.
    Metrics,
    Prometheus,
    ZipkinMetrics,
    Config,
    /// Numbers, as BlkKin's own API says them.
    Counters,
    /// How it is, likewise.
    Status,
}

/// A page.
pub(crate) fn page(shared: &Shared, page: Page, headers: &HeaderMap) -> Answer {
    match page {
        Page::Health => pretty(&json!({
            "status": "UP",
            "zipkin": { "status": "UP", "details": { "BlkKin{}": { "status": "UP" } } },
        })),
        Page::Info => pretty(&json!({
            "zipkin": { "version": env!("CARGO_PKG_VERSION"), "commit": "unknown" },
        })),
        Page::Metrics if wants_json(headers) => pretty(&metrics::zipkin(shared)),
        Page::Metrics | Page::Prometheus => {
            typed(StatusCode::OK, PROMETHEUS, Content::new(metrics::prometheus(shared)))
        }
        Page::ZipkinMetrics => pretty(&metrics::zipkin(shared)),
        Page::Config => config(),
        Page::Counters => plain(&metrics::own(shared)),
        Page::Status => plain(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "uptimeSeconds": shared.start.elapsed().as_secs(),
            "connections": shared.connections.count(),
            "connectionsMax": shared.settings.connections_max,
            "tls": shared.tls.is_some(),
            "tokens": shared.guard.has_tokens(),
        })),
    }
}

/// What Zipkin's page asks for when it starts.
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
