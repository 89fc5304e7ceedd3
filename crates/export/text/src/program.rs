//! How the fields of an event class are printed, worked out once.
//!
//! Most events are nothing but decimal integers and strings. For them all text between the
//! values, from the first scope's brace to the last one's, is made beforehand, and an event is
//! printed in one pass over its bytes: words, value, words, value.

use crate::number;
use crate::quote::{self, LANE, Quotes};
use blkkin_ctf::decode::{Node, NodeKind, PlainField, PlainKind, Visitor};
use blkkin_ctf::schema::{Base, IntKind};
use blkkin_reader::Text;

/// Prints the fields of events of one class.
#[derive(Debug)]
pub(crate) struct Program(Box<[Step]>);

#[derive(Clone, Copy, Debug)]
struct Step {
    /// What comes before the value.
    words: [u8; WORDS_SIZE],
    words_length: u8,
    /// An integer or string; none if there are more words.
    value: Option<PlainKind>,
}

const WORDS_SIZE: usize = 32;

/// What words and a value may take.
const PLACE: usize = WORDS_SIZE + number::LONGEST;

/// A visitor that prints, and can print the words around a value alone.
pub(crate) trait Words: Visitor {
    /// Appends what comes before the value of a string or decimal integer, quote included.
    fn before(&mut self, node: &Node);
    /// Appends what comes behind it.
    fn behind(&mut self, node: &Node);
    /// All that was printed so far.
    fn printed(&self) -> &[u8];
}

impl Program {
    /// The program for events of `fields`, if all values are decimal integers or strings of bytes.
    pub(crate) fn new(
        fields: &[PlainField],
        nodes: &[Node],
        words: &mut impl Words,
    ) -> Option<Program> {
        let mut steps = Steps::default();
        let mut taken = 0;
        for field in fields {
            let node = &nodes[field.node as usize];
            match field.kind {
                PlainKind::BeginScope(scope) => words.begin_scope(scope, node),
                PlainKind::EndScope(scope) => words.end_scope(scope),
                PlainKind::BeginStruct => words.begin_struct(node),
                PlainKind::EndStruct => words.end_struct(node),
                _ if !is_simple(node) => return None,
                value => {
                    words.before(node);
                    steps.push(&words.printed()[taken..], Some(value));
                    taken = words.printed().len();
                    words.behind(node);
                }
            }
        }
        steps.push(&words.printed()[taken..], None);
        Some(Program(steps.0.into()))
    }

    /// Prints the fields of the event whose body is at the start of `bytes`; gives its size, or
    /// `None` if there are too few bytes.
    #[inline(always)]
    pub(crate) fn print<Q: Quotes>(&self, out: &mut Text, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        for step in &self.0 {
            let (magnitude, is_negative) = match step.value {
                // Scopes and structures have become words.
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
                Some(PlainKind::U8) => (u8::from_le_bytes(take(bytes, &mut at)?).into(), false),
                Some(PlainKind::U16) => (u16::from_le_bytes(take(bytes, &mut at)?).into(), false),
                Some(PlainKind::U32) => (u32::from_le_bytes(take(bytes, &mut at)?).into(), false),
                Some(PlainKind::U64) => (u64::from_le_bytes(take(bytes, &mut at)?), false),
                Some(PlainKind::I8) => parts(i8::from_le_bytes(take(bytes, &mut at)?).into()),
                Some(PlainKind::I16) => parts(i16::from_le_bytes(take(bytes, &mut at)?).into()),
                Some(PlainKind::I32) => parts(i32::from_le_bytes(take(bytes, &mut at)?).into()),
                Some(PlainKind::I64) => parts(i64::from_le_bytes(take(bytes, &mut at)?)),
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
    /// Prints the words, and a value that `put` writes at the place that it is given; it gives
    /// where the value ends.
    #[inline(always)]
    fn print(&self, out: &mut Text, put: impl FnOnce(&mut [u8; PLACE], usize) -> usize) {
        out.push_with(|place: &mut [u8; PLACE]| {
            place[..WORDS_SIZE].copy_from_slice(&self.words);
            // Never more; but so the compiler knows, and need not check places from here on.
            put(place, usize::from(self.words_length) % WORDS_SIZE)
        });
    }

    /// Prints the words and the string at `at`; gives where the next field starts.
    #[inline(always)]
    fn print_string<Q: Quotes>(&self, out: &mut Text, bytes: &[u8], at: usize) -> Option<usize> {
        // A NUL is a byte that no string can hold as it is, so that one search finds both the end
        // and whether anything needs an escape.
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

    /// Prints the words and the string at `at`, which is longer than its `first` lane, as
    /// [`Step::print_string`] does.
    #[inline(never)]
    fn print_long_string<Q: Quotes>(
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
        // Something needs an escape, or the last lane of `bytes` is not whole.
        out.truncate(start);
        self.print_any_string::<Q>(out, bytes, at)
    }

    #[inline(never)]
    fn print_any_string<Q: Quotes>(
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

/// Whether a value is printed as a decimal integer or as a string of bytes.
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
    /// Adds a value and the words before it.
    fn push(&mut self, words: &[u8], value: Option<PlainKind>) {
        // Never full: a length of `WORDS_SIZE` would count as 0 in `Step::print`.
        let mut chunks = words.chunks(WORDS_SIZE - 1).peekable();
        loop {
            let chunk = chunks.next().unwrap_or(&[]);
            let mut words = [0; WORDS_SIZE];
            words[..chunk.len()].copy_from_slice(chunk);
            let words_length = chunk.len() as u8;
            let is_last = chunks.peek().is_none();
            let value = value.filter(|_| is_last);
            self.0.push(Step { words, words_length, value });
            if is_last {
                return;
            }
        }
    }
}

fn parts(value: i64) -> (u64, bool) {
    (value.unsigned_abs(), value < 0)
}

#[inline(always)]
fn take<const N: usize>(bytes: &[u8], at: &mut usize) -> Option<[u8; N]> {
    let taken = *bytes.get(*at..)?.first_chunk()?;
    *at += N;
    Some(taken)
}
