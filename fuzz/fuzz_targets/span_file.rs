//! A file of spans may say anything: where its checksums are right, reading it is an error or gives as many spans as it
//! has rows, and those are found again by their request.
//!
//! The input is a file as it is, or, if it begins with a byte below 32, that many rows, and then for each column the
//! page: encoding, values, and the length of what follows and that, and a dictionary in the same form if the encoding
//! is a dictionary's.
#![no_main]

use blkkin_columns::testing::{COLUMN_COUNT, Said, file};
use blkkin_columns::{Block, File};
use libfuzzer_sys::fuzz_target;

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count.min(bytes.len()));
    *bytes = rest;
    taken
}

fn byte(bytes: &mut &[u8]) -> u8 {
    take(bytes, 1).first().copied().unwrap_or(0)
}

fn said<'a>(bytes: &mut &'a [u8]) -> Said<'a> {
    let (encoding, values) = (byte(bytes), byte(bytes).into());
    let length = byte(bytes).into();
    let body = take(bytes, length);
    let dictionary = (encoding == 8).then(|| {
        let (count, length) = (byte(bytes).into(), byte(bytes).into());
        (count, take(bytes, length))
    });
    Said { encoding, values, body, dictionary }
}

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let whole = match byte(&mut rest) {
        rows @ 0..32 => {
            let columns: [Said<'_>; COLUMN_COUNT] = std::array::from_fn(|_| said(&mut rest));
            file(rows.into(), &columns)
        }
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
        let _ = file.scan(group, &columns, |page| {
            for row in 0..page.rows() {
                page.text(columns[0], row);
                page.number(columns[1], row);
            }
            std::ops::ControlFlow::Continue(())
        });
    }
});
