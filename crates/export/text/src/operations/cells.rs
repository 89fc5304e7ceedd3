//! Texts of the values of operations, as cells of a line.

use crate::info::table::Theme;
use crate::info::units::duration;
use crate::number::{NUMBER_SIZE, put_unsigned};

/// Text in place of an unknown name or path.
const UNKNOWN: &str = "?";

/// Text that is appended to a line.
pub(super) trait Cell {
    fn put(&self, out: &mut Vec<u8>);
}

/// Line of cells with two spaces between them.
pub(super) struct Line<'l> {
    out: &'l mut Vec<u8>,
    /// Position of the line's start in `out`.
    start: usize,
}

impl<'l> Line<'l> {
    /// Begins a line at the end of `out`.
    pub(super) fn new(out: &'l mut Vec<u8>) -> Line<'l> {
        Line { start: out.len(), out }
    }

    pub(super) fn left(&mut self, cell: impl Cell, width: usize) {
        let start = self.out.len();
        cell.put(self.out);
        let missing = self.missing(start, width);
        self.out.resize(self.out.len() + missing + 2, b' ');
    }

    pub(super) fn right(&mut self, cell: impl Cell, width: usize) {
        let start = self.out.len();
        cell.put(self.out);
        let missing = self.missing(start, width);
        self.out.resize(self.out.len() + missing, b' ');
        self.out[start..].rotate_right(missing);
        self.out.extend_from_slice(b"  ");
    }

    /// Returns the number of spaces that fill the cell from `start` on up to `width`.
    fn missing(&self, start: usize, width: usize) -> usize {
        // Bytes of UTF-8 other than the first of a character are from 0x80 to 0xbf.
        let characters = self.out[start..].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        width.saturating_sub(characters)
    }

    /// Ends the line with a last cell, without spaces at the end.
    pub(super) fn end(self, cell: impl Cell) {
        cell.put(self.out);
        let size = self.out[self.start..].trim_ascii_end().len();
        self.out.truncate(self.start + size);
        self.out.push(b'\n');
    }
}

impl Cell for &str {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Cell for &[u8] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Cell for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut digits = [0; NUMBER_SIZE];
        let end = put_unsigned(&mut digits, 0, *self);
        out.extend_from_slice(&digits[..end]);
    }
}

impl Cell for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        u64::from(*self).put(out);
    }
}

impl Cell for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        if *self < 0 {
            out.push(b'-');
        }
        self.unsigned_abs().put(out);
    }
}

impl Cell for i32 {
    fn put(&self, out: &mut Vec<u8>) {
        i64::from(*self).put(out);
    }
}

/// Prints nothing for an absent value.
impl<C: Cell> Cell for Option<C> {
    fn put(&self, out: &mut Vec<u8>) {
        if let Some(cell) = self {
            cell.put(out);
        }
    }
}

/// Text of a trace, printed with `?` in place of control characters.
pub(super) struct Clean<'t>(pub(super) Theme, pub(super) &'t str);

impl Cell for Clean<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Clean(theme, text) = self;
        match text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            true => text.put(out),
            false => out.extend_from_slice(theme.clean(text, usize::MAX).as_bytes()),
        }
    }
}

/// Duration in nanoseconds, with an aligned unit: `12.3 µs`, `1.20 s `.
pub(super) struct Latency(pub(super) u64, pub(super) Theme);

impl Cell for Latency {
    fn put(&self, out: &mut Vec<u8>) {
        let Latency(ns, theme) = *self;
        let micro = if theme.ascii { "us" } else { "µs" };
        // The limits are those at which a longer unit has three digits after rounding.
        let (unit_ns, unit) = match ns {
            0..1_000 => {
                ns.put(out);
                return " ns".put(out);
            }
            1_000..999_500 => (1_000, micro),
            999_500..999_500_000 => (1_000_000, "ms"),
            999_500_000..60_000_000_000 => (1_000_000_000, "s "),
            _ => return duration(ns).as_str().put(out),
        };
        let rounded = |parts: u64| (ns * parts + unit_ns / 2) / unit_ns;
        match (rounded(100), rounded(10)) {
            (hundredths @ ..1_000, _) => {
                (hundredths / 100).put(out);
                let digits =
                    [hundredths / 10 % 10, hundredths % 10].map(|digit| b'0' + digit as u8);
                out.extend_from_slice(&[b'.', digits[0], digits[1], b' ']);
            }
            (_, tenths @ ..1_000) => {
                (tenths / 10).put(out);
                out.extend_from_slice(&[b'.', b'0' + (tenths % 10) as u8, b' ']);
            }
            _ => {
                rounded(1).put(out);
                out.push(b' ');
            }
        }
        unit.put(out);
    }
}

/// Returns a name, or [`UNKNOWN`] in place of an empty one.
pub(super) fn known(name: &str) -> &str {
    if name.is_empty() { UNKNOWN } else { name }
}

/// Returns the text of a cell.
pub(super) fn text(cell: impl Cell) -> String {
    let mut out = Vec::new();
    cell.put(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three digits, and rounding up to the next unit.
    #[test]
    fn latencies_have_three_digits() {
        let check = |ns: u64, expected: &str| {
            assert_eq!(text(Latency(ns, Theme { color: false, ascii: false })), expected);
        };
        check(0, "0 ns");
        check(999, "999 ns");
        check(1_000, "1.00 µs");
        check(9_994, "9.99 µs");
        check(9_996, "10.0 µs");
        check(12_348, "12.3 µs");
        check(99_951, "100 µs");
        check(999_499, "999 µs");
        check(999_500, "1.00 ms");
        check(999_500_000, "1.00 s ");
        check(59_000_000_000, "59.0 s ");
        check(61_500_000_000, "1 min 1.5 s");
        check(u64::MAX, "213,503 d 23 h");
        assert_eq!(text(Latency(12_348, Theme { color: false, ascii: true })), "12.3 us");
    }
}
