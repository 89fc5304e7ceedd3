//! What a metadata stream says, in one form for CTF 1.8 and CTF 2.
//!
//! The two metadata languages ([`crate::tsdl`], [`crate::ctf2`]) are parsed into a [`Schema`] and
//! written from one; everything behind them (decoder, encoder, filter, printers) knows only this.
//! Start at [`Schema`], then [`FieldClass`].
//!
//! Names are the names people see: the one leading underscore with which CTF 1.8 producers escape
//! field names is removed on reading and put back on writing.

use std::fmt;
use std::sync::Arc;

/// A whole trace's description: its clocks, data streams and events.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// The metadata language that it was read from.
    pub version: Version,
    /// Properties of the trace as a whole.
    pub trace: TraceClass,
    /// All clocks, referred to by index.
    pub clocks: Vec<Clock>,
    /// All data stream classes, referred to by index; ids are unique.
    pub streams: Vec<StreamClass>,
}

/// The version of the metadata language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// CTF 1.8, metadata in TSDL.
    Ctf1,
    /// CTF 2, metadata in a JSON text sequence.
    Ctf2,
}

/// What is common to all packets and streams of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceClass {
    /// CTF 2 namespace.
    pub namespace: Option<String>,
    /// CTF 2 trace name.
    pub name: Option<String>,
    /// CTF 2 unique id of the trace.
    pub uid: Option<String>,
    /// The UUID that packets repeat: `trace.uuid` in CTF 1.8, the preamble's in CTF 2.
    pub uuid: Option<Uuid>,
    /// Native byte order (CTF 1.8). CTF 2 states it in each class; there it is little-endian.
    pub byte_order: ByteOrder,
    /// The environment, in order of appearance.
    pub env: Vec<(String, EnvValue)>,
    /// Always a [`FieldClass::Struct`].
    pub packet_header: Option<FieldClass>,
}

/// A value of the trace's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// An integer.
    Int(i64),
    /// A string.
    Str(String),
}

/// Sixteen bytes in text order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// A clock: how many cycles a second, and when it read zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// CTF 1.8 name, CTF 2 id: unique in the schema.
    pub name: String,
    /// CTF 2 namespace, name and unique id, where they are given.
    pub identity: Option<ClockIdentity>,
    /// CTF 1.8 UUID.
    pub uuid: Option<Uuid>,
    /// For people.
    pub description: Option<String>,
    /// Cycles a second; never 0.
    pub frequency: u64,
    /// Error of one reading, in cycles.
    pub precision: Option<u64>,
    /// CTF 2: error of the offset, in cycles.
    pub accuracy: Option<u64>,
    /// Seconds from the origin to a reading of 0.
    pub offset_seconds: i64,
    /// Cycles to add to `offset_seconds`.
    pub offset_cycles: i64,
    /// What the offset counts from.
    pub origin: ClockOrigin,
}

/// One of nanoseconds, of which nothing else is known.
impl Default for Clock {
    fn default() -> Clock {
        Clock {
            name: String::new(),
            identity: None,
            uuid: None,
            description: None,
            frequency: 1_000_000_000,
            precision: None,
            accuracy: None,
            offset_seconds: 0,
            offset_cycles: 0,
            origin: ClockOrigin::Unknown,
        }
    }
}

/// CTF 2's way to say that clocks of two traces are the same clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockIdentity {
    /// Namespace.
    pub namespace: Option<String>,
    /// Name.
    pub name: Option<String>,
    /// Unique id.
    pub uid: Option<String>,
}

/// What a clock's offset counts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockOrigin {
    /// 1970-01-01T00:00:00Z. (In CTF 1.8: `absolute = true`, and what viewers assume otherwise.)
    UnixEpoch,
    /// Unknown: comparable only with the same clock.
    Unknown,
    /// CTF 2: a named origin.
    Custom(ClockIdentity),
}

/// A kind of data stream ("channel").
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamClass {
    /// Unique in the schema.
    pub id: u64,
    /// CTF 2 namespace, name and unique id.
    pub namespace: Option<String>,
    /// CTF 2 name.
    pub name: Option<String>,
    /// CTF 2 unique id.
    pub uid: Option<String>,
    /// Index into [`Schema::clocks`]: the clock that orders this stream's events.
    pub clock: Option<usize>,
    /// Always a [`FieldClass::Struct`], as the next two.
    pub packet_context: Option<FieldClass>,
    /// Comes first in each event.
    pub event_header: Option<FieldClass>,
    /// "stream.event.context" in CTF 1.8: after the header, the same for all event classes.
    pub common_context: Option<FieldClass>,
    /// All event classes; ids are unique in the stream class.
    pub events: Vec<EventClass>,
}

/// A kind of event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventClass {
    /// Unique in its stream class.
    pub id: u64,
    /// CTF 2 namespace.
    pub namespace: Option<String>,
    /// As in `provider:event`; `None` where the metadata gives none.
    pub name: Option<String>,
    /// CTF 2 unique id.
    pub uid: Option<String>,
    /// 0 (emergency) to 14 (debug), LTTng's scale; larger values are kept as they are.
    pub log_level: Option<i64>,
    /// Eclipse modelling URI.
    pub emf_uri: Option<String>,
    /// "event.context" in CTF 1.8. Always a [`FieldClass::Struct`], as the next.
    pub specific_context: Option<FieldClass>,
    /// The event's own fields.
    pub payload: Option<FieldClass>,
}

/// The description of a field's bytes and meaning.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldClass {
    /// An integer, enumeration, boolean or set of bits of fixed width.
    Int(IntClass),
    /// A CTF 2 variable-length (LEB128) integer.
    VarInt(VarIntClass),
    /// An IEEE 754 number.
    Float(FloatClass),
    /// A NUL-terminated string.
    String(StringClass),
    /// A string of counted length; what follows a NUL in it is filling.
    Text(TextClass),
    /// Bytes without further meaning.
    Blob(BlobClass),
    /// Named members, one after the other.
    Struct(StructClass),
    /// Elements of one class.
    Array(Box<ArrayClass>),
    /// CTF 2: there or not.
    Optional(Box<OptionalClass>),
    /// One of several.
    Variant(VariantClass),
}

/// Where the bits of a fixed-width field lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Width in bits: 1 to 64 for integers, 16, 32, 64, 80 or 128 (and so on) for floats.
    pub size: u32,
    /// Alignment in bits, a power of two, counted from the packet's start.
    pub align: u64,
    /// Of a field's bytes; changes only on byte boundaries.
    pub byte_order: ByteOrder,
    /// Of the bits in a byte. Differs from the byte order's usual one only in CTF 2.
    pub bit_order: BitOrder,
}

/// Which byte of a field comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant first.
    #[default]
    Little,
    /// Most significant first.
    Big,
}

/// Which bit of a byte comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOrder {
    /// From the least to the most significant: what little-endian fields use.
    FirstToLast,
    /// From the most to the least significant: what big-endian fields use.
    LastToFirst,
}

impl ByteOrder {
    /// The bit order that goes with this byte order in CTF 1.8, and by default in CTF 2.
    pub fn usual_bit_order(self) -> BitOrder {
        match self {
            ByteOrder::Little => BitOrder::FirstToLast,
            ByteOrder::Big => BitOrder::LastToFirst,
        }
    }
}

/// A fixed-width integer.
#[derive(Clone, Debug, PartialEq)]
pub struct IntClass {
    /// Where its bits lie.
    pub bits: Bits,
    /// How they are to be taken.
    pub kind: IntKind,
    /// How people want to see it.
    pub base: Base,
    /// Labels of an enumeration, or the flags of a bit map, in order of declaration.
    pub mappings: Option<Arc<[Mapping]>>,
    /// What the reader uses it for.
    pub roles: Roles,
    /// CTF 1.8's `map = clock.NAME.value`, index into [`Schema::clocks`]. With
    /// [`Role::Timestamp`] it is the stream's own clock.
    pub clock: Option<usize>,
}

/// How the bits of an integer are to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntKind {
    /// From 0 up.
    Unsigned,
    /// Two's complement.
    Signed,
    /// CTF 2: 0 is false, all else true.
    Bool,
    /// CTF 2: bits without arithmetic.
    BitArray,
    /// CTF 2: bits with names (in [`IntClass::mappings`], ranges are bit indexes).
    BitMap,
}

/// Preferred base to show a number in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// 2
    Binary,
    /// 8
    Octal,
    /// 10
    #[default]
    Decimal,
    /// 16
    Hexadecimal,
}

/// A label and the values that bear it; ranges of different labels may overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The label.
    pub label: String,
    /// Inclusive on both ends.
    pub ranges: Ranges,
}

/// Inclusive ranges of integers; wide enough for both `u64` and `i64`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(pub Vec<(i128, i128)>);

impl Ranges {
    /// Whether one of the ranges holds `value`.
    pub fn contains(&self, value: i128) -> bool {
        self.0.iter().any(|&(low, high)| low <= value && value <= high)
    }
}

/// A LEB128 integer.
#[derive(Clone, Debug, PartialEq)]
pub struct VarIntClass {
    /// Two's complement.
    pub signed: bool,
    /// How people want to see it.
    pub base: Base,
    /// Labels, if any.
    pub mappings: Option<Arc<[Mapping]>>,
    /// What the reader uses it for.
    pub roles: Roles,
}

/// A binary floating-point number; `exponent + mantissa == bits.size`.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatClass {
    /// Where its bits lie.
    pub bits: Bits,
    /// Bits of the exponent.
    pub exponent: u32,
    /// Bits of the mantissa, the sign included (the hidden bit's place, as CTF 1.8 counts).
    pub mantissa: u32,
}

/// How characters are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// CTF 1.8 only.
    Ascii,
    /// UTF-16, most significant byte first.
    Utf16Be,
    /// UTF-16, least significant byte first.
    Utf16Le,
    /// UTF-32, most significant byte first.
    Utf32Be,
    /// UTF-32, least significant byte first.
    Utf32Le,
}

impl Encoding {
    /// Bytes of one code unit: the string's terminator has as many.
    pub fn unit_size(self) -> usize {
        match self {
            Encoding::Utf8 | Encoding::Ascii => 1,
            Encoding::Utf16Be | Encoding::Utf16Le => 2,
            Encoding::Utf32Be | Encoding::Utf32Le => 4,
        }
    }
}

/// A NUL-terminated string, byte-aligned.
#[derive(Clone, Debug, PartialEq)]
pub struct StringClass {
    /// How characters are stored.
    pub encoding: Encoding,
}

/// A string of counted length, byte-aligned. In CTF 1.8: an array or sequence of 8-bit
/// integers with an encoding.
#[derive(Clone, Debug, PartialEq)]
pub struct TextClass {
    /// In bytes.
    pub length: Length,
    /// How characters are stored.
    pub encoding: Encoding,
}

/// Bytes, byte-aligned. The reader also uses it for the packet header's UUID, and for integers
/// wider than 64 bits.
#[derive(Clone, Debug, PartialEq)]
pub struct BlobClass {
    /// In bytes.
    pub length: Length,
    /// IANA media type.
    pub media_type: Option<String>,
    /// [`Role::Uuid`] or nothing.
    pub roles: Roles,
}

/// Number of elements or bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    /// Known from the metadata.
    Static(u64),
    /// Read from an unsigned integer that was decoded before.
    Dynamic(FieldRef),
}

/// Named members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StructClass {
    /// In order; names are unique.
    pub members: Vec<Member>,
    /// Minimum alignment in bits; the members' own come on top.
    pub align: u64,
}

/// A named field class.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// As people see it.
    pub name: String,
    /// What it is.
    pub class: FieldClass,
}

/// Elements of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayClass {
    /// How many.
    pub length: Length,
    /// What they are.
    pub element: FieldClass,
    /// Minimum alignment in bits; the element's own comes on top, also when there is none.
    pub align: u64,
}

/// There if the selector says so.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionalClass {
    /// A boolean, or an integer with `ranges`.
    pub selector: FieldRef,
    /// Selector values for which the content is there; `None` for a boolean: when true.
    pub ranges: Option<Ranges>,
    /// What it is, if it is there.
    pub content: FieldClass,
}

/// One of several, chosen by an integer that was decoded before.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantClass {
    /// The integer (in CTF 1.8 an enumeration).
    pub selector: FieldRef,
    /// The first option whose ranges hold the selector's value is taken.
    pub options: Vec<VariantOption>,
}

/// A choice of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantOption {
    /// In CTF 1.8 the enumeration's label; may be absent in CTF 2.
    pub name: Option<String>,
    /// Selector values that choose it.
    pub ranges: Ranges,
    /// What it is.
    pub class: FieldClass,
}

/// The place of a field that was decoded before: a scope and the names of structure members on
/// the way. Arrays, optionals and variants on the way are passed through to their current
/// element, so that the latest decoded value counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRef {
    /// Where the way starts.
    pub scope: Scope,
    /// At least one member name.
    pub path: Vec<String>,
}

/// The parts of a packet and of an event, in the order in which they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Starts each packet.
    PacketHeader,
    /// Follows the packet header.
    PacketContext,
    /// Starts each event.
    EventHeader,
    /// Common to the events of a stream.
    CommonContext,
    /// Of one event class.
    SpecificContext,
    /// The event's own fields.
    Payload,
}

impl Scope {
    /// All of them, in that order.
    pub(crate) const ALL: [Scope; 6] = [
        Scope::PacketHeader,
        Scope::PacketContext,
        Scope::EventHeader,
        Scope::CommonContext,
        Scope::SpecificContext,
        Scope::Payload,
    ];

    /// The scope's name in TSDL.
    pub fn tsdl_name(self) -> &'static str {
        match self {
            Scope::PacketHeader => "trace.packet.header",
            Scope::PacketContext => "stream.packet.context",
            Scope::EventHeader => "stream.event.header",
            Scope::CommonContext => "stream.event.context",
            Scope::SpecificContext => "event.context",
            Scope::Payload => "event.fields",
        }
    }

    /// The scope's name as origin of a CTF 2 field location.
    pub fn ctf2_name(self) -> &'static str {
        match self {
            Scope::PacketHeader => "packet-header",
            Scope::PacketContext => "packet-context",
            Scope::EventHeader => "event-record-header",
            Scope::CommonContext => "event-record-common-context",
            Scope::SpecificContext => "event-record-specific-context",
            Scope::Payload => "event-record-payload",
        }
    }
}

/// What the reader uses a field for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Role {
    /// Packet header: 0xC1FC1FC1.
    Magic = 1 << 0,
    /// Packet header: the trace's UUID.
    Uuid = 1 << 1,
    /// Packet header: id of the stream class.
    StreamClassId = 1 << 2,
    /// Packet header: id of the stream within its class.
    StreamInstanceId = 1 << 3,
    /// Packet context: bits in use, from the packet's start.
    ContentSize = 1 << 4,
    /// Packet context: bits in all, from the packet's start.
    PacketSize = 1 << 5,
    /// Packet context: counts the packets of a stream.
    PacketSeqNum = 1 << 6,
    /// Packet context: counts the events that the tracer had to drop, since the stream's start.
    EventsDiscarded = 1 << 7,
    /// Packet context: time of the packet's end. (Its start bears [`Role::Timestamp`].)
    PacketEnd = 1 << 8,
    /// Event header: id of the event class.
    EventClassId = 1 << 9,
    /// Sets (64 bits) or advances (fewer) the stream's clock.
    Timestamp = 1 << 10,
}

impl Role {
    pub(crate) const ALL: [Role; 11] = [
        Role::Magic,
        Role::Uuid,
        Role::StreamClassId,
        Role::StreamInstanceId,
        Role::ContentSize,
        Role::PacketSize,
        Role::PacketSeqNum,
        Role::EventsDiscarded,
        Role::PacketEnd,
        Role::EventClassId,
        Role::Timestamp,
    ];
}

/// A set of [`Role`]s.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Roles(u16);

impl Roles {
    /// No role.
    pub const NONE: Roles = Roles(0);

    /// This set and `role`.
    pub fn with(self, role: Role) -> Roles {
        Roles(self.0 | role as u16)
    }

    /// This set without `role`.
    pub fn without(self, role: Role) -> Roles {
        Roles(self.0 & !(role as u16))
    }

    /// Whether `role` is in the set.
    pub fn has(self, role: Role) -> bool {
        self.0 & role as u16 != 0
    }

    /// One bit a role, as [`Role`] numbers them.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<Role> for Roles {
    fn from(role: Role) -> Roles {
        Roles(role as u16)
    }
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(Role::ALL.iter().filter(|role| self.has(**role))).finish()
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Uuid {
    type Err = ();

    fn from_str(text: &str) -> Result<Uuid, ()> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return Err(());
        }
        let mut uuid = [0; 16];
        let mut digits = 0;
        for (index, &byte) in bytes.iter().enumerate() {
            if matches!(index, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return Err(());
                }
                continue;
            }
            let digit = (byte as char).to_digit(16).ok_or(())?;
            uuid[digits / 2] = uuid[digits / 2] << 4 | digit as u8;
            digits += 1;
        }
        Ok(Uuid(uuid))
    }
}

impl FieldClass {
    /// The alignment of the field's first bit, in bits.
    pub fn align(&self) -> u64 {
        match self {
            FieldClass::Int(int) => int.bits.align,
            FieldClass::Float(float) => float.bits.align,
            FieldClass::VarInt(_)
            | FieldClass::String(_)
            | FieldClass::Text(_)
            | FieldClass::Blob(_) => 8,
            FieldClass::Struct(structure) => structure
                .members
                .iter()
                .map(|member| member.class.align())
                .fold(structure.align.max(1), u64::max),
            FieldClass::Array(array) => array.align.max(array.element.align()),
            FieldClass::Optional(_) | FieldClass::Variant(_) => 1,
        }
    }
}

impl TraceClass {
    /// The environment's value for `key`.
    pub fn env(&self, key: &str) -> Option<&EnvValue> {
        self.env.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The environment's value for `key`, if it is a string.
    pub fn env_str(&self, key: &str) -> Option<&str> {
        match self.env(key) {
            Some(EnvValue::Str(text)) => Some(text),
            _ => None,
        }
    }
}
