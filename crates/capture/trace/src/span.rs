//! Dapper's spans: the steps of a request, what caused them, and what is said of them.
//!
//! There are two styles. A [`Trace`] is a small value that says which span one is in. It can be copied,
//! handed to any thread, kept in a future or forgotten; one annotates on it, and makes children of it.
//! A [`Span`] is a `Trace` with a beginning and an end: it ends when it is dropped, and is recorded
//! then, as one event that holds all that was known. Neither is bound to a thread, and there is no
//! current span: who causes a span hands its own on.
//!
//! ```
//! use blkkin_trace::{Endpoint, Trace, sample};
//!
//! static OSD: Endpoint<'static> = Endpoint::new("osd.3", "10.0.0.7", 6802);
//!
//! // Spans that end with their scope.
//! fn serve(header: &[u8]) {
//!     let sampler = sample::global();
//!     let request = Trace::receive_traceparent("client io", &OSD, header, sampler).server_span();
//!     let write = request.child("write").span();
//!     write.keyval("bytes", 4096);
//!     drop(write);
//!     // What the next station gets.
//!     let _sent = request.traceparent();
//! }
//!
//! // A value that goes wherever the request goes.
//! fn queue() {
//!     let request = Trace::root("client io", &OSD, sample::global());
//!     request.server_receive();
//!     let worker = std::thread::spawn(move || {
//!         request.event("dequeued");
//!         request.server_send();
//!     });
//!     worker.join().unwrap();
//! }
//! # serve(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
//! # queue();
//! ```
//!
//! # Cost
//!
//! A request that is not followed costs the decision, and its spans and annotations a branch each. An
//! annotation that nobody wants costs a load and a branch. Nothing is allocated.

mod annotations;
mod endpoint;

pub use crate::moment::Moment;
pub use annotations::{CoreAnnotation, KeyValue};
pub use endpoint::Endpoint;

use crate::Level;
use crate::context::{Decision, Incoming, SpanContext, Text, b3, packed, w3c};
use crate::event::Payload;
use crate::family::{self, DEFAULT_LEVEL};
use crate::id::{SpanId, TraceId, make};
use crate::sample::Sampler;
use blkkin_ring::Pen;
use blkkin_sys::monotonic_ns;
use std::ops::Deref;

/// A span as one refers to it: its name, where it happens, and its context. Names and endpoints are
/// borrowed; with static ones it can go anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    name: &'a str,
    endpoint: &'a Endpoint<'a>,
    ids: Ids,
    decision: Decision,
    random_trace_id: bool,
}

/// A context's ids, in words that are copied one by one. A request that is not followed may have none:
/// then all are 0.
#[derive(Clone, Copy, Debug, Default)]
struct Ids {
    /// The lower half and the upper one.
    trace: [u64; 2],
    span: u64,
    parent: u64,
}

impl<'a> Trace<'a> {
    /// The root of a new request, if `sampler` follows it. The trace id has 64 bits.
    #[inline(always)]
    pub fn root(name: &'a str, endpoint: &'a Endpoint<'a>, sampler: &Sampler) -> Trace<'a> {
        let decision = sampler.decide(None, monotonic_ns);
        Trace::begin(name, endpoint, decision, false)
    }

    /// The same with a trace id of 128 bits.
    #[inline(always)]
    pub fn root_wide(name: &'a str, endpoint: &'a Endpoint<'a>, sampler: &Sampler) -> Trace<'a> {
        let decision = sampler.decide(None, monotonic_ns);
        Trace::begin(name, endpoint, decision, true).record_wide_id()
    }

    /// A child of the span that `incoming` is of. Whether the request is followed is decided as
    /// [`Sampler::decide`] does: by whoever sent it, or by `sampler`, which is also asked for a request
    /// with which nothing came.
    #[inline(always)]
    pub fn receive(
        name: &'a str,
        endpoint: &'a Endpoint<'a>,
        incoming: Option<&Incoming>,
        sampler: &Sampler,
    ) -> Trace<'a> {
        let decision = sampler.decide(incoming, monotonic_ns);
        match incoming.and_then(Incoming::context) {
            Some(cause) => {
                let cause = SpanContext { decision, ..*cause };
                Trace::with_context(name, endpoint, &cause).record_wide_id().child(name)
            }
            None => Trace::begin(name, endpoint, decision, false),
        }
    }

    /// As [`receive`](Self::receive), with the 24 bytes of [`packed`]. A request with a trace id of 0 is
    /// not followed.
    pub fn receive_packed(
        name: &'a str,
        endpoint: &'a Endpoint<'a>,
        bytes: &[u8],
        sampler: &Sampler,
    ) -> Trace<'a> {
        let incoming = packed::read(bytes).ok().map(|context| match context {
            Some(context) => Incoming::Context(context),
            None => Incoming::Decision(Decision::No),
        });
        Trace::receive(name, endpoint, incoming.as_ref(), sampler)
    }

    /// As [`receive`](Self::receive), with the value of the header `traceparent`. One that cannot be read
    /// counts as none.
    pub fn receive_traceparent(
        name: &'a str,
        endpoint: &'a Endpoint<'a>,
        header: &[u8],
        sampler: &Sampler,
    ) -> Trace<'a> {
        let incoming = w3c::read(header).ok().map(Incoming::Context);
        Trace::receive(name, endpoint, incoming.as_ref(), sampler)
    }

    /// As [`receive`](Self::receive), with the value of the header `b3`. One that cannot be read counts as
    /// none.
    pub fn receive_b3(
        name: &'a str,
        endpoint: &'a Endpoint<'a>,
        header: &[u8],
        sampler: &Sampler,
    ) -> Trace<'a> {
        Trace::receive(name, endpoint, b3::read(header).ok().as_ref(), sampler)
    }

    /// The span that has this context, which somebody else made. `context` is of the span itself, as
    /// [`Trace::context`] gives it.
    pub fn with_context(
        name: &'a str,
        endpoint: &'a Endpoint<'a>,
        context: &SpanContext,
    ) -> Trace<'a> {
        let ids = Ids {
            trace: [context.trace_id.low(), context.trace_id.high()],
            span: context.span_id.number(),
            parent: context.parent_span_id.map_or(0, SpanId::number),
        };
        let SpanContext { decision, random_trace_id, .. } = *context;
        Trace { name, endpoint, ids, decision, random_trace_id }
    }

    #[inline(always)]
    fn begin(
        name: &'a str,
        endpoint: &'a Endpoint<'a>,
        decision: Decision,
        is_wide: bool,
    ) -> Trace<'a> {
        let mut ids = Ids::default();
        if decision.is_followed() {
            ids.span = make().get();
            ids.trace = [ids.span, if is_wide { make().get() } else { 0 }];
        }
        Trace { name, endpoint, ids, decision, random_trace_id: true }
    }

    /// A span that this one causes, at the same endpoint.
    #[inline(always)]
    pub fn child(&self, name: &'a str) -> Trace<'a> {
        let mut ids = self.ids;
        // Nobody would ever see the new id of one that is not followed.
        if self.is_followed() {
            ids.span = make().get();
            ids.parent = self.ids.span;
        }
        Trace { name, ids, ..*self }
    }

    /// A span that this one causes, at another endpoint.
    #[inline(always)]
    pub fn child_at(&self, name: &'a str, endpoint: &'a Endpoint<'a>) -> Trace<'a> {
        Trace { endpoint, ..self.child(name) }
    }

    /// The same span seen from another endpoint, as for what a client knows of its server.
    #[inline]
    pub fn at(&self, endpoint: &'a Endpoint<'a>) -> Trace<'a> {
        Trace { endpoint, ..*self }
    }

    /// Starts the span now, at the level that annotations have if they are given none.
    #[inline(always)]
    pub fn span(self) -> Span<'a> {
        self.span_of(SpanKind::Internal, DEFAULT_LEVEL)
    }

    /// Starts the span now, as a client's.
    #[inline(always)]
    pub fn client_span(self) -> Span<'a> {
        self.span_of(SpanKind::Client, DEFAULT_LEVEL)
    }

    /// Starts the span now, as a server's.
    #[inline(always)]
    pub fn server_span(self) -> Span<'a> {
        self.span_of(SpanKind::Server, DEFAULT_LEVEL)
    }

    /// Starts the span now. If nobody wants spans of this level now, it is not recorded.
    #[inline(always)]
    pub fn span_of(self, kind: SpanKind, level: Level) -> Span<'a> {
        let is_wanted = self.is_followed() && family::SPAN.at(level).is_enabled();
        let start = if is_wanted { Moment::now() } else { Moment::NONE };
        Span(OpenSpan { trace: self, start, kind, level })
    }

    /// Whether the request is followed. If not, nothing of it is recorded.
    #[inline(always)]
    pub fn is_followed(&self) -> bool {
        self.decision.is_followed()
    }

    /// The span's name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Where it happens.
    pub fn endpoint(&self) -> &'a Endpoint<'a> {
        self.endpoint
    }

    /// Its context, to be sent along with what it causes. None if the request is not followed and came
    /// without ids.
    pub fn context(&self) -> Option<SpanContext> {
        let Ids { trace: [low, high], span, parent } = self.ids;
        Some(SpanContext {
            trace_id: TraceId::from_number(u128::from(high) << 64 | u128::from(low))?,
            span_id: SpanId::from_number(span)?,
            parent_span_id: SpanId::from_number(parent),
            decision: self.decision,
            random_trace_id: self.random_trace_id,
        })
    }

    /// The 24 bytes of [`packed`], for what this span causes elsewhere.
    pub fn packed(&self) -> [u8; packed::SIZE] {
        self.context().as_ref().map_or([0; packed::SIZE], packed::write)
    }

    /// The header `traceparent`, for what this span causes elsewhere. It needs ids also where a request
    /// is not followed: they are made for it, if there are none.
    pub fn traceparent(&self) -> Text<55> {
        match self.context() {
            Some(context) => w3c::write(&context),
            None => w3c::write(&SpanContext::root_wide(Decision::No)),
        }
    }

    /// The header `b3`, for what this span causes elsewhere.
    pub fn b3(&self) -> Text<68> {
        match self.context() {
            Some(context) => b3::write(&context),
            None => b3::write_decision(Decision::No),
        }
    }

    /// Records what the annotations' trace ids have no room for, once in a process.
    #[inline(always)]
    fn record_wide_id(self) -> Trace<'a> {
        let [low, high] = self.ids.trace;
        if high != 0 && self.is_followed() {
            family::record_wide_trace_id(low, high);
        }
        self
    }
}

/// What a span is in the talk between services. The numbers are those of Zipkin's version 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SpanKind {
    /// Within a service.
    #[default]
    Internal = 0,
    /// A client's view of a call.
    Client = 1,
    /// A server's view of a call.
    Server = 2,
    /// A message is sent, for whom and when it may concern.
    Producer = 3,
    /// Such a message is received.
    Consumer = 4,
}

/// Bits of the field `flags` of [`family::SPAN`].
pub mod flags {
    /// The request is followed whatever later stations would drop.
    pub const DEBUG: u8 = 1;
    /// The trace id is known to be random.
    pub const RANDOM_TRACE_ID: u8 = 2;
}

/// A span that has started, and ends when it is dropped. All that a [`Trace`] can do can be done with it,
/// too.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span<'a>(OpenSpan<'a>);

#[derive(Clone, Copy, Debug)]
struct OpenSpan<'a> {
    trace: Trace<'a>,
    /// None if it is not to be recorded.
    start: Moment,
    kind: SpanKind,
    level: Level,
}

impl<'a> Span<'a> {
    /// Ends it now.
    #[inline]
    pub fn end(self) {}

    /// The span without its end: it will not be recorded as an event of its own.
    #[inline]
    pub fn release(mut self) -> Trace<'a> {
        self.0.start = Moment::NONE;
        self.0.trace
    }

    /// As one refers to it, wherever that may be.
    #[inline]
    pub fn trace(&self) -> Trace<'a> {
        self.0.trace
    }
}

impl OpenSpan<'_> {
    // By value: passed on by reference, a span would have to be in memory also where it is not followed.
    #[inline(never)]
    fn record(self) {
        let Some((start, duration)) = self.start.elapsed() else { return };
        let ended = EndedSpan { span: &self, start, duration };
        family::SPAN.record(self.level, ended);
    }
}

/// A span that ends, as it is recorded.
struct EndedSpan<'s> {
    span: &'s OpenSpan<'s>,
    start: u64,
    duration: u64,
}

impl Payload for EndedSpan<'_> {
    #[inline(always)]
    fn encode(&self, pen: &mut impl Pen) -> Option<()> {
        let Trace { name, endpoint, ids, decision, random_trace_id } = &self.span.trace;
        let mut flags = 0;
        if *decision == Decision::Debug {
            flags |= flags::DEBUG;
        }
        if *random_trace_id {
            flags |= flags::RANDOM_TRACE_ID;
        }
        let [low, high] = ids.trace;
        pen.put_words([low, high, ids.span, ids.parent, self.start, self.duration])?;
        pen.put([self.span.kind as u8, flags])?;
        pen.put(endpoint.port().to_le_bytes())?;
        pen.put_string(name)?;
        pen.put_string(endpoint.service_name())?;
        pen.put_string(endpoint.ip())
    }
}

impl<'a> Deref for Span<'a> {
    type Target = Trace<'a>;

    #[inline]
    fn deref(&self) -> &Trace<'a> {
        &self.0.trace
    }
}

impl Drop for Span<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.start.is_some() {
            self.0.record();
        }
    }
}
