//! Aligned columns of text, for terminals and for `awk`.

use clap::builder::styling::Style;
use std::fmt::Write;

/// Alignment of a table column: left for text, right for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Table with a heading and aligned columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug)]
pub(crate) struct Cell {
    text: String,
    style: Option<Style>,
}

impl Cell {
    /// Creates a cell with a style, which applies only to coloured output.
    pub(crate) fn styled(text: impl Into<String>, style: Style) -> Cell {
        Cell { text: text.into(), style: Some(style) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), style: None }
    }
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with one cell for each column. An empty cell is shown as `-`.
    pub(crate) fn row(&mut self, mut cells: Vec<Cell>) {
        for cell in cells.iter_mut().filter(|cell| cell.text.is_empty()) {
            cell.text.push('-');
        }
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the heading and the rows, one line each.
    pub(crate) fn print(&self, color: bool) -> String {
        let width = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = self.columns.iter().map(|(name, _)| width(name)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = width(&cell.text).max(*widest);
            }
        }
        let mut output = String::new();
        let mut line = |cells: &mut dyn Iterator<Item = (&str, Option<Style>)>| {
            let mut blanks = 0;
            for ((text, style), (&widest, (_, align))) in
                cells.zip(widths.iter().zip(&self.columns))
            {
                let missing = widest - width(text);
                let (before, after) = match align {
                    Align::Left => (0, missing),
                    Align::Right => (missing, 0),
                };
                // Padding is written before the next cell only, so lines have no trailing blanks.
                output.extend(std::iter::repeat_n(' ', blanks + before));
                let _ = match style.filter(|_| color) {
                    Some(style) => write!(output, "{style}{text}{style:#}"),
                    None => write!(output, "{text}"),
                };
                blanks = after + 2;
            }
            output.push('\n');
        };
        line(&mut self.columns.iter().map(|(name, _)| (*name, Some(Style::new().bold()))));
        for row in &self.rows {
            line(&mut row.iter().map(|cell| (cell.text.as_str(), cell.style)));
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::builder::styling::AnsiColor;

    #[test]
    fn columns_are_aligned() {
        let mut table =
            Table::new(&[("NAME", Align::Left), ("N", Align::Right), ("X", Align::Left)]);
        assert!(table.is_empty());
        table.row(vec!["ä".into(), "10".into(), "".into()]);
        table.row(vec![
            "longer".into(),
            Cell::styled("5", AnsiColor::Red.on_default()),
            "x".into(),
        ]);
        assert_eq!(table.print(false), "NAME     N  X\nä       10  -\nlonger   5  x\n");
        let colored = table.print(true);
        assert!(colored.starts_with("\x1b[1mNAME\x1b[0m     \x1b[1mN\x1b[0m  "), "{colored:?}");
        assert!(colored.ends_with("longer   \x1b[31m5\x1b[0m  x\n"), "{colored:?}");
    }
}
