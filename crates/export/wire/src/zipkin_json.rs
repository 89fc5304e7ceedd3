//! Readers shared by both of Zipkin's JSON formats: ids, times and endpoints, with the types that
//! Zipkin accepts.

pub(crate) mod v1;
pub(crate) mod v2;
pub(crate) mod write;

use crate::error::Result;
use crate::json::{Reader, keys};
use crate::values;
use blkkin_model::{EndpointRef, SpanId, TraceId};

keys! {
    /// JSON keys of an endpoint.
    endpoint { SERVICE_NAME = "serviceName", IPV4 = "ipv4", IPV6 = "ipv6", PORT = "port", }
}

/// Enters the list of spans; returns false if it is empty. Empty input is an empty list, and bytes
/// after the list are ignored.
fn open_batch(reader: &mut Reader<'_>) -> Result<bool> {
    Ok(!reader.is_at_end() && reader.open_list()?)
}

impl<'t> Reader<'t> {
    /// Reads a string, or the text of a number.
    #[inline]
    fn text_or_number(&mut self) -> Result<&'t str> {
        match self.peek()? {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(self.expected("text")),
        }
    }

    /// Reads a string or the text of a number; null gives an empty string.
    #[inline]
    fn optional_text(&mut self) -> Result<&'t str> {
        if self.null()? { Ok("") } else { self.text_or_number() }
    }

    #[inline]
    fn trace_id(&mut self) -> Result<TraceId> {
        self.peek()?;
        let start = self.at();
        if let Some(id) = self.quoted_digits().and_then(|digits| values::trace_id(digits).ok()) {
            return Ok(id);
        }
        self.go_to(start);
        let digits = self.text_or_number()?;
        values::trace_id(digits.as_bytes()).map_err(|reason| reason.at(start))
    }

    #[inline]
    fn span_id(&mut self) -> Result<SpanId> {
        self.peek()?;
        let start = self.at();
        if let Some(id) = self.quoted_digits().and_then(|digits| values::span_id(digits).ok()) {
            return Ok(id);
        }
        self.go_to(start);
        let digits = self.text_or_number()?;
        values::span_id(digits.as_bytes()).map_err(|reason| reason.at(start))
    }

    #[inline]
    fn parent_id(&mut self) -> Result<Option<SpanId>> {
        if self.null()? {
            return Ok(None);
        }
        let start = self.at();
        if let Some(id) = self.quoted_digits().and_then(|digits| values::parent_id(digits).ok()) {
            return Ok(id);
        }
        self.go_to(start);
        let digits = self.text_or_number()?;
        values::parent_id(digits.as_bytes()).map_err(|reason| reason.at(start))
    }

    /// Reads a time in microseconds and converts it to nanoseconds; `None` for null, 0 and negative
    /// times.
    #[inline]
    fn optional_time(&mut self) -> Result<Option<u64>> {
        if self.null()? {
            return Ok(None);
        }
        let start = self.at();
        values::ns_if_known(self.integer()?).map_err(|reason| reason.at(start))
    }

    /// Reads a time in microseconds and converts it to nanoseconds.
    #[inline]
    fn time(&mut self) -> Result<u64> {
        self.peek()?;
        let start = self.at();
        values::ns(self.integer()?).map_err(|reason| reason.at(start))
    }

    #[inline]
    fn flag(&mut self) -> Result<bool> {
        if self.null()? { Ok(false) } else { self.boolean() }
    }

    #[inline]
    fn endpoint(&mut self, order: &mut endpoint::Keys) -> Result<EndpointRef<'t>> {
        let mut found = EndpointRef::NONE;
        if self.null()? {
            return Ok(found);
        }
        self.object(&endpoint::NAMES, order, |reader, key| {
            match key {
                endpoint::SERVICE_NAME => found.service = reader.optional_text()?,
                endpoint::PORT => found.port = reader.port()?,
                _ => values::address_of_text(reader.optional_text()?, &mut found),
            }
            Ok(())
        })?;
        Ok(found)
    }

    #[inline]
    fn port(&mut self) -> Result<u16> {
        if self.null()? {
            return Ok(0);
        }
        let start = self.at();
        values::port(self.integer()?).map_err(|reason| reason.at(start))
    }
}
