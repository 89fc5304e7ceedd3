//! Messages between traced programs and the agent.
//!
//! A program passes a file with its event types (its [`catalog`](crate::catalog)), and the agent
//! selects the events to record into each channel. The agent sends the selection as rules, so that
//! the first event of a new type is recorded too. Either side answers `Ping` once all earlier
//! messages have taken effect.

use crate::channel::{Context, contexts};
use crate::form::{Distinct, Flag, List, Number, Optional, RecordForm};
use crate::limits::{APPLICATION_SIZE_MAX, BODY_SIZE_MAX, FIELDS_MAX, LABELS_MAX, PATTERNS_MAX};
use crate::selection::{Levels, PATTERN, Selection};
use crate::text::{EVENT_NAME, FIELD_NAME, FILE, FILTER, LABEL, NAME, SAMPLING};
use blkkin_filter::Severity as Level;

messages! {
    /// Messages from a traced program to the agent.
    pub enum FromApplication up to APPLICATION_SIZE_MAX {
        /// Passes the memory file of the program's event types, its [`catalog`](crate::catalog), as
        /// one descriptor. Sent once, before the first `Pong`.
        0x1101 Catalog,
        /// Offers the rings of a channel that an earlier agent made, as one descriptor of their
        /// memory. Older rings are offered first, and all of them before `Catalog`.
        0x1105 Orphan(orphan: Orphan = RecordForm),
        /// The program ends. The agent may read the program's rings once more and then free them.
        0x0102 Goodbye,
        /// Requests a `Pong` with the same number once all earlier messages have taken effect. By
        /// then the agent has sent the rules for all event types in the catalog.
        0x0103 Ping(number: u64 = Number),
        /// All messages before the `Ping` with this number have taken effect: enabled events are
        /// recorded from now on, and disabled events are not.
        0x0104 Pong(number: u64 = Number),
    }
}

messages! {
    /// Messages from the agent to a traced program.
    pub enum ToApplication up to BODY_SIZE_MAX {
        /// Adds a channel. Passes two descriptors: the memory of the channel's rings, and an
        /// eventfd that wakes the agent.
        0x2201 AddChannel(channel: AddChannel = RecordForm),
        /// Removes the channel with this number: the program stops recording into it and unmaps its
        /// memory.
        0x0202 RemoveChannel(channel: u32 = Number),
        /// Adds a rule to a channel, pending until `Apply`. At most
        /// [`RULES_MAX`](crate::limits::RULES_MAX) rules may be pending.
        0x0203 Rule(rule: ChannelRule = RecordForm),
        /// Replaces the rules of the channel with this number by the rules received since its last
        /// `Apply`.
        0x0204 Apply(channel: u32 = Number),
        /// Sets the sampling rules: `1/100`, `50/s`, or both with a comma between. `None` leaves
        /// sampling to the program.
        0x0205 Sampling(rules: Option<String> = Optional(SAMPLING)),
        /// Requests a `Pong` with the same number once all earlier messages have taken effect.
        0x0206 Ping(number: u64 = Number),
        /// All messages before the `Ping` with this number have taken effect.
        0x0207 Pong(number: u64 = Number),
        /// Releases the orphan with this number: its packets are stored elsewhere or not needed,
        /// and the program unmaps its memory.
        0x0208 Release(orphan: u32 = Number),
        /// Turns an orphan into a channel of this agent, which has read its rings and continues to
        /// read them. Rules stay in force.
        0x0209 KeepChannel(channel: KeepChannel = RecordForm),
    }
}

record! {
    /// Rings made by an earlier agent, which has ended.
    #[derive(Copy)]
    pub struct Orphan {
        /// The program's number for the orphan.
        pub number: u32 = Number,
        /// Whether other rings have replaced these, so that the program no longer records into
        /// them. If not, the agent replaces them ([`AddChannel::replaces`]), keeps them
        /// ([`KeepChannel`]) or releases them before the next `Ping`.
        pub is_spent: bool = Flag,
    }
}

record! {
    /// Type of the events of one instrumentation point in a program's source.
    pub struct EventType {
        /// The program's number for the event type.
        pub index: u32 = Number,
        /// `provider:name`.
        pub name: String = EVENT_NAME,
        /// Severity of the events.
        pub level: Level = RecordForm,
        /// Source file; empty if unknown.
        pub file: String = FILE,
        /// Line in the source file, from 1; 0 if unknown.
        pub line: u32 = Number,
        /// Fields in the order of their bytes, with distinct names.
        pub fields: Vec<Field> = Distinct {
            list: List { count_min: 0, count_max: FIELDS_MAX, of: RecordForm },
            name: |field: &Field| &field.name,
        },
    }
}

record! {
    /// Field of an event.
    pub struct Field {
        /// Name of the field: ASCII letters, digits and `_`, as in C.
        pub name: String = FIELD_NAME,
        /// Type of the field.
        pub kind: FieldKind = RecordForm,
    }
}

choice! {
    /// Type of a field. Bytes are little-endian, without padding.
    pub enum FieldKind {
        /// Unsigned integer.
        0 "unsigned" Unsigned {
            /// Size of the integer.
            width: Width = RecordForm,
            /// Whether viewers show the integer in hexadecimal.
            hex: bool = Flag,
        },
        /// Signed integer in two's complement.
        1 "signed" Signed {
            /// Size of the integer.
            width: Width = RecordForm,
            /// Whether viewers show the integer in hexadecimal.
            hex: bool = Flag,
        },
        /// Floating-point number, IEEE 754 binary32.
        2 "f32" F32,
        /// Floating-point number, IEEE 754 binary64.
        3 "f64" F64,
        /// Boolean: one byte, 0 or 1.
        4 "bool" Bool,
        /// UTF-8 text, terminated by a NUL.
        5 "string" String,
        /// Byte string: a length of 4 bytes, then that many bytes.
        6 "bytes" Bytes,
        /// Array with a fixed number of elements.
        7 "array" Array {
            /// Type of the elements.
            of: Scalar = RecordForm,
            /// Number of elements.
            count: u32 = Number,
        },
        /// Sequence: a count of 4 bytes, then that many elements.
        8 "sequence" Sequence {
            /// Type of the elements.
            of: Scalar = RecordForm,
        },
        /// Integer with labels for some values.
        9 "enum" Enum {
            /// Whether the integer is signed (two's complement).
            is_signed: bool = Flag,
            /// Size of the integer.
            width: Width = RecordForm,
            /// Labels, in the order of declaration.
            labels: Vec<Label> = List { count_min: 1, count_max: LABELS_MAX, of: RecordForm },
        },
    }
}

choice! {
    /// Element type of arrays and sequences.
    #[derive(Copy)]
    pub enum Scalar {
        /// Unsigned integer.
        0 "unsigned" Unsigned {
            /// Size of the integer.
            width: Width = RecordForm,
            /// Whether viewers show the integer in hexadecimal.
            hex: bool = Flag,
        },
        /// Signed integer in two's complement.
        1 "signed" Signed {
            /// Size of the integer.
            width: Width = RecordForm,
            /// Whether viewers show the integer in hexadecimal.
            hex: bool = Flag,
        },
        /// Floating-point number, IEEE 754 binary32.
        2 "f32" F32,
        /// Floating-point number, IEEE 754 binary64.
        3 "f64" F64,
        /// Boolean: one byte, 0 or 1.
        4 "bool" Bool,
    }
}

impl Scalar {
    /// Returns the size in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Scalar::Unsigned { width, .. } | Scalar::Signed { width, .. } => width.bytes(),
            Scalar::F32 => 4,
            Scalar::F64 => 8,
            Scalar::Bool => 1,
        }
    }
}

record! {
    /// Label of an enumeration.
    pub struct Label {
        /// Text of the label.
        pub name: String = LABEL,
        /// Value that the label names, as 64 bits.
        pub value: u64 = Number,
    }
}

choice! {
    /// Size of an integer.
    #[derive(Copy)]
    #[allow(missing_docs, reason = "the names say it")]
    pub enum Width {
        0 "8" Bits8,
        1 "16" Bits16,
        2 "32" Bits32,
        3 "64" Bits64,
    }
}

impl Width {
    /// Returns the size in bytes.
    pub const fn bytes(self) -> usize {
        1 << self as usize
    }
}

record! {
    /// Channel that a program records into.
    pub struct AddChannel {
        /// The agent's number for the channel, unique in the program.
        pub channel: u32 = Number,
        /// Name of the channel's session, for display.
        pub session: String = NAME,
        /// Contexts recorded before the fields of each event, in this order.
        pub contexts: Vec<Context> = contexts(),
        /// Number of the orphan that these rings replace. The program switches from the orphan to
        /// these rings between two events, so each event is in one of the two. Rules stay in force.
        pub replaces: Option<u32> = Optional(Number),
    }
}

record! {
    /// Orphan that becomes a channel of this agent.
    #[derive(Copy)]
    pub struct KeepChannel {
        /// The agent's number for the channel, unique in the program.
        pub channel: u32 = Number,
        /// Number of the orphan, which no other rings have replaced.
        pub orphan: u32 = Number,
    }
}

record! {
    /// Rule for a channel. A later rule takes precedence over earlier ones.
    pub struct ChannelRule {
        /// Number of the channel.
        pub channel: u32 = Number,
        /// The rule.
        pub rule: EventRule = RecordForm,
    }
}

record! {
    /// Rule that enables or disables the events selected by name, level and filter; all three
    /// conditions must hold.
    pub struct EventRule {
        /// Whether the events are recorded.
        pub enabled: bool = Flag,
        /// Patterns of which at least one must match the event's name.
        pub names: Vec<String> = List { count_min: 1, count_max: PATTERNS_MAX, of: PATTERN },
        /// Patterns of which none may match the event's name.
        pub excluded: Vec<String> = List { count_min: 0, count_max: PATTERNS_MAX, of: PATTERN },
        /// Permitted levels.
        pub levels: Levels = RecordForm,
        /// Filter that must hold for the event.
        pub filter: Option<String> = Optional(FILTER),
    }
}

impl EventRule {
    /// Makes a rule that enables all events whose name matches one of these patterns.
    pub fn of(names: impl IntoIterator<Item: Into<String>>) -> EventRule {
        let Selection { names, excluded, levels, filter, .. } = Selection::of(names);
        EventRule { enabled: true, names, excluded, levels, filter }
    }
}
