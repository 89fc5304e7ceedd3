//! Offsets in the memory of a set of rings, for writers that are no code of this crate: programs in
//! the kernel. The crate's documentation shows the memory.

use crate::cells::Word;
pub use crate::event_layout::{HEADER_SIZE, TIME_AT};
pub use crate::shape::{CONTROL_SIZE, SLEEPING};

/// Offset of `WRITE` in a ring's control, in bytes.
pub const WRITE: usize = Word::Write as usize;
/// Offset of `LAST_TIME` in a ring's control, in bytes.
pub const LAST_TIME: usize = Word::LastTime as usize;
/// Offset of `LOST` in a ring's control, in bytes.
pub const LOST: usize = Word::Lost as usize;
/// Offset of `OWNER` in a ring's control, in bytes.
pub const OWNER: usize = Word::Owner as usize;
/// Offset of `UNPLACED` in a ring's control, in bytes.
pub const UNPLACED: usize = Word::Unplaced as usize;
/// Offset of `RECORDED` in a ring's control, in bytes.
pub const RECORDED: usize = Word::Recorded as usize;
/// Offset of `READ` in a ring's control, in bytes.
pub const READ: usize = Word::Read as usize;
