//! Statistics as text: traces, totals, a chart of the event rate, and tables of event types,
//! streams and losses.

use super::chart;
use super::collection::{Collection, Counts, LossInfo, TraceInfo};
use super::table::{Column, Table, Theme, Tone};
use super::units::{TimeUnit, bytes, duration, grouped, percent, plural, si};
use crate::class::severity;
use crate::time::{TimeFormat, TimePrinter};
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::schema::{Clock, ClockOrigin, EnvValue, Version};
use blkkin_filter::Severity;
use blkkin_reader::Text;

/// Options for drawing statistics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Set to use terminal colours.
    pub color: bool,
    /// Set to use ASCII instead of Unicode's blocks and lines.
    pub ascii: bool,
    /// Set to print all traces and all rows of tables. Losses that are not in
    /// [`Collection::losses`] are never printed.
    pub all: bool,
    /// Set to print dates in UTC instead of the local time zone.
    pub utc: bool,
}

/// Maximum number of traces, and of rows of each table except that of streams, unless
/// [`Options::all`] is set.
const ROWS: usize = 20;
/// Maximum number of rows of the table of streams, unless [`Options::all`] is set; larger machines
/// have more CPUs than [`ROWS`].
const STREAM_ROWS: usize = 64;
/// Maximum length of an event's name in characters.
const NAME_WIDTH: usize = 36;
/// Maximum length of a stream file's name in characters.
const FILE_WIDTH: usize = 24;
/// Maximum length of a value in the head of a trace, in characters; paths may be long.
const VALUE_WIDTH: usize = 400;
/// Width of a bar for 100 %, in characters.
const BAR_WIDTH: usize = 10;

/// Formats `collection` as text: traces, totals, chart of the event rate, and tables.
pub fn draw(collection: &Collection, options: &Options) -> String {
    let total = collection.counts(None);
    let relative = |trace: &TraceInfo| !trace.clocks.is_empty() && !trace.absolute();
    let absolute = !collection.traces.iter().any(relative);
    let mut drawing = Drawing {
        collection,
        options: *options,
        theme: Theme { color: options.color, ascii: options.ascii },
        origin: collection.origin(),
        unit: TimeUnit::for_table(match total.span {
            Some((_, last)) => last.abs_diff(collection.origin()),
            None => 0,
        }),
        out: String::new(),
    };
    drawing.traces();
    drawing.totals(&total);
    drawing.rate(&total, absolute);
    drawing.events(&total);
    drawing.streams(&total);
    drawing.losses(&total);
    drawing.out
}

struct Drawing<'c> {
    collection: &'c Collection,
    options: Options,
    theme: Theme,
    origin: i64,
    /// Unit of times in tables.
    unit: TimeUnit,
    out: String,
}

impl Drawing<'_> {
    fn heading(&mut self, text: &str, remark: &str) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out.push_str(&self.theme.paint(Tone::Strong, text));
        if !remark.is_empty() {
            self.out.push(' ');
            self.out.push_str(&self.theme.paint(Tone::Faint, &format!("({remark})")));
        }
        self.out.push('\n');
    }

    fn line(&mut self, label: &str, tone: Tone, value: &str) {
        self.out.push_str("  ");
        self.out.push_str(&self.theme.paint(Tone::Faint, &format!("{label:<10}")));
        self.out.push_str(&self.theme.paint(tone, value));
        self.out.push('\n');
    }

    fn more(&mut self, count: u64, what: &str) {
        if count > 0 {
            let text = format!("  and {}", plural(count, &format!("more {what}")));
            self.out.push_str(&self.theme.paint(Tone::Faint, &text));
            self.out.push('\n');
        }
    }

    /// Returns the number of table rows to show, at most `most` unless all are requested, and the
    /// number of omitted rows.
    fn cap(&self, rows: usize, most: usize) -> (usize, u64) {
        let shown = if self.options.all { rows } else { rows.min(most) };
        (shown, (rows - shown) as u64)
    }

    /// Returns the number of a trace, counted from 1, as shown in its heading and beside its
    /// streams and losses. Empty if there is only one trace.
    fn number(&self, trace: usize) -> String {
        if self.collection.traces.len() > 1 { (trace + 1).to_string() } else { String::new() }
    }

    fn micro(&self, text: String) -> String {
        if self.theme.ascii { text } else { text.replace("us", "µs") }
    }

    fn duration(&self, ns: u64) -> String {
        self.micro(duration(ns))
    }

    fn date(&self, ns: i64, absolute: bool) -> String {
        let format = if absolute { TimeFormat::Date } else { TimeFormat::Seconds };
        let mut printer = TimePrinter::new(format, self.options.utc);
        let text = Text::from_print(|text| printer.print(text, ns, 0));
        let unit = match (absolute, self.options.utc) {
            (false, _) => " s",
            (true, true) => " UTC",
            (true, false) => "",
        };
        format!("{}{unit}", String::from_utf8_lossy(&text))
    }

    /// Returns a table cell with a time relative to the origin.
    fn offset(&self, time: Option<i64>) -> (Tone, String) {
        let text = |time| format!("{} {}", self.unit.distance(self.origin, time), self.unit.name);
        (Tone::Plain, self.micro(time.map(text).unwrap_or_default()))
    }

    fn traces(&mut self) {
        let (shown, more) = self.cap(self.collection.traces.len(), ROWS);
        for (index, trace) in self.collection.traces.iter().enumerate().take(shown) {
            let number = self.number(index);
            let title = format!("Trace {number}").trim_end().to_owned();
            let name = self.theme.clean(&trace.name, VALUE_WIDTH);
            self.heading(&format!("{title}  {name}"), "");
            for (label, value) in self.facts(trace, &self.collection.counts(Some(index))) {
                self.line(label, Tone::Plain, &self.theme.clean(&value, VALUE_WIDTH));
            }
        }
        self.more(more, "trace");
    }

    fn facts(&self, trace: &TraceInfo, counts: &Counts) -> Vec<(&'static str, String)> {
        let format = match trace.version {
            Version::Ctf1 => "CTF 1.8",
            Version::Ctf2 => "CTF 2",
        };
        let mut facts = vec![("path", trace.path.display().to_string())];
        facts.extend(trace.uuid.map(|uuid| ("UUID", uuid.to_string())));
        facts.push(("format", format.to_owned()));
        facts.extend(env_facts(&trace.env));
        facts.extend(trace.clocks.iter().map(|clock| ("clock", self.clock(clock))));
        if let Some((first, last)) = counts.span {
            facts.push(("start", self.date(first, trace.absolute())));
            facts.push(("end", self.date(last, trace.absolute())));
            facts.push(("duration", self.duration(last.abs_diff(first))));
        }
        facts
    }

    fn clock(&self, clock: &Clock) -> String {
        let frequency = si(clock.frequency as f64);
        let space = if frequency.contains(' ') { "" } else { " " };
        let frequency = frequency.replace(".00", "");
        let origin = match &clock.origin {
            ClockOrigin::UnixEpoch => {
                format!("zero at {}", self.date(TimeScale::new(clock).ns(0), true))
            }
            ClockOrigin::Unknown => "unknown origin".to_owned(),
            ClockOrigin::Custom(identity) => match &identity.name {
                Some(name) => format!("counts from {name}"),
                None => "an origin of its own".to_owned(),
            },
        };
        let separator = if clock.name.is_empty() { "" } else { ", " };
        format!("{}{separator}{frequency}{space}Hz, {origin}", clock.name)
    }

    fn totals(&mut self, total: &Counts) {
        let selected = self.collection.selected;
        self.heading("Total", if selected { "of the selected events" } else { "" });
        let mut events = grouped(total.events);
        if let Some(rate) = total.events_per_second() {
            let duration = self.duration(total.duration_ns().unwrap_or(0));
            events += &format!(" in {duration}, {} events/s on average", si(rate));
        }
        self.line("events", Tone::Plain, &events);
        let mut data = format!("{} in {}", bytes(total.bytes), plural(total.packets, "packet"));
        if let Some(size) = total.bytes_per_event().filter(|_| !selected) {
            data += &format!(", {} B an event", si(size));
        }
        if total.content_bytes < total.bytes {
            data += &format!(", {} in use", percent(total.content_bytes, total.bytes));
        }
        if selected && total.packets > 0 {
            data += ", with the other events in them";
        }
        self.line("data", Tone::Plain, &data);
        match format_losses(total, selected) {
            None => self.line("lost", Tone::Plain, "nothing"),
            Some(text) => self.line("lost", Tone::Alarm, &text),
        }
    }

    fn rate(&mut self, total: &Counts, absolute: bool) {
        let span = total.span.filter(|(first, last)| first < last && total.events > 0);
        let Some((first, last)) = span else { return };
        let since = format!("events/s; times count from {}", self.date(self.origin, absolute));
        self.heading("Rate over time", &since);
        let timeline = &self.collection.timeline;
        chart::draw(&mut self.out, timeline, &(first..=last), self.origin, self.theme);
    }

    fn events(&mut self, total: &Counts) {
        let events = &self.collection.events;
        if events.is_empty() {
            return;
        }
        self.heading("Event types", &grouped(events.len() as u64));
        let mut table = Table::new(&[
            Column::Left("name"),
            Column::Left("severity"),
            Column::Right("events"),
            Column::Right("share"),
            Column::Left(""),
            Column::Right("first"),
            Column::Right("last"),
        ]);
        let (shown, more) = self.cap(events.len(), ROWS);
        for event in &events[..shown] {
            let name = event.name.as_deref().unwrap_or("(no name)");
            let severity = match (severity(event.log_level).map(Severity::word), event.log_level) {
                (Some(name), _) => name.to_owned(),
                (None, level) => level.map(|level| level.to_string()).unwrap_or_default(),
            };
            table.row(vec![
                (Tone::Plain, self.theme.clean(name, NAME_WIDTH)),
                (Tone::Plain, severity),
                (Tone::Plain, grouped(event.count)),
                (Tone::Plain, percent(event.count, total.events)),
                (Tone::Bar, self.theme.bar(event.count, total.events, BAR_WIDTH)),
                self.offset(event.span.map(|(first, _)| first)),
                self.offset(event.span.map(|(_, last)| last)),
            ]);
        }
        table.print(&mut self.out, self.theme);
        self.more(more, "event type");
    }

    fn streams(&mut self, total: &Counts) {
        let streams = &self.collection.streams;
        if streams.is_empty() {
            return;
        }
        self.heading("Streams", &grouped(streams.len() as u64));
        let mut table = Table::new(&[
            Column::Right("trace"),
            Column::Left("file"),
            Column::Right("id"),
            Column::Right("CPU"),
            Column::Right("events"),
            Column::Right("share"),
            Column::Left(""),
            Column::Right("events/s"),
            Column::Right("packets"),
            Column::Right("size"),
            Column::Right("lost"),
            Column::Right("lost packets"),
        ]);
        // LTTng's stream ids are CPU numbers.
        let by_cpu =
            streams.iter().all(|stream| stream.cpu.is_none() || stream.cpu == stream.instance);
        let ids = !by_cpu || streams.iter().all(|stream| stream.cpu.is_none());
        let (shown, more) = self.cap(streams.len(), STREAM_ROWS);
        for stream in &streams[..shown] {
            let counts = &stream.counts;
            let number = |value: Option<u64>| value.map(|id| id.to_string()).unwrap_or_default();
            let lost = |known: u64, unknown: u64| match (known, unknown) {
                (0, 0) => String::new(),
                (known, 0) => grouped(known),
                (0, _) => "some".to_owned(),
                (known, _) => grouped(known) + "+",
            };
            let rate = counts.events_per_second().map(si).unwrap_or_default();
            table.row(vec![
                (Tone::Plain, self.number(stream.trace)),
                (Tone::Plain, self.theme.clean(file_name(&stream.file), FILE_WIDTH)),
                (Tone::Plain, number(stream.instance.filter(|_| ids))),
                (Tone::Plain, number(stream.cpu)),
                (Tone::Plain, grouped(counts.events)),
                (Tone::Plain, percent(counts.events, total.events)),
                (Tone::Bar, self.theme.bar(counts.events, total.events, BAR_WIDTH)),
                (Tone::Plain, rate),
                (Tone::Plain, grouped(counts.packets)),
                (Tone::Plain, bytes(counts.bytes)),
                (Tone::Alarm, lost(counts.events_lost, counts.events_lost_unknown)),
                (Tone::Alarm, lost(counts.packets_lost, counts.packets_lost_unknown)),
            ]);
        }
        table.print(&mut self.out, self.theme);
        self.more(more, "stream");
    }

    fn losses(&mut self, total: &Counts) {
        let losses = &self.collection.losses;
        if losses.is_empty() || !total.any_lost() {
            return;
        }
        let count = losses.len() as u64 + self.collection.losses_left_out;
        self.heading("Losses", &plural(count, "place"));
        let mut table = Table::new(&[
            Column::Right("trace"),
            Column::Left("file"),
            Column::Right("from"),
            Column::Right("to"),
            Column::Right("during"),
            Column::Right("lost"),
        ]);
        let (shown, more) = self.cap(losses.len(), ROWS);
        for loss in &losses[..shown] {
            let stream = &self.collection.streams[loss.stream];
            let during = loss.from.zip(loss.to).map(|(from, to)| self.duration(to.abs_diff(from)));
            table.row(vec![
                (Tone::Plain, self.number(stream.trace)),
                (Tone::Plain, self.theme.clean(file_name(&stream.file), FILE_WIDTH)),
                self.offset(loss.from),
                self.offset(loss.to),
                (Tone::Plain, during.unwrap_or_default()),
                (Tone::Alarm, format_loss(loss)),
            ]);
        }
        table.print(&mut self.out, self.theme);
        self.more(more + self.collection.losses_left_out, "place");
    }
}

/// Returns lines about the machine and tracer of a trace: host, tracer, domain, session, process,
/// kernel.
fn env_facts(env: &[(String, EnvValue)]) -> Vec<(&'static str, String)> {
    let value = |key: &str| {
        let (_, value) = env.iter().find(|(name, _)| name == key)?;
        Some(match value {
            EnvValue::Int(value) => value.to_string(),
            EnvValue::Str(value) => value.clone(),
        })
    };
    let mut facts = Vec::new();
    facts.extend(value("hostname").map(|host| ("host", host)));
    if let Some(mut tracer) = value("tracer_name") {
        let parts = ["tracer_major", "tracer_minor", "tracer_patchlevel", "tracer_patch"];
        let version: Vec<String> = parts.iter().filter_map(|part| value(part)).collect();
        if !version.is_empty() {
            tracer += &format!(" {}", version.join("."));
        }
        facts.push(("tracer", tracer));
    }
    facts.extend(value("domain").map(|domain| ("domain", domain)));
    facts.extend(value("trace_name").map(|name| ("session", name)));
    if let Some(process) = value("procname") {
        let id = value("vpid").map(|id| format!(" (process {id})")).unwrap_or_default();
        facts.push(("process", process + &id));
    }
    facts.extend(value("kernel_release").map(|release| ("kernel", release)));
    facts
}

fn format_losses(counts: &Counts, selected: bool) -> Option<String> {
    let mut parts = Vec::new();
    if counts.events_lost > 0 {
        let made = counts.events.saturating_add(counts.events_lost);
        let share = format!(" ({} of all)", percent(counts.events_lost, made));
        // The number of selected events among the lost events is unknown.
        let share = if selected { "" } else { &share };
        parts.push(plural(counts.events_lost, "event") + share);
    }
    if counts.events_lost_unknown > 0 {
        let places = plural(counts.events_lost_unknown, "place");
        parts.push(format!("an unknown number of events at {places}"));
    }
    if counts.packets_lost > 0 {
        parts.push(plural(counts.packets_lost, "packet"));
    }
    if counts.packets_lost_unknown > 0 {
        let places = plural(counts.packets_lost_unknown, "place");
        parts.push(format!("an unknown number of packets at {places}"));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn format_loss(loss: &LossInfo) -> String {
    match loss.count {
        Some(count) => plural(count, &loss.kind.to_string()),
        None => format!("some {}s", loss.kind),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
