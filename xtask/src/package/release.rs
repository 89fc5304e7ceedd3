//! The release that is packed: version, platform, commit and time.

use crate::tools::{command, workspace_root};
use std::ffi::OsStr;
use std::process::Output;

/// Version of all crates of the workspace.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Names of the processor architectures in target triples, Debian and OCI.
const ARCHITECTURES: [(&str, &str, &str); 5] = [
    ("x86_64", "amd64", "amd64"),
    ("aarch64", "arm64", "arm64"),
    ("riscv64gc", "riscv64", "riscv64"),
    ("powerpc64le", "ppc64el", "ppc64le"),
    ("loongarch64", "loong64", "loong64"),
];

pub(super) struct Release {
    pub(super) platform: Platform,
    /// Time of all packed files, in seconds since 1970.
    pub(super) seconds: u64,
    /// Id of the commit; `None` outside of a repository.
    pub(super) commit: Option<String>,
    /// Set if the tree has uncommitted changes.
    pub(super) has_changes: bool,
}

/// The platform of this machine; releases for others are made there.
pub(super) struct Platform {
    pub(super) triple: String,
    /// Names of the architecture in file names, in Debian and in OCI images.
    pub(super) machine: &'static str,
    pub(super) debian: &'static str,
    pub(super) oci: &'static str,
}

impl Release {
    pub(super) fn find() -> Result<Release, String> {
        let git = |arguments: &[&str]| {
            let output =
                command(OsStr::new("git")).args(arguments).current_dir(workspace_root()).output();
            output.ok().filter(|output| output.status.success()).map(|output| text(&output))
        };
        let commit = git(&["log", "-1", "--format=%H %ct"]);
        let commit = commit.as_deref().and_then(|line| line.split_once(' '));
        let seconds = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(value) => value.parse().map_err(|_| {
                format!("SOURCE_DATE_EPOCH={value} is not a number of seconds since 1970; unset it")
            })?,
            Err(_) => commit.and_then(|(_, time)| time.parse().ok()).ok_or(
                "this tree is no git repository, so the time of its files is unknown; set \
                 SOURCE_DATE_EPOCH to the release's time in seconds since 1970",
            )?,
        };
        Ok(Release {
            platform: Platform::find()?,
            seconds,
            commit: commit.map(|(id, _)| id.to_owned()),
            has_changes: git(&["status", "--porcelain"]).is_some_and(|lines| !lines.is_empty()),
        })
    }

    /// Returns the first part of file names, and the folder in tarballs.
    pub(super) fn stem(&self) -> String {
        format!("blkkin-{VERSION}-{}", self.platform.machine)
    }

    /// Returns the version in Debian's syntax, in which a pre-release sorts before its release.
    pub(super) fn debian_version(&self) -> String {
        VERSION.replacen('-', "~", 1)
    }
}

impl Platform {
    pub(super) fn find() -> Result<Platform, String> {
        let version = rustc(&["--version", "--verbose"])?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or("rustc --version --verbose names no host")?;
        Platform::of(host)
    }

    fn of(triple: &str) -> Result<Platform, String> {
        let (machine, system) = triple.split_once('-').unwrap_or((triple, ""));
        let architecture = ARCHITECTURES.iter().find(|(name, ..)| *name == machine);
        let Some(&(machine, debian, oci)) = architecture.filter(|_| system.ends_with("linux-gnu"))
        else {
            return Err(format!(
                "releases are made for Linux with glibc, on {}; rustc builds for {triple}",
                ARCHITECTURES.map(|(name, ..)| name).join(", ")
            ));
        };
        Ok(Platform { triple: triple.to_owned(), machine, debian, oci })
    }
}

/// Runs rustc and returns its output.
pub(super) fn rustc(arguments: &[&str]) -> Result<String, String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = command(&program).args(arguments).output();
    let output = output.map_err(|error| format!("cannot start rustc: {error}"))?;
    if !output.status.success() {
        return Err(format!("rustc {}: {}", arguments.join(" "), output.status));
    }
    Ok(text(&output))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::Platform;

    #[test]
    fn platforms() {
        let names = |triple| {
            Platform::of(triple).map(|platform| (platform.machine, platform.debian, platform.oci))
        };
        assert_eq!(names("x86_64-unknown-linux-gnu"), Ok(("x86_64", "amd64", "amd64")));
        assert_eq!(names("aarch64-unknown-linux-gnu"), Ok(("aarch64", "arm64", "arm64")));
        for other in ["x86_64-unknown-linux-musl", "x86_64-apple-darwin", "i686-unknown-linux-gnu"]
        {
            let error = names(other).unwrap_err();
            assert!(error.contains(other), "{error}");
        }
    }
}
