//! What traced programs and the daemon say to each other.
//!
//! A program says where it tells its event types (its [`catalog`](crate::catalog)), and the daemon which
//! events it is to record into which channels: by rules, so that the first event of a type that nobody
//! knew counts too. Either side answers `Ping` when it has done all that came before.

use crate::channel::{Context, contexts};
use crate::form::{Distinct, Flag, List, Number, Optional, Own};
use crate::limits::{APPLICATION_SIZE_MAX, BODY_SIZE_MAX, FIELDS_MAX, LABELS_MAX, PATTERNS_MAX};
use crate::selection::{Levels, PATTERN, Selection};
use crate::text::{EVENT_NAME, FIELD_NAME, FILE, FILTER, LABEL, NAME, SAMPLING};
use blkkin_filter::Severity as Level;

messages! {
    /// From a traced program to the daemon.
    pub enum FromApplication up to APPLICATION_SIZE_MAX {
        /// It tells its event types in a file of memory, its [`catalog`](crate::catalog). With one
        /// descriptor, of that file. Once, before the first `Pong`.
        0x1101 Catalog,
        /// It has rings of a channel that an earlier daemon gave it, which has gone. With one descriptor, of
        /// their memory. Older ones first, and all before `Catalog`.
        0x1105 Orphan(orphan: Orphan = Own),
        /// It ends. Its rings may be read once more, and then be given back.
        0x0102 Goodbye,
        /// To be answered with the same number, when all that was sent before has had its effect:
        /// then the daemon has told what to do with all event types so far.
        0x0103 Ping(number: u64 = Number),
        /// All that was sent before the `Ping` of that number has had its effect: what was enabled
        /// is recorded from now on, and what was disabled no more.
        0x0104 Pong(number: u64 = Number),
    }
}

messages! {
    /// From the daemon to a traced program.
    pub enum ToApplication up to BODY_SIZE_MAX {
        /// There is a channel. With two descriptors: the memory of its rings, and an eventfd to
        /// wake the daemon with.
        0x2201 AddChannel(channel: AddChannel = Own),
        /// Nothing is to be recorded into the channel of that number, and its memory is to be let
        /// go.
        0x0202 RemoveChannel(channel: u32 = Number),
        /// One more rule for a channel, not in force yet. At most
        /// [`RULES_MAX`](crate::limits::RULES_MAX) come before `Apply`.
        0x0203 Rule(rule: ChannelRule = Own),
        /// The rules that came for the channel of that number since its last `Apply` are in force now, in
        /// place of those before.
        0x0204 Apply(channel: u32 = Number),
        /// Which requests are followed, as rules of sampling: `1/100`, `50/s`, or both with a comma
        /// between. None: as the program itself decides.
        0x0205 Sampling(rules: Option<String> = Optional(SAMPLING)),
        /// To be answered with the same number, when all that was sent before has had its effect.
        0x0206 Ping(number: u64 = Number),
        /// All that was sent before the `Ping` of that number has had its effect.
        0x0207 Pong(number: u64 = Number),
        /// All that is in the orphan of that number is safe elsewhere, or not wanted; its memory is to be let
        /// go.
        0x0208 Release(orphan: u32 = Number),
        /// The daemon has the rings of an orphan still, and goes on with them: they are a channel of its again.
        /// Rules stay in force.
        0x0209 KeepChannel(channel: KeepChannel = Own),
    }
}

record! {
    /// Rings of a daemon that has gone.
    #[derive(Copy)]
    pub struct Orphan {
        /// The program's number for them.
        pub number: u32 = Number,
        /// Whether nothing is recorded into them any more, because others have replaced them. If not,
        /// [`AddChannel::replaces`] does so before the next `Ping`, or they are kept by
        /// [`KeepChannel`], or they are let go then.
        pub is_spent: bool = Flag,
    }
}

record! {
    /// What a program can record at some place of its text.
    pub struct EventType {
        /// The program's number for it.
        pub index: u32 = Number,
        /// `provider:name`.
        pub name: String = EVENT_NAME,
        /// How severe it is.
        pub level: Level = Own,
        /// Source file; empty if unknown.
        pub file: String = FILE,
        /// Line in it, from 1; 0 if unknown.
        pub line: u32 = Number,
        /// What it carries, in the order of the bytes. No two have the same name.
        pub fields: Vec<Field> = Distinct {
            list: List { count_min: 0, count_max: FIELDS_MAX, of: Own },
            name: |field: &Field| &field.name,
        },
    }
}

record! {
    /// A field of an event.
    pub struct Field {
        /// A name as in C: ASCII letters, digits and `_`.
        pub name: String = FIELD_NAME,
        /// What its bytes are.
        pub kind: FieldKind = Own,
    }
}

choice! {
    /// What the bytes of a field are. They are little-endian, with nothing between them.
    pub enum FieldKind {
        /// Not negative.
        0 "unsigned" Unsigned {
            /// Its size.
            width: Width = Own,
            /// Whether people want to see it in hexadecimal.
            hex: bool = Flag,
        },
        /// In two's complement.
        1 "signed" Signed {
            /// Its size.
            width: Width = Own,
            /// Whether people want to see it in hexadecimal.
            hex: bool = Flag,
        },
        /// IEEE 754 binary32.
        2 "f32" F32,
        /// IEEE 754 binary64.
        3 "f64" F64,
        /// A byte, 0 or 1.
        4 "bool" Bool,
        /// UTF-8, with a NUL at the end.
        5 "string" String,
        /// A length of 4 bytes, and so many bytes.
        6 "bytes" Bytes,
        /// As many numbers as the type says.
        7 "array" Array {
            /// Type of the elements.
            of: Scalar = Own,
            /// How many there are.
            count: u32 = Number,
        },
        /// A count of 4 bytes, and so many numbers.
        8 "sequence" Sequence {
            /// Type of the elements.
            of: Scalar = Own,
        },
        /// An integer of which values have labels.
        9 "enum" Enum {
            /// Values are signed, in two's complement.
            is_signed: bool = Flag,
            /// Its size.
            width: Width = Own,
            /// In the order of their declaration.
            labels: Vec<Label> = List { count_min: 1, count_max: LABELS_MAX, of: Own },
        },
    }
}

choice! {
    /// A number, of which arrays and sequences have many.
    #[derive(Copy)]
    pub enum Scalar {
        /// Not negative.
        0 "unsigned" Unsigned {
            /// Its size.
            width: Width = Own,
            /// Whether people want to see it in hexadecimal.
            hex: bool = Flag,
        },
        /// In two's complement.
        1 "signed" Signed {
            /// Its size.
            width: Width = Own,
            /// Whether people want to see it in hexadecimal.
            hex: bool = Flag,
        },
        /// IEEE 754 binary32.
        2 "f32" F32,
        /// IEEE 754 binary64.
        3 "f64" F64,
        /// A byte, 0 or 1.
        4 "bool" Bool,
    }
}

impl Scalar {
    /// Size in bytes.
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
    /// A label of an enumeration.
    pub struct Label {
        /// Its text.
        pub name: String = LABEL,
        /// The value that it is for, as 64 bits.
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
    /// Size in bytes.
    pub const fn bytes(self) -> usize {
        1 << self as usize
    }
}

record! {
    /// A channel into which a program is to record.
    pub struct AddChannel {
        /// The daemon's number for it, among those that the program has.
        pub channel: u32 = Number,
        /// Name of its session, to be shown.
        pub session: String = NAME,
        /// What stands before the fields of each event, in this order.
        pub contexts: Vec<Context> = contexts(),
        /// Number of the orphan that these rings replace: from some event on events go here that went
        /// there, and each to one of them. Rules stay in force.
        pub replaces: Option<u32> = Optional(Number),
    }
}

record! {
    /// A channel into which a program is to record as before.
    #[derive(Copy)]
    pub struct KeepChannel {
        /// The daemon's number for it, among those that the program has.
        pub channel: u32 = Number,
        /// Number of the orphan that it is. Others have not replaced it.
        pub orphan: u32 = Number,
    }
}

record! {
    /// A rule for a channel. Later rules hold against earlier ones.
    pub struct ChannelRule {
        /// Number of the channel.
        pub channel: u32 = Number,
        /// What is enabled or disabled.
        pub rule: EventRule = Own,
    }
}

record! {
    /// Events that are to be recorded, or are not: those of which the name fits, the level fits and
    /// the filter is true.
    pub struct EventRule {
        /// Whether they are to be recorded.
        pub enabled: bool = Flag,
        /// The name fits one of these patterns, …
        pub names: Vec<String> = List { count_min: 1, count_max: PATTERNS_MAX, of: PATTERN },
        /// … and none of these.
        pub excluded: Vec<String> = List { count_min: 0, count_max: PATTERNS_MAX, of: PATTERN },
        /// How severe they are.
        pub levels: Levels = Own,
        /// What holds for them.
        pub filter: Option<String> = Optional(FILTER),
    }
}

impl EventRule {
    /// All events of which the name fits one of these patterns are to be recorded.
    pub fn of(names: impl IntoIterator<Item: Into<String>>) -> EventRule {
        let Selection { names, excluded, levels, filter, .. } = Selection::of(names);
        EventRule { enabled: true, names, excluded, levels, filter }
    }
}
