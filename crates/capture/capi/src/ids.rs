//! Ids: 64 bits, never 0, from a generator for each thread that is seeded by the kernel.
//!
//! To be replaced by the module `id` of blkkin-trace, which the Rust API uses. Until then: asking
//! for the process at each id, so that a child after `fork` does not make its parent's ids, costs a
//! system call.

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64: the state grows by a constant, and an id is its scrambled value, so that a thread
/// makes an id again only after 2^64 others.
#[derive(Clone, Copy)]
struct Generator {
    process: u32,
    state: u64,
}

thread_local! {
    // Without a destructor, so that it can be used by destructors of others and in signal handlers.
    static GENERATOR: Cell<Option<Generator>> = const { Cell::new(None) };
}

/// A new id.
pub(crate) fn next() -> i64 {
    let process = process::id();
    let kept = GENERATOR.try_with(Cell::get).ok().flatten();
    let mut generator = kept
        .filter(|generator| generator.process == process)
        .unwrap_or_else(|| Generator { process, state: seed(process) });
    let id = generator.next();
    let _ = GENERATOR.try_with(|place| place.set(Some(generator)));
    id
}

impl Generator {
    fn next(&mut self) -> i64 {
        loop {
            self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let id = scramble(self.state);
            if id != 0 {
                return id.cast_signed();
            }
        }
    }
}

fn scramble(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn seed(process: u32) -> u64 {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    match read {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => seed_of_circumstances(process),
    }
}

/// For a process that is shut off from the kernel's random numbers: when, who, and where in memory.
fn seed_of_circumstances(process: u32) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let place = (&raw const process).addr() as u64;
    let time = since.as_secs().rotate_left(32) ^ u64::from(since.subsec_nanos());
    scramble(scramble(time).wrapping_add(u64::from(process)) ^ scramble(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Ids are not 0, and differ within a thread, between threads, and without random numbers.
    #[test]
    fn ids_differ() {
        let threads: Vec<_> = (0..8)
            .map(|_| std::thread::spawn(|| (0..10_000).map(|_| next()).collect::<Vec<_>>()))
            .collect();
        let ids: HashSet<i64> =
            threads.into_iter().flat_map(|thread| thread.join().expect("to end")).collect();
        assert_eq!(ids.len(), 80_000);
        assert!(!ids.contains(&0));
        assert_ne!(seed_of_circumstances(1), seed_of_circumstances(2));
        assert_ne!(seed(1), seed(1));
    }

    /// The state of which 0 would be the id is passed over.
    #[test]
    fn zero_is_no_id() {
        let mut generator =
            Generator { process: 0, state: 0_u64.wrapping_sub(0x9e37_79b9_7f4a_7c15) };
        assert_eq!(scramble(0), 0);
        assert_eq!(generator.next(), scramble(0x9e37_79b9_7f4a_7c15).cast_signed());
    }
}
