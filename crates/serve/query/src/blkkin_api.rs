//! BlkKin's own query API, described in `docs/server-api.md`. Start at [`Api::own`]. The submodules
//! implement the queries; this module has the functions that they share.

mod difference;
mod fields;
mod heatmap;
mod latencies;
mod latency;
mod links;
mod outline;
mod search;
mod trace;

use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery, trace_id};
use crate::params::Params;
use blkkin_filter::FilterError;
use blkkin_model::TraceId;
use blkkin_store::{Condition, Durations, Window};
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;

/// Percentiles in answers: name, such as `50`, and quantile from 0 to 1.
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

impl Api {
    /// Answers a query below the path `/api/blkkin/v1/`.
    pub fn own(&self, question: &ApiQuery<'_>) -> Answer {
        let answer = match question.path {
            "search" => self.search(question),
            "latency" => self.latency(question),
            "latencies" => self.latencies(question),
            "heatmap" => self.heatmap(question),
            "difference" => self.difference(question),
            "links" => self.links(question),
            "fields" => self.fields(question),
            path => match path.split_once('/') {
                Some(("find", id)) if !id.contains('/') => self.find(question, id),
                Some(("trace", id)) if !id.contains('/') => self.trace(question, id),
                Some(("outline", id)) if !id.contains('/') => self.outline(question, id),
                _ => Err(Answer::failed(404, "Not Found")),
            },
        };
        answer.unwrap_or_else(|failure| failure)
    }

    /// Returns the time window of the query. A missing `startNs` is replaced by the earliest start
    /// of all stored spans, but at most `endNs`. A missing `endNs` is replaced by the latest start,
    /// but at least `startNs`. Both starts are 0 if no stored span has a start.
    fn known_window(&self, params: &Params<'_>) -> Result<Window> {
        let asked = window(params)?;
        let has = |name| matches!(params.get(name), Some(text) if !text.is_empty());
        let (has_start, has_end) = (has("startNs"), has("endNs"));
        if has_start && has_end {
            return Ok(asked);
        }
        let known = self.store.starts()?.unwrap_or(Window { start_ns: 0, end_ns: 0 });
        Ok(match (has_start, has_end) {
            (true, _) => Window { end_ns: known.end_ns.max(asked.start_ns), ..asked },
            (_, true) => Window { start_ns: known.start_ns.min(asked.end_ns), ..asked },
            _ => known,
        })
    }
}

/// Parses the percent-encoded trace id in a path.
fn request_id(text: &str) -> Result<TraceId> {
    let text = percent_decode_str(text).decode_utf8_lossy();
    trace_id(text.trim()).map_err(Answer::bad)
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
        Some(text) => Condition::parse(text).map_err(|error| filter_error(&error)),
    }
}

/// Creates the answer for an invalid filter: the error message, and two lines that mark the
/// position of the error in the filter.
fn filter_error(error: &FilterError) -> Answer {
    let shown = error.render(false);
    let place: Vec<&str> = shown.lines().skip(1).take(2).collect();
    Answer::bad(format!("{error}\n{}", place.join("\n")).trim_end())
}

/// Returns the value of the parameter `limit`, or the default `none` if the parameter is missing or
/// empty. Fails unless the value is from 1 to `most`.
fn limit_of(params: &Params<'_>, none: usize, most: usize) -> Result<usize> {
    number_between(params, "limit", none, most)
}

/// Returns the value of a numeric parameter, or the default `none` if the parameter is missing or
/// empty. Fails unless the value is from 1 to `most`.
fn number_between(params: &Params<'_>, name: &str, none: usize, most: usize) -> Result<usize> {
    let number = params.number(name)?.unwrap_or(none);
    if !(1..=most).contains(&number) {
        return Err(Answer::bad(format!("{name} is not between 1 and {most}: {number}")));
    }
    Ok(number)
}

fn percentiles(durations: &Durations) -> Percentiles {
    let quantiles = durations.quantiles(PERCENTILES.map(|(_, share)| share));
    let names = PERCENTILES.iter().map(|&(name, _)| name);
    quantiles.map_or_else(Percentiles::new, |quantiles| names.zip(quantiles).collect())
}
