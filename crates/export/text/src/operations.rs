//! I/O operations as text: columns ([`ColumnPrinter`]), JSON lines ([`json`]), lines in the format
//! of app-trace, the tracer of the Rocks cluster distribution ([`app_trace`]), and a table of a
//! summary ([`summary`]).

use crate::info::table::{Column, Table, Theme, Tone};
use crate::info::units::{bytes, duration, grouped, percent};
use crate::number::{NUMBER_SIZE, put_unsigned};
use crate::time::{TimeFormat, TimePrinter};
use blkkin_io::{Grouping, Operation, OperationKind, Row, Summary};
use blkkin_reader::Text;
use nix::errno::Errno;
use std::io::Write;

/// Version of the schema of the JSON lines; incremented by changes that may break consumers.
pub const SCHEMA: &str = "blkkin.io.v1";

/// Widths of the columns between time and path, in characters. Numbers that are longer than usual
/// are not cut.
const THREAD_WIDTH: usize = 15;
const PROGRAM_WIDTH: usize = 15;
const KIND_WIDTH: usize = 8;
const FD_WIDTH: usize = 7;
const COUNT_WIDTH: usize = 15;
const OFFSET_WIDTH: usize = 12;
const LATENCY_WIDTH: usize = 9;

/// Text in place of an unknown name or path.
const UNKNOWN: &str = "?";
/// Text after a path that may be wrong, because events were lost.
const UNCERTAIN: &str = " ?";

/// Printer of operations as aligned columns, one line for each operation.
#[derive(Clone, Debug)]
pub struct ColumnPrinter {
    times: TimePrinter,
    time: Text,
    time_width: usize,
    theme: Theme,
}

impl ColumnPrinter {
    /// Creates a printer. Times are in UTC or the local time zone. With `ascii`, other characters
    /// are replaced by `?`.
    pub fn new(format: TimeFormat, utc: bool, ascii: bool) -> ColumnPrinter {
        let time_width = match format {
            TimeFormat::Date => "2026-11-21 12:34:56.123456789".len(),
            TimeFormat::Seconds => "1795165182.123456789".len(),
            TimeFormat::Clock | TimeFormat::Cycles => "12:34:56.123456789".len(),
        };
        ColumnPrinter {
            times: TimePrinter::new(format, utc),
            time: Text::default(),
            time_width,
            theme: Theme { color: false, ascii },
        }
    }

    /// Appends the line with the titles of the columns.
    pub fn header(&self, out: &mut Vec<u8>) {
        let mut line = Line { start: out.len(), out };
        line.left("TIME", self.time_width);
        line.left("PID/TID", THREAD_WIDTH);
        line.left("NAME", PROGRAM_WIDTH);
        line.left("OP", KIND_WIDTH);
        line.right("FD", FD_WIDTH);
        line.right("BYTES/ASKED", COUNT_WIDTH);
        line.right("OFFSET", OFFSET_WIDTH);
        line.right("LATENCY", LATENCY_WIDTH);
        line.end("PATH");
    }

    /// Appends the line of an operation. A path or position that may be wrong because events were
    /// lost has a `?` at the end of the line.
    pub fn print(&mut self, out: &mut Vec<u8>, operation: &Operation) {
        let (times, text, theme) = (&mut self.times, &mut self.time, self.theme);
        text.clear();
        let _ = text.append(|text| times.print_wall(text, operation.time_ns));
        let mut line = Line { start: out.len(), out };
        line.left(&**text, self.time_width);
        line.left(Thread(operation), THREAD_WIDTH);
        line.left(Clean(theme, known(&operation.program)), PROGRAM_WIDTH);
        line.left(operation.kind.word(), KIND_WIDTH);
        line.right(Descriptors(operation), FD_WIDTH);
        line.right(Count(operation), COUNT_WIDTH);
        line.right(operation.offset.or(operation.position), OFFSET_WIDTH);
        line.right(Latency(operation.duration_ns, theme), LATENCY_WIDTH);
        line.end(Files(operation, theme));
    }
}

/// Text that is appended to a line.
trait Cell {
    fn put(&self, out: &mut Vec<u8>);
}

/// Line of cells with two spaces between them.
struct Line<'l> {
    out: &'l mut Vec<u8>,
    /// Position of the line's start in `out`.
    start: usize,
}

impl Line<'_> {
    fn left(&mut self, cell: impl Cell, width: usize) {
        let start = self.out.len();
        cell.put(self.out);
        let missing = self.missing(start, width);
        self.out.resize(self.out.len() + missing + 2, b' ');
    }

    fn right(&mut self, cell: impl Cell, width: usize) {
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
    fn end(self, cell: impl Cell) {
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

/// Process id, followed by `/` and the thread id if the two ids differ.
struct Thread<'o>(&'o Operation);

impl Cell for Thread<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Operation { pid, tid, .. } = self.0;
        pid.put(out);
        if pid != tid {
            out.push(b'/');
            tid.put(out);
        }
    }
}

/// Text of a trace, printed with `?` in place of control characters.
struct Clean<'t>(Theme, &'t str);

impl Cell for Clean<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Clean(theme, text) = self;
        match text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            true => text.put(out),
            false => out.extend_from_slice(theme.clean(text, usize::MAX).as_bytes()),
        }
    }
}

/// Column `FD`: `3`, `3>4` (from one to the other), `3-9` (a range).
struct Descriptors<'o>(&'o Operation);

impl Cell for Descriptors<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Operation { kind, fd, second_fd, .. } = self.0;
        fd.put(out);
        if second_fd.is_some() {
            out.push(if *kind == OperationKind::Close { b'-' } else { b'>' });
            second_fd.put(out);
        }
    }
}

/// Column `BYTES/ASKED`: transferred and requested count. After a failure, the name of the error
/// replaces the transferred count.
struct Count<'o>(&'o Operation);

impl Cell for Count<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Operation { result, done, asked, .. } = self.0;
        match result {
            Err(errno) => out.extend_from_slice(error_name(*errno).as_bytes()),
            Ok(_) => done.put(out),
        }
        if asked.is_some() && (result.is_err() || done.is_some()) {
            out.push(b'/');
        }
        asked.put(out);
    }
}

/// Duration in nanoseconds, as [`latency`] returns it.
struct Latency(u64, Theme);

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
            _ => return latency(ns, theme.ascii).as_str().put(out),
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

/// Paths, with [`UNCERTAIN`] if they may be wrong.
struct Files<'o>(&'o Operation, Theme);

impl Cell for Files<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Files(Operation { path, second_path, is_certain, .. }, theme) = self;
        let path = path.as_deref().unwrap_or_default();
        match second_path {
            Some(second) => {
                Clean(*theme, known(path)).put(out);
                " -> ".put(out);
                Clean(*theme, second).put(out);
            }
            None => Clean(*theme, path).put(out),
        }
        if !is_certain {
            UNCERTAIN.put(out);
        }
    }
}

fn known(name: &str) -> &str {
    if name.is_empty() { UNKNOWN } else { name }
}

/// Returns the name of an error, such as `ENOENT`; a number if the error has no name.
fn error_name(errno: i32) -> String {
    // The kernel restarts interrupted calls that return these errors, so programs do not see them.
    match errno {
        512 => "ERESTARTSYS".to_owned(),
        513 => "ERESTARTNOINTR".to_owned(),
        514 => "ERESTARTNOHAND".to_owned(),
        516 => "ERESTART_RESTARTBLOCK".to_owned(),
        _ => match Errno::from_raw(errno) {
            Errno::UnknownErrno => format!("E{errno}"),
            errno => format!("{errno:?}"),
        },
    }
}

/// Returns a duration whose unit is aligned: `12.3 µs`, `1.20 s `
fn latency(ns: u64, ascii: bool) -> String {
    let text = duration(ns);
    let text = match text.split_once(' ') {
        Some((number, unit)) if !unit.contains(' ') => format!("{number} {unit:<2}"),
        _ => text,
    };
    if ascii { text } else { text.replace("us", "µs") }
}

/// Appends an operation as a line with one JSON object.
///
/// | field | content |
/// | --- | --- |
/// | `type` | `operation` |
/// | `time`, `duration` | start and duration in nanoseconds |
/// | `op`, `call` | kind of the operation, name of the system call |
/// | `program`, `pid`, `tid` | the program's name, process, thread |
/// | `fd`, `second_fd`, `path`, `second_path` | files, as in [`Operation`] |
/// | `asked`, `done`, `offset`, `position` | counts and offsets, as in [`Operation`] |
/// | `uncertain` | `true` if a path or the position may be wrong, because events were lost |
/// | `result`, or `errno` and `error` | return value, or number and name of the error |
///
/// Unknown values are omitted. Integers are written in full, also beyond 2^53.
pub fn json(out: &mut Vec<u8>, operation: &Operation) {
    out.extend_from_slice(b"{\"type\":\"operation\"");
    number(out, "time", Some(operation.time_ns));
    number(out, "duration", Some(operation.duration_ns));
    word(out, "op", operation.kind.word());
    word(out, "call", operation.call);
    string(out, "program", Some(&operation.program).filter(|program| !program.is_empty()));
    number(out, "pid", Some(operation.pid));
    number(out, "tid", Some(operation.tid));
    number(out, "fd", operation.fd);
    number(out, "second_fd", operation.second_fd);
    string(out, "path", operation.path.as_ref());
    string(out, "second_path", operation.second_path.as_ref());
    number(out, "asked", operation.asked);
    number(out, "done", operation.done);
    number(out, "offset", operation.offset);
    number(out, "position", operation.position);
    if !operation.is_certain {
        out.extend_from_slice(b",\"uncertain\":true");
    }
    match operation.result {
        Ok(result) => number(out, "result", Some(result)),
        Err(errno) => {
            number(out, "errno", Some(errno));
            string(out, "error", Some(error_name(errno)));
        }
    }
    out.extend_from_slice(b"}\n");
}

/// Appends a comma, a key and a colon; the caller appends the value.
fn key(out: &mut Vec<u8>, key: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

fn number(out: &mut Vec<u8>, name: &str, value: Option<impl Cell>) {
    if let Some(value) = value {
        key(out, name);
        value.put(out);
    }
}

/// Appends a string that needs no escapes.
fn word(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, name);
    out.push(b'"');
    out.extend_from_slice(value.as_bytes());
    out.push(b'"');
}

fn string(out: &mut Vec<u8>, name: &str, value: Option<impl AsRef<str>>) {
    if let Some(value) = value {
        key(out, name);
        let _ = serde_json::to_writer(&mut *out, value.as_ref());
    }
}

/// Appends the rows of a summary as JSON lines of the type `sum`, and its slowest operations as
/// lines of the type `operation`. Latencies are in nanoseconds.
pub fn summary_json(out: &mut Vec<u8>, sums: &Summary) {
    for row in sums.rows(&Grouping { program: true, path: true, kind: true }) {
        out.extend_from_slice(b"{\"type\":\"sum\"");
        string(out, "program", row.program.as_ref());
        string(out, "op", row.kind.map(OperationKind::word));
        string(out, "path", row.path.as_ref());
        let latency = |percent| row.latencies.percentile(percent);
        let _ = writeln!(
            out,
            ",\"count\":{},\"errors\":{},\"bytes\":{},\"sequential\":{},\"random\":{},\
             \"size\":{{\"p50\":{},\"max\":{}}},\"latency\":{{\"sum\":{},\"p50\":{},\"p90\":{},\
             \"p99\":{},\"max\":{}}}}}",
            row.count(),
            row.errors,
            row.bytes,
            row.sequential,
            row.random,
            row.sizes.percentile(50.0),
            row.sizes.max(),
            row.total_ns(),
            latency(50.0),
            latency(90.0),
            latency(99.0),
            row.latencies.max(),
        );
    }
    sums.slowest().for_each(|operation| json(out, operation));
}

/// Appends an operation as a line of app-trace, the tracer of the Rocks cluster distribution:
///
/// ```text
/// 1133384755854629 op: open execname: iozone pid: 3693 fd: 3
/// 1133384755854672 op: read execname: iozone pid: 3693 fd: 3 count: 4096
/// 1133384755854710 op: seek execname: iozone pid: 3693 fd: 3 offset: 0
/// ```
///
/// The time is in microseconds: the start of the call, but the end of calls that return a
/// descriptor, which is the value of `fd`. `count` is the requested count. After a failure, a
/// returned descriptor or offset is the negative error. Operations that app-trace lacks have the
/// same form.
pub fn app_trace(out: &mut Vec<u8>, operation: &Operation) {
    let returned = match operation.result {
        Ok(result) => result,
        Err(errno) => -i64::from(errno),
    };
    let has_new_fd = match operation.kind {
        OperationKind::Socket => operation.call != "socketpair",
        kind => matches!(
            kind,
            OperationKind::Open
                | OperationKind::Accept
                | OperationKind::Duplicate
                | OperationKind::SetupUring
        ),
    };
    let time_ns = if has_new_fd { operation.end_ns() } else { operation.time_ns };
    let theme = Theme { color: false, ascii: false };
    time_ns.div_euclid(1000).put(out);
    " op: ".put(out);
    operation.kind.word().put(out);
    " execname: ".put(out);
    Clean(theme, known(&operation.program)).put(out);
    " pid: ".put(out);
    operation.pid.put(out);
    if has_new_fd {
        " fd: ".put(out);
        returned.put(out);
    } else if let Some(fd) = operation.fd {
        " fd: ".put(out);
        fd.put(out);
    }
    let has_count = !matches!(operation.kind, OperationKind::Seek | OperationKind::SetupUring);
    if let Some(count) = operation.asked.or(operation.done).filter(|_| has_count) {
        " count: ".put(out);
        count.put(out);
    }
    match (operation.kind, operation.offset) {
        (OperationKind::Seek, _) => {
            " offset: ".put(out);
            returned.put(out);
        }
        (OperationKind::Read | OperationKind::Write, _) | (_, None) => {}
        (_, Some(offset)) => {
            " offset: ".put(out);
            offset.put(out);
        }
    }
    out.push(b'\n');
}

/// Options of [`summary`].
#[derive(Clone, Copy, Debug)]
pub struct SummaryOptions {
    /// Set to use terminal colours.
    pub color: bool,
    /// Set to print only ASCII; other characters of names are replaced by `?`.
    pub ascii: bool,
    /// Maximum number of rows; the rows with the longest total time are printed.
    pub rows_max: usize,
}

/// Draws the rows of a summary as a table, ordered by total time. Rates are averages over the whole
/// time of the summary.
pub fn summary(sums: &Summary, grouping: &Grouping, options: &SummaryOptions) -> String {
    let theme = Theme { color: options.color, ascii: options.ascii };
    let mut table = Table::new(&[
        Column::Left("NAME"),
        Column::Left("OP"),
        Column::Right("COUNT"),
        Column::Right("ERRORS"),
        Column::Right("BYTES"),
        Column::Right("BYTES/S"),
        Column::Right("SIZE P50"),
        Column::Right("SIZE MAX"),
        Column::Right("SEQUENTIAL"),
        Column::Right("TIME"),
        Column::Right("P50"),
        Column::Right("P90"),
        Column::Right("P99"),
        Column::Right("MAX"),
        Column::Left("PATH"),
    ]);
    let rows = sums.rows(grouping);
    for row in rows.iter().take(options.rows_max) {
        table.row(cells(row, grouping, sums.duration_ns(), theme));
    }
    let mut out = String::new();
    table.print(&mut out, theme);
    if let Some(hidden) = rows.len().checked_sub(options.rows_max).filter(|hidden| *hidden > 0) {
        let word = if hidden == 1 { "row" } else { "rows" };
        out.push_str(
            &theme.paint(Tone::Faint, &format!("  {} more {word}\n", grouped(hidden as u64))),
        );
    }
    out
}

fn cells(row: &Row, grouping: &Grouping, all_ns: u64, theme: Theme) -> Vec<(Tone, String)> {
    let plain = |text: String| (Tone::Plain, text);
    let clean = |text: &str| plain(theme.clean(text, usize::MAX));
    let took = |ns: u64| plain(latency(ns, theme.ascii));
    let size = |size: u64| plain(if row.sizes.count() > 0 { bytes(size) } else { String::new() });
    let rate = match all_ns {
        0 => String::new(),
        _ if row.bytes == 0 => String::new(),
        ns => bytes((row.bytes as f64 * 1e9 / ns as f64) as u64),
    };
    let errors = if row.errors > 0 { grouped(row.errors) } else { String::new() };
    let path = row.path.as_deref().filter(|_| grouping.path).unwrap_or_default();
    vec![
        clean(row.program.as_deref().map_or("", known)),
        clean(row.kind.map_or("", OperationKind::word)),
        plain(grouped(row.count())),
        (Tone::Alarm, errors),
        size(row.bytes),
        plain(rate),
        size(row.sizes.percentile(50.0)),
        size(row.sizes.max()),
        plain(percent(row.sequential, row.sequential + row.random)),
        took(row.total_ns()),
        took(row.latencies.percentile(50.0)),
        took(row.latencies.percentile(90.0)),
        took(row.latencies.percentile(99.0)),
        took(row.latencies.max()),
        clean(path),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Start of the tested operations in nanoseconds since 1970, from real output of app-trace.
    const TIME_NS: i64 = 1_133_384_755_854_672_000;

    fn read() -> Operation {
        Operation {
            time_ns: TIME_NS,
            duration_ns: 12_345,
            kind: OperationKind::Read,
            call: "pread64",
            program: "iozone".into(),
            pid: 3693,
            tid: 3693,
            fd: Some(3),
            second_fd: None,
            path: Some("/tmp/a b".into()),
            second_path: None,
            asked: Some(4096),
            done: Some(512),
            offset: Some(8192),
            position: None,
            is_certain: true,
            result: Ok(512),
        }
    }

    fn of_kind(kind: OperationKind, result: Result<i64, i32>) -> Operation {
        let fd = result.ok().map(|fd| fd as i32);
        Operation { kind, result, fd, asked: None, done: None, offset: None, ..read() }
    }

    fn rename() -> Operation {
        Operation {
            duration_ns: 61_500_000_000,
            program: "".into(),
            tid: 3700,
            fd: None,
            path: Some("/a\n".into()),
            second_path: Some("/b".into()),
            ..of_kind(OperationKind::Rename, Err(2))
        }
    }

    fn text(print: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        print(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn columns_are_aligned() {
        let mut printer = ColumnPrinter::new(TimeFormat::Clock, true, false);
        let lines = text(|out| {
            printer.header(out);
            printer.print(out, &read());
            printer.print(out, &of_kind(OperationKind::Open, Err(2)));
            printer.print(out, &rename());
            let accept = of_kind(OperationKind::Accept, Ok(3));
            printer.print(out, &Operation { second_fd: Some(1000), path: None, ..accept });
            printer.print(out, &Operation { is_certain: false, ..read() });
        });
        let expected = "\
TIME                PID/TID          NAME             OP             FD      BYTES/ASKED        OFFSET    LATENCY  PATH
21:05:55.854672000  3693             iozone           read            3         512/4096          8192    12.3 µs  /tmp/a b
21:05:55.854672000  3693             iozone           open                        ENOENT                  12.3 µs  /tmp/a b
21:05:55.854672000  3693/3700        ?                rename                      ENOENT                1 min 1.5 s  /a? -> /b
21:05:55.854672000  3693             iozone           accept     3>1000                                   12.3 µs
21:05:55.854672000  3693             iozone           read            3         512/4096          8192    12.3 µs  /tmp/a b ?
";
        assert_eq!(lines, expected);
        let mut printer = ColumnPrinter::new(TimeFormat::Seconds, true, true);
        let line = text(|out| printer.print(out, &read()));
        assert!(line.starts_with("1133384755.854672000  3693 "), "{line}");
        assert!(line.ends_with("12.3 us  /tmp/a b\n"), "{line}");
    }

    #[test]
    fn json_omits_unknown_values() {
        let lines = text(|out| {
            json(out, &Operation { asked: Some(u64::MAX), ..read() });
            json(out, &Operation { position: Some(7), offset: None, is_certain: false, ..read() });
            json(out, &rename());
        });
        let expected = r#"{"type":"operation","time":1133384755854672000,"duration":12345,"op":"read","call":"pread64","program":"iozone","pid":3693,"tid":3693,"fd":3,"path":"/tmp/a b","asked":18446744073709551615,"done":512,"offset":8192,"result":512}
{"type":"operation","time":1133384755854672000,"duration":12345,"op":"read","call":"pread64","program":"iozone","pid":3693,"tid":3693,"fd":3,"path":"/tmp/a b","asked":4096,"done":512,"position":7,"uncertain":true,"result":512}
{"type":"operation","time":1133384755854672000,"duration":61500000000,"op":"rename","call":"pread64","pid":3693,"tid":3700,"path":"/a\n","second_path":"/b","errno":2,"error":"ENOENT"}
"#;
        assert_eq!(lines, expected);
    }

    /// The operations give the lines of a snippet of real app-trace output, in the same order.
    #[test]
    fn app_trace_lines() {
        let at = |us: i64, operation: Operation| {
            let time_ns = us * 1000 - if operation.duration_ns > 0 { 1000 } else { 0 };
            text(|out| app_trace(out, &Operation { time_ns, ..operation }))
        };
        let check = |us, operation, expected: &str| {
            assert_eq!(at(us, operation).trim_end(), expected);
        };
        let instant = |kind, result| Operation { duration_ns: 0, ..of_kind(kind, result) };
        let close = instant(OperationKind::Close, Ok(0));
        check(
            1_133_384_755_854_320,
            Operation { fd: Some(3), ..close },
            "1133384755854320 op: close execname: iozone pid: 3693 fd: 3",
        );
        let write = instant(OperationKind::Write, Ok(8));
        check(
            1_133_384_755_854_365,
            Operation { fd: Some(1), asked: Some(8), done: Some(8), ..write },
            "1133384755854365 op: write execname: iozone pid: 3693 fd: 1 count: 8",
        );
        let open = Operation { duration_ns: 1000, ..of_kind(OperationKind::Open, Ok(3)) };
        check(
            1_133_384_755_854_629,
            open,
            "1133384755854629 op: open execname: iozone pid: 3693 fd: 3",
        );
        check(
            1_133_384_755_854_672,
            Operation { duration_ns: 0, ..read() },
            "1133384755854672 op: read execname: iozone pid: 3693 fd: 3 count: 4096",
        );
        let seek = instant(OperationKind::Seek, Ok(0));
        check(
            1_133_384_755_854_710,
            Operation { fd: Some(3), offset: Some(0), ..seek },
            "1133384755854710 op: seek execname: iozone pid: 3693 fd: 3 offset: 0",
        );
        check(
            7,
            instant(OperationKind::Open, Err(2)),
            "7 op: open execname: iozone pid: 3693 fd: -2",
        );
        check(7, instant(OperationKind::Unlink, Err(2)), "7 op: unlink execname: iozone pid: 3693");
        let odd = Operation { program: "a\nb".into(), ..instant(OperationKind::Sync, Ok(0)) };
        check(7, odd, "7 op: sync execname: a?b pid: 3693 fd: 0");
    }

    /// Latencies are rounded as in tables, except for values exactly halfway between two printed
    /// values.
    #[test]
    fn latencies_are_rounded_as_in_tables() {
        for ascii in [false, true] {
            let theme = Theme { color: false, ascii };
            let numbers = [0, 1, 999, 1_000, 9_994, 9_996, 12_348, 99_949, 99_951, 999_499];
            let scales = [1, 1_000, 1_000_000, 1_000_000_000, 1_000_000_000_000];
            for ns in scales.into_iter().flat_map(|scale| numbers.map(|number| number * scale)) {
                for ns in [ns, ns + 1] {
                    assert_eq!(text(|out| Latency(ns, theme).put(out)), latency(ns, ascii));
                }
            }
        }
        let theme = Theme { color: false, ascii: true };
        let all = text(|out| Latency(u64::MAX, theme).put(out));
        assert_eq!(all, "213,503 d 23 h");
    }

    #[test]
    fn errors_have_names() {
        let check = |errno, expected: &str| assert_eq!(error_name(errno), expected);
        check(2, "ENOENT");
        check(11, "EAGAIN");
        check(512, "ERESTARTSYS");
        check(4000, "E4000");
    }

    #[test]
    fn tables_of_sums() {
        let mut sums = Summary::new(0);
        for (offset, duration_ns) in [(0, 1000), (512, 2000), (0, 3000)] {
            sums.add(&Operation { offset: Some(offset), duration_ns, ..read() });
        }
        sums.add(&Operation { time_ns: TIME_NS + 999_997_000, ..rename() });
        let options = SummaryOptions { color: false, ascii: false, rows_max: 9 };
        let grouping = Grouping { program: true, path: true, kind: true };
        let expected = "
  NAME    OP      COUNT  ERRORS     BYTES  BYTES/S  SIZE P50  SIZE MAX  SEQUENTIAL         TIME          P50          P90          P99          MAX  PATH
  ?       rename      1       1                                                     1 min 1.5 s  1 min 1.5 s  1 min 1.5 s  1 min 1.5 s  1 min 1.5 s  /a?
  iozone  read        3          1.50 KiB     24 B     512 B     512 B      50.0 %      6.00 µs      2.00 µs      3.00 µs      3.00 µs      3.00 µs  /tmp/a b
";
        assert_eq!(summary(&sums, &grouping, &options), &expected[1..]);
        let one = SummaryOptions { rows_max: 1, ..options };
        let table = summary(&sums, &grouping, &one);
        assert!(table.ends_with("/a?\n  1 more row\n"), "{table}");
    }
}
