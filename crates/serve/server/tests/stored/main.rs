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
mod mounts;
mod order;
mod power;
mod program;
mod recorder;
mod replay;

/// A number that an environment variable may say, for longer runs.
fn amount(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect(variable))
}

/// Tells what a test has done, to whoever runs it to see that promises hold.
fn figure(promise: &str, what: &str) {
    let Some(path) = std::env::var_os("BLKKIN_FIGURES") else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let line = format!("{promise}\t{what}\n");
    let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes()));
    written.expect("to note the figure");
}
