//! What is wrong with a batch or a span in it, and where. Start at [`Refusal`].

use std::fmt;

/// A span that is refused, or the place from which on a batch cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which span of the batch, counted from 0.
    pub span: u64,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In bytes since the batch's begin.
    pub offset: u64,
    /// What the format calls the field; empty if it is none's.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A field that each span must have is not there.
    Missing,
    /// An id of no digits or bytes.
    Empty,
    /// An id that is 0.
    Zero,
    /// An id of something else than `0-9a-f`.
    NotHex,
    /// An id of so many digits or bytes.
    IdSize {
        /// How many there are.
        size: usize,
        /// How many there may be.
        size_max: usize,
    },
    /// A number that is too small or too large for what it is.
    OutOfRange,
    /// Not the word of any kind of span.
    UnknownKind,
    /// Not what must be there.
    Expected(&'static str),
    /// It ends before.
    Ends,
    /// Lists and maps within each other, too many.
    TooDeep,
    /// More of something than permitted.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        count_max: u64,
    },
}

/// A fault on its way out. Boxed, as it is rare, and results that hold it are returned all the time.
pub(crate) type Result<T, E = Box<Fault>> = std::result::Result<T, E>;

impl Reason {
    #[cold]
    pub(crate) fn at(self, offset: usize) -> Box<Fault> {
        Box::new(Fault { offset: offset as u64, field: "", reason: self })
    }
}

/// Names the field that a fault is in.
pub(crate) trait Within {
    /// Unless something within it has been named.
    fn within(self, field: &'static str) -> Self;
}

impl<T> Within for Result<T> {
    #[inline]
    fn within(self, field: &'static str) -> Self {
        self.map_err(|fault| named(fault, field))
    }
}

#[cold]
fn named(mut fault: Box<Fault>, field: &'static str) -> Box<Fault> {
    if fault.field.is_empty() {
        fault.field = field;
    }
    fault
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "span {}, {}", self.span, self.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: ", self.offset)?;
        match self.field {
            "" => write!(f, "{}", self.reason),
            field => write!(f, "{field} {}", self.reason),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Missing => f.write_str("is missing"),
            Reason::Empty => f.write_str("is empty"),
            Reason::Zero => f.write_str("is 0"),
            Reason::NotHex => f.write_str("has something else than digits 0-9a-f"),
            Reason::IdSize { size, size_max } => {
                write!(f, "has size {size}, which may be at most {size_max}")
            }
            Reason::OutOfRange => f.write_str("is out of range"),
            Reason::UnknownKind => f.write_str("is no kind of span"),
            Reason::Expected(what) => write!(f, "should be {what}"),
            Reason::Ends => f.write_str("ends early"),
            Reason::TooDeep => f.write_str("is nested too deep"),
            Reason::TooMany { what, count_max } => write!(f, "has more than {count_max} {what}"),
        }
    }
}

impl std::error::Error for Refusal {}
impl std::error::Error for Fault {}
