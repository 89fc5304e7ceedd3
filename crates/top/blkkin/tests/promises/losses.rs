//! Promise D10: commands that end or show a recording report losses with their causes, and end with
//! an exit status other than 0. A list of all sessions, and `status` if only destroyed sessions
//! lost events, end with 0.

use super::conditions::Disk;
use super::*;
use blkkin_client::{Client, Timeouts};
use std::process::Output;

/// Phrases with which a command would deny a loss.
const DENIALS: [&str; 2] = ["none lost", "nothing was lost"];

/// Returns standard output and standard error of a command.
fn words_of(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// Checks that a command reports a loss with the reason `why`, and ends with `status`. Returns its
/// output.
#[track_caller]
fn check_told(mut command: Command, why: &str, status: i32) -> String {
    let output = command.output().unwrap();
    let words = words_of(&output);
    assert!(words.contains(why), "{command:?} does not say `{why}`: {words}");
    assert!(!DENIALS.iter().any(|denial| words.contains(denial)), "{command:?}: {words}");
    assert_eq!(output.status.code(), Some(status), "{command:?}: {words}");
    words
}

/// Returns the agent's status as JSON. Ignores the exit status, which tells of losses.
fn status(node: &Node) -> serde_json::Value {
    let output = node.command(&["status", "--json", "--interval", "0"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Returns the losses for a cause, as in `status`: events, packets, and losses of unknown size.
fn lost_by(node: &Node, cause: &str) -> [u64; 3] {
    let status = status(node);
    let all = status["lost"]["causes"].as_array().expect("a list").iter();
    let own = all.filter(|loss| loss["cause"] == cause);
    own.fold([0; 3], |sums, loss| {
        let counts = ["events", "packets", "uncounted"].map(|key| loss[key].as_u64().unwrap());
        std::array::from_fn(|at| sums[at] + counts[at])
    })
}

/// Starts a session whose rings hold a few hundred events.
fn record_into_small_rings(node: &Node) {
    node.run(&["session", "create", "s", "-o", node.output().to_str().unwrap()]);
    let small = ["--subbuf-size", "4096", "--num-subbuf", "2"];
    node.run(&[&["channel", "create", "c"][..], &small].concat());
    node.run(&["event", "enable", "test:*"]);
    node.run(&["session", "start", "s"]);
}

/// Runs a program that records more events than its rings hold.
fn lose_events(node: &Node) {
    let mut program = node.program(100_000, 0);
    program.count();
    program.end();
    eventually("the loss is counted", || (lost_by(node, "ring-full")[0] > 0).then_some(()));
}

const FULL: &str = "recorded faster than the agent reads";

#[test]
fn d10_full_rings_are_told_by_each_command() {
    let node = Node::new();
    let _agent = node.agent();
    record_into_small_rings(&node);
    lose_events(&node);
    check_told(node.command(&["status", "--interval", "0"]), FULL, 3);
    check_told(node.command(&["session", "list", "s"]), FULL, 3);
    check_told(node.command(&["session", "list", "s", "--json"]), "ring-full", 3);
    // A list of all sessions succeeds in spite of one session's losses, for scripts.
    check_told(node.command(&["session", "list"]), " events", 0);
    check_told(node.command(&["session", "stop", "s"]), FULL, 3);
    check_told(node.command(&["session", "destroy", "s", "--json"]), "\"cause\":\"ring-full\"", 3);
    // The session no longer exists, so its losses do not affect the exit status.
    let words = check_told(node.command(&["status", "--interval", "0"]), FULL, 0);
    assert!(words.contains("destroyed session s lost"), "{words}");
    figure("D10", "full rings: status, list, stop and destroy tell, 0 denials");
}

/// Returns the number of sets of rings that a process has mapped.
fn ring_sets_of(pid: u32) -> usize {
    blkkin_sys::testing::mapped_files(pid, "memfd:blkkin-rings").unwrap_or(0)
}

/// The loss counts match the trace, also after a restart of the agent.
#[test]
fn d10_counts_outlive_the_agent() {
    let node = Node::new();
    let mut agent = node.agent();
    record_into_small_rings(&node);
    lose_events(&node);
    let running = node.program(1000, 500);
    eventually("both are recorded", || (traces_below(&node.output()).len() == 2).then_some(()));
    let [before, ..] = lost_by(&node, "ring-full");
    for _ in 0..2 {
        agent.kill();
        agent = node.agent();
        eventually("it is found", || (!node.applications().is_empty()).then_some(()));
        // The program's earlier rings are read, and it unmaps them.
        let is_released = || ring_sets_of(running.id()) == 1;
        eventually("one set of rings is left", || is_released().then_some(()));
    }
    let causes = ["ring-full", "agent-away"];
    let lost = |node: &Node| causes.map(|cause| lost_by(node, cause)[0]).iter().sum::<u64>();
    eventually("the counts are there", || (lost(&node) >= before).then_some(()));
    running.end();
    check_told(node.command(&["session", "stop", "s"]), FULL, 3);
    let in_all = lost(&node);
    let (_, in_traces) = read(&node.output());
    assert_eq!(in_all, in_traces, "{}", status(&node));
    let agent_was = agent.id();
    drop(agent);
    assert!(agent_was > 0 && before > 0);
    figure("D10", &format!("an agent killed twice: {in_all} events lost, before and after"));
}

#[test]
fn d10_a_full_disk_is_told_by_each_command() {
    if !can("d10_a_full_disk_is_told_by_each_command", &["unshare", "mount", "nsenter"]) {
        return;
    }
    let node = Node::new();
    let disk = Disk::new(&node, "size=24m");
    let _agent = disk.agent();
    node.record_all_to(&disk.output());
    let mut program = node.program(100, 300);
    eventually("the trace is begun", || (disk.trace_size() > 0).then_some(()));
    disk.fill(&mut program);
    // Rings hold many events before the first is lost.
    eventually("the loss is counted", || {
        program.count();
        (lost_by(&node, "output")[0] > 0).then_some(())
    });
    let full = "could not be written: No space left";
    check_told(node.command(&["status", "--interval", "0"]), full, 3);
    check_told(node.command(&["session", "list", "s"]), full, 3);
    check_told(node.command(&["session", "stop", "s"]), full, 1);
    let tried = program.end();
    check_told(node.command(&["session", "destroy", "s"]), full, 3);
    check_told(node.command(&["status", "--interval", "0"]), full, 0);
    figure("D10", &format!("a full disk, {tried} events tried: each command tells, 0 denials"));
}

/// `record` reports losses on a disk that becomes full, and an error on a disk that is full from
/// the start.
#[test]
fn d10_record_tells_of_a_full_disk() {
    if !can("d10_record_tells_of_a_full_disk", &["unshare", "mount", "nsenter"]) {
        return;
    }
    let node = Node::new();
    let disk = Disk::new(&node, "size=3m");
    let record = |name: &str| {
        let mut command = disk.enter();
        command.arg(env!("CARGO_BIN_EXE_blkkin"));
        command.args(["record", "--json", "-o"]).arg(disk.path.join(name)).arg("--");
        let own = node.test_program(&[], "marks");
        command.arg(own.get_program()).args(own.get_args());
        let envs = own.get_envs().filter_map(|(key, value)| Some((key, value?)));
        command.envs(envs).env("TEST_COUNT", "300000").env_remove("BLKKIN_SOCKET");
        // The command's own exit status has precedence.
        command.stdin(Stdio::null());
        command
    };
    let told = check_told(record("becomes"), "\"losses\":[{", 7);
    let json = told.lines().find(|line| line.starts_with('{')).expect("a summary");
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let losses = json["losses"].as_array().unwrap();
    // Either the reserve for other users is reached, or the next packet does not fit.
    let is_disks = |cause: &serde_json::Value| cause == "size" || cause == "output";
    assert!(losses.iter().any(|loss| is_disks(&loss["cause"])), "{json}");
    File::create(disk.seen("filler")).unwrap();
    let mut zeros = Command::new("head");
    let filler = File::options().append(true).open(disk.seen("filler")).unwrap();
    let _ = zeros.args(["-c", "1G", "/dev/zero"]).stdout(filler).stderr(Stdio::null()).status();
    let words = record("full").output().map(|output| words_of(&output)).unwrap();
    assert!(words.contains("No space left"), "{words}");
    assert!(!words.contains("has BlkKin's library in it"), "{words}");
    figure("D10", "record on a full disk, and on one that becomes full: both tell");
}

/// `record` ends with status 3 if its command succeeded and events were lost.
#[test]
fn d10_record_tells_of_full_rings() {
    let node = Node::new();
    let mut command = node.command(&["record", "--subbuf-size", "4096", "--num-subbuf", "2"]);
    command.arg("-o").arg(node.output()).arg("--");
    let own = node.test_program(&[], "crowd");
    command.arg(own.get_program()).args(own.get_args()).stdin(Stdio::null());
    let envs = own.get_envs().filter_map(|(key, value)| Some((key, value?)));
    command.envs(envs).env("TEST_COUNT", "20000").env_remove("BLKKIN_SOCKET");
    check_told(command, FULL, 3);
    figure("D10", "record with small rings: exit status 3");
}

#[test]
fn d10_types_that_nobody_describes_are_told() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let mut command = node.test_program(&[], "greedy");
    command.env("TEST_COUNT", "17000");
    let greedy = Program::start(command);
    eventually("types are refused", || (lost_by(&node, "event-types")[2] == 616).then_some(()));
    let types = "all events of 616 event types";
    check_told(node.command(&["status", "--interval", "0"]), types, 3);
    greedy.end();
    check_told(node.command(&["session", "stop", "s"]), types, 3);
    check_told(node.command(&["session", "destroy", "s"]), types, 3);
    figure("D10", "616 event types too many: status, stop and destroy tell");
}

/// Returns true if all commands that read a trace warn that events may be missing, and false if
/// none does.
#[track_caller]
fn is_warned_of(node: &Node, trace: &Path) -> bool {
    let warned = ["view", "info", "spans"].map(|command| {
        let output = node.command(&[command]).arg(trace).output().unwrap();
        // Status 1 is possible, as the end of a trace that is being written may be missing.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        words_of(&output).contains("may miss events: its program or its agent ended")
    });
    assert!(warned.iter().all(|one| *one == warned[0]), "{warned:?}");
    warned[0]
}

/// The trace of a killed `record` shows that events may be missing, and the next `record` removes
/// the directory of the killed agent.
#[test]
fn d10_a_record_that_is_killed_leaves_a_mark() {
    let node = Node::new();
    let runtime = node.directory.path().join("runtime");
    fs::create_dir(&runtime).unwrap();
    let record = |name: &str, test: &str| {
        let mut command = node.command(&["record", "-o"]);
        command.arg(node.output().join(name)).arg("--");
        let own = node.test_program(&[], test);
        command.arg(own.get_program()).args(own.get_args());
        let envs = own.get_envs().filter_map(|(key, value)| Some((key, value?)));
        command.envs(envs).env_remove("BLKKIN_SOCKET").env("XDG_RUNTIME_DIR", &runtime);
        command
    };
    let mut command = record("killed", "program");
    let program = Program::start({
        command.stdin(Stdio::piped());
        command
    });
    let trace = node.output().join("killed");
    eventually("it is recorded", || (!traces_below(&trace).is_empty()).then_some(()));
    assert!(!is_warned_of(&node, &traces_below(&trace)[0]), "it is being recorded");
    program.running.kill();
    eventually("a mark is left", || is_warned_of(&node, &traces_below(&trace)[0]).then_some(()));
    let directories = || fs::read_dir(&runtime).unwrap().count();
    assert_eq!(directories(), 1);
    // Only an older directory is removed, as a new one may belong to a starting agent.
    std::thread::sleep(Duration::from_millis(2500));
    let output = record("next", "marks").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(!is_warned_of(&node, &traces_below(&node.output().join("next"))[0]));
    assert_eq!(directories(), 0);
    figure("D10", "record killed: a mark in the trace, and nothing left behind after the next one");
}

/// The loss of the events in a program's rings is reported if the program and its agent both end.
#[test]
fn d10_a_program_and_its_agent_that_both_die_are_told() {
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let program = node.program(100, 1000);
    let other = node.program(100, 1000);
    eventually("both are recorded", || (traces_below(&node.output()).len() == 2).then_some(()));
    // One program ends while its agent runs.
    other.end();
    eventually("that is seen", || (node.applications().len() == 1).then_some(()));
    agent.kill();
    drop(program);
    let _agent = node.agent();
    let both = "the program and its agent ended at the same time";
    let words = check_told(node.command(&["status", "--interval", "0"]), both, 3);
    assert!(words.contains("unknown number of events of 1 program:"), "{words}");
    check_told(node.command(&["session", "list", "s"]), both, 3);
    check_told(node.command(&["session", "stop", "s"]), both, 3);
    check_told(node.command(&["session", "destroy", "s"]), both, 3);
    // Only the killed program's trace causes the warning.
    let traces = traces_below(&node.output());
    let warned: Vec<bool> = traces.iter().map(|trace| is_warned_of(&node, trace)).collect();
    assert_eq!(warned.iter().filter(|is_warned| **is_warned).count(), 1, "{warned:?}");
    if is_installed("babeltrace2") {
        run(Command::new("babeltrace2").arg(node.output()));
    }
    figure("D10", "program and agent killed: status, list, stop and destroy tell");
}

/// A program that has no agent for some seconds releases its rings, and the loss is reported.
#[test]
fn d10_an_agent_that_is_away_too_long_is_told() {
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let program = node.program(10, 1000);
    eventually("it is recorded", || (!traces_below(&node.output()).is_empty()).then_some(()));
    agent.kill();
    std::thread::sleep(Duration::from_secs(9));
    let _agent = node.agent();
    eventually("it is found", || (!node.applications().is_empty()).then_some(()));
    let away = "no agent read the rings";
    eventually("it is counted", || (lost_by(&node, "agent-away")[2] == 1).then_some(()));
    check_told(node.command(&["status", "--interval", "0"]), away, 3);
    program.end();
    check_told(node.command(&["session", "stop", "s"]), away, 3);
    check_told(node.command(&["session", "destroy", "s"]), away, 3);
    figure("D10", "an agent away for 9 s: status, stop and destroy tell");
}

/// A session writes no more than its size limit, which holds after a restart of the agent, too.
#[test]
fn d10_a_bound_on_disk_is_told() {
    let node = Node::new();
    let mut agent = node.agent();
    let output = node.output();
    let create = ["session", "create", "s", "--size-max", "200K", "-o", output.to_str().unwrap()];
    node.run(&create);
    node.run(&["event", "enable", "test:*"]);
    node.run(&["session", "start", "s"]);
    let mut program = node.program(1000, 100);
    eventually("much is tried", || (program.count() > 1_000_000).then_some(()));
    let bound = "the session may write 204800 bytes at most (--size-max)";
    eventually("the loss is counted", || (lost_by(&node, "size")[0] > 0).then_some(()));
    let size = || -> u64 {
        let traces = traces_below(&output).into_iter();
        let files = traces.filter_map(|trace| fs::read_dir(trace).ok()).flatten().flatten();
        let streams =
            files.filter(|file| file.file_name().to_str().unwrap().starts_with("channel"));
        streams.map(|file| file.metadata().unwrap().len()).sum()
    };
    assert!(size() <= 200 << 10, "{}", size());
    agent.kill();
    agent = node.agent();
    eventually("it is found", || (!node.applications().is_empty()).then_some(()));
    program.count();
    check_told(node.command(&["status", "--interval", "0"]), "events", 3);
    let tried = program.end();
    check_told(node.command(&["session", "destroy", "s"]), bound, 3);
    assert!(size() <= 200 << 10, "{}", size());
    drop(agent);
    figure("D10", &format!("a session of 200 KiB, {tried} events tried: {} bytes written", size()));
}

/// A session leaves 5 % of the file system's space free for other data.
#[test]
fn d10_space_is_left_for_others() {
    if !can("d10_space_is_left_for_others", &["unshare", "mount", "nsenter"]) {
        return;
    }
    let node = Node::new();
    let disk = Disk::new(&node, "size=20m");
    let _agent = disk.agent();
    node.record_all_to(&disk.output());
    let mut program = node.program(1000, 100);
    eventually("it is full", || {
        program.count();
        (lost_by(&node, "size")[0] > 0).then_some(())
    });
    // 5 % of 20 MiB are 1 MiB.
    assert!(disk.trace_size() <= 19 << 20, "{}", disk.trace_size());
    program.end();
    let kept = "is left free for others";
    check_told(node.command(&["session", "destroy", "s"]), kept, 3);
    figure("D10", &format!("a disk of 20 MiB: {} bytes written", disk.trace_size()));
}

/// `record` continues until the end of a daemon that its command has started.
#[test]
fn d10_record_follows_daemons() {
    let node = Node::new();
    let own = node.test_program(&[], "marks");
    let words: Vec<String> = std::iter::once(own.get_program())
        .chain(own.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    // The shell ends immediately.
    let line = format!("(sleep 0.3; exec setsid {} > /dev/null) < /dev/null &", words.join(" "));
    let record = |name: &str, options: &[&str]| {
        let mut command = node.command(&["record", "--json", "-o"]);
        command.arg(node.output().join(name)).args(options).args(["--", "sh", "-c", &line]);
        let envs = own.get_envs().filter_map(|(key, value)| Some((key, value?)));
        command.envs(envs).env("TEST_COUNT", "300").env_remove("BLKKIN_SOCKET");
        command.output().unwrap()
    };
    let events = |output: &Output| -> u64 {
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        json["events"].as_u64().unwrap()
    };
    let output = record("follows", &[]);
    assert_eq!(events(&output), 301, "{}", words_of(&output));
    let output = record("not", &["--no-wait"]);
    assert!(output.stdout.is_empty() || events(&output) < 301, "{}", words_of(&output));
    figure("D10", "record follows a daemon: 301 of 301 events");
}

/// The number of recorded events in `status` equals the number of events in the trace. A small
/// difference is accepted, because a thread that is interrupted right after an event has not
/// counted it yet.
#[test]
fn d10_recorded_events_are_counted() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let mut program = node.program(100, 1000);
    let counts = |status: &serde_json::Value| -> Vec<u64> {
        let programs = status["programs"].as_array().unwrap().iter();
        programs.map(|program| program["events_recorded"].as_u64().expect("a count")).collect()
    };
    let sum = |node: &Node| counts(&status(node)).iter().sum::<u64>();
    let begun = program.count();
    eventually("they are counted", || (sum(&node) > begun).then_some(()));
    let output = node.command(&["status", "--json", "--interval", "0.2"]).output().unwrap();
    let rated: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(rated["programs"][0]["rates"]["events_recorded"].as_f64().unwrap() > 0.0, "{rated}");
    let tried = program.end();
    eventually("it has ended", || node.applications().is_empty().then_some(()));
    let counted = sum(&node);
    node.run(&["session", "stop", "s"]);
    let (numbers, lost) = read(&node.output());
    assert_eq!(numbers.len() as u64 + lost, tried);
    // A count is missing if a thread was interrupted right after an event.
    let missing = (numbers.len() as u64).abs_diff(counted);
    assert!(missing <= 1 + tried / 10_000, "{counted} counted of {}", numbers.len());
    figure("D10", &format!("{counted} events counted, {} in the trace", numbers.len()));
}

/// Returns a number of sub-buffers whose total size, at 256 MiB each, exceeds a user's quota on
/// this machine.
fn too_many_subbuffers() -> String {
    let info = fs::read_to_string("/proc/meminfo").unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    (kib / 4 / (256 << 10) + 4).next_power_of_two().to_string()
}

/// Each command reports that the quota refused the rings of a program, as they were too large.
#[test]
fn d10_what_a_quota_refuses_is_told_by_each_command() {
    let node = Node::new();
    let _agent = node.agent();
    node.run(&["session", "create", "s", "-o", node.output().to_str().unwrap()]);
    let count = too_many_subbuffers();
    let large = ["--overwrite", "--subbuf-size", "256M", "--num-subbuf", &count];
    node.run(&[&["channel", "create", "c"][..], &large].concat());
    node.run(&["event", "enable", "test:*"]);
    node.run(&["session", "start", "s"]);
    let mut program = node.program(100, 1000);
    eventually("it is refused", || (lost_by(&node, "quota") == [0, 0, 1]).then_some(()));
    let all = "an unknown number of events of 1 program";
    let quota = "a quota was used up: user";
    for arguments in [&["status", "--interval", "0"][..], &["session", "list", "s"]] {
        let words = check_told(node.command(arguments), quota, 3);
        assert!(words.contains(all) && words.contains("of rings"), "{words}");
    }
    check_told(node.command(&["session", "list", "s", "--json"]), "\"quota\"", 3);
    check_told(node.command(&["session", "list"]), all, 0);
    check_told(node.command(&["session", "stop", "s"]), quota, 3);
    assert!(program.count() > 0);
    let tried = program.end();
    check_told(node.command(&["session", "destroy", "s"]), quota, 3);
    check_told(node.command(&["status", "--interval", "0"]), quota, 0);
    assert!(trace_directories(&node.output()).is_empty());
    figure(
        "D10",
        &format!("a quota of rings, {tried} events tried: each command tells, 0 denials"),
    );
}

/// Programs that cannot connect because the agent lacks descriptors are reported as a loss.
#[test]
fn d10_programs_that_are_not_let_in_are_told() {
    let node = Node::new();
    let mut command = Command::new("sh");
    command.args(["-ec", "ulimit -n 64; exec \"$0\" agent"]);
    command.arg(env!("CARGO_BIN_EXE_blkkin")).env("BLKKIN_SOCKET", node.socket());
    let _agent = node.agent_by(command);
    node.record_all();
    // A connection takes one descriptor of the agent. The agent closes connections that do not
    // introduce themselves within some seconds, so these are commands.
    let mut held = Vec::new();
    let mut connect = |_| {
        match Client::connect(&[node.socket()], "test", "0", Timeouts::default()) {
            Ok(command) => held.push(command),
            Err(blkkin_client::Error::Refused { .. }) => return true,
            // A busy machine may answer too late.
            Err(_) => {}
        }
        false
    };
    assert!((0..100).any(&mut connect), "the agent has descriptors for all");
    let mut refused = node.test_program(&[], "program");
    refused.env("BLKKIN_WAIT", "500").env("TEST_PAUSE_US", "1000");
    let refused = Program::start(refused);
    // The program tries to connect again, and then descriptors must be free for the commands below.
    // On a busy machine it starts late.
    std::thread::sleep(Duration::from_secs(5));
    drop(held);
    eventually("it is counted", || {
        let output = node.command(&["status", "--json", "--interval", "0"]).output().unwrap();
        (output.status.code() == Some(3)).then_some(())
    });
    let quota = "a quota was used up";
    check_told(node.command(&["status", "--interval", "0"]), quota, 3);
    check_told(node.command(&["session", "list", "s"]), quota, 3);
    refused.end();
    check_told(node.command(&["session", "stop", "s"]), quota, 3);
    check_told(node.command(&["session", "destroy", "s"]), quota, 3);
    figure("D10", "a program that was not let in: status, list, stop and destroy tell");
}

/// `record` reports a loss if its agent has too few descriptors for all programs.
#[test]
fn d10_record_tells_of_a_quota() {
    let node = Node::new();
    let own = node.test_program(&[], "program");
    let mut command = Command::new("sh");
    command.args(["-ec", "ulimit -n 64; exec \"$0\" \"$@\""]);
    command.arg(env!("CARGO_BIN_EXE_blkkin")).args(["record", "-o"]).arg(node.output()).arg("--");
    let all = "for one in 1 2 3 4 5 6 7 8; do sleep 3 | \"$@\" & done; wait";
    command.args(["sh", "-c", all, "sh"]);
    command.arg(own.get_program()).args(own.get_args()).stdin(Stdio::null());
    let envs = own.get_envs().filter_map(|(key, value)| Some((key, value?)));
    command.envs(envs).env_remove("BLKKIN_SOCKET").env("BLKKIN_WAIT", "500");
    let words = check_told(command, "a quota was used up", 3);
    assert!(words.contains("LOST: an unknown number of events of "), "{words}");
    let recorded = traces_below(&node.output()).len();
    assert!((1..8).contains(&recorded), "{recorded}");
    figure(
        "D10",
        &format!("record of 8 programs, {recorded} of which a quota allows: exit status 3"),
    );
}

/// A stopped program that has not reconnected by the end of its session is reported as a loss.
#[test]
fn d10_a_program_that_is_not_back_is_told() {
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let program = node.program(100, 1000);
    eventually("it is recorded", || (!traces_below(&node.output()).is_empty()).then_some(()));
    signal(program.id(), Signal::STOP);
    agent.kill();
    let _agent = node.agent();
    let away = "unknown number of events of 1 program: no agent read the rings";
    check_told(node.command(&["session", "stop", "s"]), away, 3);
    check_told(node.command(&["session", "destroy", "s"]), away, 3);
    check_told(node.command(&["status", "--interval", "0"]), away, 0);
    let trace = &traces_below(&node.output())[0];
    assert!(is_warned_of(&node, trace));
    signal(program.id(), Signal::CONT);
    program.end();
    figure("D10", "a session that is ended before its program is back: stop and destroy tell");
}

/// The loss is reported if a program fills its rings before the next agent starts.
#[test]
fn d10_full_rings_without_an_agent_are_told() {
    let node = Node::new();
    let agent = node.agent();
    record_into_small_rings(&node);
    let mut program = node.program(10, 1000);
    eventually("it is recorded", || (!traces_below(&node.output()).is_empty()).then_some(()));
    agent.kill();
    let begun = program.count();
    eventually("much is tried", || (program.count() > begun + 2000).then_some(()));
    let _agent = node.agent();
    let away = "no agent read the rings, which were full";
    eventually("it is counted", || (lost_by(&node, "agent-away")[0] > 0).then_some(()));
    check_told(node.command(&["status", "--interval", "0"]), away, 3);
    check_told(node.command(&["session", "list", "s"]), away, 3);
    let tried = program.end();
    check_told(node.command(&["session", "stop", "s"]), away, 3);
    check_told(node.command(&["session", "destroy", "s"]), away, 3);
    let lost = check_all(&node.output(), tried);
    figure("D10", &format!("rings full without an agent: {lost} of {tried} events lost, and told"));
}

/// The loss is reported if a program ends by itself while there is no agent.
#[test]
fn d10_a_program_that_ends_without_an_agent_is_told() {
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let program = node.program(100, 1000);
    eventually("it is recorded", || (!traces_below(&node.output()).is_empty()).then_some(()));
    agent.kill();
    program.end();
    let _agent = node.agent();
    let both = "the program and its agent ended at the same time";
    for arguments in [
        &["status", "--interval", "0"][..],
        &["session", "list", "s"],
        &["session", "stop", "s"],
        &["session", "destroy", "s"],
    ] {
        check_told(node.command(arguments), both, 3);
    }
    assert!(is_warned_of(&node, &traces_below(&node.output())[0]));
    figure("D10", "a program ends while there is no agent: each command tells");
}

/// Acts as a program that overwrites its own rings with invalid data.
#[test]
#[ignore = "a program of other tests"]
fn spoils() {
    record(0);
    say("\nready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let memory = File::options().write(true).open("/proc/self/mem").unwrap();
    for line in maps.lines().filter(|line| line.contains("memfd:blkkin") && line.contains("rw-s")) {
        let place = place_of(line);
        let nonsense = vec![0xa5; 8192.min(place.end - place.start) as usize];
        let _ = std::os::unix::fs::FileExt::write_all_at(&memory, &nonsense, place.start + 4096);
    }
    say(1);
}

#[test]
fn d10_damaged_rings_are_told() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let mut program = Program::start(node.test_program(&[], "losses::spoils"));
    eventually("it is recorded", || (!traces_below(&node.output()).is_empty()).then_some(()));
    assert_eq!(program.count(), 1);
    let damaged = "the program wrote invalid data into its ring";
    eventually("it is counted", || (lost_by(&node, "damaged")[2] > 0).then_some(()));
    for arguments in [
        &["status", "--interval", "0"][..],
        &["session", "list", "s"],
        &["session", "stop", "s"],
        &["session", "destroy", "s"],
    ] {
        check_told(node.command(arguments), damaged, 3);
    }
    program.rest();
    figure("D10", "a program that damages its rings: each command tells");
}

/// No command reports a loss if nothing was lost.
#[test]
fn d10_nothing_is_told_where_nothing_was_lost() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let program = node.program(10, 1000);
    eventually("it is recorded", || (!traces_below(&node.output()).is_empty()).then_some(()));
    program.end();
    for arguments in [
        &["status", "--interval", "0"][..],
        &["session", "list", "s"],
        &["session", "stop", "s"],
        &["session", "destroy", "s"],
        &["status", "--interval", "0"],
    ] {
        let output = node.command(arguments).output().unwrap();
        let words = words_of(&output).replace("nothing was lost", "");
        assert!(output.status.success() && !words.contains("lost"), "{arguments:?}: {words}");
    }
    figure("D10", "an exact recording: exit status 0, no loss told");
}
