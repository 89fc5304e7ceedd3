//! Drawing of a request: a header, and a line for each span with service, name, duration, self
//! time, and a bar to scale. Self times and bars are omitted on a narrow terminal. No line is wider
//! than the terminal, unless the terminal has fewer than 34 columns.

use super::calls::{ShownCalls, call_text};
use super::oddities;
use super::own_time::OwnLines;
use super::truncate::{truncate_always, truncate_text};
use crate::info::table::{Theme, Tone};
use crate::info::units::{duration, plural};
use crate::time::{TimeFormat, TimePrinter};
use blkkin_model::{Kind, TagRef, ValueRef};
use blkkin_reader::Text;
use blkkin_spans::{Agreement, Request, Step};

/// Layout and content of a drawn request tree.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Set to use terminal colours.
    pub color: bool,
    /// Set to print only ASCII; other characters of texts are replaced by `?`.
    pub ascii: bool,
    /// Maximum width of a line in characters; below 34, lines may be wider.
    pub width: usize,
    /// Set to print annotations and tags below each span.
    pub annotations: bool,
    /// Set to print below each span what its own time was spent on, and its longest system calls,
    /// if that is known.
    pub kernel: bool,
    /// Set to print dates in UTC instead of the local time zone.
    pub utc: bool,
    /// Set to print a request's start as a date instead of in seconds from the clock's origin.
    pub absolute: bool,
}

/// Printer that draws requests as trees of spans.
#[derive(Debug)]
pub struct TreePrinter {
    options: Options,
    theme: Theme,
    times: TimePrinter,
}

/// Minimum width of the bar column in characters. If a quarter of the line's width is less, that
/// quarter is the minimum.
const BAR_MIN: usize = 24;
/// Maximum width of the bar column in characters.
const BAR_MAX: usize = 60;
/// Minimum width of the label column in characters.
const LABEL_MIN: usize = 16;
/// Maximum width of the label column in characters.
const LABEL_MAX: usize = 60;
/// Minimum width of a line that shows self times, in characters.
const OWN_TIME_FROM: usize = 72;
/// Minimum width of a line that shows bars, in characters.
const BAR_FROM: usize = 48;

/// Widths of a request's columns in characters, and the scale of its bars.
struct Columns {
    label: usize,
    /// Width of the column of durations and of the annotations' offsets.
    time: usize,
    /// Width of the column of self times, in characters; 0 if the line is too narrow or no self
    /// time is shown.
    own: usize,
    /// Width of the bar column, 0 if bars do not fit.
    bar: usize,
    /// Start of the request, in nanoseconds.
    start: u64,
    /// Duration of the request, in nanoseconds.
    length: u64,
    /// Maximum depth of indentation; deeper spans have the same indentation.
    depth_max: usize,
}

impl TreePrinter {
    /// Creates a printer with these options and the theme that follows from them.
    pub fn new(options: Options) -> TreePrinter {
        let format = if options.absolute { TimeFormat::Date } else { TimeFormat::Seconds };
        let times = TimePrinter::new(format, options.utc);
        let theme = Theme { color: options.color, ascii: options.ascii };
        TreePrinter { options, theme, times }
    }

    /// Appends the drawing of a request.
    pub fn print(&mut self, out: &mut String, request: &Request<'_>) {
        self.header(out, request);
        let columns = self.columns(request);
        let mut guides = Guides::new(request, self.theme.ascii);
        let own_lines = self.own_lines(request, &columns);
        for (at, step) in request.steps.iter().enumerate() {
            let depth = step.depth.min(columns.depth_max);
            self.step(out, step, &guides.prefix(at, depth), &columns);
            if self.options.annotations {
                let below = guides.annotation_prefix(at, depth);
                self.annotations(out, step, &below, &columns);
            }
            if let (Some(lines), Some(own)) = (&own_lines, &step.own) {
                lines.print_span(out, &guides.annotation_prefix(at, depth), own);
            }
            self.calls(out, step, &guides.annotation_prefix(at, depth), &columns);
        }
        if let Some(lines) = own_lines {
            lines.print_services(out);
        }
    }

    /// Returns the layout of the lines of own times; `None` without such lines.
    fn own_lines(&self, request: &Request<'_>, columns: &Columns) -> Option<OwnLines> {
        if !self.options.kernel {
            return None;
        }
        let own = request.steps.iter().filter(|step| step.own.is_some());
        let depth = own.map(|step| step.depth.min(columns.depth_max)).max()?;
        OwnLines::new(self.theme, self.options.width, 2 * depth + 2, request)
    }

    /// Prints the request's header, on several lines if the lines are narrow.
    fn header(&mut self, out: &mut String, request: &Request<'_>) {
        let root = request.steps.first().map(|step| step.span);
        let clean = |text: &str| self.theme.clean(text, LABEL_MAX);
        let mut pieces = vec![(Tone::Strong, request.id.to_string())];
        pieces.extend(
            root.map(|root| (Tone::Strong, title(&clean(root.local.service), &clean(root.name)))),
        );
        let extent = request.extent_ns();
        if let Some((start, end)) = extent {
            let start = i64::try_from(start).unwrap_or(i64::MAX);
            let text = Text::from_print(|text| self.times.print(text, start, 0));
            let unit = if self.options.absolute { "" } else { " s" };
            pieces.push((Tone::Faint, format!("{}{unit}", String::from_utf8_lossy(&text))));
            pieces.push((Tone::Strong, self.duration(end - (start as u64).min(end))));
        }
        pieces.push((Tone::Plain, plural(request.steps.len() as u64, "span")));
        let errors = request.errors() as u64;
        if errors > 0 {
            pieces.push((Tone::Alarm, plural(errors, "error")));
        }
        match request.agreement() {
            Agreement::Unmeasured => {}
            Agreement::Within(error_ns) => {
                let sign = if self.theme.ascii { "+-" } else { "±" };
                pieces.push((Tone::Faint, format!("clocks {sign}{}", self.duration(error_ns))));
            }
            Agreement::Partial => pieces.push((Tone::Alarm, "some clocks unknown".to_owned())),
        }
        pieces.extend(
            oddities::request_remarks(request).into_iter().map(|words| (Tone::Alarm, words)),
        );
        let (mut column, mut indent) = (0, 0);
        for (tone, piece) in pieces {
            // A part that is longer than a line is truncated.
            let piece =
                truncate_text(&piece, self.options.width.saturating_sub(2), self.theme.ascii);
            let length = piece.chars().count();
            if column > 0 && column + 2 + length > self.options.width {
                out.push('\n');
                column = 0;
            }
            let gap = if column > 0 { 2 } else { std::mem::replace(&mut indent, 2) };
            out.extend(std::iter::repeat_n(' ', gap));
            out.push_str(&self.theme.paint(tone, &piece));
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
            time = time.max(longest(
                &mut all.map(|annotation| self.format_offset(annotation.time_ns, start)),
            ));
        }
        let calls: Vec<ShownCalls<'_>> =
            request.steps.iter().map(|step| self.shown_calls(step)).collect();
        let times = |calls: &ShownCalls<'_>| {
            let longest = calls.shown.iter().map(|call| call.duration_ns).max();
            [longest.unwrap_or(0), calls.others_ns].map(|ns| self.duration(ns))
        };
        if calls.iter().any(|calls| !calls.shown.is_empty()) {
            time = time.max(longest(&mut calls.iter().flat_map(times)));
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
        let longest = request.steps.iter().zip(&calls).map(|(step, calls)| {
            let label =
                self.label(step).iter().map(|(_, text)| text.chars().count()).sum::<usize>();
            let annotations = step.span.annotations.iter().filter(|_| self.options.annotations);
            let annotations =
                annotations.map(|annotation| annotation.value.chars().take(LABEL_MAX).count() + 4);
            let calls = calls.shown.iter();
            let calls =
                calls.map(|call| call_text(call, LABEL_MAX, self.theme).chars().count() + 4);
            let below = annotations.max().max(calls.max()).unwrap_or(0);
            2 * step.depth.min(depth_max) + label.max(below)
        });
        let label = longest.max().unwrap_or(0).clamp(LABEL_MIN, label_max);
        let rest = width.saturating_sub(label + times + gap);
        let bar = if bar_min > 0 { rest.min(BAR_MAX) } else { 0 };
        Columns { label, time, own, bar, start, length: end - start, depth_max }
    }

    /// Returns the label of a span: service, name, kind, error mark and anomalies.
    fn label(&self, step: &Step<'_>) -> Vec<(Tone, String)> {
        let span = &step.span;
        let clean = |text: &str| self.theme.clean(text, LABEL_MAX);
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
        let odd = oddities::step_remarks(step).join(", ");
        if !odd.is_empty() {
            label.push((Tone::Alarm, format!(" ({odd})")));
        }
        label
    }

    fn step(&self, out: &mut String, step: &Step<'_>, guide: &str, columns: &Columns) {
        let mut pieces = vec![(Tone::Faint, guide.to_owned())];
        if step.depth > columns.depth_max {
            let mark = if self.theme.ascii { ">" } else { "»" };
            pieces.push((Tone::Faint, format!("{mark}{} ", step.depth)));
        }
        pieces.extend(self.label(step));
        self.push_fitted(out, &pieces, columns.label);
        self.push_right(out, Tone::Plain, &self.time(step), columns.time);
        self.push_right(out, Tone::Faint, &self.own_time(step), columns.own);
        if columns.bar > 0 {
            let tone = if step.span.is_error() { Tone::Alarm } else { Tone::Bar };
            out.push_str("  ");
            out.push_str(&self.theme.paint(tone, &self.bar(step, columns)));
        }
        end_line(out);
    }

    /// Prints a span's annotations, each with its time, and its tags.
    fn annotations(&self, out: &mut String, step: &Step<'_>, below: &str, columns: &Columns) {
        let dot = if self.theme.ascii { "* " } else { "· " };
        for annotation in step.span.annotations {
            let text = self.theme.clean(annotation.value, 200);
            let pieces = [(Tone::Faint, format!("{below}{dot}")), (Tone::Plain, text)];
            self.push_fitted(out, &pieces, columns.label);
            let after = annotation.time_ns.saturating_sub(columns.start);
            let text = self.format_offset(annotation.time_ns, columns.start);
            self.push_right(out, Tone::Faint, &text, columns.time);
            self.push_right(out, Tone::Plain, "", columns.own);
            if columns.bar > 0 {
                let at = bar_position(after, columns.length, columns.bar * 8) / 8;
                out.push_str("  ");
                out.extend(std::iter::repeat_n(' ', at.min(columns.bar - 1)));
                out.push_str(
                    &self.theme.paint(Tone::Faint, if self.theme.ascii { "^" } else { "╵" }),
                );
            }
            end_line(out);
        }
        for tag in step.span.tags {
            let text = self.theme.clean(&tag_text(tag), 400);
            let room = self.options.width.saturating_sub(below.chars().count() + 2);
            out.push_str(&self.theme.paint(Tone::Faint, &format!("{below}{dot}")));
            out.push_str(
                &self.theme.paint(Tone::Plain, &truncate_text(&text, room, self.theme.ascii)),
            );
            end_line(out);
        }
    }

    /// Returns the system calls of a span that are printed.
    fn shown_calls<'s>(&self, step: &'s Step<'_>) -> ShownCalls<'s> {
        ShownCalls::new(if self.options.kernel { &step.calls } else { &[] })
    }

    /// Prints the longest of a span's system calls, and a line for the others.
    fn calls(&self, out: &mut String, step: &Step<'_>, below: &str, columns: &Columns) {
        let dot = if self.theme.ascii { "* " } else { "· " };
        let ShownCalls { shown, others, others_ns } = self.shown_calls(step);
        for call in shown {
            let tone = if call.errno().is_some() { Tone::Alarm } else { Tone::Plain };
            let guide = format!("{below}{dot}");
            let room = columns.label.saturating_sub(guide.chars().count());
            let pieces = [(Tone::Faint, guide), (tone, call_text(call, room, self.theme))];
            self.push_fitted(out, &pieces, columns.label);
            self.push_right(out, Tone::Plain, &self.duration(call.duration_ns), columns.time);
            self.push_right(out, Tone::Plain, "", columns.own);
            if columns.bar > 0 {
                let eighths = columns.bar * 8;
                let at = |time: u64| {
                    bar_position(time.saturating_sub(columns.start), columns.length, eighths)
                };
                let (start, end) = (at(call.start_ns), at(call.end_ns()));
                out.push_str("  ");
                let bar = self.theme.bar_between(start.min(eighths - 1), end);
                out.push_str(&self.theme.paint(Tone::Faint, &bar));
            }
            end_line(out);
        }
        if others > 0 {
            let text = plural(others as u64, "shorter call");
            let pieces = [(Tone::Faint, format!("{below}{dot}{text}"))];
            self.push_fitted(out, &pieces, columns.label);
            self.push_right(out, Tone::Faint, &self.duration(others_ns), columns.time);
            end_line(out);
        }
    }

    /// Returns the bar of a span, on the scale of the request.
    fn bar(&self, step: &Step<'_>, columns: &Columns) -> String {
        let Some(start) = step.span.start_ns else { return String::new() };
        let eighths = columns.bar * 8;
        let at =
            |time: u64| bar_position(time.saturating_sub(columns.start), columns.length, eighths);
        match step.end_ns() {
            // A bar at the end of the scale is visible, too.
            Some(end) => self.theme.bar_between(at(start).min(eighths - 1), at(end)),
            None => {
                // The span has no duration, or its end is unknown.
                let cell = (at(start) / 8).min(columns.bar - 1);
                let last = step.span.annotations.last().map_or(start, |last| last.time_ns);
                let (mark, rest) = if self.theme.ascii { ('|', '-') } else { ('▏', '╌') };
                let length = (at(last) / 8).min(columns.bar - 1).saturating_sub(cell);
                let blank = std::iter::repeat_n(' ', cell);
                blank.chain([mark]).chain(std::iter::repeat_n(rest, length)).collect()
            }
        }
    }

    /// Appends coloured texts, padded or truncated to exactly `width` characters.
    fn push_fitted(&self, out: &mut String, pieces: &[(Tone, String)], width: usize) {
        let mut rest = width;
        let total: usize = pieces.iter().map(|(_, text)| text.chars().count()).sum();
        let mut left = total;
        for (tone, text) in pieces {
            let length = text.chars().count();
            left -= length;
            // A text that fits only in part ends with dots.
            let is_cut = length + left.min(1) > rest && total > width;
            let text =
                if is_cut { truncate_always(text, rest, self.theme.ascii) } else { text.clone() };
            out.push_str(&self.theme.paint(*tone, &text));
            rest -= text.chars().count().min(rest);
            if is_cut {
                break;
            }
        }
        out.extend(std::iter::repeat_n(' ', rest));
    }

    /// Appends two spaces and a text, right-aligned in `width` characters; nothing if `width` is 0.
    fn push_right(&self, out: &mut String, tone: Tone, text: &str, width: usize) {
        if width > 0 {
            out.extend(std::iter::repeat_n(' ', (width + 2).saturating_sub(text.chars().count())));
            out.push_str(&self.theme.paint(tone, text));
        }
    }

    fn time(&self, step: &Step<'_>) -> String {
        step.span.duration_ns.map(|ns| self.duration(ns)).unwrap_or_default()
    }

    fn own_time(&self, step: &Step<'_>) -> String {
        let own = step.self_ns.filter(|own| Some(*own) != step.span.duration_ns);
        own.map(|ns| format!("own {}", self.duration(ns))).unwrap_or_default()
    }

    fn format_offset(&self, time_ns: u64, start: u64) -> String {
        format!("+{}", self.duration(time_ns.saturating_sub(start)))
    }

    fn duration(&self, ns: u64) -> String {
        let text = duration(ns);
        if self.theme.ascii { text } else { text.replace("us", "µs") }
    }
}

/// Formats service and name as `SERVICE: NAME`, omitting an unknown part; `?` if both are unknown.
fn title(service: &str, name: &str) -> String {
    match (service, name) {
        ("", "") => "?".to_owned(),
        ("", one) | (one, "") => one.to_owned(),
        (service, name) => format!("{service}: {name}"),
    }
}

fn tag_text(tag: &TagRef<'_>) -> String {
    match tag.value {
        ValueRef::Str(text) => format!("{} = {text}", tag.key),
        ValueRef::Int(number) => format!("{} = {number}", tag.key),
        ValueRef::Bool(flag) => format!("{} = {flag}", tag.key),
        ValueRef::Double(number) => format!("{} = {number}", tag.key),
        ValueRef::Bytes(bytes) => format!("{} = {bytes:02x?}", tag.key),
    }
}

/// Returns the position of a time on a bar, in eighths of a character. The bar has `eighths`
/// eighths and represents `length`.
fn bar_position(time: u64, length: u64, eighths: usize) -> usize {
    if length == 0 {
        return 0;
    }
    let place = time.min(length) as f64 / length as f64 * eighths as f64;
    (place.round() as usize).min(eighths)
}

fn end_line(out: &mut String) {
    out.truncate(out.trim_end_matches(' ').len());
    out.push('\n');
}

/// Lines of a drawn tree that connect child spans with their parents.
struct Guides {
    ascii: bool,
    /// Flags of each step: whether a later step has the same parent, and whether the step has a
    /// child.
    steps: Vec<(bool, bool)>,
    /// Flags by depth, up to the depth of the last step: whether the connecting line continues
    /// below.
    open_lines: Vec<bool>,
}

impl Guides {
    fn new(request: &Request<'_>, ascii: bool) -> Guides {
        let mut steps = vec![(false, false); request.steps.len()];
        // In reverse order, so that later siblings are visited first.
        for (at, step) in request.steps.iter().enumerate().rev() {
            if let Some(parent) = step.parent {
                steps[at].0 = std::mem::replace(&mut steps[parent].1, true);
            }
        }
        Guides { ascii, steps, open_lines: Vec::new() }
    }

    /// Returns the connecting lines before a step's label.
    fn prefix(&mut self, at: usize, depth: usize) -> String {
        let Some(above) = depth.checked_sub(1) else {
            self.open_lines.clear();
            return String::new();
        };
        self.open_lines.resize(depth, false);
        let mut guide = self.lines(above);
        let (continues, _) = self.steps[at];
        self.open_lines[above] = continues;
        guide.push_str(match (continues, self.ascii) {
            (true, false) => "├ ",
            (false, false) => "└ ",
            (true, true) => "+ ",
            (false, true) => "` ",
        });
        guide
    }

    /// Returns the connecting lines before a step's annotations.
    fn annotation_prefix(&self, at: usize, depth: usize) -> String {
        let mut guide = self.lines(depth);
        let (_, has_child) = self.steps[at];
        guide.push_str(self.line(has_child));
        guide
    }

    fn lines(&self, depths: usize) -> String {
        self.open_lines.iter().take(depths).map(|continues| self.line(*continues)).collect()
    }

    fn line(&self, continues: bool) -> &'static str {
        match (continues, self.ascii) {
            (false, _) => "  ",
            (true, false) => "│ ",
            (true, true) => "| ",
        }
    }
}
