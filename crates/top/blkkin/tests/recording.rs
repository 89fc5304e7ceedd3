//! Recording of programs by a real agent: killed programs and agents, selection of processes,
//! sampling, names of traces, `session clear`, and programs that connect again.

mod support;

use blkkin_trace::{Endpoint, Trace, sample};
use std::io::{BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::node::{
    Node, Program, Running, check_all, check_distinct, env_number, eventually, figure, numbers,
    read, say, trace_directories, traces_below,
};
use support::process::{Running as Follower, Signal, signal};

/// Acts as the program that these tests record; see [`numbers`].
#[test]
#[ignore = "a program of other tests"]
fn program() {
    numbers();
}

/// Acts as a tested program: for each input line, prints how many of a hundred requests are
/// sampled.
#[test]
#[ignore = "a program of other tests"]
fn requests() {
    say("\nready");
    let endpoint = Endpoint::named("test");
    for _ in std::io::stdin().lock().lines() {
        let root = || Trace::root("request", &endpoint, sample::global());
        say((0..100).filter(|_| root().is_followed()).count());
    }
}

#[test]
fn all_that_is_recorded_is_in_the_trace() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let program = node.program(10, 1000);
    std::thread::sleep(Duration::from_millis(300));
    let tried = program.end();
    node.end_session();
    assert_eq!(check_all(&node.output(), tried), 0);
}

/// Sessions are read by their names, also while they record, from any terminal.
#[test]
fn sessions_are_read_by_name() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let program = node.program(1, 1000);
    let mut view = Follower::start(&mut node.command(&["view", "--follow", "--session", "s"]));
    let mut other = Follower::start(&mut node.command(&["view", "--follow", "--session", "s"]));
    for _ in 0..200 {
        assert!(view.line().contains("test:number") && other.line().contains("test:number"));
    }
    let tried = program.end();
    node.run(&["session", "stop", "s"]);
    let count = node.run(&["view", "--count", "--session", "s"]);
    assert_eq!(count.trim(), tried.to_string());
    let refused = |words: &[&str], part: &str| {
        let output = node.command(words).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(part), "{words:?}: {errors}");
    };
    refused(&["view", "--session", "t"], "no session `t`");
    refused(&["view", "--session", "s", "/tmp"], "cannot be used with");
    node.run(&["session", "create", "flight", "--snapshot"]);
    refused(&["view", "--session", "flight"], "session snapshot flight");
    node.run(&["session", "create", "sent", "--net", "net://127.0.0.1:1:2"]);
    refused(&["spans", "--session", "sent"], "blkkin live ls net://127.0.0.1");
}

/// `record --detach` returns while its command runs. Any terminal follows the events, and the file
/// beside the trace has the messages.
#[test]
fn recordings_go_on_in_the_background() {
    let node = Node::new();
    let output = node.output();
    let record = |command: &[&std::ffi::OsStr]| {
        let mut record = node.command(&["record", "--detach", "-o"]);
        record.arg(&output).arg("--").args(command);
        record.output().expect("a command")
    };
    let none = record(&["/none/--detach".as_ref()]);
    let errors = String::from_utf8_lossy(&none.stderr) + String::from_utf8_lossy(&none.stdout);
    assert!(none.status.code() == Some(1) && errors.contains("cannot run `/none"), "{errors}");
    let log = node.directory.path().join("trace.log");
    assert!(!log.exists(), "{}", log.display());
    // The program ends with its input.
    let own = std::env::current_exe().expect("this program");
    let run = "sleep 2 | exec \"$@\"";
    let words = ["sh", "-c", run, "sh"].map(std::ffi::OsStr::new);
    let test = ["--exact", "program", "--ignored", "--nocapture"].map(std::ffi::OsStr::new);
    let started = record(&[&words[..], &[own.as_os_str()], &test].concat());
    assert!(started.status.success(), "{started:?}");
    assert_eq!(String::from_utf8_lossy(&started.stdout).trim(), output.display().to_string());
    let path = output.to_str().expect("text");
    let mut view = Follower::start(&mut node.command(&["view", "--follow", path]));
    for _ in 0..200 {
        assert!(view.line().contains("test:number"));
    }
    let told = || std::fs::read_to_string(&log).ok().filter(|text| text.contains("recorded "));
    let text = eventually("the recording ends", told);
    let tried: u64 =
        text.lines().rev().find_map(|line| line.trim().parse().ok()).expect("a number");
    assert_eq!(check_all(&output, tried), 0);
    // The directory exists now, and so does the file for messages.
    assert_eq!(record(&["true".as_ref()]).status.code(), Some(1));
}

/// Ctrl-\ at a terminal gives it back to the shell; the command and its recording go on, also when
/// the terminal is closed.
#[test]
fn terminals_leave_recordings() {
    if !["script", "bash", "mkfifo"].iter().all(|program| support::is_installed(program)) {
        return support::skip("terminals_leave_recordings", "script, bash or mkfifo is missing");
    }
    let node = Node::new();
    let output = node.output();
    let path = output.to_str().expect("text");
    let record = node.command(&["record", "-o", path, "--"]);
    let own = std::env::current_exe().expect("this program");
    let words = record.get_args().chain([own.as_os_str()]).map(|word| word.to_string_lossy());
    let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
    let program = record.get_program().to_string_lossy();
    // The program ends with its input.
    let input = node.directory.path().join("input");
    support::run(Command::new("mkfifo").arg(&input));
    let line = format!(
        "'{program}' {} --exact program --ignored --nocapture < '{}'\n",
        words.join(" "),
        input.display()
    );
    let mut terminal = Command::new("script");
    terminal.args(["-q", "-c", "bash --norc --noprofile -i", "/dev/null"]);
    support::copy_environment(&record, &mut terminal);
    let (mut shown, mut keys) = Follower::start_with_input(&mut terminal);
    keys.write_all(line.as_bytes()).expect("a command");
    let input = std::fs::File::options().write(true).open(&input).expect("its reader");
    eventually("it is recorded", || (!traces_below(&output).is_empty()).then_some(()));
    keys.write_all(b"\x1c").expect("a key");
    let note = eventually("it is left", || {
        let line = shown.line();
        line.contains("recording in the background").then_some(line)
    });
    assert!(shown.line().contains(path));
    keys.write_all(b"echo \"status $?\"\n").expect("a command");
    eventually("the shell prompts", || shown.line().contains("status 0").then_some(()));
    let (_, after) = note.split_once("`kill ").expect("how to end it");
    let process: u32 = after.split('`').next().and_then(|id| id.parse().ok()).expect("a number");
    drop(keys);
    drop(shown);
    let mut view = Follower::start(&mut node.command(&["view", "--follow", path]));
    for _ in 0..200 {
        assert!(view.line().contains("test:number"));
    }
    drop(input);
    let is_over = || !std::path::Path::new(&format!("/proc/{process}")).exists();
    eventually("the recording ends", || is_over().then_some(()));
    let (numbers, lost) = read(&output);
    check_distinct(&numbers);
    assert_eq!(lost, 0);
    assert_eq!(numbers.last().map(|last| last + 1), Some(numbers.len() as u64));
}

/// Events recorded before a program is killed are in the trace or counted as lost, and no event is
/// duplicated.
#[test]
fn killed_programs_leave_what_they_recorded() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let mut program = node.program(1000, 0);
    std::thread::sleep(Duration::from_millis(200));
    let count = program.count();
    drop(program);
    node.end_session();
    let (numbers, lost) = read(&node.output());
    check_distinct(&numbers);
    let last = *numbers.last().unwrap();
    // All events up to some moment are accounted for; events after the last recorded one may be
    // lost.
    assert!(numbers.len() as u64 + lost >= count, "{} {lost} {count}", numbers.len());
    assert!(numbers.len() as u64 + lost > last);
}

/// Each recorded event is in the trace once, and lost events are counted, if agents are killed at
/// any moment and restarted.
#[test]
fn killed_agents_lose_nothing() {
    let node = Node::new();
    let mut agent = node.agent();
    node.record_all();
    let program = node.program(200, 200);
    let cycles = env_number("TEST_KILLS", 5);
    for cycle in 0..cycles {
        std::thread::sleep(Duration::from_millis(50 + 37 * (cycle % 7)));
        agent.kill();
        std::thread::sleep(Duration::from_millis(20 * (cycle % 3)));
        agent = node.agent();
    }
    // The program connects to the new agent within a second.
    std::thread::sleep(Duration::from_millis(1000));
    let tried = program.end();
    node.end_session();
    let lost = check_all(&node.output(), tried);
    assert_eq!(traces_below(&node.output()).len(), 1, "all of it is one trace");
    figure(
        "L2",
        &format!("{cycles} agents killed: {tried} events, {lost} counted as lost, 0 missing"),
    );
}

/// A session's rules select processes by pid and by executable. With `--children` they also select
/// the descendants of these processes.
#[test]
fn processes_are_chosen() {
    let node = Node::new();
    let _agent = node.agent();
    let own = std::env::current_exe().unwrap();
    let own = own.file_name().unwrap().to_str().unwrap();
    let parent = std::process::id().to_string();
    let selections: [(&str, &[&str], bool); 6] = [
        ("all", &[], true),
        ("exe", &["--exe", own], true),
        ("other", &["--exe", "sleep"], false),
        ("pid", &["--pid", "1"], false),
        ("parent", &["--pid", &parent], false),
        ("children", &["--pid", &parent, "--children"], true),
    ];
    for (name, selection, _) in selections {
        let output = node.output().join(name);
        node.run(&["session", "create", name, "-o", output.to_str().unwrap()]);
        let enable = ["event", "enable", "-s", name, "test:*"];
        node.run(&[&enable[..], selection].concat());
        node.run(&["session", "start", name]);
    }
    let mut program = node.program(10, 1000);
    program.count();
    program.end();
    for (name, _, expected) in selections {
        node.run(&["session", "destroy", name]);
        let recorded = std::fs::exists(node.output().join(name).join("ust")).unwrap();
        assert_eq!(recorded, expected, "{name}");
    }
}

/// Sampling rules survive a restart of the agent, and programs apply them.
#[test]
fn sampling_outlives_the_agent() {
    let node = Node::new();
    let mut agent = node.agent();
    let mut program = Program::start(node.test_program(&[], "requests"));
    assert_eq!(program.count(), 100);
    let restart = |agent: Running| {
        agent.kill();
        let agent = node.agent();
        eventually("it is found", || (!node.applications().is_empty()).then_some(()));
        agent
    };
    node.run(&["sampling", "0/s"]);
    eventually("it follows none", || (program.count() == 0).then_some(()));
    agent = restart(agent);
    assert_eq!(node.run(&["sampling"]), "0/s\n");
    eventually("it follows none again", || (program.count() == 0).then_some(()));
    node.run(&["sampling", "--default"]);
    eventually("it follows all", || (program.count() == 100).then_some(()));
    let _agent = restart(agent);
    assert_eq!(node.run(&["sampling"]), "default\n");
    assert_eq!(program.count(), 100);
}

/// An agent changes the name of a new trace if a directory of that name exists. After a restart, it
/// continues the trace under the changed name.
#[test]
fn traces_beside_others_are_gone_on_with() {
    let node = Node::new();
    let mut agent = node.agent();
    let mut program = node.program(20, 1000);
    let [application] = &node.applications()[..] else { panic!("one program") };
    let output = node.output();
    node.run(&["session", "create", "s", "-o", output.to_str().unwrap()]);
    node.run(&["event", "enable", "test:*"]);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    for second in now..now + 60 {
        let arguments = ["-d", &format!("@{second}"), "+%Y%m%d-%H%M%S"];
        let date = Command::new("date").args(arguments).output().unwrap().stdout;
        let date = String::from_utf8(date).unwrap();
        let name = format!("{}-{}-{}", application.program, application.pid, date.trim());
        std::fs::create_dir_all(output.join("ust/pid").join(name)).unwrap();
    }
    let begun = program.count();
    node.run(&["session", "start", "s"]);
    let written = || Some(traces_below(&output)).filter(|traces| !traces.is_empty());
    let [first] = &eventually("it is written", written)[..] else { panic!("one trace") };
    assert!(first.to_string_lossy().ends_with("-2"), "{first:?}");
    for _ in 0..3 {
        agent.kill();
        agent = node.agent();
        eventually("it is found", || (!node.applications().is_empty()).then_some(()));
        std::thread::sleep(Duration::from_millis(100));
    }
    let tried = program.end();
    node.end_session();
    assert_eq!(traces_below(&output), std::slice::from_ref(first), "all of it is one trace");
    let (numbers, lost) = read(first);
    check_distinct(&numbers);
    assert!(numbers[0] >= begun && numbers[0] + numbers.len() as u64 + lost == tried);
}

/// A `session clear` removes earlier events for good, even if the agent is killed afterwards. This
/// includes events of programs that have ended, or are stopped during the clear. Later events are
/// kept.
#[test]
fn what_was_cleared_does_not_come_back() {
    let node = Node::new();
    let agent = node.agent();
    node.record_all();
    let ended = node.program(1000, 1000);
    let mut program = node.program(50, 1000);
    std::thread::sleep(Duration::from_millis(100));
    ended.end();
    let before = program.count();
    signal(program.id(), Signal::STOP);
    eventually("both have traces", || (traces_below(&node.output()).len() == 2).then_some(()));
    node.run(&["session", "clear", "s"]);
    assert_eq!(trace_directories(&node.output()).len(), 1);
    agent.kill();
    let _agent = node.agent();
    signal(program.id(), Signal::CONT);
    eventually("it is found", || (!node.applications().is_empty()).then_some(()));
    let tried = program.end();
    node.end_session();
    let (numbers, lost) = read(&node.output());
    check_distinct(&numbers);
    assert!(numbers[0] >= before, "{} {before}", numbers[0]);
    assert_eq!(numbers[0] + numbers.len() as u64 + lost, tried);
}

/// A program that the agent disconnects while it is stopped connects again once it continues. All
/// of its events are in one trace or counted as lost.
#[test]
fn programs_that_were_given_up_go_on() {
    let node = Node::new();
    let _agent = node.agent();
    node.record_all();
    let program = node.program(50, 1000);
    eventually("it is written", || (!traces_below(&node.output()).is_empty()).then_some(()));
    for round in 0..2 {
        signal(program.id(), Signal::STOP);
        // The rules are larger than the agent's send queue for a program that does not read.
        let rules: Vec<Child> = (0..12)
            .map(|number| {
                let filter = format!("n == {number:<65000}");
                let name = format!("other{round}:{number}");
                let mut enable = node.command(&["event", "enable", "--filter", &filter, &name]);
                enable.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
            })
            .collect();
        eventually("it is given up", || node.applications().is_empty().then_some(()));
        signal(program.id(), Signal::CONT);
        eventually("it is found again", || (!node.applications().is_empty()).then_some(()));
        for mut rule in rules {
            assert!(rule.wait().unwrap().success());
        }
    }
    let tried = program.end();
    node.end_session();
    check_all(&node.output(), tried);
    assert_eq!(traces_below(&node.output()).len(), 1, "all of it is one trace");
}
