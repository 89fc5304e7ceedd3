//! Promises L2, L3 and L7: recorded events survive killed agents and programs, even if they are
//! only in memory.

use super::*;

#[test]
fn l2_restarts_of_the_agent_leave_nothing_behind() {
    let node = Node::new();
    let mut agent = node.agent();
    node.record_all();
    let program = node.program(20, 1000);
    eventually("it has rings", || (holdings(program.id()).mappings > 1).then_some(()));
    let before = holdings(program.id());
    let restarts = env_number("TEST_RESTARTS", 5);
    let mut longest = Duration::ZERO;
    for cycle in 0..restarts {
        agent.kill();
        std::thread::sleep(Duration::from_millis(130 * (cycle % 8)));
        agent = node.agent();
        let begun = Instant::now();
        eventually("it is found", || (!node.applications().is_empty()).then_some(()));
        let took = begun.elapsed();
        assert!(took <= Duration::from_secs(1), "cycle {cycle}: found after {took:?}");
        longest = longest.max(took);
        eventually("what it had for the agent before is given back", || {
            (holdings(program.id()) == before).then_some(())
        });
    }
    let tried = program.end();
    node.end_session();
    let lost = check_all(&node.output(), tried);
    figure(
        "L2",
        &format!(
            "{restarts} restarts: found again after {longest:.1?} at most, {} descriptors and {} mappings as \
         before, {tried} events, {lost} counted as lost",
            before.descriptors, before.mappings
        ),
    );
}

/// Checks that babeltrace2 does not warn of missing packets or events.
#[track_caller]
fn check_nothing_is_missing(output: &Path) {
    if is_installed("babeltrace2") {
        let read = Command::new("babeltrace2").arg(output).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&read.stderr), "");
    }
}

/// A snapshot contains the packets left by killed agents and all later packets, as one recording
/// without gaps.
#[test]
fn l2_snapshots_go_on_after_restarts() {
    let node = Node::new();
    let mut agent = node.agent();
    let output = node.output();
    node.run(&["session", "create", "s", "--snapshot", "-o", output.to_str().unwrap()]);
    // Sub-buffers are so small that each agent leaves many packets.
    let small = ["--overwrite", "--subbuf-size", "4K", "--num-subbuf", "512"];
    node.run(&[&["channel", "create", "c"][..], &small].concat());
    node.run(&["event", "enable", "test:*"]);
    node.run(&["session", "start", "s"]);
    let mut program = node.program(20, 1000);
    let mut found = 0;
    for restart in 0..3 {
        agent.kill();
        agent = node.agent();
        eventually("it is found", || (!node.applications().is_empty()).then_some(()));
        std::thread::sleep(Duration::from_millis(200));
        let tried = program.count();
        let snapshot = output.join(format!("snapshot{restart}"));
        node.run(&["session", "snapshot", "s", "-o", snapshot.to_str().unwrap()]);
        let (numbers, lost) = read(&snapshot);
        check_distinct(&numbers);
        // All events from the first on, as the rings are large enough.
        let last = *numbers.last().unwrap();
        assert_eq!((numbers.len() as u64, lost), (last + 1, 0));
        assert!(last + 1 >= tried);
        check_with_babeltrace2(&snapshot, numbers.len());
        check_nothing_is_missing(&snapshot);
        found = numbers.len();
    }
    program.end();
    figure("L2", &format!("3 restarts: {found} events in a snapshot, in order, none missing"));
}

/// A full disk causes only counted losses, and recording resumes once there is space. The test
/// covers the effect of a full disk (promise D4) on a program (promise L1).
struct ProgressProgram {
    program: Program,
    notes: SharedMemory,
    _file: File,
}

impl ProgressProgram {
    fn start(node: &Node, count: Option<u64>) -> ProgressProgram {
        let (file, notes) = SharedMemory::create(c"notes", 4096).unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let limit = ["sh", "-c", "ulimit -c $(ulimit -Hc) && exec \"$0\" \"$@\""];
        let limit = if count.is_some() { &limit[..] } else { &[] };
        let mut command = node.test_program(limit, "notes");
        command.env("TEST_MEMORY", path);
        if let Some(count) = count {
            command.env("TEST_COUNT", count.to_string());
        }
        ProgressProgram { program: Program::start(command), notes, _file: file }
    }

    fn done(&self) -> u64 {
        self.notes.word(DONE).load(Acquire)
    }

    fn begun(&self) -> u64 {
        self.notes.word(BEGUN).load(Acquire)
    }

    /// Kills the program with a signal; returns its exit status.
    fn die(&mut self, cause: Signal) -> ExitStatus {
        signal(self.program.id(), cause);
        let mut again = Instant::now() + Duration::from_millis(20);
        eventually("it dies", || {
            // Rust's handler of SIGSEGV returns and expects the fault to repeat, so the signal is
            // sent again.
            if cause == Signal::SEGV && Instant::now() > again {
                signal(self.program.id(), cause);
                again += Duration::from_millis(20);
            }
            self.program.running.0.try_wait().unwrap()
        })
    }
}

#[test]
fn l3_programs_die_at_any_moment() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let deaths = env_number("TEST_DEATHS", 12);
    let mut random = env_number("TEST_SEED", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let (mut events, mut discarded, mut longest) = (0, 0, Duration::ZERO);
    for death in 0..deaths {
        let mut noted = ProgressProgram::start(&node, None);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 30_000));
        let pid = noted.program.id();
        noted.die([Signal::KILL, Signal::SEGV, Signal::ABORT][death as usize % 3]);
        let begun = Instant::now();
        node.run(&["session", "stop", "s"]);
        longest = longest.max(begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(5));
        node.run(&["session", "start", "s"]);
        let traces = traces_below(&node.output());
        let is_own = |trace: &&PathBuf| trace.to_string_lossy().contains(&format!("-{pid}-"));
        let (done, begun) = (noted.done(), noted.begun());
        let Some(trace) = traces.iter().find(is_own) else {
            assert_eq!(done, 0, "nothing of it is there");
            continue;
        };
        let (numbers, lost) = read(trace);
        check_distinct(&numbers);
        let found = numbers.len() as u64 + lost;
        assert!(done <= found && found <= begun, "{found} are there or lost, of {done} to {begun}");
        assert!(begun <= done + 1);
        events += numbers.len();
        discarded += lost;
    }
    check_with_babeltrace2(&node.output(), events);
    figure(
        "L3",
        &format!(
            "{deaths} programs killed: {events} events, {discarded} counted as lost, 0 others missing; stop took \
         {longest:.1?} at most"
        ),
    );
}

/// Packet found in an image of memory: its header, and the numbers of its events.
type Image = (packet::Header, Vec<u64>);

/// Returns all packets of a trace in an image of memory. Their events must be of the single type
/// that these programs record: id, time, number. Packets begin at page boundaries; elsewhere a
/// header may be a copy.
fn packets_in(image: &[u8], uuid: [u8; 16]) -> Vec<Image> {
    const EVENT_SIZE: usize = 18;
    const PAGE_SIZE: usize = 4096;
    /// More cycles or nanoseconds than these programs run.
    const FUTURE: u64 = 1 << 42;
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(bytes) = image.get(at..at + packet::SIZE) {
        let header = (bytes[..4] == [0xc1, 0x1f, 0xfc, 0xc1])
            .then(|| packet::Header::from_bytes(bytes.try_into().unwrap()))
            .flatten()
            .filter(|header| header.uuid == uuid);
        let start = at;
        at += PAGE_SIZE;
        let Some(header) = header else { continue };
        // The header of an unfinished packet does not contain its size: the packet ends where times
        // decrease or are far in the future. The writer copies whole words, so bytes after the last
        // event may be anything.
        let latest = header.first_time.saturating_add(FUTURE);
        let is_left = header.content_size > packet::SIZE as u64;
        let size = if is_left { header.content_size } else { header.packet_size } as usize;
        let Some(whole) = image.get(start + packet::SIZE..start + size) else { continue };
        let (mut numbers, mut last) = (Vec::new(), header.first_time);
        for event in whole.chunks_exact(EVENT_SIZE) {
            let word = |at: usize| u64::from_le_bytes(event[at..at + 8].try_into().unwrap());
            if word(2) < last || word(2) > latest {
                assert!(!is_left, "wrong times in a packet that was left");
                break;
            }
            last = word(2);
            numbers.push(word(10));
        }
        found.push((header, numbers));
    }
    found
}

/// Returns the content of a stopped process's shared memory.
fn memory_of(pid: u32) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut image = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw-s ")) {
        let place = place_of(line);
        let mut part = vec![0; (place.end - place.start) as usize];
        // Device mappings cannot be read.
        if memory.read_exact_at(&mut part, place.start).is_ok() {
            image.extend(part);
        }
    }
    image
}

/// Checks that the packets of a memory image contain all `count` events; returns the number of
/// packets.
#[track_caller]
fn check_image(image: &[u8], uuid: [u8; 16], count: u64) -> usize {
    let packets = packets_in(image, uuid);
    let mut numbers: Vec<u64> = packets.iter().flat_map(|(_, numbers)| numbers.clone()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let strange = numbers.iter().zip(0..).find(|(found, expected)| **found != *expected);
    assert_eq!((strange, numbers.len() as u64), (None, count), "{:?}", packets.len());
    packets.len()
}

#[test]
fn l7_the_last_records_are_in_a_core_file() {
    let test = "l7_the_last_records_are_in_a_core_file";
    if !has(test, &["sh"]) {
        return;
    }
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    // Fewer events than a ring holds, so that none is overwritten, and more than a sub-buffer
    // holds.
    let count = 40_000;
    let mut noted = ProgressProgram::start(&node, Some(count));
    eventually("all is recorded", || (noted.done() == count).then_some(()));
    let traces = eventually("the trace is there", || {
        let traces = traces_below(&node.output());
        (!traces.is_empty()).then_some(traces)
    });
    let metadata = fs::read(traces[0].join("metadata")).unwrap();
    let uuid = blkkin_ctf::metadata::parse(metadata).unwrap().trace.uuid.expect("a UUID").0;
    agent.kill();
    let pid = noted.program.id();
    signal(pid, Signal::STOP);
    let packets = check_image(&memory_of(pid), uuid, count);
    assert!(packets > 1);
    figure("L7", &format!("{count} events in {packets} packets, found in memory alone"));
    signal(pid, Signal::CONT);
    // The kernel writes a core file into the working directory only with the default pattern.
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.starts_with('|') || pattern.contains('/') {
        return skip(test, "core files go elsewhere here");
    }
    let status = noted.die(Signal::SEGV);
    if !status.core_dumped() {
        return skip(test, "core files are not permitted here");
    }
    let files = fs::read_dir(node.directory.path()).unwrap().flatten();
    let core = files.map(|file| file.path()).find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("core"))
    });
    let packets = check_image(&fs::read(core.expect("a core file")).unwrap(), uuid, count);
    figure("L7", &format!("{count} events in {packets} packets, found in a core file alone"));
}
