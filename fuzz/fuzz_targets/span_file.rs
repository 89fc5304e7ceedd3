//! Fuzzes span files: reading returns an error or as many spans as the file has rows. Searches by
//! trace id and reads of single columns survive any file.
//!
//! The input is a whole file, or, if its first byte is below 32, instructions from which
//! [`file_of_input`] makes a file with correct checksums.
#![no_main]

use blkkin_columns::testing::file_of_input;
use blkkin_columns::{Block, File};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let whole = match bytes {
        [0..32, ..] => file_of_input(bytes),
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
