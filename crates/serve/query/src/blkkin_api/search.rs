//! Query `search`: summaries of the requests that have a matching span, page by page.

use super::{filter_error, limit_of, window};
use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery};
use crate::span::display;
use blkkin_model::TraceId;
use blkkin_store::{Condition, Order, Place, Query, ServiceSpans, Summary, filter_hints};
use serde::Serialize;

/// Default number of requests on a page; the maximum is `LIMIT_MAX`.
const LIMIT: usize = 20;
const LIMIT_MAX: usize = 1000;

#[derive(Serialize)]
struct PageJson<'a> {
    requests: Vec<SummaryJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// Hints at possible mistakes in the filter, if it matched nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SummaryJson<'a> {
    #[serde(serialize_with = "display")]
    trace_id: TraceId,
    start_ns: String,
    duration_ns: u64,
    extent_ns: u64,
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

impl Api {
    pub(super) fn search(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let params = &question.params;
        let order = match params.get("order") {
            None | Some("" | "newest") => Order::Newest,
            Some("slowest") => Order::Slowest,
            Some(other) => {
                return Err(Answer::bad(format!("order is neither newest nor slowest: {other}")));
            }
        };
        let limit = limit_of(params, LIMIT, LIMIT_MAX)?;
        let after = match params.get("after") {
            None | Some("") => None,
            Some(token) => Some(place(order, token).ok_or_else(|| {
                Answer::bad("after is not the next of an answer in the same order")
            })?),
        };
        let (condition, durations) = match params.get("filter") {
            None | Some("") => (Condition::All(Vec::new()), 0..=u64::MAX),
            Some(text) => {
                Condition::parse_with_durations(text).map_err(|error| filter_error(&error))?
            }
        };
        let (window, conditions) = (window(params)?, vec![condition]);
        let query = Query { window, conditions, durations, order, limit, after };
        let page = self.store.search(&query)?;
        let requests = page.requests.iter().map(summary).collect();
        let next = page.next.map(|place| token(order, place));
        let is_empty = page.requests.is_empty() && after.is_none();
        let hints = params.get("filter").filter(|_| is_empty).map(filter_hints).unwrap_or_default();
        self.json(&PageJson { requests, next, hints })
    }
}

fn summary(summary: &Summary) -> SummaryJson<'_> {
    let service = |part: &ServiceSpans| (part.spans, part.errors);
    SummaryJson {
        trace_id: summary.trace_id,
        start_ns: summary.start_ns.to_string(),
        duration_ns: summary.duration_ns,
        extent_ns: summary.extent_ns,
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

/// Returns the token for the next page, which encodes the order and the position of the last
/// request on this page.
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
