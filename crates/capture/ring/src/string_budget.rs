//! Shortening of strings in events that do not fit. The longest strings are shortened, all to the
//! same length, so that no field displaces another field. A shortened string ends with a mark of
//! its original length, such as `...[cut: 100000 bytes]`, unless the string is shortened to less
//! than the mark's length. Every trace reader shows the mark, and the layout of events does not
//! change.
//!
//! An event is encoded repeatedly: first to add up the sizes of its fields, then with rising limits
//! on the length of strings, as far as they fit into the event's buffer, and finally into the
//! buffer. Nothing is stored per field, so the stack needed does not grow with the number of
//! fields.

#[cfg(not(loom))]
use crate::event_layout::HEADER_SIZE;
use crate::strings::append_string;

/// Start of the mark at the end of a shortened string. The string's original length, [`MARK_END`]
/// and a NUL follow.
const MARK: &str = "...[cut: ";
/// End of the mark, after the original length.
const MARK_END: &str = " bytes]";
/// Maximum size of a mark, in bytes, with a length of seven digits and a `+`.
const MARK_SIZE_MAX: usize = MARK.len() + 8 + MARK_END.len();

/// Maximum length that a mark states exactly, in bytes. The mark of a longer string states this
/// number with a `+`.
pub(crate) const LENGTH_MAX: usize = 1 << 20;

/// Limit on the length of an event's strings, and the measured sizes of the event's fields.
#[derive(Debug, Default)]
pub(crate) struct StringBudget {
    /// Maximum length in bytes of a string that is not shortened.
    pub(crate) bound: usize,
    pub(crate) is_measuring: bool,
    /// Total size of the fields other than strings, in bytes.
    pub(crate) fixed: usize,
    /// Total size of the strings not longer than `bound`, in bytes, with their NULs.
    pub(crate) short: usize,
    /// Number of strings longer than `bound`.
    pub(crate) long: usize,
    /// Set once a string was shortened.
    pub(crate) is_cut: bool,
}

impl StringBudget {
    /// Returns the measured size of the event in bytes, with its header. Excludes strings longer
    /// than the bound.
    #[cfg(not(loom))]
    pub(crate) fn event_size(&self) -> usize {
        HEADER_SIZE.saturating_add(self.fixed).saturating_add(self.short)
    }

    pub(crate) fn add_fixed(&mut self, bytes: usize) {
        self.fixed += bytes;
    }

    /// Measures a string or appends it like [`append_string`]. A string longer than the bound is
    /// shortened, and ends with a mark if the bound has room for one.
    ///
    /// # Safety
    ///
    /// As for [`append_string`]. While measuring, `start` is not used.
    #[cold]
    #[inline(never)]
    #[expect(unsafe_code)]
    pub(crate) unsafe fn append_or_measure(
        &mut self,
        start: *mut u8,
        size: usize,
        end: usize,
        from: *const u8,
        left: usize,
    ) -> usize {
        // SAFETY: by the caller's promise.
        let length = unsafe { length(from, left.min(self.bound.saturating_add(1))) };
        if self.is_measuring {
            match length <= self.bound {
                true => self.short += length + 1,
                false => self.long += 1,
            }
            return size;
        }
        // SAFETY: by the caller's promise; a string has the bytes before its end.
        unsafe {
            if length <= self.bound {
                return append_string(start, size, end, from, length);
            }
            self.is_cut = true;
            let length = self::length(from, left.min(LENGTH_MAX + 1));
            let mut mark = CutMark::of(length);
            // No string has room for a mark if there are very many.
            if mark.text().len() > self.bound {
                mark.size = 0;
            }
            let kept = whole_letters(from, self.bound - mark.text().len());
            let size = append_string(start, size, end, from, kept);
            if mark.text().is_empty() || size > end {
                return size;
            }
            // Overwrites the NUL of the part that was kept.
            append_string(start, size - 1, end, mark.text().as_ptr(), mark.text().len())
        }
    }
}

/// Returns the number of bytes of a string before its NUL, at most `max`.
///
/// # Safety
///
/// The string has `max` bytes, or a NUL before.
#[expect(unsafe_code)]
unsafe fn length(from: *const u8, max: usize) -> usize {
    if max == 0 {
        return 0;
    }
    // SAFETY: by the caller's promise; nothing after a NUL or `max` bytes is used.
    #[cfg(not(miri))]
    unsafe {
        libc::strnlen(from.cast(), max)
    }
    // SAFETY: as above.
    #[cfg(miri)]
    unsafe {
        (0..max).find(|at| from.add(*at).read() == 0).unwrap_or(max)
    }
}

/// Returns the largest length up to `size` that does not split a UTF-8 sequence; `size` if the
/// bytes before it are not UTF-8.
///
/// # Safety
///
/// The string has `size` bytes and one more, without a NUL among them.
#[expect(unsafe_code)]
unsafe fn whole_letters(from: *const u8, size: usize) -> usize {
    // SAFETY: by the caller's promise.
    let continues = |at: usize| unsafe { from.add(at).read() } & 0xc0 == 0x80;
    // A UTF-8 sequence has at most three bytes after its first one; other bytes are not UTF-8.
    (0..=size).rev().take(4).find(|at| !continues(*at)).unwrap_or(size)
}

/// Text of a mark, such as `...[cut: 100000 bytes]`, built without allocation.
struct CutMark {
    bytes: [u8; MARK_SIZE_MAX],
    size: usize,
}

impl CutMark {
    fn of(length: usize) -> CutMark {
        let mut mark = CutMark { bytes: [0; MARK_SIZE_MAX], size: 0 };
        mark.push(MARK.as_bytes());
        let mut digits = [0; 8];
        let mut at = digits.len();
        let mut rest = length.min(LENGTH_MAX);
        while at > 0 {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        mark.push(&digits[at..]);
        if length > LENGTH_MAX {
            mark.push(b"+");
        }
        mark.push(MARK_END.as_bytes());
        mark
    }

    fn push(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.size..self.size + bytes.len()) {
            place.copy_from_slice(bytes);
            self.size += bytes.len();
        }
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}
