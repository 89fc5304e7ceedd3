//! `cargo xtask peers`: the real programs that BlkKin is tested against. Start at [`PEERS`];
//! [`install`] downloads missing peers as any user, and installs Debian packages as root.
//!
//! A missing peer is reported with the tests that are skipped; with `CI=true` it is a failure.

use crate::tools::{Outcome, is_ci, target_dir, workspace_root};
use blkkin_sys::testing::guest_obstacle;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use Environment::{Newest, Older};

/// Programs or libraries of another project that tests and benches use if they are installed.
struct Peer {
    name: &'static str,
    /// Packages of Debian and Ubuntu that contain the peer, or that its download requires.
    packages: &'static [&'static str],
    /// Download of the peer, if its packages do not contain it.
    fetch: Fetch,
    is_installed: fn() -> bool,
    /// Description of the tests that need the peer.
    tests: &'static str,
}

/// Download of a peer from PyPI, npm or Maven Central, for a peer that the packages of Debian and
/// Ubuntu do not contain; or of a package that is not to be installed.
#[derive(Clone, Copy)]
enum Fetch {
    Nothing,
    /// Packages from PyPI, into a virtual environment.
    Pip(Environment, &'static [&'static str]),
    /// Packages from npm by the lock file of [`NODE_CLIENTS`], into the folder [`node_modules`].
    Npm,
    /// Artifact from Maven Central, without its dependencies.
    Maven(&'static str),
    /// Kernel of Debian or Ubuntu for guests, without installing its package.
    Kernel,
}

/// Virtual environment of Python.
#[derive(Clone, Copy)]
pub(crate) enum Environment {
    /// Environment with current versions.
    Newest,
    /// Environment with versions that conflict with current versions: protobuf 3, and a py_zipkin
    /// with thrift.
    Older,
}

/// Folder of the tests' client programs, with npm's lock file.
const NODE_CLIENTS: &str = "crates/top/blkkin/tests/clients";

const PEERS: [Peer; 23] = [
    Peer {
        name: "lttng",
        packages: &["lttng-tools"],
        fetch: Fetch::Nothing,
        is_installed: || {
            ["lttng", "lttng-sessiond", "lttng-relayd"].iter().all(|name| in_path(name))
        },
        tests: "recording with LTTng's daemons and live viewing",
    },
    Peer {
        name: "lttng-ust",
        packages: &["liblttng-ust-dev", "pkg-config"],
        fetch: Fetch::Nothing,
        is_installed: || succeeds("pkg-config", &["--exists", "lttng-ust"]),
        tests: "traces of programs instrumented with LTTng-UST",
    },
    Peer {
        name: "babeltrace2",
        packages: &["babeltrace2"],
        fetch: Fetch::Nothing,
        is_installed: || in_path("babeltrace2"),
        tests: "agreement with the reference reader, and speed compared to it",
    },
    Peer {
        name: "gcc",
        packages: &["gcc", "g++", "libc6-dev"],
        fetch: Fetch::Nothing,
        is_installed: || in_path("gcc") && in_path("g++"),
        tests: "programs in C and C++, and fuzzing",
    },
    Peer {
        name: "strace",
        packages: &["strace"],
        fetch: Fetch::Nothing,
        is_installed: || in_path("strace"),
        tests: "that recording makes no system calls",
    },
    Peer {
        name: "bpftrace",
        packages: &["bpftrace"],
        fetch: Fetch::Nothing,
        is_installed: || in_path("bpftrace"),
        tests: "events as USDT probes",
    },
    Peer {
        name: "perf",
        packages: &["linux-perf"],
        fetch: Fetch::Nothing,
        is_installed: || succeeds("perf", &["version"]),
        tests: "agreement about the times in which threads wait, and events as USDT probes",
    },
    Peer {
        name: "systemtap",
        packages: &["systemtap"],
        fetch: Fetch::Nothing,
        is_installed: || in_path("stap"),
        tests: "events as USDT probes",
    },
    Peer {
        name: "shells",
        packages: &["bash", "zsh", "fish"],
        fetch: Fetch::Nothing,
        is_installed: || ["bash", "zsh", "fish"].iter().all(|name| in_path(name)),
        tests: "completion of words by shells",
    },
    Peer {
        name: "cmake",
        packages: &["cmake", "make", "pkg-config"],
        fetch: Fetch::Nothing,
        is_installed: || ["cmake", "make", "pkg-config"].iter().all(|name| in_path(name)),
        tests: "programs that find what was installed",
    },
    Peer {
        name: "nbd-clients",
        packages: &["qemu-utils", "qemu-system-x86", "libnbd-bin", "fio"],
        fetch: Fetch::Nothing,
        is_installed: || {
            ["qemu-img", "qemu-io", "qemu-system-x86_64", "nbdinfo", "nbdcopy", "fio"]
                .iter()
                .all(|name| in_path(name))
        },
        tests: "what others' clients of network block devices do with the example of block storage",
    },
    Peer {
        name: "nbdkit",
        packages: &["nbdkit"],
        fetch: Fetch::Nothing,
        is_installed: || in_path("nbdkit"),
        tests: "what another server of network block devices costs, in the bench of block storage",
    },
    Peer {
        name: "disks",
        packages: &["qemu-system-common", "qemu-utils", "e2fsprogs", "xfsprogs", "mount"],
        fetch: Fetch::Nothing,
        is_installed: || {
            ["qemu-storage-daemon", "mkfs.ext4", "mkfs.xfs", "mount"]
                .iter()
                .all(|name| in_path(name))
        },
        tests: "that what is stored outlives power cuts",
    },
    Peer {
        name: "guest",
        packages: &["qemu-system-x86"],
        fetch: Fetch::Kernel,
        is_installed: || guest_obstacle().is_none(),
        tests: "probes on functions, by another kernel in a virtual machine",
    },
    Peer {
        name: "faketime",
        packages: &["faketime"],
        fetch: Fetch::Nothing,
        is_installed: || in_path("faketime"),
        tests: "nodes whose clocks disagree",
    },
    Peer {
        name: "man",
        packages: &["man-db", "groff-base"],
        fetch: Fetch::Nothing,
        is_installed: || ["man", "groff"].iter().all(|name| in_path(name)),
        tests: "the manual's pages",
    },
    Peer {
        name: "facebook-scribe",
        packages: &["python3-venv"],
        fetch: Fetch::Pip(Newest, &["facebook-scribe==2.0.post1", "thrift==0.25.0"]),
        is_installed: || has_modules(Newest, "scribe, thrift"),
        tests: "the client that Scribe's makers have published",
    },
    Peer {
        name: "python-clients",
        packages: &["python3-venv"],
        fetch: Fetch::Pip(
            Newest,
            &[
                "py_zipkin[protobuf]==1.2.8",
                "opentelemetry-sdk==1.45.2",
                "opentelemetry-exporter-otlp-proto-http==1.45.2",
                "opentelemetry-exporter-otlp-proto-grpc==1.45.2",
                "opentelemetry-exporter-zipkin-json==1.45.1",
                "grpcio==1.85.1",
                "protobuf==7.36.2",
            ],
        ),
        is_installed: || {
            has_modules(Newest, "py_zipkin, google.protobuf, opentelemetry.exporter.zipkin.json")
                && has_modules(Newest, "opentelemetry.exporter.otlp.proto.http.trace_exporter")
                && has_modules(Newest, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter")
        },
        tests: "what py_zipkin and OpenTelemetry's SDK for Python send",
    },
    Peer {
        name: "python-clients-older",
        packages: &["python3-venv"],
        fetch: Fetch::Pip(
            Older,
            &[
                "py_zipkin==0.20.2",
                "thriftpy2==0.7.1",
                "facebook-scribe==2.0.post1",
                "thrift==0.25.0",
                "opentelemetry-sdk==1.45.2",
                "opentelemetry-exporter-zipkin-proto-http==1.45.1",
                "protobuf==3.20.3",
            ],
        ),
        is_installed: || {
            has_modules(Older, "py_zipkin, thriftpy2, scribe, thrift")
                && has_modules(Older, "opentelemetry.exporter.zipkin.proto.http")
        },
        tests: "what py_zipkin sends as thrift, and OpenTelemetry's SDK for Python as Zipkin's protobuf",
    },
    Peer {
        name: "node-clients",
        packages: &["nodejs", "npm"],
        fetch: Fetch::Npm,
        is_installed: || in_path("node") && has_node_modules(),
        tests: "what Zipkin's and OpenTelemetry's libraries for node send",
    },
    Peer {
        name: "chromium",
        packages: &["chromium-headless-shell"],
        fetch: Fetch::Nothing,
        is_installed: || BROWSERS.into_iter().any(in_path),
        tests: "the screen, in a browser",
    },
    Peer {
        name: "duckdb",
        packages: &["python3-venv"],
        fetch: Fetch::Pip(Newest, &["duckdb==2.0.0", "pyarrow==26.0.1", "pytz==2026.6"]),
        is_installed: || has_modules(Newest, "duckdb, pyarrow, pytz"),
        tests: "files of spans, read by DuckDB and pyarrow",
    },
    Peer {
        name: "zipkin",
        packages: &["default-jre-headless", "maven"],
        fetch: Fetch::Maven("io.zipkin:zipkin-server:3.6.1:jar:exec"),
        is_installed: || in_path("java") && zipkin_jar().is_file(),
        tests: "that Zipkin's server finds the spans that are sent to it",
    },
];

/// Returns the Python interpreter of an environment.
pub(crate) fn python(environment: Environment) -> PathBuf {
    python_folder(environment).join("bin/python")
}

fn python_folder(environment: Environment) -> PathBuf {
    target_dir().join(match environment {
        Newest => "peers/python",
        Older => "peers/python-older",
    })
}

/// Returns true if an environment has these modules.
fn has_modules(environment: Environment, modules: &str) -> bool {
    succeeds(&python(environment).to_string_lossy(), &["-c", &format!("import {modules}")])
}

/// Returns the folder of the packages from npm.
pub(crate) fn node_modules() -> PathBuf {
    node_folder().join("node_modules")
}

fn node_folder() -> PathBuf {
    target_dir().join("peers/node")
}

/// Name of npm's lock file, which lists the packages with their versions.
const NODE_LOCK: &str = "package-lock.json";

/// Returns true if all packages of the lock file are installed. npm writes a list of installed
/// packages at the end of an installation.
fn has_node_modules() -> bool {
    let lock = |folder: &Path| std::fs::read(folder.join(NODE_LOCK)).ok();
    let wanted = lock(&workspace_root().join(NODE_CLIENTS));
    wanted.is_some_and(|wanted| lock(&node_folder()) == Some(wanted))
        && node_modules().join(".package-lock.json").is_file()
}

/// Returns the path of Zipkin's server in Maven's repository.
fn zipkin_jar() -> PathBuf {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let folder = home.join(".m2/repository/io/zipkin/zipkin-server/3.6.1");
    folder.join("zipkin-server-3.6.1-exec.jar")
}

/// Names of installed peers, and reports about missing peers.
#[derive(Default)]
pub(crate) struct InstalledPeers {
    /// Names of installed peers, for `BLKKIN_PEERS`.
    pub(crate) names: Vec<&'static str>,
    /// A line for each missing peer: reason, and skipped tests.
    pub(crate) skipped: Vec<String>,
    /// Advice on how to install the missing packages; `None` if no packages were missing, or
    /// [`apt_install`] has installed them.
    pub(crate) advice: Option<String>,
}

impl InstalledPeers {
    /// Prints the missing peers, and the advice on how to install packages.
    pub(crate) fn print_missing(&self) {
        for line in self.skipped.iter().chain(&self.advice) {
            println!("{line}");
        }
    }
}

pub(crate) fn run() -> Outcome {
    let present = install();
    println!("peers: {}", present.names.join(", "));
    Ok(if present.skipped.is_empty() || !is_ci() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Installs missing peers where possible, and prints a line for each peer that is still missing.
pub(crate) fn install() -> InstalledPeers {
    let missing: Vec<&Peer> = PEERS.iter().filter(|peer| !(peer.is_installed)()).collect();
    // A peer that can be downloaded already needs neither packages nor root.
    let packages = packages_of(missing.iter().copied().filter(|peer| !peer.fetch.is_possible()));
    let installed = if packages.is_empty() { Ok(()) } else { apt_install(&packages) };
    let mut present = InstalledPeers::default();
    for peer in &PEERS {
        let fetched = match (peer.is_installed)() {
            true => Ok(()),
            false => peer.fetch.run(),
        };
        if (peer.is_installed)() {
            present.names.push(peer.name);
            continue;
        }
        let has_failed = installed.as_ref().err().and_then(|refusal| refusal.failure.as_deref());
        let reason = fetched.err().or(has_failed.map(str::to_owned));
        present.skipped.push(skip_line(peer, installed.is_err(), reason.as_deref()));
    }
    present.advice = installed.err().map(|refusal| refusal.advice);
    present.print_missing();
    present
}

/// Returns the names of installed peers that any user can start by their path alone.
pub(crate) fn present_without_environments() -> Vec<&'static str> {
    let own = |peer: &&Peer| matches!(peer.fetch, Fetch::Nothing) && peer.name != "chromium";
    PEERS.iter().filter(own).filter(|peer| (peer.is_installed)()).map(|peer| peer.name).collect()
}

/// Returns the packages of several peers, without duplicates.
fn packages_of<'p>(peers: impl Iterator<Item = &'p Peer>) -> Vec<&'static str> {
    let mut packages: Vec<&str> = Vec::new();
    for package in peers.flat_map(|peer| peer.packages) {
        if !packages.contains(package) {
            packages.push(package);
        }
    }
    packages
}

/// Formats the line about a missing peer.
fn skip_line(peer: &Peer, needs_packages: bool, reason: Option<&str>) -> String {
    let reason = match reason {
        Some(reason) => reason.to_owned(),
        None if needs_packages && !peer.fetch.is_possible() => {
            format!("needs {}", peer.packages.join(" "))
        }
        None => "not found, though its packages are installed".to_owned(),
    };
    format!("skipped: {} ({reason}): {}", peer.name, peer.tests)
}

/// Reason why packages were not installed.
#[derive(Debug)]
struct Refusal {
    /// Error of the attempt; `None` if there was no attempt.
    failure: Option<String>,
    /// Command with which the user can install the packages; without apt-get, a sentence that names
    /// them.
    advice: String,
}

impl Fetch {
    /// Returns true if the peer has a download, and the tools for the download are installed.
    fn is_possible(self) -> bool {
        match self {
            Fetch::Nothing => false,
            Fetch::Pip(..) => succeeds("python3", &["-c", "import venv, ensurepip"]),
            Fetch::Npm => in_path("node") && in_path("npm"),
            Fetch::Maven(_) => in_path("java") && in_path("mvn"),
            Fetch::Kernel => {
                ["qemu-system-x86_64", "apt-get", "dpkg-deb"].iter().all(|name| in_path(name))
            }
        }
    }

    /// Downloads the peer; does nothing if the download is not possible.
    fn run(self) -> Result<(), String> {
        match self {
            _ if !self.is_possible() => Ok(()),
            Fetch::Nothing => Ok(()),
            Fetch::Pip(environment, packages) => {
                println!("peers: fetching {}", packages.join(" "));
                let python = python(environment);
                if !python.is_file() {
                    let folder = python_folder(environment);
                    succeed("python3", &["-m", "venv", &folder.to_string_lossy()])?;
                }
                let install = ["-m", "pip", "install", "--quiet"];
                succeed(&python.to_string_lossy(), &[&install, packages].concat())
            }
            Fetch::Npm => fetch_node_modules(),
            Fetch::Maven(artifact) => {
                println!("peers: fetching {artifact}");
                let artifact = format!("-Dartifact={artifact}");
                succeed("mvn", &["-q", "-B", "dependency:get", "-Dtransitive=false", &artifact])
            }
            Fetch::Kernel => fetch_kernel(),
        }
    }
}

/// Installs exactly the packages of npm's lock file, in a folder outside of the sources. Scripts of
/// packages are not run.
fn fetch_node_modules() -> Result<(), String> {
    println!("peers: fetching what {NODE_CLIENTS}/{NODE_LOCK} lists");
    let (from, to) = (workspace_root().join(NODE_CLIENTS), node_folder());
    std::fs::create_dir_all(&to).map_err(|error| format!("{}: {error}", to.display()))?;
    for name in ["package.json", NODE_LOCK] {
        std::fs::copy(from.join(name), to.join(name))
            .map_err(|error| format!("{name}: {error}"))?;
    }
    let install = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"];
    succeed("npm", &[&install[..], &[&to.to_string_lossy()]].concat())
}

/// Packages that depend on the package of the current kernel: Debian's and Ubuntu's.
const KERNEL_PACKAGES: [&str; 2] = ["linux-image-amd64", "linux-image-generic"];

/// Returns the folder with the kernel for guests.
fn kernel_folder() -> PathBuf {
    target_dir().join("peers/kernel")
}

/// Downloads the package of a kernel, and keeps only the kernel's file.
fn fetch_kernel() -> Result<(), String> {
    let folder = kernel_folder();
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let package = match kernel_package() {
        None if nix::unistd::geteuid().is_root() => {
            apt_get(&["update", "--quiet", "--quiet"])?;
            kernel_package()
        }
        package => package,
    };
    let package = package.ok_or("apt-cache lists no kernel; apt-get update may help")?;
    println!("peers: apt-get download {package}");
    let download = Command::new("apt-get")
        .args(["download", "--quiet", "--quiet", &package])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start apt-get: {error}"))?;
    if !download.status.success() {
        let errors = String::from_utf8_lossy(&download.stderr);
        return Err(format!("apt-get download {package} failed: {}", errors.trim()));
    }
    let files = std::fs::read_dir(&folder).map_err(|error| error.to_string())?;
    let mut files = files.flatten().map(|file| file.path());
    let file = files.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let file =
        file.ok_or_else(|| format!("apt-get has left no package in {}", folder.display()))?;
    let unpacked = unpack_kernel(&file, &folder);
    std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    unpacked
}

/// Returns the package of the current kernel: the first dependency of a kernel package.
fn kernel_package() -> Option<String> {
    KERNEL_PACKAGES.iter().find_map(|package| {
        let output = Command::new("apt-cache").args(["depends", package]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut dependencies =
            text.lines().filter_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
        dependencies.next().map(|rest| format!("linux-image-{rest}"))
    })
}

/// Writes the kernel in a package to a folder.
fn unpack_kernel(package: &Path, folder: &Path) -> Result<(), String> {
    let mut program = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start dpkg-deb: {error}"))?;
    let found = program.stdout.take().map(|content| find_kernel(content, folder));
    // The package is not read to its end.
    let _ = program.kill();
    let _ = program.wait();
    match found {
        Some(Ok(true)) => Ok(()),
        Some(Err(error)) => Err(format!("{}: {error}", package.display())),
        _ => Err(format!("{} has no file boot/vmlinuz-*", package.display())),
    }
}

/// Copies the kernel from an archive to a folder. Returns false if the archive has none.
fn find_kernel(archive: impl std::io::Read, folder: &Path) -> std::io::Result<bool> {
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let name = path.file_name().unwrap_or_default();
        if name.to_string_lossy().starts_with("vmlinuz-") && entry.header().entry_type().is_file() {
            // A file that is not complete has another name.
            let part = folder.join("part");
            std::io::copy(&mut entry, &mut std::fs::File::create(&part)?)?;
            std::fs::rename(&part, folder.join(name))?;
            return Ok(true);
        }
    }
    Ok(false)
}

fn succeed(program: &str, arguments: &[&str]) -> Result<(), String> {
    match succeeds(program, arguments) {
        true => Ok(()),
        false => Err(format!("{program} {} failed", arguments.join(" "))),
    }
}

/// Installs Debian packages, if apt-get is installed and this process runs as root.
fn apt_install(packages: &[&str]) -> Result<(), Refusal> {
    let list = packages.join(" ");
    if !in_path("apt-get") {
        let advice = format!("to test with all of them, install what your system calls {list}");
        return Err(Refusal { failure: None, advice });
    }
    let command = format!("apt-get install --no-install-recommends {list}");
    let advice = format!("to test with all of them: sudo {command}; then cargo xtask peers");
    if !nix::unistd::geteuid().is_root() {
        return Err(Refusal { failure: None, advice });
    }
    println!("peers: {command}");
    let mut install = vec!["install", "--yes", "--quiet", "--quiet", "--no-install-recommends"];
    install.extend(packages);
    apt_get(&["update", "--quiet", "--quiet"])
        .and_then(|()| apt_get(&install))
        .map_err(|failure| Refusal { failure: Some(failure), advice })
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

/// Returns true if a program is in a directory of `PATH`.
/// Programs that can open the pages: Chromium without windows, which takes two thirds of the time,
/// and the whole browser.
pub(crate) const BROWSERS: [&str; 2] = ["chromium-headless-shell", "chromium"];

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
    use super::{PEERS, Peer, find_kernel, in_path, packages_of, skip_line, succeeds};
    use blkkin_sys::testing::Scratch;

    fn peer(name: &str) -> &'static Peer {
        PEERS.iter().find(|peer| peer.name == name).expect(name)
    }

    /// The line about a missing peer names the packages that this peer needs, or the reason why the
    /// peer is missing.
    #[test]
    fn lines_name_their_own_packages() {
        let man = "skipped: man (needs man-db groff-base): the manual's pages";
        assert_eq!(skip_line(peer("man"), true, None), man);
        let failed = skip_line(peer("man"), true, Some("apt-get install failed: no network"));
        assert_eq!(failed, "skipped: man (apt-get install failed: no network): the manual's pages");
        let there = skip_line(peer("man"), false, None);
        assert!(there.contains("though its packages are installed"), "{there}");
    }

    /// A package that several peers need is listed only once.
    #[test]
    fn packages_are_named_once() {
        let packages = packages_of(PEERS.iter());
        let count = |name: &str| packages.iter().filter(|package| **package == name).count();
        assert_eq!((count("python3-venv"), count("pkg-config"), count("babeltrace2")), (1, 1, 1));
        assert_eq!(packages_of([peer("man")].into_iter()), ["man-db", "groff-base"]);
    }

    /// Only the kernel of a package's files is kept.
    #[test]
    fn kernels_are_unpacked() {
        let scratch = Scratch::new("kernel-package");
        let archive = |files: &[(&str, &str)]| {
            let mut archive = tar::Builder::new(Vec::new());
            for (path, content) in files {
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                archive.append_data(&mut header, path, content.as_bytes()).unwrap();
            }
            archive.into_inner().unwrap()
        };
        let (map, module) = (("./boot/System.map-6.1.0", "map"), ("./lib/fs.ko", "module"));
        assert!(!find_kernel(&*archive(&[map, module]), &scratch.0).unwrap());
        let whole = archive(&[map, ("./boot/vmlinuz-6.1.0", "kernel"), module]);
        assert!(find_kernel(&*whole, &scratch.0).unwrap());
        let files = std::fs::read_dir(&scratch.0).unwrap().flatten();
        let names: Vec<_> = files.map(|file| file.file_name()).collect();
        assert_eq!(names, ["vmlinuz-6.1.0"]);
        assert_eq!(std::fs::read(scratch.0.join("vmlinuz-6.1.0")).unwrap(), b"kernel");
    }

    #[test]
    fn programs_are_found() {
        assert!(in_path("sh"));
        assert!(!in_path("no-such-program-of-anybody"));
        assert!(succeeds("sh", &["-c", "exit 0"]));
        assert!(!succeeds("sh", &["-c", "exit 3"]));
        assert!(!succeeds("no-such-program-of-anybody", &[]));
    }
}
