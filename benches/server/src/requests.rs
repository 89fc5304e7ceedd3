//! Requests as a distributed block store has them: virtual machines read and write through a client library, whose calls
//! go to the daemon that has the first copy of an object, which has two others write theirs. Start at [`request`].

use crate::numbers::{Numbers, Random, mix};
use blkkin_model::{Annotation, Endpoint, Kind, Origin, Span, SpanId, Status, Tag, TraceId, Value};

/// Daemons that keep objects.
const DAEMONS: u64 = 36;
const MACHINES: u64 = 12;

const POOLS: [&str; 4] = ["volumes-ssd", "volumes-hdd", "images", "backups"];
const SIZES: [u64; 6] = [4096, 4096, 8192, 16_384, 65_536, 1_048_576];

/// A request that is being made up.
struct Draft<'n> {
    numbers: &'n Numbers,
    request: u64,
    random: Random,
    start_ns: u64,
    spans: Vec<Span>,
}

/// What one span is, before the request's ids and times are in it.
struct Step<'s> {
    parent: Option<usize>,
    kind: Kind,
    name: &'s str,
    service: &'s str,
    remote: &'s str,
    /// After the request's start.
    after_us: u64,
    takes_us: u64,
}

/// All spans of the request of a number. What kind of request it is depends on nothing else.
pub(crate) fn request(numbers: &Numbers, request: u64) -> Vec<Span> {
    let mut draft = Draft {
        numbers,
        request,
        random: Random(mix(request)),
        start_ns: numbers.start_ns(request),
        spans: Vec::new(),
    };
    match draft.random.below(10) {
        0..6 => draft.read(),
        6..9 => draft.write(),
        _ => draft.flush(),
    }
    draft.spans
}

impl Draft<'_> {
    fn read(&mut self) {
        let disk_us = 90 + self.random.wait_us(700);
        let (op, daemon) = self.call("blk read", "aio_read", "osd_op_read", disk_us + 120);
        let served = self.answered(op, "do_op read", &daemon, disk_us + 60);
        let size = *self.random.pick(&SIZES);
        let read = self.inside(served, "filestore read", &daemon, 40, disk_us);
        self.tag(read, "size", &size.to_string());
        self.may_fail(read, "EIO");
    }

    fn write(&mut self) {
        let journal_us = 150 + self.random.wait_us(900);
        let copies_us = 350 + self.random.wait_us(1500);
        let whole_us = journal_us.max(copies_us) + 140;
        let (op, daemon) = self.call("blk write", "aio_write", "osd_op_write", whole_us + 150);
        let served = self.answered(op, "do_op write", &daemon, whole_us);
        self.note(served, 14, "queued for pg");
        self.note(served, 31, "reached pg");
        self.note(served, whole_us - 9, "commit sent");
        let journal = self.inside(served, "journal commit", &daemon, 60, journal_us);
        let bytes = *self.random.pick(&SIZES) + 512;
        self.tag(journal, "bytes", &bytes.to_string());
        for copy in 0..2_u64 {
            let other = format!("osd.{}", self.random.below(DAEMONS));
            let takes_us = copies_us - copy * 40;
            let start_us = self.after_us(served) + 70 + copy * 5;
            let call = self.add(Step {
                parent: Some(served),
                kind: Kind::Client,
                name: "repop",
                service: &daemon,
                remote: &other,
                after_us: start_us,
                takes_us,
            });
            let answer = self.answered(call, "do_repop", &other, takes_us - 80);
            self.inside(answer, "filestore write", &other, 30, takes_us - 200);
        }
        self.may_fail(served, "ENOSPC");
    }

    fn flush(&mut self) {
        let sync_us = 800 + self.random.wait_us(4000);
        let (op, daemon) = self.call("blk flush", "aio_flush", "osd_op_sync", sync_us + 200);
        let served = self.answered(op, "do_op sync", &daemon, sync_us + 50);
        self.inside(served, "filestore sync", &daemon, 20, sync_us);
    }

    /// From a machine to a daemon: the call, and who is called.
    fn call(&mut self, outer: &str, inner: &str, op: &str, op_us: u64) -> (usize, String) {
        let machine = format!("qemu.vm{}", self.random.below(MACHINES));
        let daemon = format!("osd.{}", self.random.below(DAEMONS));
        let whole_us = op_us + 60 + self.random.wait_us(30);
        let root = self.add(Step {
            parent: None,
            kind: Kind::Server,
            name: outer,
            service: &machine,
            remote: "",
            after_us: 0,
            takes_us: whole_us,
        });
        let offset = self.numbers.place(self.request);
        self.tag(root, "offset", &format!("{offset:016x}"));
        let image = self.inside(root, inner, "librbd", 11, op_us + 30);
        self.tag(image, "image", &format!("vm{}-disk", offset % MACHINES));
        let call = self.add(Step {
            parent: Some(image),
            kind: Kind::Client,
            name: op,
            service: "librados",
            remote: &daemon,
            after_us: 25,
            takes_us: op_us,
        });
        self.tag(call, "object", &format!("rbd_data.1f2a74b0dc51.{offset:016x}"));
        let pool = *self.random.pick(&POOLS);
        self.tag(call, "pool", pool);
        self.note(call, 3, "sent");
        (call, daemon)
    }

    fn answered(&mut self, call: usize, name: &str, service: &str, takes_us: u64) -> usize {
        let after_us = self.after_us(call) + 35;
        let caller = self.spans[call].local.service.clone();
        let served = self.add(Step {
            parent: Some(call),
            kind: Kind::Server,
            name,
            service,
            remote: &caller,
            after_us,
            takes_us,
        });
        let group = self.random.below(512);
        self.tag(served, "pg", &format!("7.{group:x}"));
        served
    }

    fn inside(
        &mut self,
        parent: usize,
        name: &str,
        service: &str,
        after_us: u64,
        takes_us: u64,
    ) -> usize {
        let after_us = self.after_us(parent) + after_us;
        self.add(Step {
            parent: Some(parent),
            kind: Kind::Unspecified,
            name,
            service,
            remote: "",
            after_us,
            takes_us,
        })
    }

    fn add(&mut self, step: Step<'_>) -> usize {
        let index = self.spans.len();
        let (high, low) = self.numbers.trace_id(self.request);
        let trace = u128::from(high) << 64 | u128::from(low);
        self.spans.push(Span {
            trace_id: TraceId::from_number(trace).expect("not 0"),
            id: SpanId::from_number(self.numbers.span_id(self.request, index as u64))
                .expect("not 0"),
            parent_id: step.parent.map(|parent| self.spans[parent].id),
            kind: step.kind,
            status: Status::Unset,
            debug: false,
            shared: false,
            name: step.name.to_owned(),
            start_ns: Some(self.start_ns + step.after_us * 1000),
            duration_ns: Some(step.takes_us.max(1) * 1000),
            local: endpoint(step.service),
            remote: endpoint(step.remote),
            annotations: Vec::new(),
            tags: Vec::new(),
        });
        index
    }

    fn after_us(&self, span: usize) -> u64 {
        (self.spans[span].start_ns.unwrap_or(self.start_ns) - self.start_ns) / 1000
    }

    fn note(&mut self, span: usize, after_us: u64, value: &str) {
        let span = &mut self.spans[span];
        let time_ns = span.start_ns.unwrap_or(0) + after_us * 1000;
        span.annotations.push(Annotation { time_ns, value: value.to_owned() });
    }

    fn tag(&mut self, span: usize, key: &str, value: &str) {
        let tags = &mut self.spans[span].tags;
        let value = Value::Str(value.to_owned());
        tags.push(Tag { key: key.to_owned(), value, origin: Origin::Span });
        tags.sort_by(|one, other| one.key.cmp(&other.key));
    }

    fn may_fail(&mut self, span: usize, error: &str) {
        if self.random.one_in(200) {
            self.tag(span, "error", error);
        }
    }
}

/// Its address goes by its name, as everywhere.
fn endpoint(service: &str) -> Endpoint {
    if service.is_empty() {
        return Endpoint::default();
    }
    let hash = service.bytes().fold(7, |hash, byte| mix(hash ^ u64::from(byte)));
    let address = [10, 0, (hash >> 8) as u8, hash as u8];
    Endpoint {
        service: service.to_owned(),
        ipv4: Some(address.into()),
        ipv6: None,
        port: 6800 + (hash >> 16) as u16 % 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn requests_hang_together() {
        let numbers = Numbers { seed: 3, origin_ns: 1_700_000_000_000_000_000, step_ns: 50_000 };
        let (mut services, mut spans) = (HashSet::new(), 0);
        for number in 0..1000 {
            let request = request(&numbers, number);
            let ids: HashSet<_> = request.iter().map(|span| span.id).collect();
            assert_eq!(ids.len(), request.len());
            assert_eq!(request.iter().filter(|span| span.parent_id.is_none()).count(), 1);
            assert!(request.iter().filter_map(|span| span.parent_id).all(|id| ids.contains(&id)));
            assert!(request.iter().all(|span| span.duration_ns < Some(60_000_000_000)));
            services.extend(request.iter().map(|span| span.local.service.clone()));
            spans += request.len();
        }
        assert_eq!(services.len() as u64, DAEMONS + MACHINES + 2);
        assert!((5000..9000).contains(&spans), "{spans} spans");
    }
}
