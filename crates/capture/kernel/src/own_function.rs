//! A function of this program, at which breakpoints are attempted and their time is measured.

use blkkin_sys::bpf::{AttachPoint, Link, Program, UserInstruction};
use std::fs;
use std::hint::black_box;
use std::time::Instant;

/// Number of breakpoints whose time is measured together.
const TRAPS: u128 = 32;
/// Number of such measurements.
const TRAP_TRIES: usize = 8;
/// Code of a program that does nothing.
pub(crate) const NOTHING: [u64; 2] = [0xb7, 0x95];

/// Function whose first instruction is the place of the breakpoints.
#[inline(never)]
pub(crate) fn function() -> u64 {
    black_box(1)
}

/// Returns the offset of the function in this program's file.
pub(crate) fn file_offset() -> Option<u64> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    offset_in_file(&maps, function as *const () as u64)
}

fn offset_in_file(maps: &str, address: u64) -> Option<u64> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    maps.lines().find_map(|line| {
        let mut parts = line.split_ascii_whitespace();
        let (start, end) = parts.next()?.split_once('-')?;
        let offset = hexadecimal(parts.nth(1)?)?;
        let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
        let distance = address.checked_sub(start).filter(|_| address < end)?;
        offset.checked_add(distance)
    })
}

/// Attaches a program that does nothing to the function; `None` if that is not permitted.
pub(crate) fn attach() -> Option<Link> {
    let offset = file_offset()?;
    let program = Program::load("blkkin_attempt", &NOTHING, AttachPoint::UserInstruction).ok()?;
    let instruction = UserInstruction { offset, counter: 0, cookie: 0 };
    program.attach_to_user_instruction(c"/proc/self/exe", instruction, false).ok()
}

/// Measures the time in nanoseconds for which a breakpoint interrupts a program, at a function of
/// this program; `None` if that is not permitted. A breakpoint at an instruction that the kernel
/// does not emulate takes up to twice as long, because of a second trap.
pub(crate) fn trap_ns() -> Option<u64> {
    let _link = attach()?;
    let time = |_| {
        let begin = Instant::now();
        for _ in 0..TRAPS {
            black_box(function());
        }
        begin.elapsed().as_nanos() / TRAPS
    };
    // Other processes may have interrupted the other measurements.
    let least = (0..TRAP_TRIES).map(time).min()?;
    u64::try_from(least).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::testing::skip;

    #[test]
    fn offsets_of_addresses_in_a_file() {
        let maps =
            "1000-3000 r-xp 00000400 08:01 7 /bin/a\n5000-6000 r-xp ffffffffffffffff 0:0 0\n";
        assert_eq!(offset_in_file(maps, 0x1000), Some(0x400));
        assert_eq!(offset_in_file(maps, 0x2fff), Some(0x23ff));
        assert_eq!(offset_in_file(maps, 0x3000), None);
        assert_eq!(offset_in_file(maps, 0x5001), None);
        assert_eq!(offset_in_file("x\n-\n1-2\n1-2 r zz\n", 1), None);
    }

    #[test]
    fn the_time_of_a_breakpoint_is_measured() {
        let Some(time_ns) = trap_ns() else {
            return skip("the_time_of_a_breakpoint_is_measured", "no breakpoint is permitted");
        };
        assert_ne!(time_ns, 0);
    }
}
