//! Fuzzes the extraction of events from memory images: any bytes are an image or an error, and the
//! work on them ends.
//!
//! The input is a list of changes to memory in which nothing is, so that short inputs reach page
//! tables and rings: a page in 1 byte, an offset in words in 2 bytes, a size in 1 byte, and as many
//! bytes. With an odd first byte, the input is the image itself.
#![no_main]

use blkkin_crash::{Image, Options, extract};
use blkkin_sys::SharedMemory;
use libfuzzer_sys::fuzz_target;

/// Size of the memory that changes apply to, in bytes.
const SIZE: usize = 1 << 20;
const PAGE: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let Some((&first, rest)) = input.split_first() else { return };
    let bytes = if first % 2 == 1 { rest.to_vec() } else { changed(rest) };
    if bytes.is_empty() {
        return;
    }
    let (file, memory) = SharedMemory::create(c"image", bytes.len()).expect("memory");
    memory.copy_in(0, &bytes);
    let Ok(image) = Image::of_file(file) else { return };
    let pages = image.page_count();
    let Ok(report) = extract(&[image], &Options::default()) else { return };
    let found = report.traces.iter().flat_map(|trace| &trace.channels);
    let found: u64 = found.map(|channel| channel.pages).sum();
    assert!(found <= pages, "a page is in one area");
});

fn changed(mut changes: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    while let Some((&[page, low, high, size], rest)) = changes.split_first_chunk() {
        let start =
            usize::from(page) * PAGE + usize::from(u16::from_le_bytes([low, high]) % 512) * 8;
        let size = usize::from(size).min(rest.len());
        let (change, rest) = rest.split_at(size);
        let end = (start + size).min(SIZE);
        bytes[start..end].copy_from_slice(&change[..end - start]);
        changes = rest;
    }
    bytes
}
