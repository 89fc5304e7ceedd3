//! Events that do not fit: their longest strings are shortened, all to the same length, so that no field
//! takes the place of another one. A shortened string ends with [`MARK`] and its length before, such as
//! `...[cut: 100000 bytes]`: every reader of traces shows that, and the layout of events stays as it is.
//!
//! An event is encoded again for each step: first to add up what its fields take, then, with a bound on the length
//! of strings, until that is as high as the room permits, and then into the room. Nothing is kept for each
//! field, so this needs little stack for any number of them.

#[cfg(not(loom))]
use crate::encode::{COPIED, HEADER_SIZE, ROOM_SIZE, Room};
use crate::encode::{Encoder, append_string};
#[cfg(not(loom))]
use crate::rooms;

/// What stands behind a string that was shortened; its length, [`MARK_END`] and a NUL follow.
const MARK: &str = "...[cut: ";
/// The end of a mark.
const MARK_END: &str = " bytes]";
/// Bytes of the longest mark: with a length of seven digits and a `+`.
const MARK_SIZE_MAX: usize = MARK.len() + 8 + MARK_END.len();

/// Longest string of which the length is found out. Of a longer one a mark says that it has more bytes.
const LENGTH_MAX: usize = 1 << 20;

/// Times that a bound is raised. Each one is at least the one before, so any of them will do.
#[cfg(not(loom))]
const ROUNDS_MAX: usize = 16;

/// What the fields of an event take.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Longest string that is not shortened.
    bound: usize,
    is_measuring: bool,
    /// Bytes of fields that are no strings.
    fixed: usize,
    /// Bytes of strings up to the bound, with their NULs.
    short: usize,
    /// Strings beyond the bound.
    long: usize,
    /// Whether a string was shortened.
    is_cut: bool,
}

impl Shares {
    pub(crate) fn add_fixed(&mut self, bytes: usize) {
        self.fixed += bytes;
    }

    /// Measures a string or appends it, as [`append_string`] does, with its end replaced by a mark if it
    /// is longer than the bound.
    ///
    /// # Safety
    ///
    /// As for [`append_string`]. While measuring `start` is not used.
    #[cold]
    #[inline(never)]
    #[expect(unsafe_code)]
    pub(crate) unsafe fn string(
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
            let mut mark = Mark::of(length);
            // Of an event with very many strings, of which none has room for more.
            if mark.text().len() > self.bound {
                mark.size = 0;
            }
            let kept = whole_letters(from, self.bound - mark.text().len());
            let size = append_string(start, size, end, from, kept);
            if mark.text().is_empty() || size > end {
                return size;
            }
            // Over the NUL of what was kept.
            append_string(start, size - 1, end, mark.text().as_ptr(), mark.text().len())
        }
    }
}

/// Bytes of a string up to its NUL, at most `max` of them.
///
/// # Safety
///
/// The string has `max` bytes, or ends with a NUL before.
#[expect(unsafe_code)]
unsafe fn length(from: *const u8, max: usize) -> usize {
    if max == 0 {
        return 0;
    }
    // SAFETY: by the caller's promise; nothing behind a NUL or `max` bytes is used.
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

/// At most `size` bytes of a string, without a part of a UTF-8 sequence at the end.
///
/// # Safety
///
/// The string has `size` bytes and one more, of which none is a NUL.
#[expect(unsafe_code)]
unsafe fn whole_letters(from: *const u8, size: usize) -> usize {
    // SAFETY: by the caller's promise.
    let continues = |at: usize| unsafe { from.add(at).read() } & 0xc0 == 0x80;
    // A sequence has at most three bytes behind its first one. Anything else is no UTF-8.
    (0..=size).rev().take(4).find(|at| !continues(*at)).unwrap_or(size)
}

/// A mark's text.
struct Mark {
    bytes: [u8; MARK_SIZE_MAX],
    size: usize,
}

impl Mark {
    fn of(length: usize) -> Mark {
        let mut mark = Mark { bytes: [0; MARK_SIZE_MAX], size: 0 };
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

#[cfg(not(loom))]
fn measure(bound: usize, encode: &dyn Fn(&mut Encoder<'_>)) -> Shares {
    let mut shares = Shares { bound, is_measuring: true, ..Shares::default() };
    encode(&mut Encoder::measuring(&mut shares));
    shares
}

/// What `use_it` makes of the event of class `id` whose fields `encode` encodes, in at most `size_max` bytes. Strings
/// are shortened as far as needed; the flag says whether some were. `encode` is called several times, and
/// encodes the same fields each time.
#[cfg(not(loom))]
pub fn with_long_event<R>(
    id: u16,
    size_max: usize,
    encode: &dyn Fn(&mut Encoder<'_>),
    use_it: impl FnOnce(&mut Encoder<'_>, bool) -> R,
) -> R {
    let size_max = size_max.max(ROOM_SIZE);
    let shares = measure(size_max, encode);
    let needed = HEADER_SIZE.saturating_add(shares.fixed).saturating_add(shares.short);
    let is_small = shares.long == 0 && needed <= size_max;
    let bounds = (shares, needed);
    match rooms::take(if is_small { needed } else { size_max }) {
        Some(room) => {
            let end = room.size().min(size_max) / COPIED * COPIED;
            // SAFETY: the room is this function's, and has a grain behind its end.
            #[expect(unsafe_code)]
            unsafe {
                encode_within((room.start(), end), id, bounds, encode, use_it)
            }
        }
        None => with_little_stack(id, bounds, encode, use_it),
    }
}

/// As [`with_long_event`], where there are no rooms left. In a function of its own, so that others need no stack for
/// it.
#[cfg(not(loom))]
#[cold]
#[inline(never)]
fn with_little_stack<R>(
    id: u16,
    bounds: (Shares, usize),
    encode: &dyn Fn(&mut Encoder<'_>),
    use_it: impl FnOnce(&mut Encoder<'_>, bool) -> R,
) -> R {
    const SIZE: usize = 256;
    let mut small = Room::<SIZE>::of_size();
    // SAFETY: the memory is this function's, and has a grain behind its end.
    #[expect(unsafe_code)]
    unsafe {
        encode_within((small.start(), SIZE), id, bounds, encode, use_it)
    }
}

/// Encodes an event in memory, and uses it. `bounds` is what its fields take, if all strings up to some length
/// are whole, and what the event would take then.
///
/// # Safety
///
/// There are so many bytes, and a grain behind, at the place, which nobody else uses meanwhile.
#[cfg(not(loom))]
#[inline(always)]
#[expect(unsafe_code)]
unsafe fn encode_within<R>(
    (start, end): (*mut u8, usize),
    id: u16,
    (mut shares, needed): (Shares, usize),
    encode: &dyn Fn(&mut Encoder<'_>),
    use_it: impl FnOnce(&mut Encoder<'_>, bool) -> R,
) -> R {
    if shares.long > 0 || needed > end {
        let free = end.saturating_sub(HEADER_SIZE + shares.fixed);
        shares = measure(0, encode);
        for _ in 0..ROUNDS_MAX {
            // What short strings leave, for the others; each with a NUL.
            let each = free.saturating_sub(shares.short) / shares.long.max(1);
            let bound = each.saturating_sub(1);
            if shares.long == 0 || bound <= shares.bound {
                break;
            }
            shares = measure(bound, encode);
        }
    }
    let mut shares = Shares { bound: shares.bound, ..Shares::default() };
    // SAFETY: by the caller's promise.
    let mut encoder = unsafe { Encoder::of(start, end, id, Some(&mut shares)) };
    encode(&mut encoder);
    let is_cut = encoder.is_cut();
    use_it(&mut encoder, is_cut)
}

impl Encoder<'_> {
    /// Whether a string was shortened.
    pub(crate) fn is_cut(&self) -> bool {
        self.shares().is_some_and(|shares| shares.is_cut)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::sync::RwLock;

    /// Held to write by a test that takes all rooms, which are the process's.
    static ROOMS: RwLock<()> = RwLock::new(());

    /// The fields of an event with these strings, in at most so many bytes, and whether they were cut.
    fn fields(size_max: usize, strings: &[&str], numbers: usize) -> (Vec<String>, bool, usize) {
        let _rooms = ROOMS.read().unwrap();
        fields_now(size_max, strings, numbers)
    }

    fn fields_now(size_max: usize, strings: &[&str], numbers: usize) -> (Vec<String>, bool, usize) {
        let of_c: Vec<_> = strings.iter().map(|text| CString::new(*text).unwrap()).collect();
        let encode_as = |is_c: bool| {
            let encode = |encoder: &mut Encoder<'_>| {
                (0..numbers).for_each(|_| encoder.put(7u64.to_le_bytes()));
                for (text, of_c) in strings.iter().zip(&of_c) {
                    if is_c {
                        // SAFETY: a string of C that lives long enough.
                        #[expect(unsafe_code)]
                        unsafe {
                            encoder.put_c_string(of_c.as_ptr());
                        }
                    } else {
                        encoder.put_string(text);
                    }
                }
            };
            with_long_event(3, size_max, &encode, |encoder, is_cut| {
                assert!(!encoder.lacks_field());
                assert!(encoder.size() <= size_max, "{}", encoder.size());
                (encoder.fields().to_vec(), is_cut, encoder.size())
            })
        };
        let (bytes, is_cut, size) = encode_as(false);
        assert_eq!(encode_as(true), (bytes.clone(), is_cut, size));
        let (fixed, rest) = bytes.split_at(8 * numbers);
        assert!(fixed.chunks(8).all(|number| number == 7u64.to_le_bytes()));
        let rest = rest.strip_suffix(&[0]).map_or(Vec::new(), |rest| {
            rest.split(|byte| *byte == 0).map(|text| str::from_utf8(text).unwrap().into()).collect()
        });
        assert_eq!(rest.len(), strings.len());
        (rest, is_cut, size)
    }

    #[test]
    fn what_fits_is_whole() {
        let long = "x".repeat(3000);
        for strings in [&[&*long][..], &["a", &long, ""], &[&long, "b"]] {
            let (found, is_cut, _) = fields(4096, strings, 4);
            assert!(!is_cut);
            assert_eq!(found, strings);
        }
        let most = "y".repeat(4096 - HEADER_SIZE - 1);
        assert_eq!(fields(4096, &[&most], 0), (vec![most], false, 4096));
    }

    /// D8: a cut string says so, and how long it was; it does not empty the fields behind it.
    #[test]
    fn cut_strings_say_so_and_share_the_room() {
        let long = "x".repeat(100_000);
        let (found, is_cut, size) = fields(4096, &[&long, "service", "10.0.0.7", "received"], 5);
        assert!(is_cut);
        assert_eq!(found[1..], ["service", "10.0.0.7", "received"]);
        assert!(found[0].ends_with("x...[cut: 100000 bytes]"), "{}", &found[0][3900..]);
        assert_eq!(size, 4096);

        let other = "y".repeat(50_000);
        let (found, is_cut, _) = fields(4096, &[&long, &other, "z", &other], 0);
        assert!(is_cut);
        assert_eq!(found[2], "z");
        for (text, length) in [(&found[0], "100000"), (&found[1], "50000"), (&found[3], "50000")] {
            assert!(text.ends_with(&format!("...[cut: {length} bytes]")));
            assert_eq!(text.len(), (4096 - HEADER_SIZE - 2) / 3 - 1);
        }
        let huge = "h".repeat(LENGTH_MAX + 1);
        let (found, ..) = fields(4096, &[&huge], 0);
        assert!(found[0].ends_with("...[cut: 1048576+ bytes]"));
    }

    #[test]
    fn letters_stay_whole() {
        for offset in 0..4 {
            let text = format!("{}{}", "a".repeat(offset), "\u{1f600}".repeat(2000));
            let (found, is_cut, _) = fields(4096, &[&text], 0);
            assert!(is_cut);
            assert!(found[0].ends_with(&format!("\u{1f600}...[cut: {} bytes]", text.len())));
        }
    }

    /// With so many strings that none has room for a mark.
    #[test]
    fn many_strings_are_cut_evenly() {
        let long = "x".repeat(1000);
        let strings = vec![&*long; 250];
        let (found, is_cut, _) = fields(4096, &strings, 0);
        assert!(is_cut);
        assert!(found.iter().all(|text| text.len() == (4096 - HEADER_SIZE) / 250 - 1), "{found:?}");
    }

    #[test]
    fn what_cannot_be_cut_is_given_up() {
        let encode = |encoder: &mut Encoder<'_>| {
            (0..1000).for_each(|_| encoder.put([1u8; 8]));
            encoder.put_string("text");
        };
        let _rooms = ROOMS.read().unwrap();
        with_long_event(3, 4096, &encode, |encoder, _| assert!(encoder.lacks_field()));
        with_long_event(3, 16384, &encode, |encoder, is_cut| {
            assert!(!encoder.lacks_field() && !is_cut);
            assert_eq!(encoder.fields().len(), 8005);
        });
    }

    /// Where all rooms are in use, an event is cut to what the stack has room for, and says so.
    #[test]
    fn without_rooms_there_is_the_stack() {
        let _rooms = ROOMS.write().unwrap();
        let long = "x".repeat(2000);
        let taken: Vec<_> = std::iter::from_fn(|| rooms::take(1)).collect();
        assert!(taken.len() >= 64);
        let (found, is_cut, size) = fields_now(4096, &[&long, "behind"], 1);
        assert!(is_cut && size <= ROOM_SIZE);
        assert!(found[0].ends_with("...[cut: 2000 bytes]"));
        assert_eq!(found[1], "behind");
        drop(taken);
        assert!(!fields_now(4096, &[&long, "behind"], 1).1);
    }
}
