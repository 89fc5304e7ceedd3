//! The bytes of a journal, as [`log`](crate::log) writes and [`scan`](crate::scan) reads them. No
//! I/O.
//!
//! # A directory
//!
//! ```text
//! 0000000000000007.segment    a segment, by its number in hexadecimal; numbers only grow
//! 0000000000000008.new        an unfinished segment; removed on opening for writing
//! NAME.position               position of a consumer (position.rs)
//! NAME.position.new           an unfinished position; removed on opening for writing
//! quarantine/                 copies of damaged bytes (quarantine.rs)
//! ```
//!
//! The directory itself is locked (`flock`): one writer, or any number of readers of a journal at
//! rest. All numbers are little-endian, and all CRCs are CRC32C.
//!
//! # A segment
//!
//! ```text
//! 0     header, 512 bytes
//! 512   copy of the header, in another sector
//! 1024  records, without gaps, each at a multiple of 8
//! ...   zeros up to the reserved size, until a finished segment is truncated
//! ```
//!
//! # A header
//!
//! ```text
//! 0    8 bytes  "BlkKinJ\n"
//! 8    u32      version: 1
//! 12   u32      compat bits: a release ignores unknown ones
//! 16   u32      incompat bits: a release that lacks one of them neither reads nor writes
//! 20   u32      read-only compat bits: a release that lacks one of them must not write
//! 24   u64      identity of the journal, random; its lower half, the marker, is not 0
//! 32   u64      number of the segment
//! 40   u64      sequence number of the first record
//! 48   u64      previous segment: its number, or 0
//! 56   u64      ... the offset where its records end
//! 64   u64      ... the sequence number that follows its last record
//! 72   u64      ... the first sequence number that may never have been acknowledged
//! 80            zeros
//! 508  u32      CRC of bytes 0 to 508
//! ```
//!
//! A header states where the records of the *previous* segment end. That end is final when the next
//! segment starts, because records are never added to a segment after a failed write or a restart.
//! Bytes after that end were never acknowledged, and are no part of the journal. If the first
//! record's sequence number is larger than the one after the previous segment's last record, the
//! numbers between were refused, or skipped because a consumer's position was ahead of the records.
//! A segment whose number lies between a header's own and its previous one's was never used.
//!
//! # A record
//!
//! ```text
//! 0    u32      the marker: lower half of the journal's identity
//! 4    u32      size of the payload
//! 8    u64      sequence number: the previous record's, plus 1
//! 16   u32      place: number of records before it that may not have been durable yet when it
//!               was written
//! 20   u8       kind, the caller's
//! 21   u8       flags; bit 0: not a record, but the end of a journal that was closed cleanly
//! 22   u16      zero
//! 24   u32      CRC of the payload and its padding
//! 28   u32      CRC of bytes 0 to 28
//! 32            payload, and zeros up to a multiple of 8
//! ```
//!
//! The CRCs of records are seeded with the CRC of the journal's identity. A payload that contains
//! the bytes of a record, by chance or by malice, is therefore not taken for one: senders of
//! payloads do not know the identity.
//!
//! # Limits
//!
//! A payload has at most [`PAYLOAD_BYTES_MAX`] bytes, a directory at most [`SEGMENTS_MAX`]
//! segments.
//!
//! # Damage
//!
//! A wrong payload CRC costs one record: its header gives the offset of the next one. After a wrong
//! header CRC, the scan searches for a record at each multiple of 8. Readers report the bytes
//! between, and a damaged copy of a segment's header. A journal open for writing also counts these
//! bytes and copies them to quarantine. If no copy of the header is readable, the identity is read
//! from another segment, and the rest follows from sequence numbers.
//! Trailing bytes of the last segment that form no record count as an interrupted write.
//! Records of one write may reach the disk in any order, so a gap among them may have the same
//! cause; `place` distinguishes such a gap from damage.

use std::ops::Range;

/// Offset of the first record in a segment, in bytes.
pub(crate) const HEADER_BYTES: u64 = 1024;

/// Size of one copy of the header in bytes, and the unit that a disk writes atomically.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Size of a record's header, in bytes.
pub(crate) const RECORD_HEADER_BYTES: usize = 32;

/// Maximum size of a payload in any journal, in bytes.
pub const PAYLOAD_BYTES_MAX: u32 = 16 << 20;

/// Maximum number of segments in a directory.
pub const SEGMENTS_MAX: usize = 1 << 16;

const MAGIC: [u8; 8] = *b"BlkKinJ\n";
const VERSION: u32 = 1;
const SECTOR_CRC: usize = SECTOR_BYTES - 4;
const FLAG_END: u8 = 1;

/// Random identity of a journal, which all of its segments share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    number: u64,
    seed: u32,
}

impl Identity {
    pub(crate) fn new(number: u64) -> Identity {
        // A marker of zeros would match the zeros of unused space.
        let number = if number as u32 == 0 { number | 1 } else { number };
        Identity { number, seed: crc32c::crc32c(&number.to_le_bytes()) }
    }

    pub(crate) fn marker(self) -> [u8; 4] {
        (self.number as u32).to_le_bytes()
    }

    fn crc(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.seed, bytes)
    }
}

/// Previous segment, as described in a segment's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PreviousSegment {
    /// Number of the previous segment, or 0.
    pub(crate) number: u64,
    pub(crate) end: u64,
    pub(crate) next: u64,
    pub(crate) certain_before: u64,
}

/// Decoded header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) identity: Identity,
    pub(crate) number: u64,
    pub(crate) first: u64,
    pub(crate) previous: PreviousSegment,
}

/// Result of decoding a segment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodedHeader {
    /// Header with at least one valid copy. A flag is set for each copy that is damaged.
    Valid { header: SegmentHeader, damaged: [bool; 2] },
    /// Header without a valid copy: both are damaged, cut off, or state another segment's number.
    Damaged,
    /// Header with a version or feature bit that this release does not know.
    Newer { version: u32, incompat: u32, read_only_compat: u32 },
}

/// Encodes both copies of a segment's header into one buffer.
pub(crate) fn encode_segment_header(header: &SegmentHeader) -> [u8; HEADER_BYTES as usize] {
    let mut sector = [0; SECTOR_BYTES];
    sector[0..8].copy_from_slice(&MAGIC);
    sector[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let previous = &header.previous;
    let numbers = [
        header.identity.number,
        header.number,
        header.first,
        previous.number,
        previous.end,
        previous.next,
        previous.certain_before,
    ];
    for (place, number) in sector[24..].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    let crc = crc32c::crc32c(&sector[..SECTOR_CRC]);
    sector[SECTOR_CRC..].copy_from_slice(&crc.to_le_bytes());
    let mut both = [0; HEADER_BYTES as usize];
    both[..SECTOR_BYTES].copy_from_slice(&sector);
    both[SECTOR_BYTES..].copy_from_slice(&sector);
    both
}

/// Decodes the header of segment `number` from the first bytes of its file. `bytes` may be too
/// short, if the file has been truncated.
pub(crate) fn decode_segment_header(bytes: &[u8], number: u64) -> DecodedHeader {
    let copies = [bytes.get(..SECTOR_BYTES), bytes.get(SECTOR_BYTES..2 * SECTOR_BYTES)];
    let copies = copies.map(|sector| sector.and_then(|sector| decode_sector(sector, number)));
    let damaged = copies.map(|copy| copy.is_none());
    match copies[0].or(copies[1]) {
        Some(Ok(header)) => DecodedHeader::Valid { header, damaged },
        Some(Err(newer)) => newer,
        None => DecodedHeader::Damaged,
    }
}

/// Decodes one copy of a segment's header. Returns `None` if the copy is damaged or does not fit
/// `number`, and [`DecodedHeader::Newer`] as an error if its format is newer.
fn decode_sector(sector: &[u8], number: u64) -> Option<Result<SegmentHeader, DecodedHeader>> {
    if sector[..8] != MAGIC || u32_at(sector, SECTOR_CRC) != crc32c::crc32c(&sector[..SECTOR_CRC]) {
        return None;
    }
    let [version, incompat, read_only_compat] = [8, 16, 20].map(|place| u32_at(sector, place));
    if version != VERSION || incompat != 0 || read_only_compat != 0 {
        return Some(Err(DecodedHeader::Newer { version, incompat, read_only_compat }));
    }
    let at = |place| u64_at(sector, place);
    let previous =
        PreviousSegment { number: at(48), end: at(56), next: at(64), certain_before: at(72) };
    let header =
        SegmentHeader { identity: Identity::new(at(24)), number: at(32), first: at(40), previous };
    // A mismatch means that the file has been renamed.
    (header.number == number && previous.number < number).then_some(Ok(header))
}

/// Decoded header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) size: u32,
    pub(crate) sequence: u64,
    pub(crate) place: u32,
    pub(crate) kind: u8,
    /// Set if the header belongs to the end mark of a closed journal and not to a record.
    pub(crate) is_end: bool,
    payload_crc: u32,
}

impl RecordHeader {
    /// Decodes the header of a record. Returns `None` if `bytes` are too few, if the identity or
    /// the header's CRC does not match, or if a field is invalid.
    pub(crate) fn decode(bytes: &[u8], identity: Identity) -> Option<RecordHeader> {
        let bytes = bytes.get(..RECORD_HEADER_BYTES)?;
        if bytes[..4] != identity.marker() || !crc_matches(identity.crc(&bytes[..28]), bytes, 28) {
            return None;
        }
        let header = RecordHeader {
            size: u32_at(bytes, 4),
            sequence: u64_at(bytes, 8),
            place: u32_at(bytes, 16),
            kind: bytes[20],
            is_end: bytes[21] == FLAG_END,
            payload_crc: u32_at(bytes, 24),
        };
        let is_known = header.is_end || bytes[21] == 0;
        (is_known && bytes[22..24] == [0, 0] && header.size <= PAYLOAD_BYTES_MAX).then_some(header)
    }

    /// Returns the size of the record in bytes, with header and padding.
    pub(crate) fn whole_bytes(&self) -> usize {
        record_bytes(self.size as usize)
    }

    /// Returns the byte range of the payload, relative to the start of the record.
    pub(crate) fn payload(&self) -> Range<usize> {
        RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + self.size as usize
    }

    /// Returns true if the payload with its padding has the CRC that the header states.
    pub(crate) fn matches(&self, record: &[u8], identity: Identity) -> bool {
        #[cfg(test)]
        if crate::injection::is_active(crate::injection::Injection::PayloadCrcSkipped) {
            return true;
        }
        identity.crc(&record[RECORD_HEADER_BYTES..self.whole_bytes()]) == self.payload_crc
    }

    /// Returns the first sequence number that may not have been durable yet when this record was
    /// written.
    pub(crate) fn group_first(&self) -> u64 {
        self.sequence.saturating_sub(self.place.into())
    }
}

/// Returns the size of a record in bytes, given the size of its payload.
pub(crate) const fn record_bytes(payload_bytes: usize) -> usize {
    (RECORD_HEADER_BYTES + payload_bytes).next_multiple_of(8)
}

/// Fields of a record to encode.
#[derive(Clone, Copy)]
pub(crate) struct NewRecord<'a> {
    pub(crate) sequence: u64,
    pub(crate) place: u32,
    pub(crate) kind: u8,
    pub(crate) payload: &'a [u8],
}

/// Appends the bytes of a record to `to`. The caller has checked the payload's size.
pub(crate) fn encode_record(record: &NewRecord<'_>, identity: Identity, to: &mut Vec<u8>) {
    encode(record, 0, identity, to);
}

/// Appends the end mark of a closed journal to `to`. `next` is the sequence number that the next
/// record will have after reopening.
pub(crate) fn encode_end(next: u64, identity: Identity, to: &mut Vec<u8>) {
    let record = NewRecord { sequence: next, place: 0, kind: 0, payload: &[] };
    encode(&record, FLAG_END, identity, to);
}

fn encode(record: &NewRecord<'_>, flags: u8, identity: Identity, to: &mut Vec<u8>) {
    let start = to.len();
    to.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    to.extend_from_slice(record.payload);
    to.resize(start + record_bytes(record.payload.len()), 0);
    let payload_crc = identity.crc(&to[start + RECORD_HEADER_BYTES..]);
    let header = &mut to[start..start + RECORD_HEADER_BYTES];
    header[..4].copy_from_slice(&identity.marker());
    header[4..8].copy_from_slice(&(record.payload.len() as u32).to_le_bytes());
    header[8..16].copy_from_slice(&record.sequence.to_le_bytes());
    header[16..20].copy_from_slice(&record.place.to_le_bytes());
    header[20] = record.kind;
    header[21] = flags;
    header[24..28].copy_from_slice(&payload_crc.to_le_bytes());
    let crc = identity.crc(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
}

fn crc_matches(crc: u32, bytes: &[u8], place: usize) -> bool {
    crc == u32_at(bytes, place)
}

fn u32_at(bytes: &[u8], place: usize) -> u32 {
    bytes.get(place..place + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], place: usize) -> u64 {
    bytes
        .get(place..place + 8)
        .and_then(|eight| eight.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

const SEGMENT_SUFFIX: &str = ".segment";
const NEW_SUFFIX: &str = ".new";

/// Returns the file name of the segment with this number.
pub(crate) fn segment_name(number: u64) -> String {
    format!("{number:016x}{SEGMENT_SUFFIX}")
}

/// Returns the file name of the unfinished segment with this number.
pub(crate) fn new_name(number: u64) -> String {
    format!("{number:016x}{NEW_SUFFIX}")
}

/// Returns the number of the segment with this file name; `None` for names of other files.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    number_before(name, SEGMENT_SUFFIX)
}

/// Returns the number of the unfinished segment with this file name; `None` for names of other
/// files.
pub(crate) fn new_number(name: &str) -> Option<u64> {
    number_before(name, NEW_SUFFIX)
}

fn number_before(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    // Each number has a single spelling, and 0 is no segment's number.
    (number != 0 && format!("{number:016x}") == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader = SegmentHeader {
        identity: Identity { number: 0x1122_3344_5566_7788, seed: 0 },
        number: 9,
        first: 1000,
        previous: PreviousSegment { number: 7, end: 4096, next: 990, certain_before: 980 },
    };

    fn header() -> SegmentHeader {
        SegmentHeader { identity: Identity::new(HEADER.identity.number), ..HEADER }
    }

    #[test]
    fn a_segments_header_survives_the_loss_of_either_sector() {
        let whole = encode_segment_header(&header());
        let known = |damaged| DecodedHeader::Valid { header: header(), damaged };
        assert_eq!(decode_segment_header(&whole, 9), known([false, false]));
        assert_eq!(decode_segment_header(&whole[..700], 9), known([false, true]));
        assert_eq!(decode_segment_header(&whole[..511], 9), DecodedHeader::Damaged);
        assert_eq!(decode_segment_header(&whole, 8), DecodedHeader::Damaged, "another's name");
        for place in 0..whole.len() {
            let mut bytes = whole;
            bytes[place] ^= 0x10;
            let first = place < SECTOR_BYTES;
            assert_eq!(decode_segment_header(&bytes, 9), known([first, !first]), "{place}");
        }
    }

    #[test]
    fn what_is_newer_is_told_from_what_is_damaged() {
        for (place, newer) in [(8, [3, 0, 0]), (16, [1, 2, 0]), (20, [1, 0, 2])] {
            let mut bytes = encode_segment_header(&header());
            bytes[place] |= 2;
            let crc = crc32c::crc32c(&bytes[..SECTOR_CRC]);
            bytes[SECTOR_CRC..SECTOR_BYTES].copy_from_slice(&crc.to_le_bytes());
            let [version, incompat, read_only_compat] = newer;
            let expected = DecodedHeader::Newer { version, incompat, read_only_compat };
            assert_eq!(decode_segment_header(&bytes, 9), expected);
        }
    }

    #[test]
    fn a_record_is_known_by_its_journal() {
        let identity = header().identity;
        let mut bytes = Vec::new();
        let record = NewRecord { sequence: 77, place: 3, kind: 5, payload: b"payload" };
        encode_record(&record, identity, &mut bytes);
        assert_eq!(bytes.len(), 40);
        let read = RecordHeader::decode(&bytes, identity).expect("a record");
        assert_eq!((read.sequence, read.group_first(), read.kind), (77, 74, 5));
        assert_eq!(&bytes[read.payload()], b"payload");
        assert!(read.matches(&bytes, identity));
        // This identity has the same marker, but another CRC.
        let other = Identity::new(identity.number ^ (1 << 40));
        assert_eq!(RecordHeader::decode(&bytes, other), None);
    }

    #[test]
    fn what_is_reserved_in_a_record_is_zero() {
        let identity = header().identity;
        for place in 21..24 {
            let mut bytes = Vec::new();
            encode_end(7, identity, &mut bytes);
            assert!(RecordHeader::decode(&bytes, identity).is_some_and(|header| header.is_end));
            bytes[place] |= 2;
            let crc = identity.crc(&bytes[..28]);
            bytes[28..].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(RecordHeader::decode(&bytes, identity), None, "{place}");
        }
    }

    #[test]
    fn names_stand_for_one_number_each() {
        fn check(name: &str, expected: Option<u64>) {
            assert_eq!(segment_number(name), expected, "{name}");
        }
        check(&segment_name(0xabc), Some(0xabc));
        check("0000000000000000.segment", None);
        check("00000000000000AB.segment", None);
        check("00000000000000ab.new", None);
        check("ab.segment", None);
        check("+0000000000000ab.segment", None);
        assert_eq!(new_number(&new_name(u64::MAX)), Some(u64::MAX));
    }
}
