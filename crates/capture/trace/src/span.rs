//! Dapper's spans: the steps of a request, their causes, and annotations on them.
//!
//! There are two styles. A [`Trace`] is a small value that identifies a span. It can be copied,
//! passed to any thread, kept in a future or forgotten; its methods record annotations and create
//! children. A [`Span`] is a `Trace` with a start and an end: it ends when it is dropped, and is
//! then recorded as one event with its ids, start and duration. Annotations are separate events.
//! Neither style is bound to a thread: code that causes a span passes its own span on.
//!
//! [`Trace::enter`] shows to observers outside of the program for which span a thread works, and
//! records when: see [`current_span`](crate::current_span).
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
//!     // The header for the next service.
//!     let _sent = request.traceparent();
//! }
//!
//! // A value that is passed along with the request.
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
//! A request that is not sampled costs the sampling decision, and for each span or annotation at
//! most a few loads and branches. An annotation that no channel wants costs a load and a branch,
//! and two more loads as long as no agent has connected. Nothing is allocated.

mod annotations;
mod endpoint;
mod entered;

pub use crate::timestamp::Timestamp;
pub use annotations::{CoreAnnotation, KeyValue};
pub use endpoint::Endpoint;
pub use entered::EnteredSpan;

use crate::Level;
use crate::context::{Decision, Incoming, SpanContext, Text, b3, packed, w3c};
use crate::event::Payload;
use crate::family::{self, DEFAULT_LEVEL};
use crate::id::{SpanId, TraceId, make};
use crate::sample::Sampler;
use blkkin_ring::Pen;
use blkkin_sys::monotonic_ns;
use std::ops::Deref;

/// Handle of a span: its name, its endpoint and its context. Names and endpoints are borrowed; if
/// they are static, a `Trace` has no lifetime limit.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    name: &'a str,
    endpoint: &'a Endpoint<'a>,
    ids: Ids,
    decision: Decision,
    random_trace_id: bool,
}

/// Ids of a span context, as words that are copied separately. All words are 0 for a request that
/// is not sampled and arrived without ids.
#[derive(Clone, Copy, Debug, Default)]
struct Ids {
    /// The trace id: lower half, upper half.
    trace: [u64; 2],
    span: u64,
    parent: u64,
}

impl<'a> Trace<'a> {
    /// Starts a new request and returns its root span; `sampler` decides whether the request is
    /// sampled. The trace id has 64 bits.
    #[inline(always)]
    pub fn root(name: &'a str, endpoint: &'a Endpoint<'a>, sampler: &Sampler) -> Trace<'a> {
        let decision = sampler.decide(None, monotonic_ns);
        Trace::begin(name, endpoint, decision, false)
    }

    /// Starts a new request like [`root`](Self::root), with a trace id of 128 bits.
    #[inline(always)]
    pub fn root_wide(name: &'a str, endpoint: &'a Endpoint<'a>, sampler: &Sampler) -> Trace<'a> {
        let decision = sampler.decide(None, monotonic_ns);
        Trace::begin(name, endpoint, decision, true).record_wide_id()
    }

    /// Returns a child of the span in `incoming`, or the root span of a new request if no span was
    /// received. The sender has decided whether the request is sampled; `sampler` decides if the
    /// sender's decision is deferred or absent. See [`Sampler::decide`].
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

    /// Returns a child of the sender's span like [`receive`](Self::receive), from the 24 bytes of
    /// [`packed`]. A request with a trace id of 0 is not sampled. Invalid bytes count as absent.
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

    /// Returns a child of the sender's span like [`receive`](Self::receive), from the value of the
    /// header `traceparent`. An invalid value counts as absent.
    pub fn receive_traceparent(
        name: &'a str,
        endpoint: &'a Endpoint<'a>,
        header: &[u8],
        sampler: &Sampler,
    ) -> Trace<'a> {
        let incoming = w3c::read(header).ok().map(Incoming::Context);
        Trace::receive(name, endpoint, incoming.as_ref(), sampler)
    }

    /// Returns a child of the sender's span like [`receive`](Self::receive), from the value of the
    /// header `b3`. An invalid value counts as absent.
    pub fn receive_b3(
        name: &'a str,
        endpoint: &'a Endpoint<'a>,
        header: &[u8],
        sampler: &Sampler,
    ) -> Trace<'a> {
        Trace::receive(name, endpoint, b3::read(header).ok().as_ref(), sampler)
    }

    /// Returns a handle of the span with this context, which another part of the program passed on.
    /// `context` is the context of the span itself, as returned by [`Trace::context`].
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

    /// Returns a child of this span at the same endpoint. If the request is not sampled, the child
    /// has the ids of this span.
    #[inline(always)]
    pub fn child(&self, name: &'a str) -> Trace<'a> {
        let mut ids = self.ids;
        // A span that is not sampled is not recorded, so it needs no id.
        if self.is_followed() {
            ids.span = make().get();
            ids.parent = self.ids.span;
        }
        Trace { name, ids, ..*self }
    }

    /// Returns a child of this span at another endpoint.
    #[inline(always)]
    pub fn child_at(&self, name: &'a str, endpoint: &'a Endpoint<'a>) -> Trace<'a> {
        Trace { endpoint, ..self.child(name) }
    }

    /// Returns the same span at another endpoint, such as the server's endpoint for a client's
    /// annotations about the server.
    #[inline]
    pub fn at(&self, endpoint: &'a Endpoint<'a>) -> Trace<'a> {
        Trace { endpoint, ..*self }
    }

    /// Starts the span now, with the kind [`SpanKind::Internal`] and at [`DEFAULT_LEVEL`]. An
    /// internal span is an operation within a service.
    #[inline(always)]
    pub fn span(self) -> Span<'a> {
        self.span_of(SpanKind::Internal, DEFAULT_LEVEL)
    }

    /// Starts the span now, as a client's side of a call, at [`DEFAULT_LEVEL`].
    #[inline(always)]
    pub fn client_span(self) -> Span<'a> {
        self.span_of(SpanKind::Client, DEFAULT_LEVEL)
    }

    /// Starts the span now, as a server's side of a call, at [`DEFAULT_LEVEL`].
    #[inline(always)]
    pub fn server_span(self) -> Span<'a> {
        self.span_of(SpanKind::Server, DEFAULT_LEVEL)
    }

    /// Starts the span now. The span is not recorded if no channel wants spans of this level at its
    /// start.
    #[inline(always)]
    pub fn span_of(self, kind: SpanKind, level: Level) -> Span<'a> {
        let is_wanted = self.is_followed() && family::SPAN.at(level).is_enabled();
        let start = if is_wanted { Timestamp::now() } else { Timestamp::NONE };
        Span(OpenSpan { trace: self, start, kind, level })
    }

    /// Returns true if the request is sampled. Otherwise no span or annotation of the request is
    /// recorded.
    #[inline(always)]
    pub fn is_followed(&self) -> bool {
        self.decision.is_followed()
    }

    /// Returns the span's name, which other spans may have too.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Returns the endpoint with which the span and its annotations are recorded, except the
    /// addresses of peers.
    pub fn endpoint(&self) -> &'a Endpoint<'a> {
        self.endpoint
    }

    /// Returns the context to propagate in messages of this span. Returns `None` if the request is
    /// not sampled and arrived without ids.
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

    /// Returns the 24 bytes of [`packed`], for propagation to servers that this span calls.
    pub fn packed(&self) -> [u8; packed::SIZE] {
        self.context().as_ref().map_or([0; packed::SIZE], packed::write)
    }

    /// Returns the header `traceparent`, for propagation to servers that this span calls. The
    /// header always has ids: they are generated if the request is not sampled and has none.
    pub fn traceparent(&self) -> Text<55> {
        match self.context() {
            Some(context) => w3c::write(&context),
            None => w3c::write(&SpanContext::root_wide(Decision::No)),
        }
    }

    /// Returns the header `b3`, for propagation to servers that this span calls.
    pub fn b3(&self) -> Text<68> {
        match self.context() {
            Some(context) => b3::write(&context),
            None => b3::write_decision(Decision::No),
        }
    }

    /// Records both halves of a sampled request's 128-bit trace id, because annotation events have
    /// no field for the upper half.
    #[inline(always)]
    fn record_wide_id(self) -> Trace<'a> {
        let [low, high] = self.ids.trace;
        if high != 0 && self.is_followed() {
            family::record_wide_trace_id(low, high);
        }
        self
    }
}

/// Role of a span in the communication between services. The numbers are those of Zipkin's version
/// 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SpanKind {
    /// An operation within a service.
    #[default]
    Internal = 0,
    /// A client's side of a call.
    Client = 1,
    /// A server's side of a call.
    Server = 2,
    /// The sender of a message that expects no answer.
    Producer = 3,
    /// The receiver of a message that expects no answer.
    Consumer = 4,
}

/// Bits of the field `flags` of [`family::SPAN`].
pub mod flags {
    /// Flag: the request is sampled whatever other samplers decide.
    pub const DEBUG: u8 = 1;
    /// Flag: the trace id is known to be random.
    pub const RANDOM_TRACE_ID: u8 = 2;
}

/// A started span, which ends when it is dropped. Dereferences to its [`Trace`].
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span<'a>(OpenSpan<'a>);

#[derive(Clone, Copy, Debug)]
struct OpenSpan<'a> {
    trace: Trace<'a>,
    /// Start time; [`Timestamp::NONE`] if the span is not to be recorded.
    start: Timestamp,
    kind: SpanKind,
    level: Level,
}

impl<'a> Span<'a> {
    /// Ends the span now, like dropping it.
    #[inline]
    pub fn end(self) {}

    /// Returns the span's `Trace` without recording the span.
    #[inline]
    pub fn release(mut self) -> Trace<'a> {
        self.0.start = Timestamp::NONE;
        self.0.trace
    }

    /// Returns the span's `Trace`, which may outlive the span.
    #[inline]
    pub fn trace(&self) -> Trace<'a> {
        self.0.trace
    }
}

impl OpenSpan<'_> {
    // `self` is passed by value: by reference, the span would be spilled to memory even where it is
    // not sampled.
    #[inline(never)]
    fn record(self) {
        let Some((start, duration)) = self.start.elapsed() else { return };
        let ended = EndedSpan { span: &self, start, duration };
        family::SPAN.record(self.level, ended);
    }
}

/// Fields of the event that records an ended span.
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
