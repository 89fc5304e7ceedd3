use super::parse::is_subsystem;
use super::{KernelHook, Probe, ProcessMoment, TimerRate, UserPlace};
use crate::tracefs::TraceFs;
use blkkin_sys::testing::skip;
use std::time::Duration;

#[track_caller]
fn parsed(text: &str) -> Probe {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn instruction(program: &str, symbol: &str, offset: u64) -> Probe {
    let place = UserPlace::Function { symbol: symbol.to_owned(), offset };
    Probe::UserInstruction { program: program.to_owned(), place }
}

#[test]
fn texts_are_parsed_by_kind() {
    let name = |name: &str| name.to_owned();
    assert_eq!(parsed("syscall:*"), Probe::SystemCall { name: name("*") });
    let switch = Probe::Tracepoint { subsystem: name("sched"), name: name("sched_switch") };
    assert_eq!(parsed("sched:sched_switch"), switch);
    assert_eq!(parsed("tracepoint:sched:sched_switch"), switch);
    assert_eq!(parsed("process:exec"), Probe::Process(ProcessMoment::Exec));
    let function =
        |hook, offset| Probe::KernelFunction { hook, function: name("f.isra.0"), offset };
    assert_eq!(parsed("kprobe:f.isra.0+0x10"), function(KernelHook::Kprobe, 16));
    assert_eq!(parsed("fexit:f.isra.0"), function(KernelHook::Fexit, 0));
    assert_eq!(parsed("uprobe:bash:readline"), instruction("bash", "readline", 0));
    assert_eq!(parsed("uprobe:/bin/a b:f+8"), instruction("/bin/a b", "f", 8));
    assert_eq!(parsed("uprobe:pid:12:f"), instruction("pid:12", "f", 0));
    assert_eq!(parsed(r#"uprobe:"/a:\"b\\":f"#), instruction(r#"/a:"b\"#, "f", 0));
    assert_eq!(parsed("uprobe:p:a::operator+(int)"), instruction("p", "a::operator+(int)", 0));
    assert_eq!(parsed("uprobe:p:a::operator++"), instruction("p", "a::operator++", 0));
    assert_eq!(
        parsed("uprobe:p:0x12aF"),
        Probe::UserInstruction { program: name("p"), place: UserPlace::Address(0x12af) }
    );
    assert_eq!(
        parsed("usdt:python3:python:function__*"),
        Probe::Usdt {
            program: name("python3"),
            provider: name("python"),
            name: name("function__*")
        }
    );
    let period = Duration::from_millis(10);
    assert_eq!(parsed("profile:10ms"), Probe::Timer(TimerRate::Period(period)));
    assert_eq!(parsed("profile:99"), Probe::Timer(TimerRate::Hertz(99)));
    assert_eq!(TimerRate::Hertz(99).period_ns(), 10_101_010);
    assert_eq!(TimerRate::Period(period).period_ns(), 10_000_000);
}

/// A printed probe is parsed as the same probe, and most texts are printed as they were written.
#[test]
fn printed_probes_are_parsed_as_the_same_probe() {
    let unchanged = [
        "syscall:openat",
        "block:block_rq_issue",
        "syscalls:sys_enter_openat",
        "ras:mc_event",
        "tracepoint:raw:event",
        "tracepoint:krobe:event",
        "process:fork",
        "process:exit",
        "raw:sched_switch",
        "kprobe:vfs_unlink",
        "kprobe:vfs_unlink+4",
        "kretprobe:vfs_*",
        "fentry:vfs_unlink",
        "fexit:vfs_unlink",
        "uprobe:/usr/bin/bash:readline+8",
        "uprobe:pid:77:void foo<int>(int, char*)",
        "uprobe:\"/a:b\\\\c\\\"\":main",
        "uprobe:bash:0x1234",
        "uretprobe:libc.so.6:malloc",
        "usdt:libc:libc:memory_*",
        "profile:99hz",
        "profile:150us",
        "profile:10ms",
        "profile:2s",
    ];
    for text in unchanged {
        assert_eq!(parsed(text).to_string(), text);
    }
    for text in ["tracepoint:sched:*", "kprobe:f+0x0", "profile:7", "profile:1000ms"] {
        let probe = parsed(text);
        assert_eq!(parsed(&probe.to_string()), probe, "{text}");
    }
    // Programs that a caller gives, with any characters.
    for program in ["\"", "a:b", "pid:", "pid:x", "pid:7", "\\", "a\"b:\\"] {
        let probe = instruction(program, "f", 1);
        assert_eq!(parsed(&probe.to_string()), probe, "{program}");
    }
}

#[test]
fn errors_state_the_position_and_the_expected_content() {
    #[track_caller]
    fn check(text: &str, position: usize, expected: &str) {
        let error = text.parse::<Probe>().expect_err("no probe");
        let shown = error.to_string();
        assert_eq!(error.position, position, "{shown}");
        assert!(shown.contains(expected), "{shown}");
    }
    check("", 1, "a kind of probe and a colon");
    check("openat", 1, "a kind of probe and a colon");
    check("profile", 8, "a colon and the place");
    check("profle", 1, "did you mean `profile`?");
    check("krobe:vfs_unlink", 1, "did you mean `kprobe`?");
    check("KPROBE:vfs_unlink", 1, "did you mean `kprobe`?");
    check("sycall:openat", 1, "did you mean `syscall`?");
    check("ustd:bash:a:b", 1, "did you mean `usdt`?");
    check(":x", 1, "the subsystem of a tracepoint");
    check("sched:", 7, "the name of a tracepoint");
    check("sched:a b", 8, "or the end");
    check("tracepoint:sched", 17, "`:` and the name of a tracepoint");
    check("syscall:", 9, "the name of a system call");
    check("syscall:open:at", 13, "or the end");
    check("process:clone", 9, "`fork`, `exec` or `exit`");
    check("raw:", 5, "the name of a tracepoint");
    check("kprobe:", 8, "the name of a function of the kernel");
    check("kprobe:f+", 10, "a number of bytes");
    check("kprobe:f+8x", 10, "a number of bytes");
    check("kprobe:f*+8", 10, "an offset needs one function");
    check("fentry:f+8", 9, "only `kprobe` has an offset");
    check("uprobe:", 8, "the path or the name of a program");
    check("uprobe:bash", 12, "`:` and a place in the program");
    check("uprobe:pid::f", 12, "the number of a process");
    check("uprobe:bash:", 13, "the name of a function");
    check("uprobe:bash:+8", 13, "the name of a function");
    check("uprobe:bash:f+zz", 15, "a number of bytes");
    check("uprobe:bash:f*+8", 15, "an offset needs one function");
    check("uprobe:bash:0x", 13, "an address of at most 64 bits");
    check("uprobe:bash:0x+1", 13, "an address of at most 64 bits");
    check("uprobe:bash:0x12345678123456781", 13, "an address of at most 64 bits");
    check("uprobe:\"bash:f", 15, "a closing quote");
    check("uprobe:\"\":f", 8, "in the quotes");
    check("uprobe:\"a\\b\":f", 10, "a quote or a backslash");
    check("uretprobe:bash:f+8", 17, "neither offset nor address");
    check("uretprobe:bash:0x8", 19, "neither offset nor address");
    check("usdt:bash", 10, "`:` and a place in the program");
    check("usdt:bash:p", 12, "`:` and the name of a USDT probe");
    check("usdt:bash::n", 11, "the provider of a USDT probe");
    check("usdt:bash:p:", 13, "the name of a USDT probe");
    check("usdt:bash:p:n:x", 14, "the end");
    for rate in ["0", "10001", "99us", "3601s", "-1", "", "99999999999999999999"] {
        check(&format!("profile:{rate}"), 9, "1 to 10,000");
    }
    check("profile:99kHz", 11, "`hz`, `us`, `ms` or `s`");
    check("uprobe:é:f\0", 11, "no control character");
    check(&"x".repeat(50_000), 1, "at most 40 KiB");
}

/// No subsystem of this kernel is mistaken for a misspelt kind of probe.
#[test]
fn subsystems_of_the_kernel_are_accepted() {
    let events = match TraceFs::open().and_then(|tracefs| tracefs.events()) {
        Ok(events) => events,
        Err(error) => return skip("subsystems_of_the_kernel_are_accepted", &error.to_string()),
    };
    for event in events {
        assert!(is_subsystem(&event.subsystem), "{}", event.subsystem);
        let text = format!("{}:{}", event.subsystem, event.event);
        assert_eq!(parsed(&text).to_string(), text);
    }
}
