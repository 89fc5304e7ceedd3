//! The contents of a metadata stream, in one form for CTF 1.8 and CTF 2.
//!
//! The two metadata languages ([`crate::tsdl`], [`crate::ctf2`]) are parsed into a [`Schema`] and
//! written from one; all users of metadata (decoder, encoder, filter, printers) depend only on the
//! schema. Start at [`Schema`], then [`FieldClass`].
//!
//! Names are display names. CTF 1.8 producers escape field names with one leading underscore. The
//! parser removes it, unless two fields of a structure would then have the same name. The TSDL
//! writer adds an underscore to the names that need one.

use std::fmt;
use std::sync::Arc;

/// Description of a whole trace: its clocks, data streams and events.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    /// Version of CTF from which the schema was parsed, or for which it was made. The version
    /// determines the metadata language.
    pub version: Version,
    /// Name, UUID, environment and packet header, shared by all streams.
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

/// Properties shared by all packets and streams of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceClass {
    /// Namespace of `name` and `uid`; CTF 2 only.
    pub namespace: Option<String>,
    /// Name of the trace; CTF 2 only.
    pub name: Option<String>,
    /// Unique id of the trace, any text; CTF 2 only.
    pub uid: Option<String>,
    /// The UUID that packets repeat: `trace.uuid` in CTF 1.8, the preamble's in CTF 2.
    pub uuid: Option<Uuid>,
    /// Native byte order in CTF 1.8. In CTF 2, where each class states its own byte order, this is
    /// the order of the magic number, else of the first fixed-length field, else little-endian.
    pub byte_order: ByteOrder,
    /// The environment, in order of appearance.
    pub env: Vec<(String, EnvValue)>,
    /// Class of the packet header: always a [`FieldClass::Struct`].
    pub packet_header: Option<FieldClass>,
}

/// A value of the trace's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// An integer such as a process id or version number.
    Int(i64),
    /// A string such as the host's name.
    Str(String),
}

/// A UUID: sixteen bytes in text order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// A clock: its frequency, and the time at its reading 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// Name (CTF 1.8) or id (CTF 2): unique in the schema.
    pub name: String,
    /// Namespace, name and unique id, if given; CTF 2 only.
    pub identity: Option<ClockIdentity>,
    /// UUID of the clock; CTF 1.8 only.
    pub uuid: Option<Uuid>,
    /// Description for users.
    pub description: Option<String>,
    /// Cycles per second; never 0.
    pub frequency: u64,
    /// Error of one reading, in cycles.
    pub precision: Option<u64>,
    /// Error of the offset, in cycles; CTF 2 only.
    pub accuracy: Option<u64>,
    /// Seconds from the origin to a reading of 0.
    pub offset_seconds: i64,
    /// Cycles to add to `offset_seconds`.
    pub offset_cycles: i64,
    /// Moment from which the offset counts.
    pub origin: ClockOrigin,
}

/// Makes a clock that counts nanoseconds, without further properties.
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

/// Identity by which CTF 2 declares clocks of several traces to be the same, or names a clock's
/// origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockIdentity {
    /// Namespace in which `name` and `uid` are unique; `None` if the metadata gives none.
    pub namespace: Option<String>,
    /// Name of the clock, or of the origin, within the namespace.
    pub name: Option<String>,
    /// Unique id within the namespace and name, any text.
    pub uid: Option<String>,
}

/// Origin of a clock's offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockOrigin {
    /// 1970-01-01T00:00:00Z. In CTF 1.8: clocks with `absolute = true`, and LTTng's clock
    /// `monotonic`.
    UnixEpoch,
    /// Unknown origin: times are comparable only with times of the same clock.
    Unknown,
    /// CTF 2: a named origin.
    Custom(ClockIdentity),
}

/// A class of data streams ("channel").
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamClass {
    /// Id: unique in the schema.
    pub id: u64,
    /// Namespace of `name` and `uid`; CTF 2 only.
    pub namespace: Option<String>,
    /// Name of the stream class; CTF 2 only.
    pub name: Option<String>,
    /// Unique id of the stream class, any text; CTF 2 only.
    pub uid: Option<String>,
    /// Index into [`Schema::clocks`]: the clock that orders this stream's events.
    pub clock: Option<usize>,
    /// Class of the packet context. Like the event header and the common context, it is always a
    /// [`FieldClass::Struct`].
    pub packet_context: Option<FieldClass>,
    /// Class of the event header, at the start of each event.
    pub event_header: Option<FieldClass>,
    /// Class of the common context ("stream.event.context" in CTF 1.8), which follows the header
    /// and is shared by all event classes.
    pub common_context: Option<FieldClass>,
    /// All event classes; ids are unique in the stream class.
    pub events: Vec<EventClass>,
}

/// Description shared by the events of one kind: name, log level, specific context and payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventClass {
    /// Id: unique in its stream class.
    pub id: u64,
    /// Namespace of `name` and `uid`; CTF 2 only.
    pub namespace: Option<String>,
    /// Name, such as `provider:event`; `None` if the metadata gives none.
    pub name: Option<String>,
    /// Unique id of the event class, any text; CTF 2 only.
    pub uid: Option<String>,
    /// Log level: 0 (emergency) to 14 (debug), LTTng's scale; other values are kept as they are.
    pub log_level: Option<i64>,
    /// URI of a model in the Eclipse Modeling Framework.
    pub emf_uri: Option<String>,
    /// Class of the specific context ("event.context" in CTF 1.8). Like the payload, it is always a
    /// [`FieldClass::Struct`].
    pub specific_context: Option<FieldClass>,
    /// Class of the payload, the event's own fields.
    pub payload: Option<FieldClass>,
}

/// Layout and meaning of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldClass {
    /// An integer, enumeration, boolean, bit array or bit map of fixed width.
    Int(IntClass),
    /// A CTF 2 variable-length (LEB128) integer.
    VarInt(VarIntClass),
    /// An IEEE 754 number.
    Float(FloatClass),
    /// A NUL-terminated string.
    String(StringClass),
    /// A string with a length; bytes after a NUL are padding.
    Text(TextClass),
    /// Uninterpreted bytes.
    Blob(BlobClass),
    /// A structure: named members in sequence.
    Struct(StructClass),
    /// An array of elements of one class.
    Array(Box<ArrayClass>),
    /// CTF 2: a field that may be absent.
    Optional(Box<OptionalClass>),
    /// A field of one of several classes.
    Variant(VariantClass),
}

/// Layout of a fixed-width field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// Width in bits: 1 to 64 for integers; for floats 8 to 128, else the decoder rejects the
    /// class.
    pub size: u32,
    /// Alignment in bits, a power of two, counted from the packet's start.
    pub align: u64,
    /// Byte order of the field. A field that begins within a byte must have the byte order of the
    /// field before.
    pub byte_order: ByteOrder,
    /// Bit order within a byte. Differs from the byte order's usual one only in CTF 2.
    pub bit_order: BitOrder,
}

/// Order of a field's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByteOrder {
    /// Least significant first.
    #[default]
    Little,
    /// Most significant first.
    Big,
}

/// Order of the bits in a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOrder {
    /// From the least to the most significant: the usual order of little-endian fields.
    FirstToLast,
    /// From the most to the least significant: the usual order of big-endian fields.
    LastToFirst,
}

impl ByteOrder {
    /// Returns the bit order of this byte order: the only one in CTF 1.8, and the default in CTF 2.
    pub fn usual_bit_order(self) -> BitOrder {
        match self {
            ByteOrder::Little => BitOrder::FirstToLast,
            ByteOrder::Big => BitOrder::LastToFirst,
        }
    }
}

/// A fixed-width integer, enumeration, boolean, bit array or bit map.
#[derive(Clone, Debug, PartialEq)]
pub struct IntClass {
    /// Width, alignment, byte order and bit order.
    pub bits: Bits,
    /// Interpretation of the bits.
    pub kind: IntKind,
    /// Preferred base for display.
    pub base: Base,
    /// Labels of an enumeration, or the flags of a bit map, in order of declaration.
    pub mappings: Option<Arc<[Mapping]>>,
    /// Roles of the field for the reader.
    pub roles: Roles,
    /// Index into [`Schema::clocks`]. CTF 1.8: the clock named by `map = clock.NAME.value`, else
    /// the trace's only clock if the field has a timestamp's reserved name. CTF 2: the stream's
    /// clock if the field is a timestamp or the packet's end. With [`Role::Timestamp`] the clock is
    /// the stream's own.
    pub clock: Option<usize>,
}

/// Interpretation of an integer's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntKind {
    /// An unsigned integer, or an enumeration of unsigned values.
    Unsigned,
    /// A signed integer in two's complement, or an enumeration of signed values.
    Signed,
    /// CTF 2: a boolean; 0 is false, all other values are true.
    Bool,
    /// CTF 2: an array of bits without arithmetic.
    BitArray,
    /// CTF 2: an array of named bits ([`IntClass::mappings`] names them by ranges of bit indexes).
    BitMap,
}

/// Preferred base for the display of a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Base {
    /// Base 2.
    Binary,
    /// Base 8.
    Octal,
    /// Base 10, the default.
    #[default]
    Decimal,
    /// Base 16.
    Hexadecimal,
}

/// A label and its values; ranges of different labels may overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Text that is shown for the values.
    pub label: String,
    /// Values with this label; in a bit map, the indexes of the bits.
    pub ranges: Ranges,
}

/// Ranges of integers, inclusive on both ends; wide enough for both `u64` and `i64`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(pub Vec<(i128, i128)>);

impl Ranges {
    /// Returns whether one of the ranges contains `value`.
    pub fn contains(&self, value: i128) -> bool {
        self.0.iter().any(|&(low, high)| low <= value && value <= high)
    }
}

/// A variable-length integer in LEB128, of at most 64 significant bits.
#[derive(Clone, Debug, PartialEq)]
pub struct VarIntClass {
    /// True if the integer is signed (two's complement).
    pub signed: bool,
    /// Preferred base for display.
    pub base: Base,
    /// Labels of the values; `None` if the class is no enumeration.
    pub mappings: Option<Arc<[Mapping]>>,
    /// Roles of the field for the reader.
    pub roles: Roles,
}

/// A binary floating-point number; `exponent + mantissa == bits.size`.
#[derive(Clone, Debug, PartialEq)]
pub struct FloatClass {
    /// Width, alignment, byte order and bit order.
    pub bits: Bits,
    /// Number of bits of the exponent.
    pub exponent: u32,
    /// Number of bits of the mantissa, plus one for the sign: 24 for binary32. CTF 1.8 states the
    /// same number, because it counts the hidden bit instead of the sign.
    pub mantissa: u32,
}

/// Character encoding of a string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8, the default.
    #[default]
    Utf8,
    /// ASCII (CTF 1.8 only).
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
    /// Returns the size of a code unit in bytes, which is also the size of a string's terminator.
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
    /// Encoding of the characters.
    pub encoding: Encoding,
}

/// A string with a length, byte-aligned. In CTF 1.8: an array or sequence of 8-bit integers with an
/// encoding.
#[derive(Clone, Debug, PartialEq)]
pub struct TextClass {
    /// Length in bytes.
    pub length: Length,
    /// Encoding of the characters.
    pub encoding: Encoding,
}

/// Bytes, byte-aligned. Also the class of the packet header's UUID, and of integers wider than 64
/// bits.
#[derive(Clone, Debug, PartialEq)]
pub struct BlobClass {
    /// Length in bytes.
    pub length: Length,
    /// IANA media type of the content; `None` if the metadata states none.
    pub media_type: Option<String>,
    /// Roles of the field: [`Role::Uuid`] or none.
    pub roles: Roles,
}

/// Source of the number of elements or bytes of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Length {
    /// A constant from the metadata.
    Static(u64),
    /// The value of an unsigned integer decoded earlier.
    Dynamic(FieldRef),
}

/// A structure of named members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StructClass {
    /// Members in order; names are unique.
    pub members: Vec<Member>,
    /// Minimum alignment in bits, in addition to the members' own.
    pub align: u64,
}

/// A named field class.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Display name, without the underscore that escapes it in CTF 1.8.
    pub name: String,
    /// Layout and meaning of the member's value.
    pub class: FieldClass,
}

/// An array of elements of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrayClass {
    /// Source of the number of elements.
    pub length: Length,
    /// Class that all elements share.
    pub element: FieldClass,
    /// Minimum alignment in bits, in addition to the element's own; applies also to an empty array.
    pub align: u64,
}

/// A field whose presence depends on the value of a selector.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionalClass {
    /// Selector: a boolean, or an integer with `ranges`.
    pub selector: FieldRef,
    /// Selector values for which the content is present. `None` for a boolean selector: the content
    /// is present if the selector is true.
    pub ranges: Option<Ranges>,
    /// Class of the field if it is present.
    pub content: FieldClass,
}

/// A field of one of several classes, selected by an integer decoded earlier.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantClass {
    /// Selector: an integer (in CTF 1.8 an enumeration).
    pub selector: FieldRef,
    /// Options. The first option whose ranges contain the selector's value is selected.
    pub options: Vec<VariantOption>,
}

/// One of the field classes between which a variant's selector chooses.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantOption {
    /// Name: the enumeration's label in CTF 1.8; optional in CTF 2.
    pub name: Option<String>,
    /// Selector values that select the option.
    pub ranges: Ranges,
    /// Class of the field if this option is selected.
    pub class: FieldClass,
}

/// Reference to a field decoded earlier: a scope, and the names of structure members on the path. A
/// path continues through arrays, optionals and variants to their current element, so it refers to
/// the latest decoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRef {
    /// Scope in which the path starts.
    pub scope: Scope,
    /// Names of the structure members on the path, the outermost first; at least one.
    pub path: Vec<String>,
}

/// A part of a packet or of an event, in the order of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Start of each packet.
    PacketHeader,
    /// Part of a packet after its header.
    PacketContext,
    /// Start of each event.
    EventHeader,
    /// Context common to the events of a stream.
    CommonContext,
    /// Context of one event class.
    SpecificContext,
    /// An event's own fields.
    Payload,
}

impl Scope {
    /// All scopes, in the order of storage in a packet.
    pub(crate) const ALL: [Scope; 6] = [
        Scope::PacketHeader,
        Scope::PacketContext,
        Scope::EventHeader,
        Scope::CommonContext,
        Scope::SpecificContext,
        Scope::Payload,
    ];

    /// Returns the scope's name in TSDL, such as `stream.packet.context`.
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

    /// Returns the scope's name as origin of a CTF 2 field location.
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

/// Purpose of a field for the reader of a packet. The description of each role starts with the
/// scopes in which it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Role {
    /// Packet header: the magic number 0xC1FC1FC1.
    Magic = 1 << 0,
    /// Packet header: UUID of the trace.
    Uuid = 1 << 1,
    /// Packet header: id of the stream class.
    StreamClassId = 1 << 2,
    /// Packet header: id of the stream within its class.
    StreamInstanceId = 1 << 3,
    /// Packet context: size of the used part, in bits from the packet's start.
    ContentSize = 1 << 4,
    /// Packet context: total size, in bits from the packet's start.
    PacketSize = 1 << 5,
    /// Packet context: sequence number of the packet in its stream.
    PacketSeqNum = 1 << 6,
    /// Packet context: number of events that the tracer has discarded since the stream's start.
    EventsDiscarded = 1 << 7,
    /// Packet context: time of the packet's end. (The time of its start has [`Role::Timestamp`].)
    PacketEnd = 1 << 8,
    /// Event header: id of the event class.
    EventClassId = 1 << 9,
    /// Packet context or event header, in CTF 1.8 also event contexts and payload: time that sets
    /// (64 bits) or advances (fewer bits) the clock.
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
    /// The empty set: a field without a role.
    pub const NONE: Roles = Roles(0);

    /// Returns this set with `role` added.
    pub fn with(self, role: Role) -> Roles {
        Roles(self.0 | role as u16)
    }

    /// Returns this set without `role`.
    pub fn without(self, role: Role) -> Roles {
        Roles(self.0 & !(role as u16))
    }

    /// Returns whether the set contains `role`.
    pub fn has(self, role: Role) -> bool {
        self.0 & role as u16 != 0
    }

    /// Returns the set as a bitmap of the values of [`Role`].
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// Returns whether the set contains no role.
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
    /// Returns the alignment of the field's first bit, in bits.
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
    /// Returns the value of the environment's entry `key`.
    pub fn env(&self, key: &str) -> Option<&EnvValue> {
        self.env.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the value of the environment's entry `key`, if it is a string.
    pub fn env_str(&self, key: &str) -> Option<&str> {
        match self.env(key) {
            Some(EnvValue::Str(text)) => Some(text),
            _ => None,
        }
    }
}
