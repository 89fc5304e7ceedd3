//! `cargo xtask layers`: checks the structure of the tree. Data passes through the stations from
//! the first to the last; a crate depends only on its own station and on earlier stations.
//!
//! [`STATIONS`] and the constants of this module are the configuration. [`check_graph`] has the
//! rules on places of crates, dependencies between crates, and licences, [`check_lock`] the rule on
//! forbidden packages, [`check_modules`] the rule on imports within a crate, [`check_unsafe`] the
//! rule on unsafe code. [`architecture`] compares `ARCHITECTURE.md` with the tree. Each problem
//! names the crate, package or file, the rule, and the remedy.

mod architecture;
pub(crate) mod graph;
mod licence;
mod modules;
pub(crate) mod place;
#[cfg(test)]
mod tests;

use crate::tools::{Outcome, at, workspace_root};
use graph::{Graph, Kind};
use modules::Source;
use place::{Place, STATIONS};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Packages that crates of `capture` may not link, directly or indirectly. `capture` runs in other
/// people's processes, so it links no async runtime, HTTP library or JSON parser.
const FORBIDDEN_IN_CAPTURE: [&str; 9] = [
    "async-executor",
    "async-global-executor",
    "async-std",
    "futures-executor",
    "hyper",
    "mio",
    "serde_json",
    "smol",
    "tokio",
];

/// Packages that must not be in `Cargo.lock`, with the reason.
const FORBIDDEN_ANYWHERE: [(&str, &str); 4] = [
    ("openssl-sys", "needs a C library on the user's machine; use rustls with ring"),
    ("native-tls", "needs a C library on the user's machine; use rustls with ring"),
    ("aws-lc-sys", "needs cmake and a C compiler to build; use rustls with ring"),
    ("btf-rs", "BTF is read by our own code"),
];

/// Folders of `crates/` that may contain unsafe code, besides [`UNSAFE_FILES`].
const UNSAFE_ALLOWED: [&str; 4] = ["base/sys", "capture/ring", "capture/capi", "capture/preload"];

/// Files with unsafe code elsewhere. Both register functions that the C library calls before `main`
/// (`start.rs` also at exit); `mapper.rs` also calls C.
const UNSAFE_FILES: [&str; 2] =
    ["crates/capture/trace/src/start.rs", "examples/blockstack/src/mapper.rs"];

/// Source text that is unsafe code, or permits it.
const UNSAFE_TEXT: [&str; 8] = [
    "allow(unsafe_code",
    "expect(unsafe_code",
    "unsafe {",
    "unsafe fn",
    "unsafe impl",
    "unsafe extern",
    "unsafe trait",
    "#[unsafe(",
];

pub(crate) fn run() -> Outcome {
    let root = workspace_root();
    let graph = graph::load(&root)?;
    let mut problems = check_graph(&graph);
    problems.extend(check_lock(&read(&root.join("Cargo.lock"))?));
    let mut files = Vec::new();
    for folder in ["crates", "tests", "examples", "benches"] {
        find_sources(&root.join(folder), &mut files)?;
    }
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file).to_string_lossy();
        problems.extend(check_unsafe(&name, &read(file)?));
    }
    find_sources(&root.join("xtask"), &mut files)?;
    problems.extend(check_modules(&root, &files)?);
    let architecture = read(&root.join("ARCHITECTURE.md"))?;
    problems.extend(architecture::check_architecture(&root, &architecture, &files));
    for problem in &problems {
        eprintln!("{problem}");
    }
    let crates = graph.packages.iter().filter(|package| package.place.is_some()).count();
    if problems.is_empty() {
        println!(
            "layers: {crates} crates of ours, {} in all, {} source files: no problem",
            graph.packages.len(),
            files.len()
        );
        Ok(ExitCode::SUCCESS)
    } else {
        eprintln!("layers: {} problem(s)", problems.len());
        Ok(ExitCode::FAILURE)
    }
}

/// Checks the rules on places of crates, dependencies and licences; returns the problems.
fn check_graph(graph: &Graph) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, package) in graph.packages.iter().enumerate() {
        let Some(place) = &package.place else { continue };
        if let Place::Elsewhere(folder) = place {
            problems.push(format!(
                "{}: is in {folder}, where no crate belongs; move it to crates/STATION/NAME with \
                 STATION one of {}",
                package.name,
                STATIONS.join(", ")
            ));
        }
        for dependency in &package.dependencies {
            let other = &graph.packages[dependency.package];
            let Some(other_place) = &other.place else { continue };
            if !may_depend(place, other_place, dependency.kind) {
                problems.push(format!(
                    "{} ({place}): {} on {} ({other_place}) goes against the data's way; a crate \
                     depends only on its own station or on one that sorts before it. Move what is \
                     shared to an earlier station, or turn the call round",
                    package.name, dependency.kind, other.name
                ));
            }
        }
        if matches!(place, Place::Station("capture")) {
            for name in FORBIDDEN_IN_CAPTURE {
                if let Some(path) = graph.path_to(index, name) {
                    problems.push(format!(
                        "{} (capture): links {name} through {}; capture runs inside other \
                         people's programs and links no async runtime and no JSON. Drop the \
                         dependency, or put it behind a feature that capture leaves off",
                        package.name,
                        path.join(" > ")
                    ));
                }
            }
        }
    }
    problems.extend(check_licences(graph));
    problems
}

/// Returns true if a crate at `from` may depend on a crate at `to`.
fn may_depend(from: &Place, to: &Place, kind: Kind) -> bool {
    match (from, to) {
        // Crates outside of the stations, such as tests, may depend on all stations. So may `top`,
        // the last station.
        (Place::Station("top") | Place::Leaf, Place::Station(_)) => true,
        (Place::Station(from), Place::Station(to)) => to <= from,
        // `blkkin demo` contains an example.
        (Place::Station("top"), Place::Leaf) => true,
        // Tests may use the crates that support tests.
        (_, Place::Leaf) => kind == Kind::Dev || matches!(from, Place::Leaf),
        // Misplaced crates are reported by another rule.
        (Place::Elsewhere(_), _) | (_, Place::Elsewhere(_)) => true,
    }
}

fn check_licences(graph: &Graph) -> Vec<String> {
    let linked = graph.linked();
    let mut problems = Vec::new();
    for (index, package) in graph.packages.iter().enumerate() {
        if package.place.is_some() {
            continue;
        }
        let verdict = match &package.licence {
            Some(licence) => licence::check(licence, linked[index]),
            None => Err("states no licence expression".to_owned()),
        };
        if let Err(why) = verdict {
            problems.push(format!(
                "{}: {why}; look for another crate, or discuss the licence and add it to \
                 xtask/src/layers/licence.rs",
                package.name
            ));
        }
    }
    problems
}

/// Checks that imports within each crate have no cycles; returns the problems.
fn check_modules(root: &Path, files: &[PathBuf]) -> Result<Vec<String>, String> {
    let mut crates: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
        if let Some((folder, file)) = name.split_once("/src/") {
            let source = Source { file: file.to_owned(), text: read(path)? };
            crates.entry(folder.to_owned()).or_default().push(source);
        }
    }
    let mut problems = Vec::new();
    for (folder, sources) in &crates {
        for files in modules::cycles(sources) {
            problems.push(format!(
                "{folder}: {} import each other; move what they share to a module that imports none of them",
                files.join(", ")
            ));
        }
    }
    Ok(problems)
}

/// Checks that `Cargo.lock` lists no forbidden package. The file has the packages of all platforms
/// and features.
fn check_lock(lock: &str) -> Vec<String> {
    FORBIDDEN_ANYWHERE
        .iter()
        .filter(|(name, _)| lock.lines().any(|line| line == format!("name = \"{name}\"")))
        .map(|(name, why)| {
            format!(
                "Cargo.lock: {name} is forbidden ({why}); see who brings it in with \
                 `cargo tree --invert {name} --target all`"
            )
        })
        .collect()
}

/// Checks the text of one file against the rule on places of unsafe code.
fn check_unsafe(file: &str, text: &str) -> Vec<String> {
    let allowed =
        UNSAFE_ALLOWED.iter().any(|folder| file.starts_with(&format!("crates/{folder}/")));
    if allowed || UNSAFE_FILES.contains(&file) {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        if let Some(found) = UNSAFE_TEXT.iter().find(|pattern| code.contains(*pattern)) {
            problems.push(format!(
                "{file}:{}: `{found}` outside of {}; put the unsafe part behind a safe function \
                 in crates/base/sys",
                index + 1,
                UNSAFE_ALLOWED.join(", ")
            ));
        }
    }
    problems
}

fn find_sources(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<(), String> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(at(folder))?.path();
        if path.is_dir() {
            find_sources(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(at(path))
}
