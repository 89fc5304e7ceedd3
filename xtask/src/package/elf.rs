//! Properties of an ELF file that decide about a package: whether it needs a dynamic loader, its
//! libraries with their versions, and its build id. [`Elf::parse`] is the entry point.
//!
//! The files are 64-bit and little-endian. They come from the linker, but a damaged file still
//! gives an error, not a panic.

use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Section types.
const DYNAMIC: u32 = 6;
const NOTE: u32 = 7;
const VERSION_NEEDS: u32 = 0x6fff_fffe;
/// Type of the program header that names the dynamic loader.
const INTERPRETER: u32 = 3;
/// Tag in the dynamic section of a needed library.
const NEEDED: u64 = 1;
/// Type of the note with the build id.
const BUILD_ID: u32 = 3;
/// Flag of a version that the loader does not insist on.
const WEAK: u16 = 2;

/// Facts about a program or shared library.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Elf {
    /// Set if the file names a dynamic loader.
    has_interpreter: bool,
    /// Names of the libraries that the loader must find.
    pub(super) needed: BTreeSet<String>,
    /// Required versions of symbols, such as `GLIBC_2.34`.
    versions: BTreeSet<String>,
    /// Build id in hexadecimal.
    pub(super) build_id: Option<String>,
}

impl Elf {
    pub(super) fn parse(bytes: &[u8]) -> Result<Elf, String> {
        if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
            return Err("no 64-bit little-endian ELF file".to_owned());
        }
        Bytes(bytes).elf().ok_or_else(|| "the ELF headers are damaged; build it again".to_owned())
    }

    /// Returns true if the file runs without any other file.
    pub(super) fn is_static(&self) -> bool {
        !self.has_interpreter && self.needed.is_empty()
    }

    /// Returns the highest required version with this prefix, such as `2.34` for `GLIBC_`.
    pub(super) fn version_max(&self, prefix: &str) -> Result<Option<Version>, String> {
        let names = self.versions.iter().filter_map(|name| name.strip_prefix(prefix));
        let versions = names.map(|name| match name {
            // A format of relocations that 2.36 introduced has a version of its own.
            "ABI_DT_RELR" => Version::parse("2.36"),
            _ => Version::parse(name),
        });
        versions.collect::<Result<Vec<_>, _>>().map(|versions| versions.into_iter().max()).map_err(
            |name| format!("needs the symbol version {prefix}{name}, which no release of it has"),
        )
    }
}

/// A version of numbers and dots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version(Vec<u32>);

impl Version {
    fn parse(text: &str) -> Result<Version, String> {
        let numbers = text.split('.').map(|number| number.parse().ok()).collect::<Option<_>>();
        numbers.map(Version).ok_or_else(|| text.to_owned())
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// Bytes of a file or a part of it, with checked reads.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

/// A section: type, number of the linked section, and contents.
struct Section<'a> {
    kind: u32,
    link: usize,
    bytes: Bytes<'a>,
}

impl<'a> Bytes<'a> {
    fn part(self, offset: u64, size: u64) -> Option<Bytes<'a>> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        self.0.get(start..end).map(Bytes)
    }

    fn number<const SIZE: usize>(self, offset: u64) -> Option<[u8; SIZE]> {
        self.part(offset, SIZE as u64)?.0.try_into().ok()
    }

    fn u16(self, offset: u64) -> Option<u16> {
        self.number(offset).map(u16::from_le_bytes)
    }

    fn u32(self, offset: u64) -> Option<u32> {
        self.number(offset).map(u32::from_le_bytes)
    }

    fn u64(self, offset: u64) -> Option<u64> {
        self.number(offset).map(u64::from_le_bytes)
    }

    /// Returns the text at an offset of a string table.
    fn text(self, offset: u32) -> Option<String> {
        let text = self.0.get(offset as usize..)?;
        let end = text.iter().position(|byte| *byte == 0)?;
        String::from_utf8(text[..end].to_vec()).ok()
    }

    fn elf(self) -> Option<Elf> {
        let mut elf = Elf { has_interpreter: self.has_interpreter()?, ..Elf::default() };
        let sections = self.sections()?;
        for section in &sections {
            let strings = || Some(sections.get(section.link)?.bytes);
            match section.kind {
                DYNAMIC => section.bytes.needed(strings()?, &mut elf.needed)?,
                VERSION_NEEDS => section.bytes.versions(strings()?, &mut elf.versions)?,
                NOTE => elf.build_id = elf.build_id.or(section.bytes.build_id()),
                _ => {}
            }
        }
        Some(elf)
    }

    fn has_interpreter(self) -> Option<bool> {
        let (start, size, count) = (self.u64(32)?, self.u16(54)?, self.u16(56)?);
        for index in 0..u64::from(count) {
            let header = start.checked_add(index * u64::from(size))?;
            if self.u32(header)? == INTERPRETER {
                return Some(true);
            }
        }
        Some(false)
    }

    fn sections(self) -> Option<Vec<Section<'a>>> {
        /// Type of a section without bytes in the file.
        const NO_BITS: u32 = 8;
        let (start, size, count) = (self.u64(40)?, self.u16(58)?, self.u16(60)?);
        let section = |index: u64| {
            let header = self.part(start.checked_add(index * u64::from(size))?, 64)?;
            let kind = header.u32(4)?;
            let length = if kind == NO_BITS { 0 } else { header.u64(32)? };
            let bytes = self.part(header.u64(24)?, length)?;
            Some(Section { kind, link: header.u32(40)? as usize, bytes })
        };
        (0..u64::from(count)).map(section).collect()
    }

    fn needed(self, strings: Bytes<'_>, names: &mut BTreeSet<String>) -> Option<()> {
        for entry in self.0.chunks_exact(16).map(Bytes) {
            if entry.u64(0)? == NEEDED {
                names.insert(strings.text(entry.u64(8)?.try_into().ok()?)?);
            }
        }
        Some(())
    }

    /// Adds the versions that must be there; of weak ones the loader only warns.
    fn versions(self, strings: Bytes<'_>, versions: &mut BTreeSet<String>) -> Option<()> {
        let mut at = 0;
        loop {
            let mut version = at + u64::from(self.u32(at + 8)?);
            for _ in 0..self.u16(at + 2)? {
                if self.u16(version + 4)? & WEAK == 0 {
                    versions.insert(strings.text(self.u32(version + 8)?)?);
                }
                version += u64::from(self.u32(version + 12)?);
            }
            match self.u32(at + 12)? {
                0 => return Some(()),
                next => at += u64::from(next),
            }
        }
    }

    fn build_id(self) -> Option<String> {
        let mut at = 0;
        loop {
            let (name, size) = (self.u32(at)?, self.u32(at + 4)?);
            let start = at + 12 + u64::from(name.checked_next_multiple_of(4)?);
            if self.u32(at + 8)? == BUILD_ID && self.part(at + 12, 4)?.0 == b"GNU\0" {
                return Some(super::archive::hex(self.part(start, size.into())?.0));
            }
            at = start + u64::from(size.checked_next_multiple_of(4)?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Elf, Version};
    use std::fs;

    fn own() -> Vec<u8> {
        fs::read(std::env::current_exe().expect("own path")).expect("own file")
    }

    /// The test program is linked dynamically with glibc.
    #[test]
    fn facts_of_this_program() {
        let elf = Elf::parse(&own()).expect("an ELF file");
        assert!(!elf.is_static() && elf.needed.contains("libc.so.6"), "{elf:?}");
        let version = elf.version_max("GLIBC_").expect("versions").expect("a version");
        assert!(version >= Version::parse("2.2.5").expect("a version"), "{version}");
        assert_eq!(elf.version_max("OTHER_"), Ok(None));
    }

    /// Cut and damaged files give an error or other facts, and no panic.
    #[test]
    fn damage_does_no_harm() {
        let mut bytes = own();
        for at in 0..200 {
            let _ = Elf::parse(&bytes[..at * 41]);
            let byte = std::mem::replace(&mut bytes[at], 0xff);
            let _ = Elf::parse(&bytes);
            bytes[at] = byte;
        }
        assert!(Elf::parse(b"#!/bin/sh").is_err());
    }

    #[test]
    fn versions_compare_by_number() {
        let version = |text: &str| Version::parse(text).expect("a version");
        assert!(version("2.4") < version("2.34") && version("2.2.5") < version("2.3"));
        assert_eq!(version("2.2.5").to_string(), "2.2.5");
        assert!(Version::parse("PRIVATE").is_err());
    }

    #[test]
    fn a_private_symbol_is_refused() {
        let versions = ["GLIBC_PRIVATE".to_owned()].into();
        let elf = Elf { versions, ..Elf::default() };
        let error = elf.version_max("GLIBC_").unwrap_err();
        assert!(error.contains("GLIBC_PRIVATE"), "{error}");
    }
}
