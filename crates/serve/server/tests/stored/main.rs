//! Durability tests of acknowledged spans, with server processes on real files. In spite of kills,
//! power cuts and disk errors, each span is stored once and unchanged; damage of the files is
//! detected and reported. Each test names its promise. Amounts are small by default; environment
//! variables raise them, as `cargo xtask torture` does.
//!
//! [`program`] is the server process, with small files, so that merges and trims occur early;
//! [`life`] starts it, sends requests, and checks the answers. [`recorder`] and [`replay`] simulate
//! power cuts of its disk. The tests must also detect each deliberate fault of the program
//! (`program::Plant`).

mod damage;
mod faults;
mod full;
mod kills;
mod life;
mod order;
mod power;
mod program;
mod recorder;
mod replay;
