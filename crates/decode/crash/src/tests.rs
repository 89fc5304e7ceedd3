//! Extraction from machines' memory that is put together here: rings with real events, a catalog,
//! and page tables, at random frames.

use crate::image::{Image, PAGE, Page};
use crate::{FoundTrace, Options, Problem, Report, extract};
use blkkin_control::catalog::{self, encode, encode_word, word_of};
use blkkin_control::{EventType, Field, FieldKind, Level, RingDescription, Width};
use blkkin_ctf::decode::Decoder;
use blkkin_ring::packet;
use blkkin_ring::{Cells, Clock, DESCRIPTION, Encoder, Mode, Outcome, Room, Shape, Writer};
use blkkin_sys::SharedMemory;
use blkkin_sys::testing::Random;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const IDENTITY: u64 = 77;
/// Size of an event: id, time, number.
const EVENT_SIZE: usize = 18;
/// Flags of an entry that maps a page of a user's, or points to a table.
const USER: u64 = 0x67;

/// Two rings of 4 MiB, with sub-buffers of four pages. Pages of the second one are in five page
/// tables.
fn shape(mode: Mode) -> Shape {
    Shape {
        mode,
        subbuffer_size: 4 * PAGE,
        subbuffer_count: 256,
        uuid: *b"0123456789abcdef",
        ..Shape::default()
    }
}

fn description() -> RingDescription {
    RingDescription {
        session: "flight".to_owned(),
        channel: "c".to_owned(),
        contexts: Vec::new(),
        is_kernel: false,
        program: "a/program".to_owned(),
        pid: 4711,
        catalog: IDENTITY,
        clock: "monotonic".to_owned(),
        frequency: 1_000_000_000,
        offset_seconds: 5,
        offset_ticks: 6,
        environment: Vec::new(),
    }
}

/// Returns the memory of rings with `count` numbered events, all in the last ring.
fn rings(shape: &Shape, count: u64) -> Vec<u8> {
    snapshots(shape, &[count]).remove(0)
}

/// Returns the memory of rings after each of these numbers of events.
fn snapshots(shape: &Shape, counts: &[u64]) -> Vec<Vec<u8>> {
    let (file, cells) = Cells::create(c"test", shape).unwrap();
    assert!(cells.describe(&description().to_block(DESCRIPTION.len()).unwrap()));
    let memory = SharedMemory::map(file.as_fd()).unwrap();
    let writer = Writer::new(Cells::new(memory), Clock::Monotonic).unwrap();
    let mut numbers = 0..;
    let snapshot = |count: &u64| {
        let more = (*count - numbers.start) as usize;
        for number in numbers.by_ref().take(more) {
            let mut room = Room::<64>::of_size();
            let mut encoder = Encoder::new(&mut room, 0);
            encoder.put(u64::to_le_bytes(number));
            let outcome = writer.record_in_last_ring(&mut encoder.event(), false);
            assert_eq!(outcome, Outcome::Recorded);
        }
        let mut bytes = vec![0; shape.memory_size()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    counts.iter().map(snapshot).collect()
}

fn event_type() -> EventType {
    let kind = FieldKind::Unsigned { width: Width::Bits64, hex: false };
    EventType {
        index: 0,
        name: "test:number".to_owned(),
        level: Level::Info,
        file: String::new(),
        line: 0,
        fields: vec![Field { name: "n".to_owned(), kind }],
    }
}

/// Returns a decoder of the events.
pub(crate) fn decoder() -> Decoder {
    let schema = blkkin_agent::schema_of_rings([1; 16], &[(0, &description())], &[event_type()]);
    Decoder::new(Arc::new(schema.unwrap())).unwrap()
}

fn catalog() -> Vec<u8> {
    let described = encode(&event_type()).unwrap();
    let place = catalog::DESCRIPTIONS..catalog::DESCRIPTIONS + described.len();
    let mut bytes = vec![0; catalog::SIZE];
    let words = [
        (0, catalog::MAGIC[0]),
        (8, catalog::MAGIC[1]),
        (catalog::COUNT, 1),
        (catalog::IDENTITY, IDENTITY),
        (word_of(0), encode_word(&place)),
    ];
    for (at, word) in words {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes[place].copy_from_slice(&described);
    bytes
}

/// Memory of a machine.
struct Memory {
    pages: Vec<Page>,
    /// Frames in a random order, that are not used yet.
    free: Vec<usize>,
    random: Random,
}

impl Memory {
    fn new(frames: usize, seed: u64) -> Memory {
        let mut random = Random::new(seed);
        let mut free: Vec<usize> = (1..frames).collect();
        for at in (1..free.len()).rev() {
            free.swap(at, random.below(at + 1));
        }
        // Memory that is not of BlkKin has any contents.
        let mut pages = vec![[0; PAGE]; frames];
        for page in pages.iter_mut().step_by(3) {
            page.fill_with(|| random.next() as u8);
        }
        Memory { pages, free, random }
    }

    fn frame(&mut self) -> usize {
        let frame = self.free.pop().expect("a larger memory");
        self.pages[frame] = [0; PAGE];
        frame
    }

    fn set_entry(&mut self, table: usize, index: usize, frame: usize) {
        let entry = (frame * PAGE) as u64 | USER;
        self.pages[table][8 * index..8 * index + 8].copy_from_slice(&entry.to_le_bytes());
    }

    /// Puts an area at random frames, and maps it as a process has it, from page number `start` of
    /// its addresses on. Pages of zeros are not allocated. Returns the frames.
    fn add(&mut self, area: &[u8], start: usize) -> Vec<Option<usize>> {
        let (pages, _) = area.as_chunks::<PAGE>();
        let frames = pages.iter().map(|page| {
            let is_used = page.iter().any(|byte| *byte != 0);
            is_used.then(|| {
                let frame = self.frame();
                self.pages[frame] = *page;
                frame
            })
        });
        let frames: Vec<Option<usize>> = frames.collect();
        self.map(&frames, start);
        frames
    }

    fn map(&mut self, frames: &[Option<usize>], start: usize) {
        let third = self.frame();
        let (mut second, mut first) = (None, None);
        for (page, frame) in (start..).zip(frames) {
            if page % (512 * 512) == 0 || second.is_none() {
                let table = self.frame();
                self.set_entry(third, page / (512 * 512) % 512, table);
                second = Some(table);
            }
            if page % 512 == 0 || first.is_none() {
                let table = self.frame();
                self.set_entry(second.unwrap(), page / 512 % 512, table);
                first = Some(table);
            }
            if let Some(frame) = frame {
                self.set_entry(first.unwrap(), page % 512, *frame);
            }
        }
    }

    fn image(&self) -> Image {
        image(&self.pages.concat())
    }
}

fn image(bytes: &[u8]) -> Image {
    let (file, memory) = SharedMemory::create(c"image", bytes.len()).unwrap();
    memory.copy_in(0, bytes);
    Image::of_file(file).unwrap()
}

/// Extracts the only trace of an image, and returns the numbers of its events.
fn numbers_in(image: Image) -> (FoundTrace, Vec<u64>) {
    numbers_in_all(&[image])
}

/// Extracts the only trace of some images, and returns the numbers of its events.
fn numbers_in_all(images: &[Image]) -> (FoundTrace, Vec<u64>) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { output: Some(directory.path().join("out")), unread_only: false };
    let Report { mut traces, .. } = extract(images, &options).unwrap();
    assert_eq!(traces.len(), 1, "{traces:?}");
    let trace = traces.remove(0);
    let path = directory.path().join("out/flight/a_program-4711");
    assert_eq!(trace.directory, Some(path.clone()));
    assert!(fs::read_to_string(path.join("metadata")).unwrap().contains("test:number"));
    let bytes = fs::read(path.join("c_1")).unwrap_or_default();
    let (mut numbers, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((header, after)) = rest.split_first_chunk::<{ packet::SIZE }>() {
        let header = packet::Header::from_bytes(header).unwrap();
        let (events, after) = after.split_at(header.content_size as usize - packet::SIZE);
        let number = |event: &[u8]| u64::from_le_bytes(event[10..18].try_into().unwrap());
        numbers.extend(events.chunks_exact(EVENT_SIZE).map(number));
        rest = after;
    }
    (trace, numbers)
}

/// Events per sub-buffer: no event reaches the last byte, and room is required in units of 32.
fn events_of_subbuffers(shape: &Shape, rings: &[u8]) -> Vec<(usize, Vec<u64>)> {
    let data = &rings[shape.data_of(1)];
    let subbuffers = data.chunks_exact(shape.subbuffer_size).enumerate();
    let current = u64::from_le_bytes(rings[shape.control_of(1)..][..8].try_into().unwrap());
    let current = (current % shape.ring_size() as u64) as usize;
    let events = |(index, bytes): (usize, &[u8])| {
        let start = index * shape.subbuffer_size;
        let header = packet::Header::from_bytes(bytes.first_chunk()?)?;
        let size = match (start..start + shape.subbuffer_size).contains(&current) {
            true => current - start,
            false => header.content_size as usize,
        };
        let events = bytes[packet::SIZE..size].chunks_exact(EVENT_SIZE);
        let number = |event: &[u8]| u64::from_le_bytes(event[10..18].try_into().unwrap());
        Some((index, events.map(number).collect()))
    };
    subbuffers.filter_map(events).collect()
}

#[test]
fn scattered_pages_are_put_together() {
    for (mode, count, start) in [
        (Mode::Overwrite, 100_000, 0),
        // The area is in tables of two second-level tables.
        (Mode::Overwrite, 100_000, 512 * 512 - 700),
        (Mode::Discard, 150_000, 511),
        // The ring has wrapped.
        (Mode::Overwrite, 400_000, 512 * 511 + 3),
    ] {
        let shape = shape(mode);
        let mut memory = Memory::new(6000, count + start as u64);
        let rings = rings(&shape, count);
        memory.add(&rings, start);
        memory.add(&catalog(), 5);
        let (trace, numbers) = numbers_in(memory.image());
        let first = count - numbers.len() as u64;
        assert!(numbers == (first..count).collect::<Vec<_>>(), "{trace:?}");
        let held: usize = events_of_subbuffers(&shape, &rings).iter().map(|one| one.1.len()).sum();
        assert_eq!((numbers.len(), count > 300_000), (held, first > 0));
        let counts = &trace.channels[0].counts;
        assert_eq!((counts.subbuffers.torn, counts.subbuffers.missing), (0, 0), "{trace:?}");
    }
}

/// Pages of two mappings complete each other: each misses the tables that the other has.
#[test]
fn mappings_complete_each_other() {
    let shape = shape(Mode::Overwrite);
    let mut memory = Memory::new(6000, 1);
    let frames = memory.add(&rings(&shape, 100_000), 100);
    memory.add(&catalog(), 5);
    for half in [0, 1] {
        let mut frames = frames.clone();
        let parts = frames.iter_mut().enumerate().skip(1);
        parts.filter(|(page, _)| page % 2 == half).for_each(|(_, frame)| *frame = None);
        memory.map(&frames, 300 + 1000 * half);
    }
    // The complete mapping is lost.
    let entry = ((frames[1].unwrap() * PAGE) as u64 | USER).to_le_bytes();
    let tables: Vec<usize> = (0..memory.pages.len())
        .filter(|frame| memory.pages[*frame][8 * 101..8 * 102] == entry)
        .collect();
    assert_eq!(tables.len(), 1);
    memory.pages[tables[0]] = [0; PAGE];
    let (_, numbers) = numbers_in(memory.image());
    assert!(numbers == (0..100_000).collect::<Vec<_>>(), "{}", numbers.len());
}

/// After random pages are zeroed, every event that is not in one of them is found, and no other.
#[test]
fn events_outside_of_lost_pages_are_found() {
    for seed in 0..8 {
        let shape = shape(Mode::Overwrite);
        let mut memory = Memory::new(6000, seed);
        let rings = rings(&shape, 150_000);
        let frames = memory.add(&rings, 77);
        memory.add(&catalog(), 5);
        let data = shape.data_of(1).start / PAGE;
        // Also the page with the ring's position.
        let mut lost: BTreeSet<usize> = [1].into();
        for _ in 0..60 {
            lost.insert(data + memory.random.below(600));
        }
        for frame in lost.iter().filter_map(|page| frames[*page]) {
            memory.pages[frame] = [0; PAGE];
        }
        let mut expected = Vec::new();
        for (index, events) in events_of_subbuffers(&shape, &rings) {
            let start = data * PAGE + index * shape.subbuffer_size + packet::SIZE;
            for (at, number) in events.into_iter().enumerate() {
                let place = start + at * EVENT_SIZE;
                let pages = [place / PAGE, (place + EVENT_SIZE - 1) / PAGE];
                if pages.iter().all(|page| !lost.contains(page)) {
                    expected.push(number);
                }
            }
        }
        let (trace, numbers) = numbers_in(memory.image());
        let missing: Vec<&u64> =
            expected.iter().filter(|number| numbers.binary_search(number).is_err()).collect();
        assert!(
            missing.is_empty(),
            "{seed}: {} {:?}",
            missing.len(),
            &missing[..missing.len().min(9)]
        );
        assert_eq!(numbers.len(), expected.len(), "{seed}");
        assert!(trace.channels[0].counts.subbuffers.torn > 20, "{trace:?}");
    }
}

#[test]
fn what_is_missing_is_told() {
    let shape = shape(Mode::Overwrite);
    let mut memory = Memory::new(6000, 9);
    let frames = memory.add(&rings(&shape, 5000), 0);
    let problem = |memory: &Memory| {
        let report = extract(&[memory.image()], &Options::default()).unwrap();
        report.traces.first().and_then(|trace| trace.problem)
    };
    assert_eq!(problem(&memory), Some(Problem::NoCatalog));
    let types = memory.add(&catalog(), 0);
    assert_eq!(problem(&memory), None);
    memory.pages[types[catalog::DESCRIPTIONS / PAGE].unwrap()] = [0; PAGE];
    let report = extract(&[memory.image()], &Options::default()).unwrap();
    assert_eq!(report.traces[0].types_lost, 1);
    memory.pages[frames[0].unwrap()][DESCRIPTION.start + 30] ^= 1;
    assert_eq!(problem(&memory), Some(Problem::NoDescription));
    // Without page tables, the first page is a remnant.
    let mut memory = Memory::new(100, 9);
    let frame = memory.frame();
    memory.pages[frame].copy_from_slice(&rings(&shape, 1)[..PAGE]);
    let report = extract(&[memory.image()], &Options::default()).unwrap();
    assert_eq!((report.traces.len(), report.freed), (0, 1));
}

/// Images of the same rings and catalog give each event once.
#[test]
fn copies_are_read_once() {
    let shape = shape(Mode::Overwrite);
    let mut memory = Memory::new(6000, 11);
    memory.add(&rings(&shape, 100_000), 0);
    memory.add(&catalog(), 5);
    let (alone, _) = numbers_in(memory.image());
    let (both, numbers) = numbers_in_all(&[memory.image(), memory.image(), memory.image()]);
    assert!(numbers == (0..100_000).collect::<Vec<_>>(), "{}", numbers.len());
    let [alone, both] = [&alone.channels[0], &both.channels[0]];
    assert_eq!((alone.pages, &alone.counts), (both.pages, &both.counts));
}

/// An earlier copy has events that were overwritten before a later one was made.
#[test]
fn earlier_copies_have_earlier_events() {
    let shape = shape(Mode::Overwrite);
    let [earlier, later] = &snapshots(&shape, &[150_000, 350_000])[..] else { panic!() };
    for order in [[earlier, later], [later, earlier]] {
        let [one, two] = order.map(|rings| image(rings));
        let (_, numbers) = numbers_in_all(&[one, two, image(&catalog()), image(&catalog())]);
        assert!(numbers == (0..350_000).collect::<Vec<_>>(), "{}", numbers.len());
    }
    // Rings of another recording have other events.
    let other = image(&rings(&shape, 1000));
    let (_, numbers) = numbers_in_all(&[image(later), other, image(&catalog())]);
    let (_, alone) = numbers_in_all(&[image(later), image(&catalog())]);
    assert_eq!(numbers.len(), alone.len() + 1000);
}

/// Each copy lacks pages that the other has, also the page with the positions and the types.
#[test]
fn copies_fill_gaps() {
    let shape = shape(Mode::Overwrite);
    let whole = rings(&shape, 150_000);
    let data = shape.data_of(1).start / PAGE;
    let mut random = Random::new(12);
    let mut parts = [whole.clone(), whole];
    let mut lose = |copy: usize, page: usize| parts[copy][page * PAGE..][..PAGE].fill(0);
    lose(0, shape.control_of(1) / PAGE);
    // The second copy lacks the first sub-buffers; the others lose single pages.
    (0..9).for_each(|page| lose(1, data + page));
    for page in 12..600 {
        match random.below(4) {
            0 => lose(0, data + page),
            1 => lose(1, data + page),
            _ => {}
        }
    }
    let mut types = [catalog(), catalog()];
    types[0][catalog::DESCRIPTIONS..].fill(0);
    let images = [&parts[0], &parts[1], &types[0], &types[1]].map(|bytes| image(bytes));
    let (trace, numbers) = numbers_in_all(&images);
    assert!(numbers == (0..150_000).collect::<Vec<_>>(), "{} {trace:?}", numbers.len());
    assert_eq!(trace.types_lost, 0);
    // Catalogs that contradict each other cannot be used.
    types[0] = catalog();
    let name = types[0].windows(4).position(|bytes| bytes == b"test").unwrap();
    types[0][name] = b'T';
    let images = [&parts[0], &types[0], &types[1]].map(|bytes| image(bytes));
    let report = extract(&images, &Options::default()).unwrap();
    assert_eq!(report.traces[0].problem, Some(Problem::NoCatalog));
}

/// Compresses a page, and returns the bytes with the number of the method.
fn compress(page: &Page, method: u64) -> (u32, Vec<u8>) {
    match method {
        0 => (0, page.to_vec()),
        1 => {
            let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
            writer.write_all(page).unwrap();
            (1, writer.finish().unwrap())
        }
        _ => (0x20, zstd::bulk::compress(page, 1).unwrap()),
    }
}

/// Returns memory in the format `kdump-compressed`, without the frames `without`.
fn kdump_of(pages: &[Page], without: &BTreeSet<usize>) -> Vec<u8> {
    let mut file = vec![0; 2 * PAGE];
    file[..12].copy_from_slice(b"KDUMP   \x06\0\0\0");
    file[272..278].copy_from_slice(b"x86_64");
    let blocks = pages.len().div_ceil(8 * PAGE) as u32 * 2;
    for (at, word) in [(428, PAGE as u32), (432, 1), (436, blocks), (PAGE + 96, pages.len() as u32)]
    {
        file[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let mut bitmap = vec![0u8; blocks as usize / 2 * PAGE];
    let dumped = (0..pages.len()).filter(|frame| !without.contains(frame));
    dumped.clone().for_each(|frame| bitmap[frame / 8] |= 1 << (frame % 8));
    file.extend(vec![0xff; bitmap.len()]);
    file.extend(bitmap);
    let mut content = Vec::new();
    let start = file.len() + 24 * dumped.clone().count();
    for frame in dumped {
        let (flags, bytes) = compress(&pages[frame], frame as u64 % 3);
        file.extend(((start + content.len()) as u64).to_le_bytes());
        file.extend((bytes.len() as u32).to_le_bytes());
        file.extend(flags.to_le_bytes());
        file.extend([0; 8]);
        content.extend(bytes);
    }
    file.extend(content);
    file
}

#[test]
fn compressed_dumps_are_read() {
    let shape = shape(Mode::Overwrite);
    let mut memory = Memory::new(6000, 5);
    let frames = memory.add(&rings(&shape, 50_000), 100);
    memory.add(&catalog(), 5);
    let used: BTreeSet<usize> = (0..6000).filter(|frame| memory.free.contains(frame)).collect();
    let whole = kdump_of(&memory.pages, &used);
    let (trace, numbers) = numbers_in(image(&whole));
    assert!(numbers == (0..50_000).collect::<Vec<_>>(), "{trace:?}");
    // A page that the dump lacks is as one of zeros.
    let page = frames[shape.data_of(1).start / PAGE + 5].unwrap();
    let (_, fewer) = numbers_in(image(&kdump_of(&memory.pages, &[page].into())));
    assert!((1..=229).contains(&(50_000 - fewer.len())), "{}", fewer.len());
    let half = image(&whole[..whole.len() / 2]);
    assert!(half.is_cut_off() && !image(&whole).is_cut_off());
    for size in [100, 5000, 3 * PAGE] {
        assert!(open_error(&whole[..size]).contains("damaged"), "{size}");
    }
    let mut lzo = whole.clone();
    // Three damaged descriptions cost three pages.
    let descriptions = 4 * PAGE;
    let dumped = 6000 - used.len();
    let mut set_method = |range: std::ops::Range<usize>| {
        for number in range {
            lzo[descriptions + 24 * number + 12] = 2;
        }
        extract(&[image(&lzo)], &Options::default())
    };
    let report = set_method(0..3).unwrap();
    assert_eq!(report.unreadable, 3);
    let events = report.traces[0].channels[0].counts.events;
    assert!((50_000 - 3 * 229..=50_000).contains(&events), "{events}");
    let error = set_method(0..dumped * 2 / 3).unwrap_err().to_string();
    assert!(error.contains("LZO"), "{error}");
}

fn open_error(bytes: &[u8]) -> String {
    let (file, memory) = SharedMemory::create(c"image", bytes.len()).unwrap();
    memory.copy_in(0, bytes);
    Image::of_file(file).unwrap_err().to_string()
}

/// Changed images yield errors or fewer events, and no panic.
#[test]
fn changed_images_do_no_harm() {
    let shape = Shape { uuid: [7; 16], subbuffer_count: 8, ..Shape::default() };
    let mut memory = Memory::new(400, 3);
    let frames = memory.add(&rings(&shape, 1000), 400);
    memory.add(&catalog(), 5);
    let whole = memory.pages.clone();
    for _ in 0..300 {
        memory.pages.clone_from(&whole);
        for _ in 0..memory.random.below(20) {
            // Half of the changes are in header and controls.
            let frame = match memory.random.below(2) {
                0 => frames[memory.random.below(2)].unwrap(),
                _ => memory.random.below(400),
            };
            let word = memory.random.below(64) * 8;
            let value = match memory.random.below(3) {
                0 => memory.random.next(),
                1 => memory.random.below(1 << 20),
                _ => (memory.random.below(400) * PAGE) as u64 | USER,
            };
            memory.pages[frame][word..word + 8].copy_from_slice(&value.to_le_bytes());
        }
        let _ = extract(&[memory.image()], &Options::default());
    }
}
