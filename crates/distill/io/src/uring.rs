//! Requests of io_uring: each becomes an operation when it completes. A submission and its
//! completion are joined by the address of the request in the kernel, or by the ring and the user
//! data of a request that completes several times.

use crate::operation::{Operation, OperationKind};
use crate::processes::{Descriptor, ProcessView, Processes, Transfer};
use crate::values::{
    COUNT, FD, FLAGS, OFFSET, OPCODE, PID, REQUEST, RET, RING, TID, USER_DATA, Values,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of requests that are waited for.
const REQUESTS_MAX: usize = 1 << 17;
/// Flag of a submission: the descriptor is an index of the ring's registered files.
const FIXED_FILE: u64 = 1;
/// Flag of a completion: the request completes again.
const MORE: u64 = 2;
/// Offset that stands for the file position.
const AT_POSITION: u64 = u64::MAX;

/// Operation code of requests that do I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opcode {
    code: u64,
    kind: OperationKind,
    /// Name in output.
    name: &'static str,
    form: Form,
}

/// Use of a request's descriptor, offset and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Descriptor, offset and number of bytes.
    Range,
    /// Descriptor and offset; the length is a number of buffers.
    Buffers,
    /// Descriptor only.
    File,
    /// Directory of a path; the result is a descriptor.
    Open,
    /// Neither a descriptor nor a file; the result is a descriptor.
    Create,
    /// Descriptor; the result is another descriptor.
    Accept,
    /// No descriptor.
    Names,
}

const fn opcode(code: u64, kind: OperationKind, name: &'static str, form: Form) -> Opcode {
    Opcode { code, kind, name, form }
}

static OPCODES: [Opcode; 32] = [
    opcode(1, OperationKind::Read, "io_uring:readv", Form::Buffers),
    opcode(2, OperationKind::Write, "io_uring:writev", Form::Buffers),
    opcode(3, OperationKind::Sync, "io_uring:fsync", Form::File),
    opcode(4, OperationKind::Read, "io_uring:read_fixed", Form::Range),
    opcode(5, OperationKind::Write, "io_uring:write_fixed", Form::Range),
    opcode(8, OperationKind::Sync, "io_uring:sync_file_range", Form::File),
    opcode(9, OperationKind::Write, "io_uring:sendmsg", Form::File),
    opcode(10, OperationKind::Read, "io_uring:recvmsg", Form::File),
    opcode(13, OperationKind::Accept, "io_uring:accept", Form::Accept),
    opcode(16, OperationKind::Connect, "io_uring:connect", Form::File),
    opcode(17, OperationKind::Allocate, "io_uring:fallocate", Form::File),
    opcode(18, OperationKind::Open, "io_uring:openat", Form::Open),
    opcode(19, OperationKind::Close, "io_uring:close", Form::File),
    opcode(22, OperationKind::Read, "io_uring:read", Form::Range),
    opcode(23, OperationKind::Write, "io_uring:write", Form::Range),
    opcode(26, OperationKind::Write, "io_uring:send", Form::File),
    opcode(27, OperationKind::Read, "io_uring:recv", Form::File),
    opcode(28, OperationKind::Open, "io_uring:openat2", Form::Open),
    // The descriptor of a splice is that of its output; that of its input is in the command.
    opcode(30, OperationKind::Copy, "io_uring:splice", Form::Names),
    opcode(33, OperationKind::Copy, "io_uring:tee", Form::Names),
    opcode(35, OperationKind::Rename, "io_uring:renameat", Form::Names),
    opcode(36, OperationKind::Unlink, "io_uring:unlinkat", Form::Names),
    opcode(45, OperationKind::Socket, "io_uring:socket", Form::Create),
    opcode(47, OperationKind::Write, "io_uring:send_zc", Form::File),
    opcode(48, OperationKind::Write, "io_uring:sendmsg_zc", Form::File),
    opcode(49, OperationKind::Read, "io_uring:read_multishot", Form::File),
    opcode(55, OperationKind::Truncate, "io_uring:ftruncate", Form::File),
    opcode(56, OperationKind::Bind, "io_uring:bind", Form::File),
    opcode(58, OperationKind::Read, "io_uring:recv_zc", Form::File),
    opcode(60, OperationKind::Read, "io_uring:readv_fixed", Form::Buffers),
    opcode(61, OperationKind::Write, "io_uring:writev_fixed", Form::Buffers),
    opcode(62, OperationKind::Socket, "io_uring:pipe", Form::Names),
];

/// Requests that were submitted and have not completed.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Requests by their address in the kernel, which is used again after the completion.
    submitted: HashMap<u64, Submission>,
    /// Addresses of requests that may complete several times, by ring and user data.
    repeated: HashMap<(u64, u64), u64>,
    /// Number of requests beyond the limit.
    dropped: u64,
}

#[derive(Debug)]
struct Submission {
    /// Operation without the result.
    operation: Operation,
    form: Form,
    /// Ring and user data.
    name: (u64, u64),
}

impl Requests {
    /// Returns the number of requests beyond the limit, whose operations are missing.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Stores a submission at `time_ns`. Returns `None` for a malformed event.
    pub(crate) fn submit(
        &mut self,
        processes: &mut Processes,
        values: &Values,
        time_ns: i64,
    ) -> Option<()> {
        let (pid, request) = (values.id(PID)?, values.number(REQUEST)?);
        let code = values.number(OPCODE)?;
        let name = (values.number(RING)?, values.number(USER_DATA)?);
        // The completion of an earlier request at this address was lost.
        self.remove(request);
        let Some(opcode) = OPCODES.iter().find(|opcode| opcode.code == code) else {
            return Some(());
        };
        if self.submitted.len() >= REQUESTS_MAX {
            self.dropped += 1;
            return Some(());
        }
        let process = processes.view(pid);
        let mut operation = Operation {
            time_ns,
            duration_ns: 0,
            kind: opcode.kind,
            call: opcode.name,
            program: process.name(),
            pid,
            tid: values.id(TID).unwrap_or(pid),
            fd: None,
            second_fd: None,
            path: None,
            second_path: None,
            asked: None,
            done: None,
            offset: None,
            position: None,
            is_certain: true,
            result: Ok(0),
            disk: Vec::new(),
        };
        let form = opcode.form;
        if matches!(form, Form::Range | Form::Buffers | Form::File | Form::Accept)
            && values.flags() & FIXED_FILE == 0
        {
            let fd = values.fd(FD)?;
            operation.fd = Some(fd);
            if let Some(path) = process.path(fd, time_ns) {
                operation.is_certain = path.generation == process.generation();
                operation.path = Some(path.text);
            }
        }
        if matches!(form, Form::Range | Form::Buffers) {
            operation.offset = values.number(OFFSET).filter(|offset| *offset != AT_POSITION);
        }
        if form == Form::Range {
            operation.asked = values.number(COUNT);
        }
        self.submitted.insert(request, Submission { operation, form, name });
        if form == Form::Accept || form == Form::File && opcode.kind == OperationKind::Read {
            self.repeated.insert(name, request);
        }
        Some(())
    }

    /// Returns the operation of a request that completes at `time_ns`; `None` if its submission is
    /// unknown. The outer value is `None` for a malformed event.
    pub(crate) fn complete(
        &mut self,
        processes: &mut Processes,
        values: &Values,
        time_ns: i64,
    ) -> Option<Option<Operation>> {
        let result = values.number(RET)? as u32 as i32;
        let has_more = values.number(FLAGS)? & MORE != 0;
        let request = match values.number(REQUEST)? {
            0 => self.repeated.get(&(values.number(RING)?, values.number(USER_DATA)?)).copied(),
            request => Some(request),
        };
        let Some(request) = request else { return Some(None) };
        let Some(submission) = self.submitted.get_mut(&request) else { return Some(None) };
        let mut operation = submission.operation.clone();
        let form = submission.form;
        // The next completion is that of another transfer.
        submission.operation.time_ns = time_ns;
        if !has_more {
            self.remove(request);
        }
        operation.duration_ns = u64::try_from(time_ns.saturating_sub(operation.time_ns)).ok()?;
        operation.result =
            if result < 0 { Err(result.saturating_neg()) } else { Ok(result.into()) };
        let mut process = processes.view(operation.pid);
        if result >= 0 {
            apply(&mut process, &mut operation, form, result, time_ns);
        }
        Some(Some(operation))
    }

    fn remove(&mut self, request: u64) {
        if let Some(removed) = self.submitted.remove(&request)
            && self.repeated.get(&removed.name) == Some(&request)
        {
            self.repeated.remove(&removed.name);
        }
    }
}

/// Completes an operation with its result, and changes the state of its process.
fn apply(
    process: &mut ProcessView<'_>,
    operation: &mut Operation,
    form: Form,
    result: i32,
    end_ns: i64,
) {
    let start_ns = operation.time_ns;
    match form {
        Form::Open | Form::Create | Form::Accept => {
            // The result is 0 if the descriptor is one of the ring's registered files.
            let fd = Some(result).filter(|fd| *fd > 0);
            match form {
                Form::Accept => operation.second_fd = fd,
                _ => operation.fd = fd,
            }
            if let Some(fd) = fd {
                let path: Option<Arc<str>> = None;
                let generation = process.generation();
                let since_ns = end_ns;
                let (is_closed_on_exec, open_file) = (false, None);
                process.open(
                    fd,
                    Descriptor { path, generation, is_closed_on_exec, since_ns, open_file },
                );
            }
        }
        _ if operation.kind.is_transfer() => operation.done = Some(result.unsigned_abs().into()),
        _ => {}
    }
    match (operation.kind, operation.fd) {
        (OperationKind::Read | OperationKind::Write, Some(fd)) if operation.offset.is_none() => {
            let (bytes, is_write) =
                (result.unsigned_abs().into(), operation.kind == OperationKind::Write);
            let position = process.advance(fd, &Transfer { start_ns, bytes, is_write });
            operation.position = position.map(|position| {
                operation.is_certain &= position.generation == process.generation();
                position.offset
            });
        }
        // Registered files are closed with the descriptor 0.
        (OperationKind::Close, Some(1..)) => {
            process.close(operation.fd.unwrap_or_default(), start_ns);
        }
        _ => {}
    }
}
