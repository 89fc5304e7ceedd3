//! Operations that the tests of several modules print.

use blkkin_io::{DiskCause, DiskRequest, Operation, OperationKind};

/// Start of the tested operations in nanoseconds since 1970, from real output of app-trace.
pub(super) const TIME_NS: i64 = 1_133_384_755_854_672_000;

pub(super) fn read() -> Operation {
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
        disk: Vec::new(),
    }
}

pub(super) fn disk_request() -> DiskRequest {
    DiskRequest {
        time_ns: TIME_NS + 1000,
        device: "vda".into(),
        operation: "write".into(),
        sector: 81_920,
        bytes: 8192,
        queued_ns: 12_000,
        served_ns: 3_900_000,
        error: 0,
        program: "iozone".into(),
        pid: 3693,
        tid: 3700,
        cause: DiskCause::Call("pread64".into()),
    }
}

pub(super) fn of_kind(kind: OperationKind, result: Result<i64, i32>) -> Operation {
    let fd = result.ok().map(|fd| fd as i32);
    Operation { kind, result, fd, asked: None, done: None, offset: None, ..read() }
}

pub(super) fn rename() -> Operation {
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

pub(super) fn text(print: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    print(&mut out);
    String::from_utf8(out).expect("UTF-8")
}
