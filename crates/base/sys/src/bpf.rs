//! eBPF programs and maps by the system call `bpf`: creating, loading and attaching. All objects
//! are descriptors, so the kernel removes them when the process ends, however it ends.
//!
//! No library is used: those that exist load object files, and programs here are made at run time.

mod attempt;
mod run_times;

pub use attempt::{AttemptError, AttemptedHook, attempt};
pub use run_times::{ProgramRuns, RunTimes};

use crate::shared::SharedMemory;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

mod user;

pub use user::UserInstruction;

/// Commands of the system call `bpf`.
#[derive(Clone, Copy)]
enum Command {
    MapCreate = 0,
    MapUpdate = 2,
    MapDelete = 3,
    ProgramLoad = 5,
    #[cfg(feature = "testing")]
    ProgramRun = 10,
    ProgramNextId = 11,
    ObjectInfo = 15,
    RawTracepointOpen = 17,
    TypesLoad = 18,
    LinkCreate = 28,
    EnableStatistics = 32,
}

const MAP_HASH: u32 = 1;
const MAP_ARRAY: u32 = 2;
const MAP_RECENT_HASH: u32 = 9;
const MAP_RING_BUFFER: u32 = 27;
/// The map's values can be mapped into this process.
const MMAPABLE: u32 = 1 << 10;
/// Program for the saved registers at an instruction of the kernel.
const PROGRAM_KPROBE: u32 = 2;
/// Program for the record of a tracepoint.
const PROGRAM_TRACEPOINT: u32 = 5;
/// Program for the samples of a timer or a counter.
const PROGRAM_PERF_EVENT: u32 = 7;
/// Program for a raw tracepoint whose arguments are plain numbers to the kernel's verifier.
const PROGRAM_RAW_TRACEPOINT: u32 = 17;
/// Program for functions and tracepoints whose arguments have types.
const PROGRAM_TRACING: u32 = 26;
/// Program that runs when this process asks for it, and may sleep.
#[cfg(feature = "testing")]
const PROGRAM_SYSTEM_CALL: u32 = 31;
/// The program may sleep.
#[cfg(feature = "testing")]
const SLEEPABLE: u32 = 1 << 4;
/// Attachment of a tracing program to a raw tracepoint.
const ATTACH_RAW_TRACEPOINT: u32 = 23;
/// Attachment of a tracing program to the entry of a function.
const ATTACH_FUNCTION_ENTRY: u32 = 24;
/// Attachment of a tracing program to the exit of a function.
const ATTACH_FUNCTION_EXIT: u32 = 25;
/// Attachment of a program for saved registers to many instructions of a file.
const ATTACH_USER_INSTRUCTIONS: u32 = 48;

/// Licence declared to the kernel when a program is loaded. The kernel offers some of its helper
/// functions only to programs under a licence that is compatible with the GPL, as BlkKin's is.
const LICENCE: &CStr = c"Dual MIT/GPL";

/// Size in bytes of the text in which the kernel explains why it rejects a program.
const LOG_SIZE: usize = 1 << 20;

/// Largest attribute of the commands used here, in bytes.
const ATTRIBUTE_SIZE: usize = 120;

/// Attribute of a command: fields at fixed offsets, zeros elsewhere.
#[repr(align(8))]
struct Attribute([u8; ATTRIBUTE_SIZE]);

impl Attribute {
    fn new() -> Attribute {
        Attribute([0; ATTRIBUTE_SIZE])
    }

    fn u32(mut self, at: usize, value: u32) -> Attribute {
        self.0[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn descriptor(self, at: usize, descriptor: BorrowedFd<'_>) -> Attribute {
        self.u32(at, descriptor.as_raw_fd().cast_unsigned())
    }

    fn address<T: ?Sized>(mut self, at: usize, value: &T) -> Attribute {
        let address = std::ptr::from_ref(value).cast::<u8>().expose_provenance() as u64;
        self.0[at..at + 8].copy_from_slice(&address.to_ne_bytes());
        self
    }

    /// Sets the address of memory to which the kernel writes.
    fn address_to_write<T: ?Sized>(mut self, at: usize, memory: &mut T) -> Attribute {
        let address = std::ptr::from_mut(memory).cast::<u8>().expose_provenance() as u64;
        self.0[at..at + 8].copy_from_slice(&address.to_ne_bytes());
        self
    }

    /// Returns a field that the kernel has written.
    fn read_u32(&self, at: usize) -> u32 {
        let mut field = [0; 4];
        field.copy_from_slice(&self.0[at..at + 4]);
        u32::from_ne_bytes(field)
    }

    /// Sets the fields for the verifier's log: the address and the size of the memory to which the
    /// kernel writes it.
    fn log(self, log: &mut [u8]) -> Attribute {
        let size = log.len() as u32;
        self.u32(24, 1).u32(28, size).address_to_write(32, log)
    }

    /// Adds a name of at most 15 letters; the rest is cut off.
    fn name(mut self, at: usize, name: &str) -> Attribute {
        let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.".contains(byte);
        for (index, byte) in name.bytes().filter(is_allowed).take(15).enumerate() {
            self.0[at + index] = byte;
        }
        self
    }
}

/// Calls `bpf`. Returns the call's result, which for some commands is a new descriptor.
fn bpf(command: Command, attribute: &mut Attribute) -> io::Result<i32> {
    // SAFETY: the attribute has that many bytes, and each address in it is that of a value which
    // the caller of this private function borrows during the call, with the size that is told. The
    // kernel writes only to the attribute and to memory that is borrowed mutably.
    #[expect(unsafe_code)]
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as i32, attribute.0.as_mut_ptr(), ATTRIBUTE_SIZE)
    };
    match i32::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

fn own(descriptor: i32) -> OwnedFd {
    // SAFETY: the kernel has just returned the descriptor, and no other value owns it.
    #[expect(unsafe_code)]
    unsafe {
        OwnedFd::from_raw_fd(descriptor)
    }
}

/// eBPF map: memory that programs in the kernel share with this process.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    key_size: usize,
    value_size: usize,
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Map {
    fn create(kind: u32, name: &str, sizes: (usize, usize), count: usize) -> io::Result<Map> {
        let (key_size, value_size) = sizes;
        let size = |size: usize| u32::try_from(size).map_err(|_| io::ErrorKind::InvalidInput);
        let flags = if kind == MAP_ARRAY { MMAPABLE } else { 0 };
        let mut attribute = Attribute::new()
            .u32(0, kind)
            .u32(4, size(key_size)?)
            .u32(8, size(value_size)?)
            .u32(12, size(count)?)
            .u32(16, flags)
            .name(28, name);
        let descriptor = own(bpf(Command::MapCreate, &mut attribute)?);
        Ok(Map { descriptor, key_size, value_size })
    }

    /// Creates a block: an array map with one value of `size` zero bytes, which programs access
    /// directly and this process can [map](Self::memory). The kernel allocates all of it now.
    pub fn block(name: &str, size: usize) -> io::Result<Map> {
        Map::create(MAP_ARRAY, name, (4, size), 1)
    }

    /// Creates a hash table for at most `count_max` keys.
    pub fn hash(
        name: &str,
        key_size: usize,
        value_size: usize,
        count_max: usize,
    ) -> io::Result<Map> {
        Map::create(MAP_HASH, name, (key_size, value_size), count_max)
    }

    /// Creates a hash table for about `count_max` keys. When it is full, a program that adds a key
    /// replaces one that has not been used for long.
    pub fn recent(
        name: &str,
        key_size: usize,
        value_size: usize,
        count_max: usize,
    ) -> io::Result<Map> {
        Map::create(MAP_RECENT_HASH, name, (key_size, value_size), count_max)
    }

    /// Maps the memory of a [block](Self::block).
    pub fn memory(&self) -> io::Result<SharedMemory> {
        SharedMemory::map_part(self.as_fd(), 0..self.value_size, true)
    }

    /// Adds or replaces a value of a [hash table](Self::hash).
    ///
    /// # Panics
    ///
    /// If the sizes are not the table's.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key_size && value.len() == self.value_size);
        let attribute = Attribute::new().descriptor(0, self.as_fd());
        bpf(Command::MapUpdate, &mut attribute.address(8, key).address(16, value)).map(|_| ())
    }

    /// Removes a key of a [hash table](Self::hash); an absent key is no error.
    ///
    /// # Panics
    ///
    /// If the size is not that of the table's keys.
    pub fn remove(&self, key: &[u8]) -> io::Result<()> {
        assert!(key.len() == self.key_size);
        let attribute = Attribute::new().descriptor(0, self.as_fd());
        match bpf(Command::MapDelete, &mut attribute.address(8, key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Maps the memory of a [block](Map::block) that another process has created. Fails if the
/// descriptor is of something else, whose size could change.
pub fn map_block(descriptor: BorrowedFd<'_>) -> io::Result<SharedMemory> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let is_map = std::fs::read_link(path)?.as_os_str() == MAP_FILE;
    let size = is_map.then(|| block_size(descriptor)).transpose()?.flatten();
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not an eBPF map of one block");
    SharedMemory::map_part(descriptor, 0..size.ok_or_else(invalid)?, true)
}

/// Name of a map's file in `/proc`.
const MAP_FILE: &str = "anon_inode:bpf-map";

/// Returns the size of a block map's value as the kernel shows it in `/proc`; `None` for other
/// maps.
fn block_size(descriptor: BorrowedFd<'_>) -> io::Result<Option<usize>> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd()))?;
    let value = |name: &str| {
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(found, _)| *found == name)?;
        let value = value.trim();
        match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => value.parse().ok(),
        }
    };
    let is_block = value("map_type") == Some(MAP_ARRAY.into())
        && value("max_entries") == Some(1)
        && value("map_flags").is_some_and(|flags| flags & u64::from(MMAPABLE) != 0);
    Ok(value("value_size").filter(|_| is_block).and_then(|size| usize::try_from(size).ok()))
}

/// Wake-up channel from a program in the kernel to this process: a BPF ring buffer whose contents
/// have no meaning.
#[derive(Debug)]
pub struct KernelWaker {
    map: Map,
    /// Position up to which this process has read, written by it.
    consumer: SharedMemory,
    /// Position up to which the kernel has written.
    producer: SharedMemory,
}

impl KernelWaker {
    /// Creates the wake-up channel and maps its ring buffer.
    pub fn new(name: &str) -> io::Result<KernelWaker> {
        let page = page_size();
        let map = Map::create(MAP_RING_BUFFER, name, (0, 0), page)?;
        let consumer = SharedMemory::map_part(map.as_fd(), 0..page, true)?;
        let producer = SharedMemory::map_part(map.as_fd(), page..2 * page, false)?;
        Ok(KernelWaker { map, consumer, producer })
    }

    /// Returns the map into which programs output a word to wake this process.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Discards wake-ups so far, so that the descriptor is not readable until the next.
    pub fn clear(&self) {
        // Acquire and release: pair with the kernel's accesses to the two positions.
        let position = self.producer.word(0).load(Acquire);
        self.consumer.word(0).store(position, Release);
    }

    /// Waits for a wake-up, a readable or closed descriptor of `others`, a signal, or the end of
    /// `time`, and clears wake-ups.
    pub fn wait(&self, others: &[BorrowedFd<'_>], time: Duration) -> io::Result<()> {
        let polled = |fd: &BorrowedFd<'_>| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut all: Vec<libc::pollfd> =
            [self.map.as_fd()].iter().chain(others).map(polled).collect();
        let time = i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: `all` has that many elements.
        #[expect(unsafe_code)]
        let count = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, time) };
        let error = io::Error::last_os_error();
        self.clear();
        match count {
            0.. => Ok(()),
            _ if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        }
    }
}

fn page_size() -> usize {
    // SAFETY: has no preconditions.
    #[expect(unsafe_code)]
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(crate::PAGE_SIZE)
}

/// Program that the kernel has accepted. Clones are the same program.
#[derive(Clone, Debug)]
pub struct Program {
    descriptor: Arc<OwnedFd>,
    place: AttachPoint,
}

/// Hook of the kernel at which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachPoint {
    /// Raw tracepoint whose type has this number in the kernel's BTF. The program gets the
    /// tracepoint's arguments.
    RawTracepoint(u32),
    /// Tracepoint with this number in the tracing file system. The program gets the record that
    /// its format describes.
    Tracepoint(u32),
    /// Entry of the function whose type has this number in the kernel's BTF. The program gets the
    /// function's arguments.
    FunctionEntry(u32),
    /// Exit of the function whose type has this number in the kernel's BTF. The program gets the
    /// function's arguments and its result.
    FunctionExit(u32),
    /// Raw tracepoint, of which the program gets the arguments as numbers without types. It is
    /// named when the program is [attached](Program::attach_to_tracepoint).
    UntypedTracepoint,
    /// Instruction of the kernel, at which the program gets the saved registers. It is named when
    /// the program is [attached](Program::attach_to_instruction).
    Instruction,
    /// Instruction of a file with code, at which the program gets the saved registers. It is named
    /// when the program is [attached](Program::attach_to_user_instruction).
    UserInstruction,
    /// Many instructions of a file with code, as for `UserInstruction`. They are named when the
    /// program is [attached](Program::attach_to_user_instructions). Needs Linux 6.6.
    UserInstructions,
    /// Timer of a processor, which is chosen when the program is
    /// [attached](Program::attach_to_timer). The program gets the registers of the interrupted
    /// code.
    Timer,
    /// No hook: the program runs by [`Program::run`], and gets that function's bytes.
    #[cfg(feature = "testing")]
    Run,
}

/// Instruction of the kernel at which the kernel places a breakpoint or a jump (kprobe).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction<'n> {
    /// Symbol of the function.
    pub function: &'n CStr,
    /// Offset from the function's first instruction, in bytes.
    pub offset: u64,
    /// Set for the function's return to its caller (kretprobe). The offset must then be 0.
    pub is_return: bool,
}

/// Attachment of a program to a hook. The program runs until this value is dropped.
#[derive(Debug)]
pub struct Link {
    _attachment: OwnedFd,
    program: Program,
}

impl Link {
    /// Returns the attached program.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

/// Reason for which a program was not loaded.
#[derive(Debug)]
pub struct LoadError {
    /// Error of the system call.
    pub error: io::Error,
    /// Log of the kernel's verifier; empty if the verifier did not run, for instance for lack of
    /// rights.
    pub log: String,
}

impl Program {
    /// Loads a program for an attach point.
    pub fn load(name: &str, code: &[u64], place: AttachPoint) -> Result<Program, LoadError> {
        Program::load_with_functions(name, code, &[], place)
    }

    /// Loads a program of several functions, one of which is called by a helper of the kernel.
    /// `functions` has the positions of the functions' first instructions, in ascending order from
    /// 0. It is empty if no helper calls a function.
    pub fn load_with_functions(
        name: &str,
        code: &[u64],
        functions: &[u32],
        place: AttachPoint,
    ) -> Result<Program, LoadError> {
        let failed = |error| LoadError { error, log: String::new() };
        let types = match functions {
            [] => None,
            _ => Some(load_function_types().map_err(failed)?),
        };
        let records: Vec<[u32; 2]> = functions.iter().map(|at| [*at, FUNCTION_TYPE]).collect();
        let count = u32::try_from(code.len()).unwrap_or(u32::MAX);
        let attribute = || {
            let mut attribute =
                Attribute::new().u32(4, count).address(8, code).address(16, LICENCE).name(48, name);
            if let Some(types) = &types {
                attribute = attribute
                    .descriptor(72, types.as_fd())
                    .u32(76, size_of::<[u32; 2]>() as u32)
                    .address(80, &*records)
                    .u32(88, records.len() as u32);
            }
            match place {
                AttachPoint::RawTracepoint(type_id) => attribute
                    .u32(0, PROGRAM_TRACING)
                    .u32(68, ATTACH_RAW_TRACEPOINT)
                    .u32(108, type_id),
                AttachPoint::FunctionEntry(type_id) => attribute
                    .u32(0, PROGRAM_TRACING)
                    .u32(68, ATTACH_FUNCTION_ENTRY)
                    .u32(108, type_id),
                AttachPoint::FunctionExit(type_id) => attribute
                    .u32(0, PROGRAM_TRACING)
                    .u32(68, ATTACH_FUNCTION_EXIT)
                    .u32(108, type_id),
                AttachPoint::Tracepoint(_) => attribute.u32(0, PROGRAM_TRACEPOINT),
                AttachPoint::UntypedTracepoint => attribute.u32(0, PROGRAM_RAW_TRACEPOINT),
                AttachPoint::Instruction | AttachPoint::UserInstruction => {
                    attribute.u32(0, PROGRAM_KPROBE)
                }
                AttachPoint::UserInstructions => {
                    attribute.u32(0, PROGRAM_KPROBE).u32(68, ATTACH_USER_INSTRUCTIONS)
                }
                AttachPoint::Timer => attribute.u32(0, PROGRAM_PERF_EVENT),
                #[cfg(feature = "testing")]
                AttachPoint::Run => attribute.u32(0, PROGRAM_SYSTEM_CALL).u32(44, SLEEPABLE),
            }
        };
        let loaded = |descriptor| Program { descriptor: Arc::new(own(descriptor)), place };
        if let Ok(descriptor) = bpf(Command::ProgramLoad, &mut attribute()) {
            return Ok(loaded(descriptor));
        }
        // Again with the log, which takes the kernel much longer.
        let mut log = vec![0; LOG_SIZE];
        match bpf(Command::ProgramLoad, &mut attribute().log(&mut log)) {
            Ok(descriptor) => Ok(loaded(descriptor)),
            Err(error) => {
                let size = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                let log = String::from_utf8_lossy(&log[..size]).into_owned();
                Err(LoadError { error, log })
            }
        }
    }

    /// Runs a program for [`AttachPoint::Run`] with `context`, which it may change. Returns the
    /// program's result.
    #[cfg(feature = "testing")]
    pub fn run(&self, context: &mut [u8]) -> io::Result<u32> {
        let size = u32::try_from(context.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut attribute = Attribute::new().descriptor(0, self.descriptor.as_fd()).u32(40, size);
        let address = context.as_mut_ptr().expose_provenance() as u64;
        attribute.0[48..56].copy_from_slice(&address.to_ne_bytes());
        bpf(Command::ProgramRun, &mut attribute)?;
        let mut result = [0; 4];
        result.copy_from_slice(&attribute.0[4..8]);
        Ok(u32::from_ne_bytes(result))
    }

    /// Attaches the program to the attach point that it was loaded for. Fails for attach points
    /// that are named when a program is attached.
    pub fn attach(&self) -> io::Result<Link> {
        match self.place {
            AttachPoint::RawTracepoint(_)
            | AttachPoint::FunctionEntry(_)
            | AttachPoint::FunctionExit(_) => {
                let mut attribute = Attribute::new().descriptor(8, self.descriptor.as_fd());
                bpf(Command::RawTracepointOpen, &mut attribute).map(|fd| self.link(own(fd)))
            }
            AttachPoint::Tracepoint(id) => {
                let (kind, config) = (PERF_TRACEPOINT, id.into());
                self.attach_to_event(&PerfEvent { kind, config, ..PerfEvent::default() })
            }
            AttachPoint::UntypedTracepoint
            | AttachPoint::Instruction
            | AttachPoint::UserInstruction
            | AttachPoint::UserInstructions
            | AttachPoint::Timer => Err(io::ErrorKind::InvalidInput.into()),
            #[cfg(feature = "testing")]
            AttachPoint::Run => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Attaches a program that was loaded for an untyped tracepoint.
    pub fn attach_to_tracepoint(&self, name: &CStr) -> io::Result<Link> {
        let attribute = Attribute::new().address(0, name);
        let mut attribute = attribute.descriptor(8, self.descriptor.as_fd());
        bpf(Command::RawTracepointOpen, &mut attribute).map(|fd| self.link(own(fd)))
    }

    /// Attaches a program that was loaded for an instruction. The error is `NotFound` if the kernel
    /// has no such function, and `Unsupported` if it was built without such probes.
    pub fn attach_to_instruction(&self, to: Instruction<'_>) -> io::Result<Link> {
        let unit = ProbeUnit::find("kprobe")?;
        let name = to.function.as_ptr().expose_provenance() as u64;
        self.attach_to_event(&PerfEvent {
            kind: unit.kind,
            config: if to.is_return { unit.return_bit } else { 0 },
            place: (name, to.offset),
            ..PerfEvent::default()
        })
    }

    fn attach_to_event(&self, event: &PerfEvent) -> io::Result<Link> {
        let event = event.open()?;
        set_program(event.as_fd(), self.descriptor.as_fd())?;
        Ok(self.link(event))
    }

    fn link(&self, attachment: OwnedFd) -> Link {
        Link { _attachment: attachment, program: self.clone() }
    }

    /// Returns the attach point that the program was loaded for.
    pub fn place(&self) -> AttachPoint {
        self.place
    }

    /// Returns true if `other` is a clone of this program.
    pub fn is_same(&self, other: &Program) -> bool {
        Arc::ptr_eq(&self.descriptor, &other.descriptor)
    }

    /// Returns the number of times that the kernel did not run the program because the program was
    /// already running on the same processor. Returns 0 on kernels that do not count (before Linux
    /// 5.12).
    pub fn missed(&self) -> io::Result<u64> {
        Ok(self.information()?.word(PROGRAM_INFO_MISSED))
    }

    /// Reads the kernel's description of the program.
    fn information(&self) -> io::Result<ProgramInfo> {
        let mut information = ProgramInfo([0; PROGRAM_INFO_SIZE]);
        let mut attribute = Attribute::new()
            .descriptor(0, self.descriptor.as_fd())
            .u32(4, PROGRAM_INFO_SIZE as u32)
            .address_to_write(8, &mut information.0);
        bpf(Command::ObjectInfo, &mut attribute)?;
        Ok(information)
    }
}

/// Start of the kernel's `struct bpf_prog_info` of a program.
struct ProgramInfo([u8; PROGRAM_INFO_SIZE]);

impl ProgramInfo {
    /// Returns the field of 8 bytes at an offset; 0 if the kernel has no such field.
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[at..at + 8]);
        u64::from_ne_bytes(word)
    }
}

/// Size in bytes of the part of the kernel's `struct bpf_prog_info` that is read.
const PROGRAM_INFO_SIZE: usize = PROGRAM_INFO_MISSED + 8;
/// Offset of the field `recursion_misses` in `struct bpf_prog_info`.
const PROGRAM_INFO_MISSED: usize = 208;

/// Returns the ids of all programs that are loaded now, of all processes.
pub fn program_ids() -> io::Result<Vec<u32>> {
    let mut ids = Vec::new();
    loop {
        let mut attribute = Attribute::new().u32(0, ids.last().copied().unwrap_or(0));
        match bpf(Command::ProgramNextId, &mut attribute) {
            Ok(_) => ids.push(attribute.read_u32(4)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ids),
            Err(error) => return Err(error),
        }
    }
}

/// Performance monitoring unit whose events are instructions of the kernel or of programs.
struct ProbeUnit {
    folder: String,
    kind: u32,
    /// Bit of the configuration for the return of a function.
    return_bit: u64,
}

impl ProbeUnit {
    /// Finds the unit with a name: `kprobe` or `uprobe`. The error is `Unsupported` if the kernel
    /// lacks it.
    fn find(name: &str) -> io::Result<ProbeUnit> {
        let folder = format!("/sys/bus/event_source/devices/{name}");
        let kind = match fs::read_to_string(format!("{folder}/type")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(io::ErrorKind::Unsupported.into());
            }
            kind => kind?.trim().parse(),
        };
        let mut unit = ProbeUnit { folder, kind: 0, return_bit: 0 };
        unit.kind = kind.map_err(|_| io::ErrorKind::InvalidData)?;
        unit.return_bit = 1 << unit.first_bit("retprobe")?;
        Ok(unit)
    }

    /// Returns the number of the first bit of a field of the configuration.
    fn first_bit(&self, field: &str) -> io::Result<u32> {
        let format = fs::read_to_string(format!("{}/format/{field}", self.folder))?;
        let bits = format.trim().strip_prefix("config:").unwrap_or_default();
        let first = bits.split('-').next().and_then(|first| first.parse().ok());
        first.filter(|first| *first < u64::BITS).ok_or(io::ErrorKind::InvalidData.into())
    }
}

/// Id of the function's type in [`load_function_types`].
const FUNCTION_TYPE: u32 = 3;

/// Loads the types that describe a program's functions: an integer, a prototype without parameters
/// that returns it, and a static function of this prototype. All functions have the same type,
/// because the kernel only checks that a type is there.
fn load_function_types() -> io::Result<OwnedFd> {
    const KIND_INTEGER: u32 = 1 << 24;
    const KIND_FUNCTION: u32 = 12 << 24;
    const KIND_PROTOTYPE: u32 = 13 << 24;
    const BITS: u32 = 64;
    let names = b"\0word\0function\0";
    // Of each type: offset of the name, kind, and size or id of another type.
    let types = [1, KIND_INTEGER, 8, BITS, 0, KIND_PROTOTYPE, 1, 6, KIND_FUNCTION, 2];
    const HEADER_SIZE: u32 = 24;
    let (types_size, names_size) = (size_of_val(&types) as u32, names.len() as u32);
    let mut bytes = Vec::new();
    // Magic number and version.
    bytes.extend_from_slice(&0x0001_eb9f_u32.to_ne_bytes());
    for word in [HEADER_SIZE, 0, types_size, types_size, names_size].into_iter().chain(types) {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(names);
    let size = bytes.len() as u32;
    let mut attribute = Attribute::new().address(0, &*bytes).u32(16, size);
    Ok(own(bpf(Command::TypesLoad, &mut attribute)?))
}

/// Type of the performance events that are tracepoints.
const PERF_TRACEPOINT: u32 = 2;
/// Size of the first published version of `struct perf_event_attr` that has all fields used here.
const PERF_ATTRIBUTE_SIZE: usize = 72;
const PERF_SAMPLE_RAW: u64 = 1 << 10;
const PERF_FLAG_CLOSE_ON_EXEC: libc::c_ulong = 8;
const PERF_SET_BPF: libc::c_ulong = 0x4004_2408;
const PERF_ENABLE: libc::c_ulong = 0x2400;

/// Performance event that runs a program. Although it is opened for one processor, the kernel runs
/// the programs of tracepoints and instructions on all.
struct PerfEvent {
    kind: u32,
    config: u64,
    /// For an instruction: address of the name of the function or the file, which must end with
    /// NUL, and the offset in it.
    place: (u64, u64),
    /// Number of counts between two runs of the program; the kernel demands 1 for tracepoints.
    period: u64,
    /// Contents of a sample.
    sample: u64,
    flags: u64,
    processor: i32,
}

impl Default for PerfEvent {
    fn default() -> PerfEvent {
        let (kind, config, place) = (0, 0, (0, 0));
        PerfEvent {
            kind,
            config,
            place,
            period: 1,
            sample: PERF_SAMPLE_RAW,
            flags: 0,
            processor: 0,
        }
    }
}

impl PerfEvent {
    fn open(&self) -> io::Result<OwnedFd> {
        let mut attribute = [0u64; PERF_ATTRIBUTE_SIZE / 8];
        attribute[0] = u64::from(self.kind) | (PERF_ATTRIBUTE_SIZE as u64) << 32;
        attribute[1] = self.config;
        attribute[2] = self.period;
        attribute[3] = self.sample;
        attribute[5] = self.flags;
        (attribute[7], attribute[8]) = self.place;
        let (any_process, processor, no_group) = (-1, self.processor, -1);
        // SAFETY: the attribute has the size that it tells. An address in it is that of a name
        // which the caller of this private function borrows during the call.
        #[expect(unsafe_code)]
        let result = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attribute.as_ptr(),
                any_process,
                processor,
                no_group,
                PERF_FLAG_CLOSE_ON_EXEC,
            )
        };
        match i32::try_from(result) {
            Ok(descriptor) if descriptor >= 0 => Ok(own(descriptor)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Makes a performance event run a program.
fn set_program(event: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    for (request, argument) in [(PERF_SET_BPF, program.as_raw_fd()), (PERF_ENABLE, 0)] {
        // SAFETY: both requests take a number.
        #[expect(unsafe_code)]
        let result = unsafe { libc::ioctl(event.as_raw_fd(), request, argument) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
