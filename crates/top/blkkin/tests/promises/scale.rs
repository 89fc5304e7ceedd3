//! Promises L5, L6 and L11: many threads and processes, their memory, threads that move between
//! processors, and processors that are switched off and on. Also tests that rings of the default
//! size hold a burst.

use super::*;
use std::os::unix::fs::MetadataExt;

#[test]
fn l5_memory_grows_with_processors_not_threads() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let (threads, each) = (env_number("TEST_THREADS", 1000), 100);
    let mut first = 0;
    let mut held = Vec::new();
    for threads in [1, threads] {
        let mut command = node.test_program(&[], "crowd");
        command.env("TEST_THREADS", threads.to_string()).env("TEST_COUNT", each.to_string());
        command.env("TEST_FIRST", first.to_string());
        let program = Program::start(command);
        held.push(holdings(program.id()));
        first += program.end();
    }
    assert_eq!(held[0], held[1]);
    node.end_session();
    let lost = check_all(&node.output(), first);
    figure(
        "L5",
        &format!(
            "{threads} threads: {first} events, {lost} counted as lost, 0 torn; {} KiB of rings, as with one thread",
            held[1].bytes >> 10
        ),
    );
}

#[test]
fn l5_many_processes_record() {
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let (processes, each) = (env_number("TEST_PROCESSES", 50), 200);
    let mut running = Vec::new();
    for number in 0..processes {
        let mut command = node.test_program(&[], "crowd");
        command.env("TEST_THREADS", "2").env("TEST_COUNT", (each / 2).to_string());
        command.env("TEST_FIRST", (number * (each + 1)).to_string()).env("BLKKIN_WAIT", "60000");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        running.push(Running(command.spawn().unwrap()));
    }
    for program in &mut running {
        assert!(program.0.wait().unwrap().success());
    }
    node.end_session();
    let tried = processes * (each + 1);
    let lost = check_all(&node.output(), tried);
    assert_eq!(traces_below(&node.output()).len() as u64, processes);
    let peak = status_of(agent.id(), "VmHWM");
    figure(
        "L5",
        &format!(
            "{processes} processes: {tried} events, {lost} counted as lost, 0 torn; the agent took {peak}"
        ),
    );
}

/// Returns the allocated bytes of all memory files that a program shares with its agent.
fn shared_bytes(pid: u32) -> u64 {
    let mut files = std::collections::BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let name = fs::read_link(entry.path()).unwrap_or_default();
        if name.to_string_lossy().starts_with("/memfd:blkkin") {
            let file = fs::metadata(entry.path()).unwrap();
            files.insert(file.ino(), file.blocks() * 512);
        }
    }
    assert!(!files.is_empty(), "{pid} shares nothing");
    files.values().sum()
}

/// A program that records one event shares at most 200 KiB of memory with its agent, as each page
/// of a ring's data is allocated on its first write.
#[test]
fn l11_programs_of_one_event_take_little_memory() {
    const EACH_MAX: u64 = 200 << 10;
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let count = env_number("TEST_SMALL", 100);
    let programs: Vec<Program> = (0..count)
        .map(|number| {
            let mut command = node.test_program(&[], "crowd");
            command.env("TEST_THREADS", "0").env("TEST_FIRST", number.to_string());
            Program::start(command)
        })
        .collect();
    assert_eq!(node.applications().len() as u64, count, "all are attached");
    let each: Vec<u64> = programs.iter().map(|program| shared_bytes(program.id())).collect();
    let (all, most) = (each.iter().sum::<u64>(), each.iter().max().unwrap());
    assert!(*most <= EACH_MAX, "{most} bytes of one program");
    let answers = ["status", "event list", "session list"].map(|command| {
        let begun = Instant::now();
        run(&mut node.command(&command.split(' ').collect::<Vec<_>>()));
        begun.elapsed()
    });
    let slowest = answers.iter().max().unwrap();
    let agents = status_of(agent.id(), "VmRSS");
    for program in programs {
        assert_eq!(program.end(), 1);
    }
    node.end_session();
    assert_eq!(read(&node.output()), ((0..count).collect(), 0));
    figure(
        "L11",
        &format!(
            "{count} programs of one event: {} KiB shared, {} KiB in one at most; the agent takes {agents} and \
             answers in {slowest:.1?}",
            all >> 10,
            most >> 10
        ),
    );
}

/// Acts as a tested program: records events of 68 bytes from several threads, each as fast as
/// possible.
#[test]
#[ignore = "a program of other tests"]
fn burst() {
    const THREADS: u64 = 4;
    const EACH: u64 = 100_000;
    let begin = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let begin = &begin;
            scope.spawn(move || {
                begin.wait();
                for number in thread * EACH..(thread + 1) * EACH {
                    let text = "forty-nine bytes, with the NUL that ends a string";
                    event!(Level::Info, "test:burst", n = number, text = text);
                }
            });
        }
    });
    say(format_args!("\nready\n{}", THREADS * EACH));
}

/// A burst of 400,000 events is recorded without loss by default. The events fit into the ring of
/// one processor, so the agent's speed does not matter.
#[test]
fn a_burst_of_400_000_events_is_kept_by_default() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let tried = Program::start(node.test_program(&[], "scale::burst")).end();
    node.end_session();
    assert_eq!(check_all(&node.output(), tried), 0);
}

/// Pins all threads of a process to the CPUs in `processors`, a list such as `0-1`.
fn move_to(pid: u32, processors: &str) {
    let mut command = Command::new("taskset");
    let _ = command.args(["-a", "-p", "-c", processors, &pid.to_string()]).output().unwrap();
}

fn processors() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

#[test]
fn l6_programs_are_moved_between_processors() {
    let test = "l6_programs_are_moved_between_processors";
    if !has(test, &["taskset"]) {
        return;
    }
    if processors() < 2 {
        return skip(test, "there is one processor");
    }
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let program = node.program(200, 100);
    let moves = env_number("TEST_MOVES", 200);
    for turn in 0..moves {
        move_to(program.id(), ["0", "1"][turn as usize % 2]);
    }
    move_to(program.id(), "0-1");
    let group = Group::new("cpuset").filter(|group| {
        group.set("cpuset.mems", 0)
            && group.set("cpuset.cpus", 0)
            && group.set("cgroup.procs", program.id())
    });
    for turn in 0..moves {
        let Some(group) = &group else { break };
        assert!(group.set("cpuset.cpus", ["1", "0", "0-1"][turn as usize % 3]));
        std::thread::sleep(Duration::from_micros(500));
    }
    let tried = program.end();
    node.end_session();
    let lost = check_all(&node.output(), tried);
    let cpuset = if group.is_some() { "and its cpuset changed as often" } else { "no cpuset here" };
    figure(
        "L6",
        &format!("moved {moves} times, {cpuset}: {tried} events, {lost} counted as lost, 0 torn"),
    );
}

/// A processor without its own ring uses the additional ring, which is the last one. A processor
/// has no ring if its number is above those of all processors that were online when the rings were
/// created.
#[test]
fn l6_a_processor_without_a_ring_uses_the_last_one() {
    let test = "l6_a_processor_without_a_ring_uses_the_last_one";
    if !can(test, &["unshare", "mount", "taskset"]) {
        return;
    }
    if processors() < 2 {
        return skip(test, "there is one processor");
    }
    let node = Node::new();
    let online = node.directory.path().join("online");
    fs::write(&online, "0\n").unwrap();
    let _agent = node
        .agent_behind(&format!("mount --bind {} /sys/devices/system/cpu/online", online.display()));
    node.record_all();
    let program = node.program_behind(&["taskset", "-c", "1"], 100, 200);
    std::thread::sleep(Duration::from_millis(100));
    for turn in 0..env_number("TEST_MOVES", 200) {
        move_to(program.id(), ["0", "1"][turn as usize % 2]);
    }
    let tried = program.end();
    node.end_session();
    let lost = check_all(&node.output(), tried);
    let trace = &traces_below(&node.output())[0];
    let size = |ring: u32| fs::metadata(trace.join(format!("channel0_{ring}"))).unwrap().len();
    assert!(size(0) > 0 && size(1) > 0);
    assert!(!trace.join("channel0_2").exists(), "there are two rings");
    figure(
        "L6",
        &format!("a processor without a ring: {tried} events, {lost} counted as lost, 0 torn"),
    );
}

/// No event is torn or uncounted while processors are switched off and on and as many programs as
/// processors record. Switching processors disturbs other users of the machine, so
/// `cargo xtask torture` runs the test in a guest.
#[test]
#[ignore = "turns processors off: `cargo xtask torture` does it in a guest"]
fn l6_processors_are_turned_off_and_on() {
    let test = "l6_processors_are_turned_off_and_on";
    if !can(test, &[]) {
        return;
    }
    let cycles = env_number("TEST_HOTPLUG", 20);
    let switches: Vec<PathBuf> = (1..processors())
        .map(|processor| format!("/sys/devices/system/cpu/cpu{processor}/online").into())
        .filter(|switch: &PathBuf| switch.exists())
        .collect();
    if switches.is_empty() {
        return skip(test, "no processor of this machine can be turned off");
    }
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let programs: Vec<Program> = (0..processors()).map(|_| node.program(100, 300)).collect();
    for cycle in 0..cycles as usize {
        let switch = &switches[cycle % switches.len()];
        for state in ["0", "1"] {
            fs::write(switch, state).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let ids: Vec<u32> = programs.iter().map(Program::id).collect();
    let tried: Vec<u64> = programs.into_iter().map(Program::end).collect();
    node.end_session();
    let traces = traces_below(&node.output());
    let mut lost = 0;
    for (id, tried) in ids.iter().zip(&tried) {
        let is_own = |trace: &&PathBuf| trace.to_string_lossy().contains(&format!("-{id}-"));
        lost += check_all(traces.iter().find(is_own).expect("its trace"), *tried);
    }
    let tried: u64 = tried.iter().sum();
    figure(
        "L6",
        &format!(
            "{cycles} times a processor of {} off and on: {tried} events, {lost} counted as lost, 0 torn",
            switches.len() + 1
        ),
    );
}
