//! Durability tests of messages answered with `OK`, with daemon processes on real files. The
//! messages must reach the configured files and server in spite of kills and disk errors. Each
//! test's name begins with the promise that it tests, such as D1. Runs are few by default;
//! environment variables raise their number, as `cargo xtask torture` does.
//!
//! [`program`] is the daemon process; [`harness`] starts it, sends messages, and checks the stores
//! afterwards.

mod faults;
mod full;
mod harness;
mod kills;
mod program;
