//! Tests of all parts together, on the simulated disk. What must hold is in [`oracle`]; each test that relies on it
//! also plants a fault, to see that it is found.

mod damage;
mod faults;
mod model;
mod oracle;
mod recovery;
mod rig;
mod threads;

/// Tells what a test has done, to whoever runs it to see that promises hold.
fn figure(promise: &str, what: &str) {
    use std::io::Write;
    let Some(path) = std::env::var_os("BLKKIN_FIGURES") else { return };
    let mut file = std::fs::File::options().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{promise}\t{what}\n").as_bytes()).unwrap();
}
