//! A request as a picture: what it was in a line, and its spans below, each with who, what, how
//! long, how much of that itself, and a bar to scale. Nothing is wider than it may be.

use super::words;
use crate::info::table::{Look, Tone};
use crate::info::units::{duration, plural};
use crate::time::{TimeFormat, TimePrinter};
use blkkin_model::{Kind, TagRef, ValueRef};
use blkkin_reader::Text;
use blkkin_spans::{Request, Step};

/// How to draw.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// With colours.
    pub color: bool,
    /// Without Unicode's blocks and lines.
    pub ascii: bool,
    /// Characters of a line.
    pub width: usize,
    /// What was said of spans, below each.
    pub annotations: bool,
    /// Dates in UTC instead of the local time zone.
    pub utc: bool,
    /// Times are dates.
    pub absolute: bool,
}

/// Draws requests.
#[derive(Debug)]
pub struct TreePrinter {
    options: Options,
    look: Look,
    times: TimePrinter,
}

/// A bar is as wide as that, where it can be.
const BAR_MIN: usize = 24;
const BAR_MAX: usize = 60;
const LABEL_MIN: usize = 16;
const LABEL_MAX: usize = 60;
/// Lines that are narrower have no place for the spans' own time, or no bar.
const OWN_TIME_FROM: usize = 72;
const BAR_FROM: usize = 48;

/// Columns of a request's lines.
struct Columns {
    label: usize,
    /// Lengths of time, and what of them is the spans' own; 0 if there is no place for that.
    time: usize,
    own: usize,
    /// 0 if there is no place for one.
    bar: usize,
    /// When the request starts, and how long it takes.
    start: u64,
    length: u64,
    /// More is not indented.
    depth_max: usize,
}

impl TreePrinter {
    /// One that draws in this way.
    pub fn new(options: Options) -> TreePrinter {
        let format = if options.absolute { TimeFormat::Date } else { TimeFormat::Seconds };
        let times = TimePrinter::new(format, options.utc);
        let look = Look { color: options.color, ascii: options.ascii };
        TreePrinter { options, look, times }
    }

    /// Appends the picture of a request.
    pub fn print(&mut self, out: &mut String, request: &Request<'_>) {
        self.header(out, request);
        let columns = self.columns(request);
        let mut guides = Guides::new(request, self.look.ascii);
        for (at, step) in request.steps.iter().enumerate() {
            let depth = step.depth.min(columns.depth_max);
            self.step(out, step, &guides.of(at, depth), &columns);
            if self.options.annotations {
                let below = guides.below(at, depth);
                self.annotations(out, step, &below, &columns);
            }
        }
    }

    /// What the request was, in a line, or in several if they are narrow.
    fn header(&mut self, out: &mut String, request: &Request<'_>) {
        let root = request.steps.first().map(|step| step.span);
        let clean = |text: &str| self.look.clean(text, LABEL_MAX);
        let mut pieces = vec![(Tone::Strong, request.id.to_string())];
        pieces.extend(
            root.map(|root| (Tone::Strong, title(&clean(root.local.service), &clean(root.name)))),
        );
        let extent = request.extent_ns();
        if let Some((start, end)) = extent {
            let start = i64::try_from(start).unwrap_or(i64::MAX);
            let text = Text::of(|text| self.times.print(text, start, 0));
            let unit = if self.options.absolute { "" } else { " s" };
            pieces.push((Tone::Faint, format!("{}{unit}", String::from_utf8_lossy(&text))));
            pieces.push((Tone::Strong, self.duration(end - (start as u64).min(end))));
        }
        pieces.push((Tone::Plain, plural(request.steps.len() as u64, "span")));
        let errors = request.errors() as u64;
        if errors > 0 {
            pieces.push((Tone::Alarm, plural(errors, "error")));
        }
        pieces.extend(words::of_request(request).into_iter().map(|words| (Tone::Alarm, words)));
        let (mut column, mut indent) = (0, 0);
        for (tone, piece) in pieces {
            // What is too long for a line of its own is cut.
            let piece = cut(&piece, self.options.width.saturating_sub(2), self.look.ascii);
            let length = piece.chars().count();
            if column > 0 && column + 2 + length > self.options.width {
                out.push('\n');
                column = 0;
            }
            let gap = if column > 0 { 2 } else { std::mem::replace(&mut indent, 2) };
            out.extend(std::iter::repeat_n(' ', gap));
            out.push_str(&self.look.paint(tone, &piece));
            column += gap + length;
        }
        out.push('\n');
    }

    fn columns(&self, request: &Request<'_>) -> Columns {
        let width = self.options.width;
        let (start, end) = request.extent_ns().unwrap_or_default();
        let longest = |texts: &mut dyn Iterator<Item = String>| {
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let mut time = longest(&mut request.steps.iter().map(|step| self.time(step)));
        if self.options.annotations {
            let all = request.steps.iter().flat_map(|step| step.span.annotations);
            time = time.max(longest(&mut all.map(|said| self.after(said.time_ns, start))));
        }
        let mut own = longest(&mut request.steps.iter().map(|step| self.own_time(step)));
        if width < OWN_TIME_FROM {
            own = 0;
        }
        let times: usize =
            [time, own].into_iter().filter(|width| *width > 0).map(|width| width + 2).sum();
        let bar_min = if width >= BAR_FROM { BAR_MIN.min(width / 4) } else { 0 };
        let gap = if bar_min > 0 { 2 } else { 0 };
        let label_max = width.saturating_sub(bar_min + gap + times).clamp(LABEL_MIN, LABEL_MAX);
        let depth_max = (label_max / 2 - 2) / 2;
        let longest = request.steps.iter().map(|step| {
            let label =
                self.label(step).iter().map(|(_, text)| text.chars().count()).sum::<usize>();
            let said = step.span.annotations.iter().filter(|_| self.options.annotations);
            let said = said.map(|said| said.value.chars().take(LABEL_MAX).count() + 4);
            2 * step.depth.min(depth_max) + label.max(said.max().unwrap_or(0))
        });
        let label = longest.max().unwrap_or(0).clamp(LABEL_MIN, label_max);
        let rest = width.saturating_sub(label + times + gap);
        let bar = if bar_min > 0 { rest.min(BAR_MAX) } else { 0 };
        Columns { label, time, own, bar, start, length: end - start, depth_max }
    }

    /// Who, what, and what is odd about it.
    fn label(&self, step: &Step<'_>) -> Vec<(Tone, String)> {
        let span = &step.span;
        let clean = |text: &str| self.look.clean(text, LABEL_MAX);
        let mut label = vec![(Tone::Plain, title(&clean(span.local.service), &clean(span.name)))];
        let kind = match span.kind {
            Kind::Client => " client",
            Kind::Server => " server",
            Kind::Producer => " producer",
            Kind::Consumer => " consumer",
            Kind::Internal | Kind::Unspecified => "",
        };
        label.push((Tone::Faint, kind.to_owned()));
        if span.is_error() {
            label.push((Tone::Alarm, " error".to_owned()));
        }
        let odd = words::of_step(step).join(", ");
        if !odd.is_empty() {
            label.push((Tone::Alarm, format!(" ({odd})")));
        }
        label
    }

    fn step(&self, out: &mut String, step: &Step<'_>, guide: &str, columns: &Columns) {
        let mut pieces = vec![(Tone::Faint, guide.to_owned())];
        if step.depth > columns.depth_max {
            let mark = if self.look.ascii { ">" } else { "»" };
            pieces.push((Tone::Faint, format!("{mark}{} ", step.depth)));
        }
        pieces.extend(self.label(step));
        self.fitted(out, &pieces, columns.label);
        self.right(out, Tone::Plain, &self.time(step), columns.time);
        self.right(out, Tone::Faint, &self.own_time(step), columns.own);
        if columns.bar > 0 {
            let tone = if step.span.is_error() { Tone::Alarm } else { Tone::Bar };
            out.push_str("  ");
            out.push_str(&self.look.paint(tone, &self.bar(step, columns)));
        }
        end_line(out);
    }

    /// What was said of a span: what happened, when, and what was the case.
    fn annotations(&self, out: &mut String, step: &Step<'_>, below: &str, columns: &Columns) {
        let dot = if self.look.ascii { "* " } else { "· " };
        for annotation in step.span.annotations {
            let text = self.look.clean(annotation.value, 200);
            let pieces = [(Tone::Faint, format!("{below}{dot}")), (Tone::Plain, text)];
            self.fitted(out, &pieces, columns.label);
            let after = annotation.time_ns.saturating_sub(columns.start);
            let text = self.after(annotation.time_ns, columns.start);
            self.right(out, Tone::Faint, &text, columns.time);
            self.right(out, Tone::Plain, "", columns.own);
            if columns.bar > 0 {
                let at = place(after, columns.length, columns.bar * 8) / 8;
                out.push_str("  ");
                out.extend(std::iter::repeat_n(' ', at.min(columns.bar - 1)));
                out.push_str(
                    &self.look.paint(Tone::Faint, if self.look.ascii { "^" } else { "╵" }),
                );
            }
            end_line(out);
        }
        for tag in step.span.tags {
            let text = self.look.clean(&shown(tag), 400);
            let room = self.options.width.saturating_sub(below.chars().count() + 2);
            out.push_str(&self.look.paint(Tone::Faint, &format!("{below}{dot}")));
            out.push_str(&self.look.paint(Tone::Plain, &cut(&text, room, self.look.ascii)));
            end_line(out);
        }
    }

    /// When the span was, in the time of the request.
    fn bar(&self, step: &Step<'_>, columns: &Columns) -> String {
        let Some(start) = step.span.start_ns else { return String::new() };
        let eighths = columns.bar * 8;
        let at = |time: u64| place(time.saturating_sub(columns.start), columns.length, eighths);
        match step.end_ns() {
            // Also at the very end there is something to see.
            Some(end) => self.look.placed(at(start).min(eighths - 1), at(end)),
            None => {
                // A moment; or it is not known how long.
                let cell = (at(start) / 8).min(columns.bar - 1);
                let last = step.span.annotations.last().map_or(start, |last| last.time_ns);
                let (mark, rest) = if self.look.ascii { ('|', '-') } else { ('▏', '╌') };
                let length = (at(last) / 8).min(columns.bar - 1).saturating_sub(cell);
                let blank = std::iter::repeat_n(' ', cell);
                blank.chain([mark]).chain(std::iter::repeat_n(rest, length)).collect()
            }
        }
    }

    /// Appends pieces, which take exactly so many characters.
    fn fitted(&self, out: &mut String, pieces: &[(Tone, String)], width: usize) {
        let mut rest = width;
        let total: usize = pieces.iter().map(|(_, text)| text.chars().count()).sum();
        let mut left = total;
        for (tone, text) in pieces {
            let length = text.chars().count();
            left -= length;
            // The last piece that fits only in part ends with dots.
            let is_cut = length + left.min(1) > rest && total > width;
            let text = if is_cut { cut_hard(text, rest, self.look.ascii) } else { text.clone() };
            out.push_str(&self.look.paint(*tone, &text));
            rest -= text.chars().count().min(rest);
            if is_cut {
                break;
            }
        }
        out.extend(std::iter::repeat_n(' ', rest));
    }

    /// Appends a text at the right of its column.
    fn right(&self, out: &mut String, tone: Tone, text: &str, width: usize) {
        if width > 0 {
            out.extend(std::iter::repeat_n(' ', (width + 2).saturating_sub(text.chars().count())));
            out.push_str(&self.look.paint(tone, text));
        }
    }

    fn time(&self, step: &Step<'_>) -> String {
        step.span.duration_ns.map(|ns| self.duration(ns)).unwrap_or_default()
    }

    fn own_time(&self, step: &Step<'_>) -> String {
        let own = step.self_ns.filter(|own| Some(*own) != step.span.duration_ns);
        own.map(|ns| format!("own {}", self.duration(ns))).unwrap_or_default()
    }

    fn after(&self, time_ns: u64, start: u64) -> String {
        format!("+{}", self.duration(time_ns.saturating_sub(start)))
    }

    fn duration(&self, ns: u64) -> String {
        let text = duration(ns);
        if self.look.ascii { text } else { text.replace("us", "µs") }
    }
}

/// `SERVICE  NAME`, as far as they are known.
fn title(service: &str, name: &str) -> String {
    match (service, name) {
        ("", "") => "?".to_owned(),
        ("", one) | (one, "") => one.to_owned(),
        (service, name) => format!("{service}: {name}"),
    }
}

fn shown(tag: &TagRef<'_>) -> String {
    match tag.value {
        ValueRef::Str(text) => format!("{} = {text}", tag.key),
        ValueRef::Int(number) => format!("{} = {number}", tag.key),
        ValueRef::Bool(flag) => format!("{} = {flag}", tag.key),
        ValueRef::Double(number) => format!("{} = {number}", tag.key),
        ValueRef::Bytes(bytes) => format!("{} = {bytes:02x?}", tag.key),
    }
}

/// Where a time is among so many eighths.
fn place(time: u64, length: u64, eighths: usize) -> usize {
    if length == 0 {
        return 0;
    }
    let place = time.min(length) as f64 / length as f64 * eighths as f64;
    (place.round() as usize).min(eighths)
}

/// At most so many characters of a text: its beginning, which says most.
fn cut(text: &str, most: usize, ascii: bool) -> String {
    if text.chars().count() <= most { text.to_owned() } else { cut_hard(text, most, ascii) }
}

/// The same, with dots also where all would fit.
fn cut_hard(text: &str, most: usize, ascii: bool) -> String {
    let dots = if ascii { ".." } else { "…" };
    let keep = most.saturating_sub(dots.chars().count());
    text.chars().take(keep).chain(dots.chars()).take(most).collect()
}

fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

/// The lines that tie children to parents.
struct Guides {
    ascii: bool,
    /// Of each step: whether another one with the same cause comes later, and whether it has caused
    /// any.
    steps: Vec<(bool, bool)>,
    /// Of each depth on the way to the last step: whether its line goes on.
    way: Vec<bool>,
}

impl Guides {
    fn new(request: &Request<'_>, ascii: bool) -> Guides {
        let mut steps = vec![(false, false); request.steps.len()];
        // From behind: causes are before what they cause.
        for (at, step) in request.steps.iter().enumerate().rev() {
            if let Some(parent) = step.parent {
                steps[at].0 = std::mem::replace(&mut steps[parent].1, true);
            }
        }
        Guides { ascii, steps, way: Vec::new() }
    }

    /// What is before a step's name.
    fn of(&mut self, at: usize, depth: usize) -> String {
        let Some(above) = depth.checked_sub(1) else {
            self.way.clear();
            return String::new();
        };
        self.way.resize(depth, false);
        let mut guide = self.lines(above);
        let (goes_on, _) = self.steps[at];
        self.way[above] = goes_on;
        guide.push_str(match (goes_on, self.ascii) {
            (true, false) => "├ ",
            (false, false) => "└ ",
            (true, true) => "+ ",
            (false, true) => "` ",
        });
        guide
    }

    /// What is before that which is said of it.
    fn below(&self, at: usize, depth: usize) -> String {
        let mut guide = self.lines(depth);
        let (_, has_child) = self.steps[at];
        guide.push_str(self.line(has_child));
        guide
    }

    fn lines(&self, depths: usize) -> String {
        self.way.iter().take(depths).map(|goes_on| self.line(*goes_on)).collect()
    }

    fn line(&self, goes_on: bool) -> &'static str {
        match (goes_on, self.ascii) {
            (false, _) => "  ",
            (true, false) => "│ ",
            (true, true) => "| ",
        }
    }
}
