//! Contexts as text: W3C's `traceparent` and Zipkin's single header `b3`.
//!
//! ```text
//! traceparent  00-TRACE(32)-SPAN(16)-FLAGS(2)
//! b3           TRACE(16 or 32)-SPAN(16)[-STATE(1)[-PARENT(16)]]     or just STATE
//! ```
//!
//! All but STATE is in lower-case hexadecimal digits; STATE is `0` (not traced), `1` (traced) or `d`
//! (traced whatever samplers say). Ids of 0 are invalid.

use crate::layout::{Context, DEBUG_TRACE, DEFERRED, RANDOM, SAMPLED, TraceInfo};

/// A header's value. The longest `b3` just fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    bytes: [u8; 68],
    used: usize,
}

impl Text {
    fn new() -> Text {
        Text { bytes: [0; 68], used: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.used).unwrap_or_default()
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.used) {
            *place = byte;
            self.used = self.used.saturating_add(1);
        }
    }

    fn push_id(&mut self, id: i64) {
        for byte in id.to_be_bytes() {
            for digit in [byte >> 4, byte & 15] {
                let first = if digit < 10 { b'0' } else { b'a'.wrapping_sub(10) };
                self.push(first.wrapping_add(digit));
            }
        }
    }
}

/// A `traceparent` of any version: later ones may only add to the end.
pub(crate) fn parse_traceparent(text: &[u8]) -> Option<Context> {
    let mut parts = trim(text).split(|&byte| byte == b'-');
    let version = digits(parts.next()?, 2)?;
    let (trace_id_high, trace_id) = wide_id(parts.next()?)?;
    let span_id = id(parts.next()?)?;
    let flags = digits(parts.next()?, 2)?;
    if version == 0xff || version == 0 && parts.next().is_some() {
        return None;
    }
    // Other bits have no meaning yet, and are not passed on.
    let flags = u32::try_from(flags).ok()? & (SAMPLED | RANDOM);
    Some(Context { info: TraceInfo { trace_id, span_id, parent_span_id: 0 }, trace_id_high, flags })
}

pub(crate) fn format_traceparent(context: &Context) -> Option<Text> {
    let TraceInfo { trace_id, span_id, .. } = context.info;
    if trace_id == 0 && context.trace_id_high == 0 || span_id == 0 {
        return None;
    }
    let mut text = Text::new();
    b"00-".iter().for_each(|&byte| text.push(byte));
    text.push_id(context.trace_id_high);
    text.push_id(trace_id);
    text.push(b'-');
    text.push_id(span_id);
    b"-0".iter().for_each(|&byte| text.push(byte));
    let flags = context.flags & (SAMPLED | RANDOM);
    text.push(b'0'.wrapping_add(u8::try_from(flags).ok()?));
    Some(text)
}

pub(crate) fn parse_b3(text: &[u8]) -> Option<Context> {
    let mut parts = trim(text).split(|&byte| byte == b'-');
    let first = parts.next()?;
    let Some(second) = parts.next() else {
        return Some(Context { flags: state(first)?, ..Context::default() });
    };
    let (trace_id_high, trace_id) = match first.len() {
        16 => (0, id(first)?),
        _ => wide_id(first)?,
    };
    let span_id = id(second)?;
    // Nobody has decided. That a request is lost because nobody said yes is not what people expect.
    let flags = parts.next().map_or(Some(SAMPLED | DEFERRED), state)?;
    let parent = parts.next().map_or(Some(0), |part| digits(part, 16))?;
    if parts.next().is_some() {
        return None;
    }
    let info = TraceInfo { trace_id, span_id, parent_span_id: parent.cast_signed() };
    Some(Context { info, trace_id_high, flags })
}

pub(crate) fn format_b3(context: &Context) -> Option<Text> {
    let TraceInfo { trace_id, span_id, parent_span_id } = context.info;
    let has_trace = trace_id != 0 || context.trace_id_high != 0;
    let state = match context.flags {
        flags if flags & DEBUG_TRACE != 0 => Some(b'd'),
        flags if flags & DEFERRED != 0 => None,
        flags if flags & SAMPLED != 0 => Some(b'1'),
        _ => Some(b'0'),
    };
    let mut text = Text::new();
    match (has_trace, span_id != 0, state) {
        (false, false, Some(state)) => {
            text.push(state);
            return Some(text);
        }
        (true, true, _) => {}
        _ => return None,
    }
    if context.trace_id_high != 0 {
        text.push_id(context.trace_id_high);
    }
    text.push_id(trace_id);
    text.push(b'-');
    text.push_id(span_id);
    if let Some(state) = state {
        text.push(b'-');
        text.push(state);
        // There is no place for it without a state.
        if parent_span_id != 0 {
            text.push(b'-');
            text.push_id(parent_span_id);
        }
    }
    Some(text)
}

fn state(part: &[u8]) -> Option<u32> {
    match part {
        b"0" => Some(0),
        b"1" => Some(SAMPLED),
        b"d" => Some(SAMPLED | DEBUG_TRACE),
        _ => None,
    }
}

/// An id of 128 bits as its two halves.
fn wide_id(part: &[u8]) -> Option<(i64, i64)> {
    let (high, low) = part.split_at_checked(16)?;
    let (high, low) = (digits(high, 16)?, digits(low, 16)?);
    (high != 0 || low != 0).then(|| (high.cast_signed(), low.cast_signed()))
}

fn id(part: &[u8]) -> Option<i64> {
    digits(part, 16).filter(|&id| id != 0).map(u64::cast_signed)
}

/// The value of exactly `count` digits, which is at most 16.
fn digits(part: &[u8], count: usize) -> Option<u64> {
    if part.len() != count {
        return None;
    }
    part.iter().try_fold(0_u64, |value, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte.wrapping_sub(b'0'),
            b'a'..=b'f' => byte.wrapping_sub(b'a').wrapping_add(10),
            _ => return None,
        };
        Some((value << 4) | u64::from(digit))
    })
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
