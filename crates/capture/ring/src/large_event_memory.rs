//! Preallocated buffers for events that are too large for a thread's stack: a signal handler may
//! have only 8 KiB of stack.
//!
//! The size classes of buffers are powers of two, from 4 KiB to the maximum size of a sub-buffer.
//! Each class has no buffers, or a fixed number of them. The lowest free buffer is acquired, so
//! that only as many buffers touch memory as events are recorded at the same time. A buffer is
//! acquired by setting its bit in a bitmap, which never waits and is possible in signal handlers.
//! Buffers of 4096 bytes and of [`EVENT_SIZE_DEFAULT`](crate::EVENT_SIZE_DEFAULT) are part of the
//! library's memory; [`provide`] maps buffers of other sizes.
//!
//! Forked children find all buffers free. A child has one thread, which may be in a signal handler
//! that has interrupted the user of a buffer. If that user continues to write, its bytes may get
//! into another user's event. But the child has no rings at that time, so the event is not
//! recorded.
//!
//! A known limit: a function that is left by `siglongjmp` never releases its buffer. When all
//! buffers are in use, long strings are shortened to what fits on the stack.

use crate::event_layout::GRAIN;
use crate::shape::{EVENT_SIZE_DEFAULT as SIZE_DEFAULT, SUBBUFFER_SIZE_MAX};
use blkkin_sys::WipedOnFork;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Size of the smallest buffers, in bytes.
const SIZE_MIN: usize = 4096;
/// Number of size classes; each class has twice the size of the previous one.
const CLASSES: usize = (SUBBUFFER_SIZE_MAX / SIZE_MIN).ilog2() as usize + 1;
/// Index of the size class of `SIZE_DEFAULT`.
const DEFAULT_CLASS: usize = (SIZE_DEFAULT / SIZE_MIN).ilog2() as usize;

/// Number of buffers in the smallest size class.
const COUNT_SMALL: usize = 64;
/// Number of buffers in each larger size class.
const COUNT: usize = 16;

/// Number of writable padding bytes after a buffer's end.
const TAIL_SIZE: usize = 64;
const _: () = assert!(GRAIN <= TAIL_SIZE);

/// Bitmaps of the buffers in use, by class.
static IN_USE: WipedOnFork<[AtomicU64; CLASSES]> =
    WipedOnFork::of([const { AtomicU64::new(0) }; CLASSES]);

/// Addresses of the first buffer of each class; null if the class has no buffers.
static STARTS: [AtomicPtr<u8>; CLASSES] = {
    let mut starts = [const { AtomicPtr::new(ptr::null_mut()) }; CLASSES];
    starts[0] = AtomicPtr::new(SMALL.0.get().cast());
    starts[DEFAULT_CLASS] = AtomicPtr::new(LARGE.0.get().cast());
    starts
};

/// Memory of the buffers of one size class. Each buffer is written only by the holder of its
/// [`RoomGuard`].
struct RoomMemory<const SIZE: usize>(UnsafeCell<MaybeUninit<[u8; SIZE]>>);

// SAFETY: it is only used through pointers, by one user of a buffer at a time.
#[expect(unsafe_code)]
unsafe impl<const SIZE: usize> Sync for RoomMemory<SIZE> {}

static SMALL: RoomMemory<{ COUNT_SMALL * (SIZE_MIN + TAIL_SIZE) }> =
    RoomMemory(UnsafeCell::new(MaybeUninit::zeroed()));
static LARGE: RoomMemory<{ COUNT * (SIZE_DEFAULT + TAIL_SIZE) }> =
    RoomMemory(UnsafeCell::new(MaybeUninit::zeroed()));

const fn size_of(class: usize) -> usize {
    SIZE_MIN << class
}

/// Registers the bitmaps with the kernel, which clears them in forked children. Returns false if
/// the kernel cannot do that.
pub fn prepare() -> bool {
    IN_USE.arm()
}

/// Maps buffers for events of up to this size, unless their size class has buffers already. A
/// failure is ignored. Called by one thread, before such events are recorded.
pub fn provide(size: usize) {
    let class = (0..CLASSES).find(|class| size_of(*class) >= size).unwrap_or(CLASSES - 1);
    let Some(start) = STARTS.get(class) else { return };
    if !start.load(Ordering::Relaxed).is_null() {
        return;
    }
    let bytes = COUNT * (size_of(class) + TAIL_SIZE);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, which is never unmapped.
    #[expect(unsafe_code)]
    let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if memory != libc::MAP_FAILED {
        start.store(memory.cast(), Ordering::Release);
    }
}

/// Exclusive write access to a buffer; dropping the guard releases the buffer.
#[derive(Debug)]
pub(crate) struct RoomGuard {
    class: usize,
    index: usize,
    start: *mut u8,
}

/// Acquires a buffer of at least this size in bytes, or else the largest free one. Returns `None`
/// if all buffers are in use.
pub(crate) fn acquire(size: usize) -> Option<RoomGuard> {
    let fits = |class: &usize| size_of(*class) >= size;
    let larger = (0..CLASSES).filter(fits);
    let smaller = (0..CLASSES).rev().filter(|class| !fits(class));
    larger.chain(smaller).find_map(acquire_of_size)
}

fn acquire_of_size(class: usize) -> Option<RoomGuard> {
    // Acquire: pairs with the release in `provide`.
    let start = STARTS[class].load(Ordering::Acquire);
    if start.is_null() {
        return None;
    }
    let count = if class == 0 { COUNT_SMALL } else { COUNT };
    let bits = &IN_USE.get()[class];
    let mut before = bits.load(Ordering::Relaxed);
    loop {
        let index = before.trailing_ones() as usize;
        if index >= count {
            return None;
        }
        // Acquire: pairs with the release in `RoomGuard::drop`; the last user has finished writing.
        let after = before | 1 << index;
        match bits.compare_exchange_weak(before, after, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => {
                let start = start.wrapping_add(index * (size_of(class) + TAIL_SIZE));
                return Some(RoomGuard { class, index, start });
            }
            Err(now) => before = now,
        }
    }
}

impl RoomGuard {
    /// Returns the start of the buffer. [`GRAIN`] bytes after its end are writable too.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn size(&self) -> usize {
        size_of(self.class)
    }
}

impl Drop for RoomGuard {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `acquire_of_size`.
        IN_USE.get()[self.class].fetch_and(!(1 << self.index), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_of_any_size_are_provided_once() {
        provide(1 << 20);
        provide(1 << 20);
        let room = acquire((1 << 20) - 5).unwrap();
        assert_eq!(room.size(), 1 << 20);
        // SAFETY: the buffer is this test's.
        #[expect(unsafe_code)]
        unsafe {
            room.start().write_bytes(7, room.size() + GRAIN);
        }
        assert_eq!(acquire(SIZE_DEFAULT + 1).unwrap().size(), 1 << 20);
    }

    #[test]
    fn nobody_gets_a_room_that_is_in_use() {
        provide(2 << 20);
        std::thread::scope(|scope| {
            for thread in 0..8u8 {
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let Some(room) = acquire(2 << 20) else { continue };
                        // SAFETY: the buffer is this thread's.
                        #[expect(unsafe_code)]
                        unsafe {
                            room.start().write_bytes(thread, 64);
                            std::hint::spin_loop();
                            let bytes = std::slice::from_raw_parts(room.start(), 64);
                            assert!(bytes.iter().all(|byte| *byte == thread));
                        }
                    }
                });
            }
        });
    }
}
