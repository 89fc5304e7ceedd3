//! A file of spans may say anything: where its checksums are right, reading it is an error or gives as many spans as it
//! has rows, and those are found again by their request.
//!
//! The input is a file as it is, or, if it begins with a byte below 32, what [`told`] makes one of.
#![no_main]

use blkkin_columns::testing::told;
use blkkin_columns::{Block, File};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = match bytes {
        [0..32, ..] => told(bytes),
        _ => bytes.to_vec(),
    };
    let Ok(file) = File::open(whole) else { return };
    let _ = file.verify();
    let mut block = Block::new();
    if let Ok(rows) = file.rows(0..file.len(), &mut block) {
        assert_eq!((rows, block.len() as u64), (file.len(), file.len()));
        for row in 0..block.len() as u32 {
            let _ = file.trace(block.trace_low(row), &mut Block::new());
        }
    }
    for group in 0..file.groups() {
        let columns = [blkkin_columns::Column::Name, blkkin_columns::Column::StartTime];
        for mut page in file.pages_of_group(group) {
            let _ = file.read_presence(&mut page, blkkin_columns::Column::ParentId);
            if file.read_columns(&mut page, &columns).is_ok() {
                for row in 0..page.rows() {
                    page.text(columns[0], row);
                    page.number(columns[1], row);
                }
            }
        }
    }
});
