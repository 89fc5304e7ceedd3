//! Limit on the memory for a metadata text. A few bytes of text can describe many fields, so
//! readers count the memory of all parts of a schema against a [`Budget`] while they make them.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

/// Memory permitted for every text regardless of its size, in bytes: 12 MiB.
const BASE: usize = 12 << 20;
/// Additional memory permitted per byte of the text, in bytes.
const PER_BYTE: usize = 8;
/// Upper limit on the memory for a text, including the text itself, in bytes.
const MOST: usize = 208 << 20;

/// Permitted memory for one text, and the memory counted so far.
///
/// The budget and [`super::METADATA_SIZE_MAX`] keep a process that opens a trace below 256 MiB. A
/// process that opens a text of up to a megabyte needs at most 32 MiB more than an idle one.
pub(crate) struct Budget {
    limit: usize,
    /// Bytes of the schema, of the decoder to be compiled from it, and of data that the parser
    /// keeps to the end of the text. They are never released.
    permanent: Cell<usize>,
    /// Temporary bytes that have not been released. They are freed at the latest when the schema is
    /// complete.
    temporary: Cell<usize>,
}

/// Error of a text that exceeds its budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverBudget {
    limit: usize,
}

impl OverBudget {
    /// Hint for the author of a text that exceeds the budget: an aliased type counts at each use.
    pub(crate) const HINT: &str = "what stands behind a name counts wherever the name is used";
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit >> 20;
        write!(f, "its types, fields and labels would take more than {limit} MiB of memory")
    }
}

impl Budget {
    /// Makes the budget for a text of `text_size` bytes.
    pub(crate) fn of_text(text_size: usize) -> Budget {
        let limit = text_size.saturating_mul(PER_BYTE).saturating_add(BASE);
        let limit = limit.min(MOST.saturating_sub(text_size));
        Budget { limit, permanent: Cell::new(0), temporary: Cell::new(0) }
    }

    /// Counts bytes of the schema, of its decoder, or of data that the parser keeps to the end of
    /// the text. Fails if the budget is exceeded.
    #[inline]
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), OverBudget> {
        self.permanent.set(self.permanent.get().saturating_add(bytes));
        self.check()
    }

    /// Counts temporary bytes, which are freed before a later [`Budget::release_to`] or at the end
    /// of the text. Fails if the budget is exceeded.
    #[inline]
    pub(crate) fn charge_temporary(&self, bytes: usize) -> Result<(), OverBudget> {
        self.temporary.set(self.temporary.get().saturating_add(bytes));
        self.check()
    }

    /// Returns the current number of temporary bytes, for a later [`Budget::release_to`].
    pub(crate) fn passing(&self) -> usize {
        self.temporary.get()
    }

    /// Lowers the number of temporary bytes to `passing`, usually an earlier result of
    /// [`Budget::passing`]. The bytes no longer counted must have been freed.
    pub(crate) fn release_to(&self, passing: usize) {
        self.temporary.set(passing);
    }

    #[inline]
    fn check(&self) -> Result<(), OverBudget> {
        match self.permanent.get().saturating_add(self.temporary.get()) <= self.limit {
            true => Ok(()),
            false => Err(OverBudget { limit: self.limit }),
        }
    }
}

/// Returns the memory that an allocation of `bytes` takes, in bytes: allocators round up, and add a
/// word of their own.
#[inline]
pub(crate) fn allocation(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        _ => (bytes.saturating_add(8 + 15) & !15).max(32),
    }
}

/// Returns the memory that a name owns, in bytes; 0 if the name borrows from the text.
#[allow(clippy::ptr_arg, reason = "whether it is a piece is what matters")]
pub(crate) fn owned_size(name: &Cow<'_, str>) -> usize {
    match name {
        Cow::Borrowed(_) => 0,
        Cow::Owned(name) => allocation(name.len()),
    }
}

/// Returns the worst-case memory of an entry in a hash table, in bytes. Just after the table has
/// grown, half of it is empty, and the previous table still exists.
pub(crate) const fn table_entry<K, V>() -> usize {
    (size_of::<(K, V)>() + 1) * 7 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_texts_may_take_more_but_not_without_end() {
        let check = |text_size, expected| assert_eq!(Budget::of_text(text_size).limit, expected);
        check(0, 12 << 20);
        check(1 << 20, 20 << 20);
        check(20 << 20, 172 << 20);
        check(64 << 20, 144 << 20);
        check(usize::MAX, 0);
    }

    #[test]
    fn what_passes_and_what_is_kept_count_together() {
        let budget = Budget::of_text(0);
        assert!(budget.charge(8 << 20).is_ok());
        let before = budget.passing();
        assert!(budget.charge_temporary(4 << 20).is_ok());
        assert!(budget.charge_temporary(1).is_err());
        budget.release_to(before);
        assert!(budget.charge(4 << 20).is_ok());
        assert!(budget.charge(usize::MAX).is_err());
    }
}
