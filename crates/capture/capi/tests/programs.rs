//! Programs in C and C++ that use the library as its users do. A program with an `.expected` file
//! must compile without a warning, with every installed compiler and in all of its language
//! standards. It must then link, run, and print the contents of that file. `docs/blkin.md` has the
//! facts behind these files. The module `life` runs the programs without such a file.

#[path = "programs/life.rs"]
mod life;

use blkkin_sys::testing::{Scratch, figure, is_installed, skip};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];
const C: [&str; 4] = ["c89", "c99", "c11", "gnu17"];
const CXX: [&str; 4] = ["c++11", "c++14", "c++17", "c++20"];

#[derive(Clone, Copy, PartialEq)]
enum Language {
    C,
    Cxx,
}

/// Returns the installed compilers for a language. Without any, reports the test as skipped.
fn compilers(test: &str, language: Language) -> Vec<&'static str> {
    let known = match language {
        Language::C => ["gcc", "clang"],
        Language::Cxx => ["g++", "clang++"],
    };
    let found: Vec<_> = known.into_iter().filter(|name| is_installed(name)).collect();
    if found.is_empty() {
        skip(test, &format!("neither {} nor {} is installed", known[0], known[1]));
    }
    found
}

/// Returns this crate's directory.
fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the directory of the library, which cargo builds before this test.
fn library_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    test.parent().expect("a folder").to_owned()
}

/// Returns the linker option with which a program finds the library at run time. The option names a
/// directory with a symbolic link, because cargo does not name the library by its soname.
fn run_path(scratch: &Scratch) -> String {
    let link = scratch.0.join(env!("BLKKIN_SONAME"));
    let library = library_folder().join("libblkkin.so");
    std::os::unix::fs::symlink(library, link).expect("to make a link");
    format!("-Wl,-rpath,{}", scratch.0.display())
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output
}

/// Compiler, language standard and options with which a program is built.
#[derive(Clone, Copy)]
struct Build<'a> {
    compiler: &'a str,
    language: Language,
    standard: &'a str,
    options: &'a [&'a str],
}

impl Build<'_> {
    fn command(&self, scratch: &Scratch) -> Command {
        let mut command = Command::new(self.compiler);
        let include = here().join("include");
        command.args(WARNINGS).arg(format!("-std={}", self.standard)).args(self.options);
        // Users of blkin include its headers with and without the directory's name.
        command.arg("-I").arg(&include).arg("-I").arg(include.join("blkin"));
        command.current_dir(&scratch.0);
        command
    }

    /// Builds the program, runs it, and compares its output with the expected one.
    #[track_caller]
    fn check(&self, scratch: &Scratch, source: &str, libraries: &[&OsStr]) {
        let programs = here().join("tests/programs");
        let name = stem(source);
        let program = scratch.0.join(name);
        let mut command = self.command(scratch);
        if self.language == Language::Cxx {
            command.args(["-x", "c++"]);
        }
        command.arg(programs.join(source)).args(["-x", "none"]);
        command.args(libraries).arg("-o").arg(&program);
        run(&mut command);
        // Cargo's variable would lead to the library of the last `cargo build`.
        let got = run(Command::new(&program).env_remove("LD_LIBRARY_PATH"));
        let expected = std::fs::read_to_string(programs.join(format!("{name}.expected")));
        let (got, expected) = (String::from_utf8_lossy(&got.stdout), expected.expect("a file"));
        assert!(got == expected, "{command:?}: printed\n{got}\nand not\n{expected}");
    }
}

/// Returns the name of a source file without its suffix. Tests that call [`check`] have that name.
fn stem(source: &str) -> &str {
    source.split_once('.').expect("a source file").0
}

/// Builds and checks a program with all installed compilers and all given standards.
#[track_caller]
fn check(source: &str, language: Language, standards: &[&str], options: &[&str]) {
    let name = source.replace('.', "-");
    let scratch = Scratch::new(&format!("capi-{name}-{}", options.len()));
    let folder = library_folder();
    let rpath = run_path(&scratch);
    for compiler in compilers(stem(source), language) {
        for standard in standards {
            let build = Build { compiler, language, standard, options };
            let listener = scratch.0.join("listener.o");
            if uses_listener(source) {
                let source = here().join("tests/programs/listener.c");
                let mut command =
                    Build { language: Language::C, standard: "c89", options: &[], ..build }
                        .command(&scratch);
                command.args(["-x", "c", "-c"]).arg(source).arg("-o").arg(&listener);
                run(command.arg("-fPIE"));
            }
            let mut libraries = vec![OsStr::new("-L"), folder.as_os_str()];
            libraries.extend([OsStr::new("-lblkkin"), OsStr::new(&rpath), "-pthread".as_ref()]);
            if uses_listener(source) {
                libraries.insert(0, listener.as_os_str());
            }
            build.check(&scratch, source, &libraries);
        }
    }
}

/// Returns true if the program needs `listener.c`, which prints the program's annotations.
fn uses_listener(source: &str) -> bool {
    let source = std::fs::read_to_string(here().join("tests/programs").join(source));
    source.expect("a file").contains("#include \"listener.h\"")
}

#[test]
fn thesis() {
    check("thesis.c", Language::C, &C, &["-O0"]);
    check("thesis.c", Language::Cxx, &CXX, &["-O2"]);
}

#[test]
fn returns() {
    check("returns.c", Language::C, &C, &["-O2"]);
    check("returns.c", Language::Cxx, &CXX, &["-O0"]);
    // Without position-independent code the program has copies of the library's data.
    check("returns.c", Language::C, &["c99"], &["-O2", "-no-pie", "-fno-pie"]);
}

#[test]
fn macros() {
    check("macros.c", Language::C, &C, &["-O0"]);
    check("macros.c", Language::C, &C, &["-O2", "-fPIE"]);
    check("macros.c", Language::Cxx, &CXX, &["-O2"]);
}

#[test]
fn front() {
    // The header's users write designated initializers, which C89 does not have.
    check("front.c", Language::C, &["c99", "c11", "gnu17"], &["-O2"]);
}

#[test]
fn own() {
    check("own.c", Language::C, &C, &["-O2"]);
    check("own.c", Language::Cxx, &CXX, &["-O2"]);
}

#[test]
fn ceph() {
    check("ceph.cc", Language::Cxx, &CXX, &["-O2"]);
}

#[test]
fn factories() {
    check("factories.cc", Language::Cxx, &CXX, &["-O2"]);
    let stand_in = format!("-I{}", here().join("tests/stand_in").display());
    let boost = ["-DBLKIN_BOOST", "-DBLKIN_GLOBAL_STRING", &stand_in];
    check("factories.cc", Language::Cxx, &["c++11", "c++20"], &boost);
}

#[test]
fn raii() {
    check("raii.cc", Language::Cxx, &["c++17", "c++20"], &["-O2"]);
}

/// Headers compile without warnings under stricter options than ours, because users see warnings in
/// headers as their own.
#[test]
fn headers_alone() {
    let scratch = Scratch::new("capi-headers");
    let options = ["-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wcast-qual", "-Wundef"];
    let check = |header: &str, language: Language, standards: &[&str]| {
        let (word, more): (&str, &[&str]) = match language {
            Language::C => ("c", &["-Wstrict-prototypes", "-Wc++-compat"]),
            Language::Cxx => ("c++", &["-Wnon-virtual-dtor", "-Woverloaded-virtual"]),
        };
        let source = scratch.0.join("includes");
        // Included twice, and after another header, as in a program.
        let text = format!("#include <blkkin.h>\n#include <{header}>\n#include <{header}>\n");
        std::fs::write(&source, text).expect("to write");
        for compiler in compilers("headers_alone", language) {
            for standard in standards {
                let build = Build { compiler, language, standard, options: &options };
                let mut command = build.command(&scratch);
                command.args(more).args(["-fsyntax-only", "-x", word]).arg(&source);
                run(&mut command);
            }
        }
    };
    for header in ["blkkin.h", "zipkin_c.h", "blkin-front.h", "blkin/zipkin_c.h"] {
        check(header, Language::C, &C);
        check(header, Language::Cxx, &CXX);
        check(header, Language::Cxx, &["c++98"]);
    }
    check("ztracer.hpp", Language::Cxx, &CXX);
    check("blkkin.hpp", Language::Cxx, &CXX[2..]);
}

/// The examples at the top of the headers compile unchanged.
#[test]
fn examples() {
    let scratch = Scratch::new("capi-examples");
    let check = |header: &str, language: Language, standard: &str, prefix: &str, more: &str| {
        let header = std::fs::read_to_string(here().join("include").join(header)).expect("a file");
        let blank = prefix.trim_end();
        let example: Vec<&str> = header
            .lines()
            .skip_while(|line| !line.starts_with(prefix))
            .map_while(|line| line.strip_prefix(prefix).or((line == blank).then_some("")))
            .collect();
        let (command, code) =
            example.iter().rposition(|line| line.contains("-lblkkin")).map_or_else(
                || panic!("no command to compile the example: {example:?}"),
                |at| (example[at], &example[..at]),
            );
        let source = scratch.0.join(if language == Language::C { "request.c" } else { "serve.cc" });
        assert!(command.contains(source.file_name().and_then(OsStr::to_str).expect("a name")));
        std::fs::write(&source, format!("{more}\n{}\n", code.join("\n"))).expect("to write");
        for compiler in compilers("examples", language) {
            let build = Build { compiler, language, standard, options: &["-O2"] };
            run(build.command(&scratch).arg("-fsyntax-only").arg(&source));
        }
    };
    check("blkkin.h", Language::C, "c89", " *     ", "");
    check("blkkin.hpp", Language::Cxx, "c++17", "//     ", "void send(const char *);");
}

/// Programs can be linked with the static library.
#[test]
fn statically_linked() {
    let scratch = Scratch::new("capi-static");
    let library = library_folder().join("libblkkin.a");
    let mut libraries = vec![library.as_os_str()];
    libraries.extend(["-pthread", "-ldl", "-lm", "-lgcc_s"].map(OsStr::new));
    for compiler in compilers("statically_linked", Language::C) {
        let build = Build { compiler, language: Language::C, standard: "c99", options: &[] };
        build.check(&scratch, "returns.c", &libraries);
        build.check(&scratch, "own.c", &libraries);
    }
}

/// The library exports exactly the functions and data of the header.
#[test]
fn exported_symbols() {
    if !is_installed("nm") {
        return skip("exported_symbols", "nm is not installed");
    }
    let mut command = Command::new("nm");
    command.args(["--dynamic", "--defined-only", "--format=posix"]);
    let output = run(command.arg(library_folder().join("libblkkin.so")));
    let output = String::from_utf8_lossy(&output.stdout);
    let mut got: Vec<&str> = output.lines().filter_map(|line| line.split(' ').next()).collect();

    let with_underscore = BLKIN.iter().map(|name| format!("_{name}"));
    let mut expected: Vec<String> = with_underscore.collect();
    expected.extend([&BLKIN[..], &OWN, &DATA].concat().into_iter().map(str::to_owned));
    got.sort_unstable();
    expected.sort();
    assert_eq!(got, expected);
}

const BLKIN: [&str; 15] = [
    "blkin_init",
    "blkin_init_endpoint",
    "blkin_init_new_trace",
    "blkin_init_trace_info",
    "blkin_init_child",
    "blkin_init_child_info",
    "blkin_init_string_annotation",
    "blkin_init_integer_annotation",
    "blkin_init_timestamp_annotation",
    "blkin_record",
    "blkin_get_trace_info",
    "blkin_set_trace_info",
    "blkin_set_trace_properties",
    "blkin_pack_trace_info",
    "blkin_unpack_trace_info",
];

const OWN: [&str; 16] = [
    "blkkin_know_",
    "blkkin_record_",
    "blkkin_enabled_by_now",
    "blkkin_set_context",
    "blkkin_event",
    "blkkin_keyval_string",
    "blkkin_keyval_integer",
    "blkkin_new_id",
    "blkkin_context_init",
    "blkkin_traceparent_parse",
    "blkkin_traceparent_format",
    "blkkin_b3_parse",
    "blkkin_b3_format",
    "blkkin_span_enter",
    "blkkin_context_enter",
    "blkkin_span_exit",
];

const DATA: [&str; 13] = [
    "blkkin_unknown_",
    "blkkin_call_",
    "blkkin_enabled_levels",
    "CLIENT_SEND",
    "CLIENT_RECV",
    "SERVER_SEND",
    "SERVER_RECV",
    "WIRE_SEND",
    "WIRE_RECV",
    "CLIENT_SEND_FRAGMENT",
    "CLIENT_RECV_FRAGMENT",
    "SERVER_SEND_FRAGMENT",
    "SERVER_RECV_FRAGMENT",
];
