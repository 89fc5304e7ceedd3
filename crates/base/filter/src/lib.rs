//! BlkKin's one filter language: from text to a typed tree, and from the tree to true or false for
//! an event. It knows nothing of traces: a host binds each [`Operand`] of a [`Filter`] to its own
//! events, and answers for them through [`Values`]. Or it compiles the tree ([`tree`]) to
//! something else: a check in a tracer, eBPF, SQL.
//!
//! ```
//! use blkkin_filter::{Filter, Value, Values};
//!
//! let filter = Filter::parse(r#"len >= 4096 && name == "open*""#).unwrap();
//! let names: Vec<String> = filter.operands().iter().map(ToString::to_string).collect();
//! assert_eq!(names, ["len", "name"]);
//! let event = [Value::Uint(8192), Value::Str(b"openat")];
//! assert!(filter.eval(&event[..]));
//! ```
//!
//! # The language
//!
//! It looks like a condition in C, and accepts what LTTng's `--filter` accepts.
//!
//! ```text
//! filter     = expression
//! expression = unary { infix unary }
//! infix      = one of, from loose to tight, all left-associative:
//!              "||"   "&&"   "==" "!="   "<" "<=" ">" ">="   "|"   "^"   "&"
//!              "<<" ">>"   "+" "-"   "*" "/" "%"
//! unary      = ( "!" | "-" | "+" | "~" ) unary | primary
//! primary    = number | string | character | field | "has" "(" field ")" | "(" expression ")"
//! field      = path                         of the payload, or else a pseudo-field
//!            | "$ctx" "." path              context
//!            | "$app" "." path              application context, its name PROVIDER:TYPE
//!            | "$event" "." NAME            pseudo-field
//!            | "$env" "." path              environment of the trace
//!            | "$packet" "." path           context of the packet
//! path       = NAME { "." ( NAME | string ) | "[" integer "]" }      ("->" is the same as ".")
//! NAME       = letter or "_", then letters, digits, "_" and ":"
//! number     = 12  0x1f  0b101  017  1.5  1e3  .5  0x1p-3, or with a unit: 5ms  1.5s
//!              units: ns us ms s m h; the value is in (whole) nanoseconds
//! string     = "…" with C's escapes; "*" stands for any bytes, "\*" for a star
//! character  = 'a', an integer
//! ```
//!
//! `/* … */` and `// …` are comments. Note that `&`, `^` and `|` bind tighter than comparisons, as
//! in LTTng and unlike in C: `flags & 4 == 4` is `(flags & 4) == 4`. In a name that starts with
//! `perf:`, a hyphen in front of a letter belongs to the name.
//!
//! **Pseudo-fields** are what every event has: `name`, `time` (ns since 1970), `cpu`, `severity`,
//! `pid`, `tid`, `procname`, `stream` (its id) and `trace` (its name). If the payload has a field of
//! that name, the bare name means the payload's and `$event.name` the pseudo-field.
//!
//! **Severity** compares with words, `severity <= warning`: emerg(ency), alert, crit(ical),
//! err(or), warning, notice, info, debug_system, debug_program, debug_process, debug_module,
//! debug_unit, debug_function, debug_line, debug. They are the numbers from 0, most severe, to 14.
//!
//! **Absent fields.** A condition is true or false, nothing else. If the event lacks a field, every
//! comparison with it is false, also `!=`; the field alone is false too; and arithmetic with it is
//! absent in turn. `has(field)` asks for it. So `!(a == 1)` holds for events without `a`, and
//! `a != 1` does not.
//!
//! **Kinds.** Numbers compare with numbers and strings with strings (by bytes); a comparison across
//! is false, and an error if it is evident from the text. A number is true if it is not 0; a string
//! is neither true nor false. A comparison's result is 1 or 0 where a number is wanted. An
//! enumeration is its integer, and with `==` and `!=` also compares with its labels.
//!
//! # Numbers
//!
//! - Integers have 64 bits, signed or unsigned. Literals are unsigned unless negative.
//! - Comparisons are exact: -1 is less than any unsigned number.
//! - `+ - * / %` wrap around. The result is unsigned if both sides are, else signed; but that of
//!   `-`, with one side or two, is always signed, so that `end - begin < 0` works.
//! - `& | ^ ~ << >>` work on the 64 bits, and the result is unsigned. They need integers. A shift
//!   by less than 0 or more than 63 is absent.
//! - `/` rounds towards zero, `%` has the dividend's sign and needs integers. Division by zero is
//!   absent, for floats too.
//! - An integer meeting a float becomes a float.
//!
//! # Where it differs from LTTng
//!
//! - LTTng takes all integers as signed, so that `field == 0xffffffffffffffff` is true for -1 there
//!   and false here, as is `~0 == -1`.
//! - To LTTng a missing field makes the whole expression false, here only the comparison.
//! - `'a'` is an integer here and a string there, and `'ab'` is an error.
//! - Errors here, and pointless there: integers that do not fit in 64 bits, names that start with a
//!   colon, `$app.NAME` without a provider, `<` with a pattern, `~` of a float.

pub mod eval;
pub mod glob;
pub mod operand;
pub mod severity;
pub mod tree;

mod check;
mod error;
mod lexer;
mod number;
mod parser;
mod print;
mod program;
mod suggest;
#[cfg(test)]
mod tests;

pub use error::FilterError;
pub use eval::{Integer, Labels, Value, Values};
pub use glob::Glob;
pub use operand::{Operand, OperandKind, Pseudo, Step};
pub use severity::{Severity, UnknownSeverity};
pub use suggest::suggest;
pub use tree::{Expr, Node, Span, Type};

use error::Fault;
use program::Program;

/// Longest text of a filter, in bytes.
pub const FILTER_SIZE_MAX: usize = 64 << 10;

/// A condition on events.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    root: Node,
    operands: Vec<Operand>,
    /// Of a tree that is higher than [`HEIGHT_MAX`].
    program: Option<Program>,
}

/// Height of trees that are evaluated as they are, which is twice as fast and takes some 200 bytes
/// of stack a level.
const HEIGHT_MAX: usize = 4;

impl Filter {
    /// Parses and checks a filter.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        if text.len() > FILTER_SIZE_MAX {
            let message = format!(
                "the filter has {} bytes; at most {FILTER_SIZE_MAX} are accepted",
                text.len()
            );
            return Err(FilterError::new("", Fault::new(Span::default(), message)));
        }
        let (program, root, operands) = parser::parse(text)
            .and_then(check::check)
            .and_then(|(root, operands)| {
                let is_high = root.height() > HEIGHT_MAX;
                let program = is_high.then(|| Program::new(&root)).transpose()?;
                Ok((program, root, operands))
            })
            .map_err(|fault| FilterError::new(text, fault))?;
        Ok(Filter { text: text.to_string(), root, operands, program })
    }

    /// Parses and checks a filter for events that are about to be recorded, which have no time, stream, trace,
    /// environment and packet yet. A filter that asks with `has(time)` means a field of the event's own.
    pub fn parse_for_recording(text: &str) -> Result<Filter, FilterError> {
        let filter = Filter::parse(text)?;
        let asked = filter.root.asked_for();
        let missing = filter.operands.iter().enumerate().find(|(index, operand)| {
            match (operand.kind, operand.pseudo()) {
                (OperandKind::Env | OperandKind::Packet, _) => true,
                (OperandKind::Payload, Some(pseudo)) => pseudo.is_late() && !asked.contains(index),
                (_, Some(pseudo)) => pseudo.is_late(),
                _ => false,
            }
        });
        let Some((_, operand)) = missing else { return Ok(filter) };
        let message = format!("`{operand}` does not exist while events are recorded");
        let of_its_own = matches!(operand.kind, OperandKind::Payload);
        let hint = match of_its_own {
            true => format!(
                "use it with `blkkin view --filter`; for a field of that name write \
                 `has({operand}) && …`"
            ),
            false => "use it with `blkkin view --filter`".to_owned(),
        };
        Err(FilterError::refused(&filter, operand.span, message, Some(hint)))
    }

    /// The text from which it was parsed, to which all spans refer.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The typed tree.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Every distinct field that the filter refers to, in order of appearance. The tree refers to
    /// them by index.
    pub fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// Whether an event passes.
    pub fn eval(&self, values: &(impl Values + ?Sized)) -> bool {
        match &self.program {
            None => eval::truth(&self.root, values),
            Some(program) => program.holds(values),
        }
    }
}
