//! Faults in a batch or a span, with their position. Start at [`Refusal`].

use std::fmt;

/// A refused span with its fault, or the fault at which decoding of the batch stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Index of the refused span in the batch. If decoding stopped, index of the current or next
    /// span.
    pub span: u64,
    /// Position and reason of the fault.
    pub fault: Fault,
}

/// A fault in a batch or answer: its offset, its field and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Offset of the fault from the start of the batch or answer, in bytes.
    pub offset: u64,
    /// Name of the faulty field; empty if unknown.
    pub field: &'static str,
    /// Reason why the batch or span is faulty.
    pub reason: Reason,
}

/// Reason why a batch or span is faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A required field is missing.
    Missing,
    /// The id is empty.
    Empty,
    /// The id is 0, or a span id of OpenTelemetry is empty.
    Zero,
    /// The id contains characters other than `0-9a-f`.
    NotHex,
    /// The id is too long.
    IdSize {
        /// Size of the id in digits or bytes.
        size: usize,
        /// Maximum size of the id, in digits or bytes.
        size_max: usize,
    },
    /// The number is too small or too large for its field.
    OutOfRange,
    /// The name of the span kind is unknown.
    UnknownKind,
    /// The input lacks an expected item. The text names the item, such as `a list`.
    Expected(&'static str),
    /// The input ends in the middle of an item.
    Ends,
    /// Lists and maps are nested too deep.
    TooDeep,
    /// The number of items exceeds a limit.
    TooMany {
        /// Name of the counted items, such as `spans`.
        what: &'static str,
        /// Maximum number of these items.
        count_max: u64,
    },
}

/// Result with a boxed fault, so that the results of hot paths are small. Faults are rare.
pub(crate) type Result<T, E = Box<Fault>> = std::result::Result<T, E>;

impl Reason {
    #[cold]
    pub(crate) fn at(self, offset: usize) -> Box<Fault> {
        Box::new(Fault { offset: offset as u64, field: "", reason: self })
    }
}

/// Extension of [`Result`] that sets the field name of a fault.
pub(crate) trait FieldContext {
    /// Sets the field name of the fault, unless the fault has a field name.
    fn in_field(self, field: &'static str) -> Self;
}

impl<T> FieldContext for Result<T> {
    #[inline]
    fn in_field(self, field: &'static str) -> Self {
        self.map_err(|fault| with_field(fault, field))
    }
}

#[cold]
fn with_field(mut fault: Box<Fault>, field: &'static str) -> Box<Fault> {
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
