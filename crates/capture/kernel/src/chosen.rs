//! Chosen processes: bits for each process id in a block map, and the names of programs whose
//! processes are chosen at `exec`.
//!
//! One bit says that the process runs a chosen program; each `exec` sets or clears it. Another says
//! that the process is followed, with its descendants. A third one says that it is in a chosen
//! control group; moves between groups set or clear it. A child gets all bits from its parent. If
//! all processes but a few are chosen, the bits say which ones are not.

use crate::assembler::Register::{R0, R1, R2, R3, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Label, Register, Size};
use crate::cgroup::Cgroup;
use crate::error::Error;
use crate::function_point::ProcessScope;
use blkkin_sys::SharedMemory;
use blkkin_sys::bpf::Map;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering::Relaxed;

/// Size of a program's name in the kernel, with its NUL.
pub(crate) const NAME_SIZE: usize = 16;
/// Maximum number of names of chosen programs.
const NAMES_MAX: usize = 1024;
/// Number of process ids. The kernel's limit `pid_max` can be raised up to this number at any time.
const PIDS: usize = 1 << 22;
/// Maximum number of chosen control groups.
const CGROUPS_MAX: usize = 1024;
/// Number of bits of a process.
const BITS: u32 = 4;
/// Number of processes whose bits are in one word.
const IN_WORD: u32 = u64::BITS / BITS;
/// Bit of a process whose program is chosen by name.
const NAMED: u64 = 1;
/// Bit of a process that is followed.
const FOLLOWED: u64 = 2;
/// Bit of a process in a chosen control group.
const IN_CGROUP: u64 = 4;
/// Bits of which one makes a process chosen.
const ANY: u64 = NAMED | FOLLOWED | IN_CGROUP;

/// Name of a program as the kernel keeps it: at most 15 bytes.
pub fn kernel_name(name: &str) -> [u8; NAME_SIZE] {
    let mut bytes = [0; NAME_SIZE];
    let size = name.len().min(NAME_SIZE - 1);
    bytes[..size].copy_from_slice(&name.as_bytes()[..size]);
    bytes
}

/// Processes whose events are recorded. Changes take effect at once.
#[derive(Debug)]
pub struct ChosenProcesses {
    bits: Map,
    memory: SharedMemory,
    names: Map,
    named: BTreeSet<[u8; NAME_SIZE]>,
    /// Numbers of the chosen control groups.
    cgroup_ids: Map,
    cgroups: Vec<Cgroup>,
    /// Set if the bits say which processes are not chosen.
    is_inverted: bool,
}

impl ChosenProcesses {
    /// Makes an empty choice, for all process ids that the kernel may assign.
    pub fn new() -> Result<ChosenProcesses, Error> {
        ChosenProcesses::create().map_err(|error| Error::Map("chosen", error))
    }

    /// Chooses all processes except those with the ids `pids`.
    pub fn all_except(pids: &[u32]) -> Result<ChosenProcesses, Error> {
        let chosen = ChosenProcesses { is_inverted: true, ..ChosenProcesses::new()? };
        pids.iter().for_each(|pid| chosen.set_bit(*pid, FOLLOWED, true));
        Ok(chosen)
    }

    fn create() -> io::Result<ChosenProcesses> {
        let bits = Map::block("blkkin_chosen", PIDS / IN_WORD as usize * 8)?;
        let memory = bits.memory()?;
        let names = Map::hash("blkkin_names", NAME_SIZE, 1, NAMES_MAX)?;
        let named = BTreeSet::new();
        let cgroup_ids = Map::hash("blkkin_cgroups", 8, 1, CGROUPS_MAX)?;
        let (cgroups, is_inverted) = (Vec::new(), false);
        Ok(ChosenProcesses { bits, memory, names, named, cgroup_ids, cgroups, is_inverted })
    }

    /// Chooses all processes, present and future, whose program has one of `names`. Processes that
    /// have another of the names so far are no longer chosen by name; one that has renamed itself
    /// stays chosen until its next `exec`. Returns the ids of present processes that were not
    /// chosen before.
    pub fn set_names(&mut self, names: BTreeSet<[u8; NAME_SIZE]>) -> io::Result<Vec<u32>> {
        if names.len() > NAMES_MAX {
            let message = format!("at most {NAMES_MAX} names of programs can be chosen");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let removed: BTreeSet<_> = self.named.difference(&names).copied().collect();
        for name in &removed {
            self.names.remove(name)?;
        }
        for name in names.difference(&self.named) {
            self.names.insert(name, &[1])?;
        }
        self.named = names;
        // Programs that start meanwhile are chosen in the kernel, by the names above.
        let mut added = Vec::new();
        for pid in processes()? {
            if removed.contains(&name_of(pid)) {
                self.set_bit(pid, NAMED, false);
            }
            // Read after the bit was cleared: the process may have executed another program.
            if self.named.contains(&name_of(pid)) {
                if !self.has(pid) {
                    added.push(pid);
                }
                self.set_bit(pid, NAMED, true);
            }
        }
        Ok(added)
    }

    /// Chooses all processes, present and future, in `cgroups` and the control groups below them,
    /// and no others by their group. Returns the ids of present processes that were not chosen
    /// before.
    pub fn set_cgroups(&mut self, cgroups: Vec<Cgroup>) -> io::Result<Vec<u32>> {
        if cgroups.len() > CGROUPS_MAX {
            let message = format!("at most {CGROUPS_MAX} control groups can be chosen");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if cgroups.is_empty() && self.cgroups.is_empty() {
            return Ok(Vec::new());
        }
        for removed in self.cgroups.iter().filter(|cgroup| !cgroups.contains(cgroup)) {
            self.cgroup_ids.remove(&removed.id.to_ne_bytes())?;
        }
        for added in cgroups.iter().filter(|cgroup| !self.cgroups.contains(cgroup)) {
            self.cgroup_ids.insert(&added.id.to_ne_bytes(), &[1])?;
        }
        self.cgroups = cgroups;
        // Processes that start or move meanwhile are chosen in the kernel, by the numbers above.
        let before = self.processes_in_cgroups();
        let mut added = Vec::new();
        for pid in processes()? {
            let is_in = before.contains(&pid);
            if is_in && !self.has(pid) {
                added.push(pid);
            }
            self.set_bit(pid, IN_CGROUP, is_in);
        }
        // Corrects the bits of processes that have moved since the first list was made.
        let after = self.processes_in_cgroups();
        before.difference(&after).for_each(|pid| self.set_bit(*pid, IN_CGROUP, false));
        after.difference(&before).for_each(|pid| self.set_bit(*pid, IN_CGROUP, true));
        added.retain(|pid| after.contains(pid));
        added.extend(after.difference(&before));
        Ok(added)
    }

    /// Returns the ids of the processes that are in the chosen control groups now.
    pub fn processes_in_cgroups(&self) -> BTreeSet<u32> {
        let mut pids = BTreeSet::new();
        self.cgroups.iter().for_each(|cgroup| cgroup.add_processes(&mut pids));
        pids
    }

    /// Follows a process, with the descendants that it will have.
    pub fn follow(&self, pid: u32) {
        self.set_bit(pid, FOLLOWED, true);
    }

    /// Returns true if the process is chosen now.
    pub fn has(&self, pid: u32) -> bool {
        let word = self.word(pid).map_or(0, |word| self.memory.word(word).load(Relaxed));
        (word >> (BITS * (pid % IN_WORD)) & ANY != 0) != self.is_inverted
    }

    fn set_bit(&self, pid: u32, bit: u64, is_set: bool) {
        let Some(word) = self.word(pid) else { return };
        let bit = bit << (BITS * (pid % IN_WORD));
        // Relaxed: no other data depends on a bit.
        match is_set {
            true => self.memory.word(word).fetch_or(bit, Relaxed),
            false => self.memory.word(word).fetch_and(!bit, Relaxed),
        };
    }

    fn word(&self, pid: u32) -> Option<usize> {
        let word = 8 * (pid / IN_WORD) as usize;
        (word < self.memory.size()).then_some(word)
    }

    /// Returns true if all processes but a few are chosen.
    pub(crate) fn is_all_except(&self) -> bool {
        self.is_inverted
    }

    /// Returns the descriptor of the map with the numbers of the chosen control groups; `None` if
    /// all processes but a few are chosen.
    pub(crate) fn cgroup_ids(&self) -> Option<i32> {
        (!self.is_all_except()).then(|| self.cgroup_ids.as_fd().as_raw_fd())
    }

    /// Returns a generator of code that reads and changes the choice.
    pub(crate) fn code(&self) -> ChosenCode {
        ChosenCode {
            block: self.bits.as_fd().as_raw_fd(),
            words: self.memory.size() / 8,
            names: self.names.as_fd().as_raw_fd(),
            is_inverted: self.is_inverted,
        }
    }
}

/// Returns the name of a process; empty if it has ended.
fn name_of(pid: u32) -> [u8; NAME_SIZE] {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    kernel_name(String::from_utf8_lossy(&name).trim_end_matches('\n'))
}

/// Returns the ids of all processes.
pub(crate) fn processes() -> io::Result<Vec<u32>> {
    let names = fs::read_dir("/proc")?.filter_map(Result::ok).map(|entry| entry.file_name());
    Ok(names.filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// Generator of code that reads and changes the choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChosenCode {
    block: i32,
    words: usize,
    names: i32,
    is_inverted: bool,
}

impl ChosenCode {
    /// Sets `R2` to the address of the word that contains a process's bits. `pid` is a register
    /// that holds the process id; it is replaced by the number of the process's first bit in that
    /// word. Jumps to `unknown` for ids that have no bits.
    fn find(&self, code: &mut Assembler, pid: Register, unknown: Label) {
        code.copy(R1, pid);
        code.alu_number(Alu::ShiftRight, R1, IN_WORD.trailing_zeros() as i32);
        code.jump_if_number(If::GreaterOrEqual, R1, self.words as i32, unknown);
        code.alu_number(Alu::ShiftLeft, R1, 3);
        code.block(R2, self.block, 0);
        code.alu(Alu::Add, R2, R1);
        code.alu_number(Alu::And, pid, IN_WORD as i32 - 1);
        code.alu_number(Alu::ShiftLeft, pid, BITS.trailing_zeros() as i32);
    }

    /// Loads a process's bits into `R2`; `pid` is a register that holds its id, and is lost. Jumps
    /// to `unchosen` if the process is not chosen. `R1` is lost.
    pub(crate) fn load(&self, code: &mut Assembler, pid: Register, unchosen: Label) {
        self.find(code, pid, unchosen);
        code.load(Size::Bits64, R2, Address(R2, 0));
        code.alu(Alu::ShiftRight, R2, pid);
        code.alu_number(Alu::And, R2, ANY as i32);
        let condition = if self.is_inverted { If::NotEqual } else { If::Equal };
        code.jump_if_number(condition, R2, 0, unchosen);
    }

    /// Stores the current process and thread in a slot of the frame. Jumps to `unchosen` if the
    /// process is not chosen. `R0` to `R2` are lost, and also `R3` to `R5` on kernels that do
    /// not inline the helper.
    pub(crate) fn current(&self, code: &mut Assembler, slot: Address, unchosen: Label) {
        code.call(Helper::GetCurrentPidTgid);
        code.store(Size::Bits64, slot, R0);
        code.alu_number(Alu::ShiftRight, R0, 32);
        self.load(code, R0, unchosen);
    }

    /// Stores the current process and thread in a slot of the frame. If there is a choice, jumps to
    /// `unchosen` if the process is not chosen. `R0` to `R5` are lost.
    pub(crate) fn within(
        chosen: Option<ChosenCode>,
        code: &mut Assembler,
        slot: Address,
        unchosen: Label,
    ) {
        match chosen {
            Some(chosen) => chosen.current(code, slot, unchosen),
            None => {
                code.call(Helper::GetCurrentPidTgid);
                code.store(Size::Bits64, slot, R0);
            }
        }
    }

    /// Returns the choice for a scope: `None` for all processes.
    pub(crate) fn for_scope(self, scope: ProcessScope) -> Option<ChosenCode> {
        (scope == ProcessScope::Chosen).then_some(self)
    }

    /// Sets the bits in `R3` for the process in `R0`. `R0` to `R3` are lost.
    pub(crate) fn add(&self, code: &mut Assembler) {
        let unknown = code.label();
        self.find(code, R0, unknown);
        code.alu(Alu::ShiftLeft, R3, R0);
        code.atomic_or(Address(R2, 0), R3);
        code.set(unknown);
    }

    /// Clears the bits in `bits` for the process in `R0`. `R0` to `R3` are lost.
    fn clear(&self, code: &mut Assembler, bits: u64) {
        let unknown = code.label();
        self.find(code, R0, unknown);
        code.number(R3, bits);
        code.alu(Alu::ShiftLeft, R3, R0);
        code.alu_number(Alu::Xor, R3, -1);
        code.atomic_and(Address(R2, 0), R3);
        code.set(unknown);
    }

    /// Clears all bits of the process in `R0`. `R0` to `R3` are lost.
    pub(crate) fn forget(&self, code: &mut Assembler) {
        self.clear(code, ANY);
    }

    /// Sets the bit for control groups of the process in `R0`. `R0` to `R3` are lost.
    pub(crate) fn enter_cgroup(&self, code: &mut Assembler) {
        code.number(R3, IN_CGROUP);
        self.add(code);
    }

    /// Clears the bit for control groups of the process in `R0`. `R0` to `R3` are lost.
    pub(crate) fn leave_cgroup(&self, code: &mut Assembler) {
        self.clear(code, IN_CGROUP);
    }

    /// Sets or clears the bit for the name of the current process, whose id is in the upper half of
    /// `process`. `name` is the offset of a free slot of [`NAME_SIZE`] bytes in the frame. `R0` to
    /// `R5` are lost.
    pub(crate) fn choose_by_name(&self, code: &mut Assembler, process: Address, name: i16) {
        let (is_named, done) = (code.label(), code.label());
        code.copy(R1, R10);
        code.alu_number(Alu::Add, R1, name.into());
        code.number(R2, NAME_SIZE as u64);
        code.call(Helper::GetCurrentComm);
        code.map(R1, self.names);
        code.copy(R2, R10);
        code.alu_number(Alu::Add, R2, name.into());
        code.call(Helper::MapLookup);
        code.jump_if_number(If::NotEqual, R0, 0, is_named);
        code.load(Size::Bits64, R0, process);
        code.alu_number(Alu::ShiftRight, R0, 32);
        self.clear(code, NAMED);
        code.jump(done);
        code.set(is_named);
        code.load(Size::Bits64, R0, process);
        code.alu_number(Alu::ShiftRight, R0, 32);
        code.number(R3, NAMED);
        self.add(code);
        code.set(done);
    }
}
