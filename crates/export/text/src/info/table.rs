//! Aligned columns, bars and colours.

/// Role of a text, which decides its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    /// Tone of headings.
    Strong,
    /// Tone of secondary text.
    Faint,
    /// Tone of bars and charts.
    Bar,
    /// Tone of losses and errors.
    Alarm,
}

/// Colours and character set of a drawing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub(crate) color: bool,
    pub(crate) ascii: bool,
}

/// Characters of vertical bars, filled from below by 0 to 8 eighths.
const RISING: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Characters of horizontal bars, filled from the left by 0 to 8 eighths.
const GROWING: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
/// ASCII substitutes for [`RISING`] and [`GROWING`].
const ROUGH: [char; 9] = [' ', '.', '.', '.', ':', ':', ':', '#', '#'];

impl Theme {
    /// Returns `text` in the colour of its tone, or unchanged without [`Theme::color`].
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            _ if !self.color || text.trim().is_empty() => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Bar => "36",
            Tone::Alarm => "1;31",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Returns `text` in the colour of this terminal code, or unchanged without [`Theme::color`].
    pub(crate) fn colored(self, code: &str, text: &str) -> String {
        match self.color && !text.trim().is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }

    /// Returns a chart character, filled from below by `eighths`.
    pub(crate) fn rising(self, eighths: usize) -> char {
        if self.ascii { ROUGH[eighths.min(8)] } else { RISING[eighths.min(8)] }
    }

    /// Returns a bar of up to `width` characters, in proportion to `part` of `whole`. A part above
    /// 0 is always visible.
    pub(crate) fn bar(self, part: u64, whole: u64, width: usize) -> String {
        if part == 0 || whole == 0 {
            return String::new();
        }
        let eighths = (part as f64 / whole as f64 * (width * 8) as f64).round() as usize;
        let eighths = eighths.clamp(1, width * 8);
        let mut bar = String::new();
        let levels = if self.ascii { ROUGH } else { GROWING };
        bar.extend(std::iter::repeat_n(levels[8], eighths / 8));
        if !eighths.is_multiple_of(8) {
            bar.push(levels[eighths % 8]);
        }
        bar
    }

    /// Returns a bar between two positions in eighths of a character; the bar is always visible. A
    /// bar over several characters has an exact end, but its start is rounded to a whole, half or
    /// eighth, since Unicode has no other characters.
    pub(crate) fn bar_between(self, from: usize, to: usize) -> String {
        let (cell, offset) = (from / 8, from % 8);
        let eighths = to.saturating_sub(from).max(1);
        let mut bar: String = std::iter::repeat_n(' ', cell).collect();
        let (levels, half, edge) =
            if self.ascii { (ROUGH, ':', '.') } else { (GROWING, '▐', '▕') };
        if offset + eighths <= 8 {
            // Both positions are in the same character.
            bar.push(match offset {
                _ if offset == 0 || eighths >= 4 && offset < 3 => levels[eighths],
                7 => edge,
                _ if offset >= 4 => {
                    if eighths >= 3 {
                        half
                    } else {
                        edge
                    }
                }
                _ => levels[eighths],
            });
            return bar;
        }
        bar.push(match offset {
            0..2 => levels[8],
            2..6 => half,
            _ => edge,
        });
        bar.extend(std::iter::repeat_n(levels[8], (to / 8).saturating_sub(cell + 1)));
        if !to.is_multiple_of(8) {
            bar.push(levels[to % 8]);
        }
        bar
    }

    /// Replaces the control characters in a trace's text by `?`, because a terminal would obey
    /// them. With [`Theme::ascii`], also replaces non-ASCII characters. A text longer than `most`
    /// characters is truncated at its start to `most` characters, including dots.
    pub(crate) fn clean(self, text: &str, most: usize) -> String {
        let shown = |char: char| match char {
            _ if char.is_control() => '?',
            _ if self.ascii && !char.is_ascii() => '?',
            _ => char,
        };
        let length = text.chars().count();
        if length <= most {
            return text.chars().map(shown).collect();
        }
        let dots = if self.ascii { ".." } else { "…" };
        let keep = most - dots.chars().count();
        dots.chars().chain(text.chars().skip(length - keep).map(shown)).collect()
    }
}

/// Alignment and heading of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    Left(&'static str),
    Right(&'static str),
}

/// Table with headings; empty columns are omitted.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<(Tone, String)>>,
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: Vec<(Tone, String)>) {
        self.rows.push(cells);
    }

    /// Prints the table's lines, each indented by two spaces.
    pub(crate) fn print(&self, out: &mut String, theme: Theme) {
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|index| {
                let cells = self.rows.iter().map(|row| row[index].1.chars().count());
                match cells.max() {
                    None | Some(0) => 0,
                    Some(width) => width.max(self.columns[index].title().chars().count()),
                }
            })
            .collect();
        let titles = self.columns.iter().map(|column| (Tone::Faint, column.title().to_owned()));
        let titles: Vec<_> = titles.collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let mut line = String::new();
            let mut gap = 0;
            for ((column, &width), (tone, text)) in self.columns.iter().zip(&widths).zip(row) {
                if width == 0 {
                    continue;
                }
                let padding = width - text.chars().count();
                let (before, after) = match column {
                    Column::Left(_) => (0, padding),
                    Column::Right(_) => (padding, 0),
                };
                if !text.is_empty() {
                    line.extend(std::iter::repeat_n(' ', gap + 2 + before));
                    line.push_str(&theme.paint(*tone, text));
                    gap = after;
                } else {
                    gap += 2 + width;
                }
            }
            out.push_str(&line);
            out.push('\n');
        }
    }
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Column::Left(title) | Column::Right(title) => title,
        }
    }
}
