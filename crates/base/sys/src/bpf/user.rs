//! Attachment of programs to instructions of files with code, and to timers.

use super::{ATTACH_USER_INSTRUCTIONS, Attribute, Command, Link, PerfEvent, ProbeUnit, Program};
use super::{bpf, own};
use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;

/// Type of the performance events that the kernel counts itself.
const PERF_SOFTWARE: u32 = 1;
/// Software event that counts nanoseconds of a processor.
const PERF_CPU_CLOCK: u64 = 0;
/// Flag of a performance event: not counted while the processor is idle.
const PERF_EXCLUDE_IDLE: u64 = 1 << 7;
/// Flag of an attachment to many instructions: the program runs when the functions that begin at
/// them return.
const MULTI_RETURN: u32 = 1;

/// Instruction of a file with code at which the kernel places a breakpoint (uprobe). It acts in all
/// processes that have mapped the file, now or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserInstruction {
    /// Offset in the file.
    pub offset: u64,
    /// Offset in the file of a 2-byte counter, which the kernel increments in each process while
    /// the program is attached; 0 for none.
    pub counter: u64,
    /// Number that the program can get by `bpf_get_attach_cookie`. Only for many instructions.
    pub cookie: u64,
}

impl Program {
    /// Attaches a program that was loaded for many instructions. With `is_return`, the program runs
    /// when the functions that begin at the instructions return. The error is `InvalidInput` on
    /// kernels before Linux 6.6.
    pub fn attach_to_user_instructions(
        &self,
        file: &CStr,
        instructions: &[UserInstruction],
        is_return: bool,
    ) -> io::Result<Link> {
        let column = |field: fn(&UserInstruction) -> u64| -> Vec<u64> {
            instructions.iter().map(field).collect()
        };
        let offsets = column(|instruction| instruction.offset);
        let counters = column(|instruction| instruction.counter);
        let cookies = column(|instruction| instruction.cookie);
        let count = u32::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut attribute = Attribute::new()
            .descriptor(0, self.descriptor.as_fd())
            .u32(8, ATTACH_USER_INSTRUCTIONS)
            .address(16, file)
            .address(24, &*offsets)
            .address(40, &*cookies)
            .u32(48, count)
            .u32(52, if is_return { MULTI_RETURN } else { 0 });
        if counters.iter().any(|counter| *counter != 0) {
            attribute = attribute.address(32, &*counters);
        }
        bpf(Command::LinkCreate, &mut attribute).map(|descriptor| self.link(own(descriptor)))
    }

    /// Attaches a program that was loaded for an instruction of a file. With `is_return`, the
    /// program runs when the function that begins at the instruction returns. The error is
    /// `Unsupported` if the kernel was built without such probes.
    pub fn attach_to_user_instruction(
        &self,
        file: &CStr,
        instruction: UserInstruction,
        is_return: bool,
    ) -> io::Result<Link> {
        let unit = ProbeUnit::find("uprobe")?;
        let mut config = if is_return { unit.return_bit } else { 0 };
        if instruction.counter != 0 {
            let shift = unit.first_bit("ref_ctr_offset")?;
            let counter = instruction.counter << shift;
            // The field has 32 bits.
            if counter >> shift != instruction.counter {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            config |= counter;
        }
        let name = file.as_ptr().expose_provenance() as u64;
        let place = (name, instruction.offset);
        self.attach_to_event(&PerfEvent { kind: unit.kind, config, place, ..PerfEvent::default() })
    }

    /// Attaches a program that was loaded for a timer. The program runs on a processor after each
    /// `period_ns` nanoseconds in which the processor was not idle. Several attachments are
    /// permitted.
    pub fn attach_to_timer(&self, processor: u32, period_ns: u64) -> io::Result<Link> {
        let processor = i32::try_from(processor).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.attach_to_event(&PerfEvent {
            kind: PERF_SOFTWARE,
            config: PERF_CPU_CLOCK,
            period: period_ns,
            sample: 0,
            flags: PERF_EXCLUDE_IDLE,
            processor,
            ..PerfEvent::default()
        })
    }
}
