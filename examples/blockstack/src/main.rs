//! The chain's roles, each as a process, and its load: see `blockstack --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    blkkin_blockstack::run(std::env::args_os().skip(1))
}
