//! Operations and sums as JSON, one object a line. The first line is that of [`json_begin`].

use super::disk;
use super::members::{number, string, word};
use crate::errno::error_name;
use blkkin_io::{Operation, OperationKind, Summary};
use std::io::Write;

/// Version of the schema of the JSON lines; incremented by changes that may break consumers.
pub const SCHEMA: &str = "blkkin.io.v1";

/// Appends the first line: an object of the type `begin` with the `schema`.
pub fn json_begin(out: &mut Vec<u8>) {
    let _ = writeln!(out, "{{\"type\":\"begin\",\"schema\":\"{SCHEMA}\"}}");
}

/// Appends the line of the type `interval` that precedes the sums of an interval: its end in
/// nanoseconds since 1970, its duration in nanoseconds, and the number and the bytes of its
/// operations.
pub fn interval_json(out: &mut Vec<u8>, sums: &Summary, end_ns: i64, duration_ns: u64) {
    let (operations, bytes) = sums.totals();
    let _ = writeln!(
        out,
        "{{\"type\":\"interval\",\"time\":{end_ns},\"duration\":{duration_ns},\
         \"operations\":{operations},\"bytes\":{bytes}}}"
    );
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
/// | `disk` | requests to disks: members of [`super::disk_request_json`] from `device` on |
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
    disk::array(out, &operation.disk);
    out.extend_from_slice(b"}\n");
}

/// Appends the rows of a summary as JSON lines of the type `sum`, the sums of requests to disks as
/// lines of the type `disk`, and its slowest operations as lines of the type `operation`. Latencies
/// are in nanoseconds.
pub fn summary_json(out: &mut Vec<u8>, sums: &Summary) {
    for row in sums.rows() {
        out.extend_from_slice(b"{\"type\":\"sum\"");
        string(out, "program", Some(&row.program).filter(|program| !program.is_empty()));
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
    disk::sums_json(out, sums);
    sums.slowest().for_each(|operation| json(out, operation));
}

#[cfg(test)]
mod tests {
    use super::super::samples::{read, rename, text};
    use super::*;

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

    /// Each line is an object with a type; unknown names are omitted.
    #[test]
    fn lines_of_an_interval() {
        let mut sums = Summary::new(1);
        sums.add(&read());
        let lines = text(|out| {
            json_begin(out);
            interval_json(out, &sums, 7, 8);
            summary_json(out, &sums);
        });
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
        let types: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
        assert_eq!(types, ["begin", "interval", "sum", "operation"]);
        assert_eq!(lines[0]["schema"], SCHEMA);
        assert_eq!((&lines[1]["operations"], &lines[1]["bytes"]), (&1.into(), &512.into()));
        assert_eq!(lines[2]["latency"]["max"], 12_345);
    }
}
