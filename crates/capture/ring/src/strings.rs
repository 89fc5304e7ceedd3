//! Copying strings of Rust and of C, sixteen bytes at a time, up to their NUL.

use crate::event_layout::{GRAIN, TOO_LARGE};

/// Appends a string, of which `size` bytes are before; the size with it, or [`TOO_LARGE`] if it does not fit.
///
/// # Safety
///
/// There are `end + GRAIN` bytes at `start`, which are nobody else's; the string has `left` bytes, or ends with
/// a NUL before, and nobody changes it during the call.
#[inline(never)]
#[expect(unsafe_code)]
pub(crate) unsafe fn append_string(
    start: *mut u8,
    mut size: usize,
    end: usize,
    mut from: *const u8,
    mut left: usize,
) -> usize {
    while left > 0 && size < end {
        // SAFETY: there is room for a grain behind `size`, which is before the end; the string has a byte.
        let nuls = unsafe { copy_any_grain(from, start.add(size), left.min(GRAIN)) };
        if nuls != 0 {
            size += nuls.trailing_zeros() as usize + 1;
            return if size <= end { size } else { TOO_LARGE };
        }
        size += GRAIN;
        left = left.saturating_sub(GRAIN);
        // SAFETY: no NUL was among these bytes, so the string has all of them.
        from = unsafe { from.add(GRAIN) };
    }
    if size >= end {
        return TOO_LARGE;
    }
    // SAFETY: there is room for a byte.
    unsafe { start.add(size).write(0) };
    size + 1
}

/// Copies a string's first sixteen bytes, and says which of them are NULs: a bit for each, the lowest for
/// the first. If it ends before, there is a NUL behind its end; if by a NUL of its own, then what is
/// copied from behind that, and said of it, is anything.
///
/// # Safety
///
/// `from` is where a string is that has `left` bytes, at least one, or ends with a NUL before; `into` has room
/// for [`GRAIN`] bytes.
#[inline(always)]
#[expect(unsafe_code)]
pub(crate) unsafe fn copy_any_grain(from: *const u8, into: *mut u8, left: usize) -> u32 {
    // SAFETY: by the caller's promise.
    unsafe {
        match is_grain_readable(from) {
            true => copy_grain(from, into, left),
            false => copy_grain_by_bytes(from, into, left),
        }
    }
}

/// Whether sixteen bytes can be loaded if there is one: they are all on one page. (Also no if they are the
/// page's last ones, which takes one instruction less to find out.)
#[inline(always)]
pub(crate) fn is_grain_readable(from: *const u8) -> bool {
    const PAGE: usize = 4096;
    from.addr().wrapping_add(GRAIN) & (PAGE - GRAIN) != 0
}

/// As [`copy_any_grain`], where [`is_grain_readable`] says that all bytes can be loaded.
///
/// # Safety
///
/// As above.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[inline(always)]
#[expect(unsafe_code)]
pub(crate) unsafe fn copy_grain(from: *const u8, into: *mut u8, left: usize) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8,
        _mm_setzero_si128, _mm_storeu_si128,
    };
    /// As many ones as the string has bytes are right before the middle.
    static ENDS: [u8; 2 * GRAIN] = {
        let mut ends = [0; 2 * GRAIN];
        let mut at = 0;
        while at < GRAIN {
            ends[at] = 0xff;
            at += 1;
        }
        ends
    };
    let mut bytes: __m128i;
    // SAFETY: no byte crosses a page, and the first one can be read. Bytes behind the string's end are
    // nobody's business, and so they are loaded here and not by an expression of the language. The
    // ends are loaded from `left` bytes before the middle on, of which there are at most sixteen.
    unsafe {
        std::arch::asm!(
            "movdqu {bytes}, xmmword ptr [{from}]",
            from = in(reg) from,
            bytes = lateout(xmm_reg) bytes,
            options(nostack, preserves_flags, readonly),
        );
        if left < GRAIN {
            let ends = ENDS.as_ptr().add(GRAIN - left);
            bytes = _mm_and_si128(bytes, _mm_loadu_si128(ends.cast()));
        }
        _mm_storeu_si128(into.cast(), bytes);
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128())).cast_unsigned()
    }
}

/// # Safety
///
/// As above.
#[cfg(not(all(target_arch = "x86_64", not(loom))))]
#[expect(unsafe_code)]
pub(crate) unsafe fn copy_grain(from: *const u8, into: *mut u8, left: usize) -> u32 {
    // SAFETY: by the caller's promise.
    unsafe { copy_grain_by_bytes(from, into, left) }
}

/// As [`copy_any_grain`], without a look at any byte behind the string's end.
///
/// # Safety
///
/// `from` is where a string is that has `left` bytes or ends with a NUL before; `into` has room for [`GRAIN`]
/// bytes.
#[cold]
#[inline(never)]
#[expect(unsafe_code)]
unsafe fn copy_grain_by_bytes(from: *const u8, into: *mut u8, left: usize) -> u32 {
    for index in 0..GRAIN {
        // SAFETY: no NUL was before, and the string has a byte there if it is not over.
        unsafe {
            let byte = if index < left { from.add(index).read() } else { 0 };
            into.add(index).write(byte);
            if byte == 0 {
                return 1 << index;
            }
        }
    }
    0
}
