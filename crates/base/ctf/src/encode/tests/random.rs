//! Random schemas of all field classes, and values for them. Equal seeds give equal results.

use super::text_visitor::TextVisitor;
use crate::bits::usual;
use crate::decode::Decoder;
use crate::encode::{Encoder, PacketEnd, PacketWriter, Value, lower_unchanged};
use crate::schema::*;
use blkkin_sys::testing::Random;
use std::collections::HashMap;
use std::sync::Arc;

type Place = (Scope, Vec<String>);

/// Use of an integer field by later fields, which limits its random values.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    Length,
    Selector { signed: bool },
}

/// Ranges of which the options of variants and the ranges of optionals are made. The value of a
/// selector is always in one of these ranges. For signed selectors, [`group`] lowers the ranges by
/// 8.
const GROUPS: [(i128, i128); 4] = [(0, 0), (1, 3), (5, 5), (7, 15)];

fn group(index: usize, signed: bool) -> (i128, i128) {
    let (low, high) = GROUPS[index];
    if signed { (low - 8, high - 8) } else { (low, high) }
}

pub(super) struct Trace {
    pub(super) schema: Schema,
    purposes: HashMap<Place, Purpose>,
}

struct Maker<'r> {
    random: &'r mut Random,
    order: ByteOrder,
    purposes: HashMap<Place, Purpose>,
    /// Fields to which later fields may refer, each with its purpose; `None` for a boolean.
    known: Vec<(FieldRef, Option<Purpose>)>,
    path: Vec<String>,
    scope: Scope,
    number: u32,
}

impl Trace {
    pub(super) fn new(random: &mut Random) -> Trace {
        let order = random.one_of(&[ByteOrder::Little, ByteOrder::Big]);
        let has_uuid = random.chance(50);
        let uuid = has_uuid.then(|| Uuid(std::array::from_fn(|_| random.next() as u8)));
        let mut maker = Maker {
            random,
            order,
            purposes: HashMap::new(),
            known: Vec::new(),
            path: Vec::new(),
            scope: Scope::Payload,
            number: 0,
        };
        let clocks = vec![Clock {
            name: "c".to_owned(),
            offset_seconds: 5,
            offset_cycles: 7,
            origin: ClockOrigin::UnixEpoch,
            ..Clock::default()
        }];
        let packet_header = Some(maker.packet_header(has_uuid));
        let streams = (0..2).map(|id| maker.stream(id)).collect();
        let purposes = maker.purposes;
        let trace = TraceClass {
            uuid,
            byte_order: order,
            env: vec![("hostname".to_owned(), EnvValue::Str("h".to_owned()))],
            packet_header,
            ..TraceClass::default()
        };
        let schema = Schema { version: Version::Ctf2, trace, clocks, streams };
        Trace { schema, purposes }
    }

    /// Makes packets of random events, and returns them with their contents as text.
    pub(super) fn packets(&self, random: &mut Random, decoder: &Decoder) -> (Vec<Vec<u8>>, String) {
        let encoder = Arc::new(Encoder::new(lower_unchanged(decoder).unwrap()).unwrap());
        let mut writer = PacketWriter::new(encoder.clone());
        let mut packets = Vec::new();
        let mut text = String::new();
        let mut time = random.below(1 << 40);
        for number in 0..3 {
            let stream = random.below(2) as usize;
            let class = &self.schema.streams[stream];
            let has_clock = class.clock.is_some();
            let instance = random.below(100);
            let mut values = Values { random, trace: self, known: HashMap::new() };
            let context = values.scope(Scope::PacketContext, class.packet_context.as_ref());
            let root = decoder.scope_node(stream, None, Scope::PacketContext);
            let mut context_text = TextVisitor::default();
            let head = encoder.head(stream, instance, |writer| {
                if let (Some(context), Some(root)) = (&context, root) {
                    context.visit(decoder.nodes(), root, writer).unwrap();
                    context.visit(decoder.nodes(), root, &mut context_text).unwrap();
                }
            });
            let begin = time;
            writer.begin(&head, begin);
            let mut events = String::new();
            for _ in 0..values.random.below(6) {
                let index = values.random.below(class.events.len() as u64) as usize;
                let event = &class.events[index];
                time += values.random.next() >> values.random.one_of(&[24, 34, 44, 63]);
                let mut event_text = TextVisitor::default();
                let scopes = [
                    (Scope::CommonContext, &class.common_context),
                    (Scope::SpecificContext, &event.specific_context),
                    (Scope::Payload, &event.payload),
                ];
                let scopes: Vec<(u32, Value)> = scopes
                    .into_iter()
                    .filter_map(|(scope, class)| {
                        let value = values.scope(scope, class.as_ref())?;
                        Some((decoder.scope_node(stream, Some(index), scope)?, value))
                    })
                    .collect();
                let done = writer.event(index, time, |writer| {
                    for (root, value) in &scopes {
                        value.visit(decoder.nodes(), *root, writer).unwrap();
                        value.visit(decoder.nodes(), *root, &mut event_text).unwrap();
                    }
                    true
                });
                assert_eq!(done, Ok(true));
                let shown_time = if has_clock { time } else { 0 };
                events.push_str(&format!("\n event {index} at {shown_time}{}", event_text.text));
            }
            let discarded = random.below(1 << 16);
            let end = PacketEnd { begin, end: time, seq: number, discarded };
            packets.push(writer.finish(end).unwrap().to_vec());
            let clocked = |time| Some(time).filter(|_| has_clock);
            let times = (clocked(begin), clocked(time), Some(number), Some(discarded));
            let context = context_text.text;
            text.push_str(&format!(
                "stream {stream} {:?} {times:?}{context}{events}\n",
                Some(instance)
            ));
        }
        (packets, text)
    }
}

impl Maker<'_> {
    fn name(&mut self) -> String {
        self.number += 1;
        let number = self.number;
        match self.random.below(8) {
            0 => format!("{number}"),
            1 => format!("a-{number}"),
            2 => format!("_u{number}"),
            3 => format!("é {number}"),
            _ => format!("f{number}"),
        }
    }

    fn role(&mut self, name: &str, role: Role, size: u32, clock: Option<usize>) -> Member {
        let size = if size == 64 && self.random.chance(20) { 60 } else { size };
        let class = match self.random.chance(15) && role != Role::Magic {
            true => FieldClass::VarInt(VarIntClass {
                signed: false,
                base: Base::Decimal,
                mappings: None,
                roles: role.into(),
            }),
            false => FieldClass::Int(IntClass {
                bits: self.bits(size),
                kind: IntKind::Unsigned,
                base: Base::Decimal,
                mappings: None,
                roles: role.into(),
                clock,
            }),
        };
        Member { name: name.to_owned(), class }
    }

    fn packet_header(&mut self, has_uuid: bool) -> FieldClass {
        let mut magic = self.role("magic", Role::Magic, 32, None);
        if let FieldClass::Int(int) = &mut magic.class {
            int.bits = usual(32, 8, self.order);
        }
        let mut members = vec![magic];
        if has_uuid {
            let class = BlobClass {
                length: Length::Static(16),
                media_type: None,
                roles: Role::Uuid.into(),
            };
            members.push(Member { name: "uuid".to_owned(), class: FieldClass::Blob(class) });
        }
        members.push(self.role("stream_id", Role::StreamClassId, 7, None));
        members.push(self.role("stream_instance_id", Role::StreamInstanceId, 33, None));
        FieldClass::Struct(StructClass { members, align: 1 })
    }

    fn stream(&mut self, id: u64) -> StreamClass {
        let clock = self.random.chance(80).then_some(0);
        self.known.clear();
        let packet_context = Some(self.packet_context(clock));
        let event_header = Some(self.event_header(clock));
        let known_packet = self.known.len();
        let common_context = self.random.chance(60).then(|| self.root(Scope::CommonContext));
        let mut events = Vec::new();
        let known_common = self.known.len();
        for index in 0..3 {
            let specific = self.random.chance(50).then(|| self.root(Scope::SpecificContext));
            // Names are unique in the whole schema, so each reference resolves to one field.
            events.push(EventClass {
                id: [0, 1, 30, 70_000][index + self.random.below(2) as usize % 2],
                name: self.random.chance(80).then(|| format!("p:e{index}")),
                specific_context: specific,
                payload: Some(self.root(Scope::Payload)),
                ..EventClass::default()
            });
            self.known.truncate(known_common);
        }
        events.dedup_by_key(|event| event.id);
        self.known.truncate(known_packet);
        StreamClass {
            id,
            clock,
            packet_context,
            event_header,
            common_context,
            events,
            ..StreamClass::default()
        }
    }

    fn packet_context(&mut self, clock: Option<usize>) -> FieldClass {
        let mut members = Vec::new();
        if clock.is_some() {
            members.push(self.role("timestamp_begin", Role::Timestamp, 64, clock));
            members.push(self.role("timestamp_end", Role::PacketEnd, 64, clock));
        }
        self.scope = Scope::PacketContext;
        members.extend(self.members(2));
        members.push(self.role("size", Role::ContentSize, 31, None));
        members.push(self.role("packet_size", Role::PacketSize, 64, None));
        members.extend(self.members(2));
        members.push(self.role("seq", Role::PacketSeqNum, 9, None));
        members.push(self.role("content_size", Role::EventsDiscarded, 17, None));
        FieldClass::Struct(StructClass { members, align: 1 << self.random.below(6) })
    }

    /// Makes one of LTTng's event headers, or a plain one.
    fn event_header(&mut self, clock: Option<usize>) -> FieldClass {
        let int = |size, align, role: Role, order| {
            FieldClass::Int(IntClass {
                bits: usual(size, align, order),
                kind: IntKind::Unsigned,
                base: Base::Decimal,
                mappings: None,
                roles: role.into(),
                clock: clock.filter(|_| role == Role::Timestamp),
            })
        };
        let order = self.order;
        let member = |name: &str, class| Member { name: name.to_owned(), class };
        let time = |size, align| {
            let class = clock.map(|_| int(size, align, Role::Timestamp, order));
            class.map(|class| member("timestamp", class))
        };
        let structure = |members, align| FieldClass::Struct(StructClass { members, align });
        let (last, id_size, id_align, short, short_align) = match self.random.below(3) {
            0 => (31, 5, 1, 27, 1),
            1 => (65535, 16, 8, 32, 8),
            _ => {
                let id = member("id", int(32, 32, Role::EventClassId, order));
                return structure(std::iter::once(id).chain(time(64, 8)).collect(), 8);
            }
        };
        let option = |low: i128, high: i128, members| VariantOption {
            name: None,
            ranges: Ranges(vec![(low, high)]),
            class: structure(members, 1),
        };
        let id = member("id", int(32, 8, Role::EventClassId, order));
        let variant = FieldClass::Variant(VariantClass {
            selector: FieldRef { scope: Scope::EventHeader, path: vec!["id".to_owned()] },
            options: vec![
                option(0, last - 1, time(short, short_align).into_iter().collect()),
                option(last, last, std::iter::once(id).chain(time(64, 8)).collect()),
            ],
        });
        let id = member("id", int(id_size, id_align, Role::EventClassId, order));
        structure(vec![id, member("v", variant)], 8)
    }

    fn root(&mut self, scope: Scope) -> FieldClass {
        self.scope = scope;
        self.path.clear();
        let members = self.members(5);
        FieldClass::Struct(StructClass { members, align: 1 << self.random.below(6) })
    }

    fn members(&mut self, most: u64) -> Vec<Member> {
        (0..1 + self.random.below(most))
            .map(|_| {
                let name = self.name();
                self.path.push(name.clone());
                let depth = self.path.len();
                let class = self.class(if depth > 3 { 10 } else { 17 }, true);
                self.path.pop();
                Member { name, class }
            })
            .collect()
    }

    fn structure(&mut self) -> FieldClass {
        let members = self.members(3);
        FieldClass::Struct(StructClass { members, align: 1 << self.random.below(5) })
    }

    /// Makes the content of an array, optional or variant. Only fields within the content refer to
    /// its fields.
    fn inner(&mut self) -> FieldClass {
        let known = self.known.len();
        let structure_next = self.path.len() < 4 && self.random.chance(50);
        let class = if structure_next { self.structure() } else { self.class(10, false) };
        self.known.truncate(known);
        class
    }

    fn class(&mut self, kinds: u64, is_member: bool) -> FieldClass {
        match self.random.below(kinds) {
            0..=2 => self.int(None),
            3 if is_member => self.int(Some(Purpose::Length)),
            4 if is_member => {
                let signed = self.random.chance(50);
                self.int(Some(Purpose::Selector { signed }))
            }
            5 => {
                let (exponent, mantissa) =
                    self.random.one_of(&[(5, 11), (8, 24), (11, 53), (15, 113), (8, 24)]);
                let bits = self.bits(exponent + mantissa);
                FieldClass::Float(FloatClass { bits, exponent, mantissa })
            }
            6 => FieldClass::String(StringClass { encoding: self.encoding() }),
            7 => {
                let (length, encoding) = (self.length(), self.encoding());
                FieldClass::Text(TextClass { length, encoding })
            }
            8 => FieldClass::Blob(BlobClass {
                length: self.length(),
                media_type: None,
                roles: Roles::NONE,
            }),
            9 | 3 | 4 => FieldClass::VarInt(VarIntClass {
                signed: self.random.chance(50),
                base: Base::Octal,
                mappings: None,
                roles: Roles::NONE,
            }),
            10..=11 => self.structure(),
            12..=13 => {
                let length = self.length();
                let element = self.inner();
                let align = 1 << self.random.below(5);
                FieldClass::Array(Box::new(ArrayClass { length, element, align }))
            }
            14 => self.optional(is_member),
            _ => self.variant(is_member),
        }
    }

    fn int(&mut self, purpose: Option<Purpose>) -> FieldClass {
        let mut kind = self.random.one_of(&[
            IntKind::Unsigned,
            IntKind::Signed,
            IntKind::Bool,
            IntKind::BitArray,
            IntKind::BitMap,
        ]);
        let mut size = 1 + self.random.below(64) as u32;
        if let Some(purpose) = purpose {
            let signed = purpose == Purpose::Selector { signed: true };
            kind = if signed { IntKind::Signed } else { IntKind::Unsigned };
            size = 8 + self.random.below(57) as u32;
            self.purposes.insert((self.scope, self.path.clone()), purpose);
        }
        let field = FieldRef { scope: self.scope, path: self.path.clone() };
        if purpose.is_some() || kind == IntKind::Bool {
            self.known.push((field, purpose));
        }
        if purpose.is_some() && self.random.chance(20) {
            return FieldClass::VarInt(VarIntClass {
                signed: kind == IntKind::Signed,
                base: Base::Decimal,
                mappings: None,
                roles: Roles::NONE,
            });
        }
        let mapping = |label: &str, low, high| Mapping {
            label: label.to_owned(),
            ranges: Ranges(vec![(low, high)]),
        };
        let mappings = match kind {
            IntKind::BitMap => Some([mapping("flag", 0, 0)].into()),
            IntKind::Signed | IntKind::Unsigned if self.random.chance(30) => {
                Some([mapping("a", 0, 0), mapping("b c", 0, 500)].into())
            }
            _ => None,
        };
        FieldClass::Int(IntClass {
            bits: self.bits(size),
            kind,
            base: Base::Decimal,
            mappings,
            roles: Roles::NONE,
            clock: None,
        })
    }

    /// Makes a random layout. Fields that share bytes with other fields have the trace's byte
    /// order.
    fn bits(&mut self, size: u32) -> Bits {
        let align = 1 << self.random.below(6);
        let is_whole = size.is_multiple_of(8) && align >= 8;
        let byte_order = match is_whole {
            true => self.random.one_of(&[ByteOrder::Little, ByteOrder::Big]),
            false => self.order,
        };
        let bit_order = match is_whole || size > 64 {
            true => byte_order.usual_bit_order(),
            false => self.random.one_of(&[BitOrder::FirstToLast, BitOrder::LastToFirst]),
        };
        Bits { size, align, byte_order, bit_order }
    }

    fn encoding(&mut self) -> Encoding {
        self.random.one_of(&[
            Encoding::Utf8,
            Encoding::Utf8,
            Encoding::Utf16Be,
            Encoding::Utf16Le,
            Encoding::Utf32Be,
            Encoding::Utf32Le,
        ])
    }

    fn length(&mut self) -> Length {
        match self.reference(|purpose| purpose == Some(Purpose::Length), true) {
            Some((field, _)) if self.random.chance(70) => Length::Dynamic(field),
            _ => Length::Static(self.random.below(9)),
        }
    }

    /// Chooses an earlier field for a new field to refer to, as its length or selector, if there
    /// is a suitable one. Without `anywhere`, only members of enclosing structures are suitable.
    fn reference(
        &mut self,
        fits: impl Fn(Option<Purpose>) -> bool,
        anywhere: bool,
    ) -> Option<(FieldRef, Option<Purpose>)> {
        let (scope, path) = (self.scope, &self.path);
        let is_around = |field: &FieldRef| {
            let parents = field.path.len() - 1;
            field.scope == scope && field.path[..parents] == path[..parents.min(path.len())]
        };
        let fitting: Vec<_> = self
            .known
            .iter()
            .filter(|(field, purpose)| fits(*purpose) && (anywhere || is_around(field)))
            .cloned()
            .collect();
        (!fitting.is_empty()).then(|| self.random.one_of(&fitting))
    }

    fn optional(&mut self, is_member: bool) -> FieldClass {
        let fits = |purpose| purpose != Some(Purpose::Length);
        let Some((selector, purpose)) = self.reference(fits, is_member) else {
            return self.structure();
        };
        let ranges = match purpose {
            Some(Purpose::Selector { signed }) => {
                let first = self.random.below(3) as usize;
                Some(Ranges(vec![group(first, signed), group(first + 1, signed)]))
            }
            _ => None,
        };
        let content = self.inner();
        FieldClass::Optional(Box::new(OptionalClass { selector, ranges, content }))
    }

    fn variant(&mut self, is_member: bool) -> FieldClass {
        let fits = |purpose| matches!(purpose, Some(Purpose::Selector { .. }));
        let found = self.reference(fits, is_member);
        let Some((selector, Some(Purpose::Selector { signed }))) = found else {
            return self.structure();
        };
        let mut all: Vec<Vec<(i128, i128)>> = vec![Vec::new(); 3];
        for index in 0..GROUPS.len() {
            all[self.random.below(3) as usize].push(group(index, signed));
        }
        all.retain(|ranges| !ranges.is_empty());
        let mut options = Vec::new();
        for (index, ranges) in all.into_iter().enumerate() {
            let name = match self.random.below(4) {
                0 => None,
                1 if index == 0 => Some("int".to_owned()),
                2 => Some(format!("o-{index}")),
                _ => Some(format!("o{index}")),
            };
            let class = self.inner();
            options.push(VariantOption { name, ranges: Ranges(ranges), class });
        }
        FieldClass::Variant(VariantClass { selector, options })
    }
}

/// Generator of random values for a trace's fields.
struct Values<'v> {
    random: &'v mut Random,
    trace: &'v Trace,
    /// Latest value of each integer field, for later lengths and selectors.
    known: HashMap<Place, i128>,
}

impl Values<'_> {
    fn scope(&mut self, scope: Scope, class: Option<&FieldClass>) -> Option<Value> {
        let FieldClass::Struct(structure) = class? else { return None };
        Some(self.structure(&mut (scope, Vec::new()), structure))
    }

    fn structure(&mut self, place: &mut Place, structure: &StructClass) -> Value {
        let mut values = Vec::new();
        for member in &structure.members {
            if crate::encode::headers::has_role(&member.class) {
                continue;
            }
            place.1.push(member.name.clone());
            values.push(self.value(place, &member.class));
            place.1.pop();
        }
        Value::Struct(values)
    }

    fn value(&mut self, place: &mut Place, class: &FieldClass) -> Value {
        match class {
            FieldClass::Int(int) => {
                let size = int.bits.size;
                let value = match int.kind {
                    IntKind::Bool => self.random.below(2),
                    _ => self.random.next(),
                };
                self.int(place, value, size, int.kind == IntKind::Signed)
            }
            FieldClass::VarInt(int) => {
                let value = self.random.next() >> self.random.below(64);
                self.int(place, value, 64, int.signed)
            }
            FieldClass::Float(float) => {
                let small = self.random.below(4096) as f64 / 4.0 - 512.0;
                let value = match float.bits.size {
                    16 => small,
                    32 => f64::from(small as f32 * 1.1),
                    _ => small * 1e-7 / 3.0,
                };
                Value::Float(value)
            }
            FieldClass::String(string) => {
                let count = self.random.below(7);
                Value::String(self.text(string.encoding, count as usize))
            }
            FieldClass::Text(text) => {
                let length = self.length(&text.length) as usize;
                let count = self.random.below(7) as usize;
                let mut value = self.text(text.encoding, count);
                let unit = text.encoding.unit_size();
                value.truncate(length / unit * unit);
                Value::String(value)
            }
            FieldClass::Blob(blob) => {
                let length = self.length(&blob.length);
                Value::Blob((0..length).map(|_| self.random.next() as u8).collect())
            }
            FieldClass::Struct(structure) => self.structure(place, structure),
            FieldClass::Array(array) => {
                let length = self.length(&array.length);
                Value::Array((0..length).map(|_| self.value(place, &array.element)).collect())
            }
            FieldClass::Optional(optional) => {
                let value = self.at(&optional.selector);
                let present = match &optional.ranges {
                    None => value != 0,
                    Some(ranges) => ranges.contains(value),
                };
                Value::Optional(present.then(|| Box::new(self.value(place, &optional.content))))
            }
            FieldClass::Variant(variant) => {
                let value = self.at(&variant.selector);
                let mut options = variant.options.iter();
                let option = options.position(|option| option.ranges.contains(value)).unwrap();
                let value = self.value(place, &variant.options[option].class);
                Value::Variant(option, Box::new(value))
            }
        }
    }

    fn int(&mut self, place: &Place, raw: u64, size: u32, signed: bool) -> Value {
        let value = match self.trace.purposes.get(place) {
            Some(Purpose::Length) => self.random.below(5).into(),
            Some(Purpose::Selector { signed }) => {
                let index = self.random.below(GROUPS.len() as u64) as usize;
                let (low, high) = group(index, *signed);
                low + self.random.below((high - low + 1) as u64) as i128
            }
            None if signed => crate::bits::sign_extend(raw, size).into(),
            None => (raw & (u64::MAX >> (64 - size))).into(),
        };
        self.known.insert(place.clone(), value);
        if signed { Value::Signed(value as i64) } else { Value::Unsigned(value as u64) }
    }

    fn at(&self, field: &FieldRef) -> i128 {
        self.known[&(field.scope, field.path.clone())]
    }

    fn length(&self, length: &Length) -> u64 {
        match length {
            Length::Static(length) => *length,
            Length::Dynamic(field) => self.at(field) as u64,
        }
    }

    /// Makes a text of characters of one code unit each, so that truncation after any code unit
    /// leaves whole characters.
    fn text(&mut self, encoding: Encoding, count: usize) -> Vec<u8> {
        let letters = match encoding.unit_size() {
            1 => ['a', 'B', '"', '\n'],
            _ => ['a', 'é', '€', 'Z'],
        };
        let mut bytes = Vec::new();
        for _ in 0..count {
            let letter = u32::from(self.random.one_of(&letters));
            match encoding {
                Encoding::Utf8 | Encoding::Ascii => bytes.push(letter as u8),
                Encoding::Utf16Be => bytes.extend((letter as u16).to_be_bytes()),
                Encoding::Utf16Le => bytes.extend((letter as u16).to_le_bytes()),
                Encoding::Utf32Be => bytes.extend(letter.to_be_bytes()),
                Encoding::Utf32Le => bytes.extend(letter.to_le_bytes()),
            }
        }
        bytes
    }
}
