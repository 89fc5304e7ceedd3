//! Reads ids and byte strings, which are text in JSON.

use crate::error::{Reason, Result};
use crate::json::Reader;
use crate::{render, values};
use blkkin_model::{SpanId, TraceId};

impl<'t> Reader<'t> {
    #[cold]
    pub(super) fn bytes_of_base64(&mut self) -> Result<&'t [u8]> {
        self.peek()?;
        let (start, text) = (self.at(), self.string()?);
        let bytes = render::from_base64(text.as_bytes());
        let bytes = bytes.ok_or_else(|| Reason::Expected("base64").at(start))?;
        Ok(self.arena().store_bytes(bytes))
    }

    /// Reads a trace id of 32 digits in upper or lower case; `None` for an empty string. 0 is an
    /// error.
    #[inline]
    pub(super) fn otlp_trace_id(&mut self) -> Result<Option<TraceId>> {
        let start = self.at();
        match self.otlp_id(32)? {
            None => Ok(None),
            Some(number) => match TraceId::from_number(number) {
                None => Err(Reason::Zero.at(start)),
                id => Ok(id),
            },
        }
    }

    /// Reads a span id of 16 digits in upper or lower case; 0 and an empty string are errors.
    #[inline]
    pub(super) fn otlp_own_id(&mut self) -> Result<SpanId> {
        let start = self.at();
        self.otlp_span_id()?.ok_or_else(|| Reason::Zero.at(start))
    }

    /// Reads a span id of 16 digits in upper or lower case; `None` for 0 and an empty string.
    #[inline]
    pub(super) fn otlp_span_id(&mut self) -> Result<Option<SpanId>> {
        Ok(self.otlp_id(16)?.and_then(|number| SpanId::from_number(number as u64)))
    }

    #[inline]
    fn otlp_id(&mut self, size: usize) -> Result<Option<u128>> {
        self.peek()?;
        let start = self.at();
        if let Some(digits) = self.quoted_digits().filter(|digits| digits.len() == size)
            && let Ok(number) = values::exact_id(digits, size)
        {
            return Ok(Some(number));
        }
        self.go_to(start);
        let digits = self.string()?.as_bytes();
        let number = values::exact_id(digits, size).map_err(|reason| reason.at(start))?;
        Ok(Some(number).filter(|_| !digits.is_empty()))
    }
}
