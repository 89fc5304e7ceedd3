//! Operations as aligned columns, one line for each, with their requests to disks below.

use super::cells::{Cell, Clean, Latency, Line, known};
use super::disk::{Alone, Branch, Details};
use crate::errno::error_name;
use crate::info::table::Theme;
use crate::time::{TimeFormat, TimePrinter};
use blkkin_io::{DiskRequest, Operation, OperationKind};
use blkkin_reader::Text;

/// Widths of the columns before the path, in characters. Numbers that are longer than usual
/// are not cut.
const TIME_WIDTH: usize = "12:34:56.123456789".len();
const THREAD_WIDTH: usize = 15;
const PROGRAM_WIDTH: usize = 15;
const KIND_WIDTH: usize = 8;
const FD_WIDTH: usize = 7;
const COUNT_WIDTH: usize = 15;
const OFFSET_WIDTH: usize = 12;
const LATENCY_WIDTH: usize = 9;

/// Text after a path that may be wrong, because events were lost.
const UNCERTAIN: &str = " ?";

/// Printer of operations as aligned columns, one line for each operation.
#[derive(Clone, Debug)]
pub struct ColumnPrinter {
    times: TimePrinter,
    time: Text,
    theme: Theme,
}

impl ColumnPrinter {
    /// Creates a printer. Times are those of day, in the local time zone. With `ascii`, other
    /// characters are replaced by `?`.
    pub fn new(ascii: bool) -> ColumnPrinter {
        ColumnPrinter::with_times(TimePrinter::new(TimeFormat::Clock, false), ascii)
    }

    #[cfg(test)]
    pub(super) fn in_utc(ascii: bool) -> ColumnPrinter {
        ColumnPrinter::with_times(TimePrinter::new(TimeFormat::Clock, true), ascii)
    }

    fn with_times(times: TimePrinter, ascii: bool) -> ColumnPrinter {
        ColumnPrinter { times, time: Text::default(), theme: Theme { color: false, ascii } }
    }

    /// Appends the line with the titles of the columns.
    pub fn header(&self, out: &mut Vec<u8>) {
        let mut line = Line::new(out);
        line.left("TIME", TIME_WIDTH);
        line.left("PID/TID", THREAD_WIDTH);
        line.left("NAME", PROGRAM_WIDTH);
        line.left("OP", KIND_WIDTH);
        line.right("FD", FD_WIDTH);
        line.right("BYTES/ASKED", COUNT_WIDTH);
        line.right("OFFSET", OFFSET_WIDTH);
        line.right("LATENCY", LATENCY_WIDTH);
        line.end("PATH");
    }

    /// Appends the line of an operation, and those of its requests to disks. A path
    /// or position that may be wrong because events were lost has a `?` at the end of the line.
    pub fn print(&mut self, out: &mut Vec<u8>, operation: &Operation) {
        let (times, text, theme) = (&mut self.times, &mut self.time, self.theme);
        text.clear();
        let _ = text.append(|text| times.print_wall(text, operation.time_ns));
        let mut line = Line::new(out);
        line.left(&**text, TIME_WIDTH);
        line.left(Thread(operation.pid, operation.tid), THREAD_WIDTH);
        line.left(Clean(theme, known(&operation.program)), PROGRAM_WIDTH);
        line.left(operation.kind.word(), KIND_WIDTH);
        line.right(Descriptors(operation), FD_WIDTH);
        line.right(Count(operation), COUNT_WIDTH);
        line.right(operation.offset.or(operation.position), OFFSET_WIDTH);
        line.right(Latency(operation.duration_ns, theme), LATENCY_WIDTH);
        line.end(Files(operation, theme));
        operation.disk.iter().for_each(|request| self.below(out, request));
    }

    /// Appends the line of a request to a disk below the line of its operation.
    fn below(&self, out: &mut Vec<u8>, request: &DiskRequest) {
        let mut line = Line::new(out);
        line.left("", TIME_WIDTH);
        line.left("", THREAD_WIDTH);
        line.left(Branch(request, self.theme), PROGRAM_WIDTH);
        disk_columns(&mut line, request, self.theme);
        line.end(Details(request, self.theme));
    }

    /// Appends the line of a request to a disk that belongs to no operation, or completed after its
    /// operation.
    pub fn disk_request(&mut self, out: &mut Vec<u8>, request: &DiskRequest) {
        let (times, text, theme) = (&mut self.times, &mut self.time, self.theme);
        text.clear();
        let _ = text.append(|text| times.print_wall(text, request.time_ns));
        let mut line = Line::new(out);
        line.left(&**text, TIME_WIDTH);
        let is_known = request.pid != 0;
        line.left(is_known.then_some(Thread(request.pid, request.tid)), THREAD_WIDTH);
        let program = Clean(theme, known(&request.program));
        line.left(is_known.then_some(program), PROGRAM_WIDTH);
        disk_columns(&mut line, request, theme);
        line.end(Alone(request, theme));
    }
}

/// Appends the columns of a request to a disk from the operation to the latency.
fn disk_columns(line: &mut Line<'_>, request: &DiskRequest, theme: Theme) {
    line.left(Clean(theme, &request.operation), KIND_WIDTH);
    line.right("", FD_WIDTH);
    line.right(request.bytes, COUNT_WIDTH);
    line.right("", OFFSET_WIDTH);
    line.right(Latency(request.duration_ns(), theme), LATENCY_WIDTH);
}

/// Process id, followed by `/` and the thread id if the two ids differ.
struct Thread(u32, u32);

impl Cell for Thread {
    fn put(&self, out: &mut Vec<u8>) {
        let Thread(pid, tid) = self;
        pid.put(out);
        if pid != tid {
            out.push(b'/');
            tid.put(out);
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
pub(super) struct Count<'o>(pub(super) &'o Operation);

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

/// Paths, with [`UNCERTAIN`] if they may be wrong.
pub(super) struct Files<'o>(pub(super) &'o Operation, pub(super) Theme);

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

#[cfg(test)]
mod tests {
    use super::super::samples::{of_kind, read, rename, text};
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut printer = ColumnPrinter::in_utc(false);
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
        let mut printer = ColumnPrinter::in_utc(true);
        let line = text(|out| printer.print(out, &read()));
        assert!(line.ends_with("12.3 us  /tmp/a b\n"), "{line}");
    }
}
