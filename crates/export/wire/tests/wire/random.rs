//! Generator of random spans, reproducible by its seed.

use blkkin_model::{Annotation, Endpoint, Kind, Origin, Span, SpanId, Status, Tag, TraceId, Value};

/// Random number generator (xorshift64*), sufficient for tests. The field is its state.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    pub(crate) fn maybe<T>(&mut self, make: impl FnOnce(&mut Random) -> T) -> Option<T> {
        (!self.one_in(3)).then(|| make(self))
    }

    /// Returns text with characters that are special in some format, but no upper case.
    pub(crate) fn text(&mut self) -> String {
        const PIECES: [&str; 16] = [
            "get /",
            "osd.0",
            "a",
            "key",
            "\"",
            "\\",
            "\n",
            "\t",
            "\u{1}",
            "\0",
            "ü",
            "日本",
            "🦀",
            "\u{2028}",
            "</script>",
            "x = 'y', {z} [1]",
        ];
        if self.one_in(50) {
            return "long text ".repeat(30);
        }
        (0..self.below(4)).map(|_| self.pick(&PIECES)).collect()
    }

    /// Returns text that is not empty.
    pub(crate) fn word(&mut self) -> String {
        self.text() + "w"
    }

    /// Returns a random number; small and large numbers are equally likely.
    pub(crate) fn number(&mut self) -> u64 {
        let bits = self.below(64);
        self.next() >> bits
    }

    pub(crate) fn endpoint(&mut self) -> Endpoint {
        if self.one_in(4) {
            return Endpoint::default();
        }
        let v6 = |random: &mut Random| {
            let address = u128::from(random.next()) << 64 | u128::from(random.next());
            (address | 0x2001 << 112).into()
        };
        Endpoint {
            service: self.maybe(Random::word).unwrap_or_default(),
            ipv4: self.maybe(|random| (random.next() as u32 | 1).into()),
            ipv6: self.maybe(v6),
            port: self.next() as u16 >> self.below(16),
        }
    }

    pub(crate) fn annotations(&mut self, unit_ns: u64) -> Vec<Annotation> {
        let mut all: Vec<Annotation> = (0..self.below(5))
            .map(|_| Annotation {
                time_ns: (1 + self.number() % 1_000_000) * unit_ns,
                value: self.word(),
            })
            .collect();
        all.sort();
        all.dedup();
        all
    }

    pub(crate) fn tags(&mut self) -> Vec<Tag> {
        let mut all: Vec<Tag> = (0..self.below(7))
            .map(|_| Tag { key: self.text(), value: Value::Str(self.text()), origin: Origin::Span })
            .collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all.dedup_by(|a, b| a.key == b.key);
        all
    }

    /// Returns a random span whose properties can all be represented in Zipkin's v2 format.
    pub(crate) fn zipkin_span(&mut self) -> Span {
        let kinds = [Kind::Unspecified, Kind::Client, Kind::Server, Kind::Producer, Kind::Consumer];
        let wide = if self.one_in(2) { u128::from(self.next()) << 64 } else { 0 };
        let id = SpanId::from_number(self.number() | 1).expect("not 0");
        let kind = self.pick(&kinds);
        let us = |random: &mut Random| (1 + random.next() % 2_000_000_000_000_000) * 1000;
        Span {
            trace_id: TraceId::from_number(wide | u128::from(self.next()) | 1).expect("not 0"),
            id,
            parent_id: self
                .maybe(Random::next)
                .and_then(SpanId::from_number)
                .filter(|it| *it != id),
            kind,
            status: Status::Unset,
            debug: self.one_in(4),
            shared: kind != Kind::Client && self.one_in(4),
            name: self.maybe(Random::word).unwrap_or_default(),
            start_ns: self.maybe(us),
            duration_ns: self.maybe(us),
            local: self.endpoint(),
            remote: self.endpoint(),
            annotations: self.annotations(1000),
            tags: self.tags(),
        }
    }

    /// Returns a random span whose properties all round-trip through OpenTelemetry's format.
    pub(crate) fn otlp_span(&mut self) -> Span {
        let ns = |random: &mut Random| 1 + random.next() % 2_000_000_000_000_000_000;
        let statuses = [Status::Unset, Status::Ok];
        let kind = if self.one_in(5) { Some(Kind::Internal) } else { None };
        let zipkin = self.zipkin_span();
        let start_ns = self.maybe(ns);
        Span {
            kind: kind.unwrap_or(zipkin.kind),
            status: self.pick(&statuses),
            debug: false,
            shared: false,
            start_ns,
            duration_ns: start_ns.and_then(|_| self.maybe(ns)),
            local: Endpoint { service: self.word(), ..Endpoint::default() },
            remote: Endpoint::default(),
            annotations: self.annotations(1),
            tags: self.typed_tags(),
            ..zipkin
        }
    }

    fn typed_tags(&mut self) -> Vec<Tag> {
        let origins = [Origin::Resource, Origin::Scope, Origin::Span];
        let mut tags = self.tags();
        for tag in &mut tags {
            tag.origin = self.pick(&origins);
            tag.value = match self.below(5) {
                0 => Value::Int(self.number() as i64),
                1 => Value::Bool(self.one_in(2)),
                2 => Value::Double((self.number() % (1 << 20)) as f64 / 64.0),
                3 => Value::Bytes(self.text().into_bytes()),
                _ => continue,
            };
        }
        tags
    }

    /// Returns a copy of `bytes` that is truncated, or in which some bytes are changed, removed or
    /// duplicated.
    pub(crate) fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut damaged = bytes.to_vec();
        let (from, to) = (self.below(bytes.len() + 1), self.below(bytes.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        match self.below(5) {
            0 => damaged.truncate(to),
            1 => drop(damaged.drain(from..to.min(from + 4))),
            2 => drop(damaged.splice(to..to, bytes[from..to].iter().copied())),
            _ => {
                for _ in 0..1 + self.below(3) {
                    let at = self.below(bytes.len());
                    let bit = 1 << self.below(8);
                    let odd = self.pick(&[0, 1, 0x7f, 0x80, 0xff, b'"', b'\\', b'{', b']', b',']);
                    damaged[at] = if self.one_in(2) { damaged[at] ^ bit } else { odd };
                }
            }
        }
        damaged
    }
}
