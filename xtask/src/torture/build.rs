//! Builds of tests: ordinary, with a sanitizer, or as models. Each kind has a separate target
//! folder, so that one kind does not cause a rebuild of another.

use super::trials::{Build, TRIALS, Trial};
use crate::test_programs::{self, TestProgram};
use crate::tools::{target_dir, workspace_root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Result of a build: test programs, or the requirement whose absence prevented the build.
pub(super) enum BuildResult {
    Programs(Vec<TestProgram>),
    /// The build is not possible; the text names the missing requirement.
    Missing(String),
}

/// The only target triple for which sanitizers are tested here.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

impl Build {
    pub(super) fn run(self) -> Result<BuildResult, String> {
        if let Some(missing) = self.missing() {
            return Ok(BuildResult::Missing(missing));
        }
        test_programs::build(&mut self.command()).map(BuildResult::Programs)
    }

    fn command(self) -> Command {
        match self {
            // As `cargo xtask test`, so that both use the same programs.
            Build::Ordinary => {
                let mut command = test_programs::build_command();
                command.arg("--workspace");
                command
            }
            Build::Models => test_programs::build_models_command(),
            Build::Threads | Build::Addresses => self.sanitizer_command(),
        }
    }

    fn sanitizer_command(self) -> Command {
        let mut command = test_programs::build_command();
        // The selection of packages is constant, as it decides about the features of shared
        // dependencies.
        let own = TRIALS.iter().filter(|trial| trial.build == self);
        let packages: BTreeSet<&str> = own.map(|trial| trial.package).collect();
        command.args(packages.iter().flat_map(|package| ["--package", package]));
        let folder = target_dir().join(format!("{}-sanitizer", self.sanitizer()));
        command.args(["--target", TRIPLE, "--target-dir"]).arg(folder);
        // Sanitizers are unstable; no shipped program is built with them.
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", self.flags());
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

    /// Returns the reason why this toolchain cannot make this kind of build, or `None` if it can.
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

impl Trial {
    /// Finds the trial's test program; fails if cargo has not built it.
    pub(super) fn program<'p>(
        &self,
        programs: &'p [TestProgram],
    ) -> Result<&'p TestProgram, String> {
        let is_own = |program: &&TestProgram| {
            let is_file = match self.file {
                "" => !matches!(program.kind.as_str(), "test" | "bin"),
                file => program.kind == "test" && program.name == file,
            };
            is_file && program.package == self.package
        };
        programs
            .iter()
            .find(is_own)
            .ok_or_else(|| format!("cargo has built no tests `{}` of {}", self.file, self.package))
    }
}
