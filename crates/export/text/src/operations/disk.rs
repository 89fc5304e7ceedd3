//! Requests to disks: lines below their operation or of their own, JSON objects, and sums.

use super::cells::{Cell, Clean, Latency, text};
use super::members;
use crate::info::table::{Column, Table, Theme, Tone};
use crate::info::units::{bytes, grouped};
use blkkin_io::{DiskCause, DiskRequest, DiskRow, Summary};

/// Device of a request below its operation.
pub(super) struct Branch<'r>(pub(super) &'r DiskRequest, pub(super) Theme);

impl Cell for Branch<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Branch(request, theme) = self;
        if theme.ascii { "` " } else { "└ " }.put(out);
        Clean(*theme, &request.device).put(out);
    }
}

/// Times and place of a request: `queued 12.0 µs  served 3.90 ms  sector 81920`.
pub(super) struct Details<'r>(pub(super) &'r DiskRequest, pub(super) Theme);

impl Cell for Details<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Details(request, theme) = *self;
        "queued ".put(out);
        text(Latency(request.queued_ns, theme)).trim_end().put(out);
        "  served ".put(out);
        text(Latency(request.served_ns, theme)).trim_end().put(out);
        "  sector ".put(out);
        request.sector.put(out);
        if request.error != 0 {
            "  error ".put(out);
            request.error.put(out);
        }
    }
}

/// Device and times of a request that is not below an operation, and the reason.
pub(super) struct Alone<'r>(pub(super) &'r DiskRequest, pub(super) Theme);

impl Cell for Alone<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let Alone(request, theme) = *self;
        Clean(theme, &request.device).put(out);
        "  ".put(out);
        Details(request, theme).put(out);
        "  of no operation: ".put(out);
        match &request.cause {
            DiskCause::Call(call) => {
                "in ".put(out);
                Clean(theme, call).put(out);
            }
            DiskCause::EndedCall(call) => {
                "after ".put(out);
                Clean(theme, call).put(out);
            }
            DiskCause::Fault => "page fault".put(out),
            DiskCause::KernelThread => "thread of the kernel".put(out),
            DiskCause::Unknown if request.pid == 0 => "unknown thread".put(out),
            DiskCause::Unknown => "unknown call".put(out),
        }
    }
}

/// Appends a request that belongs to no operation, or completed after its operation, as a line with
/// one JSON object.
///
/// | field | content |
/// | --- | --- |
/// | `type` | `request` |
/// | `time` | moment of its queueing, in nanoseconds |
/// | `program`, `pid`, `tid` | name, process and thread that have queued it; absent if unknown |
/// | `cause` | what the thread did: see [`DiskCause`] |
/// | `call` | system call of the thread, if the cause is `call` or `ended_call` |
/// | `device`, `operation`, `sector`, `bytes` | what was asked of which disk |
/// | `queued`, `served` | durations in nanoseconds |
/// | `error` | 0, or the status of the block layer |
pub fn disk_request_json(out: &mut Vec<u8>, request: &DiskRequest) {
    out.extend_from_slice(b"{\"type\":\"request\"");
    members::number(out, "time", Some(request.time_ns));
    let program = Some(&request.program).filter(|program| !program.is_empty());
    members::string(out, "program", program);
    let is_known = request.pid != 0;
    members::number(out, "pid", is_known.then_some(request.pid));
    members::number(out, "tid", is_known.then_some(request.tid));
    let (cause, call) = match &request.cause {
        DiskCause::Call(call) => ("call", Some(call)),
        DiskCause::EndedCall(call) => ("ended_call", Some(call)),
        DiskCause::Fault => ("fault", None),
        DiskCause::KernelThread => ("kernel", None),
        DiskCause::Unknown => ("unknown", None),
    };
    members::word(out, "cause", cause);
    members::string(out, "call", call);
    out.push(b',');
    request_members(out, request);
    out.extend_from_slice(b"}\n");
}

/// Appends the requests of an operation as an array of objects; nothing if it has none.
pub(super) fn array(out: &mut Vec<u8>, requests: &[DiskRequest]) {
    for (index, request) in requests.iter().enumerate() {
        let before: &[u8] = if index == 0 { b",\"disk\":[{" } else { b"},{" };
        out.extend_from_slice(before);
        request_members(out, request);
    }
    if !requests.is_empty() {
        out.extend_from_slice(b"}]");
    }
}

fn request_members(out: &mut Vec<u8>, request: &DiskRequest) {
    out.extend_from_slice(b"\"device\":");
    let _ = serde_json::to_writer(&mut *out, &*request.device);
    members::string(out, "operation", Some(&request.operation));
    members::number(out, "sector", Some(request.sector));
    members::number(out, "bytes", Some(request.bytes));
    members::number(out, "queued", Some(request.queued_ns));
    members::number(out, "served", Some(request.served_ns));
    members::number(out, "error", Some(request.error));
}

/// Appends the sums of requests as JSON lines of the type `disk`. Times are in nanoseconds.
pub(super) fn sums_json(out: &mut Vec<u8>, sums: &Summary) {
    for row in sums.disk_rows() {
        out.extend_from_slice(b"{\"type\":\"disk\"");
        members::string(out, "device", Some(&row.device));
        members::string(out, "operation", Some(&row.operation));
        members::number(out, "count", Some(row.count()));
        members::number(out, "errors", Some(row.errors));
        members::number(out, "bytes", Some(row.bytes));
        for (name, times) in [("queued", &row.queued), ("served", &row.served)] {
            members::key(out, name);
            out.extend_from_slice(b"{\"sum\":");
            times.sum().put(out);
            for (name, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("max", 100.0)] {
                members::number(out, name, Some(times.percentile(percent)));
            }
            out.push(b'}');
        }
        out.extend_from_slice(b"}\n");
    }
}

/// Returns a table of the sums of requests, over the time `duration_ns`; empty without requests.
pub(super) fn table(sums: &Summary, duration_ns: u64, theme: Theme) -> String {
    let mut out = String::new();
    let rows = sums.disk_rows();
    if rows.is_empty() {
        return out;
    }
    let mut table = Table::new(&[
        Column::Left("DISK"),
        Column::Left("OP"),
        Column::Right("COUNT"),
        Column::Right("ERRORS"),
        Column::Right("BYTES"),
        Column::Right("BYTES/S"),
        Column::Right("QUEUED P50"),
        Column::Right("P90"),
        Column::Right("P99"),
        Column::Right("MAX"),
        Column::Right("SERVED P50"),
        Column::Right("P90"),
        Column::Right("P99"),
        Column::Right("MAX"),
    ]);
    for row in &rows {
        table.row(cells(row, duration_ns, theme));
    }
    table.print(&mut out, theme);
    out
}

fn cells(row: &DiskRow, duration_ns: u64, theme: Theme) -> Vec<(Tone, String)> {
    let plain = |text: String| (Tone::Plain, text);
    let clean = |text: &str| plain(theme.clean(text, usize::MAX));
    let rate = |size: u64| bytes((size as f64 * 1e9 / duration_ns.max(1) as f64) as u64);
    let errors = if row.errors > 0 { grouped(row.errors) } else { String::new() };
    let mut cells = vec![
        clean(&row.device),
        clean(&row.operation),
        plain(grouped(row.count())),
        (Tone::Alarm, errors),
        plain(bytes(row.bytes)),
        plain(rate(row.bytes)),
    ];
    for times in [&row.queued, &row.served] {
        for percent in [50.0, 90.0, 99.0, 100.0] {
            cells.push(plain(text(Latency(times.percentile(percent), theme))));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::super::samples::{disk_request, read, text};
    use super::super::{ColumnPrinter, SummaryOptions, json, summary, summary_json};
    use super::*;
    use blkkin_io::Operation;

    fn unattributed() -> DiskRequest {
        DiskRequest {
            program: "".into(),
            pid: 0,
            tid: 0,
            cause: DiskCause::Unknown,
            error: 10,
            ..disk_request()
        }
    }

    fn with_cause(cause: DiskCause) -> DiskRequest {
        DiskRequest { cause, ..disk_request() }
    }

    /// Requests are below their operation, in its columns. Others have their thread and the reason.
    #[test]
    fn lines_of_requests() {
        let mut printer = ColumnPrinter::in_utc(false);
        let lines = text(|out| {
            printer.header(out);
            printer.print(out, &Operation { disk: vec![disk_request(); 2], ..read() });
            printer.disk_request(out, &with_cause(DiskCause::Fault));
            printer.disk_request(out, &with_cause(DiskCause::Call("io_submit".into())));
            printer.disk_request(out, &with_cause(DiskCause::EndedCall("read".into())));
            printer.disk_request(out, &with_cause(DiskCause::KernelThread));
            printer.disk_request(out, &unattributed());
        });
        let expected = "\
TIME                PID/TID          NAME             OP             FD      BYTES/ASKED        OFFSET    LATENCY  PATH
21:05:55.854672000  3693             iozone           read            3         512/4096          8192    12.3 µs  /tmp/a b
                                     └ vda            write                         8192                  3.91 ms  queued 12.0 µs  served 3.90 ms  sector 81920
                                     └ vda            write                         8192                  3.91 ms  queued 12.0 µs  served 3.90 ms  sector 81920
21:05:55.854673000  3693/3700        iozone           write                         8192                  3.91 ms  vda  queued 12.0 µs  served 3.90 ms  sector 81920  of no operation: page fault
21:05:55.854673000  3693/3700        iozone           write                         8192                  3.91 ms  vda  queued 12.0 µs  served 3.90 ms  sector 81920  of no operation: in io_submit
21:05:55.854673000  3693/3700        iozone           write                         8192                  3.91 ms  vda  queued 12.0 µs  served 3.90 ms  sector 81920  of no operation: after read
21:05:55.854673000  3693/3700        iozone           write                         8192                  3.91 ms  vda  queued 12.0 µs  served 3.90 ms  sector 81920  of no operation: thread of the kernel
21:05:55.854673000                                    write                         8192                  3.91 ms  vda  queued 12.0 µs  served 3.90 ms  sector 81920  error 10  of no operation: unknown thread
";
        assert_eq!(lines, expected);
        let mut printer = ColumnPrinter::in_utc(true);
        let ascii =
            text(|out| printer.print(out, &Operation { disk: vec![disk_request()], ..read() }));
        assert!(ascii.is_ascii() && ascii.contains("` vda"), "{ascii}");
    }

    #[test]
    fn objects_of_requests() {
        let lines = text(|out| {
            json::json(out, &Operation { disk: vec![disk_request(); 2], ..read() });
            disk_request_json(out, &with_cause(DiskCause::EndedCall("io_uring_enter".into())));
            disk_request_json(out, &unattributed());
        });
        let expected = r#"{"type":"operation","time":1133384755854672000,"duration":12345,"op":"read","call":"pread64","program":"iozone","pid":3693,"tid":3693,"fd":3,"path":"/tmp/a b","asked":4096,"done":512,"offset":8192,"result":512,"disk":[{"device":"vda","operation":"write","sector":81920,"bytes":8192,"queued":12000,"served":3900000,"error":0},{"device":"vda","operation":"write","sector":81920,"bytes":8192,"queued":12000,"served":3900000,"error":0}]}
{"type":"request","time":1133384755854673000,"program":"iozone","pid":3693,"tid":3700,"cause":"ended_call","call":"io_uring_enter","device":"vda","operation":"write","sector":81920,"bytes":8192,"queued":12000,"served":3900000,"error":0}
{"type":"request","time":1133384755854673000,"cause":"unknown","device":"vda","operation":"write","sector":81920,"bytes":8192,"queued":12000,"served":3900000,"error":10}
"#;
        assert_eq!(lines, expected);
    }

    /// Sums have requests of operations and others.
    #[test]
    fn sums_of_requests() {
        let mut sums = Summary::new(0);
        sums.add(&Operation { disk: vec![disk_request(); 2], ..read() });
        sums.add_disk_request(&unattributed());
        let options = SummaryOptions { color: false, ascii: false, rows_max: 9 };
        let table = summary(&sums, &options);
        let (_, disks) = table.split_once("\n\n").expect("two tables");
        let expected = "  \
  DISK  OP     COUNT  ERRORS     BYTES   BYTES/S  QUEUED P50      P90      P99      MAX  SERVED P50      P90      P99      MAX
  vda   write      3       1  24.0 KiB  5.99 MiB     11.9 µs  12.0 µs  12.0 µs  12.0 µs     3.90 ms  3.90 ms  3.90 ms  3.90 ms
";
        assert_eq!(disks, expected);
        let lines = text(|out| summary_json(out, &sums));
        let line = lines.lines().find(|line| line.contains("\"disk\"")).expect("a sum");
        let row: serde_json::Value = serde_json::from_str(line).expect("an object");
        assert_eq!(
            (&row["count"], &row["errors"], &row["bytes"]),
            (&3.into(), &1.into(), &24_576.into())
        );
        assert_eq!(
            (&row["queued"]["max"], &row["served"]["sum"]),
            (&12_000.into(), &11_700_000.into())
        );
    }
}
