//! Zipkin's query API. Start at [`Api::zipkin`].
//!
//! Answers contain the names of services and spans in lower case; names that differ only in case
//! are merged.

use crate::Params;
use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery, trace_id};
use blkkin_model::TraceId;
use blkkin_store::zipkin::{Parameters, conditions};
use blkkin_store::{Query, Window};
use blkkin_wire::{Encoder, Format};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Length of the time window if the query has no `lookback`, in milliseconds.
const LOOKBACK_MS: i64 = 86_400_000;

/// Maximum number of requests in an answer to `traces` if the query has no `limit`.
const LIMIT: i32 = 10;

/// Maximum number of requests in an answer to `traces`. A larger `limit` is reduced to this
/// maximum; Zipkin's server accepts any positive 32-bit number.
const LIMIT_MAX: u64 = 10_000;

/// Maximum number of services with which clients are not allowed to cache lists of names. With so
/// few services, the first new names must appear at once. For a list of tag values, the number of
/// values is compared with this limit instead.
const UNCACHED_NAMES_MAX: usize = 3;

/// Maximum number of values in an answer to `autocompleteValues`.
const VALUES_MAX: usize = 1000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Link<'a> {
    parent: &'a str,
    child: &'a str,
    call_count: u64,
    #[serde(skip_serializing_if = "is_zero")]
    error_count: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Api {
    /// Answers a query below the path `/api/v2/`.
    pub fn zipkin(&self, question: &ApiQuery<'_>) -> Answer {
        let answer = match question.path {
            "services" => self.service_names(),
            "spans" => self.names_of(question, |service| self.store.span_names(service)),
            "remoteServices" => {
                self.names_of(question, |service| self.store.remote_services(service))
            }
            "traces" => self.zipkin_traces(question),
            "traceMany" => self.trace_many(question),
            "dependencies" => self.dependencies(question),
            "autocompleteKeys" => self.autocomplete_keys(),
            "autocompleteValues" => self.autocomplete_values(question),
            path => match path.strip_prefix("trace/") {
                Some(id) if !id.is_empty() && !id.contains('/') => self.zipkin_trace(id),
                _ => Err(Answer::failed(404, "Not Found")),
            },
        };
        answer.unwrap_or_else(|failure| failure)
    }

    fn service_names(&self) -> Result<Answer> {
        let names = lower(self.store.services()?);
        Ok(self.json(&names)?.good_if(names.len() > UNCACHED_NAMES_MAX))
    }

    fn names_of(
        &self,
        question: &ApiQuery<'_>,
        ask: impl Fn(&str) -> std::result::Result<Vec<String>, blkkin_store::Error>,
    ) -> Result<Answer> {
        let service = question.params.need("serviceName")?.to_lowercase();
        let names = if service.is_empty() { BTreeSet::new() } else { lower(ask(&service)?) };
        let are_many = lower(self.store.services()?).len() > UNCACHED_NAMES_MAX;
        Ok(self.json(&names)?.good_if(are_many))
    }

    fn autocomplete_keys(&self) -> Result<Answer> {
        let keys: BTreeSet<&String> = self.settings.autocomplete_keys.iter().collect();
        Ok(self.json(&keys)?.good_if(true))
    }

    fn autocomplete_values(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let key = question.params.need("key")?;
        if key.is_empty() {
            return Err(Answer::bad("key was empty"));
        }
        let mut values = Vec::new();
        if self.settings.autocomplete_keys.iter().any(|known| known == key) {
            values = self.store.tag_values(key, VALUES_MAX)?;
        }
        Ok(self.json(&values)?.good_if(values.len() > UNCACHED_NAMES_MAX))
    }

    fn zipkin_traces(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let query = self.zipkin_query(question)?;
        let page = self.store.search(&query)?;
        self.requests(page.requests.iter().map(|summary| summary.trace_id))
    }

    fn zipkin_query(&self, question: &ApiQuery<'_>) -> Result<Query> {
        let params = &question.params;
        let now_ms = i64::try_from(question.now_ns / 1_000_000).unwrap_or(i64::MAX);
        let end_ms = at_least_one("endTs", params.number("endTs")?.unwrap_or(now_ms))?;
        let limit = limit(params)?;
        let lookback = params.number("lookback")?.unwrap_or(LOOKBACK_MS);
        let lookback_ms = at_least_one("lookback", lookback)?;
        let text = |name| params.get(name).unwrap_or_default();
        let conditions = conditions(&Parameters {
            service: text("serviceName"),
            remote_service: text("remoteServiceName"),
            span_name: text("spanName"),
            annotation_query: text("annotationQuery"),
            duration_us_min: params.number("minDuration")?,
            duration_us_max: params.number("maxDuration")?,
        })?;
        Ok(Query { window: window(end_ms, lookback_ms), conditions, ..Query::new(limit) })
    }

    fn zipkin_trace(&self, text: &str) -> Result<Answer> {
        let text = percent_decode_str(text).decode_utf8_lossy();
        let id = trace_id(text.trim()).map_err(Answer::bad)?;
        let mut body = Vec::new();
        match self.append_request(id, &mut body)? {
            Ok(()) if body.is_empty() => Err(Answer::failed(404, format!("{id} not found"))),
            written => written.map(|()| Answer::bytes(body)),
        }
    }

    fn trace_many(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let text = question.params.need("traceIds")?;
        if text.is_empty() {
            return Err(Answer::bad("traceIds parameter is empty"));
        }
        let mut seen = HashSet::new();
        let mut ids = Vec::new();
        for part in text.split(',') {
            let id = trace_id(part).map_err(Answer::bad)?;
            if !seen.insert(id) {
                return Err(Answer::bad(format!("redundant traceId: {part}")));
            }
            ids.push(id);
        }
        if ids.len() == 1 {
            let text = "Use /api/v2/trace/{traceId} endpoint to retrieve a single trace";
            return Err(Answer::bad(text));
        }
        self.requests(ids.into_iter())
    }

    /// Creates the answer with the spans of several requests, as one list per request. Unknown
    /// requests are omitted. Damaged requests are omitted, too, so that they do not hide the other
    /// requests. The store counts damage.
    fn requests(&self, ids: impl Iterator<Item = TraceId>) -> Result<Answer> {
        let mut body = vec![b'['];
        let mut lows = HashSet::new();
        for id in ids {
            if !self.settings.strict_trace_id && !lows.insert(id.low()) {
                continue;
            }
            let before = body.len();
            if before > 1 {
                body.push(b',');
            }
            let start = body.len();
            match self.append_request(id, &mut body) {
                Ok(written) => written?,
                Err(blkkin_store::Error::Damaged(_)) => body.truncate(start),
                Err(error) => return Err(error.into()),
            }
            if body.len() == start {
                body.truncate(before);
            }
        }
        body.push(b']');
        Ok(Answer::bytes(body))
    }

    /// Appends the spans of a request to the body as a list. Appends nothing if the request is
    /// unknown.
    fn append_request(
        &self,
        id: TraceId,
        body: &mut Vec<u8>,
    ) -> std::result::Result<Result<()>, blkkin_store::Error> {
        let before = body.len();
        let mut encoder = Encoder::new(Format::ZipkinJson, body);
        let mut spans = 0;
        let written = self.each_span(id, |span| {
            spans += 1;
            encoder.span(span);
            self.check_size(before + encoder.size())
        })?;
        encoder.finish();
        if spans == 0 {
            body.truncate(before);
        }
        Ok(written)
    }

    fn dependencies(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let params = &question.params;
        params.need("endTs")?;
        let end_ms = at_least_one("endTs", params.number("endTs")?.unwrap_or(0))?;
        let lookback = params.number("lookback")?.unwrap_or(LOOKBACK_MS);
        let window = window(end_ms, at_least_one("lookback", lookback)?);
        let mut sums: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
        for link in self.store.links(window)? {
            let key = (link.parent.to_lowercase(), link.child.to_lowercase());
            let (calls, errors) = sums.entry(key).or_default();
            *calls += link.calls;
            *errors += link.errors;
        }
        let links: Vec<Link<'_>> = sums
            .iter()
            .map(|((parent, child), &(call_count, error_count))| Link {
                parent,
                child,
                call_count,
                error_count,
            })
            .collect();
        self.json(&links)
    }
}

/// Returns the value of the parameter `limit`, at most [`LIMIT_MAX`]. As in Zipkin's server, the
/// value must be a positive signed 32-bit number, and must not be empty.
fn limit(params: &Params<'_>) -> Result<usize> {
    if params.get("limit") == Some("") {
        return Err(Answer::bad("limit is empty"));
    }
    let limit = at_least_one("limit", params.number::<i32>("limit")?.unwrap_or(LIMIT).into())?;
    Ok(limit.min(LIMIT_MAX) as usize)
}

/// Converts the value of the parameter `name`, which must be at least 1.
fn at_least_one(name: &str, number: i64) -> Result<u64> {
    match u64::try_from(number) {
        Ok(number @ 1..) => Ok(number),
        _ => Err(Answer::bad(format!("{name} <= 0"))),
    }
}

/// Returns the window of the last `lookback_ms` milliseconds before `end_ms`. It includes the whole
/// microsecond at its end, as Zipkin's times have microseconds.
fn window(end_ms: u64, lookback_ms: u64) -> Window {
    let start_ms = end_ms.saturating_sub(lookback_ms);
    let end_ns = end_ms.saturating_mul(1_000_000).saturating_add(999);
    Window { start_ns: start_ms.saturating_mul(1_000_000), end_ns }
}

fn lower(names: Vec<String>) -> BTreeSet<String> {
    names.iter().map(|name| name.to_lowercase()).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_requests_are_told_than_there_is_room_for() {
        let of = |query| limit(&Params::parse(query)).ok();
        assert_eq!(of(""), Some(10));
        assert_eq!(of("limit=9999"), Some(9999));
        assert_eq!(of("limit=2147483647"), Some(10_000));
        assert_eq!(of("limit=0"), None);
    }
}
