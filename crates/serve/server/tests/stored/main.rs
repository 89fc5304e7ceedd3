//! What the server promises of spans that it has acknowledged, tried with processes of its own on real files: they are
//! there, once and as they were sent, whatever ends the process, whatever the disk does and whatever becomes of its
//! files. Each test names its promise. Amounts are small here; environment variables make them large, as
//! `cargo xtask torture` does.
//!
//! [`program`] is what is started, with files so small that all that happens to them happens soon; [`life`] starts it,
//! sends, and knows what has to be there. [`recorder`] and [`replay`] cut the power of its disk. What is planted in the program (`program::Plant`) has to be found out.

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
