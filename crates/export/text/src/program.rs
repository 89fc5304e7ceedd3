//! Compiled printing of the fields of an event class.
//!
//! Most event classes have only decimal integers and strings. For such a class the text around the
//! values is formatted once, from the start of the first scope to the end of the last. An event is
//! then printed in a single pass over its bytes: prefix, value, prefix, value.

use crate::number;
use crate::quote::{self, EscapeRules, LANE};
use blkkin_ctf::decode::{Node, NodeKind, PlainField, PlainKind, Visitor};
use blkkin_ctf::schema::{Base, IntKind};
use blkkin_reader::Text;

/// Steps that print the fields of events of one class.
#[derive(Debug)]
pub(crate) struct Program(Box<[Step]>);

#[derive(Clone, Copy, Debug)]
struct Step {
    /// Text before the value, in the first `prefix_length` bytes.
    prefix: [u8; PREFIX_SIZE],
    prefix_length: u8,
    /// Kind of value that follows the prefix; `None` for a step that prints only its prefix.
    value: Option<PlainKind>,
}

const PREFIX_SIZE: usize = 32;

/// Maximum number of bytes that a step writes at once: a prefix and an integer.
const OUTPUT_SIZE: usize = PREFIX_SIZE + number::NUMBER_SIZE;

/// Visitor that can print the text around a value separately from the value.
pub(crate) trait AffixPrinter: Visitor {
    /// Appends the text before a decimal integer or string, including a string's opening quote.
    fn prefix(&mut self, node: &Node);
    /// Appends the text that follows the value.
    fn suffix(&mut self, node: &Node);
    /// Returns the text printed so far.
    fn output(&self) -> &[u8];
}

impl Program {
    /// Compiles the printing of `fields`; `None` if a field is neither a decimal integer without
    /// labels nor a string in UTF-8 or ASCII.
    pub(crate) fn new(
        fields: &[PlainField],
        nodes: &[Node],
        affixes: &mut impl AffixPrinter,
    ) -> Option<Program> {
        let mut steps = Steps::default();
        let mut used = 0;
        for field in fields {
            let node = &nodes[field.node as usize];
            match field.kind {
                PlainKind::BeginScope(scope) => affixes.begin_scope(scope, node),
                PlainKind::EndScope(scope) => affixes.end_scope(scope),
                PlainKind::BeginStruct => affixes.begin_struct(node),
                PlainKind::EndStruct => affixes.end_struct(node),
                _ if !is_simple(node) => return None,
                value => {
                    affixes.prefix(node);
                    steps.push(&affixes.output()[used..], Some(value));
                    used = affixes.output().len();
                    affixes.suffix(node);
                }
            }
        }
        steps.push(&affixes.output()[used..], None);
        Some(Program(steps.0.into()))
    }

    /// Prints the fields of the event whose body begins at the start of `bytes`. Returns the body's
    /// size, or `None` if there are too few bytes.
    #[inline(always)]
    pub(crate) fn print<Q: EscapeRules>(&self, out: &mut Text, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        for step in &self.0 {
            let (magnitude, is_negative) = match step.value {
                // Scopes and structures were compiled into prefixes.
                None
                | Some(
                    PlainKind::BeginScope(_)
                    | PlainKind::EndScope(_)
                    | PlainKind::BeginStruct
                    | PlainKind::EndStruct,
                ) => {
                    step.print(out, |_, end| end);
                    continue;
                }
                Some(PlainKind::String) => {
                    at = step.print_string::<Q>(out, bytes, at)?;
                    continue;
                }
                Some(PlainKind::Text(length)) => {
                    let text = bytes.get(at..)?.get(..length as usize)?;
                    let used = memchr::memchr(0, text).unwrap_or(text.len());
                    step.print(out, |_, end| end);
                    quote::append::<Q>(out, &text[..used]);
                    at += text.len();
                    continue;
                }
                Some(PlainKind::U8) => {
                    (u8::from_le_bytes(read_array(bytes, &mut at)?).into(), false)
                }
                Some(PlainKind::U16) => {
                    (u16::from_le_bytes(read_array(bytes, &mut at)?).into(), false)
                }
                Some(PlainKind::U32) => {
                    (u32::from_le_bytes(read_array(bytes, &mut at)?).into(), false)
                }
                Some(PlainKind::U64) => (u64::from_le_bytes(read_array(bytes, &mut at)?), false),
                Some(PlainKind::I8) => {
                    split_sign(i8::from_le_bytes(read_array(bytes, &mut at)?).into())
                }
                Some(PlainKind::I16) => {
                    split_sign(i16::from_le_bytes(read_array(bytes, &mut at)?).into())
                }
                Some(PlainKind::I32) => {
                    split_sign(i32::from_le_bytes(read_array(bytes, &mut at)?).into())
                }
                Some(PlainKind::I64) => split_sign(i64::from_le_bytes(read_array(bytes, &mut at)?)),
            };
            step.print(out, |place, end| {
                place[end] = b'-';
                number::put_unsigned(place, end + usize::from(is_negative), magnitude)
            });
        }
        Some(at)
    }
}

impl Step {
    /// Appends the step's prefix and a value. `put` writes the value at the position that it
    /// receives, and returns the position after the value.
    #[inline(always)]
    fn print(&self, out: &mut Text, put: impl FnOnce(&mut [u8; OUTPUT_SIZE], usize) -> usize) {
        out.push_with(|place: &mut [u8; OUTPUT_SIZE]| {
            place[..PREFIX_SIZE].copy_from_slice(&self.prefix);
            // The remainder never changes the value, but lets the compiler drop the bounds checks.
            put(place, usize::from(self.prefix_length) % PREFIX_SIZE)
        });
    }

    /// Appends the prefix and the string at `at`. Returns the position of the next field, or `None`
    /// if `bytes` ends within the string.
    #[inline(always)]
    fn print_string<Q: EscapeRules>(
        &self,
        out: &mut Text,
        bytes: &[u8],
        at: usize,
    ) -> Option<usize> {
        // NUL counts as special, so a single search finds the string's end and bytes that need an
        // escape.
        if let Some(lane) = bytes.get(at..).and_then(|rest| rest.first_chunk::<LANE>()) {
            let length = quote::plain_length::<Q>(*lane);
            if lane.get(length) == Some(&0) {
                self.print(out, |place, end| {
                    place[end..end + LANE].copy_from_slice(lane);
                    end + length
                });
                return Some(at + length + 1);
            }
            if length == LANE {
                return self.print_long_string::<Q>(out, bytes, at, lane);
            }
        }
        self.print_any_string::<Q>(out, bytes, at)
    }

    /// Appends the prefix and the string at `at`. `first` contains the first 16 bytes of the
    /// string, none of which ends the string or needs an escape. Returns the same as
    /// [`Step::print_string`].
    #[inline(never)]
    fn print_long_string<Q: EscapeRules>(
        &self,
        out: &mut Text,
        bytes: &[u8],
        at: usize,
        first: &[u8; LANE],
    ) -> Option<usize> {
        let start = out.len();
        self.print(out, |place, end| {
            place[end..end + LANE].copy_from_slice(first);
            end + LANE
        });
        let (mut next, rest) = (at + LANE, bytes.get(at + LANE..)?);
        for lane in rest.as_chunks::<LANE>().0 {
            let length = quote::plain_length::<Q>(*lane);
            out.push_some(*lane, length);
            next += length;
            match lane.get(length) {
                None => {}
                Some(0) => return Some(next + 1),
                Some(_) => break,
            }
        }
        // A byte needs an escape, or the last lane of `bytes` is incomplete.
        out.truncate(start);
        self.print_any_string::<Q>(out, bytes, at)
    }

    #[inline(never)]
    fn print_any_string<Q: EscapeRules>(
        &self,
        out: &mut Text,
        bytes: &[u8],
        at: usize,
    ) -> Option<usize> {
        let rest = bytes.get(at..)?;
        let length = memchr::memchr(0, rest)?;
        self.print(out, |_, end| end);
        quote::append::<Q>(out, &rest[..length]);
        Some(at + length + 1)
    }
}

/// Returns true for a decimal integer without labels, and for a string in UTF-8 or ASCII.
fn is_simple(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Int { kind, base, labels: None, .. } => {
            matches!((kind, base), (IntKind::Unsigned | IntKind::Signed, Base::Decimal))
        }
        NodeKind::String(encoding) => encoding.unit_size() == 1,
        _ => false,
    }
}

#[derive(Default)]
struct Steps(Vec<Step>);

impl Steps {
    /// Adds steps for the text `prefix` and the value after it, if any.
    fn push(&mut self, prefix: &[u8], value: Option<PlainKind>) {
        // A prefix is never full: a length of `PREFIX_SIZE` would count as 0 in `Step::print`.
        let mut chunks = prefix.chunks(PREFIX_SIZE - 1).peekable();
        loop {
            let chunk = chunks.next().unwrap_or(&[]);
            let mut prefix = [0; PREFIX_SIZE];
            prefix[..chunk.len()].copy_from_slice(chunk);
            let prefix_length = chunk.len() as u8;
            let is_last = chunks.peek().is_none();
            let value = value.filter(|_| is_last);
            self.0.push(Step { prefix, prefix_length, value });
            if is_last {
                return;
            }
        }
    }
}

fn split_sign(value: i64) -> (u64, bool) {
    (value.unsigned_abs(), value < 0)
}

#[inline(always)]
fn read_array<const N: usize>(bytes: &[u8], at: &mut usize) -> Option<[u8; N]> {
    let array = *bytes.get(*at..)?.first_chunk()?;
    *at += N;
    Some(array)
}
