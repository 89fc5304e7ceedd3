//! Tracking of processes: from events in order of time to operations with names and paths.

use crate::calls::{Action, Call};
use crate::disk::{CallPeriod, DiskRequests};
use crate::disk_request::DiskRequest;
use crate::extract::{Damaged, Extractor, Meaning};
use crate::operation::{Operation, OperationKind};
use crate::peer;
use crate::processes::{
    DatedPath, DatedPosition, Descriptor, Drops, Duplication, OpenFile, ProcessView, Processes,
    Transfer,
};
use crate::uring::Requests;
use crate::values::{
    ARGUMENT, CHILD, COMMAND, COUNT, DIRECTORY, DIRFD, DIRFD2, DURATION, FAMILY, FD, FD2, NAME,
    OF_PID, OFFSET, PATH, PATH2, PID, POINTER, POINTER2, RET, TID, Values, WHENCE,
};
use blkkin_reader::Event;
use std::sync::Arc;

// Constants of the kernel's interface, which are the same on all architectures of interest.
const O_APPEND: u64 = 0o2000;
/// Flag of calls that create descriptors: `O_CLOEXEC`, `SOCK_CLOEXEC`, `EFD_CLOEXEC`, …
const CLOEXEC: u64 = 0o2_000_000;
const MFD_CLOEXEC: u64 = 1;
const CLOSE_RANGE_CLOEXEC: u64 = 4;
const MAP_ANONYMOUS: u64 = 0x20;
const SEEK_SET: u64 = 0;
const F_DUPFD: u64 = 0;
const F_SETFD: u64 = 2;
const FD_CLOEXEC: u64 = 1;
const F_DUPFD_CLOEXEC: u64 = 1030;
const EBADF: i32 = 9;
const EINPROGRESS: i32 = 115;
/// Negative of the largest error. Return values from here to -1 are errors, and all others (such as
/// addresses) are results.
const ERRNO_MIN: i64 = -4095;

/// Tracker of processes and their I/O.
#[derive(Debug, Default)]
pub struct Tracker {
    extractor: Extractor,
    processes: Processes,
    requests: Requests,
    disk: DiskRequests,
    operations: u64,
    malformed: u64,
}

/// Counters of a tracker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of operations.
    pub operations: u64,
    /// Number of events of known classes that lack a time, a process id or another necessary field.
    pub malformed: u64,
    /// State that was dropped because of the limits of memory.
    pub drops: Drops,
    /// Number of requests of io_uring that were not waited for, because too many had not completed.
    pub dropped_requests: u64,
    /// Number of requests to disks that were released without their operation, because too many
    /// waited for the end of theirs.
    pub unheld_requests: u64,
}

impl Tracker {
    /// Creates a tracker without state.
    pub fn new() -> Tracker {
        Tracker::default()
    }

    /// Marks the state as uncertain, because events of any process may be missing before the next
    /// event. The state is still used: see [`Operation::is_certain`].
    pub fn lost(&mut self) {
        self.processes.lost();
    }

    /// Updates the state of the event's process. Returns the operation that the event describes, if
    /// any. Events must be passed in order of time. A damaged event counts as a loss.
    #[inline]
    pub fn event(&mut self, event: &mut Event<'_>) -> Option<Operation> {
        let time = event.time();
        let (meaning, values) = match self.extractor.read(event) {
            Ok(read) => read?,
            Err(Damaged) => {
                self.processes.lost();
                return None;
            }
        };
        let processes = &mut self.processes;
        let result = match meaning {
            Meaning::Call(call) => operation(processes, call, values, time, &mut self.disk),
            Meaning::DiskRequest => time.and_then(|time| {
                let mut request = self.disk.read(values, time)?;
                if request.pid != 0 {
                    request.program = processes.view(request.pid).name();
                }
                self.disk.add(request);
                Some(None)
            }),
            Meaning::UringSubmit => {
                time.and_then(|time| self.requests.submit(processes, values, time)).map(|()| None)
            }
            Meaning::UringComplete => {
                time.and_then(|time| self.requests.complete(processes, values, time))
            }
            meaning => {
                if let (Meaning::Exit, Some(pid)) = (meaning, values.id(PID)) {
                    self.disk.end_process(pid, time.unwrap_or(i64::MIN));
                }
                change_state(processes, meaning, values).map(|()| None)
            }
        };
        match result {
            Some(operation) => {
                self.operations += u64::from(operation.is_some());
                operation
            }
            None => {
                self.malformed += 1;
                None
            }
        }
    }

    /// Returns the requests to disks that belong to no operation, or that completed after theirs,
    /// as far as that has become known since the last call. They come before the operation that
    /// [`event`](Self::event) has returned.
    #[inline]
    pub fn take_disk_requests(&mut self) -> Vec<DiskRequest> {
        self.disk.take_released()
    }

    /// Ends the tracking: operations that have not ended get no requests to disks. The latter are
    /// returned by [`take_disk_requests`](Self::take_disk_requests).
    pub fn finish(&mut self) {
        self.disk.release_all();
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        let Tracker { operations, malformed, .. } = *self;
        let (drops, dropped_requests) = (self.processes.drops(), self.requests.dropped());
        let unheld_requests = self.disk.unheld();
        Counts { operations, malformed, drops, dropped_requests, unheld_requests }
    }
}

/// Changes the state as an event other than a system call describes. Returns `None` for a malformed
/// event.
fn change_state(processes: &mut Processes, meaning: Meaning, values: &Values) -> Option<()> {
    match meaning {
        Meaning::Call(_) | Meaning::UringSubmit | Meaning::UringComplete | Meaning::DiskRequest => {
        }
        Meaning::Fork => processes.fork(values.id(PID)?, values.id(CHILD)?),
        Meaning::Exec => processes.view(values.id(PID)?).exec(values.text(NAME)),
        Meaning::Exit => {
            // The kernel's recorder emits one such event for a process, on its last thread.
            processes.remove(values.id(PID)?);
        }
        Meaning::ProcessState => {
            let mut process = processes.view(values.id(OF_PID)?);
            process.set_state(values.text(NAME), values.text(DIRECTORY));
        }
        Meaning::FileState => {
            let (pid, fd) = (values.id(OF_PID)?, values.fd(FD)?);
            if let Some(path) = values.text(PATH) {
                processes.view(pid).add_file(fd, path);
            }
        }
    }
    Some(())
}

/// Changes the state as a system call did, and returns the call's operation, if any. Returns `None`
/// for a malformed event.
fn operation(
    processes: &mut Processes,
    call: &'static Call,
    values: &Values,
    time: Option<i64>,
    disk: &mut DiskRequests,
) -> Option<Option<Operation>> {
    let (end_ns, pid) = (time?, values.id(PID)?);
    let ret = values.number(RET)?.cast_signed();
    let duration_ns = values.number(DURATION).unwrap_or(0);
    let result = match ret {
        ERRNO_MIN..0 => Err(-ret as i32),
        _ => Ok(ret),
    };
    let operation = Operation {
        time_ns: end_ns.saturating_sub_unsigned(duration_ns),
        duration_ns,
        kind: OperationKind::Open,
        call: call.name,
        program: Arc::default(),
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
        result,
        disk: Vec::new(),
    };
    let Operation { tid, time_ns: start_ns, .. } = operation;
    let requests = disk.end_call(&CallPeriod { pid, tid, start_ns, end_ns });
    let process = processes.view(pid);
    let mut builder = OperationBuilder { process, values, operation, end_ns };
    let is_operation = builder.apply(call.action);
    if is_operation != Some(true) {
        disk.release(requests);
        return is_operation.map(|_| None);
    }
    builder.operation.disk = requests;
    let OperationBuilder { process, mut operation, .. } = builder;
    operation.program = process.name();
    Some(Some(operation))
}

/// Builder of the operation of one system call.
struct OperationBuilder<'b> {
    process: ProcessView<'b>,
    values: &'b Values,
    operation: Operation,
    end_ns: i64,
}

impl OperationBuilder<'_> {
    /// Changes the state and completes the operation. Returns false for a call without an
    /// operation, and `None` if a necessary field is absent.
    fn apply(&mut self, action: Action) -> Option<bool> {
        match action {
            Action::Open => self.open(),
            Action::Socket => self.socket(),
            Action::SocketPair => {
                self.operation.kind = OperationKind::Socket;
                self.create_two("socket pair");
            }
            Action::Pipe => {
                self.create_two("pipe");
                return Some(false);
            }
            Action::Accept => self.accept()?,
            Action::Connect => self.connect()?,
            Action::Bind => self.bind()?,
            Action::Transfer(kind) => self.transfer(kind)?,
            Action::Messages(kind) => {
                self.operation.kind = kind;
                self.use_descriptor()?;
            }
            Action::Seek => self.seek()?,
            Action::Close => self.close()?,
            Action::CloseRange => return self.close_range(),
            Action::Duplicate => {
                self.duplicate(self.values.flags() & CLOEXEC != 0)?;
            }
            Action::Fcntl => return self.fcntl(),
            Action::Plain(kind) => self.plain(kind),
            Action::Map => return self.map(),
            Action::Copy => self.copy()?,
            Action::Rename => self.rename(),
            Action::SetupUring => {
                self.operation.kind = OperationKind::SetupUring;
                self.operation.asked = self.values.number(COUNT);
                self.create("anon_inode:[io_uring]".into(), true);
            }
            Action::SubmitUring => {
                self.operation.kind = OperationKind::SubmitUring;
                self.use_descriptor()?;
                self.operation.asked = self.values.number(COUNT);
                self.operation.done = self.count_done();
            }
            Action::Create(path) => {
                let path = match self.values.text(PATH) {
                    Some(name) => format!("{path}{name}").into(),
                    None => path.into(),
                };
                let is_memfd = self.operation.call == "memfd_create";
                let flag = if is_memfd { MFD_CLOEXEC } else { CLOEXEC };
                self.create(path, self.values.flags() & flag != 0);
                return Some(false);
            }
            Action::ChangeDirectory => {
                if self.operation.result.is_ok() {
                    match self.values.text(PATH) {
                        Some(path) => self.process.change_directory(path),
                        None => self.process.set_directory(None),
                    }
                }
                return Some(false);
            }
            Action::ChangeToDescriptor => {
                if self.operation.result.is_ok() {
                    let path = self.process.path(self.values.fd(FD)?, self.operation.time_ns);
                    self.process.set_directory(path);
                }
                return Some(false);
            }
        }
        Some(true)
    }

    /// Returns the result of a successful call as a descriptor.
    fn new_fd(&self) -> Option<i32> {
        self.operation.result.ok().and_then(|fd| i32::try_from(fd).ok()).filter(|fd| *fd >= 0)
    }

    /// Returns the result of a successful call as a count.
    fn count_done(&self) -> Option<u64> {
        self.operation.result.ok().and_then(|count| u64::try_from(count).ok())
    }

    /// Returns the path of a descriptor that the call used.
    fn path_of(&mut self, fd: i32) -> Option<Arc<str>> {
        self.process.path(fd, self.operation.time_ns).map(|path| self.text(path))
    }

    /// Returns the text of a path that becomes part of the operation.
    fn text(&mut self, path: DatedPath) -> Arc<str> {
        self.operation.is_certain &= path.generation == self.process.generation();
        path.text
    }

    /// Returns the absolute path of an argument.
    fn argument(&self, path: u8, dirfd: u8) -> Option<DatedPath> {
        let dirfd = self.values.fd(dirfd);
        let resolve = |path| self.process.resolve(path, dirfd, self.operation.time_ns);
        self.values.text(path).map(resolve)
    }

    fn path_argument(&mut self, path: u8, dirfd: u8) -> Option<Arc<str>> {
        self.argument(path, dirfd).map(|path| self.text(path))
    }

    /// Sets descriptor and path from the argument `fd`, and returns the descriptor.
    fn use_descriptor(&mut self) -> Option<i32> {
        let fd = self.values.fd(FD)?;
        self.operation.fd = Some(fd);
        self.operation.path = self.path_of(fd);
        Some(fd)
    }

    /// Adds the descriptor that a successful call returned.
    fn create(&mut self, path: Arc<str>, is_closed_on_exec: bool) {
        let fd = self.new_fd();
        self.add(fd, self.descriptor(Some(path.clone()), is_closed_on_exec));
        self.operation.fd = fd;
        self.operation.path = Some(path);
    }

    /// Adds the two descriptors that a call has returned.
    fn create_two(&mut self, path: &'static str) {
        if self.operation.result.is_err() {
            return;
        }
        let (path, is_closed_on_exec) = (Arc::from(path), self.values.flags() & CLOEXEC != 0);
        let [fd, second_fd] = [FD, FD2].map(|slot| self.values.fd(slot));
        for fd in [fd, second_fd] {
            self.add(fd, self.descriptor(Some(Arc::clone(&path)), is_closed_on_exec));
        }
        (self.operation.fd, self.operation.second_fd) = (fd, second_fd);
        self.operation.path = Some(path);
    }

    /// Returns a descriptor that the call has created.
    fn descriptor(&self, path: Option<Arc<str>>, is_closed_on_exec: bool) -> Descriptor {
        let (generation, since_ns) = (self.process.generation(), self.end_ns);
        Descriptor { path, generation, is_closed_on_exec, since_ns, open_file: None }
    }

    fn add(&mut self, fd: Option<i32>, descriptor: Descriptor) {
        if let Some(fd) = fd {
            self.process.open(fd, descriptor);
        }
    }

    fn open(&mut self) {
        let (fd, flags) = (self.new_fd(), self.values.flags());
        let path = self.argument(PATH, DIRFD);
        let generation = self.process.generation();
        let file = OpenFile::new(0, generation, flags & O_APPEND != 0);
        let mut descriptor = self.descriptor(None, flags & CLOEXEC != 0);
        descriptor.open_file = Some(Arc::new(file));
        if let Some(DatedPath { text, generation }) = path.clone() {
            (descriptor.path, descriptor.generation) = (Some(text), generation);
        }
        self.add(fd, descriptor);
        self.operation.fd = fd;
        self.operation.path = path.map(|path| self.text(path));
    }

    fn socket(&mut self) {
        self.operation.kind = OperationKind::Socket;
        let (fd, flags) = (self.new_fd(), self.values.flags());
        let path: Option<Arc<str>> =
            self.values.fd(FAMILY).map(|family| peer::socket(family).into());
        self.add(fd, self.descriptor(path.clone(), flags & CLOEXEC != 0));
        (self.operation.fd, self.operation.path) = (fd, path);
    }

    fn accept(&mut self) -> Option<()> {
        self.operation.kind = OperationKind::Accept;
        let fd = self.values.fd(FD)?;
        let (new, flags) = (self.new_fd(), self.values.flags());
        let peer: Option<Arc<str>> = peer::text(self.values.address()).map(Arc::from);
        let peer = peer.filter(|_| new.is_some());
        self.operation.fd = Some(fd);
        self.operation.path = peer.clone().or_else(|| self.path_of(fd));
        self.operation.second_fd = new;
        self.add(new, self.descriptor(peer, flags & CLOEXEC != 0));
        Some(())
    }

    fn connect(&mut self) -> Option<()> {
        self.operation.kind = OperationKind::Connect;
        let fd = self.values.fd(FD)?;
        self.operation.fd = Some(fd);
        let peer: Option<Arc<str>> = peer::text(self.values.address()).map(Arc::from);
        match (peer, self.operation.result) {
            (Some(peer), Ok(_) | Err(EINPROGRESS)) if fd >= 0 => {
                self.process.set_address(fd, peer.clone(), self.operation.time_ns);
                self.operation.path = Some(peer);
            }
            (Some(peer), _) => self.operation.path = Some(peer),
            (None, _) => self.operation.path = self.path_of(fd),
        }
        Some(())
    }

    fn bind(&mut self) -> Option<()> {
        self.operation.kind = OperationKind::Bind;
        let fd = self.values.fd(FD)?;
        self.operation.fd = Some(fd);
        let address: Option<Arc<str>> = peer::text(self.values.address()).map(Arc::from);
        match address {
            Some(address) => {
                let start_ns = self.operation.time_ns;
                let is_current = |path: &DatedPath| path.generation == self.process.generation();
                let before = self.process.path(fd, start_ns).filter(is_current);
                let is_connected = before.is_some_and(|path| !peer::is_socket(&path.text));
                if self.operation.result.is_ok() && fd >= 0 && !is_connected {
                    self.process.set_address(fd, address.clone(), start_ns);
                }
                self.operation.path = Some(address);
            }
            None => self.operation.path = self.path_of(fd),
        }
        Some(())
    }

    fn transfer(&mut self, kind: OperationKind) -> Option<()> {
        self.operation.kind = kind;
        let fd = self.values.fd(FD)?;
        self.operation.fd = Some(fd);
        // The address of a message, of which a socket may have another one each time.
        let peer = peer::text(self.values.address()).map(Arc::from);
        self.operation.path = peer.or_else(|| self.path_of(fd));
        self.operation.asked = self.values.number(COUNT);
        self.operation.done = self.count_done();
        // `preadv2` and `pwritev2` accept -1 for the file position.
        self.operation.offset = self.values.number(OFFSET).filter(|offset| *offset != u64::MAX);
        if self.operation.offset.is_none() {
            let position = self.advance(fd, kind == OperationKind::Write);
            self.operation.position = position.map(|position| {
                self.operation.is_certain &= position.generation == self.process.generation();
                position.offset
            });
        }
        Some(())
    }

    /// Advances the file position of a descriptor, and returns the previous position.
    fn advance(&self, fd: i32, is_write: bool) -> Option<DatedPosition> {
        let (start_ns, bytes) = (self.operation.time_ns, self.count_done()?);
        self.process.advance(fd, &Transfer { start_ns, bytes, is_write })
    }

    fn seek(&mut self) -> Option<()> {
        self.operation.kind = OperationKind::Seek;
        let fd = self.use_descriptor()?;
        match self.count_done() {
            Some(position) => {
                self.process.seek(fd, position, self.operation.time_ns);
                self.operation.offset = Some(position);
            }
            None if self.values.number(WHENCE) == Some(SEEK_SET) => {
                self.operation.offset = self.values.number(OFFSET);
            }
            None => {}
        }
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        self.operation.kind = OperationKind::Close;
        let fd = self.use_descriptor()?;
        // Linux closes the descriptor even if `close` reports an error of the file.
        if self.operation.result != Err(EBADF) {
            self.process.close(fd, self.operation.time_ns);
        }
        Some(())
    }

    fn close_range(&mut self) -> Option<bool> {
        self.operation.kind = OperationKind::Close;
        let (first, last) = (self.values.fd(FD)?, self.values.fd(FD2)?);
        self.operation.fd = Some(first);
        self.operation.second_fd = Some(last).filter(|last| *last >= 0);
        let is_flag = self.values.flags() & CLOSE_RANGE_CLOEXEC != 0;
        if self.operation.result.is_ok() {
            let (first, last) = (first.cast_unsigned(), last.cast_unsigned());
            match is_flag {
                true => self.process.set_closed_on_exec(first, last, true),
                false => self.process.close_range(first, last, self.operation.time_ns),
            }
        }
        Some(!is_flag)
    }

    fn duplicate(&mut self, is_closed_on_exec: bool) -> Option<()> {
        self.operation.kind = OperationKind::Duplicate;
        let fd = self.use_descriptor()?;
        let new = self.new_fd();
        self.operation.second_fd = new.or_else(|| self.values.fd(FD2));
        if let Some(new) = new {
            let (start_ns, end_ns) = (self.operation.time_ns, self.end_ns);
            let call = Duplication { is_closed_on_exec, start_ns, end_ns };
            self.process.duplicate(fd, new, &call);
        }
        Some(())
    }

    fn fcntl(&mut self) -> Option<bool> {
        match self.values.number(COMMAND)? & u64::from(u32::MAX) {
            F_DUPFD => self.duplicate(false)?,
            F_DUPFD_CLOEXEC => self.duplicate(true)?,
            F_SETFD => {
                let fd = self.values.fd(FD)?;
                if self.operation.result.is_ok() && fd >= 0 {
                    let value = self.values.number(ARGUMENT)? & FD_CLOEXEC != 0;
                    let fd = fd.cast_unsigned();
                    self.process.set_closed_on_exec(fd, fd, value);
                }
                return Some(false);
            }
            _ => return Some(false),
        }
        Some(true)
    }

    fn plain(&mut self, kind: OperationKind) {
        self.operation.kind = kind;
        self.operation.path = match self.use_descriptor() {
            Some(_) => self.operation.path.take(),
            None => self.path_argument(PATH, DIRFD),
        };
        self.operation.asked = self.values.number(COUNT);
        self.operation.offset = self.values.number(OFFSET);
    }

    fn map(&mut self) -> Option<bool> {
        let fd = self.values.fd(FD)?;
        if self.values.flags() & MAP_ANONYMOUS != 0 || fd < 0 {
            return Some(false);
        }
        self.plain(OperationKind::Map);
        Some(true)
    }

    fn copy(&mut self) -> Option<()> {
        self.operation.kind = OperationKind::Copy;
        let (input, output) = (self.use_descriptor()?, self.values.fd(FD2)?);
        self.operation.second_fd = Some(output);
        self.operation.second_path = self.path_of(output);
        self.operation.asked = self.values.number(COUNT);
        self.operation.done = self.count_done();
        for (fd, pointer, is_write) in [(input, POINTER, false), (output, POINTER2, true)] {
            // A null pointer stands for the file position.
            if self.values.number(pointer).is_none_or(|pointer| pointer == 0) {
                self.advance(fd, is_write);
            }
        }
        Some(())
    }

    fn rename(&mut self) {
        self.operation.kind = OperationKind::Rename;
        self.operation.path = self.path_argument(PATH, DIRFD);
        self.operation.second_path = self.path_argument(PATH2, DIRFD2);
    }
}
