//! Builds of tests: ordinary, with a sanitizer, or as models. Each kind has a separate target
//! folder, so that one kind does not cause a rebuild of another.

use super::trials::{Build, TRIALS, Trial};
use crate::tools::{cargo, target_dir, workspace_root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Result of a build: test programs, or the requirement whose absence prevented the build.
pub(super) enum BuildResult {
    Programs(Vec<Program>),
    /// The build is not possible; the text names the missing requirement.
    Missing(String),
}

/// A test program that cargo has built.
pub(super) struct Program {
    /// Folder of the program's package. The folder's name may differ from the package's name.
    pub(super) folder: PathBuf,
    package: String,
    /// Name of the file of tests; empty for unit tests.
    name: String,
    pub(super) path: PathBuf,
}

/// The only target triple for which sanitizers are tested here.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

impl Build {
    pub(super) fn run(self) -> Result<BuildResult, String> {
        if let Some(missing) = self.missing() {
            return Ok(BuildResult::Missing(missing));
        }
        let output = self
            .command()
            .current_dir(workspace_root())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cannot start cargo: {error}"))?;
        if !output.status.success() {
            return Err(format!("the tests do not build: {self:?}"));
        }
        let programs = output.stdout.split(|byte| *byte == b'\n').filter_map(program);
        Ok(BuildResult::Programs(programs.collect()))
    }

    fn command(self) -> Command {
        let mut command = cargo();
        command.args(["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]);
        // The selection of packages is constant, as it decides about the features of shared
        // dependencies.
        let own = TRIALS.iter().filter(|trial| trial.build == self);
        let packages: BTreeSet<&str> = own.map(|trial| trial.package).collect();
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        match self {
            Build::Ordinary => {}
            Build::Models => {
                command.args(["--release", "--lib", "--target-dir"]).arg(target_dir().join("loom"));
                command.env("RUSTFLAGS", "--cfg loom");
            }
            Build::Threads | Build::Addresses => {
                let folder = target_dir().join(format!("{}-sanitizer", self.sanitizer()));
                command.args(["--target", TRIPLE, "--target-dir"]).arg(folder);
                // Sanitizers are unstable; no shipped program is built with them.
                command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", self.flags());
            }
        }
        command
    }

    fn sanitizer(self) -> &'static str {
        if self == Build::Threads { "thread" } else { "address" }
    }

    fn flags(self) -> String {
        let flag = format!("-Zsanitizer={}", self.sanitizer());
        match self {
            // The standard library is built without the sanitizer.
            Build::Threads => {
                format!("{flag} -Cunsafe-allow-abi-mismatch=sanitizer --cfg thread_sanitizer")
            }
            _ => flag,
        }
    }

    /// Returns an error text if this toolchain lacks the sanitizer of this kind of build; `None` if
    /// the build is possible.
    fn missing(self) -> Option<String> {
        let runtime = match self {
            Build::Ordinary | Build::Models => return None,
            Build::Threads => "tsan",
            Build::Addresses => "asan",
        };
        let folder = libraries().unwrap_or_default();
        let files = folder.read_dir().into_iter().flatten().flatten();
        let ending = format!("_rt.{runtime}.a");
        let mut names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let is_there = names.any(|name| name.ends_with(&ending));
        let sanitizer = self.sanitizer();
        (!is_there).then(|| format!("this toolchain has no {sanitizer} sanitizer for {TRIPLE}"))
    }

    /// Returns the environment variable that programs of this build need, as name and value; `None`
    /// if they need no variable.
    pub(super) fn environment_variable(self) -> Option<(&'static str, String)> {
        match self {
            Build::Ordinary | Build::Models => None,
            Build::Threads => {
                let known = workspace_root().join("xtask/thread-sanitizer.supp");
                Some(("TSAN_OPTIONS", format!("suppressions={}", known.display())))
            }
            // Memory that lives until the end is no leak. Locks compare addresses on the stack to
            // detect that their function has returned, so variables must stay on the real stack.
            Build::Addresses => {
                let options = "detect_leaks=0:detect_stack_use_after_return=0";
                Some(("ASAN_OPTIONS", options.to_owned()))
            }
        }
    }
}

/// Returns the folder of the toolchain's libraries.
fn libraries() -> Option<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let root = String::from_utf8(output.stdout).ok()?;
    Some(Path::new(root.trim()).join("lib/rustlib").join(TRIPLE).join("lib"))
}

/// Parses cargo's message about a test program.
fn program(line: &[u8]) -> Option<Program> {
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    let is_test = line["profile"]["test"].as_bool()?;
    let path = line["executable"].as_str().filter(|_| is_test)?.into();
    let folder = Path::new(line["manifest_path"].as_str()?).parent()?.to_owned();
    let name = match line["target"]["kind"][0].as_str()? {
        "test" => line["target"]["name"].as_str()?.to_owned(),
        "bin" => return None,
        _ => String::new(),
    };
    Some(Program { package: package_of(&folder)?, folder, name, path })
}

/// Returns the name of the package in a folder.
pub(crate) fn package_of(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = \""))?;
    Some(name.trim_end_matches('"').to_owned())
}

impl Program {
    /// Finds the test program of a trial; fails if cargo has not built it.
    pub(super) fn of<'p>(trial: &Trial, programs: &'p [Program]) -> Result<&'p Program, String> {
        let is_own =
            |program: &&Program| program.package == trial.package && program.name == trial.file;
        let found = programs.iter().find(is_own);
        found.ok_or_else(|| {
            format!("cargo has built no tests `{}` of {}", trial.file, trial.package)
        })
    }
}
