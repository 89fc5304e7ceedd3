//! What the tests of the journal with a real disk have in common.
#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};

/// Says that a test could not do its work; where everything must be there, that is a failure.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    if let Some(path) = std::env::var_os("BLKKIN_SKIPS") {
        let file = File::options().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).unwrap();
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{line}");
}

/// Tells what a test has done, to whoever runs it to see that promises hold.
pub fn figure(promise: &str, what: &str) {
    let Some(path) = std::env::var_os("BLKKIN_FIGURES") else { return };
    let mut file = File::options().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{promise}\t{what}\n").as_bytes()).unwrap();
}

/// Whether a program can be started.
pub fn is_installed(program: &str) -> bool {
    let null = Stdio::null;
    let mut command = Command::new(program);
    command.arg("--version").stdin(null()).stdout(null()).stderr(null());
    command.status().is_ok_and(|status| status.success())
}
