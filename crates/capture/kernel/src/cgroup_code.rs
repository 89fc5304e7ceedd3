//! Programs that choose the processes in control groups: when a process moves from one group to
//! another, and when it starts in another group than its parent's.

use crate::assembler::Register::{R0, R1, R2, R6, R7, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Size};
use crate::btf::Btf;
use crate::cgroup::DEPTH_MAX;
use crate::chosen::ChosenCode;
use crate::error::Error;
use crate::frame::{SCRATCH, offset};

/// Offsets in the kernel's structures that the programs need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CgroupPlaces {
    process_id: i16,
    thread_id: i16,
    /// Groups of the thread, in `struct task_struct`.
    groups: i16,
    /// Group of version 2, in `struct css_set`.
    group: i16,
    node: i16,
    /// Number of the group, in `struct kernfs_node`.
    id: i16,
    /// Parent of the group, in `struct cgroup`, as a `struct cgroup_subsys_state`.
    parent: i16,
    /// Group of a `struct cgroup_subsys_state`.
    of_state: i16,
}

impl CgroupPlaces {
    pub(crate) fn of(btf: &Btf) -> Result<CgroupPlaces, Error> {
        Ok(CgroupPlaces {
            process_id: offset(btf, "task_struct", "tgid")?,
            thread_id: offset(btf, "task_struct", "pid")?,
            groups: offset(btf, "task_struct", "cgroups")?,
            group: offset(btf, "css_set", "dfl_cgrp")?,
            node: offset(btf, "cgroup", "kn")?,
            id: offset(btf, "kernfs_node", "id")?,
            parent: offset(btf, "cgroup", "self.parent")?,
            of_state: offset(btf, "cgroup_subsys_state", "cgroup")?,
        })
    }
}

/// Returns the programs with the names of their raw tracepoints. `cgroups` is the map of the chosen
/// groups' numbers.
pub(crate) fn programs(
    chosen: ChosenCode,
    cgroups: i32,
    places: CgroupPlaces,
) -> [(&'static str, Assembler); 2] {
    let program = |argument: i16| {
        let mut code = Assembler::default();
        code.load(Size::Bits64, R6, Address(R1, 8 * argument));
        choose(&mut code, chosen, cgroups, places);
        code.finish();
        code
    };
    // The child is the second argument, the thread that has moved the third one.
    [("sched_process_fork", program(1)), ("cgroup_attach_task", program(2))]
}

/// Sets or clears the bit of the process whose first thread is in `R6`. Other threads are ignored.
fn choose(code: &mut Assembler, chosen: ChosenCode, cgroups: i32, places: CgroupPlaces) {
    let (is_chosen, is_root, done) = (code.label(), code.label(), code.label());
    code.load(Size::Bits32, R0, Address(R6, places.process_id));
    code.load(Size::Bits32, R1, Address(R6, places.thread_id));
    code.jump_if(If::NotEqual, R0, R1, done);
    code.load(Size::Bits64, R7, Address(R6, places.groups));
    code.load(Size::Bits64, R7, Address(R7, places.group));
    for _ in 0..=DEPTH_MAX {
        code.load(Size::Bits64, R1, Address(R7, places.node));
        code.load(Size::Bits64, R1, Address(R1, places.id));
        code.store(Size::Bits64, SCRATCH, R1);
        code.map(R1, cgroups);
        code.copy(R2, R10);
        code.alu_number(Alu::Add, R2, SCRATCH.1.into());
        code.call(Helper::MapLookup);
        code.jump_if_number(If::NotEqual, R0, 0, is_chosen);
        code.load(Size::Bits64, R7, Address(R7, places.parent));
        code.jump_if_number(If::Equal, R7, 0, is_root);
        code.load(Size::Bits64, R7, Address(R7, places.of_state));
    }
    code.set(is_root);
    code.load(Size::Bits32, R0, Address(R6, places.process_id));
    chosen.leave_cgroup(code);
    code.jump(done);
    code.set(is_chosen);
    code.load(Size::Bits32, R0, Address(R6, places.process_id));
    chosen.enter_cgroup(code);
    code.set(done);
}
