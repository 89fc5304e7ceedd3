//! Encoding of an event before it is copied into a ring. The event's memory is not cleared first,
//! because that would cost more than the event itself. Nothing is allocated. Small events are
//! encoded on the stack, larger ones in [large_event_memory](crate::large_event_memory) of the
//! process, as the caller may have little stack.
//!
//! ```text
//! 0  id of its class, u16     10  fields in order, without padding:
//! 2  time, u64                    integers little-endian, strings followed by a NUL
//! ```

use crate::event_layout::{COPIED, GRAIN, HEADER_SIZE, TIME_AT, TOO_LARGE};
use crate::string_budget::StringBudget;
use crate::strings::{append_string, copy_grain, is_grain_readable};
use std::ffi::c_char;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Default size of a [`Room`], in bytes: the maximum size of an event in it, with its header.
pub const ROOM_SIZE: usize = 512;

/// Memory for a small event, on the stack of the recording thread. `SIZE` is a multiple of 32.
#[derive(Debug)]
pub struct Room<const SIZE: usize = ROOM_SIZE> {
    /// The event's bytes, followed by [`GRAIN`] bytes, because strings are written in whole grains.
    memory: MaybeUninit<([u8; SIZE], [u8; GRAIN])>,
}

impl Default for Room {
    fn default() -> Room {
        Room::new()
    }
}

impl Room {
    /// Returns uninitialised memory.
    #[inline(always)]
    pub const fn new() -> Room {
        Room::of_size()
    }
}

impl<const SIZE: usize> Room<SIZE> {
    /// Returns uninitialised memory.
    #[inline(always)]
    pub const fn of_size() -> Room<SIZE> {
        const { assert!(SIZE.is_multiple_of(COPIED) && SIZE > HEADER_SIZE) };
        Room { memory: MaybeUninit::uninit() }
    }

    /// Returns the start of the memory. [`GRAIN`] bytes after its end are writable too.
    pub(crate) fn start(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast()
    }
}

/// Encoder of an event. The encoder only points to the event's memory, so that moving an encoder
/// costs nothing.
#[derive(Debug)]
pub struct Encoder<'r> {
    /// Start of `end + GRAIN` bytes; the first `size` are written unless a field did not fit. Null
    /// if the encoder only measures.
    start: *mut u8,
    /// Number of bytes written; [`TOO_LARGE`] once a field did not fit, so that the event is
    /// unreadable, and always if the encoder only measures.
    size: usize,
    /// Maximum size of the event; a multiple of [`COPIED`].
    end: usize,
    /// Limit on the length of strings; `None` if strings are not shortened, and an event that does
    /// not fit [lacks a field](Encoder::lacks_field).
    budget: Option<&'r mut StringBudget>,
    room: PhantomData<&'r mut [u8]>,
}

impl<'r> Encoder<'r> {
    /// Begins an event of class `id`, without fields.
    #[inline(always)]
    pub fn new<const SIZE: usize>(room: &'r mut Room<SIZE>, id: u16) -> Encoder<'r> {
        let start = room.memory.as_mut_ptr().cast::<u8>();
        // SAFETY: there are `SIZE + GRAIN` bytes.
        #[expect(unsafe_code)]
        unsafe {
            Encoder::of(start, SIZE, id, None)
        }
    }

    /// Begins an event of class `id` in the `end + GRAIN` bytes at `start`. `end` is a multiple of
    /// [`COPIED`].
    ///
    /// # Safety
    ///
    /// The memory is valid, and not used by other code, as long as the encoder and its events are
    /// used.
    #[inline(always)]
    #[expect(unsafe_code)]
    pub(crate) unsafe fn of(
        start: *mut u8,
        end: usize,
        id: u16,
        budget: Option<&'r mut StringBudget>,
    ) -> Encoder<'r> {
        // SAFETY: the memory is larger than a header.
        unsafe { put_header(start, id) };
        Encoder { start, size: HEADER_SIZE, end, budget, room: PhantomData }
    }

    /// Returns an encoder that writes nothing. It adds up the sizes of fields in `budget`.
    pub(crate) fn measuring(budget: &'r mut StringBudget) -> Encoder<'r> {
        let start = std::ptr::null_mut();
        Encoder { start, size: TOO_LARGE, end: 0, budget: Some(budget), room: PhantomData }
    }

    /// Appends up to sixteen bytes unchanged, such as those of a number. If the bytes do not fit,
    /// the event becomes too large.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        const { assert!(N <= GRAIN) };
        if self.size + N > self.end {
            return self.mark_too_large(N);
        }
        // SAFETY: there is room for N bytes at `size`.
        #[expect(unsafe_code)]
        unsafe {
            self.start.add(self.size).cast::<[u8; N]>().write_unaligned(bytes);
        }
        self.size += N;
    }

    /// Appends 8-byte integers; equivalent to a call of [`Encoder::put`] for each of them.
    #[inline(always)]
    pub fn put_words<const N: usize>(&mut self, words: [u64; N]) {
        if self.size + 8 * N > self.end {
            return self.mark_too_large(8 * N);
        }
        // SAFETY: there is room for N words at `size`.
        #[expect(unsafe_code)]
        unsafe {
            self.start.add(self.size).cast::<[u64; N]>().write_unaligned(words.map(u64::to_le));
        }
        self.size += 8 * N;
    }

    /// Appends any number of bytes unchanged.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        if bytes.len() > self.end.saturating_sub(self.size) {
            return self.mark_too_large(bytes.len());
        }
        // SAFETY: there is room for them at `size`, and no other code uses it.
        #[expect(unsafe_code)]
        unsafe {
            let into = self.start.add(self.size);
            into.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.size += bytes.len();
    }

    /// Marks the event as too large, because one of its fields exceeds the maximum size of any
    /// event.
    #[cold]
    pub fn give_up(&mut self) {
        self.mark_too_large(TOO_LARGE);
    }

    /// Marks the event as too large, because `bytes` bytes did not fit. Adds `bytes` to the
    /// measured size in the budget, if there is one.
    #[inline(always)]
    fn mark_too_large(&mut self, bytes: usize) {
        if let Some(budget) = &mut self.budget {
            budget.add_fixed(bytes);
        }
        self.size = TOO_LARGE;
    }

    /// Appends a string: its bytes up to its first NUL or its end, and a NUL. If the encoder has a
    /// budget, a string longer than the budget's bound is shortened. If the string does not fit,
    /// the event becomes too large.
    #[inline(always)]
    pub fn put_string(&mut self, string: &str) {
        self.put_bytes_as_string(string.as_bytes());
    }

    /// Appends a string given as UTF-8 bytes, like [`put_string`](Self::put_string).
    #[inline(always)]
    pub fn put_bytes_as_string(&mut self, string: &[u8]) {
        // Most strings are shorter than a grain and need no jump. An empty string has no byte that
        // may be loaded.
        let is_short = string.len().wrapping_sub(1) < GRAIN - 1 && self.budget.is_none();
        if is_short && self.size + GRAIN <= self.end && is_grain_readable(string.as_ptr()) {
            // SAFETY: there is room for a grain at `size`; the string is not empty.
            #[expect(unsafe_code)]
            let nuls =
                unsafe { copy_grain(string.as_ptr(), self.start.add(self.size), string.len()) };
            self.size += nuls.trailing_zeros() as usize + 1;
        } else {
            // SAFETY: the string has this many bytes.
            #[expect(unsafe_code)]
            unsafe {
                self.put_any_string(string.as_ptr(), string.len());
            }
        }
    }

    /// Appends a C string with its NUL, like [`put_string`](Self::put_string). Without a budget,
    /// the string is appended in one pass: each step loads, checks and copies sixteen bytes.
    ///
    /// # Safety
    ///
    /// `string` points to bytes that end with a NUL, and no thread changes them during the call.
    #[inline(always)]
    #[expect(unsafe_code)]
    pub unsafe fn put_c_string(&mut self, string: *const c_char) {
        let from = string.cast::<u8>();
        // The fast path of short strings, as above.
        let is_plain = self.budget.is_none() && self.size + GRAIN <= self.end;
        if is_plain && is_grain_readable(from) {
            // SAFETY: there is room for a grain at `size`; the string is valid by the caller's
            // promise.
            let nuls = unsafe { copy_grain(from, self.start.add(self.size), GRAIN) };
            if nuls != 0 {
                self.size += nuls.trailing_zeros() as usize + 1;
                return;
            }
        }
        // SAFETY: by the caller's promise.
        unsafe { self.put_any_string(from, usize::MAX) };
    }

    /// Appends a string of any length. The encoder's fields are passed by value: by reference, the
    /// encoder would be kept in memory from then on, and each field's position would be stored and
    /// loaded again before the next field.
    ///
    /// # Safety
    ///
    /// The string has `left` bytes, or a NUL before; no thread changes it during the call.
    #[inline(always)]
    #[expect(unsafe_code)]
    unsafe fn put_any_string(&mut self, from: *const u8, left: usize) {
        // SAFETY: `start`, `size` and `end` describe the encoder's memory; the string is valid by
        // the caller's promise.
        self.size = unsafe {
            match &mut self.budget {
                None => append_string(self.start, self.size, self.end, from, left),
                Some(budget) => {
                    budget.append_or_measure(self.start, self.size, self.end, from, left)
                }
            }
        };
    }

    /// Returns the budget, if strings are shortened.
    pub(crate) fn budget(&self) -> Option<&StringBudget> {
        self.budget.as_deref()
    }

    /// Returns true if a field did not fit, so that the event is unreadable.
    #[inline(always)]
    pub fn lacks_field(&self) -> bool {
        self.size >= TOO_LARGE
    }

    /// Returns the number of bytes written so far, with the header; 0 if a field did not fit.
    #[inline(always)]
    pub fn size(&self) -> usize {
        if self.lacks_field() { 0 } else { self.size }
    }

    /// Returns the encoded event. An event that lacks a field is larger than any sub-buffer, and is
    /// counted as too large.
    #[inline(always)]
    pub fn event(&mut self) -> Event<'_> {
        Event::of(self.start, self.size)
    }

    /// Returns the encoded fields so far; empty if a field did not fit.
    pub fn fields(&self) -> &[u8] {
        self.fields_from(HEADER_SIZE)
    }

    /// Returns the fields that were written after [`size`](Self::size) was `at`; empty if a field
    /// did not fit.
    pub fn fields_from(&self, at: usize) -> &[u8] {
        let size = self.size().max(HEADER_SIZE);
        let at = at.clamp(HEADER_SIZE, size);
        if self.lacks_field() {
            return &[];
        }
        // SAFETY: all bytes before `size` are written.
        #[expect(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.start.add(at), size - at)
        }
    }
}

/// Writes the header of an event of class `id`; the time is filled in when the event is recorded.
///
/// # Safety
///
/// There is room for [`HEADER_SIZE`] bytes.
#[inline(always)]
#[expect(unsafe_code)]
pub(crate) unsafe fn put_header(start: *mut u8, id: u16) {
    // SAFETY: by the caller's promise.
    unsafe {
        start.cast::<[u8; 2]>().write_unaligned(id.to_le_bytes());
        start.add(TIME_AT).cast::<[u8; 8]>().write_unaligned([0; 8]);
    }
}

/// An encoded event, to be copied into a ring.
#[derive(Debug)]
pub struct Event<'e> {
    /// Start of the event. `size` bytes, rounded up to [`COPIED`], can be read, unless `size` is
    /// [`TOO_LARGE`].
    start: *mut u8,
    size: usize,
    place: PhantomData<&'e mut [u8]>,
}

impl<'e> Event<'e> {
    /// Returns the event of class `id` whose fields are in `bytes` from [`HEADER_SIZE`] to `size`.
    /// Returns `None` if `size` is less than a header's. Events are copied in units of 32 bytes:
    /// returns `None` also if `bytes` is shorter than `size` rounded up to a multiple of 32.
    pub fn new(bytes: &'e mut [u8], size: usize, id: u16) -> Option<Event<'e>> {
        if size < HEADER_SIZE || size.checked_next_multiple_of(COPIED)? > bytes.len() {
            return None;
        }
        bytes[..2].copy_from_slice(&id.to_le_bytes());
        Some(Event { start: bytes.as_mut_ptr(), size, place: PhantomData })
    }

    /// Returns a handle of the event of `size` bytes that an encoder has written at `start`.
    #[inline(always)]
    pub(crate) fn of(start: *mut u8, size: usize) -> Event<'e> {
        Event { start, size, place: PhantomData }
    }

    /// Returns a second handle of the encoded event, so that this one can stay in registers.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> Event<'_> {
        Event { place: PhantomData, ..*self }
    }

    /// Returns the start of the event. Unless the event is too large, [`Event::copied_size`] bytes
    /// can be read; those after the event's size may be uninitialised.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(crate) fn start(&self) -> *const u8 {
        self.start
    }

    /// Returns the size of the event in bytes, rounded up to the unit of copying.
    #[inline(always)]
    pub(crate) fn copied_size(&self) -> usize {
        self.size.next_multiple_of(COPIED)
    }

    #[cfg(all(not(loom), any(test, target_arch = "x86_64")))]
    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the encoded bytes, from the header to the last field.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: this many bytes are written there, and no other code uses them now.
        #[expect(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.start, self.size)
        }
    }

    pub(crate) fn set_time(&mut self, time: u64) {
        // SAFETY: an event has at least a header, which this value owns.
        #[expect(unsafe_code)]
        unsafe {
            self.start.add(TIME_AT).cast::<[u8; 8]>().write_unaligned(time.to_le_bytes());
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn fields_follow_each_other() {
        let mut room = Room::new();
        let mut encoder = Encoder::new(&mut room, 0x0102);
        encoder.put(7u32.to_le_bytes());
        encoder.put_string("ab");
        encoder.put_string("c\0d");
        encoder.put_string("");
        encoder.put((-1i64).to_le_bytes());
        encoder.put_words([1, 2 << 56]);
        let words = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let expected = [&[7, 0, 0, 0][..], b"ab\0c\0\0", &[0xff; 8], &words].concat();
        assert_eq!(encoder.fields(), expected);
        let event = encoder.event();
        assert_eq!(event.bytes()[..HEADER_SIZE], [2, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(event.size(), HEADER_SIZE + expected.len());
        assert_eq!(event.copied_size(), 64);
    }

    /// C strings are copied up to their NUL, and Rust strings up to their end, even right before an
    /// unreadable page.
    #[test]
    fn strings_of_c_are_copied_to_their_end_and_not_beyond() {
        let page = 4096;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping of two pages, of which the second one is made unreadable.
        #[expect(unsafe_code)]
        let start = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), 2 * page, protection, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.add(page), page, libc::PROT_NONE), 0);
            start.cast::<u8>()
        };
        for length in [0, 1, 14, 15, 16, 17, 31, 32, 33, 100] {
            for distance in 0..40 {
                let expected: Vec<u8> =
                    (0..length).map(|index| b'a' + (index % 26) as u8).chain([0]).collect();
                let mut room = Room::new();
                let mut encoder = Encoder::new(&mut room, 1);
                encoder.put([9]);
                // SAFETY: the string lies within the first page, and ends with its NUL.
                #[expect(unsafe_code)]
                unsafe {
                    let place = start.add(page - distance - expected.len());
                    place.copy_from_nonoverlapping(expected.as_ptr(), expected.len());
                    encoder.put_c_string(place.cast());
                }
                let expected = [&[9][..], &expected].concat();
                assert_eq!(encoder.fields(), expected, "{length} {distance}");

                // The same string without a NUL, right before the end of the readable memory.
                let mut encoder = Encoder::new(&mut room, 1);
                encoder.put([9]);
                // SAFETY: written above, and not referenced elsewhere.
                #[expect(unsafe_code)]
                let string = unsafe {
                    let place = start.add(page - distance - length);
                    place.copy_from_nonoverlapping(expected[1..].as_ptr(), length);
                    std::slice::from_raw_parts(place.cast_const(), length)
                };
                encoder.put_string(std::str::from_utf8(string).unwrap());
                assert_eq!(encoder.fields(), expected, "{length} {distance}");
            }
        }
        // SAFETY: mapped above, and not used any more.
        #[expect(unsafe_code)]
        unsafe {
            libc::munmap(start.cast(), 2 * page);
        }
    }

    #[test]
    fn an_event_that_does_not_fit_lacks_a_field() {
        let free = ROOM_SIZE - HEADER_SIZE;
        for length in [free - GRAIN, free - 2, free - 1, free, free + 1, 2 * free] {
            let text = "x".repeat(length);
            let mut memory = Room::new();
            let mut encoder = Encoder::new(&mut memory, 1);
            encoder.put_string(&text);
            assert_eq!(encoder.lacks_field(), length >= free, "{length}");
            if length < free {
                assert_eq!(encoder.fields(), [text.as_bytes(), &[0]].concat(), "{length}");
            } else {
                assert_eq!((encoder.fields(), encoder.size()), (&[][..], 0), "{length}");
                assert_eq!(encoder.event().size(), TOO_LARGE);
            }
            encoder.put([1]);
            assert_eq!(encoder.lacks_field(), length + 1 >= free, "{length}");

            let mut memory_for_c = Room::new();
            let mut of_c = Encoder::new(&mut memory_for_c, 1);
            let text = CString::new(text).unwrap();
            // SAFETY: a C string that lives long enough.
            #[expect(unsafe_code)]
            unsafe {
                of_c.put_c_string(text.as_ptr());
            }
            of_c.put([1]);
            assert_eq!(of_c.fields(), encoder.fields(), "{length}");
        }
    }
}
