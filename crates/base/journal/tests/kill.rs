//! Test that kills a program while it writes a journal: at random moments, and in each of its
//! modifying system calls. The program prints each acknowledgement. After the kill all acknowledged
//! records exist, and a new instance of the program continues the journal.

use blkkin_journal::{Item, Journal, Options, Payload, Reader};
use blkkin_sys::testing::{figure, is_installed, own_test, skip, traced};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Prefix of the program's lines, which distinguishes them from those of the test harness.
const MARK: &str = "says: ";

/// Number of groups that the program writes: enough for several segments.
const GROUPS: u64 = 52;

/// Number of newest records that the program retains. It trims older records.
const KEPT: u64 = 40;

/// Maximum time to open a journal whose writer was killed: 2 s.
const OPENS: Duration = Duration::from_secs(2);

const CONSUMER: &str = "consumer";

fn options() -> Options {
    Options { segment_bytes: 8192, payload_bytes_max: 1024, ..Options::default() }
}

/// Returns the payload of the record with this sequence number.
fn payload(sequence: u64) -> Vec<u8> {
    let text = sequence.to_string().into_bytes();
    let size = (sequence * 37 % 500) as usize;
    text.into_iter().chain(std::iter::repeat(b' ')).take(size.max(20)).collect()
}

/// Appends records. The other tests start this function as a program and kill it. It prints
/// `acked N` (all records before N are durable) and `trimming N` (records before N may be removed).
#[test]
#[ignore = "a program of other tests"]
fn appends() {
    let (journal, recovery) = Journal::open(&directory(), options()).unwrap();
    let mut next = recovery.next_sequence;
    for group in 0..GROUPS {
        let payloads: Vec<Vec<u8>> = (next..next + 1 + group % 3).map(payload).collect();
        let payloads: Vec<Payload<'_>> =
            payloads.iter().map(|bytes| Payload { kind: 3, bytes }).collect();
        let ticket = journal.append(&payloads).unwrap();
        assert_eq!(ticket.sequences().start, next);
        next = ticket.sequences().end;
        // Injected fault that the test has to detect.
        if std::env::var_os("TEST_EARLY").is_some() {
            say(&format!("acked {next}"));
        }
        ticket.wait().unwrap();
        say(&format!("acked {next}"));
        if group % 6 == 5 {
            let from = next.saturating_sub(KEPT);
            journal.set_position(CONSUMER, from).unwrap();
            say(&format!("trimming {from}"));
            journal.trim_before(from).unwrap();
        }
    }
    journal.close().unwrap();
}

fn directory() -> std::path::PathBuf {
    std::env::var_os("TEST_JOURNAL").unwrap().into()
}

fn say(what: &str) {
    // One write per line, so that a kill leaves no partial line.
    let line = format!("{MARK}{what}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Numbers in the last line of each kind that the program printed.
#[derive(Clone, Copy, Debug, Default)]
struct PrintedNumbers {
    acked: u64,
    trimming: u64,
}

/// Returns the command that runs the program by means of `starter`, such as strace.
fn program(starter: &[String], directory: &Path) -> Command {
    let mut command = own_test(starter, "appends");
    command.env("TEST_JOURNAL", directory).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs the program to its end, or kills it after `kill_after` printed lines.
fn run(command: &mut Command, said: &mut PrintedNumbers, kill_after: Option<u64>) -> ExitStatus {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut count = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let Some((what, number)) = line.split_once(MARK).and_then(|(_, said)| said.split_once(' '))
        else {
            continue;
        };
        let number = number.parse().unwrap();
        match what {
            "acked" => said.acked = number,
            _ => said.trimming = number,
        }
        count += 1;
        if Some(count) == kill_after {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap()
}

/// Checks that the journal opens within `OPENS`, and that the consumer's position and the records
/// agree with the printed lines.
fn check(directory: &Path, said: PrintedNumbers) -> Result<(), String> {
    let start = Instant::now();
    let (journal, _) = Journal::open(directory, options()).map_err(|error| error.to_string())?;
    if start.elapsed() > OPENS {
        return Err(format!("opens after {:?}", start.elapsed()));
    }
    let position = journal.position(CONSUMER).map_err(|error| error.to_string())?.unwrap_or(0);
    if position < said.trimming {
        return Err(format!("the consumer has come to {position}, and had to {}", said.trimming));
    }
    drop(journal);
    let mut reader = Reader::open(directory, 0).map_err(|error| error.to_string())?;
    let mut next = None;
    while let Some(item) = reader.next().map_err(|error| error.to_string())? {
        match item {
            Item::Record(record) if record.payload != payload(record.sequence) => {
                return Err(format!("record {} is not what was appended", record.sequence));
            }
            Item::Record(record) => {
                if next.is_some_and(|next| next != record.sequence) {
                    return Err(format!("{} comes instead of {next:?}", record.sequence));
                }
                next = Some(record.sequence + 1);
            }
            // The program prints the trim before it trims, but after it has stored the position.
            Item::Missing(range) if next.is_none() && range.end <= position => {}
            other => return Err(format!("{other:?}")),
        }
    }
    match next.unwrap_or(0) >= said.acked {
        true => Ok(()),
        false => Err(format!("{} were acknowledged, and {next:?} are there", said.acked)),
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_killed_at_random() {
    let directory = tempfile::tempdir().unwrap();
    let mut said = PrintedNumbers::default();
    let mut killed = 0;
    for round in 0..40u64 {
        let kill_after = 1 + round * 7919 % (GROUPS + 3);
        let status = run(&mut program(&[], directory.path()), &mut said, Some(kill_after));
        killed += u32::from(!status.success());
        check(directory.path(), said).unwrap_or_else(|why| panic!("round {round}: {why}"));
    }
    assert!(killed >= 30, "{killed}");
    figure("D1", &format!("{killed} writers of a journal killed at random"));
}

/// System calls in which the program is killed: the calls that modify files, and `write`, which
/// prints the program's lines.
const CALLS: [&str; 8] =
    ["pwrite64", "fdatasync", "fsync", "renameat", "fallocate", "ftruncate", "unlinkat", "write"];

/// Kills the program in its `number`-th call of the system call `call`, counted per thread. Checks
/// the journal, and again after another run of the program. Returns `None` if no thread makes so
/// many calls. With `early`, the program has an injected fault.
fn kill_in(call: &str, number: u32, early: bool) -> Option<Result<(), String>> {
    let directory = tempfile::tempdir().unwrap();
    let mut said = PrintedNumbers::default();
    // For even numbers the program continues an existing journal.
    if number.is_multiple_of(2) {
        assert!(run(&mut program(&[], directory.path()), &mut said, None).success());
    }
    let kill = format!("signal=SIGKILL:when={number}");
    let starter = traced(&[call], Some(&kill), Path::new("/dev/null"));
    let mut command = program(&starter, directory.path());
    if early {
        command.env("TEST_EARLY", "1");
    }
    let status = run(&mut command, &mut said, None);
    if status.success() {
        return None;
    }
    let all = check(directory.path(), said).and_then(|()| {
        let status = run(&mut program(&[], directory.path()), &mut said, None);
        if status.success() { check(directory.path(), said) } else { Err(status.to_string()) }
    });
    Some(all.map_err(|why| format!("killed in {call} number {number}: {why}")))
}

/// Kills the program in its first, second and each further call of `call`, counted per thread, with
/// a new run for each. Returns the number of kills.
fn kill_in_each(call: &str) -> u32 {
    let mut number = 0;
    while let Some(outcome) = kill_in(call, number + 1, false) {
        outcome.unwrap();
        number += 1;
    }
    assert!(number > 0, "{call} is never made");
    number
}

#[test]
fn nothing_acknowledged_is_lost_when_killed_in_any_system_call() {
    if !is_installed("strace") {
        let test = "nothing_acknowledged_is_lost_when_killed_in_any_system_call";
        return skip(test, "strace is missing");
    }
    // The threads mostly wait for a disk or for strace, so all calls are tested in parallel.
    let points: u32 = std::thread::scope(|scope| {
        let each = CALLS.map(|call| scope.spawn(move || kill_in_each(call)));
        each.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(points >= 200, "{points}");
    figure("D1", &format!("writers of a journal killed in each of {points} system calls"));
}

#[test]
fn a_program_that_acknowledges_early_is_found_out() {
    if !is_installed("strace") {
        return skip("a_program_that_acknowledges_early_is_found_out", "strace is missing");
    }
    let found = (4..20).filter_map(|number| kill_in("pwrite64", number, true)).find(Result::is_err);
    assert!(found.is_some_and(|found| found.unwrap_err().contains("acknowledged")));
}
