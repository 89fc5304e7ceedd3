//! Reads request bodies into contiguous memory, within limits. Start at [`read`].
//!
//! A body of a single frame is not copied. Bodies of several frames are collected in pooled
//! buffers.

use crate::Settings;
use crate::budget::{Budget, Reservation};
use crate::rejection::Rejection;
use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use std::fmt::Display;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Maximum number of idle buffers in the pool. `IDLE_BYTES` limits the size of each.
const IDLE_COUNT: usize = 4;
const IDLE_BYTES: usize = 2 << 20;

/// Minimum spare capacity that [`Buffer::reserve`] adds when it grows a buffer, in bytes; less if
/// the budget does not allow it.
const STEP: usize = 64 << 10;

/// Pool of idle buffers, and the memory budget of all messages.
#[derive(Debug)]
pub(crate) struct Buffers {
    budget: Arc<Budget>,
    idle: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// Buffer in use. On drop, it is returned to the pool, or freed if it is too large or the pool is
/// full.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    hold: Reservation,
    idle: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// Message in memory, as received or decompressed.
#[derive(Debug)]
pub(crate) struct Message {
    store: BodyMemory,
    /// Number of bytes before the message, such as gRPC's prefix, which are not part of it.
    skipped: usize,
}

#[derive(Debug)]
enum BodyMemory {
    One(Bytes, #[expect(dead_code, reason = "its bytes come back when it is dropped")] Reservation),
    Many(Buffer),
}

impl Buffers {
    pub(crate) fn new(bytes: usize) -> Buffers {
        Buffers { budget: Budget::new(bytes), idle: Arc::default() }
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Returns an empty buffer, from the pool if possible. Fails if the budget does not allow the
    /// capacity of the pooled buffer.
    pub(crate) fn take(&self) -> Result<Buffer, Rejection> {
        let mut hold = self.budget.reservation();
        let bytes = self.idle.lock().pop().unwrap_or_default();
        hold.grow_to(bytes.capacity()).map_err(|_| Rejection::out_of_memory())?;
        Ok(Buffer { bytes, hold, idle: self.idle.clone() })
    }
}

impl Buffer {
    /// Grows the capacity to at least `len` bytes. Growth doubles the length or adds [`STEP`],
    /// whichever is more, within the budget.
    pub(crate) fn reserve(&mut self, len: usize) -> Result<(), Rejection> {
        if len > self.bytes.capacity() {
            let wanted = len.max(self.bytes.len() + self.bytes.len().max(STEP));
            // The budget may allow `len` bytes even if it does not allow the larger growth.
            self.reserve_exact(wanted).or_else(|_| self.reserve_exact(len))?;
        }
        Ok(())
    }

    /// Grows the capacity to exactly `len` bytes, unless it is larger already.
    pub(crate) fn reserve_exact(&mut self, len: usize) -> Result<(), Rejection> {
        self.hold.grow_to(len).map_err(|_| Rejection::out_of_memory())?;
        self.bytes.reserve_exact(len.saturating_sub(self.bytes.len()));
        Ok(())
    }

    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn into_message(self) -> Message {
        Message { store: BodyMemory::Many(self), skipped: 0 }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut idle = self.idle.lock();
        if (1..=IDLE_BYTES).contains(&bytes.capacity()) && idle.len() < IDLE_COUNT {
            bytes.clear();
            idle.push(bytes);
        }
    }
}

impl Message {
    /// Creates a message from bytes in memory, for tests.
    #[cfg(test)]
    pub(crate) fn of(bytes: Bytes, buffers: &Buffers) -> Message {
        Message { store: BodyMemory::One(bytes, buffers.budget.reservation()), skipped: 0 }
    }

    /// Removes `bytes` bytes from the front of the message.
    pub(crate) fn skip(mut self, bytes: usize) -> Message {
        self.skipped += bytes;
        self
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &self.store {
            BodyMemory::One(bytes, _) => bytes,
            BodyMemory::Many(buffer) => &buffer.bytes,
        };
        all.get(self.skipped..).unwrap_or_default()
    }
}

/// Reads a body of at most `limit` bytes, within the timeouts in `settings`.
pub(crate) async fn read<B>(
    body: B,
    limit: usize,
    buffers: &Buffers,
    settings: &Settings,
) -> Result<Message, Rejection>
where
    B: Body<Data = Bytes, Error: Display>,
{
    let size = body.size_hint();
    if size.lower() > limit as u64 {
        return Err(Rejection::TooLarge(limit));
    }
    let mut body = pin!(body);
    let end = Instant::now() + settings.body_patience;
    let mut first = None;
    let mut buffer: Option<Buffer> = None;
    loop {
        let patience = end.min(Instant::now() + settings.part_patience);
        let next = timeout_at(patience, body.frame()).await.map_err(|_| Rejection::Timeout)?;
        let Some(frame) = next else { break };
        let frame =
            frame.map_err(|error| Rejection::Invalid(format!("cannot read body: {error}")))?;
        let Ok(part) = frame.into_data() else { continue };
        if part.is_empty() {
            continue;
        }
        if first.is_none() && buffer.is_none() {
            first = Some(part);
            continue;
        }
        let buffer = match &mut buffer {
            Some(buffer) => buffer,
            none => none.insert(buffers.take()?),
        };
        for part in first.take().iter().chain([&part]) {
            let len = buffer.bytes.len() + part.len();
            if len > limit {
                return Err(Rejection::TooLarge(limit));
            }
            buffer.reserve(len)?;
            buffer.bytes.extend_from_slice(part);
        }
    }
    if let Some(buffer) = buffer {
        return Ok(buffer.into_message());
    }
    let bytes = first.unwrap_or_default();
    if bytes.len() > limit {
        return Err(Rejection::TooLarge(limit));
    }
    let mut hold = buffers.budget.reservation();
    hold.grow_to(bytes.len()).map_err(|_| Rejection::out_of_memory())?;
    Ok(Message { store: BodyMemory::One(bytes, hold), skipped: 0 })
}
