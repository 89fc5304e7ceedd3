//! Metadata of a trace, as text for viewers.
//!
//! Producers cut metadata into packets at any byte, but a viewer must get whole declarations. So
//! the text is put together here, and viewers get it up to the end of the last whole declaration.

use blkkin_ctf::metadata::{METADATA_SIZE_MAX, unpack};
use blkkin_lttng::Declarations;

/// Text that begins each part of the metadata for a viewer: `babeltrace2` recognizes TSDL by it.
const SIGNATURE: &[u8] = b"/* CTF 1.8 */\n";

/// First bytes of a metadata packet, in both byte orders.
const MAGICS: [[u8; 4]; 2] = [0x75d1_1d57_u32.to_le_bytes(), 0x75d1_1d57_u32.to_be_bytes()];

/// Offset of the size in a metadata packet's header; the size is in bits.
const PACKET_SIZE_OFFSET: usize = 28;

/// Metadata of a trace.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    text: Declarations,
    /// Metadata that a producer sends again from its start, after a rotation.
    resent: Option<Declarations>,
    /// Bytes that are no whole metadata packet yet.
    pending: Vec<u8>,
    /// Incremented when metadata was replaced by other metadata, not by an extension of it.
    pub(crate) generation: u64,
}

impl Metadata {
    /// Appends metadata in any form that a file may have. Returns false if it is too large.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> bool {
        let present = self.resent.as_ref().unwrap_or(&self.text).text().len();
        if present + self.pending.len() + bytes.len() > METADATA_SIZE_MAX {
            return false;
        }
        self.pending.extend_from_slice(bytes);
        // Bytes that are no whole packets wait for the rest.
        let whole = whole_packets(&self.pending);
        let Some(Ok(more)) = self.pending.get(..whole).map(unpack) else { return true };
        self.pending.drain(..whole);
        let more = more.text;
        let Some(resent) = &mut self.resent else {
            self.text.append(more.as_bytes());
            return true;
        };
        resent.append(more.as_bytes());
        let shorter = resent.text().len().min(self.text.text().len());
        let is_same = resent.text().get(..shorter) == self.text.text().get(..shorter);
        if !is_same || resent.text().len() >= self.text.text().len() {
            self.generation += u64::from(!is_same);
            self.text = self.resent.take().unwrap_or_default();
        }
        true
    }

    /// Begins to expect all metadata again.
    pub(crate) fn restart(&mut self) {
        self.pending.clear();
        if !self.text.text().is_empty() {
            self.resent = Some(Declarations::default());
        }
    }

    /// Returns the length of the whole declarations, in bytes.
    pub(crate) fn whole(&self) -> usize {
        self.text.whole_size()
    }

    /// Returns the whole declarations from byte `from` on, with a signature; `None` if there are no
    /// more.
    pub(crate) fn after(&self, from: usize) -> Option<Vec<u8>> {
        let more = self.text.text().get(from..self.text.whole_size())?;
        (!more.is_empty()).then(|| [SIGNATURE, more].concat())
    }
}

/// Returns the size of the whole metadata packets at the start of `bytes`; all bytes if they are
/// plain text.
fn whole_packets(bytes: &[u8]) -> usize {
    if MAGICS.iter().any(|magic| magic.starts_with(bytes)) {
        return 0;
    }
    let read = match MAGICS.iter().position(|magic| bytes.starts_with(magic)) {
        Some(0) => u32::from_le_bytes,
        Some(_) => u32::from_be_bytes,
        None => return bytes.len(),
    };
    let mut end = 0;
    loop {
        let field = bytes.get(end + PACKET_SIZE_OFFSET..).and_then(|rest| rest.first_chunk());
        let size = field.map_or(usize::MAX, |field| read(*field) as usize / 8);
        match end.checked_add(size) {
            Some(next) if next <= bytes.len() && next > end => end = next,
            _ => return end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_ctf::metadata::pack;
    use blkkin_ctf::schema::{ByteOrder, Uuid};

    const TEXT: &str = "/* CTF 1.8 */\ntypealias integer { size = 8; } := a;\n\
        trace { uuid = \"a;}b\"; /* ; */ };\nevent { // };\n id = 0; };\n";

    /// For each cut of the text, viewers get the declarations that end before the cut.
    #[test]
    fn viewers_get_whole_declarations() {
        let ends: Vec<usize> = [":= a;", "*/ };", "id = 0; };"]
            .map(|end| TEXT.find(end).unwrap() + end.len())
            .to_vec();
        for cut in 0..=TEXT.len() {
            let mut metadata = Metadata::default();
            assert!(metadata.append(&TEXT.as_bytes()[..cut]));
            let expected = ends.iter().rfind(|end| **end <= cut).copied().unwrap_or(0);
            assert_eq!(metadata.whole(), expected, "{cut}");
            assert!(metadata.append(&TEXT.as_bytes()[cut..]));
            assert_eq!(metadata.whole(), ends[2], "{cut}");
            let rest = [SIGNATURE, &TEXT.as_bytes()[expected..ends[2]]].concat();
            assert_eq!(metadata.after(expected), (expected < ends[2]).then_some(rest));
        }
    }

    #[test]
    fn packets_may_arrive_in_parts() {
        let packed = pack(TEXT, Uuid([7; 16]), ByteOrder::Little);
        for cut in [1, 40, 4095] {
            let mut metadata = Metadata::default();
            assert!(metadata.append(&packed[..cut]));
            assert_eq!(metadata.whole(), 0);
            assert!(metadata.append(&packed[cut..]));
            assert_eq!(metadata.whole(), TEXT.len() - 1);
        }
    }

    #[test]
    fn metadata_that_is_sent_again_extends_the_earlier() {
        let mut metadata = Metadata::default();
        metadata.append(b"trace { };\n");
        metadata.restart();
        metadata.append(b"trace { ");
        assert_eq!(metadata.whole(), 10);
        metadata.append(b"};\nevent { };");
        assert_eq!((metadata.whole(), metadata.generation), (21, 0));
        metadata.restart();
        metadata.append(b"trace { other };");
        assert_eq!(metadata.generation, 1);
    }
}
