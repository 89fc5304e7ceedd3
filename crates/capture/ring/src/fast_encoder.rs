//! The fast encoder, for most events: a few numbers, and strings of less than 64 bytes. Its usual
//! path has no jumps and needs little stack. The compiler can see that each field fits, so that all
//! state stays in registers. Longer events use [`Encoder`].

use crate::encoder::{Encoder, Event, put_header};
use crate::event_layout::{COPIED, GRAIN, HEADER_SIZE};
use crate::strings::{copy_grain, is_grain_readable};
use std::ffi::c_char;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;

/// Size of a [`BriefRoom`], in bytes; an event that may exceed it uses [`Encoder`].
const SIZE: usize = 512;
/// Maximum size of a string, in bytes, with its NUL.
const STRING_MAX: usize = 4 * GRAIN;
const _: () = assert!(SIZE.is_multiple_of(COPIED));

/// Writer of an event's fields, in order. An [`Encoder`] accepts every field. A [`Brief`] returns
/// `None` for a field that does not fit or a string near the end of a page, and is unusable
/// afterwards.
pub trait Pen {
    /// Appends bytes; see [`Encoder::put`].
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Option<()>;

    /// Appends integers of 8 bytes; see [`Encoder::put_words`].
    fn put_words<const N: usize>(&mut self, words: [u64; N]) -> Option<()>;

    /// Appends a string; see [`Encoder::put_string`].
    fn put_string(&mut self, string: &str) -> Option<()>;

    /// Appends a C string; see [`Encoder::put_c_string`].
    ///
    /// # Safety
    ///
    /// `string` points to bytes that end with a NUL, and no thread changes them during the call.
    #[expect(unsafe_code)]
    unsafe fn put_c_string(&mut self, string: *const c_char) -> Option<()>;
}

/// Memory for a brief event, on the stack of the recording thread.
#[derive(Debug)]
#[repr(align(16))]
pub struct BriefRoom(MaybeUninit<[u8; SIZE]>);

impl BriefRoom {
    /// Returns uninitialised memory.
    #[inline(always)]
    pub const fn new() -> BriefRoom {
        BriefRoom(MaybeUninit::uninit())
    }

    /// Returns an [`Encoder`] in this memory, for an event that is not recorded with a [`Brief`].
    /// The event has at most 480 bytes.
    pub fn encoder(&mut self, id: u16) -> Encoder<'_> {
        const END: usize = SIZE - COPIED;
        // SAFETY: a grain after the end is within this memory.
        #[expect(unsafe_code)]
        unsafe {
            Encoder::of(self.0.as_mut_ptr().cast(), END, id, None)
        }
    }
}

impl Default for BriefRoom {
    fn default() -> BriefRoom {
        BriefRoom::new()
    }
}

/// Encoder of a small event with short strings. Events for which it fails (see [`Pen`]) are encoded
/// by [`Encoder`].
#[derive(Debug)]
pub struct Brief<'r> {
    /// Start of [`SIZE`] bytes; the first `size` are written.
    start: *mut u8,
    /// Number of bytes written, at most [`SIZE`].
    size: usize,
    room: PhantomData<&'r mut BriefRoom>,
}

impl<'r> Brief<'r> {
    /// Begins an event of class `id`, without fields.
    #[inline(always)]
    pub fn new(room: &'r mut BriefRoom, id: u16) -> Brief<'r> {
        let start = room.0.as_mut_ptr().cast::<u8>();
        // SAFETY: the room is larger than a header.
        #[expect(unsafe_code)]
        unsafe {
            put_header(start, id);
        }
        Brief { start, size: HEADER_SIZE, room: PhantomData }
    }

    /// Returns the encoded event.
    #[inline(always)]
    pub fn event(&mut self) -> Event<'_> {
        Event::of(self.start, self.size)
    }

    /// Returns the address of the next field; `None` if `size` bytes do not fit.
    #[inline(always)]
    #[expect(unsafe_code)]
    fn place(&mut self, size: usize) -> Option<*mut u8> {
        // SAFETY: the address is within the room.
        (self.size + size <= SIZE).then(|| unsafe { self.start.add(self.size) })
    }
}

impl Pen for Brief<'_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Option<()> {
        let place = self.place(N)?;
        // SAFETY: there is room for this many bytes.
        #[expect(unsafe_code)]
        unsafe {
            place.cast::<[u8; N]>().write_unaligned(bytes);
        }
        self.size += N;
        Some(())
    }

    #[inline(always)]
    fn put_words<const N: usize>(&mut self, words: [u64; N]) -> Option<()> {
        let place = self.place(8 * N)?;
        // SAFETY: there is room for this many bytes.
        #[expect(unsafe_code)]
        unsafe {
            place.cast::<[u64; N]>().write_unaligned(words.map(u64::to_le));
        }
        self.size += 8 * N;
        Some(())
    }

    #[inline(always)]
    #[expect(unsafe_code)]
    fn put_string(&mut self, string: &str) -> Option<()> {
        let place = self.place(STRING_MAX)?;
        // SAFETY: there is room for the longest string.
        self.size += unsafe { copy_string(string.as_ptr(), place, string.len()) }?;
        Some(())
    }

    #[inline(always)]
    #[expect(unsafe_code)]
    unsafe fn put_c_string(&mut self, string: *const c_char) -> Option<()> {
        let place = self.place(STRING_MAX)?;
        // SAFETY: there is room for the longest string, and the string is valid by the caller's
        // promise.
        self.size += unsafe { copy_string(string.cast(), place, usize::MAX) }?;
        Some(())
    }
}

/// Copies a string and returns its size with its NUL. Returns `None` if this size exceeds
/// [`STRING_MAX`], or if [`is_grain_readable`] is false for a grain. (A call for those cases would
/// slow down all others.)
///
/// # Safety
///
/// `from` points to a string that has `size` bytes, or a NUL before; `into` has room for
/// [`STRING_MAX`] bytes.
#[inline(always)]
#[expect(unsafe_code)]
unsafe fn copy_string(from: *const u8, into: *mut u8, size: usize) -> Option<usize> {
    // An empty string has no byte that may be loaded; this one is loaded instead.
    #[repr(align(64))]
    struct Empty([u8; GRAIN]);
    static EMPTY: Empty = Empty([0; GRAIN]);
    let from = if size == 0 { EMPTY.0.as_ptr() } else { from };
    if !is_grain_readable(from) {
        return None;
    }
    // SAFETY: the string has a first byte, and there is room for a grain.
    if let Some(nuls) = NonZeroU32::new(unsafe { copy_grain(from, into, size.min(GRAIN)) }) {
        return Some(nuls.trailing_zeros() as usize + 1);
    }
    // SAFETY: by the caller's promise.
    unsafe { copy_remaining_grains(from, into, size) }
}

/// Continues [`copy_string`] after a first grain without a NUL.
///
/// # Safety
///
/// As for [`copy_string`].
#[inline(always)]
#[expect(unsafe_code)]
unsafe fn copy_remaining_grains(from: *const u8, into: *mut u8, size: usize) -> Option<usize> {
    let mut at = GRAIN;
    while at < STRING_MAX {
        // SAFETY: the string has `at` bytes, and there is room for a byte, and another grain.
        unsafe {
            if size == at {
                into.add(at).write(0);
                return Some(at + 1);
            }
            let (from, into) = (from.add(at), into.add(at));
            if !is_grain_readable(from) {
                return None;
            }
            let nuls = copy_grain(from, into, (size - at).min(GRAIN));
            if let Some(nuls) = NonZeroU32::new(nuls) {
                return Some(at + nuls.trailing_zeros() as usize + 1);
            }
        }
        at += GRAIN;
    }
    None
}

impl Pen for Encoder<'_> {
    #[inline(always)]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Option<()> {
        Encoder::put(self, bytes);
        Some(())
    }

    #[inline(always)]
    fn put_words<const N: usize>(&mut self, words: [u64; N]) -> Option<()> {
        Encoder::put_words(self, words);
        Some(())
    }

    #[inline(always)]
    fn put_string(&mut self, string: &str) -> Option<()> {
        Encoder::put_string(self, string);
        Some(())
    }

    #[inline(always)]
    #[expect(unsafe_code)]
    unsafe fn put_c_string(&mut self, string: *const c_char) -> Option<()> {
        // SAFETY: by the caller's promise.
        unsafe { Encoder::put_c_string(self, string) };
        Some(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::encoder::Room;
    use std::ffi::CString;

    /// A [`Brief`] writes the same bytes as an [`Encoder`], or refuses the event, whatever fields
    /// come before a string.
    #[test]
    fn brief_events_are_as_others() {
        let long: String = ('a'..='z').cycle().take(100).collect();
        let (mut taken, mut refused) = (0, 0);
        for size in 0..100 {
            for nul in [None, Some(0), Some(size / 2)] {
                for before in [0, 1, 400, 470, 480] {
                    let mut text = long[..size].to_owned();
                    if let Some(at) = nul.filter(|at| *at < size) {
                        text.replace_range(at..=at, "\0");
                    }
                    let c_text: Vec<u8> = text.bytes().take_while(|byte| *byte != 0).collect();
                    let c_text = CString::new(c_text).unwrap();
                    let write = |pen: &mut dyn FnMut(u8) -> Option<()>| {
                        (0..before).try_for_each(|index| pen(index as u8))
                    };
                    let (mut room, mut brief_room) = (Room::<1024>::of_size(), BriefRoom::new());
                    let mut encoder = Encoder::new(&mut room, 7);
                    let mut brief = Brief::new(&mut brief_room, 7);
                    write(&mut |byte| Pen::put(&mut encoder, [byte])).unwrap();
                    write(&mut |byte| brief.put([byte])).unwrap();
                    // SAFETY: a C string that lives long enough.
                    #[expect(unsafe_code)]
                    let is_taken = brief.put_string(&text).is_some()
                        && unsafe { brief.put_c_string(c_text.as_ptr()) }.is_some()
                        && brief.put_words([1, u64::MAX]).is_some();
                    if !is_taken {
                        let ends_page = [text.as_ptr(), c_text.as_ptr().cast()]
                            .iter()
                            .any(|text| text.addr() % 4096 > 4096 - 2 * STRING_MAX);
                        let may = size >= STRING_MAX || before > 300 || ends_page;
                        assert!(may, "{size} {before}");
                        refused += 1;
                        continue;
                    }
                    taken += 1;
                    assert!(c_text.count_bytes() < STRING_MAX);
                    encoder.put_string(&text);
                    encoder.put_string(&text);
                    encoder.put_words([1, u64::MAX]);
                    assert_eq!(brief.event().bytes(), encoder.event().bytes(), "{text:?} {before}");
                }
            }
        }
        assert!(taken > 200 && refused > 200, "{taken} {refused}");
    }
}
