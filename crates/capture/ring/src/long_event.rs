//! Encoding of events that are too large for a [`Room`]: such an event is measured, shortened if
//! necessary, and encoded in one of the preallocated buffers of `large_event_memory`.

use crate::encoder::{Encoder, ROOM_SIZE, Room};
use crate::event_layout::{COPIED, HEADER_SIZE};
use crate::large_event_memory;
use crate::string_budget::StringBudget;

/// Maximum number of times that the bound on string lengths is raised. The strings fit with each
/// bound, so stopping early only shortens them more than necessary.
const ROUNDS_MAX: usize = 16;

/// Returns the summed sizes of an event's fields. Strings longer than `bound` bytes are not added
/// up but counted.
fn measure(bound: usize, encode: &dyn Fn(&mut Encoder<'_>)) -> StringBudget {
    let mut budget = StringBudget { bound, is_measuring: true, ..StringBudget::default() };
    encode(&mut Encoder::measuring(&mut budget));
    budget
}

/// Encodes an event of class `id` in at most `size_max` bytes, or [`ROOM_SIZE`] if that is more,
/// and calls `use_it` with the encoder. Strings are shortened as far as needed; the flag passed to
/// `use_it` is true if any string was shortened. `encode` is called several times, and must encode
/// the same fields each time.
pub fn with_long_event<R>(
    id: u16,
    size_max: usize,
    encode: &dyn Fn(&mut Encoder<'_>),
    use_it: impl FnOnce(&mut Encoder<'_>, bool) -> R,
) -> R {
    let size_max = size_max.max(ROOM_SIZE);
    let budget = measure(size_max, encode);
    let needed = budget.event_size();
    let is_small = budget.long == 0 && needed <= size_max;
    match large_event_memory::acquire(if is_small { needed } else { size_max }) {
        Some(room) => {
            let end = room.size().min(size_max) / COPIED * COPIED;
            // SAFETY: the buffer is this function's, and has a grain after its end.
            #[expect(unsafe_code)]
            unsafe {
                encode_within(room.start(), end, id, budget, encode, use_it)
            }
        }
        None => with_stack_room(id, budget, encode, use_it),
    }
}

/// Encodes like [`with_long_event`], in memory on the stack, because all preallocated buffers are
/// in use. Not inlined, so that its caller does not need that stack.
#[cold]
#[inline(never)]
fn with_stack_room<R>(
    id: u16,
    budget: StringBudget,
    encode: &dyn Fn(&mut Encoder<'_>),
    use_it: impl FnOnce(&mut Encoder<'_>, bool) -> R,
) -> R {
    const SIZE: usize = 256;
    let mut small = Room::<SIZE>::of_size();
    // SAFETY: the memory is this function's, and has a grain after its end.
    #[expect(unsafe_code)]
    unsafe {
        encode_within(small.start(), SIZE, id, budget, encode, use_it)
    }
}

/// Encodes an event in the `end` bytes at `start`, and calls `use_it` with the encoder. `budget`
/// has the measured sizes of the event's fields.
///
/// # Safety
///
/// There are `end` bytes and a grain after them, and no other code uses them meanwhile.
#[inline(always)]
#[expect(unsafe_code)]
unsafe fn encode_within<R>(
    start: *mut u8,
    end: usize,
    id: u16,
    mut budget: StringBudget,
    encode: &dyn Fn(&mut Encoder<'_>),
    use_it: impl FnOnce(&mut Encoder<'_>, bool) -> R,
) -> R {
    if budget.long > 0 || budget.event_size() > end {
        let free = end.saturating_sub(HEADER_SIZE + budget.fixed);
        budget = measure(0, encode);
        for _ in 0..ROUNDS_MAX {
            // Room for each long string, with its NUL, once the short strings have theirs.
            let each = free.saturating_sub(budget.short) / budget.long.max(1);
            let bound = each.saturating_sub(1);
            if budget.long == 0 || bound <= budget.bound {
                break;
            }
            budget = measure(bound, encode);
        }
    }
    let mut budget = StringBudget { bound: budget.bound, ..StringBudget::default() };
    // SAFETY: by the caller's promise.
    let mut encoder = unsafe { Encoder::of(start, end, id, Some(&mut budget)) };
    encode(&mut encoder);
    let is_cut = encoder.is_cut();
    use_it(&mut encoder, is_cut)
}

impl Encoder<'_> {
    /// Returns true if a string was shortened.
    pub(crate) fn is_cut(&self) -> bool {
        self.budget().is_some_and(|budget| budget.is_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::string_budget::LENGTH_MAX;
    use std::ffi::CString;
    use std::sync::RwLock;

    /// Lock that the test of exhausted buffers acquires exclusively, because buffers belong to the
    /// process.
    static ROOMS: RwLock<()> = RwLock::new(());

    /// Encodes an event with these strings in at most `size_max` bytes. Returns the event's
    /// strings, whether any was shortened, and the event's size in bytes.
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
                        // SAFETY: a C string that lives long enough.
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

    /// D8: the mark of a shortened string gives its original length, and later fields keep their
    /// values.
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

    /// All strings are shortened to the same length if there are so many that none has room for a
    /// mark.
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

    /// An event is shortened to fit into memory on the stack if all buffers are in use, and its
    /// shortened strings have marks.
    #[test]
    fn without_rooms_there_is_the_stack() {
        let _rooms = ROOMS.write().unwrap();
        let long = "x".repeat(2000);
        let taken: Vec<_> = std::iter::from_fn(|| large_event_memory::acquire(1)).collect();
        assert!(taken.len() >= 64);
        let (found, is_cut, size) = fields_now(4096, &[&long, "behind"], 1);
        assert!(is_cut && size <= ROOM_SIZE);
        assert!(found[0].ends_with("...[cut: 2000 bytes]"));
        assert_eq!(found[1], "behind");
        drop(taken);
        assert!(!fields_now(4096, &[&long, "behind"], 1).1);
    }
}
