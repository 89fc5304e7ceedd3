//! What the daemon promises of messages that it has answered with `OK`, tried with processes of its own on real files:
//! they are in the files and with the server that they are for, whatever ends the process and whatever the disk does.
//! Each test names its promise. Amounts are small here; environment variables make them large, as `cargo xtask torture`
//! does.
//!
//! [`program`] is what is started; [`life`] starts it, sends, and knows what has to be there afterwards.

mod faults;
mod full;
mod kills;
mod life;
mod program;
