//! `cargo xtask peers`: the real programs that BlkKin is tested against. Start at [`PEERS`];
//! [`install`] brings in what is missing where it may.
//!
//! A peer that stays away is said aloud, with what is not tested; with `CI=true` it is a failure.

use crate::{Outcome, is_ci};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// A program that tests and benches use, if it is there.
struct Peer {
    name: &'static str,
    /// What Debian and Ubuntu call it.
    packages: &'static [&'static str],
    /// What Maven is to fetch, when the packages are there.
    artifact: Option<&'static str>,
    is_there: fn() -> bool,
    /// What cannot be tested without it.
    tests: &'static str,
}

const PEERS: [Peer; 9] = [
    Peer {
        name: "lttng",
        packages: &["lttng-tools"],
        artifact: None,
        is_there: || ["lttng", "lttng-sessiond", "lttng-relayd"].iter().all(|name| in_path(name)),
        tests: "recording with LTTng's daemons and live viewing",
    },
    Peer {
        name: "lttng-ust",
        packages: &["liblttng-ust-dev", "pkg-config"],
        artifact: None,
        is_there: || succeeds("pkg-config", &["--exists", "lttng-ust"]),
        tests: "traces of programs instrumented with LTTng-UST",
    },
    Peer {
        name: "babeltrace2",
        packages: &["babeltrace2"],
        artifact: None,
        is_there: || in_path("babeltrace2"),
        tests: "agreement with the reference reader, and speed compared to it",
    },
    Peer {
        name: "gcc",
        packages: &["gcc", "g++", "libc6-dev"],
        artifact: None,
        is_there: || in_path("gcc") && in_path("g++"),
        tests: "programs in C and C++, and fuzzing",
    },
    Peer {
        name: "strace",
        packages: &["strace"],
        artifact: None,
        is_there: || in_path("strace"),
        tests: "that recording makes no system calls",
    },
    Peer {
        name: "shells",
        packages: &["bash", "zsh", "fish"],
        artifact: None,
        is_there: || ["bash", "zsh", "fish"].iter().all(|name| in_path(name)),
        tests: "completion of words by shells",
    },
    Peer {
        name: "cmake",
        packages: &["cmake", "make", "pkg-config"],
        artifact: None,
        is_there: || ["cmake", "make", "pkg-config"].iter().all(|name| in_path(name)),
        tests: "programs that find what was installed",
    },
    Peer {
        name: "man",
        packages: &["man-db", "groff-base"],
        artifact: None,
        is_there: || ["man", "groff"].iter().all(|name| in_path(name)),
        tests: "the manual's pages",
    },
    Peer {
        name: "zipkin",
        packages: &["default-jre-headless", "maven"],
        artifact: Some("io.zipkin:zipkin-server:3.6.1:jar:exec"),
        is_there: || in_path("java") && zipkin_jar().is_file(),
        tests: "that Zipkin's server finds the spans that are sent to it",
    },
];

/// Where Maven keeps Zipkin's server.
fn zipkin_jar() -> PathBuf {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let folder = home.join(".m2/repository/io/zipkin/zipkin-server/3.6.1");
    folder.join("zipkin-server-3.6.1-exec.jar")
}

/// Which peers are there.
#[derive(Default)]
pub(crate) struct Present {
    /// Names, as in `BLKKIN_PEERS`.
    pub(crate) names: Vec<&'static str>,
    /// A line for each peer that is not, with the reason and what is not tested.
    pub(crate) skipped: Vec<String>,
}

pub(crate) fn run() -> Outcome {
    let present = install();
    println!("peers: {}", present.names.join(", "));
    Ok(if present.skipped.is_empty() || !is_ci() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes sure that the peers are there, and prints a line for each that is not.
pub(crate) fn install() -> Present {
    let missing: Vec<&Peer> = PEERS.iter().filter(|peer| !(peer.is_there)()).collect();
    let reason = if missing.is_empty() { None } else { bring_in(&missing).err() };
    let mut present = Present::default();
    for peer in &PEERS {
        if (peer.is_there)() {
            present.names.push(peer.name);
            continue;
        }
        let reason = reason.as_deref().unwrap_or("not found, though its packages are installed");
        let line = format!("skipped: {} ({reason}): {}", peer.name, peer.tests);
        println!("{line}");
        present.skipped.push(line);
    }
    present
}

/// Installs and fetches what is missing.
fn bring_in(missing: &[&Peer]) -> Result<(), String> {
    // Who has all programs needs no packages, nor the right to install them.
    let has_maven = |peer: &&&Peer| peer.artifact.is_some() && in_path("java") && in_path("mvn");
    let without = missing.iter().filter(|peer| !has_maven(peer));
    let packages: Vec<&str> = without.flat_map(|peer| peer.packages).copied().collect();
    let installed = if packages.is_empty() { Ok(()) } else { apt_install(&packages) };
    let fetched = missing.iter().filter_map(|peer| peer.artifact).try_for_each(maven_fetch);
    installed.and(fetched)
}

/// Has Maven fetch a file without what it depends on.
fn maven_fetch(artifact: &str) -> Result<(), String> {
    println!("peers: fetching {artifact}");
    let artifact = format!("-Dartifact={artifact}");
    match succeeds("mvn", &["-q", "-B", "dependency:get", "-Dtransitive=false", &artifact]) {
        true => Ok(()),
        false => Err("mvn dependency:get failed".to_owned()),
    }
}

/// Installs Debian packages, if this process may; otherwise tells why not.
fn apt_install(packages: &[&str]) -> Result<(), String> {
    let list = packages.join(" ");
    if !in_path("apt-get") {
        return Err(format!("there is no apt-get; install what your system calls {list}"));
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(format!("not root; try `sudo apt-get install {list}`"));
    }
    println!("peers: installing {list}");
    apt_get(&["update", "--quiet", "--quiet"])?;
    let mut install = vec!["install", "--yes", "--quiet", "--quiet", "--no-install-recommends"];
    install.extend(packages);
    apt_get(&install)
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start apt-get: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(format!("apt-get {} failed: {last}", arguments[0]))
}

/// Whether a program can be started by its name.
pub(crate) fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::{in_path, succeeds};

    #[test]
    fn programs_are_found() {
        assert!(in_path("sh"));
        assert!(!in_path("no-such-program-of-anybody"));
        assert!(succeeds("sh", &["-c", "exit 0"]));
        assert!(!succeeds("sh", &["-c", "exit 3"]));
        assert!(!succeeds("no-such-program-of-anybody", &[]));
    }
}
