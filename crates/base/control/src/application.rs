//! Messages between traced programs and the agent.
//!
//! A program sends the agent a file with its event types, its [`catalog`](crate::catalog). The
//! agent selects the events to record into each channel. It sends the selection as rules, so that
//! the first event of a new type is recorded too. Both program and agent answer a `Ping` once all
//! earlier messages have taken effect.

use crate::channel::{Context, contexts};
use crate::encoding::{Distinct, Flag, List, Number, Optional, RecordForm};
use crate::handshake::REASON;
use crate::limits::{APPLICATION_SIZE_MAX, BODY_SIZE_MAX, FIELDS_MAX, LABELS_MAX, PATTERNS_MAX};
use crate::redaction::{Redaction, redactions};
use crate::selection::{Levels, PATTERN, Selection};
use crate::text::{EVENT_NAME, FIELD_NAME, FILE, FILTER, LABEL, NAME, SAMPLING};
use blkkin_filter::Severity as Level;

messages! {
    /// Messages from a traced program to the agent.
    pub enum FromApplication up to APPLICATION_SIZE_MAX {
        /// Passes the memory file of the program's [`catalog`](crate::catalog), as one descriptor.
        /// The catalog lists the program's event types. Sent once, before the first `Pong`.
        0x1101 Catalog,
        /// Offers rings that the program received over an earlier connection, as one descriptor of
        /// their memory. The program offers older rings first, and all of them before `Catalog`.
        0x1105 Orphan(orphan: Orphan = RecordForm),
        /// Announces that the program ends. The agent drains the program's rings until the
        /// connection ends, and does not wait for the program to reconnect.
        0x0102 Goodbye,
        /// Requests a `Pong` with the same number once all earlier messages have taken effect. If
        /// `Catalog` is among them, the agent has sent the program's channels and rules by then.
        0x0103 Ping(number: u64 = Number),
        /// Confirms that all messages before the `Ping` with this number have taken effect. Enabled
        /// events are recorded from now on, and disabled events are not.
        0x0104 Pong(number: u64 = Number),
        /// Replaces the rings of a channel, which has this number, by rings in the memory of an
        /// eBPF map, as one descriptor. Only the tracer of the kernel sends this: programs in the
        /// kernel cannot write to the memory that `AddChannel` passes. The new rings have the
        /// identity and the sizes of the replaced ones.
        0x1106 KernelRings(channel: u32 = Number),
        /// Reports that events of a rule cannot be recorded. Only the tracer of the kernel sends
        /// this.
        0x0107 Unavailable(unavailable: Unavailable = RecordForm),
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
        /// [`RULES_MAX`](crate::limits::RULES_MAX) rules of a channel may be pending.
        0x0203 Rule(rule: ChannelRule = RecordForm),
        /// Replaces the rules of the channel with this number by the rules received since the
        /// channel's last `Apply`.
        0x0204 Apply(channel: u32 = Number),
        /// Sets the sampling rules: `1/100`, `50/s`, or both with a comma between. `None` leaves
        /// sampling to the program.
        0x0205 Sampling(rules: Option<String> = Optional(SAMPLING)),
        /// Requests a `Pong` with the same number once all earlier messages have taken effect. The
        /// program also removes orphans: see [`Orphan::is_spent`].
        0x0206 Ping(number: u64 = Number),
        /// Confirms that all messages before the `Ping` with this number have taken effect.
        0x0207 Pong(number: u64 = Number),
        /// Releases the orphan with this number: the agent has stored the orphan's packets, or
        /// gives them up. The program unmaps the memory of an orphan that is not spent, and closes
        /// the memory's descriptor.
        0x0208 Release(orphan: u32 = Number),
        /// Turns an orphan back into a channel. The agent made the orphan's rings for an earlier
        /// connection and continues to read them. The channel's rules stay in force until `Apply`.
        0x0209 KeepChannel(channel: KeepChannel = RecordForm),
        /// Adds a rule to a channel of the kernel, pending until `Apply`. The tracer of the kernel
        /// gets this in place of `Rule`, since it selects the processes.
        0x020a KernelRule(rule: KernelRule = RecordForm),
        /// Tells the tracer of the kernel where the threads of a process show their current spans.
        0x020b SpanSlot(slot: SpanSlot = RecordForm),
        /// Requests that the tracer of the kernel records the machine's state once more into the
        /// channel with this number, because the channel's trace continues in a new chunk.
        0x0210 RecordState(channel: u32 = Number),
    }
}

record! {
    /// Place in a process where its threads show their current spans.
    #[derive(Copy)]
    pub struct SpanSlot {
        /// Process id as the agent sees it.
        pub process: u32 = Number,
        /// Word of the program's catalog, see [`SlotOffset`](crate::current_span::SlotOffset); 0
        /// once the process has no such place.
        pub offset: u64 = Number,
    }
}

record! {
    /// Rule for a channel of the kernel. A rule that disables probes overrides earlier rules of the
    /// channel.
    pub struct KernelRule {
        /// Number that the agent assigned to the channel ([`AddChannel::channel`]).
        pub channel: u32 = Number,
        /// Set if the rule enables the selected probes, clear if it disables them.
        pub enabled: bool = Flag,
        /// Probes, by their text or a pattern of it, and the processes that they record.
        pub selection: Selection = RecordForm,
        /// Redactions of the events' fields.
        pub redactions: Vec<Redaction> = redactions(0),
    }
}

record! {
    /// Events that a channel of the kernel cannot record.
    pub struct Unavailable {
        /// Number that the agent assigned to the channel ([`AddChannel::channel`]).
        pub channel: u32 = Number,
        /// The probe, and the reason why it cannot be attached.
        pub reason: String = REASON,
    }
}

record! {
    /// Rings of a channel that the program received over an earlier connection, from this agent or
    /// an earlier one.
    #[derive(Copy)]
    pub struct Orphan {
        /// Number by which the program identifies the orphan, unique on this connection.
        pub number: u32 = Number,
        /// Set if other rings have replaced the orphan, so that the program no longer records into
        /// it. Otherwise the program removes the orphan at the next `Ping`, unless the agent has
        /// replaced ([`AddChannel::replaces`]) or kept it ([`KeepChannel`]).
        pub is_spent: bool = Flag,
    }
}

record! {
    /// Description of the events that one instrumentation point of a program records.
    pub struct EventType {
        /// Number of the event type, assigned by the program and unique within it.
        pub index: u32 = Number,
        /// Name in the form `provider:name`.
        pub name: String = EVENT_NAME,
        /// Severity (log level) of all events of this type.
        pub level: Level = RecordForm,
        /// Path of the source file with the instrumentation point; empty if unknown.
        pub file: String = FILE,
        /// Line of the instrumentation point in the source file, from 1; 0 if unknown.
        pub line: u32 = Number,
        /// Fields in the order in which an event stores them. Their names are distinct.
        pub fields: Vec<Field> = Distinct {
            list: List { count_min: 0, count_max: FIELDS_MAX, of: RecordForm },
            name: |field: &Field| &field.name,
        },
    }
}

record! {
    /// Description of one field in an event type.
    pub struct Field {
        /// Name of the field: ASCII letters, digits and `_`, as in C.
        pub name: String = FIELD_NAME,
        /// Encoding of the field's value.
        pub kind: FieldKind = RecordForm,
    }
}

choice! {
    /// Type of a field. Values are little-endian and have no padding.
    pub enum FieldKind {
        /// Unsigned integer, little-endian.
        0 "unsigned" Unsigned {
            /// Size of the integer in bits.
            width: Width = RecordForm,
            /// Set if viewers show the integer in hexadecimal.
            hex: bool = Flag,
        },
        /// Signed integer in two's complement.
        1 "signed" Signed {
            /// Size of the integer in bits.
            width: Width = RecordForm,
            /// Set if viewers show the integer in hexadecimal.
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
        /// Array with a fixed number of elements, stored without a count.
        7 "array" Array {
            /// Type that all elements have.
            of: Scalar = RecordForm,
            /// Number of elements, the same in each event of the type.
            count: u32 = Number,
        },
        /// Sequence: a count of 4 bytes, then that many elements.
        8 "sequence" Sequence {
            /// Type that all elements have.
            of: Scalar = RecordForm,
        },
        /// Integer with labels for some values.
        9 "enum" Enum {
            /// Set if the integer is signed (two's complement).
            is_signed: bool = Flag,
            /// Size of the integer in bits.
            width: Width = RecordForm,
            /// Labels in the order of their declaration in the program.
            labels: Vec<Label> = List { count_min: 1, count_max: LABELS_MAX, of: RecordForm },
        },
    }
}

choice! {
    /// Element type of arrays and sequences.
    #[derive(Copy)]
    pub enum Scalar {
        /// Unsigned integer, little-endian.
        0 "unsigned" Unsigned {
            /// Size of the integer in bits.
            width: Width = RecordForm,
            /// Set if viewers show the integer in hexadecimal.
            hex: bool = Flag,
        },
        /// Signed integer in two's complement.
        1 "signed" Signed {
            /// Size of the integer in bits.
            width: Width = RecordForm,
            /// Set if viewers show the integer in hexadecimal.
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
    /// Returns the size of a value of this type in an event, in bytes.
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
    /// Label of an enumeration: a name for one value.
    pub struct Label {
        /// Text that viewers show instead of the value.
        pub name: String = LABEL,
        /// Labelled value, extended to 64 bits.
        pub value: u64 = Number,
    }
}

choice! {
    /// Size of an integer: 8, 16, 32 or 64 bits.
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
    /// Converts the size from bits to bytes.
    pub const fn bytes(self) -> usize {
        1 << self as usize
    }
}

record! {
    /// Channel to add to a program. The program records into the channel's rings once the channel
    /// has rules: after the first `Apply`, or at once if the rings replace an orphan, whose rules
    /// stay in force.
    pub struct AddChannel {
        /// Number of the channel, assigned by the agent and unique among the agent's channels in
        /// the program.
        pub channel: u32 = Number,
        /// Name of the channel's session, for display.
        pub session: String = NAME,
        /// Contexts that precede the fields of each event, in this order.
        pub contexts: Vec<Context> = contexts(),
        /// Number of the orphan that the new rings replace; `None` if they replace none. The
        /// program switches between two events, so each event is either in the orphan or in the new
        /// rings. The channel's rules stay in force until `Apply`.
        pub replaces: Option<u32> = Optional(Number),
    }
}

record! {
    /// Orphan that becomes a channel again, with its rings and rules.
    #[derive(Copy)]
    pub struct KeepChannel {
        /// Number of the channel, assigned by the agent and unique among the agent's channels in
        /// the program.
        pub channel: u32 = Number,
        /// Number of the orphan. No other rings may have replaced it.
        pub orphan: u32 = Number,
    }
}

record! {
    /// Rule for a channel. A rule that disables events overrides earlier rules of the channel;
    /// rules that enable events add up.
    pub struct ChannelRule {
        /// Number that the agent assigned to the channel ([`AddChannel::channel`]).
        pub channel: u32 = Number,
        /// Rule to append to the channel's pending rules.
        pub rule: EventRule = RecordForm,
    }
}

record! {
    /// Rule that enables or disables events. It selects them by name, level and filter; all three
    /// conditions must hold. Only a rule that enables events has a filter.
    pub struct EventRule {
        /// Set if the rule enables the selected events, clear if it disables them.
        pub enabled: bool = Flag,
        /// Patterns of which at least one must match the event's name.
        pub names: Vec<String> = List { count_min: 1, count_max: PATTERNS_MAX, of: PATTERN },
        /// Patterns of which none may match the event's name.
        pub excluded: Vec<String> = List { count_min: 0, count_max: PATTERNS_MAX, of: PATTERN },
        /// Severity levels of the selected events.
        pub levels: Levels = RecordForm,
        /// Source text of a filter that must hold for the event; `None` selects all events.
        pub filter: Option<String> = Optional(FILTER),
    }
}

impl EventRule {
    /// Makes a rule that enables all events whose name matches one of these patterns.
    pub fn for_names(names: impl IntoIterator<Item: Into<String>>) -> EventRule {
        let Selection { names, excluded, levels, filter, .. } = Selection::for_names(names);
        EventRule { enabled: true, names, excluded, levels, filter }
    }
}
