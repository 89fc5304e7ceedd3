//! Random schemas that CTF 2 can express completely. Equal seeds give equal schemas.

use super::*;
use crate::ctf2::vocabulary::role_belongs;
use blkkin_sys::testing::Random;
use std::sync::Arc;

/// Generator of a schema's random leaf elements: texts, optional texts, integers, and lists of
/// integer ranges.
trait Parts {
    fn text(&mut self) -> String;
    fn maybe_text(&mut self) -> Option<String>;
    fn integer(&mut self) -> i128;
    fn ranges(&mut self) -> Ranges;
}

impl Parts for Random {
    fn text(&mut self) -> String {
        const LETTERS: [&str; 10] = ["a", "b", "-", " ", "é", "\"", "\\", "\u{1e}", "\n", "\u{0}"];
        let length = self.below(5);
        (0..length).map(|_| self.one_of(&LETTERS)).collect()
    }

    fn maybe_text(&mut self) -> Option<String> {
        self.chance(40).then(|| self.text())
    }

    fn integer(&mut self) -> i128 {
        match self.below(4) {
            0 => self.next().into(),
            1 => i128::from(self.next() as i64),
            2 => self.one_of(&[i64::MIN.into(), i64::MAX.into(), u64::MAX.into(), 0]),
            _ => self.below(100) as i128,
        }
    }

    fn ranges(&mut self) -> Ranges {
        let count = 1 + self.below(3);
        let range = |random: &mut Random| {
            let (one, other) = (random.integer(), random.integer());
            (one.min(other), one.max(other))
        };
        Ranges((0..count).map(|_| range(self)).collect())
    }
}

/// Makes a random schema. The trace's byte order is left at the default, because CTF 2 derives it
/// from the fields.
pub(crate) fn schema(random: &mut Random) -> Schema {
    let uuid = random.chance(50).then(|| Uuid(std::array::from_fn(|_| random.next() as u8)));
    let clocks: Vec<Clock> =
        (0..random.below(3)).map(|index| self::clock(random, format!("c{index}"))).collect();
    let mut env = Vec::new();
    for index in 0..random.below(4) {
        let value = match random.chance(50) {
            true => EnvValue::Int(random.next() as i64),
            false => EnvValue::Str(random.text()),
        };
        env.push((format!("{index}{}", random.text()), value));
    }
    let mut header =
        Classes { random, has_uuid: uuid.is_some(), clock: None, known: Vec::new(), names: 0 };
    let packet_header = header.root(Scope::PacketHeader);
    let known = header.known;
    let streams = (0..random.below(4))
        .map(|id| stream(random, id as u64, uuid.is_some(), clocks.len(), known.clone()))
        .collect();
    let trace = TraceClass {
        namespace: random.maybe_text(),
        name: random.maybe_text(),
        uid: random.maybe_text(),
        uuid,
        byte_order: ByteOrder::Little,
        env,
        packet_header,
    };
    Schema { version: Version::Ctf2, trace, clocks, streams }
}

fn identity(random: &mut Random) -> ClockIdentity {
    let (namespace, name) = (random.maybe_text(), Some(random.text()));
    ClockIdentity { namespace, name, uid: Some(random.text()) }
}

fn clock(random: &mut Random, name: String) -> Clock {
    let frequency = 1 + random.next() % 5_000_000_000;
    Clock {
        name,
        identity: random.chance(50).then(|| identity(random)),
        description: random.maybe_text(),
        frequency,
        precision: random.chance(30).then(|| random.next()),
        accuracy: random.chance(30).then(|| random.next()),
        offset_seconds: random.next() as i64,
        offset_cycles: (random.next() % frequency) as i64,
        origin: match random.below(3) {
            0 => ClockOrigin::UnixEpoch,
            1 => ClockOrigin::Unknown,
            _ => ClockOrigin::Custom(identity(random)),
        },
        ..super::clock("")
    }
}

fn stream(
    random: &mut Random,
    id: u64,
    has_uuid: bool,
    clock_count: usize,
    known: Vec<Known>,
) -> StreamClass {
    let clock = (clock_count > 0 && random.chance(80)).then(|| random.below(clock_count));
    let (namespace, name, uid) = (random.maybe_text(), random.maybe_text(), random.maybe_text());
    let mut classes = Classes { random, has_uuid, clock, known, names: 0 };
    let packet_context = classes.root(Scope::PacketContext);
    let event_header = classes.root(Scope::EventHeader);
    let common_context = classes.root(Scope::CommonContext);
    let mut events = Vec::new();
    for event_id in 0..classes.random.below(4) {
        let known_before = classes.known.clone();
        events.push(EventClass {
            id: event_id as u64,
            namespace: classes.random.maybe_text(),
            name: classes.random.maybe_text(),
            uid: classes.random.maybe_text(),
            log_level: classes.random.chance(50).then(|| classes.random.below(20) as i64),
            emf_uri: classes.random.maybe_text(),
            specific_context: classes.root(Scope::SpecificContext),
            payload: classes.root(Scope::Payload),
        });
        classes.known = known_before;
    }
    StreamClass {
        id,
        namespace,
        name,
        uid,
        clock,
        packet_context,
        event_header,
        common_context,
        events,
    }
}

/// A field to which later fields may refer.
#[derive(Clone)]
struct Known {
    field: FieldRef,
    kind: IntKind,
}

struct Classes<'a> {
    random: &'a mut Random,
    has_uuid: bool,
    clock: Option<usize>,
    known: Vec<Known>,
    /// Counter that makes the names of members unique.
    names: usize,
}

impl Classes<'_> {
    fn root(&mut self, scope: Scope) -> Option<FieldClass> {
        self.random.chance(80).then(|| self.structure(scope, &mut Vec::new(), 3))
    }

    fn structure(&mut self, scope: Scope, path: &mut Vec<String>, depth: usize) -> FieldClass {
        let is_root = path.is_empty();
        let mut members = Vec::new();
        for index in 0..self.random.below(6) {
            self.names += 1;
            let name = format!("{}{}", self.names, self.random.text());
            path.push(name.clone());
            let class = self.class(scope, path, depth, is_root && index == 0);
            path.pop();
            members.push(Member { name, class });
        }
        FieldClass::Struct(StructClass { members, align: 1 << self.random.below(7) })
    }

    fn class(
        &mut self,
        scope: Scope,
        path: &mut Vec<String>,
        depth: usize,
        is_first: bool,
    ) -> FieldClass {
        match self.random.below(if depth == 0 { 11 } else { 16 }) {
            0..=4 => self.int(scope, path, is_first),
            5 => self.variable(scope, path),
            6 => {
                let (exponent, mantissa) =
                    self.random.one_of(&[(5, 11), (8, 24), (11, 53), (15, 113), (19, 237)]);
                let bits = self.bits(exponent + mantissa);
                FieldClass::Float(FloatClass { bits, exponent, mantissa })
            }
            7 => FieldClass::String(StringClass { encoding: self.encoding() }),
            8 => {
                let (length, encoding) = (self.length(), self.encoding());
                FieldClass::Text(TextClass { length, encoding })
            }
            9 => FieldClass::Blob(BlobClass {
                media_type: self.random.maybe_text(),
                ..blob(self.length())
            }),
            10 if self.has_uuid && scope == Scope::PacketHeader => {
                let roles = Roles::from(Role::Uuid);
                FieldClass::Blob(BlobClass { roles, ..blob(Length::Static(16)) })
            }
            10..=11 => self.structure_below(scope, path, depth),
            12..=13 => {
                let length = self.length();
                let element = self.hidden(scope, path, depth);
                let align = 1 << self.random.below(7);
                FieldClass::Array(Box::new(ArrayClass { length, element, align }))
            }
            14 => {
                let Some(selector) = self.reference(|_| true) else {
                    return self.structure_below(scope, path, depth);
                };
                let is_integer = selector.kind != IntKind::Bool;
                FieldClass::Optional(Box::new(OptionalClass {
                    selector: selector.field,
                    ranges: is_integer.then(|| self.random.ranges()),
                    content: self.hidden(scope, path, depth),
                }))
            }
            _ => {
                let Some(selector) = self.reference(|kind| kind != IntKind::Bool) else {
                    return self.structure_below(scope, path, depth);
                };
                let mut options = Vec::new();
                for index in 0..1 + self.random.below(3) {
                    let low = index as i128 * 10 - 15;
                    let high = low + self.random.below(10) as i128;
                    options.push(VariantOption {
                        name: self.random.chance(50).then(|| format!("option {index}")),
                        ranges: Ranges(vec![(low, high), (low, low)]),
                        class: self.hidden(scope, path, depth),
                    });
                }
                FieldClass::Variant(VariantClass { selector: selector.field, options })
            }
        }
    }

    fn structure_below(
        &mut self,
        scope: Scope,
        path: &mut Vec<String>,
        depth: usize,
    ) -> FieldClass {
        self.structure(scope, path, depth.saturating_sub(1))
    }

    /// Makes a class whose fields are not available to references from later fields.
    fn hidden(&mut self, scope: Scope, path: &mut Vec<String>, depth: usize) -> FieldClass {
        let count = self.known.len();
        let class = self.class(scope, path, depth.saturating_sub(1), false);
        self.known.truncate(count);
        class
    }

    fn int(&mut self, scope: Scope, path: &[String], is_first: bool) -> FieldClass {
        let kind = self.random.one_of(&[
            IntKind::Unsigned,
            IntKind::Unsigned,
            IntKind::Signed,
            IntKind::Bool,
            IntKind::BitArray,
            IntKind::BitMap,
        ]);
        let is_number = matches!(kind, IntKind::Unsigned | IntKind::Signed);
        if is_number || kind == IntKind::Bool {
            self.known.push(Known { field: FieldRef { scope, path: path.to_vec() }, kind });
        }
        let is_magic = is_first && scope == Scope::PacketHeader && kind == IntKind::Unsigned;
        let mut roles = Roles::NONE;
        if is_magic {
            roles = roles.with(Role::Magic);
        } else if kind == IntKind::Unsigned && self.random.chance(50) {
            roles = self.role(scope);
        }
        let is_timestamp = roles.has(Role::Timestamp) || roles.has(Role::PacketEnd);
        let size = if is_magic { 32 } else { 1 + self.random.below(64) as u32 };
        let mut mappings = (is_number && self.random.chance(30)).then(|| self.mappings());
        if kind == IntKind::BitMap {
            mappings = Some([mapping("flag", &[(0, 3)])].into());
        }
        FieldClass::Int(IntClass {
            bits: self.bits(size),
            kind,
            base: if is_number { self.base() } else { Base::Decimal },
            mappings,
            roles,
            clock: self.clock.filter(|_| is_timestamp),
        })
    }

    fn variable(&mut self, scope: Scope, path: &[String]) -> FieldClass {
        let signed = self.random.chance(50);
        let kind = if signed { IntKind::Signed } else { IntKind::Unsigned };
        self.known.push(Known { field: FieldRef { scope, path: path.to_vec() }, kind });
        FieldClass::VarInt(VarIntClass {
            signed,
            base: self.base(),
            mappings: self.random.chance(30).then(|| self.mappings()),
            roles: if signed { Roles::NONE } else { self.role(scope) },
        })
    }

    fn role(&mut self, scope: Scope) -> Roles {
        let mut roles = vec![
            Role::StreamClassId,
            Role::StreamInstanceId,
            Role::ContentSize,
            Role::PacketSize,
            Role::PacketSeqNum,
            Role::EventsDiscarded,
            Role::EventClassId,
        ];
        if self.clock.is_some() {
            roles.extend([Role::Timestamp, Role::PacketEnd]);
        }
        roles.retain(|&role| role_belongs(role, scope));
        let count = roles.len();
        if count == 0 { Roles::NONE } else { roles[self.random.below(count)].into() }
    }

    fn bits(&mut self, size: u32) -> Bits {
        Bits {
            size,
            align: 1 << self.random.below(7),
            byte_order: self.random.one_of(&[ByteOrder::Little, ByteOrder::Big]),
            bit_order: self.random.one_of(&[BitOrder::FirstToLast, BitOrder::LastToFirst]),
        }
    }

    fn base(&mut self) -> Base {
        self.random.one_of(&[Base::Binary, Base::Octal, Base::Decimal, Base::Hexadecimal])
    }

    fn encoding(&mut self) -> Encoding {
        self.random.one_of(&[
            Encoding::Utf8,
            Encoding::Utf16Be,
            Encoding::Utf16Le,
            Encoding::Utf32Be,
            Encoding::Utf32Le,
        ])
    }

    fn mappings(&mut self) -> Arc<[Mapping]> {
        let mapping = |random: &mut Random, index| Mapping {
            label: format!("{index}{}", random.text()),
            ranges: random.ranges(),
        };
        (0..self.random.below(4)).map(|index| mapping(self.random, index)).collect()
    }

    fn length(&mut self) -> Length {
        match self.reference(|kind| kind == IntKind::Unsigned) {
            Some(known) if self.random.chance(60) => Length::Dynamic(known.field),
            _ => Length::Static(self.random.next() >> self.random.below(64)),
        }
    }

    fn reference(&mut self, fits: impl Fn(IntKind) -> bool) -> Option<Known> {
        let fitting: Vec<&Known> = self.known.iter().filter(|known| fits(known.kind)).collect();
        if fitting.is_empty() {
            return None;
        }
        Some(fitting[self.random.below(fitting.len())].clone())
    }
}
