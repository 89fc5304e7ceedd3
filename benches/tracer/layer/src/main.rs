//! Creates spans of the `tracing` crate repeatedly, and prints the cost of a span; see
//! `blkkin/src/harness.rs` for the arguments. Kind `tracing-span` uses our layer,
//! `opentelemetry-span` tracing-opentelemetry with its defaults, and `opentelemetry-bare` the same
//! without its additional attributes. For OpenTelemetry, the span processor discards spans at once,
//! so the figures exclude the cost of exporting.

#[path = "../../blkkin/src/harness.rs"]
mod harness;

use harness::{Kind, Work};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanProcessor};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

const KINDS: [Kind; 3] = [
    Kind { name: "tracing-span", record: spans, idle: numbers, events: 1 },
    Kind { name: "opentelemetry-span", record: spans, idle: numbers, events: 1 },
    Kind { name: "opentelemetry-bare", record: spans, idle: numbers, events: 1 },
];

fn main() -> ExitCode {
    let registry = tracing_subscriber::registry();
    match std::env::args().nth(1).as_deref() {
        Some("tracing-span") => registry.with(blkkin_tracing::layer()).init(),
        Some(kind @ ("opentelemetry-span" | "opentelemetry-bare")) => {
            let provider = SdkTracerProvider::builder().with_span_processor(Forgets).build();
            let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("bench"));
            let adds = kind == "opentelemetry-span";
            let bare = |layer: OpenTelemetryLayer<_, _>| {
                layer.with_location(false).with_threads(false).with_tracked_inactivity(false)
            };
            registry.with(if adds { layer } else { bare(layer) }).init();
        }
        _ => {}
    }
    harness::main(&KINDS)
}

fn spans(work: &Work) {
    let (oid, pool) = (black_box("rb.1"), black_box("volume"));
    for i in work.operations() {
        let span = tracing::info_span!(target: "bench", "write", oid, bytes = i, pool);
        span.in_scope(|| black_box(i));
    }
}

fn numbers(work: &Work) {
    for i in work.operations() {
        black_box(i);
    }
}

/// OpenTelemetry span processor that discards each span when it ends.
#[derive(Debug)]
struct Forgets;

impl SpanProcessor for Forgets {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        black_box(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}
