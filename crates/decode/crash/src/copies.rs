//! Copies of the same rings, which several images have: the core files of a program and of the
//! agent, or a core file and copies of shared memory.
//!
//! Two areas have the same rings if they share a sub-buffer: with the same number and time in the
//! same ring. The later area is read as a whole, with the pages of the earlier one in its gaps; of
//! the earlier one are read the sub-buffers before those, which may have been overwritten since.

use crate::area::RingArea;
use crate::image::Image;
use crate::recover::RingReader;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

/// A sub-buffer: stream, ring, number, time of the first event.
type Identity = (u32, usize, u64, u64);

/// Sub-buffers that an area has.
#[derive(Default)]
struct Contents {
    identities: Vec<Identity>,
    /// The least number of a sub-buffer, by ring.
    first_numbers: BTreeMap<usize, u64>,
    /// The latest time of a header.
    latest_time: u64,
}

/// Sorts the areas of one trace by stream and time, and joins those that have the same rings.
pub(crate) fn sort_and_join(areas: Vec<RingArea>, images: &[Image]) -> io::Result<Vec<RingArea>> {
    if areas.len() < 2 {
        return Ok(areas);
    }
    let with_contents = |area: RingArea| Ok((Contents::of(&area, images)?, area));
    let mut all: Vec<(Contents, RingArea)> =
        areas.into_iter().map(with_contents).collect::<io::Result<_>>()?;
    // An earlier set of rings of a channel has earlier events.
    all.sort_by_cached_key(|(contents, area)| {
        let time = area.last_time(images).max(contents.latest_time);
        (area.shape.stream, time, area.area.page_count())
    });
    let (contents, mut areas): (Vec<Contents>, Vec<RingArea>) = all.into_iter().unzip();
    let copies = copies_of(&areas, &contents);
    for (later, earlier) in &copies {
        for at in earlier {
            if let Ok([later, earlier]) = areas.get_disjoint_mut([*later, *at]) {
                later.area.fill(&earlier.area);
            }
        }
    }
    for (later, earlier) in copies {
        // The pages of copies may have added sub-buffers.
        let contents = Contents::of(&areas[later], images)?;
        for at in earlier {
            for (ring, number) in &contents.first_numbers {
                let limit = areas[at].limits.entry(*ring).or_insert(*number);
                *limit = (*limit).min(*number);
            }
        }
    }
    Ok(areas)
}

/// Returns the indexes of areas with the same rings: those of earlier ones by that of a later one.
fn copies_of(areas: &[RingArea], contents: &[Contents]) -> BTreeMap<usize, BTreeSet<usize>> {
    // The latest area with a sub-buffer.
    let mut owners: HashMap<Identity, usize> = HashMap::new();
    let mut copies: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (at, contents) in contents.iter().enumerate().rev() {
        for identity in &contents.identities {
            let later = *owners.entry(*identity).or_insert(at);
            if later != at && areas[later].shape == areas[at].shape {
                copies.entry(later).or_default().insert(at);
            }
        }
    }
    copies
}

impl Contents {
    fn of(area: &RingArea, images: &[Image]) -> io::Result<Contents> {
        let mut contents = Contents::default();
        for ring in area.rings_found() {
            let Some(reader) = RingReader::open(images, area, ring)? else { continue };
            for (number, time) in reader.identities() {
                contents.identities.push((area.shape.stream, ring, number, time));
                contents.latest_time = contents.latest_time.max(time);
            }
            contents.first_numbers.extend(reader.first_number().map(|number| (ring, number)));
        }
        Ok(contents)
    }
}
