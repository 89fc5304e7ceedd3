//! The questions of BlkKin's own API, which `docs/server-api.md` describes. Start at [`Api::own`].

use crate::answer::{Answer, Result};
use crate::api::{Api, Question, trace_id};
use crate::params::Params;
use crate::span::{SpanJson, display};
use blkkin_model::{SpanId, TraceId};
use blkkin_store::{Condition, Durations, Order, Place, Query, ServiceSpans, Summary, Window};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use std::collections::BTreeMap;

/// Requests of a page, if nothing is said, and at most.
const LIMIT: usize = 20;
const LIMIT_MAX: usize = 1000;

/// Shares of spans whose durations are told, in percent.
const PERCENTILES: [(&str, f64); 7] = [
    ("50", 0.5),
    ("75", 0.75),
    ("90", 0.9),
    ("95", 0.95),
    ("99", 0.99),
    ("99.9", 0.999),
    ("100", 1.0),
];

type Percentiles = BTreeMap<&'static str, u64>;

#[derive(Serialize)]
struct PageJson<'a> {
    requests: Vec<SummaryJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SummaryJson<'a> {
    #[serde(serialize_with = "display")]
    trace_id: TraceId,
    start_ns: String,
    duration_ns: u64,
    service: &'a str,
    name: &'a str,
    spans: u64,
    errors: u64,
    services: Vec<ServiceJson<'a>>,
}

#[derive(Serialize)]
struct ServiceJson<'a> {
    service: &'a str,
    spans: u64,
    errors: u64,
}

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

#[derive(Serialize)]
struct LinksJson<'a> {
    links: Vec<LinkJson<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LinkJson<'a> {
    parent: &'a str,
    child: &'a str,
    calls: u64,
    errors: u64,
    percentiles_ns: Percentiles,
}

#[derive(Serialize)]
struct ValuesJson<T> {
    values: Vec<T>,
}

#[derive(Serialize)]
struct KeyJson {
    key: String,
    spans: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TraceJson<'a> {
    #[serde(serialize_with = "display")]
    trace_id: TraceId,
    spans: Vec<SpanJson<'a>>,
}

impl Api {
    /// Answers a question of `/api/blkkin/v1/`.
    pub fn own(&self, question: &Question<'_>) -> Answer {
        let answer = match question.path {
            "search" => self.search(question),
            "latency" => self.latency(question),
            "links" => self.links(question),
            "fields" => self.fields(question),
            path => match path.strip_prefix("trace/") {
                Some(id) if !id.contains('/') => self.trace(id),
                _ => Err(Answer::failed(404, "Not Found")),
            },
        };
        answer.unwrap_or_else(|failure| failure)
    }

    fn search(&self, question: &Question<'_>) -> Result<Answer> {
        let params = &question.params;
        let order = match params.get("order") {
            None | Some("" | "newest") => Order::Newest,
            Some("slowest") => Order::Slowest,
            Some(other) => {
                return Err(Answer::bad(format!("order is neither newest nor slowest: {other}")));
            }
        };
        let limit = params.number("limit")?.unwrap_or(LIMIT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(Answer::bad(format!("limit is not between 1 and {LIMIT_MAX}: {limit}")));
        }
        let after = match params.get("after") {
            None | Some("") => None,
            Some(token) => Some(place(order, token).ok_or_else(|| {
                Answer::bad("after is not the next of an answer in the same order")
            })?),
        };
        let conditions = vec![condition(params)?];
        let query = Query { window: window(params)?, conditions, order, limit, after };
        let page = self.store.search(&query)?;
        let requests = page.requests.iter().map(summary).collect();
        let next = page.next.map(|place| token(order, place));
        Ok(Answer::json(&PageJson { requests, next }))
    }

    fn latency(&self, question: &Question<'_>) -> Result<Answer> {
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
        Ok(Answer::json(&LatencyJson {
            spans: durations.count(),
            percentiles_ns: percentiles(durations),
            histogram: histogram.collect(),
            examples: examples.collect(),
        }))
    }

    fn links(&self, question: &Question<'_>) -> Result<Answer> {
        let links = self.store.links(window(&question.params)?)?;
        let links = links.iter().map(|link| LinkJson {
            parent: &link.parent,
            child: &link.child,
            calls: link.calls,
            errors: link.errors,
            percentiles_ns: percentiles(&link.durations),
        });
        Ok(Answer::json(&LinksJson { links: links.collect() }))
    }

    fn fields(&self, question: &Question<'_>) -> Result<Answer> {
        let params = &question.params;
        let limit = params.number("limit")?.unwrap_or(LIMIT_MAX);
        let prefix = params.get("prefix").unwrap_or_default().to_lowercase();
        let fits = |text: &str| text.to_lowercase().starts_with(&prefix);
        let values = match params.need("of")? {
            "services" => self.store.services()?,
            "names" => self.store.span_names(params.need("service")?)?,
            "remoteServices" => self.store.remote_services(params.need("service")?)?,
            "values" => self.store.tag_values(params.need("key")?, LIMIT_MAX)?,
            "keys" => {
                let keys = self.store.tag_keys()?.into_iter().filter(|field| fits(&field.key));
                let keys =
                    keys.take(limit).map(|field| KeyJson { key: field.key, spans: field.spans });
                return Ok(Answer::json(&ValuesJson { values: keys.collect() }));
            }
            other => {
                let known = "services, names, remoteServices, keys, values";
                return Err(Answer::bad(format!("of is none of {known}: {other}")));
            }
        };
        let values = values.into_iter().filter(|value| fits(value)).take(limit).collect();
        Ok(Answer::json(&ValuesJson { values }))
    }

    fn trace(&self, text: &str) -> Result<Answer> {
        let text = percent_decode_str(text).decode_utf8_lossy();
        let id = trace_id(text.trim()).map_err(Answer::bad)?;
        let spans = self.spans(id)?;
        if spans.is_empty() {
            return Err(Answer::failed(404, format!("{id} not found")));
        }
        let spans = spans.iter().map(SpanJson::from).collect();
        let answer = Answer::json(&TraceJson { trace_id: id, spans });
        self.check_size(answer.body.len())?;
        Ok(answer)
    }
}

fn window(params: &Params<'_>) -> Result<Window> {
    let start_ns = params.number("startNs")?.unwrap_or(Window::ALL.start_ns);
    let end_ns = params.number("endNs")?.unwrap_or(Window::ALL.end_ns);
    if start_ns > end_ns {
        return Err(Answer::bad("startNs is after endNs"));
    }
    Ok(Window { start_ns, end_ns })
}

fn condition(params: &Params<'_>) -> Result<Condition> {
    match params.get("filter") {
        None | Some("") => Ok(Condition::All(Vec::new())),
        Some(text) => Condition::parse(text).map_err(|error| Answer::bad(error.to_string())),
    }
}

fn summary(summary: &Summary) -> SummaryJson<'_> {
    let service = |part: &ServiceSpans| (part.spans, part.errors);
    SummaryJson {
        trace_id: summary.trace_id,
        start_ns: summary.start_ns.to_string(),
        duration_ns: summary.duration_ns,
        service: &summary.service,
        name: &summary.name,
        spans: summary.spans,
        errors: summary.errors,
        services: summary
            .services
            .iter()
            .map(|part| {
                let (spans, errors) = service(part);
                ServiceJson { service: &part.service, spans, errors }
            })
            .collect(),
    }
}

fn percentiles(durations: &Durations) -> Percentiles {
    let quantiles = durations.quantiles(PERCENTILES.map(|(_, share)| share));
    let names = PERCENTILES.iter().map(|&(name, _)| name);
    quantiles.map_or_else(Percentiles::new, |quantiles| names.zip(quantiles).collect())
}

/// Behind which request the next page starts, as text.
fn token(order: Order, place: Place) -> String {
    let order = letter(order);
    format!("{order}{:x}.{:x}", place.rank_ns, place.trace_id.number())
}

fn place(order: Order, token: &str) -> Option<Place> {
    let (rank, id) = token.strip_prefix(letter(order))?.split_once('.')?;
    let rank_ns = u64::from_str_radix(rank, 16).ok()?;
    let trace_id = TraceId::from_number(u128::from_str_radix(id, 16).ok()?)?;
    Some(Place { rank_ns, trace_id })
}

fn letter(order: Order) -> char {
    match order {
        Order::Newest => 'n',
        Order::Slowest => 's',
    }
}
