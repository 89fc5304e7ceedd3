//! Tests of the installed files with compilers, pkg-config, CMake, shells, man, systemd and linked
//! programs. The repository provides only the programs' sources and the README.

use super::support::{
    PREFIX, compile, have, installed, pkg_config, record, sources, succeed, text,
};
use crate::install::hints::{User, hints};
use crate::install::plan;
use blkkin_sys::testing::Scratch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const NEEDED: [&str; 4] = ["cc", "c++", "pkg-config", "babeltrace2"];

/// Compiles and records a program, and checks that it needs the shared library. `packages` are
/// pkg-config's arguments; if empty, pkg-config is not called.
#[track_caller]
fn check(test: &str, compiler: &str, source: PathBuf, options: &[&str], packages: &[&str]) {
    if !have(test, &NEEDED) {
        return;
    }
    let scratch = Scratch::new(test);
    let program = scratch.0.join("program");
    let mut all: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    if !packages.is_empty() {
        all.extend(pkg_config(packages));
    }
    compile(compiler, &[source], &all, &program);
    record(&program, &[]);
    // The program must need the library by its versioned name.
    let needed = succeed(Command::new("ldd").arg(&program));
    let needed = text(&needed.stdout);
    assert!(needed.contains(&plan::names().soname), "{needed}");
}

#[test]
fn c_with_pkg_config() {
    let packages = ["--cflags", "--libs", "blkkin"];
    check("install-c", "cc", sources("installed").join("request.c"), &["-std=c99"], &packages);
}

/// The commands `export` of the hints, and then the README's command to record a program, work in a
/// shell with an empty environment and the default `PATH`.
#[test]
fn what_is_printed_works_in_a_users_shell() {
    if !have("install-hints", &NEEDED) {
        return;
    }
    let scratch = Scratch::new("install-hints");
    let user = User { is_root: false, has_systemd: true, variable: &|_| String::new() };
    let printed = hints(installed(), &user);
    let exports: Vec<&str> = printed.lines().filter(|line| line.contains("export ")).collect();
    assert_eq!(exports.len(), 3, "{printed}");
    let source = sources("installed").join("request.c");
    let readme =
        fs::read_to_string(crate::tools::workspace_root().join("README.md")).expect("README");
    let record = readme.lines().find(|line| line.starts_with("blkkin record -o trace -- ./a.out"));
    let record = record.expect("how to record").split("  ").next().expect("a command");
    let script = format!(
        "set -e\n{}\ncc -std=c99 {} $(pkg-config --cflags --libs blkkin)\n{record}",
        exports.join("\n"),
        source.display(),
    );
    let mut shell = Command::new("sh");
    shell.env_clear().env("PATH", "/usr/bin:/bin").args(["-c", &script]).current_dir(&scratch.0);
    let output = shell.output().expect("a shell");
    let lines = text(&output.stdout);
    assert!(output.status.success() && lines.lines().count() > 1, "{script}\n{output:?}");
}

#[test]
fn cxx_with_pkg_config() {
    let source = sources("installed").join("serve.cc");
    check("install-cxx", "c++", source, &["-std=c++17"], &["--cflags", "--libs", "blkin"]);
}

#[test]
fn blkin_with_pkg_config() {
    for package in ["blkin", "libblkin"] {
        let source = sources("blkin").join("program.c");
        check("install-blkin", "cc", source, &[], &["--cflags", "--libs", package]);
    }
}

/// Programs can be linked by the names of blkin's libraries, which existing programs use.
#[test]
fn blkin_by_its_libraries_names() {
    let root = installed();
    let include = format!("-I{}", root.join("include/blkin").display());
    let folder = format!("-L{}", root.join("lib").display());
    for libraries in [
        &["-lblkin", "-lblkkin"][..],
        &["-lblkin"],
        &["-lblkin-front"],
        &["-lzipkin-c", "-lblkin-front", "-lzipkin-cpp"],
    ] {
        let options = [&["-std=c99", &include, &folder][..], libraries].concat();
        check("install-names", "cc", sources("blkin").join("program.c"), &options, &[]);
    }
}

/// The static library can be linked into a dynamically linked program and into a static program.
#[test]
fn linked_statically() {
    if !have("install-static", &NEEDED) {
        return;
    }
    let scratch = Scratch::new("install-static");
    let library = installed().join("lib/libblkkin.a");
    let cflags = pkg_config(&["--cflags", "blkkin"]);
    let private = pkg_config(&["--static", "--libs-only-other", "blkkin"]);
    let libraries = pkg_config(&["--static", "--libs-only-l", "blkkin"]);
    let by_name = [vec![library.display().to_string()], private.clone()].concat();
    let all = pkg_config(&["--static", "--libs", "blkkin"]);
    assert!(libraries.contains(&"-lblkkin".to_owned()) && all.contains(&"-pthread".to_owned()));
    let whole = [vec!["-static".to_owned()], all].concat();
    let sources = sources("installed");
    for (name, compiler, source, options) in [
        ("c-by-name", "cc", "request.c", &by_name),
        ("c-whole", "cc", "request.c", &whole),
        ("cxx-by-name", "c++", "serve.cc", &[by_name.clone(), with_blkin()].concat()),
        ("cxx-whole", "c++", "serve.cc", &[whole.clone(), with_blkin()].concat()),
    ] {
        let program = scratch.0.join(name);
        let options = [cflags.clone(), options.clone()].concat();
        compile(compiler, &[sources.join(source)], &options, &program);
        record(&program, &[]);
        let dynamic = fs::read(&program).expect("the program");
        let names = plan::names().soname;
        let mut windows = dynamic.windows(names.len());
        assert!(!windows.any(|window| window == names.as_bytes()), "{name} loads the library");
    }
}

fn with_blkin() -> Vec<String> {
    [vec!["-std=c++17".to_owned()], pkg_config(&["--cflags", "blkin"])].concat()
}

#[test]
fn cmake_finds_the_package() {
    if !have("install-cmake", &[&NEEDED[..], &["cmake", "make"]].concat()) {
        return;
    }
    let scratch = Scratch::new("install-cmake");
    let configure = |wanted: &str| {
        let mut command = Command::new("cmake");
        command.arg("-S").arg(sources("installed/cmake")).arg("-B").arg(scratch.0.join(wanted));
        command.arg(format!("-DCMAKE_PREFIX_PATH={}", installed().display()));
        command.arg(format!("-DWANTED={wanted}"));
        command
    };
    let version = env!("CARGO_PKG_VERSION");
    succeed(&mut configure(version));
    let folder = scratch.0.join(version);
    succeed(Command::new("cmake").arg("--build").arg(&folder));
    for program in
        ["request_blkkin", "request_blkkin_static", "serve_blkkin", "serve_blkkin_static"]
    {
        record(&folder.join(program), &[]);
    }
    // A newer version and an incompatible old one are refused.
    for other in ["99.0", "0.0.1"] {
        let output = configure(other).output().expect("cmake");
        let errors = text(&output.stderr);
        assert!(!output.status.success() && errors.contains("blkkin-config.cmake"), "{errors}");
    }
}

/// Apart from programs and libraries, only the systemd units contain the prefix: all other files of
/// a package can be unpacked at another path.
#[test]
fn only_the_unit_knows_the_prefix() {
    let root = installed();
    let mut knowing = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let is_program = path.starts_with(root.join("bin"))
                || path.to_string_lossy().contains(".so")
                || path.extension().is_some_and(|extension| extension == "a");
            let contents = fs::read(&path).expect("a file");
            let has = |words: &str| {
                contents.windows(words.len()).any(|window| window == words.as_bytes())
            };
            if !is_program && (has(PREFIX) || has(&root.to_string_lossy())) {
                knowing.push(path.strip_prefix(root).expect("below").to_owned());
            }
            // The placeholders of prefix and version must have been replaced.
            assert!(is_program || !has("@PREFIX@") && !has("@VERSION@"), "{}", path.display());
        }
    }
    knowing.sort();
    let mut expected = UNITS.map(|(unit, ..)| Path::new("lib/systemd/system").join(unit)).to_vec();
    expected.push("share/blkkin/init.d/blkkin".into());
    assert_eq!(knowing, expected);
}

/// Systemd units, the subcommands of `blkkin` that they start, and further arguments.
const UNITS: [(&str, &str, &str); 4] = [
    ("blkkin-agent.service", "agent", ""),
    ("blkkin-recorder@.service", "service", " run %i"),
    ("blkkin-relay.service", "relay", ""),
    ("blkkin-server.service", "server", ""),
];

#[test]
fn the_units_are_units() {
    if !have("install-unit", &["systemd-analyze"]) {
        return;
    }
    let scratch = Scratch::new("install-unit");
    for (name, command, arguments) in UNITS {
        let unit = installed().join("lib/systemd/system").join(name);
        let unit = fs::read_to_string(unit).expect("the unit");
        let line = format!("\nExecStart={PREFIX}/bin/blkkin {command}{arguments}\n");
        assert!(unit.contains(&line), "{unit}");
        // The unit with the program's actual path, and without its manual page, which man cannot
        // find.
        let unit = unit
            .replace(PREFIX, &installed().to_string_lossy())
            .replace(&format!("Documentation=man:blkkin-{command}(1)\n"), "");
        fs::write(scratch.0.join(name), unit).expect("to write");
    }
    let folder = installed().join("lib/systemd/system");
    for socket in ["blkkin-agent.socket", "blkkin-relay.socket", "blkkin-server.socket"] {
        let unit = fs::read_to_string(folder.join(socket)).expect("the unit");
        let documented = unit.lines().filter(|line| !line.starts_with("Documentation="));
        let unit: String = documented.map(|line| format!("{line}\n")).collect();
        fs::write(scratch.0.join(socket), unit).expect("to write");
    }
    for entry in fs::read_dir(&scratch.0).expect("units") {
        let path = entry.expect("an entry").path();
        let output = succeed(Command::new("systemd-analyze").arg("verify").arg(&path));
        assert_eq!(text(&output.stderr), "", "{}", path.display());
    }
}

#[test]
fn the_init_script_refuses_other_verbs() {
    let script = installed().join("share/blkkin/init.d/blkkin");
    let text_of = fs::read_to_string(&script).expect("the script");
    let scratch = Scratch::new("install-init");
    let own = scratch.0.join("blkkin");
    fs::write(&own, text_of.replace(PREFIX, &installed().to_string_lossy())).expect("to write");
    let output = Command::new("sh").arg(&own).arg("begin").output().expect("a shell");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("usage: "), "{}", text(&output.stderr));
}

#[test]
fn the_manual_reads_without_warnings() {
    if !have("install-man", &["man", "groff"]) {
        return;
    }
    let folder = installed().join("share/man/man1");
    let mut pages = 0;
    for entry in fs::read_dir(&folder).expect("pages") {
        let path = entry.expect("an entry").path();
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(&path);
        let output = succeed(man.env("MANWIDTH", "100"));
        assert_eq!(text(&output.stderr), "", "{}", path.display());
        assert!(!output.stdout.is_empty(), "{}", path.display());
        pages += 1;
    }
    assert!(pages > 10, "{pages} pages");
}

/// In zsh, completion works at the first attempt, in which zsh runs the installed file as a
/// function.
#[test]
fn zsh_completes_at_once() {
    if !have("install-zsh", &["zsh"]) {
        return;
    }
    let root = installed();
    let script = "fpath=($1/share/zsh/site-functions $fpath); autoload -Uz _blkkin; \
                  compdef() { : }; _describe() { print -l ${(P)${@[-1]}} ${(P)${@[3]}} }; \
                  words=(blkkin comp); CURRENT=2; _blkkin";
    let path = std::env::var("PATH").unwrap_or_default();
    let mut zsh = Command::new("zsh");
    zsh.args(["-f", "-c", script, "zsh"]).arg(root);
    zsh.env("PATH", format!("{}:{path}", root.join("bin").display()));
    let words = text(&succeed(&mut zsh).stdout);
    assert!(words.contains("completions"), "{words}");
}
