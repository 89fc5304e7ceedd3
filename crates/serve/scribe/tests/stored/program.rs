//! The daemon's program, which the other tests start as a child process.

use blkkin_scribed::{Config, Daemon, Options, Plan};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Prefix of the daemon's output lines, which separates them from the test harness's output.
pub(crate) const MARK: &str = "says: ";

/// Runs the daemon until standard input is closed. Not a test, but started by the other tests.
#[test]
#[ignore = "a program of other tests"]
fn serves() {
    let variable = |name| std::env::var(name).expect("a variable");
    let directory = PathBuf::from(variable("TEST_SPOOL"));
    let configuration = variable("TEST_CONFIGURATION");
    let daemon = Daemon::start(Options {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        directory,
        configure: Box::new(move || Plan::of(&Config::read(&configuration))),
        log: |_| (),
    });
    let daemon = daemon.unwrap_or_else(|error| {
        print_line(&format!("cannot start: {error}"));
        std::process::exit(1);
    });
    print_line(&format!("listening {}", daemon.address()));
    let remote = daemon.remote();
    std::thread::spawn(move || {
        let _ = io::stdin().read(&mut [0]);
        remote.stop();
    });
    daemon.run();
    // Skips the test harness's final output, which could block or fail.
    std::process::exit(0);
}

fn print_line(what: &str) {
    // A single write, so that a kill leaves no partial line.
    let _ = io::stdout().lock().write_all(format!("\n{MARK}{what}\n").as_bytes());
}
