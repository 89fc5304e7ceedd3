//! Query `fields`: lists of services, span names, remote services, tag keys and tag values, for
//! completion of filters.

use crate::answer::{Answer, Result};
use crate::api::{Api, ApiQuery};
use serde::Serialize;

/// Maximum number of values in an answer if the query has no `limit`. In a query for the values of
/// a tag, the store also returns at most this number of values, before `prefix` is applied.
const LIMIT: usize = 1000;

#[derive(Serialize)]
struct ValuesJson<T> {
    values: Vec<T>,
}

#[derive(Serialize)]
struct KeyJson {
    key: String,
    spans: u64,
}

impl Api {
    pub(super) fn fields(&self, question: &ApiQuery<'_>) -> Result<Answer> {
        let params = &question.params;
        let limit = params.number("limit")?.unwrap_or(LIMIT);
        let prefix = params.get("prefix").unwrap_or_default().to_lowercase();
        let fits = |text: &str| text.to_lowercase().starts_with(&prefix);
        let values = match params.need("of")? {
            "services" => self.store.services()?,
            "names" => self.store.span_names(params.need("service")?)?,
            "remoteServices" => self.store.remote_services(params.need("service")?)?,
            "values" => self.store.tag_values(params.need("key")?, LIMIT)?,
            "keys" => {
                let keys = self.store.tag_keys()?.into_iter().filter(|field| fits(&field.key));
                let keys =
                    keys.take(limit).map(|field| KeyJson { key: field.key, spans: field.spans });
                return self.json(&ValuesJson { values: keys.collect() });
            }
            other => {
                let known = "services, names, remoteServices, keys, values";
                return Err(Answer::bad(format!("of is none of {known}: {other}")));
            }
        };
        let values = values.into_iter().filter(|value| fits(value)).take(limit).collect();
        self.json(&ValuesJson { values })
    }
}
