//! Copies strings of Rust and of C, sixteen bytes at a time, up to their first NUL or their end.

use crate::event_layout::{GRAIN, TOO_LARGE};

/// Appends a string to an event of `size` bytes. Returns the new size, or [`TOO_LARGE`] if the
/// string does not fit.
///
/// # Safety
///
/// `start` points to `end + GRAIN` bytes that no other code uses. The string has `left` bytes, or a
/// NUL before, and no thread changes it during the call.
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
        // SAFETY: there is room for a grain at `size`, which is before the end; the string has a
        // byte.
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

/// Copies a string's first sixteen bytes. Returns a bit for each NUL among them, the lowest for the
/// first byte. A shorter string gets a NUL after its end. Bytes and bits after the first NUL are
/// undefined.
///
/// # Safety
///
/// `from` points to a string that has `left` bytes, at least one, or a NUL before; `into` has room
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

/// Returns true if the next sixteen bytes are on one page, so that they can be loaded together.
/// (Also false for the page's last sixteen bytes, which saves an instruction.)
#[inline(always)]
pub(crate) fn is_grain_readable(from: *const u8) -> bool {
    const PAGE: usize = 4096;
    from.addr().wrapping_add(GRAIN) & (PAGE - GRAIN) != 0
}

/// Copies like [`copy_any_grain`], with one load of sixteen bytes.
///
/// # Safety
///
/// The conditions of [`copy_any_grain`] hold, and [`is_grain_readable`] returned true for `from`.
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[inline(always)]
#[expect(unsafe_code)]
pub(crate) unsafe fn copy_grain(from: *const u8, into: *mut u8, left: usize) -> u32 {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8,
        _mm_setzero_si128, _mm_storeu_si128,
    };
    /// Mask table: sixteen bytes of ones, then sixteen of zeros. A load that starts `left` bytes
    /// before the middle masks a string of `left` bytes.
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
    // SAFETY: no byte crosses a page, and the first one can be read. Bytes after the string's end
    // may belong to other code, so they are loaded by the assembler code and not by Rust. The mask
    // is loaded from `left` bytes before the middle, at most sixteen.
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

/// Copies like [`copy_any_grain`], in models and on processors other than x86-64.
///
/// # Safety
///
/// As for [`copy_any_grain`].
#[cfg(not(all(target_arch = "x86_64", not(loom))))]
#[expect(unsafe_code)]
pub(crate) unsafe fn copy_grain(from: *const u8, into: *mut u8, left: usize) -> u32 {
    // SAFETY: by the caller's promise.
    unsafe { copy_grain_by_bytes(from, into, left) }
}

/// Copies like [`copy_any_grain`], without reading bytes after the string's end.
///
/// # Safety
///
/// `from` points to a string that has `left` bytes, or a NUL before; `into` has room for [`GRAIN`]
/// bytes.
#[cold]
#[inline(never)]
#[expect(unsafe_code)]
unsafe fn copy_grain_by_bytes(from: *const u8, into: *mut u8, left: usize) -> u32 {
    for index in 0..GRAIN {
        // SAFETY: no NUL was before, and the string has this byte unless it has ended.
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
