//! Random events of three types, and random filters of their fields. The texts use few letters, so
//! that many filters match.

use crate::event_format::EventFormat;
use crate::tracefs::{Argument, SystemCall};
use blkkin_control::{EventType, FieldKind};
use blkkin_sys::testing::Random;

/// Fields of the tracepoint: declaration, size, and whether it is signed.
const RECORD_FIELDS: [(&str, usize, u8); 14] = [
    ("u8 byte", 1, 0),
    ("s8 small", 1, 1),
    ("u16 half", 2, 0),
    ("short odd", 2, 1),
    ("u16 last_half", 2, 0),
    ("unsigned int word", 4, 0),
    ("pid_t pid", 4, 1),
    ("u64 big", 8, 0),
    ("long least", 8, 1),
    ("char comm[16]", 16, 0),
    ("u32 numbers[4]", 16, 0),
    ("__data_loc char[] text", 4, 0),
    ("__rel_loc char[] other", 4, 0),
    ("__data_loc u8[] bytes", 4, 0),
];
/// Size of the part of a record that is common to all events.
const COMMON_SIZE: usize = 8;
/// Number of words in the context of a system call.
const CALL_WORDS: usize = 8;

/// Context of a random event, with the memory to which it points.
#[derive(Debug)]
pub struct EventContext {
    /// Bytes for [`crate::testing::KernelFilter::passes`].
    pub bytes: Vec<u8>,
    memory: Vec<Vec<u8>>,
}

impl EventContext {
    /// Returns the format of the tracepoint whose records [`record`](Self::record) makes.
    pub fn format() -> EventFormat {
        let mut text = String::from(
            "name: event\nID: 7\nformat:\n\tfield:u64 common;\toffset:0;\tsize:8;\tsigned:0;\n\n",
        );
        let mut offset = COMMON_SIZE;
        for (declaration, size, signed) in RECORD_FIELDS {
            text += &format!(
                "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
            );
            offset += size;
        }
        text += "\nprint fmt: \"\"\n";
        EventFormat::parse(&text).expect("a valid format")
    }

    /// Makes a record of the tracepoint.
    pub fn record(random: &mut Random) -> EventContext {
        let mut bytes = vec![0; COMMON_SIZE];
        let mut dynamic = Vec::new();
        let start = COMMON_SIZE + RECORD_FIELDS.iter().map(|(_, size, _)| size).sum::<usize>();
        for (declaration, size, _) in RECORD_FIELDS {
            if declaration.contains("_loc") {
                let is_text = declaration.contains("char");
                let mut data = if is_text { text(random) } else { blob(random) };
                if is_text {
                    data.push(0);
                }
                let base = if declaration.contains("rel") { bytes.len() + 4 } else { 0 };
                let place = (start + dynamic.len() - base) | data.len() << 16;
                bytes.extend_from_slice(&(place as u32).to_le_bytes());
                dynamic.extend_from_slice(&data);
            } else if declaration.contains("comm") {
                let mut data = text(random);
                data.resize(size, b'a');
                if random.chance(90) {
                    data[random.below(size)] = 0;
                }
                bytes.extend_from_slice(&data);
            } else {
                for _ in 0..size.div_ceil(8) {
                    bytes.extend_from_slice(&number(random).to_le_bytes()[..size.min(8)]);
                }
            }
        }
        bytes.extend_from_slice(&dynamic);
        EventContext { bytes, memory: Vec::new() }
    }

    /// Returns descriptions of the two system calls whose contexts [`call`](Self::call) makes.
    pub fn calls() -> [SystemCall; 2] {
        let call = |arguments: &[(&str, &str)]| SystemCall {
            name: "call".to_owned(),
            number: 1,
            arguments: arguments
                .iter()
                .map(|(name, type_text)| Argument {
                    name: (*name).to_owned(),
                    type_text: (*type_text).to_owned(),
                    size: 8,
                })
                .collect(),
        };
        let path = ("filename", "const char *");
        [
            call(&[
                path,
                ("fd", "unsigned int"),
                ("count", "size_t"),
                ("mode", "umode_t"),
                ("uservaddr", "struct sockaddr *"),
                ("addrlen", "int"),
            ]),
            call(&[
                path,
                ("newname", "const char *"),
                ("fildes", "int *"),
                ("pos", "loff_t"),
                ("upeer_sockaddr", "struct sockaddr *"),
                ("upeer_addrlen", "int *"),
            ]),
        ]
    }

    /// Makes the context of a call of [`calls`](Self::calls).
    pub fn call(random: &mut Random, call: &SystemCall) -> EventContext {
        let mut context = EventContext { bytes: Vec::new(), memory: Vec::new() };
        for argument in &call.arguments {
            let data = match &*argument.type_text {
                "const char *" => [text(random), vec![0]].concat(),
                "struct sockaddr *" => [blob(random), vec![7; 256]].concat(),
                _ if argument.name == "upeer_addrlen" => random.below(200_u32).to_le_bytes().into(),
                "int *" => number(random).to_le_bytes().into(),
                _ => {
                    let number = match &*argument.name {
                        "addrlen" => random.below(200),
                        _ => number(random),
                    };
                    context.bytes.extend_from_slice(&number.to_le_bytes());
                    continue;
                }
            };
            let address = data.as_ptr().expose_provenance() as u64;
            let address = if random.chance(95) { address } else { 0 };
            context.bytes.extend_from_slice(&address.to_le_bytes());
            context.memory.push(data);
        }
        for _ in context.bytes.len() / 8..CALL_WORDS {
            context.bytes.extend_from_slice(&number(random).to_le_bytes());
        }
        context
    }
}

fn number(random: &mut Random) -> u64 {
    match random.below(5) {
        0 => random.next(),
        1 => random.below(3_u64).wrapping_sub(1),
        2 => i64::MIN.cast_unsigned().wrapping_add(random.below(3)).wrapping_sub(1),
        3 => random.below(70),
        _ => random.one_of(&[0x7f, 0x80, 0xff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 4096]),
    }
}

/// Makes a text, which may have the maximum length or be longer.
fn text(random: &mut Random) -> Vec<u8> {
    let length = match random.below(40) {
        0 => random.one_of(&[4000, 4094, 4095, 4096, 5000]),
        1..5 => random.below(100),
        _ => random.below(12),
    };
    (0..length).map(|_| random.one_of(b"aaab\xff/")).collect()
}

fn blob(random: &mut Random) -> Vec<u8> {
    let length = if random.chance(5) { random.below(1200) } else { random.below(12) };
    (0..length).map(|_| random.one_of(b"\0ab\xff")).collect()
}

/// Generator of random filters of the events of one type.
#[derive(Debug)]
pub struct RandomFilters {
    integers: Vec<String>,
    texts: Vec<String>,
    arrays: Vec<String>,
}

/// Fields of all events that have the same values in the kernel and in a trace.
const PSEUDO_FIELDS: [&str; 6] =
    ["pid", "tid", "$ctx.pid", "$event.pid", "$ctx.tid", "$event.severity"];
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "2",
    "-1",
    "-3",
    "7",
    "63",
    "64",
    "0x7f",
    "0xff",
    "'a'",
    "0x80000000",
    "4294967295",
    "18446744073709551615",
    "-9223372036854775808",
    "9223372036854775807",
];
const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const OPERATORS: [&str; 10] = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"];

impl RandomFilters {
    /// Creates a generator.
    pub fn new(of: &EventType) -> RandomFilters {
        let mut filters =
            RandomFilters { integers: Vec::new(), texts: Vec::new(), arrays: Vec::new() };
        for field in &of.fields {
            match field.kind {
                FieldKind::String => filters.texts.push(field.name.clone()),
                FieldKind::Bytes | FieldKind::Array { .. } => {
                    filters.arrays.push(field.name.clone());
                }
                _ => filters.integers.push(field.name.clone()),
            }
        }
        filters
    }

    /// Makes a filter, which may be too deep, or use too many texts, for the kernel.
    pub fn text(&self, random: &mut Random) -> String {
        let depth = 1 + random.below(5_usize);
        self.condition(random, depth)
    }

    fn condition(&self, random: &mut Random, depth: usize) -> String {
        let Some(depth) = depth.checked_sub(1) else {
            return format!("has({})", self.field(random));
        };
        let comparison = random.one_of(&COMPARISONS);
        match random.below(14) {
            0 => format!("!({})", self.condition(random, depth)),
            1 | 2 => self.chain(random, depth, " && "),
            3 | 4 => self.chain(random, depth, " || "),
            5 => self.number(random, depth),
            6 => format!("severity {comparison} warning"),
            7 => format!("{} {comparison} {}", self.string(random), self.string(random)),
            8 => format!("{} {comparison} {}", self.string(random), literal(random)),
            9 | 10 => {
                let equality = random.one_of(&COMPARISONS[..2]);
                format!("{} {equality} {}", self.string(random), pattern(random))
            }
            _ => {
                let (left, right) = (self.number(random, depth), self.number(random, depth));
                format!("({left}) {comparison} ({right})")
            }
        }
    }

    fn chain(&self, random: &mut Random, depth: usize, operator: &str) -> String {
        let count = 2 + random.below(3_usize);
        let conditions: Vec<String> =
            (0..count).map(|_| format!("({})", self.condition(random, depth))).collect();
        conditions.join(operator)
    }

    fn number(&self, random: &mut Random, depth: usize) -> String {
        let Some(depth) = depth.checked_sub(1) else {
            return match random.below(3) {
                0 => random.one_of(&NUMBERS).to_owned(),
                _ => self.field(random),
            };
        };
        match random.below(10) {
            0 => format!("-({})", self.number(random, depth)),
            1 => format!("~({})", self.number(random, depth)),
            2 => format!("({})", self.condition(random, depth)),
            3..6 => self.number(random, 0),
            _ => {
                let operator = random.one_of(&OPERATORS);
                let (left, right) = (self.number(random, depth), self.number(random, depth));
                format!("({left}) {operator} ({right})")
            }
        }
    }

    fn field(&self, random: &mut Random) -> String {
        let (texts, arrays) = (!self.texts.is_empty(), !self.arrays.is_empty());
        match random.below(12) {
            0 => random.one_of(&PSEUDO_FIELDS).to_owned(),
            1 => "nothing".to_owned(),
            2 if texts => random.one_of(&self.texts),
            3 if arrays => random.one_of(&self.arrays),
            4 | 5 if arrays => format!("{}[{}]", random.one_of(&self.arrays), random.below(6_u64)),
            _ if self.integers.is_empty() => PSEUDO_FIELDS[0].to_owned(),
            _ => random.one_of(&self.integers),
        }
    }

    /// Makes a text; most are fields.
    fn string(&self, random: &mut Random) -> String {
        match random.below(10) {
            0 => random.one_of(&["name", "$event.severity", "$event.name"]).to_owned(),
            1 => self.field(random),
            2 => literal(random),
            _ if self.texts.is_empty() => "$event.name".to_owned(),
            _ => random.one_of(&self.texts),
        }
    }
}

/// Makes a string literal without stars.
fn literal(random: &mut Random) -> String {
    let length = if random.chance(3) { 4080 + random.below(20) } else { random.below(5) };
    format!("\"{}\"", letters(random, length))
}

fn letters(random: &mut Random, length: usize) -> String {
    (0..length).map(|_| random.one_of(&["a", "a", "a", "b", "\\xff", "/"])).collect()
}

/// Makes a string literal with stars.
fn pattern(random: &mut Random) -> String {
    let pieces = 2 + random.below(3_usize);
    let piece = |_| {
        let length = if random.chance(5) { random.below(40) } else { random.below(4) };
        letters(random, length)
    };
    let pieces: Vec<String> = (0..pieces).map(piece).collect();
    format!("\"{}\"", pieces.join("*"))
}
