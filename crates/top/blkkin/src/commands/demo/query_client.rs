//! HTTP client for the demo's queries to its server.

use crate::exit::Error;
use blkkin_http::{Server, Settings};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::time::Duration;

/// Client for the query API of the demo's server.
pub(super) struct QueryClient(Server);

/// Maximum size of an answer, in bytes.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Filter for writes, which pass through every layer of the chain.
const WRITES: &str = r#"service == "nbd" && name == "write""#;

impl QueryClient {
    pub(super) fn to(url: &str) -> Result<QueryClient, Error> {
        let settings = Settings {
            port: 9411,
            token: None,
            ca: None,
            timeout: Duration::from_secs(15),
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        Ok(QueryClient(Server::at(url, &settings).map_err(Error::failed)?))
    }

    /// Returns the trace id of the slowest write, and the server's answer to the query `trace/ID`;
    /// `None` if no write is stored.
    pub(super) fn slowest_write(&mut self) -> Result<Option<(String, Value)>, Error> {
        let filter = utf8_percent_encode(WRITES, NON_ALPHANUMERIC);
        let answer = self.get(&format!("search?order=slowest&limit=1&filter={filter}"))?;
        let Some(id) = answer["requests"][0]["traceId"].as_str() else { return Ok(None) };
        let trace = self.get(&format!("trace/{id}"))?;
        Ok(Some((id.to_owned(), trace)))
    }

    fn get(&mut self, question: &str) -> Result<Value, Error> {
        let answer = self.0.get(&format!("/api/blkkin/v1/{question}")).map_err(Error::failed)?;
        let failed = || {
            let body = String::from_utf8_lossy(&answer.body);
            Error::failed(format!("the server says {}: {}", answer.status, body.trim()))
        };
        if answer.status.as_u16() != 200 {
            return Err(failed());
        }
        serde_json::from_slice(&answer.body).map_err(|_| failed())
    }
}
