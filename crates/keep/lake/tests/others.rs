//! Test for programs that read the store's Parquet files at any time: all files that match the name
//! pattern are complete.

use blkkin_lake::{Lake, Options, Retention};
use blkkin_model::{SpanId, SpanRef, TraceId};
use blkkin_store::{Batch, Policy, SpanStore};
use blkkin_wire::{Format, encode};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;

/// Returns the number of Parquet files in a directory. Asserts that each file is complete.
fn count_complete_files(directory: &Path) -> usize {
    let mut seen = 0;
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        // The file may have been merged and removed meanwhile.
        if let (true, Ok(bytes)) =
            (path.extension().is_some_and(|it| it == "parquet"), fs::read(&path))
        {
            let is_whole = bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1");
            assert!(is_whole, "{}: {} bytes", path.display(), bytes.len());
            seen += 1;
        }
    }
    seen
}

/// Guard whose drop stops the reading thread, also on a panic.
struct StopGuard<'e>(&'e AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn parquet_files_are_always_complete() {
    const BATCH: u64 = 20_000;
    let scratch = tempfile::tempdir().expect("a folder");
    let retention = Retention { age: None, bytes: None };
    let options =
        Options { retention, file_spans: BATCH as usize, merge_files: 2, ..Options::default() };
    let (lake, _) = Lake::open(scratch.path(), options).expect("opened");
    let spans = scratch.path().join("spans");
    let ends = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut seen = 0;
            while !ends.load(Relaxed) {
                seen += count_complete_files(&spans);
            }
            seen
        });
        let end = StopGuard(&ends);
        for first in (1..=8 * BATCH).step_by(BATCH as usize) {
            let all = (first..first + BATCH).map(|number| {
                let id = SpanId::from_number(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let id = id.expect("not 0");
                SpanRef { name: "read", ..SpanRef::new(TraceId::from(id), id) }
            });
            let mut bytes = Vec::new();
            encode(Format::ZipkinProto, all, &mut bytes);
            let (tell, told) = mpsc::channel();
            let batch = Batch { format: Format::ZipkinProto, bytes: &bytes, policy: Policy::Whole };
            lake.accept(batch, Box::new(move |outcome| drop(tell.send(outcome))));
            told.recv().expect("an answer").expect("taken");
            lake.flush().expect("written");
        }
        drop(end);
        looks.join().expect("all were whole")
    });
    assert!(seen > 0 && count_complete_files(&spans) > 0);
}
