//! Lists of the running kernel, compared with the kernel's own files, and of programs.

use super::*;
use blkkin_sys::testing::{Scratch, skip};

#[test]
fn kinds_that_a_pattern_may_match() {
    let kinds = |pattern: &str| -> Vec<&str> {
        let kinds = ProbeKind::ALL.into_iter().filter(|kind| kind.may_match(pattern));
        kinds.map(ProbeKind::word).collect()
    };
    assert_eq!(kinds("syscall:*at"), ["syscall"]);
    assert_eq!(kinds("syscalls:*"), ["tracepoint"]);
    assert_eq!(kinds("block:block_rq_issue"), ["tracepoint"]);
    assert_eq!(kinds("pro*"), ["tracepoint", "process", "profile"]);
    assert_eq!(kinds("*unlink*").len(), ProbeKind::ALL.len());
    assert_eq!(kinds("openat"), [""; 0]);
    assert_eq!(kinds("tracepoint:*"), ["tracepoint"]);
}

#[test]
fn functions_of_kallsyms() {
    let text =
        "0000 T vfs_unlink\n0000 t helper.part.0\n0000 d data\n0000 t of_module\t[ext4]\nx\n";
    let found: Vec<&str> = functions_in(text).collect();
    assert_eq!(found, ["vfs_unlink", "of_module"]);
}

#[test]
fn profiles_have_a_rate() {
    let names = |pattern: &str| -> Vec<String> {
        profiles(pattern).into_iter().map(|probe| probe.name).collect()
    };
    assert_eq!(names("profile:*"), ["profile:HZ"]);
    assert_eq!(names("profile:99"), ["profile:99"]);
    assert_eq!(names("profile:99hz"), ["profile:99hz"]);
    assert_eq!(names("profile:0"), [""; 0]);
    assert_eq!(names("profile:4294967295"), [""; 0]);
    assert_eq!(names("*"), [""; 0]);
}

fn argument(argument: &ListedArgument) -> (&str, &str) {
    (&argument.type_text, &argument.name)
}

/// Arguments of the one probe with this name.
fn arguments(listing: &Listing, name: &str) -> Vec<ListedArgument> {
    let found = listing.find(name);
    assert_eq!(found.probes.len(), 1, "{name}: {found:?}");
    listing.arguments(&found.probes[0]).expect("arguments")
}

#[test]
fn raw_tracepoints_have_the_names_of_their_arguments() {
    let listing = Listing::new();
    if let Err(error) = listing.btf() {
        return skip("raw_tracepoints_have_the_names_of_their_arguments", &error.reason);
    }
    let found = arguments(&listing, "raw:sched_process_exec");
    let found: Vec<_> = found.iter().map(argument).collect();
    let expected =
        [("struct task_struct *", "p"), ("pid_t", "old_pid"), ("struct linux_binprm *", "bprm")];
    assert_eq!(found, expected);
    let all = listing.find("raw:*").probes;
    assert!(all.len() > 100 && all.is_sorted_by_key(|probe| &probe.name), "{}", all.len());
    let found = arguments(&listing, "process:exec");
    let found: Vec<_> = found.iter().map(argument).collect();
    assert_eq!(found, [("const char *", "filename"), ("const char *", "name")]);
}

#[test]
fn tracepoints_and_calls_are_those_of_the_file_system() {
    let listing = Listing::new();
    let tracefs = match listing.tracefs() {
        Ok(tracefs) => tracefs,
        Err(error) => {
            let test = "tracepoints_and_calls_are_those_of_the_file_system";
            return skip(test, &error.reason);
        }
    };
    let calls = tracefs.system_calls().expect("system calls");
    let mut expected: Vec<String> =
        calls.iter().map(|call| format!("syscall:{}", call.name)).collect();
    expected.sort_unstable();
    let found = listing.find("syscall:*").probes.into_iter().map(|probe| probe.name);
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let found = arguments(&listing, "syscall:openat");
    assert_eq!(argument(&found[1]), ("const char *", "filename"));
    let roles: Vec<ArgumentRole> = found.iter().map(|one| one.role).collect();
    assert_eq!(roles[roles.len() - 2..], [ArgumentRole::Result, ArgumentRole::Duration]);
    let found = arguments(&listing, "sched:sched_process_fork");
    assert!(found.iter().any(|one| argument(one) == ("pid_t", "child_pid")), "{found:?}");
    let all = listing.find("*").probes;
    assert!(all.iter().any(|probe| probe.name == "sched:sched_switch"));
    assert!(!all.iter().any(|probe| probe.name.starts_with("ftrace:")));
    let word = listing.find("tracepoint:sched:sched_swit*").probes;
    assert_eq!(word[0].name, "sched:sched_switch");
    assert!(word.iter().all(|probe| probe.kind == ProbeKind::Tracepoint), "{word:?}");
}

/// Functions that cannot have probes are not listed, and the reason is stated.
#[test]
fn kernel_functions_are_listed_only_if_they_can_have_probes() {
    let listing = Listing::new();
    let found = listing.find("kprobe:vfs_unlink");
    match abilities::has_kernel_functions() {
        true => assert_eq!(found.probes[0].name, "kprobe:vfs_unlink"),
        false => {
            assert_eq!(found.probes, []);
            assert!(found.inabilities[0].1.reason.contains("CONFIG_KPROBE_EVENTS"), "{found:?}");
        }
    }
    let Ok(btf) = listing.btf() else { return };
    let found = listing.find("fentry:vfs_unlink");
    match abilities::typed_function(btf) {
        Err(inability) if inability.kind != InabilityKind::NoRight => {
            assert_eq!((found.probes.len(), found.inabilities.len()), (0, 1));
        }
        _ => {
            let found = listing.arguments(&found.probes[0]).expect("arguments");
            assert!(found.iter().any(|one| argument(one) == ("struct dentry *", "dentry")));
        }
    }
}

#[test]
fn functions_of_this_program() {
    let listing = Listing::new();
    let program = std::env::current_exe().expect("a path");
    let program = program.to_str().expect("text");
    let found = listing.find(&format!("uprobe:{program}:*functions_of_this_program*"));
    let demangled: Vec<&str> =
        found.probes.iter().filter_map(|probe| probe.demangled.as_deref()).collect();
    let name = "blkkin_kernel::listing::tests::functions_of_this_program";
    assert!(demangled.contains(&name), "{found:?}");
    assert!(found.probes[0].name.starts_with(&format!("uprobe:{program}:_")), "{found:?}");
    let found = listing.find("uprobe:no-such-program:*");
    assert!(found.inabilities[0].1.reason.contains("no-such-program"), "{found:?}");
    assert!(listing.find("uprobe:*:main").inabilities[0].1.reason.contains("name a program"));
}

/// A C compiler's USDT probe has types by size and sign. Whether the machine's own libraries have
/// probes depends on their distribution, so the test builds one.
#[test]
fn probes_of_a_library() {
    let scratch = Scratch::new("listing");
    let library = scratch.0.join("libprobes.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/probes.c");
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([library.as_os_str(), source.as_ref()])
        .status();
    assert!(built.expect("a C compiler").success());
    let listing = Listing::new();
    let name = format!("usdt:{}:example:with_arguments", library.display());
    let found = arguments(&listing, &name);
    let types: Vec<_> = found.iter().map(argument).collect();
    let expected =
        [("int32_t", "arg0"), ("uint64_t", "arg1"), ("uint16_t", "arg2"), ("int64_t", "arg3")];
    assert_eq!(types, expected);
}
