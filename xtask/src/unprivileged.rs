//! `cargo xtask unprivileged`: runs the tests again as an unprivileged user, without programs that
//! minimal systems lack. This is for containers, in which `cargo xtask test` runs as root. Root
//! hides faults: it ignores the modes of files and sockets, may bind low ports, mount and change
//! users.
//!
//! The programs are those of `cargo xtask test`, so each is compiled only once. They run in a mount
//! namespace in which the lacking programs cannot be started.

use crate::peers;
use crate::test_counts::Counts;
use crate::test_programs::{self, Load, Results};
use crate::tools::{Outcome, is_ci, target_dir, workspace_root};
use nix::unistd::{User, geteuid};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Name of the user that runs the tests.
const USER: &str = "blkkin-test";

/// Programs of Debian's package procps, which minimal systems lack.
const HIDDEN_PROGRAMS: [&str; 17] = [
    "free", "kill", "pgrep", "pidwait", "pkill", "pmap", "ps", "pwdx", "skill", "slabtop", "snice",
    "sysctl", "tload", "top", "uptime", "vmstat", "watch",
];

/// Packages that are not tested without `--all`, because their tests only compute and do not depend
/// on the user. `xtask` is never tested, because its tests run cargo. All other packages are
/// tested, including new ones.
const EXCLUDED_PACKAGES: [&str; 13] = [
    "blkkin-model",
    "blkkin-filter",
    "blkkin-ctf",
    "blkkin-spans",
    "blkkin-store",
    "blkkin-text",
    "blkkin-wire",
    "blkkin-columns",
    "blkkin-query",
    "blkkin-collector",
    "blkkin-journal",
    "blkkin-ring",
    XTASK,
];

/// The package of this program.
const XTASK: &str = "xtask";

/// Files of tests that are not run without `--all`, with their package: they take long, and only
/// compute, compare outputs, or wait. Other files of these packages are run.
const EXCLUDED_FILES: [(&str, &str); 13] = [
    ("blkkin", "corpus"),
    ("blkkin", "memory"),
    ("blkkin", "rewrite"),
    ("blkkin", "zipkin"),
    ("blkkin-deliver", "deliver"),
    ("blkkin-lake", "clock"),
    ("blkkin-lake", "conformance"),
    ("blkkin-lake", "expanded"),
    ("blkkin-lake", "faults"),
    ("blkkin-scribed", "stored"),
    ("blkkin-server", "slow"),
    ("blkkin-server", "stored"),
    ("blkkin-sql", "questions"),
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only tests of this package, such as blkkin-agent
    #[arg(long = "package", short = 'p', value_name = "NAME")]
    packages: Vec<String>,

    /// Only this file of tests, such as control
    #[arg(long = "test", value_name = "NAME")]
    files: Vec<String>,

    /// Also the tests that only compute, compare outputs, or wait
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    if !geteuid().is_root() {
        println!("unprivileged: not root, so `cargo xtask test` does it anyway");
        return Ok(ExitCode::SUCCESS);
    }
    let user = user()?;
    let place = MountChanges::of(&workspace_root(), &target_dir());
    let mut probe = place.command(&user, Path::new("true"));
    let output = probe.output().map_err(|error| format!("cannot start {probe:?}: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        println!("unprivileged: skipped: no mount namespace: {}", why.trim());
        return Ok(if is_ci() { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let peers = peers::present_without_environments().join(",");
    let begun = Instant::now();
    let mut build = test_programs::build_command();
    if options.packages.is_empty() {
        build.arg("--workspace");
    }
    build.args(options.packages.iter().flat_map(|name| ["--package", name]));
    build.args(options.files.iter().flat_map(|name| ["--test", name]));
    let mut programs = test_programs::build(&mut build)?;
    if options.packages.is_empty() && options.files.is_empty() {
        programs.retain(|program| {
            let (package, name) = (program.package.as_str(), program.name.as_str());
            let is_excluded =
                EXCLUDED_PACKAGES.contains(&package) || EXCLUDED_FILES.contains(&(package, name));
            package != XTASK && (options.all || !is_excluded)
        });
    }
    let Results { counts, failed, .. } =
        test_programs::run_all("unprivileged", Load::MostlyWaiting, programs, |program| {
            let mut command = place.command(&user, &program.path);
            command.env("BLKKIN_PEERS", &peers);
            command
        })?;
    let Counts { passed, failed: wrong, skipped } = counts;
    println!(
        "unprivileged: {passed} passed, {wrong} failed, {skipped} skipped as user {USER} in {} s",
        begun.elapsed().as_secs()
    );
    for name in &failed {
        println!("unprivileged: FAILED: {name}");
    }
    Ok(if failed.is_empty() && wrong == 0 && passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Finds or creates the user that runs the tests.
fn user() -> Result<User, String> {
    let find = || User::from_name(USER).map_err(|error| format!("user {USER}: {error}"));
    if let Some(user) = find()? {
        return Ok(user);
    }
    let status = Command::new("useradd")
        .args(["--system", "--user-group", "--create-home", "--home-dir"])
        .arg(format!("/var/lib/{USER}"))
        .arg(USER)
        .status()
        .map_err(|error| format!("cannot start useradd: {error}"))?;
    let made = if status.success() { find()? } else { None };
    made.ok_or_else(|| format!("cannot make the user {USER}: {status}"))
}

/// Changes to the mount namespace in which the tests run.
struct MountChanges {
    /// Paths of programs that the tests must not be able to start.
    hidden: Vec<PathBuf>,
    /// Directory that only root may enter, with the paths below it that the tests need.
    closed: Option<(PathBuf, Vec<PathBuf>)>,
    /// Cargo's directory for temporary files of tests, which belongs to root.
    scratch: PathBuf,
}

impl MountChanges {
    fn of(root: &Path, target: &Path) -> MountChanges {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let files = std::env::split_paths(&path)
            .flat_map(|folder| HIDDEN_PROGRAMS.map(|name| (name, folder.join(name).canonicalize())))
            // A multi-call binary also serves other names, so it must not be hidden.
            .filter_map(|(name, file)| file.ok().filter(|file| file.ends_with(name)));
        let hidden: BTreeSet<PathBuf> = files.collect();
        let needed = match target.starts_with(root) {
            true => vec![root.to_owned()],
            false => vec![root.to_owned(), target.to_owned()],
        };
        let first = needed.iter().find_map(|path| first_closed_directory(path));
        let closed = first.map(|closed| {
            let below = needed.into_iter().filter(|path| path.starts_with(&closed)).collect();
            (closed, below)
        });
        MountChanges { hidden: hidden.into_iter().collect(), closed, scratch: target.join("tmp") }
    }

    /// Returns the command that runs a test program as the user. Variables that refer to root's
    /// session, and `CI`, are replaced or removed.
    fn command(&self, user: &User, program: &Path) -> Command {
        let mut command = test_programs::with_time_limit();
        command.args([
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            &self.script(),
            "sh",
        ]);
        command.args(["setpriv", "--clear-groups"]);
        command.arg(format!("--reuid={}", user.uid)).arg(format!("--regid={}", user.gid));
        command.arg(program);
        for name in ["CI", "XDG_RUNTIME_DIR", "BLKKIN_SOCKET"] {
            command.env_remove(name);
        }
        command.env("HOME", &user.dir).env("USER", USER).env("LOGNAME", USER);
        command
    }

    /// Returns the shell script that changes the mounts and then executes its arguments.
    fn script(&self) -> String {
        let word = |path: &Path| format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"));
        let mut lines: Vec<String> = self
            .hidden
            .iter()
            .map(|file| format!("mount --bind /dev/null {}", word(file)))
            .collect();
        if let Some((closed, needed)) = &self.closed {
            for (number, path) in needed.iter().enumerate() {
                lines.push(format!(
                    "hold{number}=$(mktemp -d); mount --bind {} $hold{number}",
                    word(path)
                ));
            }
            lines.push(format!("mount -t tmpfs -o mode=755 none {}", word(closed)));
            for (number, path) in needed.iter().enumerate() {
                let path = word(path);
                lines.push(format!(
                    "mkdir -p {path}; mount --move $hold{number} {path}; rmdir $hold{number}"
                ));
            }
        }
        if self.scratch.is_dir() {
            lines.push(format!("mount -t tmpfs -o mode=1777 none {}", word(&self.scratch)));
        }
        lines.push("exec \"$@\"".to_owned());
        lines.join("\n")
    }
}

/// Returns the first directory on the path that other users may not enter.
fn first_closed_directory(path: &Path) -> Option<PathBuf> {
    let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
    above.reverse();
    let is_closed = |folder: &&&Path| {
        fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 == 0)
    };
    above.iter().find(is_closed).map(|folder| folder.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_programs::testing::{has_test_file, package_folders};
    use blkkin_sys::testing::Scratch;

    #[test]
    fn directories_of_root_alone_are_found() {
        let scratch = Scratch::new("unprivileged");
        let inner = scratch.0.join("root/deep/tree");
        fs::create_dir_all(&inner).expect("folders");
        assert_eq!(first_closed_directory(&inner), None);
        let closed = scratch.0.join("root");
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("a mode");
        assert_eq!(first_closed_directory(&inner), Some(closed.clone()));
        let place = MountChanges::of(&inner, &inner.join("target"));
        assert_eq!(place.closed, Some((closed.clone(), vec![inner.clone()])));
        let target = closed.join("target");
        let place = MountChanges::of(&inner, &target);
        assert_eq!(place.closed, Some((closed, vec![inner, target])));
    }

    /// Every exception exists, as the entry of a renamed package or file would have no effect.
    #[test]
    fn exceptions_exist() {
        let packages = package_folders();
        for name in EXCLUDED_PACKAGES {
            assert!(packages.contains_key(name), "{name}");
        }
        for (package, name) in EXCLUDED_FILES {
            assert!(has_test_file(&packages[package], name), "{package} {name}");
        }
    }
}
