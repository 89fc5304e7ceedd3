//! However large a trace is, and whatever its lengths claim: reading it takes little memory. The
//! streams of `tests/corpus/large` are made a GiB long with zeros that take no space on disk; the
//! largest resident size is that of /proc, taken until the program ends.

mod support;

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::Stdio;
use support::recipe::Recipe;
use support::{Scratch, blkkin};

/// Beyond what an empty run takes.
const MORE_KIB_MAX: u64 = 32 << 10;
const STREAM_SIZE: u64 = 1 << 30;

/// The largest resident size of a run, in KiB. A run that ends before it can be looked at is done
/// again.
fn peak_kib(directory: &Path, arguments: &[&str]) -> u64 {
    (0..5000).find_map(|_| peak_kib_once(directory, arguments)).expect("a run that can be measured")
}

fn peak_kib_once(directory: &Path, arguments: &[&str]) -> Option<u64> {
    let mut command = blkkin(directory);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    // Once it has ended, there is no such line any more.
    while let Some(kib) = fs::read_to_string(&status).ok().and_then(|text| high_water_mark(&text)) {
        peak = Some(kib);
        std::thread::yield_now();
    }
    child.wait().expect("the program to end");
    peak
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[test]
fn large_streams_and_claims_take_little_memory() {
    let scratch = Scratch::new("memory");
    let empty = peak_kib(&scratch.0, &["view", "--help"]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/corpus/large");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the corpus") {
        let recipe = Recipe::read(&entry.expect("an entry").path());
        recipe.write(&scratch.0);
        let stream = scratch.0.join(&recipe.name).join("stream");
        let stream = OpenOptions::new().write(true).open(stream).expect("the stream");
        stream.set_len(STREAM_SIZE).expect("to make it longer");
        for arguments in [
            &["view", "--count"][..],
            &["view", "--limit", "100"],
            &["view", "--json", "--limit", "100"],
        ] {
            let peak = peak_kib(&scratch.0, &[arguments, &[&recipe.name]].concat());
            count += 1;
            if peak > empty + MORE_KIB_MAX {
                wrong
                    .push(format!("{arguments:?} {}: {peak} KiB, {empty} when empty", recipe.name));
            }
        }
    }
    assert!(count > 10 && wrong.is_empty(), "{count} runs:\n{}", wrong.join("\n"));
}
