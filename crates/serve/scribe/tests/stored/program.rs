//! The program that the other tests start: the daemon.

use blkkin_scribed::{Config, Daemon, Options, Plan};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Before what the program says, as the test harness speaks too.
pub(crate) const MARK: &str = "says: ";

/// Takes messages until nobody holds its standard input.
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
        say(&format!("cannot start: {error}"));
        std::process::exit(1);
    });
    say(&format!("listening {}", daemon.address()));
    let remote = daemon.remote();
    std::thread::spawn(move || {
        let _ = io::stdin().read(&mut [0]);
        remote.stop();
    });
    daemon.run();
    // What the test harness would say now might be refused.
    std::process::exit(0);
}

fn say(what: &str) {
    // One write, so that nothing is said by halves.
    let _ = io::stdout().lock().write_all(format!("\n{MARK}{what}\n").as_bytes());
}
