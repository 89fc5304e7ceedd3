//! Operations as lines of app-trace, the tracer of the Rocks cluster distribution.

use super::cells::{Cell, Clean, known};
use crate::info::table::Theme;
use blkkin_io::{Operation, OperationKind};

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

#[cfg(test)]
mod tests {
    use super::super::samples::{of_kind, read, text};
    use super::*;

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
}
