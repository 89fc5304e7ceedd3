//! Events of programs and machines that have died: `blkkin crash extract` finds them in core files
//! and in copies of shared memory.

mod support;

use blkkin_sys::testing::{GuestFiles, Random, guest_kernel, guest_obstacle};
use blkkin_trace::{Level, event};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::node::{
    Node, Running, check_distinct, eventually, figure, is_root, numbers, read, say,
};
use support::{is_installed, skip, text};

/// Number of events that a crashing program records.
const EVENTS: u64 = 5000;

/// Acts as a traced program; see [`numbers`].
#[test]
#[ignore = "a program of other tests"]
fn program() {
    numbers();
}

/// Acts as a program that records events and then dies by a signal.
#[test]
#[ignore = "a program of other tests"]
fn crashing() {
    for number in 0..EVENTS {
        event!(Level::Info, "test:number", n = number);
    }
    say("recorded");
    nix::sys::signal::raise(nix::sys::signal::Signal::SIGSEGV).unwrap();
}

/// Makes and starts a session whose rings keep the events.
fn start_flight(node: &Node) {
    let output = node.directory.path().join("flight");
    let output = output.to_str().unwrap();
    node.run(&["session", "create", "flight", "--snapshot", "-o", output]);
    node.run(&["event", "enable", "-s", "flight", "test:*"]);
    node.run(&["session", "start", "flight"]);
}

/// Extracts all events; returns what the command tells as JSON.
#[track_caller]
fn extract(node: &Node, images: &[&Path], output: &Path) -> Value {
    let mut command = node.command(&["crash", "extract", "--json", "-o"]);
    let done = command.arg(output).args(images).output().unwrap();
    assert!(matches!(done.status.code(), Some(0 | 3)), "{done:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Returns the numbers of the events that babeltrace2 reads.
#[track_caller]
fn read_by_babeltrace(output: &Path) -> Vec<u64> {
    let done = Command::new("babeltrace2").arg(output).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let number = |line: &str| line.rsplit_once("n = ")?.1.trim_end_matches(" }").parse().ok();
    text(&done.stdout).lines().filter_map(number).collect()
}

/// A program dies by SIGSEGV after its agent was killed. Its core file has all events.
#[test]
fn a_core_file_has_all_events() {
    if !is_installed("gdb") {
        return skip("a_core_file_has_all_events", "gdb is missing");
    }
    let node = Node::new();
    let agent = node.agent();
    start_flight(&node);
    let core = node.directory.path().join("core");
    let program = node.test_program(&[], "crashing");
    let mut debugger = Command::new("gdb");
    debugger.args(["-nx", "-batch", "-ex", "set startup-with-shell off", "-ex", "run", "-ex"]);
    debugger.arg(format!("gcore {}", core.display())).args(["-ex", "kill", "--args"]);
    debugger.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        value.map(|value| debugger.env(name, value));
    }
    let done = debugger.current_dir(node.directory.path()).stdin(Stdio::null()).output().unwrap();
    assert!(text(&done.stdout).contains("SIGSEGV") && core.is_file(), "{done:?}");
    agent.kill();
    let output = node.directory.path().join("found");
    let report = extract(&node, &[&core], &output);
    let trace = &report["traces"][0];
    assert_eq!(
        (&trace["session"], &trace["problem"]),
        (&"flight".into(), &Value::Null),
        "{report}"
    );
    assert_eq!(trace["events"], EVENTS, "{report}");
    let (found, lost) = read(&output);
    assert_eq!((found, lost), ((0..EVENTS).collect(), 0));
    if is_installed("babeltrace2") {
        assert_eq!(read_by_babeltrace(&output), (0..EVENTS).collect::<Vec<u64>>());
    }
}

/// Program and agent are killed by SIGKILL. A copy of the shared memory has all events, and with
/// `--unread` those that the trace lacks.
#[test]
fn copies_of_shared_memory_have_all_events() {
    if !is_root() {
        return skip("copies_of_shared_memory_have_all_events", "not the user root");
    }
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let mut program = node.program(10, 2000);
    // The trace's directory is made before its first packet is written.
    eventually("the agent writes", || {
        let has_trace = !support::node::traces_below(&node.output()).is_empty();
        (has_trace && !read(&node.output()).0.is_empty()).then_some(())
    });
    agent.kill();
    let tried = program.count();
    eventually("more events", || (program.count() > tried + 1000).then_some(()));
    let memory = node.directory.path().join("memory");
    fs::create_dir(&memory).unwrap();
    // The program stands still while its memory is copied.
    let id = nix::unistd::Pid::from_raw(program.id() as i32);
    let least = program.count();
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let maps = Path::new("/proc").join(program.id().to_string()).join("map_files");
    let entries = fs::read_dir(maps).unwrap();
    let mut copied = BTreeSet::new();
    for entry in entries.flatten() {
        let Ok(name) = fs::read_link(entry.path()) else { continue };
        if name.to_string_lossy().contains("blkkin-") {
            // The same file is mapped in several parts.
            let number = fs::metadata(entry.path()).unwrap().ino();
            if copied.insert(number) {
                fs::copy(entry.path(), memory.join(number.to_string())).unwrap();
            }
        }
    }
    program.running.kill();
    assert_eq!(copied.len(), 2, "rings and catalog");
    let (rest, all) = (node.directory.path().join("rest"), node.directory.path().join("all"));
    let report = extract(&node, &[&memory], &all);
    assert_eq!(report["traces"][0]["problem"], Value::Null, "{report}");
    let done =
        node.command(&["crash", "extract", "--unread", "-o"]).args([&rest, &memory]).output();
    let done = done.unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let (written, _) = read(&node.output());
    let (unread, _) = read(&rest);
    assert!(!written.is_empty() && !unread.is_empty());
    let mut together = [written, unread].concat();
    together.sort_unstable();
    let count = together.len() as u64;
    assert!(count >= least, "{count} of {least}");
    assert_eq!(together, (0..count).collect::<Vec<u64>>(), "each event once");
}

/// Other files than images are refused with the reason.
#[test]
fn other_files_are_refused_with_a_reason() {
    let node = Node::new();
    let refused = |bytes: &[u8]| {
        let path = node.directory.path().join("file");
        fs::write(&path, bytes).unwrap();
        let done = node.command(&["crash", "extract"]).arg(path).output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        text(&done.stderr)
    };
    assert!(refused(&fs::read("/proc/self/exe").unwrap()).contains("no core file"));
    assert!(refused(&[&b"KDUMP   \x06"[..], &[0; 4096]].concat()).contains("another size"));
    let mut elf = [0; 64];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    elf[16..20].copy_from_slice(&[4, 0, 62, 0]);
    assert!(refused(&elf).contains("damaged"));
    let path = node.directory.path().join("zeros");
    fs::write(&path, [0; 100_000]).unwrap();
    let done = node.command(&["crash", "extract"]).arg(path).output().unwrap();
    assert_eq!(done.status.code(), Some(3));
    assert!(text(&done.stderr).contains("no rings"), "{done:?}");
}

/// Number of events that the program in the guest records.
const GUEST_EVENTS: u64 = 200_000;
/// Size of the guest's memory, in MiB.
const GUEST_MEMORY: u64 = 1024;
/// Size of a page in bytes.
const PAGE: usize = 4096;

/// Acts as a program in a guest that records events, and still runs when the kernel panics.
#[test]
#[ignore = "a program of other tests"]
fn in_guest() {
    for number in 0..GUEST_EVENTS {
        event!(Level::Info, "test:number", n = number);
    }
    say("recorded");
    fs::write("/proc/sysrq-trigger", "c").unwrap();
}

/// Script of the guest's first process. The size of the rings exceeds what one page table maps.
const INIT: &str = "#!/bin/sh
export PATH=/bin:/usr/bin HOME=/scratch TMPDIR=/scratch
export BLKKIN_SOCKET=/scratch/agent.sock BLKKIN_WAIT=60000
mkdir -p /proc /sys /scratch /dev
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev; mount -t tmpfs t /scratch
blkkin agent &
until blkkin session list; do sleep 0.1; done
blkkin session create flight --snapshot -o /scratch/flight
blkkin channel create c -s flight --overwrite --subbuf-size 65536 --num-subbuf 128
blkkin event enable -s flight -c c 'test:*'
blkkin session start flight
/tests in_guest --exact --ignored --nocapture --test-threads=1
echo the program has ended
";

/// A guest whose kernel has panicked: dumps of its memory, and the memory itself.
struct CrashedGuest {
    dump: PathBuf,
    /// In the format `kdump-compressed`.
    compressed: PathBuf,
    memory: PathBuf,
}

/// Runs a guest until its kernel panics, and dumps its memory.
fn crash_guest(kernel: &Path, directory: &Path) -> CrashedGuest {
    let (dump, memory) = (directory.join("vmcore"), directory.join("memory"));
    let compressed = directory.join("vmcore.kdump");
    let (archive, console) = (directory.join("image.cpio"), directory.join("console"));
    let monitor = directory.join("monitor");
    let mut files = GuestFiles::default();
    files.add(Path::new("/init"), INIT.as_bytes().to_vec());
    let mut add = |from: &Path, to: &str| files.add_program(from, Path::new(to)).unwrap();
    let stripped = |name: &str, from: &Path| {
        let to = directory.join(name);
        let done = Command::new("strip").arg("-o").args([&to, from]).status();
        if done.is_ok_and(|status| status.success()) { to } else { from.to_owned() }
    };
    add(&stripped("tests", &std::env::current_exe().unwrap()), "/tests");
    add(&stripped("blkkin", Path::new(env!("CARGO_BIN_EXE_blkkin"))), "/bin/blkkin");
    for tool in ["sh", "mount", "mkdir", "sleep"] {
        let path = std::env::var_os("PATH").unwrap();
        let mut path = std::env::split_paths(&path).map(|folder| folder.join(tool));
        add(&path.find(|path| path.is_file()).unwrap(), &format!("/bin/{tool}"));
    }
    fs::write(&archive, files.archive(&["/proc", "/sys", "/scratch"])).unwrap();
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-nodefaults"]);
    qemu.args(["-display", "none", "-no-reboot", "-m", &format!("{GUEST_MEMORY}M")]);
    let backend = format!("memory-backend-file,id=ram,size={GUEST_MEMORY}M,share=on,mem-path=");
    qemu.args(["-machine", "memory-backend=ram", "-object"]);
    qemu.arg(format!("{backend}{}", memory.display()));
    qemu.arg("-serial").arg(format!("file:{}", console.display()));
    qemu.arg("-monitor").arg(format!("unix:{},server,nowait", monitor.display()));
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(&archive);
    qemu.args(["-append", "console=ttyS0 panic=0 no_timer_check"]);
    let mut guest = Running(qemu.stdin(Stdio::null()).spawn().unwrap());
    let begin = Instant::now();
    loop {
        let told = text(&fs::read(&console).unwrap_or_default());
        if told.contains("end Kernel panic") {
            assert!(told.contains("recorded") && told.contains("sysrq"), "{told}");
            break;
        }
        let has_ended = guest.0.try_wait().unwrap().is_some() || told.contains("program has ended");
        assert!(!has_ended && begin.elapsed() < Duration::from_secs(300), "{told}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut monitor = UnixStream::connect(monitor).unwrap();
    let (elf, kdump) = (dump.display(), compressed.display());
    write!(monitor, "stop\ndump-guest-memory {elf}\ndump-guest-memory -z {kdump}\nquit\n").unwrap();
    let mut answer = String::new();
    let _ = monitor.read_to_string(&mut answer);
    guest.0.wait().unwrap();
    assert!(dump.is_file() && compressed.is_file(), "{answer}");
    CrashedGuest { dump, compressed, memory }
}

/// A machine panics. Dumps of its memory have each event, and so has its raw memory. With
/// 1,000 random pages zeroed, each event is there that was not in one of them.
#[test]
fn the_memory_of_a_panicked_machine_has_all_events() {
    const NAME: &str = "the_memory_of_a_panicked_machine_has_all_events";
    if let Some(obstacle) = guest_obstacle() {
        return skip(NAME, &obstacle);
    }
    let node = Node::new();
    let guest = crash_guest(&guest_kernel().unwrap(), node.directory.path());
    let all: Vec<u64> = (0..GUEST_EVENTS).collect();
    let CrashedGuest { dump, compressed, memory } = &guest;
    for (image, name) in [(dump, "elf"), (compressed, "kdump"), (memory, "raw")] {
        let output = node.directory.path().join(name);
        let report = extract(&node, &[image], &output);
        assert_eq!(report["traces"][0]["events"], GUEST_EVENTS, "{name}: {report}");
        let (found, lost) = read(&output);
        assert!(found == all && lost == 0, "{name}: {} events, {lost} lost: {report}", found.len());
        if is_installed("babeltrace2") {
            assert_eq!(read_by_babeltrace(&output).len() as u64, GUEST_EVENTS);
        }
    }
    let report = extract(&node, &[&guest.memory], &node.directory.path().join("again"));
    let structure = report["structure"].as_array().unwrap();
    let structure: HashSet<u64> = structure.iter().map(|page| page.as_u64().unwrap()).collect();
    let memory = File::options().read(true).write(true).open(&guest.memory).unwrap();
    let mut random = Random::new(std::process::id().into());
    let mut held = BTreeSet::new();
    let mut zeroed = HashSet::new();
    while zeroed.len() < 1000 {
        let at = random.below((GUEST_MEMORY << 20) as usize / PAGE) as u64 * PAGE as u64;
        if structure.contains(&at) || !zeroed.insert(at) {
            continue;
        }
        let mut page = [0; PAGE];
        memory.read_exact_at(&mut page, at).unwrap();
        held.extend(numbers_around(&page));
        memory.write_all_at(&[0; PAGE], at).unwrap();
    }
    let output = node.directory.path().join("torn");
    let report = extract(&node, &[&guest.memory], &output);
    let (found, _) = read(&output);
    check_distinct(&found);
    let found: BTreeSet<u64> = found.into_iter().collect();
    let lost: Vec<u64> = all.iter().copied().filter(|number| !found.contains(number)).collect();
    let unheld: Vec<&u64> = lost.iter().filter(|number| !held.contains(number)).collect();
    assert!(unheld.is_empty(), "{unheld:?} of {} lost: {report}", lost.len());
    assert!(found.len() + lost.len() == all.len(), "there are other events");
    let told = format!("{} of {} events lost with 1000 pages", lost.len(), all.len());
    figure("crash", &told);
}

/// Size of an event of [`in_guest`]: id, time, number.
const EVENT_SIZE: usize = 18;

/// Returns the numbers of all events of which a page may have bytes. Events follow each other, with
/// ascending numbers, while the program is on one processor.
fn numbers_around(page: &[u8; PAGE]) -> Vec<u64> {
    let number = |at: usize| Some(u64::from_le_bytes(*page.get(at..)?.first_chunk()?));
    let mut numbers = Vec::new();
    for at in 0..PAGE - 8 {
        let Some(found) = number(at).filter(|found| *found < GUEST_EVENTS) else { continue };
        let after = number(at + EVENT_SIZE);
        let before = at.checked_sub(EVENT_SIZE).and_then(number);
        if after == Some(found + 1) || before.is_some_and(|before| before.wrapping_add(1) == found)
        {
            numbers.extend(found.saturating_sub(1)..=found + 1);
        }
    }
    numbers
}
