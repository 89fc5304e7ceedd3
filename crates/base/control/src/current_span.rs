//! A thread's current span, which an observer outside of the program reads from the thread's memory
//! while the thread is interrupted or stopped.
//!
//! The program's [catalog](crate::catalog) tells the [`SlotOffset`]: the distance of the thread's
//! slot from the thread pointer, the same in all threads. The slot has four words of 64 bits, in
//! the processor's byte order:
//!
//! ```text
//! 0    state: NONE, CHANGING or SPAN
//! 8    lower half of the trace id
//! 16   upper half of the trace id; 0 for a trace id of 64 bits
//! 24   span id
//! ```
//!
//! The ids are valid in the state [`SPAN`] only. The state is [`CHANGING`] while the thread
//! replaces the ids. Only spans of sampled requests are stored; otherwise the state is [`NONE`].
//!
//! The observer does not trust the program. The memory at a [`SlotOffset`] may be unmapped, or have
//! any contents, which may change at any time: [`CurrentSpan::of_words`] accepts all.

/// Number of words of the slot.
pub const WORDS: usize = 4;
/// State: the thread has no current span, or one of a request that is not sampled.
pub const NONE: u64 = 0;
/// State: the thread is replacing its current span.
pub const CHANGING: u64 = 1;
/// State: the other words are the ids of the thread's current span.
pub const SPAN: u64 = 2;

/// Alignment of the slot in bytes, so that one page has all of it.
pub const ALIGNMENT: i32 = 32;
/// Maximum distance of the slot from the thread pointer, in bytes.
pub const OFFSET_MAX: i32 = 1 << 20;

/// Version of the slot's layout, in the upper half of [`SlotOffset::encode`]'s result.
const LAYOUT: u64 = 1;

/// Offset of each thread's slot from its thread pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotOffset(i32);

impl SlotOffset {
    /// Checks an offset in bytes. Returns `None` if it is not aligned, is 0, or exceeds
    /// [`OFFSET_MAX`].
    pub fn new(offset: isize) -> Option<SlotOffset> {
        let offset = i32::try_from(offset).ok()?;
        let is_valid =
            offset != 0 && offset % ALIGNMENT == 0 && (-OFFSET_MAX..=OFFSET_MAX).contains(&offset);
        is_valid.then_some(SlotOffset(offset))
    }

    /// Returns the offset in bytes.
    pub const fn bytes(self) -> i32 {
        self.0
    }

    /// Encodes an offset, or its absence, as a word of the catalog: version of the slot's layout in
    /// the upper 32 bits, offset in the lower.
    pub const fn encode(offset: Option<SlotOffset>) -> u64 {
        match offset {
            Some(SlotOffset(offset)) => LAYOUT << 32 | offset.cast_unsigned() as u64,
            None => 0,
        }
    }

    /// Decodes a word of the catalog. Returns `None` if it has no offset, an invalid one, or a slot
    /// of another layout.
    pub fn decode(word: u64) -> Option<SlotOffset> {
        let offset = (word & 0xffff_ffff) as u32;
        (word >> 32 == LAYOUT).then(|| SlotOffset::new(offset.cast_signed() as isize))?
    }
}

/// Contents of a thread's slot, as an observer read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentSpan {
    /// The thread has no current span, or one of a request that is not sampled.
    None,
    /// The thread is replacing its current span.
    Changing,
    /// The ids of the thread's current span.
    Span {
        /// The trace id, not 0.
        trace_id: u128,
        /// The span id, not 0.
        span_id: u64,
    },
    /// The words are no current span: the program has written to the slot by mistake or by intent,
    /// or has told a wrong offset.
    Invalid,
}

impl CurrentSpan {
    /// Decodes the words of a slot. They may be arbitrary.
    pub fn of_words([state, low, high, span_id]: [u64; WORDS]) -> CurrentSpan {
        let trace_id = u128::from(high) << 64 | u128::from(low);
        match state {
            NONE => CurrentSpan::None,
            CHANGING => CurrentSpan::Changing,
            SPAN if trace_id != 0 && span_id != 0 => CurrentSpan::Span { trace_id, span_id },
            _ => CurrentSpan::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Random;

    #[test]
    fn offsets_are_aligned_and_near_the_thread_pointer() {
        for offset in [32, -32, -64, 1 << 20, -(1 << 20)] {
            let checked = SlotOffset::new(offset);
            assert_eq!(checked.map(|checked| checked.bytes() as isize), Some(offset));
            assert_eq!(SlotOffset::decode(SlotOffset::encode(checked)), checked);
        }
        for wrong in [0, 1, -8, 16, 33, (1 << 20) + 32, -(1 << 20) - 32, isize::MIN, isize::MAX] {
            assert_eq!(SlotOffset::new(wrong), None, "{wrong}");
        }
        assert_eq!(SlotOffset::decode(SlotOffset::encode(None)), None);
    }

    #[test]
    fn any_word_of_a_catalog_can_be_decoded() {
        let valid = SlotOffset::encode(SlotOffset::new(-64));
        for wrong in [0, 1, u64::MAX, valid & 0xffff_ffff, valid + (1 << 32), valid + 1, 1 << 32] {
            assert_eq!(SlotOffset::decode(wrong), None, "{wrong:#x}");
        }
        let mut random = Random::new(3);
        for _ in 0..100_000 {
            // Without their upper half, many words are valid.
            let word = random.next() & (0xff_ffff | 1 << 32);
            if let Some(offset) = SlotOffset::decode(word) {
                assert_eq!(SlotOffset::encode(Some(offset)), word);
                assert!(offset.bytes().abs() <= OFFSET_MAX && offset.bytes() % ALIGNMENT == 0);
            }
        }
    }

    #[test]
    fn any_words_of_a_thread_can_be_decoded() {
        let check = |words, expected| assert_eq!(CurrentSpan::of_words(words), expected);
        check([NONE, 1, 2, 3], CurrentSpan::None);
        check([CHANGING, 1, 2, 3], CurrentSpan::Changing);
        let trace_id = 2 << 64 | 1;
        check([SPAN, 1, 2, 3], CurrentSpan::Span { trace_id, span_id: 3 });
        check([SPAN, 0, 2, 3], CurrentSpan::Span { trace_id: 2 << 64, span_id: 3 });
        check([SPAN, 0, 0, 3], CurrentSpan::Invalid);
        check([SPAN, 1, 2, 0], CurrentSpan::Invalid);
        check([3, 1, 2, 3], CurrentSpan::Invalid);
        check([u64::MAX; 4], CurrentSpan::Invalid);
    }
}
