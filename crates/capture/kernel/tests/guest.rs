//! Probes on functions, recorded by another kernel than this machine's: a virtual machine starts a
//! kernel of Debian with this executable as its first program. That program attaches the probes,
//! does what they record, and prints the events, which [`probes_record_in_a_guest`] checks.
//!
//! Pointers are printed as `pointer`, because the kernel chooses them.

mod events;
#[path = "guest/inside.rs"]
mod inside;
#[path = "guest/machine.rs"]
mod machine;

use blkkin_sys::testing::{guest_kernel, guest_obstacle, skip};

/// Number of files that the guest removes.
const FILES: usize = 10;

/// Returns the events that the guest prints, in the order of the probes.
fn expected_events(release: &str) -> Vec<String> {
    // The function has got another first argument with Linux 6.3.
    let first = if version(release) < (6, 3) { "mnt_userns" } else { "idmap" };
    let arguments = format!("{first}=pointer dir=pointer dentry=pointer delegated_inode=pointer");
    let removals = [
        "syscall:unlink pathname=/file-{} ret=0 duration=some".to_owned(),
        "kprobe:do_unlinkat dfd=-100 name=pointer".to_owned(),
        format!("kprobe:vfs_unlink {arguments}"),
        "kretprobe:vfs_unlink ret=0".to_owned(),
        format!("fentry:vfs_unlink {arguments}"),
        format!("fexit:vfs_unlink {arguments} ret=0"),
    ];
    let for_each_file =
        |event: String| (0..FILES).map(move |file| event.replace("{}", &file.to_string()));
    let mut events: Vec<String> = removals.into_iter().flat_map(for_each_file).collect();
    // A directory is not removed by `unlink`, and a missing file not at all.
    let refusals = [
        "syscall:unlink pathname=/proc ret=-21 duration=some",
        "kprobe:do_unlinkat dfd=-100 name=pointer",
        &format!("kprobe:vfs_unlink {arguments}"),
        "kretprobe:vfs_unlink ret=-21",
        &format!("fentry:vfs_unlink {arguments}"),
        &format!("fexit:vfs_unlink {arguments} ret=-21"),
        "syscall:unlink pathname=/missing ret=-2 duration=some",
        "kprobe:do_unlinkat dfd=-100 name=pointer",
    ];
    events.extend(refusals.map(str::to_owned));
    let renames = [
        "task:task_rename pid=1 oldcomm=init newcomm=renamed oom_score_adj=0",
        "raw:task_rename task=pointer comm=renamed",
        "fentry:__set_task_comm tsk=pointer buf=renamed exec=0",
        "kprobe:__set_task_comm tsk=pointer buf=renamed exec=0",
    ];
    events.extend(renames.map(str::to_owned));
    events
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse().ok());
    (numbers.next().expect("a version"), numbers.next().unwrap_or(0))
}

#[test]
fn probes_record_in_a_guest() {
    let test = "probes_record_in_a_guest";
    if let Some(obstacle) = guest_obstacle() {
        return skip(test, &obstacle);
    }
    let kernel = guest_kernel().expect("a kernel");
    let output = machine::run(&kernel, "inside::records_and_prints", inside::MARK);
    let lines = |kind: &str| {
        let prefix = format!("{}{kind} ", inside::MARK);
        let lines = output.lines().filter_map(|line| line.trim_end().split_once(&*prefix));
        lines.map(|(_, line)| line.to_owned()).collect::<Vec<String>>()
    };
    let release = lines("release");
    assert_eq!(release.len(), 1, "the guest did not start:\n{output}");
    let mut expected = expected_events(&release[0]);
    let mut found = lines("event");
    // The probes of a kind are in order of time; the kinds are not.
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "{output}");
    assert_eq!(lines("lost"), ["0 missed 0"], "{output}");
    let filtered = "fentry:__set_task_comm second, fexit:vfs_unlink -21, \
                    kprobe:__set_task_comm first, kretprobe:vfs_unlink 0";
    assert_eq!(lines("filtered"), [filtered], "{output}");
    assert_eq!(lines("redacted"), ["true [7]"], "{output}");
    assert_eq!(lines("recursive"), ["recorded true missed true"], "{output}");
    let refusals = [
        "kprobe:no_such_function NoFunction",
        "kprobe:vfs_unlink+1 NotProbed",
        "kprobe:exc_int3 NotProbed",
        "kretprobe:no_such_function NoFunction",
        "fentry:no_such_function NoTypedFunction",
        "fexit:_printk Arguments",
        "fentry:sched_clock NotTraceable",
        "raw:no_such_tracepoint NoTracepoint",
    ];
    assert_eq!(lines("refused"), refusals, "{output}");
    let untyped = lines("untyped");
    // The compilers of other kernels may divide other functions.
    if version(&release[0]) == (6, 1) || untyped != ["none"] {
        assert_eq!(untyped, ["arg0 arg1 arg2 arg3 arg4 arg5"], "{output}");
    }
    assert_eq!(lines("calls"), ["recorded"], "{output}");
    assert_eq!(lines("waits"), ["slept"], "{output}");
    assert_eq!(lines("inner"), ["1 dentry=true"], "{output}");
    let matches = lines("matches");
    assert_eq!(matches[..2], ["fentry:vfs_unlink", "kretprobe:vfs_link ret=0"], "{output}");
    assert!(matches[2].starts_with("TooManyMatches"), "{output}");
    // After the tracer was killed.
    assert_eq!(lines("attached"), ["programs 14 kprobes 4 functions 3"], "{output}");
    assert_eq!(lines("killed"), ["programs 0 kprobes 0 functions 0"], "{output}");
    assert_eq!(lines("end"), ["reached"], "{output}");
}
