//! Durability tests of acknowledged spans, with server processes on real files. In spite of kills,
//! power cuts and disk errors, each span is stored once and unchanged; damage of the files is
//! detected and reported. Each test's name begins with the promise that it tests, such as D1. Runs
//! are few by default; environment variables raise their number, as `cargo xtask torture` does.
//!
//! [`program`] is the server process, with small files, so that merges and trims occur early;
//! [`harness`] starts it, sends requests, and checks the answers. [`recorder`] and [`replay`]
//! simulate power cuts of the server's disk. The tests must also detect each deliberate fault of
//! the program (`program::PlantedFault`).

mod damage;
mod faults;
mod full;
mod harness;
mod kills;
mod order;
mod power;
mod program;
mod recorder;
mod replay;
