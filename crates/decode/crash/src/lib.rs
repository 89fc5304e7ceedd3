//! Recovers the events of programs and machines that have died: from core files, files of shared
//! memory, and memory images of machines. Start at [`extract`].
//!
//! All that a trace needs is in shared memory: the rings with the events, a
//! [description](blkkin_control::RingDescription) in the header page of each set of rings, and the
//! event types in the program's [catalog](blkkin_control::catalog). Neither symbols of the kernel
//! nor files of the machine are needed.
//!
//! 1. `image` recognizes the format of a file, and maps addresses to it; `kdump` decompresses
//!    pages, `source` restores flattened files, `stored` skips gaps.
//! 2. `scan` reads all of the image, and finds the first pages of areas by their magic numbers.
//! 3. `tables` finds the other pages of an area, which are scattered in physical memory, by the
//!    page tables of the processes that have mapped the area; `area` puts them together
//!    (`memory`: pages and numbers).
//! 4. `recover` reads the sub-buffers of a ring; `events` walks over their events, and finds the
//!    first event after a gap; `catalog` reads event types. `copies` finds rings that two images
//!    have, so that no event is written twice.
//! 5. `output` writes a trace for each program and session.
//!
//! # Trust
//!
//! Images may be forged: nothing in them is trusted. Memory use is bounded by about a hundredth of
//! the image's size, one sub-buffer, and the event types of one program, since each page belongs
//! to one place in one area.

mod area;
mod catalog;
mod copies;
mod error;
mod events;
mod image;
mod kdump;
mod memory;
mod output;
mod recover;
mod scan;
mod source;
mod stored;
mod tables;
#[cfg(test)]
mod tests;

pub use image::{Image, ImageError, Machine, Space};
pub use recover::{RingCounts, SubbufferCounts};

use area::{Areas, CatalogArea, RingArea};
use blkkin_control::RingDescription;
use blkkin_ctf::decode::Decoder;
use catalog::Types;
use events::EventWalker;
use output::TraceDirectory;
use recover::{Packets, RingReader, StreamState};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Choices for an extraction.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directory for the traces; `None` to write nothing, and only report.
    pub output: Option<PathBuf>,
    /// Set to leave out events that the agent had read before the crash.
    pub unread_only: bool,
}

/// Result of an extraction.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One for each program and session, in the order of their names.
    pub traces: Vec<FoundTrace>,
    /// Number of areas whose memory was freed before the crash, so that nothing but the first page
    /// may be left of them.
    pub freed: u64,
    /// Number of pages in the images that are compressed by an unknown method: their descriptions
    /// are damaged. They are as pages that an image lacks.
    pub unreadable: u64,
    /// Addresses of the pages that lead to others: the first pages of rings, the pages of catalogs,
    /// and page tables. Without one of them, more than its own contents may be lost.
    pub structure: Vec<u64>,
}

/// Rings of one program for one session.
#[derive(Clone, Debug)]
pub struct FoundTrace {
    /// UUID of the trace.
    pub uuid: [u8; 16],
    /// Directory of the trace; `None` if it was not written.
    pub directory: Option<PathBuf>,
    /// Names of the session and the program, and the process id; `None` if all descriptions of the
    /// rings are missing or damaged.
    pub program: Option<FoundProgram>,
    /// Reason why events cannot be read; `None` if they can.
    pub problem: Option<Problem>,
    /// Number of event types whose description is lost.
    pub types_lost: u64,
    /// Channels in the order of their numbers.
    pub channels: Vec<FoundChannel>,
}

/// Program whose events were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProgram {
    /// Name of the session.
    pub session: String,
    /// Name of the program.
    pub name: String,
    /// Process id, as the agent saw it.
    pub pid: u32,
    /// Set if the events are of the kernel.
    pub is_kernel: bool,
}

/// Rings of one channel.
#[derive(Clone, Debug)]
pub struct FoundChannel {
    /// Name of the channel; empty if the description is missing.
    pub name: String,
    /// Number of pages of shared memory that were found.
    pub pages: u64,
    /// Number of rings in use.
    pub rings: u64,
    /// Sums over the rings.
    pub counts: RingCounts,
}

/// Reason why the events of rings cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The rings have no description: an agent of an older version has made them, or the
    /// description is damaged.
    NoDescription,
    /// The catalog of the program was not found.
    NoCatalog,
    /// Descriptions and event types are no valid metadata.
    Metadata,
}

/// Reads images, and writes the events in their rings as traces. The areas of several images are
/// put together: rings may be in one file and the catalog in another.
pub fn extract(images: &[Image], options: &Options) -> io::Result<Report> {
    let mut all = Areas::default();
    for (number, image) in images.iter().enumerate() {
        let mut areas = Areas::find(image, number)?;
        all.rings.append(&mut areas.rings);
        all.catalogs.append(&mut areas.catalogs);
        all.unmapped += areas.unmapped;
        all.unreadable += areas.unreadable;
        all.structure.append(&mut areas.structure);
    }
    let mut by_trace: BTreeMap<[u8; 16], Vec<RingArea>> = BTreeMap::new();
    for area in all.rings {
        by_trace.entry(area.shape.uuid).or_default().push(area);
    }
    let Areas { unmapped: freed, unreadable, structure, .. } = all;
    let mut report = Report { traces: Vec::new(), freed, unreadable, structure };
    for (uuid, areas) in by_trace {
        let trace = TraceExtraction { images, options, catalogs: &all.catalogs, uuid, areas };
        report.traces.push(trace.run()?);
    }
    let name = |trace: &FoundTrace| {
        let program = trace.program.as_ref();
        program.map(|one| (one.session.clone(), one.name.clone(), one.pid))
    };
    report.traces.sort_by_key(name);
    Ok(report)
}

/// Extraction of the rings of one program and session.
struct TraceExtraction<'e> {
    images: &'e [Image],
    options: &'e Options,
    catalogs: &'e [CatalogArea],
    uuid: [u8; 16],
    areas: Vec<RingArea>,
}

impl TraceExtraction<'_> {
    fn run(mut self) -> io::Result<FoundTrace> {
        self.areas = copies::sort_and_join(self.areas, self.images)?;
        let mut streams: BTreeMap<u32, RingDescription> = BTreeMap::new();
        for area in &self.areas {
            if let Some(description) = &area.description {
                streams.insert(area.shape.stream, description.clone());
            }
        }
        let first = streams.values().next();
        let program = first.map(|first| FoundProgram {
            session: first.session.clone(),
            name: first.program.clone(),
            pid: first.pid,
            is_kernel: first.is_kernel,
        });
        let mut found = FoundTrace {
            uuid: self.uuid,
            directory: None,
            program,
            problem: None,
            types_lost: 0,
            channels: Vec::new(),
        };
        match self.metadata(&streams, &mut found)? {
            Ok((decoder, text)) => self.write(&streams, &decoder, &text, &mut found)?,
            Err(problem) => {
                found.problem = Some(problem);
                found.channels = self.channels(&streams);
            }
        }
        Ok(found)
    }

    /// Returns the decoder of the trace's events, and the text of its metadata.
    fn metadata(
        &self,
        streams: &BTreeMap<u32, RingDescription>,
        found: &mut FoundTrace,
    ) -> io::Result<Result<(Decoder, String), Problem>> {
        let Some(first) = streams.values().next() else { return Ok(Err(Problem::NoDescription)) };
        let catalogs = self.catalogs.iter().filter(|one| one.number == first.catalog);
        let Some(types) = Types::of_copies(catalogs, self.images)? else {
            return Ok(Err(Problem::NoCatalog));
        };
        found.types_lost = types.lost;
        let streams: Vec<(u32, &RingDescription)> =
            streams.iter().map(|(number, one)| (*number, one)).collect();
        let schema = blkkin_agent::schema_of_rings(self.uuid, &streams, &types.found);
        let Some(schema) = schema else { return Ok(Err(Problem::NoDescription)) };
        let text = blkkin_ctf::tsdl::write(&schema);
        let decoder = Decoder::new(Arc::new(schema));
        Ok(match (decoder, text) {
            (Ok(decoder), Ok(text)) => Ok((decoder, text)),
            _ => Err(Problem::Metadata),
        })
    }

    /// Returns the channels of which no events can be read.
    fn channels(&self, streams: &BTreeMap<u32, RingDescription>) -> Vec<FoundChannel> {
        let mut channels: BTreeMap<u32, FoundChannel> = BTreeMap::new();
        for area in &self.areas {
            let channel = channels
                .entry(area.shape.stream)
                .or_insert_with(|| FoundChannel::new(streams.get(&area.shape.stream)));
            channel.pages += area.area.page_count();
        }
        channels.into_values().collect()
    }

    /// Reads all rings, and writes their packets.
    fn write(
        &self,
        streams: &BTreeMap<u32, RingDescription>,
        decoder: &Decoder,
        text: &str,
        found: &mut FoundTrace,
    ) -> io::Result<()> {
        let directory = match (&self.options.output, &found.program) {
            (Some(output), Some(program)) => {
                let FoundProgram { session, name, pid, .. } = program;
                Some(TraceDirectory::create(output, session, name, *pid)?)
            }
            _ => None,
        };
        let mut channels: BTreeMap<u32, FoundChannel> = BTreeMap::new();
        let mut states: BTreeMap<(u32, usize), StreamState> = BTreeMap::new();
        for area in &self.areas {
            let stream = area.shape.stream;
            let Some(index) = streams.keys().position(|number| *number == stream) else { continue };
            let channel =
                channels.entry(stream).or_insert_with(|| FoundChannel::new(streams.get(&stream)));
            let mut is_used = area.limits.is_empty();
            let mut walker = EventWalker::new(decoder, index, area.shape.event_size_max());
            for ring in area.rings_found() {
                let reader = RingReader::open(self.images, area, ring)?;
                let limit = area.limits.get(&ring);
                let Some(reader) = reader.and_then(|reader| match limit {
                    Some(limit) => reader.before(*limit),
                    None => Some(reader),
                }) else {
                    continue;
                };
                is_used = true;
                let mut file = directory.as_ref().map(|one| one.stream(&channel.name, ring));
                let mut write = |header: &_, events: &[u8]| match &mut file {
                    Some(file) => file.write(header, events),
                    None => Ok(()),
                };
                let state = states.entry((stream, ring)).or_default();
                let mut packets = Packets { state, write: &mut write };
                let counts = reader.read(&mut walker, self.options.unread_only, &mut packets)?;
                file.map_or(Ok(()), output::StreamFile::finish)?;
                channel.rings += 1;
                channel.counts.add(&counts);
            }
            channel.pages += if is_used { area.area.page_count() } else { 0 };
        }
        if let Some(directory) = directory {
            directory.write_metadata(text)?;
            found.directory = Some(directory.path().to_owned());
        }
        found.channels = channels.into_values().collect();
        Ok(())
    }
}

impl FoundChannel {
    fn new(description: Option<&RingDescription>) -> FoundChannel {
        FoundChannel {
            name: description.map_or_else(String::new, |one| one.channel.clone()),
            pages: 0,
            rings: 0,
            counts: RingCounts::default(),
        }
    }
}

impl RingArea {
    /// Returns the indexes of the rings of which there is a page of data.
    fn rings_found(&self) -> BTreeSet<usize> {
        let start = self.shape.data_of(0).start / image::PAGE;
        let pages = (self.shape.ring_size() / image::PAGE).max(1);
        let rings = self.area.pages_in(start as u64..u64::MAX);
        rings
            .map(|index| (index as usize - start) / pages)
            .filter(|ring| *ring < self.shape.rings)
            .collect()
    }

    /// Returns the time of the last event in all rings; 0 if it is not known.
    fn last_time(&self, images: &[Image]) -> u64 {
        let times = self.rings_found().into_iter().map(|ring| {
            let at = (self.shape.control_of(ring) + blkkin_ring::layout::LAST_TIME) as u64;
            let bytes = self.area.bytes(images, at..at + 8).ok().flatten();
            bytes.map_or(0, |bytes| image::long(&bytes, 0))
        });
        times.max().unwrap_or(0)
    }
}

/// Opens the images at a path: a file, or all regular files of a directory, such as the files of
/// shared memory that a machine had.
pub fn open(path: &Path) -> Result<Vec<(PathBuf, Image)>, (PathBuf, ImageError)> {
    let failed = |error: io::Error| (path.to_owned(), ImageError::from(error));
    if !path.is_dir() {
        let image = Image::open(path).map_err(|error| (path.to_owned(), error))?;
        return Ok(vec![(path.to_owned(), image)]);
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable();
    let open = |path: PathBuf| match Image::open(&path) {
        Ok(image) => Ok((path, image)),
        Err(error) => Err((path, error)),
    };
    paths.into_iter().map(open).collect()
}
