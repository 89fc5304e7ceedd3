//! Deterministic generator of requests ([`Requests`]), which access a block store for virtual
//! machines.
//!
//! A guest reads, writes or flushes. qemu passes the operation on to `nbd`, `composer` or `mapper`.
//! For a read or write, this service calls one to nine of `osd.0` to `osd.11`. Each called OSD
//! writes to its journal and calls its disk. A request thus has 4 to 40 spans, mostly 8. Generating
//! a span does not allocate; a sink that discards its spans receives several million spans per
//! second.

mod numbers;
#[cfg(test)]
mod tests;

use blkkin_model::{
    AnnotationRef, EndpointRef, Kind, Origin, SpanId, SpanRef, SpanSink, Status, TagRef, TraceId,
    ValueRef,
};
use numbers::{Digits, Numbers};
use std::net::Ipv4Addr;
use std::ops::ControlFlow;

/// Number of volumes that guests use.
const VOLUMES: usize = 1000;
/// Number of storage services (OSDs), each with a disk.
const OSDS: usize = 12;
/// Names of the services between qemu and the storage services.
const MIDDLES: [&str; 3] = ["nbd", "composer", "mapper"];
const PATHS: [&str; 4] = ["/objects", "/objects/head", "/map", "/snapshots"];
const EVENTS: [&str; 6] = ["queued", "sent", "received", "journaled", "committed", "acked"];
const ERRORS: [&str; 3] = ["timeout", "no space left on device", "connection reset by peer"];

/// Options of the request generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Seed of the random numbers; the same seed gives the same requests.
    pub seed: u64,
    /// Start of the first request, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Mean time between the starts of successive requests, in nanoseconds.
    pub gap_ns: u64,
    /// True if client and server of a call share one span id, as with Zipkin.
    pub shared: bool,
    /// True if trace ids have 128 bits, false for 64 bits.
    pub wide: bool,
    /// True if numeric tags have numbers as values and internal spans have their kind. False if the
    /// tags have text and the kind is unspecified, as in Zipkin's formats.
    pub typed: bool,
}

/// Default options: a thousand requests per second, starting on 1 November 2026.
impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 1,
            start_ns: 1_793_491_200_000_000_000,
            gap_ns: 1_000_000,
            shared: true,
            wide: false,
            typed: false,
        }
    }
}

/// Generator of requests. Equal options give equal requests.
#[derive(Clone, Debug)]
pub struct Requests {
    options: Options,
    numbers: Numbers,
    next_start_ns: u64,
    volumes: Vec<String>,
    osds: Vec<String>,
    /// Steps of the current request, parents before children. Spans are emitted from the last step
    /// to the first.
    steps: Vec<Step>,
}

/// Step of a generated request: a span without annotations and tags, which are added when the span
/// is emitted.
#[derive(Clone, Copy, Debug)]
struct Step {
    id: SpanId,
    parent_id: Option<SpanId>,
    shared: bool,
    kind: Kind,
    name: &'static str,
    local: Service,
    remote: Option<Service>,
    start_ns: u64,
    duration_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Guest,
    Qemu,
    Middle(usize),
    Osd(usize),
    Disk,
}

impl Requests {
    /// Creates a generator; its first request starts at `options.start_ns`.
    pub fn new(options: Options) -> Requests {
        Requests {
            options,
            numbers: Numbers::new(options.seed),
            next_start_ns: options.start_ns,
            volumes: (0..VOLUMES).map(|number| format!("volume-{number:04}")).collect(),
            osds: (0..OSDS).map(|number| format!("osd.{number}")).collect(),
            steps: Vec::new(),
        }
    }

    /// Generates one request and passes its spans to `sink`, children before parents.
    pub fn next(&mut self, sink: &mut dyn SpanSink) -> ControlFlow<()> {
        let operation = match self.numbers.below(10) {
            0 => "flush",
            1..5 => "write",
            _ => "read",
        };
        self.plan(operation);
        let low = u128::from(self.numbers.next() | 1);
        let high = if self.options.wide { u128::from(self.numbers.next() | 1) } else { 0 };
        let Some(trace_id) = TraceId::from_number(high << 64 | low) else {
            return ControlFlow::Continue(());
        };
        let offset = self.numbers.below(1 << 24) * 4096;
        let length = 4096 << self.numbers.below(6);
        let (mut offset_digits, mut length_digits) = (Digits::default(), Digits::default());
        let texts = (offset_digits.of(offset), length_digits.of(length));
        let number = |number: u64, text| match self.options.typed {
            true => ValueRef::Int(number as i64),
            false => ValueRef::Str(text),
        };
        let context = RequestContext {
            trace_id,
            volume: self.numbers.index(VOLUMES),
            offset: number(offset, texts.0),
            length: number(length, texts.1),
            status: number(200, "200"),
            path: PATHS[self.numbers.index(PATHS.len())],
            failed: (self.numbers.below(100) == 0).then(|| self.numbers.index(self.steps.len())),
        };
        for at in (0..self.steps.len()).rev() {
            self.send(at, &context, sink)?;
        }
        ControlFlow::Continue(())
    }

    /// Generates requests until they have at least `spans_min` spans in total, or the sink breaks
    /// off. Returns the number of spans, without those of a request that was broken off.
    pub fn fill(&mut self, spans_min: u64, sink: &mut dyn SpanSink) -> u64 {
        let mut given = 0;
        while given < spans_min && self.next(sink).is_continue() {
            given += self.steps.len() as u64;
        }
        given
    }

    /// Returns the start of the next request, in nanoseconds since 1970.
    pub fn next_start_ns(&self) -> u64 {
        self.next_start_ns
    }

    /// Replaces `steps` by the steps of a new random request for an operation.
    fn plan(&mut self, operation: &'static str) {
        self.steps.clear();
        let numbers = &mut self.numbers;
        let start_ns = self.next_start_ns;
        self.next_start_ns += numbers.below(2 * self.options.gap_ns + 1);
        let median_ns = match operation {
            "read" => 400_000,
            "write" => 900_000,
            _ => 2_500_000,
        };
        let duration_ns = numbers.log_normal(median_ns);
        let root = Step {
            id: numbers.id(),
            parent_id: None,
            shared: false,
            kind: Kind::Client,
            name: operation,
            local: Service::Guest,
            remote: None,
            start_ns,
            duration_ns,
        };
        let qemu = self.call(root, Service::Qemu);
        let middle = Service::Middle(self.numbers.index(MIDDLES.len()));
        let client = self.child(&qemu);
        let middle = self.call(client, middle);
        if operation == "flush" {
            return;
        }
        let parts = match self.numbers.below(10) {
            0 => 2 + (self.numbers.below(8) * self.numbers.below(8)) / 7,
            _ => 1,
        };
        let first = self.numbers.index(OSDS);
        for part in 0..parts {
            let osd = Service::Osd((first + part as usize) % OSDS);
            let name = if part > 0 && operation == "write" { "replicate" } else { operation };
            let client = Step { name, ..self.child(&middle) };
            let server = self.call(client, osd);
            let journal = Step { name: "journal", kind: Kind::Internal, ..self.child(&server) };
            let (id, remote) = (self.numbers.id(), Some(Service::Disk));
            let disk = Step { id, name: operation, kind: Kind::Client, remote, ..journal };
            self.steps.extend([journal, disk]);
        }
    }

    /// Appends the client's and the server's step of a call. Returns the server's step, the parent
    /// of further steps.
    fn call(&mut self, client: Step, to: Service) -> Step {
        let client = Step { remote: Some(to), ..client };
        let (start_ns, duration_ns) = self.time_within(&client);
        let server_id = self.numbers.id();
        let shared = self.options.shared;
        let (id, parent_id) = match shared {
            true => (client.id, client.parent_id),
            false => (server_id, Some(client.id)),
        };
        let server = Step {
            id,
            parent_id,
            shared,
            kind: Kind::Server,
            local: to,
            remote: Some(client.local),
            start_ns,
            duration_ns,
            ..client
        };
        self.steps.extend([client, server]);
        server
    }

    /// Creates a client's step with the service and name of its parent.
    fn child(&mut self, parent: &Step) -> Step {
        let (start_ns, duration_ns) = self.time_within(parent);
        Step {
            id: self.numbers.id(),
            parent_id: Some(parent.id),
            shared: false,
            kind: Kind::Client,
            remote: None,
            start_ns,
            duration_ns,
            ..*parent
        }
    }

    /// Returns the start and the duration of a random interval within a step.
    fn time_within(&mut self, step: &Step) -> (u64, u64) {
        let &Step { start_ns, duration_ns, .. } = step;
        let lead = duration_ns / 64 * (1 + self.numbers.below(8)) / 2;
        let tail = duration_ns / 64 * self.numbers.below(8) / 2;
        (start_ns + lead, duration_ns - lead - tail)
    }

    fn endpoint(&self, service: Service) -> EndpointRef<'_> {
        let (service, host, port) = match service {
            Service::Guest => ("guest", 1, 0),
            Service::Qemu => ("qemu", 2, 5900),
            Service::Middle(at) => (MIDDLES[at], 3 + at as u8, 10809),
            Service::Osd(at) => (self.osds[at].as_str(), 100 + at as u8, 6800 + at as u16),
            Service::Disk => ("disk", 0, 0),
        };
        let ipv4 = (host > 0).then_some(Ipv4Addr::new(10, 0, 0, host));
        EndpointRef { service, ipv4, ipv6: None, port }
    }

    fn send(
        &mut self,
        at: usize,
        context: &RequestContext<'_>,
        sink: &mut dyn SpanSink,
    ) -> ControlFlow<()> {
        let step = self.steps[at];
        let count = match self.numbers.below(10) {
            0..3 => 1 + self.numbers.index(4),
            _ => 0,
        };
        let first = self.numbers.index(EVENTS.len() - count);
        let annotations: [AnnotationRef<'_>; 4] = std::array::from_fn(|at| AnnotationRef {
            time_ns: step.start_ns + step.duration_ns / 8 * (1 + at as u64),
            value: EVENTS[(first + at) % EVENTS.len()],
        });
        let mut tags = [TagRef::text("", ""); 7];
        let mut tag_count = 0;
        let mut tag = |key, value| {
            tags[tag_count] = TagRef { key, value, origin: Origin::Span };
            tag_count += 1;
        };
        if context.failed == Some(at) {
            tag("error", ValueRef::Str(ERRORS[at % ERRORS.len()]));
        }
        if step.local == Service::Middle(1) {
            let method = if step.name == "read" { "GET" } else { "PUT" };
            tag("http.method", ValueRef::Str(method));
            tag("http.path", ValueRef::Str(context.path));
            tag("http.status_code", context.status);
        }
        if step.name != "flush" {
            tag("length", context.length);
            tag("offset", context.offset);
        }
        if step.kind != Kind::Internal {
            tag("volume", ValueRef::Str(&self.volumes[context.volume]));
        }
        sink.span(&SpanRef {
            trace_id: context.trace_id,
            id: step.id,
            parent_id: step.parent_id,
            kind: if self.options.typed || step.kind != Kind::Internal {
                step.kind
            } else {
                Kind::Unspecified
            },
            status: Status::Unset,
            debug: false,
            shared: step.shared,
            name: step.name,
            start_ns: Some(step.start_ns),
            duration_ns: Some(step.duration_ns),
            local: self.endpoint(step.local),
            remote: step.remote.map_or(EndpointRef::NONE, |service| self.endpoint(service)),
            annotations: &annotations[..count],
            tags: &tags[..tag_count],
        })
    }
}

/// Values that all spans of one generated request share.
struct RequestContext<'a> {
    trace_id: TraceId,
    volume: usize,
    offset: ValueRef<'a>,
    length: ValueRef<'a>,
    status: ValueRef<'a>,
    path: &'static str,
    /// Index of the step that failed; `None` if the request succeeds.
    failed: Option<usize>,
}
