//! What traced programs and the daemon say to each other.
//!
//! A program tells of each event type when it comes to know it, and the daemon tells which of them
//! to record, into which channels. It answers `Ping` when it has done all that came before.

use crate::Level;
use crate::channel::{Context, contexts};
use crate::form::{Distinct, Flag, Letters, List, Number, Optional, Own, Text};
use crate::limits::{
    APPLICATION_SIZE_MAX, BODY_SIZE_MAX, EVENT_NAME_SIZE_MAX, FIELD_NAME_SIZE_MAX, FIELDS_MAX,
    FILE_SIZE_MAX, FILTER_SIZE_MAX, NAME_SIZE_MAX, SAMPLING_SIZE_MAX,
};

/// Name of a session or channel.
pub(crate) const NAME: Text = Text::new(Letters::FileName, NAME_SIZE_MAX);
pub(crate) const FILTER: Text = Text::new(Letters::Lines, FILTER_SIZE_MAX);
pub(crate) const SAMPLING: Text = Text::new(Letters::Line, SAMPLING_SIZE_MAX);
const EVENT_NAME: Text = Text::new(Letters::Name, EVENT_NAME_SIZE_MAX);
const FIELD_NAME: Text = Text::new(Letters::Identifier, FIELD_NAME_SIZE_MAX);
const FILE: Text = Text::new(Letters::Line, FILE_SIZE_MAX);

messages! {
    /// From a traced program to the daemon.
    pub enum FromApplication up to APPLICATION_SIZE_MAX {
        /// It has an event type that it has not told of.
        0x0101 EventType(event_type: EventType = Own),
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
        /// An event is to be recorded.
        0x0203 Enable(enable: Enable = Own),
        /// An event is not to be recorded any more.
        0x0204 Disable(disable: Disable = Own),
        /// Which requests are followed, as rules of sampling: `1/100`, `50/s`, or both with a comma
        /// between. None: as the program itself decides.
        0x0205 Sampling(rules: Option<String> = Optional(SAMPLING)),
        /// To be answered with the same number, when all that was sent before has had its effect.
        0x0206 Ping(number: u64 = Number),
        /// All that was sent before the `Ping` of that number has had its effect.
        0x0207 Pong(number: u64 = Number),
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
    #[derive(Copy)]
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
    }
}

record! {
    /// Which event is recorded. It replaces what was said of this event and this channel.
    pub struct Enable {
        /// Number of the channel.
        pub channel: u32 = Number,
        /// Number of the event type.
        pub event: u32 = Number,
        /// The id that its events start with in this channel.
        pub class: u16 = Number,
        /// Only events that it is true for.
        pub filter: Option<String> = Optional(FILTER),
    }
}

record! {
    /// Which event is not recorded any more.
    pub struct Disable {
        /// Number of the channel.
        pub channel: u32 = Number,
        /// Number of the event type.
        pub event: u32 = Number,
    }
}
