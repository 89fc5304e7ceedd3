//! Heat maps of spans by start and duration: [`Heat`].

use crate::Window;

/// Number of rows of a heat map: one for the duration 0, and four for each power of two.
const ROWS: usize = 1 + 4 * u64::BITS as usize;

/// Boundaries of the four rows within a power of two, on a logarithmic scale. They are 2⁶³ times
/// the first, second and third power of the fourth root of two, rounded down.
const STEPS: [u64; 3] =
    [10_968_499_650_544_839_023, 13_043_817_825_332_782_212, 15_511_800_964_685_064_948];

/// Heat map of spans. Columns of equal width divide the window of start times; four rows for each
/// power of two divide the durations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heat {
    window: Window,
    columns: usize,
    column_ns: u64,
    /// Number of spans in each cell, column by column.
    counts: Vec<u64>,
}

impl Heat {
    /// Creates an empty heat map with at least one column.
    pub fn new(window: Window, columns: usize) -> Heat {
        let columns = columns.max(1);
        let length = window.end_ns.saturating_sub(window.start_ns);
        let column_ns = (length / columns as u64).saturating_add(1);
        Heat { window, columns, column_ns, counts: vec![0; columns * ROWS] }
    }

    /// Returns the window of start times that the columns cover.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Returns the number of columns; at least 1.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the width of a column in nanoseconds.
    pub fn column_ns(&self) -> u64 {
        self.column_ns
    }

    /// Counts a span if it started in the window.
    #[inline]
    pub fn add(&mut self, start_ns: u64, duration_ns: u64) {
        if self.window.holds(start_ns) {
            // The width of a single column over all times saturates. The window's last nanosecond
            // would then be after the last column.
            let column = ((start_ns - self.window.start_ns) / self.column_ns) as usize;
            self.counts[column.min(self.columns - 1) * ROWS + Heat::row(duration_ns)] += 1;
        }
    }

    /// Returns the number of counted spans.
    pub fn spans(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the column, row and count of every nonempty cell, in order.
    pub fn cells(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(at, &count)| (at / ROWS, at % ROWS, count))
    }

    /// Returns the row of a duration. A longer duration is in the same or a greater row.
    #[inline]
    pub fn row(duration_ns: u64) -> usize {
        let Some(power) = duration_ns.checked_ilog2() else { return 0 };
        let scaled = duration_ns << (u64::BITS - 1 - power);
        let steps = STEPS.iter().filter(|step| scaled > **step).count();
        1 + 4 * power as usize + steps
    }

    /// Returns the shortest and the longest duration of a row, in nanoseconds. `None` if no
    /// duration belongs to the row: below 4 ns, there are fewer integers than rows.
    pub fn bounds(row: usize) -> Option<(u64, u64)> {
        let (least, behind) = match row {
            0 => (0, Some(1)),
            1..ROWS => (least(row)?, least(row + 1)),
            _ => return None,
        };
        let greatest = behind.map_or(u64::MAX, |behind| behind - 1);
        (least <= greatest).then_some((least, greatest))
    }
}

/// Returns the shortest duration of a row other than row 0, or of the next nonempty row if no
/// duration belongs to the row; `None` past the last row.
fn least(row: usize) -> Option<u64> {
    let (power, step) = ((row - 1) / 4, (row - 1) % 4);
    let shift = (u64::BITS - 1).checked_sub(power as u32)?;
    Some(match step.checked_sub(1) {
        None => 1 << power,
        Some(step) => (STEPS[step] >> shift) + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_have_no_gaps() {
        let mut next = 0;
        for row in 0..ROWS {
            let Some((least, greatest)) = Heat::bounds(row) else { continue };
            assert_eq!(least, next, "{row}");
            assert_eq!((Heat::row(least), Heat::row(greatest)), (row, row));
            next = greatest.wrapping_add(1);
        }
        assert_eq!(next, 0, "all of 64 bits have a row");
        assert_eq!(Heat::bounds(ROWS), None);
        assert_eq!(Heat::bounds(Heat::row(1024)), Some((1024, 1217)));
        assert_eq!(Heat::bounds(Heat::row(2047)), Some((1723, 2047)));
    }

    /// Asserts the column width and the cells of a heat map that counted `spans`, which are pairs
    /// of start and duration. `expected` has the form `column_ns; column/row*count …`.
    #[track_caller]
    fn check(window: (u64, u64), columns: usize, spans: &[(u64, u64)], expected: &str) {
        let mut heat = Heat::new(Window { start_ns: window.0, end_ns: window.1 }, columns);
        spans.iter().for_each(|&(start, duration)| heat.add(start, duration));
        let cells = heat.cells().map(|(column, row, count)| format!(" {column}/{row}*{count}"));
        assert_eq!(format!("{};{}", heat.column_ns(), cells.collect::<String>()), expected);
    }

    #[test]
    fn spans_are_counted_in_cells() {
        check((0, 99), 10, &[], "10;");
        check((0, 99), 10, &[(0, 0), (9, 1), (10, 1), (99, 1)], "10; 0/0*1 0/1*1 1/1*1 9/1*1");
        check((5, 5), 3, &[(4, 1), (5, 2), (5, 2), (6, 1)], "1; 0/5*2");
        check((0, 100), 10, &[(100, 1)], "11; 9/1*1");
        check((10, 9), 0, &[(9, 1), (10, 1)], "1;");
        let all = (0, u64::MAX);
        let ends = [(0, u64::MAX), (u64::MAX, u64::MAX)];
        check(all, 1, &ends, &format!("{}; 0/256*2", u64::MAX));
        check(all, 2, &ends, &format!("{}; 0/256*1 1/256*1", 1u64 << 63));
    }
}
