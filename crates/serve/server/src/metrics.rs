//! The server's metrics: in Prometheus's text format, in the JSON of Zipkin's server, and in the
//! JSON of BlkKin's own API. Start at [`prometheus`].

use crate::counts::{BOUNDS, Count, RequestClass};
use crate::exposition::{Exposition, Type};
use crate::process::process;
use crate::shared::Shared;
use blkkin_collector::{Counters, Transport};
use blkkin_store::Interval;
use serde_json::{Map, Value, json};

/// Function that returns one counter of a transport.
type CounterReader = fn(&Counters) -> u64;

/// Metrics of the collector: name, type, help text, and counter. Zipkin's server has all but
/// `messages_turned_away`.
const COLLECTOR_METRICS: [(&str, Type, &str, CounterReader); 8] = [
    ("messages", Type::Counter, "Messages that came", |counters| counters.messages),
    (
        "messages_dropped",
        Type::Counter,
        "Messages of which nothing was taken, as something was wrong with them",
        |counters| counters.messages_dropped,
    ),
    (
        "messages_turned_away",
        Type::Counter,
        "Messages whose senders were told to try again",
        |counters| counters.messages_turned_away,
    ),
    ("bytes", Type::Counter, "Bytes of messages, unpacked", |counters| counters.bytes),
    ("spans", Type::Counter, "Spans that were taken", |counters| counters.spans),
    ("spans_dropped", Type::Counter, "Spans that were refused", |counters| counters.spans_dropped),
    ("message_spans", Type::Gauge, "Spans of the last message", |counters| counters.message_spans),
    ("message_bytes", Type::Gauge, "Bytes of the last message", |counters| counters.message_bytes),
];

/// Count of refused, expired, lost or damaged items of one kind. `interval` has the times of the
/// first and the last item since the server started.
struct DropCount {
    component: Component,
    what: &'static str,
    count: u64,
    interval: Option<Interval>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Component {
    Collector(Transport),
    Store,
    Server,
}

impl Component {
    fn name(self) -> String {
        match self {
            Component::Collector(transport) => format!("collector.{}", transport.name()),
            Component::Store => "store".to_owned(),
            Component::Server => "server".to_owned(),
        }
    }
}

/// Returns the drop counters of all components. Counters with equal metric names are adjacent.
fn drop_counts(shared: &Shared) -> Vec<DropCount> {
    type When = fn(&Counters) -> Option<Interval>;
    let collected: [(&str, CounterReader, When); 3] = [
        ("messages_dropped", |it| it.messages_dropped, |it| it.messages_dropped_in),
        ("messages_turned_away", |it| it.messages_turned_away, |it| it.messages_turned_away_in),
        ("spans_dropped", |it| it.spans_dropped, |it| it.spans_dropped_in),
    ];
    let transports =
        Transport::ALL.map(|transport| (transport, shared.collector.counters(transport)));
    let mut drop_counts = Vec::new();
    for (what, count, when) in collected {
        drop_counts.extend(transports.iter().map(|(transport, counters)| DropCount {
            component: Component::Collector(*transport),
            what,
            count: count(counters),
            interval: when(counters),
        }));
    }
    let store = shared.store.counters();
    let times = store.times;
    for (what, count, interval) in [
        ("batches_turned_away", store.turned_away, times.turned_away),
        ("spans_refused", store.refused, times.refused),
        ("spans_expired", store.expired, times.expired),
        ("spans_lost", store.lost, times.lost),
        ("damages", store.damages, times.damages),
    ] {
        drop_counts.push(DropCount { component: Component::Store, what, count, interval });
    }
    for (count, what, _) in Count::ALL.into_iter().filter(|(count, ..)| count.is_loss()) {
        let (interval, count) = (shared.counts.interval(count), shared.counts.get(count));
        drop_counts.push(DropCount { component: Component::Server, what, count, interval });
    }
    drop_counts
}

/// Writes metrics with the times at which each drop counter first and last grew.
fn write_drop_times(shared: &Shared, out: &mut Exposition) {
    let drop_counts = drop_counts(shared);
    let is_same = |one: &DropCount, other: &DropCount| one.what == other.what;
    for drop_counts in drop_counts.chunk_by(is_same) {
        let system = match drop_counts[0].component {
            Component::Collector(_) => "zipkin_collector",
            Component::Store => "blkkin_store",
            Component::Server => "blkkin_server",
        };
        for (end, time) in [("first", 0), ("last", 1)] {
            let name = format!("{system}_{}_{end}_timestamp_seconds", drop_counts[0].what);
            out.family(&name, Type::Gauge, "When that was, since the server started");
            for DropCount { component, interval, .. } in drop_counts {
                let Some(Interval { first_ns, last_ns }) = *interval else { continue };
                let seconds = [first_ns, last_ns][time] as f64 / 1e9;
                match component {
                    Component::Collector(transport) => {
                        out.number(&name, &[("transport", &transport.name())], seconds);
                    }
                    Component::Store | Component::Server => out.number(&name, &[], seconds),
                }
            }
        }
    }
}

/// Returns all metrics in Prometheus's text format.
pub(crate) fn prometheus(shared: &Shared) -> String {
    let mut out = Exposition::default();
    let transports =
        Transport::ALL.map(|transport| (transport, shared.collector.counters(transport)));
    for (name, kind, help, read) in COLLECTOR_METRICS {
        let ending = if matches!(kind, Type::Counter) { "_total" } else { "" };
        let name = format!("zipkin_collector_{name}{ending}");
        out.family(&name, kind, help);
        for (transport, counters) in &transports {
            out.number(&name, &[("transport", &transport.name())], read(counters));
        }
    }
    write_store_metrics(shared, &mut out);
    for (count, name, help) in Count::ALL {
        let name = format!("blkkin_server_{name}_total");
        out.family(&name, Type::Counter, help);
        out.number(&name, &[], shared.counts.get(count));
    }
    for (name, help, number) in [
        ("connections", "Connections that are open", shared.connections.count()),
        ("flight_free_bytes", "Room for messages that come", shared.collector.budget().free()),
        ("answers_free_bytes", "Room for answers that are sent", shared.answers.free()),
    ] {
        let name = format!("blkkin_server_{name}");
        out.family(&name, Type::Gauge, help);
        out.number(&name, &[], number);
    }
    out.family("blkkin_build_info", Type::Gauge, "The version of the server");
    out.number("blkkin_build_info", &[("version", &env!("CARGO_PKG_VERSION"))], 1);
    process(&mut out);
    write_drop_times(shared, &mut out);
    write_latencies(shared, &mut out);
    out.into_text()
}

fn write_store_metrics(shared: &Shared, out: &mut Exposition) {
    let counters = shared.store.counters();
    for (name, kind, help, number) in [
        ("batches_total", Type::Counter, "Batches that were accepted", counters.batches),
        (
            "batches_turned_away_total",
            Type::Counter,
            "Batches with nothing wrong that were not taken",
            counters.turned_away,
        ),
        ("spans_accepted_total", Type::Counter, "Spans that were accepted", counters.accepted),
        ("spans_refused_total", Type::Counter, "Spans that had something wrong", counters.refused),
        (
            "spans_duplicate_total",
            Type::Counter,
            "Spans that were there before",
            counters.duplicates,
        ),
        ("spans_expired_total", Type::Counter, "Spans removed for age or room", counters.expired),
        ("spans_lost_total", Type::Counter, "Spans that cannot be read any more", counters.lost),
        (
            "spans_damaged",
            Type::Gauge,
            "Spans that are kept where something cannot be read",
            counters.damaged,
        ),
        (
            "damages_total",
            Type::Counter,
            "Places where files were found damaged when the store was opened",
            counters.damages,
        ),
        ("spans", Type::Gauge, "Spans that are kept", counters.kept),
        ("memory_bytes", Type::Gauge, "Memory of the store", counters.memory_bytes),
        ("disk_bytes", Type::Gauge, "Disk of the store", counters.disk_bytes),
        (
            "aside_bytes",
            Type::Gauge,
            "Disk of files that were found damaged, and are kept aside",
            counters.quarantined_bytes,
        ),
        (
            "aside_removed_total",
            Type::Counter,
            "Files kept aside that were removed for room",
            counters.quarantined_removed,
        ),
    ] {
        let name = format!("blkkin_store_{name}");
        out.family(&name, kind, help);
        out.number(&name, &[], number);
    }
}

fn write_latencies(shared: &Shared, out: &mut Exposition) {
    const NAME: &str = "http_server_requests_seconds";
    out.family(NAME, Type::Histogram, "How long requests took");
    let names = ["bucket", "count", "sum"].map(|part| format!("{NAME}_{part}"));
    let [bucket, count, sum] = &names;
    for (kind, times) in shared.requests.read() {
        let RequestClass { method, status, uri } = kind;
        let labels: [(&str, &dyn std::fmt::Display); 3] =
            [("method", &method), ("status", &status), ("uri", &uri)];
        let [one, two, three] = labels;
        for (below, bound) in times.buckets.iter().zip(BOUNDS) {
            out.number(bucket, &[one, two, three, ("le", &bound)], below);
        }
        out.number(bucket, &[one, two, three, ("le", &"+Inf")], times.count);
        out.number(count, &labels, times.count);
        out.number(sum, &labels, times.sum.as_secs_f64());
    }
}

/// Returns the collector's metrics in the JSON of Zipkin's server.
pub(crate) fn zipkin(shared: &Shared) -> Value {
    let mut numbers = Map::new();
    for (name, kind, _, read) in COLLECTOR_METRICS {
        let kind = if matches!(kind, Type::Counter) { "counter" } else { "gauge" };
        for transport in Transport::ALL {
            let key = format!("{kind}.zipkin_collector.{name}.{}", transport.name());
            let number = read(&shared.collector.counters(transport));
            // Zipkin writes gauges with a decimal point.
            let value = if kind == "gauge" { json!(number as f64) } else { json!(number) };
            numbers.insert(key, value);
        }
    }
    Value::Object(numbers)
}

/// Returns the counters of collector, store and server, and the drops, in the JSON of BlkKin's own
/// API.
pub(crate) fn blkkin_json(shared: &Shared) -> Value {
    let mut transports = Map::new();
    for transport in Transport::ALL {
        let counters = shared.collector.counters(transport);
        let numbers: Map<String, Value> = COLLECTOR_METRICS
            .iter()
            .map(|(name, _, _, read)| (camel(name), json!(read(&counters))))
            .collect();
        transports.insert(transport.name().to_owned(), Value::Object(numbers));
    }
    let counts: Map<String, Value> = Count::ALL
        .iter()
        .map(|&(count, name, _)| (camel(name), json!(shared.counts.get(count))))
        .collect();
    let drop_counts: Vec<Value> = drop_counts(shared)
        .iter()
        .filter(|drop| drop.count > 0)
        .map(|DropCount { component, what, count, interval }| {
            let mut drop =
                json!({ "place": component.name(), "what": camel(what), "count": count });
            if let Some(Interval { first_ns, last_ns }) = interval {
                drop["firstNs"] = first_ns.to_string().into();
                drop["lastNs"] = last_ns.to_string().into();
            }
            drop
        })
        .collect();
    let store = shared.store.counters();
    json!({
        "collector": transports,
        "store": {
            "batches": store.batches,
            "accepted": store.accepted,
            "refused": store.refused,
            "turnedAway": store.turned_away,
            "kept": store.kept,
            "duplicates": store.duplicates,
            "expired": store.expired,
            "lost": store.lost,
            "damaged": store.damaged,
            "damages": store.damages,
            "memoryBytes": store.memory_bytes,
            "diskBytes": store.disk_bytes,
            "asideBytes": store.quarantined_bytes,
            "asideRemoved": store.quarantined_removed,
        },
        "server": counts,
        "drops": drop_counts,
        "isDurable": shared.store.is_durable(),
    })
}

/// Converts a metric name such as `spans_dropped` to camel case, for JSON.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        camel.push_str(&first.to_ascii_uppercase());
        camel.push_str(rest);
    }
    camel
}
