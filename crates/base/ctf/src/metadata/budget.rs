//! How much memory metadata may take. Few bytes of text can describe many fields, so everything
//! that is made of a text is counted, in bytes, while it is made: see [`Budget`].

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

/// What any text may take, however short, …
const BASE: usize = 12 << 20;
/// … what it may take for each of its own bytes, …
const PER_BYTE: usize = 8;
/// … and what no text may exceed, itself included.
const MOST: usize = 208 << 20;

/// The memory that one text may take, and what it has taken so far.
///
/// With [`super::METADATA_SIZE_MAX`] it keeps a process that opens a trace below 256 MiB, and one
/// that opens a text of up to a megabyte within 32 MiB of what an idle one takes.
pub(crate) struct Budget {
    limit: usize,
    /// For the schema, and for the decoder that will be made of it.
    kept: Cell<usize>,
    /// For what is forgotten once the schema is made.
    passing: Cell<usize>,
}

/// There is no memory left for a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverBudget {
    limit: usize,
}

impl OverBudget {
    /// What may help somebody who meant that text.
    pub(crate) const HINT: &str = "what stands behind a name counts wherever the name is used";
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit >> 20;
        write!(f, "its types, fields and labels would take more than {limit} MiB of memory")
    }
}

impl Budget {
    /// For a text of `text_size` bytes.
    pub(crate) fn of_text(text_size: usize) -> Budget {
        let limit = text_size.saturating_mul(PER_BYTE).saturating_add(BASE);
        let limit = limit.min(MOST.saturating_sub(text_size));
        Budget { limit, kept: Cell::new(0), passing: Cell::new(0) }
    }

    /// Counts bytes that the schema or its decoder will hold.
    #[inline]
    pub(crate) fn keep(&self, bytes: usize) -> Result<(), OverBudget> {
        self.kept.set(self.kept.get().saturating_add(bytes));
        self.check()
    }

    /// Counts bytes that are needed until [`Budget::forget_to`].
    #[inline]
    pub(crate) fn pass(&self, bytes: usize) -> Result<(), OverBudget> {
        self.passing.set(self.passing.get().saturating_add(bytes));
        self.check()
    }

    /// The bytes that will be forgotten, as of now.
    pub(crate) fn passing(&self) -> usize {
        self.passing.get()
    }

    /// What has been counted as passing since `passing` was asked for has been dropped.
    pub(crate) fn forget_to(&self, passing: usize) {
        self.passing.set(passing);
    }

    #[inline]
    fn check(&self) -> Result<(), OverBudget> {
        match self.kept.get().saturating_add(self.passing.get()) <= self.limit {
            true => Ok(()),
            false => Err(OverBudget { limit: self.limit }),
        }
    }
}

/// What an allocation of `bytes` takes: allocators round up, and keep a word for themselves.
#[inline]
pub(crate) fn allocation(bytes: usize) -> usize {
    match bytes {
        0 => 0,
        _ => (bytes.saturating_add(8 + 15) & !15).max(32),
    }
}

/// What a name takes beside the text that it is a piece of.
#[allow(clippy::ptr_arg, reason = "whether it is a piece is what matters")]
pub(crate) fn owned(name: &Cow<'_, str>) -> usize {
    match name {
        Cow::Borrowed(_) => 0,
        Cow::Owned(name) => allocation(name.len()),
    }
}

/// What an entry of a hash table takes at worst: just after the table has grown, half of it is
/// empty, and the one before is still there.
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
        assert!(budget.keep(8 << 20).is_ok());
        let before = budget.passing();
        assert!(budget.pass(4 << 20).is_ok());
        assert!(budget.pass(1).is_err());
        budget.forget_to(before);
        assert!(budget.keep(4 << 20).is_ok());
        assert!(budget.keep(usize::MAX).is_err());
    }
}
