//! Parser and evaluator of BlkKin's filter language. A text is parsed into a typed tree, which is
//! evaluated for an event. The crate is independent of traces: a host binds each [`Operand`] of a
//! [`Filter`] to fields of its own events, and supplies the events' values through [`Values`]. A
//! host may also compile the tree ([`tree`]) to a form of its own, such as conditions on columns.
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
//! A filter looks like a condition in C. Filters that LTTng's `--filter` accepts are valid, with a
//! [few exceptions](#differences-from-lttng).
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
//! path       = NAME { "." ( NAME | string ) | "[" ( integer | string ) "]" }     ("->" means ".")
//! NAME       = letter or "_", then letters, digits, "_" and ":"
//! number     = 12  0x1f  0b101  017  1.5  1e3  .5  0x1p-3, or with a unit: 5ms  1.5s
//!              units: ns us ms s m h; the value is in (whole) nanoseconds
//! string     = "…" with C's escapes; "*" stands for any bytes, "\*" for a star
//! character  = 'a', an integer
//! ```
//!
//! `/* … */` and `// …` are comments. The operators `&`, `^` and `|` bind tighter than comparisons,
//! as in LTTng and unlike in C: `flags & 4 == 4` is `(flags & 4) == 4`. In a name that starts with
//! `perf:`, a hyphen in front of a letter belongs to the name.
//!
//! **Pseudo-fields** are an event's properties besides its payload: `name`, `time` (ns since 1970),
//! `cpu`, `severity`, `pid`, `tid`, `procname`, `stream` (its id) and `trace` (its name). A
//! property that was not recorded is absent. If the payload has a field with the name of a
//! pseudo-field, the bare name refers to the payload's field, and `$event.name` to the
//! pseudo-field.
//!
//! **Severity** compares with words, `severity <= warning`: emerg(ency), alert, crit(ical),
//! err(or), warning, notice, info, debug_system, debug_program, debug_process, debug_module,
//! debug_unit, debug_function, debug_line, debug. They stand for the numbers from 0, most severe,
//! to 14.
//!
//! **Absent fields.** A condition is either true or false. If the event lacks a field, every
//! comparison with the field is false, also `!=`; the field alone is false too; and arithmetic with
//! it is absent in turn. `has(field)` tests for the field. So `!(a == 1)` holds for events without
//! `a`, and `a != 1` does not.
//!
//! **Kinds.** Numbers compare with numbers and strings with strings (by bytes). A comparison of a
//! number with a string is false, and an error if it is evident from the text. The same holds for a
//! string as a condition. A number is true if it is not 0. A truth value is 1 or 0 as a number. An
//! enumeration has the value of its integer, and with `==` and `!=` also compares with its labels.
//!
//! # Numbers
//!
//! - Integers have 64 bits, signed or unsigned. Literals are unsigned unless negative.
//! - Comparisons of integers are exact: -1 is less than any unsigned number.
//! - `+ - * / %` wrap around. The result is unsigned if both sides are, else signed; but the result
//!   of `-`, unary or binary, is always signed, so that `end - begin < 0` works.
//! - `& | ^ ~ << >>` work on the 64 bits, and the result is unsigned. They need integers. A shift
//!   by less than 0 or more than 63 is absent.
//! - `/` of integers rounds towards zero, `%` has the dividend's sign and needs integers. Division
//!   by zero is absent, for floats too.
//! - In an operation of an integer and a float, the integer becomes a float.
//!
//! # Differences from LTTng
//!
//! - LTTng treats all integers as signed, so `field == 0xffffffffffffffff` is true for -1 in LTTng
//!   and false here, as is `~0 == -1`.
//! - A missing field makes the whole expression false in LTTng, and only the comparison here.
//! - `'a'` is a string in LTTng and an integer here, and `'ab'` is an error.
//! - LTTng accepts without effect, and BlkKin rejects: integers that do not fit in 64 bits, names
//!   that start with a colon, `$app.NAME` without a provider, `<` with a pattern, `~` of a float.

pub mod eval;
pub mod glob;
pub mod operand;
pub mod severity;
pub mod tree;

mod check;
mod error;
mod fault;
mod filter;
mod lexer;
mod number;
mod parser;
mod possible;
mod print;
mod program;
mod quote;
mod suggest;
#[cfg(test)]
mod tests;
mod token;
mod value;

pub use error::FilterError;
pub use filter::{FILTER_SIZE_MAX, Filter};
pub use glob::Glob;
pub use operand::{Operand, OperandKind, PseudoField, Step};
pub use severity::{Severity, UnknownSeverity};
pub use suggest::suggest;
pub use tree::{Expr, Node, Span, Type};
pub use value::{Integer, Labels, Value, Values};
