//! Promise L10: programs that start before the agent are recorded, and so are programs and forked
//! children that end soon after their start.

use super::*;
use blkkin_sys::testing::{Fork, in_child};

/// Acts as a program that records one event and ends.
#[test]
#[ignore = "a program of other tests"]
fn brief() {
    record(env_number("TEST_NUMBER", 0));
}

/// Acts as a program that forks repeatedly. Each child records one event, and the parent records
/// one event for each child.
#[test]
#[ignore = "a program of other tests"]
fn forks() {
    for number in 0..env_number("TEST_COUNT", 10) {
        record(2 * number);
        let ended = in_child(Fork::Library, |_: &[AtomicU64; 1]| record(2 * number + 1));
        assert_eq!(ended, Ok([0]));
    }
}

/// Returns the command of the test program `name`, without the setting that makes it wait for an
/// agent.
fn command_without_wait(node: &Node, name: &str) -> Command {
    let mut command = node.test_program(&[], name);
    command.env_remove("BLKKIN_WAIT");
    command
}

fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().count()
}

#[test]
fn l10_programs_older_than_the_agent_are_attached() {
    let node = Node::new();
    let mut command = command_without_wait(&node, "program");
    command.env("TEST_BURST", "1").env("TEST_PAUSE_US", "1000");
    let program = Program::start(command);
    let alone = threads(program.id());
    let mut longest = Duration::ZERO;
    let (mut other, mut before) = (None, 0);
    for turn in 0..env_number("TEST_ARRIVALS", 2) {
        let agent = node.agent();
        let begun = Instant::now();
        // The program of the previous turn has a thread that polls for agents by itself.
        let expected = 1 + usize::from(other.is_some());
        eventually("all are found", || (node.applications().len() == expected).then_some(()));
        longest = longest.max(begun.elapsed());
        assert!(longest <= Duration::from_secs(1), "turn {turn}: found after {longest:?}");
        node.record_all();
        std::thread::sleep(Duration::from_millis(200));
        node.end_session();
        let (numbers, lost) = read(&node.output());
        assert!(!numbers.is_empty() && lost == 0, "turn {turn}: {lost} lost");
        fs::remove_dir_all(node.output()).unwrap();
        assert_eq!(threads(program.id()), alone + 1);
        before = before.max(numbers.len());
        drop(agent);
        let mut command = command_without_wait(&node, "program");
        command.env("TEST_BURST", "1").env("TEST_PAUSE_US", "1000");
        other = Some(Program::start(command));
    }
    figure("L10", &format!("programs older than the agent found after {longest:.1?} at most"));
}

#[test]
fn l10_short_programs_record_their_first_event() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let count = env_number("TEST_SHORT", 10);
    let mut longest = Duration::ZERO;
    for number in 0..count {
        let begun = Instant::now();
        let mut command = command_without_wait(&node, "start_order::brief");
        command.env("TEST_NUMBER", number.to_string()).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
        longest = longest.max(begun.elapsed());
    }
    node.end_session();
    assert_eq!(read(&node.output()), ((0..count).collect(), 0));
    figure(
        "L10",
        &format!("{count} programs of one event each, {longest:.1?} at most, none missing"),
    );
}

#[test]
fn l10_children_record_their_first_event() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let count = env_number("TEST_CHILDREN", 50);
    let mut command = command_without_wait(&node, "start_order::forks");
    command.env("TEST_COUNT", count.to_string()).stdout(Stdio::null());
    let begun = Instant::now();
    assert!(command.status().unwrap().success());
    let took = begun.elapsed();
    node.end_session();
    assert_eq!(read(&node.output()), ((0..2 * count).collect(), 0));
    figure("L10", &format!("{count} children of one event each in {took:.1?}, none missing"));
}
