//! Reads bodies into one piece of memory, within limits. Start at [`read`].
//!
//! A body that comes in one piece is not copied. Others are put together in buffers, which are used again.

use crate::Settings;
use crate::budget::{Budget, Hold};
use crate::trouble::Trouble;
use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use std::fmt::Display;
use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::{Instant, timeout_at};

/// Buffers that nobody uses are kept, up to so many, if they are not larger than this.
const IDLE_COUNT: usize = 4;
const IDLE_BYTES: usize = 2 << 20;

/// Bytes by which a buffer grows at first.
const STEP: usize = 64 << 10;

/// Buffers, and how many bytes all of them may have.
#[derive(Debug)]
pub(crate) struct Buffers {
    budget: Arc<Budget>,
    idle: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A buffer in use.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    hold: Hold,
    idle: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A message, or what it was packed in.
#[derive(Debug)]
pub(crate) struct Message {
    store: Memory,
    /// What before it does not belong to it.
    skipped: usize,
}

#[derive(Debug)]
enum Memory {
    One(Bytes, #[expect(dead_code, reason = "its bytes come back when it is dropped")] Hold),
    Many(Buffer),
}

impl Buffers {
    pub(crate) fn new(bytes: usize) -> Buffers {
        Buffers { budget: Budget::new(bytes), idle: Arc::default() }
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// A buffer, empty.
    pub(crate) fn take(&self) -> Result<Buffer, Trouble> {
        let mut hold = self.budget.hold();
        let bytes = lock(&self.idle).pop().unwrap_or_default();
        hold.grow_to(bytes.capacity()).map_err(|_| Trouble::no_room())?;
        Ok(Buffer { bytes, hold, idle: self.idle.clone() })
    }
}

impl Buffer {
    /// Makes room for so many bytes in all, and no more than twice of it.
    pub(crate) fn reserve(&mut self, len: usize) -> Result<(), Trouble> {
        if len > self.bytes.capacity() {
            let wanted = len.max(self.bytes.len() + self.bytes.len().max(STEP));
            // Where there is no room for twice as much, there may be enough.
            self.reserve_exact(wanted).or_else(|_| self.reserve_exact(len))?;
        }
        Ok(())
    }

    /// Makes room for so many bytes in all.
    pub(crate) fn reserve_exact(&mut self, len: usize) -> Result<(), Trouble> {
        self.hold.grow_to(len).map_err(|_| Trouble::no_room())?;
        self.bytes.reserve_exact(len.saturating_sub(self.bytes.len()));
        Ok(())
    }

    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(crate) fn into_message(self) -> Message {
        Message { store: Memory::Many(self), skipped: 0 }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut idle = lock(&self.idle);
        if (1..=IDLE_BYTES).contains(&bytes.capacity()) && idle.len() < IDLE_COUNT {
            bytes.clear();
            idle.push(bytes);
        }
    }
}

impl Message {
    /// A message that is in memory already, and counts there.
    #[cfg(test)]
    pub(crate) fn of(bytes: Bytes, buffers: &Buffers) -> Message {
        Message { store: Memory::One(bytes, buffers.budget.hold()), skipped: 0 }
    }

    /// Without its first bytes.
    pub(crate) fn skip(mut self, bytes: usize) -> Message {
        self.skipped += bytes;
        self
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &self.store {
            Memory::One(bytes, _) => bytes,
            Memory::Many(buffer) => &buffer.bytes,
        };
        all.get(self.skipped..).unwrap_or_default()
    }
}

/// Reads all of a body, which may have so many bytes.
pub(crate) async fn read<B>(
    body: B,
    limit: usize,
    buffers: &Buffers,
    settings: &Settings,
) -> Result<Message, Trouble>
where
    B: Body<Data = Bytes, Error: Display>,
{
    let told = body.size_hint();
    if told.lower() > limit as u64 {
        return Err(Trouble::TooLarge(limit));
    }
    let mut body = pin!(body);
    let end = Instant::now() + settings.body_patience;
    let mut first = None;
    let mut buffer: Option<Buffer> = None;
    loop {
        let patience = end.min(Instant::now() + settings.part_patience);
        let next = timeout_at(patience, body.frame()).await.map_err(|_| Trouble::Slow)?;
        let Some(frame) = next else { break };
        let frame = frame.map_err(|error| Trouble::Bad(format!("cannot read body: {error}")))?;
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
                return Err(Trouble::TooLarge(limit));
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
        return Err(Trouble::TooLarge(limit));
    }
    let mut hold = buffers.budget.hold();
    hold.grow_to(bytes.len()).map_err(|_| Trouble::no_room())?;
    Ok(Message { store: Memory::One(bytes, hold), skipped: 0 })
}

/// Nobody leaves the list half changed, so a panic elsewhere does not matter.
fn lock(idle: &Mutex<Vec<Vec<u8>>>) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
