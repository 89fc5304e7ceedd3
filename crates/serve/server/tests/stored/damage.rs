//! Test of the promises D3 and D8: in each copy of a store, a bit of one file is flipped or one
//! file is truncated. The server starts, returns only spans that were sent, reports a loss if
//! acknowledged requests are missing, and accepts further spans.

use crate::harness::{SentRequests, ServerRun, start};
use crate::program::PlantedFault;
use blkkin_sys::testing::{Random, env_number, figure};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the paths of all files below a directory, sorted.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let place = to.join(file.strip_prefix(from).expect("below it"));
        fs::create_dir_all(place.parent().expect("a directory")).expect("made");
        fs::copy(&file, &place).expect("copied");
    }
}

/// Flips a random bit of a file, or truncates the file at a random offset. Returns a description of
/// the damage.
fn damage(file: &Path, random: &mut Random) -> String {
    let mut bytes = fs::read(file).expect("read");
    // A segment is preallocated and mostly zero; the damage must hit its records.
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
    let at = random.below(end);
    let what = if random.chance(25) {
        bytes.truncate(at);
        // A cut exactly between two records of a journal is undetectable; the extra byte makes a
        // torn record.
        if file.extension().is_some_and(|kind| kind == "segment") {
            bytes.push(0x5a);
        }
        "cut"
    } else {
        bytes[at] ^= 1 << random.below(8_u32);
        "changed"
    };
    fs::write(file, bytes).expect("written");
    format!("{} {what} at {at}", file.display())
}

/// Starts a server on the damaged store. Checks that the server returns only requests that were
/// sent, reports a loss if acknowledged requests are missing, accepts a further batch, and stops
/// normally. Returns the number of missing requests.
fn check(directory: &Path, sent: &SentRequests) -> Result<u64, String> {
    let life = ServerRun::start(&[], directory, PlantedFault::None);
    let life = life.map_err(|(end, said)| format!("does not start: {end} {said:?}"))?;
    let found = life.all().ok_or("no answer")??;
    let missing = sent.compare(&found)?.len() as u64;
    let told = life.metric("blkkin_store_spans_lost_total")
        + life.metric("blkkin_store_spans_damaged")
        + life.metric("blkkin_store_damages_total");
    if missing > 0 && told == 0 {
        return Err(format!("{missing} are missing, and nothing was counted: {:?}", life.said));
    }
    // The server must still accept and store spans.
    let mut new = sent.clone();
    if new.send_one(life.web) != Some(202) {
        return Err("it takes nothing more".to_owned());
    }
    match life.end().success() {
        true => Ok(missing),
        false => Err("it does not end in order".to_owned()),
    }
}

#[test]
fn d3_damage_stays_where_it_is_and_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut sent = SentRequests::default();
    let life = start(&data);
    sent.send(&life, 34);
    life.kill();
    // A file that was being created at the kill may be empty, and cannot be damaged.
    let mut names = files(&data);
    names.retain(|file| file.metadata().is_ok_and(|file| file.len() > 0));
    let count = env_number("TEST_DAMAGES", 60);
    let mut random = Random::new(env_number("TEST_SEED", 1));
    let (mut missing, mut harmed) = (0, 0);
    for number in 0..count {
        let other = directory.path().join(format!("copy-{number}"));
        copy(&data, &other);
        let file = &names[number as usize % names.len()];
        let what = damage(&other.join(file.strip_prefix(&data).expect("below it")), &mut random);
        let lost = check(&other, &sent).unwrap_or_else(|why| panic!("{what}: {why}"));
        missing += lost;
        harmed += u64::from(lost > 0);
        fs::remove_dir_all(&other).expect("removed");
    }
    assert!(harmed > 0, "nothing was harmed");
    figure(
        "D3",
        &format!(
            "{count} stores with a byte changed or an end missing: all start, {harmed} miss {missing} requests and say \
             so, nothing is served that was not sent"
        ),
    );
}
