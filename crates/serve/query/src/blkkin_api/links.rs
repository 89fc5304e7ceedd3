//! Query `links`: counts and durations of calls between services.

use super::{Percentiles, percentiles, window};
use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery};
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LinksJson<'a> {
    start_ns: String,
    end_ns: String,
    /// Start of the earliest stored span in nanoseconds since 1970, regardless of the query's
    /// window. `last_ns` is the start of the latest stored span.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_ns: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_ns: Option<String>,
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

impl Api {
    pub(super) fn links(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let links = self.store.links(window(&question.params)?)?;
        let known = self.known_window(&question.params)?;
        let starts = self.store.starts()?;
        let links = links.iter().map(|link| LinkJson {
            parent: &link.parent,
            child: &link.child,
            calls: link.calls,
            errors: link.errors,
            percentiles_ns: percentiles(&link.durations),
        });
        self.json(&LinksJson {
            start_ns: known.start_ns.to_string(),
            end_ns: known.end_ns.to_string(),
            first_ns: starts.map(|starts| starts.start_ns.to_string()),
            last_ns: starts.map(|starts| starts.end_ns.to_string()),
            links: links.collect(),
        })
    }
}
