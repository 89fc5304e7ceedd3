//! Temporary directories, checks for installed programs, and reports of skipped tests.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Temporary directory that is removed on drop.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Creates a new temporary directory. `name` becomes part of the directory's name.
    pub fn new(name: &str) -> Scratch {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("blkkin-{name}-{process}-{number}"));
        std::fs::create_dir_all(&path).expect("to make a folder");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns true if a program with this name is in the `PATH`.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Reports that a test was skipped. In CI, a skipped test counts as a failure.
pub fn skip(test: &str, reason: &str) {
    static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    // Each test is reported once, however many parts of it are skipped.
    if reported.iter().any(|name| name == test) {
        return;
    }
    reported.push(test.to_owned());
    drop(reported);
    let line = format!("{test}: {reason}\n");
    // `eprint!` is not used, because the test harness captures its output.
    let _ = std::io::stderr().write_all(format!("SKIPPED: {line}").as_bytes());
    if let Some(path) = std::env::var_os("BLKKIN_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("to note the skip");
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "SKIPPED: {line}");
}

#[cfg(test)]
mod tests {
    use super::{Scratch, skip};
    use crate::testing::own_test;

    #[test]
    #[ignore = "a program of other tests"]
    fn skips() {
        skip("corpus", "there is no corpus");
        skip("corpus", "and nothing else");
    }

    /// The report of skipped tests has one line for each test. The lines lack the prefix
    /// "SKIPPED: ", because `cargo xtask test` prints them after its own prefix.
    #[test]
    fn skips_are_noted_once_and_without_a_prefix() {
        let scratch = Scratch::new("skips");
        let file = scratch.0.join("skips");
        let mut program = own_test::<&str>(&[], "testing::scratch::tests::skips");
        let output = program.env("BLKKIN_SKIPS", &file).env_remove("CI").output().expect("a test");
        assert!(output.status.success(), "{output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("SKIPPED: corpus: there is no corpus\n"), "{errors}");
        let noted = std::fs::read_to_string(&file).expect("what was noted");
        assert_eq!(noted, "corpus: there is no corpus\n");
    }
}
