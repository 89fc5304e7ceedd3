//! Programs of this machine's compilers: functions are those that `nm` lists, and USDT probes those
//! that `readelf` lists.

use blkkin_kernel::{ArgumentLocation, Symbol, UsdtProbe, UserProgram, resolve};
use blkkin_sys::testing::{Scratch, is_installed, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/probes.c");

/// Returns true if the programs are installed, and reports the test as skipped if not.
fn has_programs(test: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !is_installed(program));
    if let Some(program) = missing {
        skip(test, &format!("{program} is not installed"));
    } else if !cfg!(target_arch = "x86_64") {
        skip(test, "the probes are for x86-64");
        return false;
    }
    missing.is_none()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output();
    let output = output.expect("a program that is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Compiles the program with probes.
fn compile(scratch: &Scratch, name: &str, options: &[&str]) -> PathBuf {
    let path = scratch.0.join(name);
    let target = path.to_str().expect("a path");
    run("cc", &[options, &["-g", "-Wl,--build-id=sha1", "-o", target, SOURCE]].concat());
    path
}

/// Returns the functions by name as `nm` lists them, with address and size.
fn listed_by_nm(path: &Path) -> BTreeMap<String, (u64, u64)> {
    let text = run("nm", &["--defined-only", "--format=sysv", path.to_str().expect("a path")]);
    let functions = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, address, _, "FUNC", size, ..] = fields[..] else { return None };
        let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
        Some((name.to_owned(), (number(address), number(size))))
    });
    functions.collect()
}

/// Returns the difference between addresses and offsets of the code, as `readelf` lists segments.
fn code_distance(path: &Path) -> u64 {
    let text = run("readelf", &["--program-headers", "--wide", path.to_str().expect("a path")]);
    let line = text.lines().find(|line| line.contains("LOAD") && line.contains(" R E "));
    let fields: Vec<&str> = line.expect("a segment of code").split_whitespace().collect();
    let number = |index: usize| {
        u64::from_str_radix(fields[index].trim_start_matches("0x"), 16).expect("a number")
    };
    number(2) - number(1)
}

/// The functions of programs at fixed and at any addresses are those that `nm` lists, at the file
/// offsets that follow from the segments that `readelf` lists.
#[test]
fn functions_are_those_of_nm() {
    let test = "functions_are_those_of_nm";
    if !has_programs(test, &["cc", "nm", "readelf"]) {
        return;
    }
    let scratch = Scratch::new("functions");
    for (name, options) in [("pie", ["-pie", "-fPIE"]), ("fixed", ["-no-pie", "-fno-PIE"])] {
        let path = compile(&scratch, name, &options);
        let program = UserProgram::open(&path).expect("a program");
        assert_eq!(program.is_position_independent(), name == "pie");
        assert_eq!(program.build_id().map(<[u8]>::len), Some(20));
        let distance = code_distance(&path);
        let symbols = program.symbols("*").expect("symbols");
        let found: BTreeMap<String, (u64, u64)> = symbols
            .iter()
            .flat_map(|symbol| {
                let names = symbol.other_names.iter().chain([&symbol.name]);
                names.map(|name| (name.clone(), (symbol.file_offset + distance, symbol.size)))
            })
            .collect();
        assert!(found.contains_key("main") && found.contains_key("hidden"), "{found:?}");
        assert_eq!(found, listed_by_nm(&path));
    }
}

/// Probe as `readelf` lists it: provider, name, address, semaphore, arguments.
type ListedProbe = (String, String, u64, u64, String);

fn listed_by_readelf(path: &Path) -> Vec<ListedProbe> {
    let text = run("readelf", &["--notes", "--wide", path.to_str().expect("a path")]);
    let value = |lines: &[&str], name: &str| {
        let found = lines.iter().find_map(|line| line.split_once(name));
        found.map(|parts| parts.1.trim().to_owned())
    };
    let lines: Vec<&str> = text.lines().collect();
    let starts = (0..lines.len()).filter(|index| lines[*index].contains("Provider: "));
    let probes = starts.map(|start| {
        let lines = &lines[start..lines.len().min(start + 4)];
        let places = value(lines, "Location: ").expect("a location");
        let numbers: Vec<u64> = places
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .filter_map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
            .collect();
        let arguments = value(lines, "Arguments:").unwrap_or_default();
        let provider = value(lines, "Provider: ").unwrap_or_default();
        (provider, value(lines, "Name: ").unwrap_or_default(), numbers[0], numbers[2], arguments)
    });
    probes.collect()
}

/// The probes are those of `readelf`, also in a stripped program, and their arguments those of the
/// source.
#[test]
fn probes_are_those_of_readelf() {
    let test = "probes_are_those_of_readelf";
    if !has_programs(test, &["cc", "readelf", "strip"]) {
        return;
    }
    let scratch = Scratch::new("probes");
    let path = compile(&scratch, "probes", &["-O1"]);
    let program = UserProgram::open(&path).expect("a program");
    let probes = program.usdt().expect("probes");
    let distance = code_distance(&path);
    let listed = listed_by_readelf(&path);
    assert_eq!(listed.len(), 3, "{listed:?}");
    for (probe, listed) in probes.iter().zip(&listed) {
        assert_eq!((&probe.provider, &probe.name), (&listed.0, &listed.1));
        assert_eq!(probe.file_offset + distance, listed.2);
        assert_eq!(probe.semaphore_offset.is_some(), listed.3 != 0);
        assert_eq!(probe.arguments.len(), listed.4.split_whitespace().count(), "{listed:?}");
    }
    let with_arguments = probes.iter().find(|probe| probe.name == "with_arguments");
    check_arguments(with_arguments.expect("the probe"), &std::fs::read(&path).expect("bytes"));
    let plain: BTreeSet<u64> = probes
        .iter()
        .filter(|probe| probe.name == "plain")
        .map(|probe| probe.file_offset)
        .collect();
    assert_eq!(plain.len(), 2);
    run("strip", &[path.to_str().expect("a path")]);
    let stripped = UserProgram::open(&path).expect("a program");
    assert_eq!(stripped.symbols("hidden").expect("symbols"), []);
    let places = |probes: &[UsdtProbe]| -> Vec<u64> {
        probes.iter().map(|probe| probe.file_offset).collect()
    };
    assert_eq!(places(&stripped.usdt().expect("probes")), places(&probes));
}

/// Checks the arguments of the probe `with_arguments` in a program's bytes.
fn check_arguments(probe: &UsdtProbe, bytes: &[u8]) {
    assert_eq!(bytes[probe.file_offset as usize], 0x90, "the instruction is no `nop`");
    let semaphore = probe.semaphore_offset.expect("a semaphore") as usize;
    assert_eq!(bytes[semaphore..semaphore + 2], [0, 0]);
    let [number, memory, constant, variable] = &probe.arguments[..] else { panic!("{probe:?}") };
    assert!(number.is_signed && number.size == 4);
    assert!(
        matches!(number.location, ArgumentLocation::Register { size_in_register: 4, .. }),
        "{number:?}"
    );
    assert!(
        matches!(memory.location, ArgumentLocation::Memory { displacement: 8, index: None, .. }),
        "{memory:?}"
    );
    assert_eq!(constant.location, ArgumentLocation::Constant(7));
    let ArgumentLocation::RipRelative { symbol, from_probe: Some(_), .. } = &variable.location
    else {
        panic!("{variable:?}")
    };
    assert_eq!(symbol, "shared_variable");
}

/// The symbols of a stripped program come from its debug file.
#[test]
fn symbols_of_a_debug_file() {
    let test = "symbols_of_a_debug_file";
    if !has_programs(test, &["cc", "objcopy"]) {
        return;
    }
    let scratch = Scratch::new("debug-file");
    let path = compile(&scratch, "split", &[]);
    let expected = UserProgram::open(&path).expect("a program").symbols("hidden");
    let expected: Vec<Symbol> = expected.expect("symbols");
    assert_eq!(expected.len(), 1);
    let text = |path: &Path| path.to_str().expect("a path").to_owned();
    let (program, debug) = (text(&path), text(&scratch.0.join("split.debug")));
    run("objcopy", &["--only-keep-debug", &program, &debug]);
    let link = format!("--add-gnu-debuglink={debug}");
    run("objcopy", &["--strip-all", &link, &program]);
    let stripped = UserProgram::open(&path).expect("a program");
    assert!(stripped.has_debug_file());
    assert_eq!(stripped.symbols("hidden").expect("symbols"), expected);
    let alone = UserProgram::open(Path::new(&debug)).expect("a debug file");
    assert_eq!(alone.symbols("hidden").expect("no code"), []);
    let error = alone.usdt().expect_err("a file without code").to_string();
    assert!(error.ends_with("a separate file of debug information has no code"), "{error}");
}

/// Function to be found, which the compiler keeps apart from its caller.
#[inline(never)]
fn probed_function(number: u32) -> u32 {
    std::hint::black_box(number) + 1
}

/// A function of this test program is found by its name in Rust.
#[test]
fn function_of_rust_by_demangled_name() {
    assert_eq!(probed_function(1), 2);
    let path = std::env::current_exe().expect("the program");
    let program = UserProgram::open(&path).expect("a program");
    let name = "programs::probed_function";
    let symbols = program.symbols(name).expect("symbols");
    let [symbol] = &symbols[..] else { panic!("{symbols:?}") };
    assert_eq!(symbol.demangled.as_deref(), Some(name));
    assert_ne!(symbol.name, name);
    assert!(symbol.size > 0);
    let all = program.symbols("programs::*").expect("symbols");
    assert!(all.len() > 1 && all.contains(symbol), "{all:?}");
}

/// Functions and probes of the C library can be read, whatever this system installs.
#[test]
fn functions_of_the_c_library() {
    let test = "functions_of_the_c_library";
    let Ok(path) = resolve("libc.so.6") else { return skip(test, "there is no libc.so.6") };
    let program = UserProgram::open(&path).expect("a library");
    let symbols = program.symbols("malloc").expect("symbols");
    assert_eq!(symbols.len(), 1, "{symbols:?}");
    assert!(program.is_position_independent());
    let probes = program.usdt().expect("probes");
    let arguments = probes.iter().flat_map(|probe| &probe.arguments);
    let unsupported: Vec<_> = arguments
        .filter(|argument| matches!(argument.location, ArgumentLocation::Unsupported(_)))
        .collect();
    assert!(!cfg!(target_arch = "x86_64") || unsupported.is_empty(), "{unsupported:?}");
}
