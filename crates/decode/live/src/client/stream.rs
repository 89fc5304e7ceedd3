//! State of a data stream: the packet that is being received, its promised time, and when to ask
//! again.

use blkkin_lttng::PacketIndex;
use blkkin_lttng::{Fault, Reason};
use std::time::Duration;

/// Key of a trace: id of its session, and id of the trace.
pub(super) type TraceKey = (u64, u64);

/// Data stream that has not ended.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) trace: TraceKey,
    /// Packet that the relay has announced, and that is not received completely.
    pub(super) incoming: Option<Incoming>,
    pub(super) promise: Promise,
    /// Time from which the stream is asked again.
    pub(super) ask_at: Duration,
    back_off: BackOff,
    /// Time since which the relay has told nothing new of the stream; `None` if it has just done
    /// so.
    pub(super) silent_since: Option<Duration>,
}

/// Time before which the stream has no further events, in nanoseconds from the clock's origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Promise {
    /// Nothing is known.
    Unknown,
    /// No further events before this time.
    Until(i64),
    /// The stream has no clock.
    Timeless,
}

/// Packet that is being received.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Offset of the packet, for requests.
    pub(super) offset: u64,
    /// Size of the packet in bytes.
    pub(super) size: usize,
    /// Bytes received so far.
    pub(super) bytes: Vec<u8>,
    pub(super) class: u64,
    /// End of the packet, in cycles.
    pub(super) end: u64,
}

/// Maximum size of a packet: 128 MiB.
const PACKET_SIZE_MAX: u64 = 128 << 20;
/// Maximum size of a part of a packet: 256 KiB, as babeltrace2 asks for.
const PART_SIZE_MAX: usize = 256 << 10;

impl Stream {
    pub(super) fn new(trace: TraceKey, now: Duration) -> Stream {
        Stream {
            trace,
            incoming: None,
            promise: Promise::Unknown,
            ask_at: now,
            back_off: BackOff::default(),
            silent_since: None,
        }
    }

    /// Records that the relay has told something new.
    pub(super) fn has_progressed(&mut self, now: Duration) {
        self.back_off = BackOff::default();
        self.silent_since = None;
        self.ask_at = now;
    }

    /// Records that the relay has told nothing new, so that the stream is asked later.
    pub(super) fn is_silent(&mut self, now: Duration) {
        self.silent_since.get_or_insert(now);
        self.ask_at = now + self.back_off.next();
    }

    /// Stops asking for the stream's next packet: the relay reports it.
    pub(super) fn expect_news(&mut self, now: Duration) {
        // Until the next report, the stream counts as silent.
        self.silent_since.get_or_insert(now);
        self.back_off = BackOff::default();
        self.ask_at = Duration::MAX;
    }

    /// Raises the promise to a time. Returns true if it was lower before.
    pub(super) fn promise(&mut self, time: Option<i64>) -> bool {
        let promise = time.map_or(Promise::Timeless, Promise::Until);
        let is_new = promise > self.promise;
        self.promise = self.promise.max(promise);
        is_new
    }
}

impl Incoming {
    /// Checks a packet's index.
    pub(super) fn new(offset: u64, index: &PacketIndex) -> Result<Incoming, Fault> {
        let fault = |offset, reason| Fault { message: "reply to GET_NEXT_INDEX", offset, reason };
        let bits = index.packet_bits;
        let size = |permitted| Reason::Size { declared: bits, permitted };
        if bits == 0 || !bits.is_multiple_of(8) {
            return Err(fault(8, size("whole bytes")));
        }
        if bits / 8 > PACKET_SIZE_MAX {
            return Err(fault(8, size("up to 128 MiB")));
        }
        if index.content_bits > bits {
            let declared = index.content_bits;
            let permitted = "up to that of the packet";
            return Err(fault(16, Reason::Size { declared, permitted }));
        }
        if offset.checked_add(PACKET_SIZE_MAX).is_none() {
            return Err(fault(0, Reason::Value(offset)));
        }
        Ok(Incoming {
            offset,
            size: (bits / 8) as usize,
            bytes: Vec::new(),
            class: index.class,
            end: index.end,
        })
    }

    /// Returns offset and size of the next part.
    pub(super) fn next_part(&self) -> (u64, u32) {
        let size = self.size.saturating_sub(self.bytes.len()).min(PART_SIZE_MAX);
        (self.offset + self.bytes.len() as u64, size as u32)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.bytes.len() >= self.size
    }
}

/// Growing pauses between requests that bring nothing new.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackOff(Duration);

/// First and longest pause.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(100);

impl Default for BackOff {
    fn default() -> BackOff {
        BackOff(PAUSE_MIN)
    }
}

impl BackOff {
    pub(super) fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (2 * pause).min(PAUSE_MAX);
        pause
    }
}
