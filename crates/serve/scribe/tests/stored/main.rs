//! Durability tests of messages answered with `OK`, with daemon processes on real files: the
//! messages reach the configured files and server in spite of kills and disk errors. Each test
//! names its promise. Amounts are small by default; environment variables raise them, as `cargo
//! xtask torture` does.
//!
//! [`program`] is the daemon process; [`life`] starts it, sends messages, and checks the stores
//! afterwards.

mod faults;
mod full;
mod kills;
mod life;
mod program;
