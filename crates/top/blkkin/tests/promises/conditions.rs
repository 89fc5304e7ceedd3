//! Promise L1: a program is not affected by the state of its agent or by a full disk.

use super::*;

/// State of the agent while a program records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Never,
    Running,
    Stopped,
    Dead,
}

const CONDITIONS: [Condition; 4] =
    [Condition::Never, Condition::Running, Condition::Stopped, Condition::Dead];

/// Output, exit status, system calls and time per event of a program that ran under a
/// [`Condition`].
struct RunResult {
    output: String,
    code: Option<i32>,
    /// System calls of the recording thread between its two marks, which are calls that the thread
    /// makes before and after recording.
    calls: Vec<String>,
    nanoseconds: u64,
}

/// Runs the test program `marks` under a condition, with strace if `with_strace` is set.
fn mark_under(condition: Condition, count: u64, with_strace: bool) -> RunResult {
    let node = Node::new();
    let agent = (condition != Condition::Never).then(|| {
        let agent = node.agent();
        node.record_all();
        agent
    });
    let calls = node.directory.path().join("calls");
    let starter = ["strace", "-f", "-qq", "-s", "64", "-o", calls.to_str().unwrap()];
    let starter = if with_strace { &starter[..] } else { &[] };
    let mut command = node.test_program(starter, "marks");
    command
        .env("TEST_COUNT", count.to_string())
        .env("TEST_TIMES", u8::from(!with_strace).to_string());
    if condition == Condition::Never {
        command.env_remove("BLKKIN_WAIT");
    }
    let mut program = Program::start(command);
    if condition != Condition::Never {
        eventually("the program is found", || (!node.applications().is_empty()).then_some(()));
        // The first event is written, and then the agent sleeps.
        eventually("its event is there", || {
            (!traces_below(&node.output()).is_empty()).then_some(())
        });
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut kept = None;
    match (condition, agent) {
        (Condition::Stopped, Some(agent)) => {
            signal(agent.id(), Signal::STOP);
            kept = Some(agent);
        }
        (Condition::Dead, Some(agent)) => agent.kill(),
        (_, agent) => kept = agent,
    }
    drop(program.running.0.stdin.take());
    let output = program.rest();
    let status = program.running.0.wait().unwrap();
    if let Some(agent) = kept {
        signal(agent.id(), Signal::CONT);
    }
    let calls =
        if with_strace { between_marks(&fs::read_to_string(&calls).unwrap()) } else { vec![] };
    let nanoseconds = output.lines().last().and_then(|line| line.parse().ok());
    RunResult { output, code: status.code(), calls, nanoseconds: nanoseconds.unwrap_or(0) }
}

/// Returns the system calls of the recording thread between its two marks, from the log of strace.
fn between_marks(log: &str) -> Vec<String> {
    let parts =
        |line: &str| line.split_once(' ').map(|(id, call)| (id.to_owned(), call.trim().to_owned()));
    let lines: Vec<(String, String)> = log.lines().filter_map(parts).collect();
    let is_mark = |call: &str| call.contains("\"/test-mark\"");
    let (thread, _) = lines.iter().find(|(_, call)| is_mark(call)).expect("a mark").clone();
    let own = lines.into_iter().filter(|(id, _)| *id == thread).map(|(_, call)| call);
    let own: Vec<String> = own.skip_while(|call| !is_mark(call)).collect();
    // strace continues a mark's line later ("resumed") if threads alternate.
    let is_own = |call: &&String| !is_mark(call) && !call.contains("resumed>");
    let end = 1 + own[1..].iter().position(|call| is_mark(call)).expect("a second mark");
    own[1..end].iter().filter(is_own).cloned().collect()
}

#[test]
fn l1_recording_asks_nothing_of_the_kernel() {
    let test = "l1_recording_asks_nothing_of_the_kernel";
    if !has(test, &["strace"]) {
        return;
    }
    // More events than fit into a ring that is not read: they take 45 MB, and a ring has 32 MiB.
    let count = env_number("TEST_EVENTS", 2_500_000);
    let seen: Vec<RunResult> =
        CONDITIONS.iter().map(|condition| mark_under(*condition, count, true)).collect();
    for (condition, seen) in CONDITIONS.iter().zip(&seen) {
        let calls = &seen.calls;
        // The program wakes a sleeping agent, once per sleep.
        let wakes = calls.iter().filter(|call| call.starts_with("write(")).count();
        let looks = calls
            .iter()
            .filter(|call| call.starts_with("fstat(") || call.starts_with("newfstatat("));
        assert_eq!(wakes + looks.count(), calls.len(), "{condition:?}: {calls:?}");
        let most = match condition {
            Condition::Never => 0,
            Condition::Stopped | Condition::Dead => 1,
            // The agent sleeps only after it has found the rings empty.
            Condition::Running => count as usize / 100,
        };
        assert!(wakes <= most, "{condition:?}: {wakes} wakes in {count} events");
        assert_eq!((&seen.output, seen.code), (&format!("worked out: {}\n", sum(count)), Some(7)));
        figure(
            "L1",
            &format!("agent {condition:?}: {count} events, {} calls, {wakes} wakes", calls.len()),
        );
    }
}

fn sum(count: u64) -> u64 {
    (1..=count).map(|number| number * number % 7).sum()
}

/// The cost of an event under each condition is measured and printed. It has no limit, as the
/// machine may be busy.
#[test]
fn l1_what_an_event_costs_is_told() {
    let count = env_number("TEST_TIMED", 20_000);
    let costs = CONDITIONS.map(|condition| {
        let cost = mark_under(condition, count, false).nanoseconds;
        format!("{condition:?} {cost}")
    });
    figure("L1", &format!("ns an event with the agent: {}", costs.join(", ")));
}

/// Small disk for traces, mounted in a mount namespace in which agents are started.
pub(super) struct Disk<'n> {
    node: &'n Node,
    holder: Running,
    pub(super) path: PathBuf,
}

impl Disk<'_> {
    pub(super) fn new<'n>(node: &'n Node, options: &str) -> Disk<'n> {
        let path = node.directory.path().join("disk");
        fs::create_dir(&path).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec"]);
        command.arg(format!(
            "mount -t tmpfs -o {options} small {0}; exec sleep 100000",
            path.display()
        ));
        let disk = Disk { node, holder: Running(command.spawn().unwrap()), path };
        let mounts = format!("/proc/{}/mounts", disk.holder.id());
        let is_there =
            || fs::read_to_string(&mounts).unwrap().contains(disk.path.to_str().unwrap());
        eventually("the disk is there", || is_there().then_some(()));
        disk
    }

    pub(super) fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.holder.id().to_string()]);
        command
    }

    pub(super) fn agent(&self) -> Running {
        let mut command = self.enter();
        command.arg(env!("CARGO_BIN_EXE_blkkin")).arg("agent");
        command.env("BLKKIN_SOCKET", self.node.socket());
        self.node.agent_by(command)
    }

    pub(super) fn output(&self) -> PathBuf {
        self.path.join("trace")
    }

    /// Returns the path of a file on the disk, as accessible to this process.
    pub(super) fn seen(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        PathBuf::from(format!("/proc/{}/root{}", self.holder.id(), path.display()))
    }

    /// Copies the trace, so that it can be read while the original is written.
    fn copied(&self) -> tempfile::TempDir {
        let copy = tempfile::tempdir_in(self.node.directory.path()).unwrap();
        run(Command::new("cp").arg("-r").arg(self.seen("trace")).arg(copy.path()));
        copy
    }

    /// Returns the size of all trace files, in bytes.
    pub(super) fn trace_size(&self) -> u64 {
        let traces = traces_below(&self.seen("trace")).into_iter();
        let files = traces.filter_map(|trace| fs::read_dir(trace).ok()).flatten().flatten();
        files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
    }

    /// Fills the disk until no more can be written, while the program tries at least 400,000 more
    /// events. Rings too small for them fill up as well, and the program counts lost events.
    pub(super) fn fill(&self, program: &mut Program) {
        let full = program.count();
        eventually("much is tried", || {
            let filler = File::options().append(true).create(true).open(self.seen("filler"));
            let mut zeros = Command::new("head");
            zeros.args(["-c", "1G", "/dev/zero"]).stdout(filler.unwrap()).stderr(Stdio::null());
            let _ = zeros.status();
            (program.count() > full + 400_000).then_some(())
        });
        let size = self.trace_size();
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(self.trace_size(), size, "the disk is full");
    }

    /// Frees space; returns the time until the trace grows.
    fn empty(&self) -> Duration {
        let (begun, size) = (Instant::now(), self.trace_size());
        fs::remove_file(self.seen("filler")).unwrap();
        eventually("it goes on", || (self.trace_size() > size).then_some(()));
        assert!(begun.elapsed() < Duration::from_secs(5), "it goes on after {:?}", begun.elapsed());
        begun.elapsed()
    }
}

/// A full disk causes only counted losses, and recording resumes once there is space. This is the
/// part of D4 that concerns L1.
#[test]
fn l1_a_full_disk_is_a_state() {
    if !can("l1_a_full_disk_is_a_state", &["unshare", "mount", "nsenter"]) {
        return;
    }
    let node = Node::new();
    let rounds = env_number("TEST_FULL", 2);
    let disk = Disk::new(&node, &format!("size={}m", 64 + 32 * rounds));
    let _agent = disk.agent();
    node.run(&["session", "create", "s", "-o", disk.output().to_str().unwrap()]);
    // Small rings, as rings of the default size would hold all events recorded while the disk is
    // full.
    node.run(&["channel", "create", "c", "--subbuf-size", "512K", "--num-subbuf", "4"]);
    node.run(&["event", "enable", "test:*"]);
    node.run(&["session", "start", "s"]);
    let mut program = node.program(100, 300);
    eventually("the trace is begun", || (disk.trace_size() > 0).then_some(()));
    let mut longest = Duration::ZERO;
    for _ in 0..rounds {
        disk.fill(&mut program);
        let copy = disk.copied();
        let (numbers, _) = read(copy.path());
        check_distinct(&numbers);
        check_with_babeltrace2(copy.path(), numbers.len());
        assert!(node.run(&["session", "list"]).contains('s'));
        longest = longest.max(disk.empty());
    }
    let tried = program.end();
    node.end_session();
    let copy = disk.copied();
    let lost = check_all(copy.path(), tried);
    assert!(lost > 0);
    check_with_babeltrace2(copy.path(), (tried - lost) as usize);
    figure(
        "L1",
        &format!(
            "disk full {rounds} times: {tried} events, {lost} counted as lost, 0 missing; goes on after {longest:.1?}"
        ),
    );
}

/// On a full disk each event is recorded or counted as lost, even if agents are killed meanwhile
/// and each of them leaves events in rings.
#[test]
fn l1_a_full_disk_and_dead_agents() {
    if !can("l1_a_full_disk_and_dead_agents", &["unshare", "mount", "nsenter"]) {
        return;
    }
    let node = Node::new();
    let disk = Disk::new(&node, "size=96m");
    let mut agent = disk.agent();
    node.record_all_to(&disk.output());
    let mut program = node.program(100, 300);
    eventually("the trace is begun", || (disk.trace_size() > 0).then_some(()));
    for _ in 0..env_number("TEST_FULL", 2) {
        disk.fill(&mut program);
        agent.kill();
        agent = disk.agent();
        eventually("the program is found", || (!node.applications().is_empty()).then_some(()));
    }
    disk.fill(&mut program);
    disk.empty();
    let tried = program.end();
    node.end_session();
    let copy = disk.copied();
    let lost = check_all(copy.path(), tried);
    check_with_babeltrace2(copy.path(), (tried - lost) as usize);
    figure(
        "L1",
        &format!("disk full, agents killed: {tried} events, {lost} counted as lost, 0 missing"),
    );
}

/// No event is lost on a disk that lacks inodes or pages for one of the first files, once the disk
/// is enlarged. `session create` fails if even the session does not fit.
#[test]
fn l1_a_disk_without_room_for_the_next_file() {
    if !can("l1_a_disk_without_room_for_the_next_file", &["unshare", "mount", "nsenter"]) {
        return;
    }
    let inodes = (2..14).map(|count| format!("size=32m,nr_inodes={count}"));
    let pages = (1..10).map(|count| format!("size={},nr_inodes=100", count * 4096));
    let mut refused = 0;
    let limits: Vec<String> = inodes.chain(pages).collect();
    for limit in &limits {
        let node = Node::new();
        let disk = Disk::new(&node, limit);
        let _agent = disk.agent();
        let output = disk.output();
        let create = ["session", "create", "s", "-o", output.to_str().unwrap()];
        let created = node.command(&create).output().unwrap();
        if !created.status.success() {
            assert!(
                String::from_utf8_lossy(&created.stderr).contains("No space left"),
                "{created:?}"
            );
            refused += 1;
            continue;
        }
        node.run(&["event", "enable", "test:*"]);
        node.run(&["session", "start", "s"]);
        let mut program = node.program(10, 1000);
        eventually("something is tried", || (program.count() > 1000).then_some(()));
        let more = disk
            .enter()
            .args(["mount", "-o", "remount,size=32m,nr_inodes=1000"])
            .arg(&disk.path)
            .status();
        assert!(more.unwrap().success());
        let begun = Instant::now();
        let is_going_on = || disk.trace_size() > 20_000;
        eventually(&format!("it goes on, from {limit}"), || is_going_on().then_some(()));
        assert!(begun.elapsed() < Duration::from_secs(5), "{limit}: {:?}", begun.elapsed());
        let tried = program.end();
        node.end_session();
        assert_eq!(check_all(disk.copied().path(), tried), 0, "{limit}");
    }
    figure(
        "L1",
        &format!(
            "{} disks with room for a few files or pages, {refused} for no session: 0 lost",
            limits.len()
        ),
    );
}
