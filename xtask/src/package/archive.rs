//! Archives whose bytes depend on their contents only: tar, gzip, and checksums.

use super::tree::{Content, Entry, Tree};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::Write;
use tar::{Builder, EntryType, Header};

/// Returns a tree as tar. Names begin with `prefix`, and all times are `seconds` since 1970. A
/// prefix such as `./` has an entry of its own, as dpkg expects.
pub(super) fn tar(tree: &Tree, prefix: &str, seconds: u64) -> Result<Vec<u8>, String> {
    let mut builder = Builder::new(Vec::new());
    if !prefix.is_empty() {
        let root = Entry { content: Content::Folder, mode: 0o755, owner: 0 };
        append(&mut builder, prefix, &root, seconds)?;
    }
    for (path, entry) in &tree.entries {
        let slash = if matches!(entry.content, Content::Folder) { "/" } else { "" };
        append(&mut builder, &format!("{prefix}{path}{slash}"), entry, seconds)?;
    }
    builder.into_inner().map_err(|error| format!("cannot pack: {error}"))
}

fn append(
    builder: &mut Builder<Vec<u8>>,
    name: &str,
    entry: &Entry,
    seconds: u64,
) -> Result<(), String> {
    let mut header = Header::new_gnu();
    header.set_mode(entry.mode);
    header.set_uid(entry.owner.into());
    header.set_gid(entry.owner.into());
    header.set_mtime(seconds);
    let (kind, bytes, target) = match &entry.content {
        Content::File(bytes) => (EntryType::Regular, bytes.as_slice(), ""),
        Content::Link(target) => (EntryType::Symlink, &[][..], target.as_str()),
        Content::Folder => (EntryType::Directory, &[][..], ""),
    };
    header.set_entry_type(kind);
    header.set_size(bytes.len() as u64);
    // The crate's own functions drop a leading `./`.
    let fields = header.as_old_mut();
    for (field, text) in [(&mut fields.name, name), (&mut fields.linkname, target)] {
        let room = field.get_mut(..text.len()).ok_or_else(|| {
            format!("{text}: the name has more than 100 letters; shorten it for this archive")
        })?;
        room.copy_from_slice(text.as_bytes());
    }
    header.set_cksum();
    builder.append(&header, bytes).map_err(|error| format!("cannot pack {name}: {error}"))
}

/// Compresses bytes without a file name and time.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    packed.map_err(|error| format!("cannot compress: {error}"))
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
