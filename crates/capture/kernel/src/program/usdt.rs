//! USDT probes (SystemTap's user statically-defined tracing) in the section `.note.stapsdt`.
//!
//! ```text
//! note "stapsdt", type 3
//! content   address of the probe's instruction, address of .stapsdt.base at the time of the link,
//!           address of the semaphore or 0: 8 bytes each
//!           provider, name, arguments, each terminated by NUL
//! ```
//!
//! Prelinked files were moved after the notes were written. The section `.stapsdt.base` moved with
//! them, so its distance from the note's address corrects the other addresses.

use super::argument::{ArgumentLocation, UsdtArgument, parse_all};
use super::elf::{Elf, long};
use super::error::ProgramErrorKind;
use super::notes::{Note, Notes};
use super::symbols::SymbolFiles;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum size in bytes of the section. Large programs have a megabyte.
const NOTES_BYTES_MAX: u64 = 8 << 20;
/// Maximum number of arguments of a probe. The macros for C have at most 12.
const ARGUMENTS_MAX: usize = 32;
/// Size in bytes of the addresses in front of a note's texts.
const ADDRESSES_BYTES: usize = 24;
/// Type of a note with a probe.
const NT_STAPSDT: u32 = 3;

/// Location of a USDT probe. A probe with several locations has an entry for each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtProbe {
    /// Name of the program or library in the probe's name.
    pub provider: String,
    /// Name of the probe.
    pub name: String,
    /// Offset in the file of the probe's instruction, which does nothing.
    pub file_offset: u64,
    /// Offset in the file of the 2-byte counter of the attached tracers. The program computes the
    /// arguments only while the counter is not 0.
    pub semaphore_offset: Option<u64>,
    /// Arguments.
    pub arguments: Vec<UsdtArgument>,
}

/// Returns the probes in the order of their notes.
pub(super) fn probes(files: &SymbolFiles<'_>) -> Result<Vec<UsdtProbe>, ProgramErrorKind> {
    let elf = files.program;
    let Some(section) = elf.section(".note.stapsdt") else { return Ok(Vec::new()) };
    let bytes = elf.read_section(section, NOTES_BYTES_MAX, "bytes of notes with USDT probes")?;
    let base = elf.section(".stapsdt.base").map(|section| section.address);
    let mut probes = Vec::new();
    let mut addresses = Vec::new();
    for note in Notes::new(&bytes, section.offset, section.alignment) {
        let note = note?;
        if note.name == b"stapsdt" && note.kind == NT_STAPSDT {
            let fields = NoteFields::parse(&note, base)?;
            addresses.push(fields.address);
            probes.push(fields.probe(elf)?);
        }
    }
    resolve_variables(files, &mut probes, &addresses)?;
    Ok(probes)
}

/// Fields of a note, with corrected addresses.
struct NoteFields<'b> {
    /// Offset in the file of the note's content.
    offset: u64,
    address: u64,
    semaphore: Option<u64>,
    provider: &'b [u8],
    name: &'b [u8],
    arguments: &'b [u8],
}

impl<'b> NoteFields<'b> {
    fn parse(note: &Note<'b>, base: Option<u64>) -> Result<NoteFields<'b>, ProgramErrorKind> {
        let malformed = |expected| ProgramErrorKind::Malformed { offset: note.offset, expected };
        let texts = note.content.get(ADDRESSES_BYTES..);
        let texts = texts.ok_or_else(|| malformed("three addresses of a USDT probe"))?;
        let mut parts = texts.split(|byte| *byte == 0);
        // The last part follows the last NUL.
        let parts = [parts.next(), parts.next(), parts.next(), parts.next()];
        let [Some(provider), Some(name), Some(arguments), Some(_)] = parts else {
            return Err(malformed("three texts of a USDT probe, each terminated by NUL"));
        };
        if provider.is_empty() || name.is_empty() {
            return Err(malformed("provider and name of a USDT probe"));
        }
        let moved = base.map_or(0, |base| base.wrapping_sub(long(note.content, 8)));
        let semaphore = Some(long(note.content, 16)).filter(|address| *address != 0);
        Ok(NoteFields {
            offset: note.offset,
            address: long(note.content, 0).wrapping_add(moved),
            semaphore: semaphore.map(|address| address.wrapping_add(moved)),
            provider,
            name,
            arguments,
        })
    }

    fn probe(&self, elf: &Elf) -> Result<UsdtProbe, ProgramErrorKind> {
        let offset = self.offset;
        let missing = |address| ProgramErrorKind::NotInFile { address, offset };
        let file_offset = elf.code_offset(self.address).ok_or_else(|| missing(self.address))?;
        let semaphore_offset = match self.semaphore {
            Some(address) => Some(elf.file_offset(address).ok_or_else(|| missing(address))?),
            None => None,
        };
        let text = String::from_utf8_lossy(self.arguments);
        let arguments: Vec<UsdtArgument> = parse_all(&text).take(ARGUMENTS_MAX + 1).collect();
        if arguments.len() > ARGUMENTS_MAX {
            let subject = "arguments of a USDT probe";
            return Err(ProgramErrorKind::TooMany { subject, max: ARGUMENTS_MAX as u64 });
        }
        Ok(UsdtProbe {
            provider: String::from_utf8_lossy(self.provider).into_owned(),
            name: String::from_utf8_lossy(self.name).into_owned(),
            file_offset,
            semaphore_offset,
            arguments,
        })
    }
}

/// Sets the distance between each probe's instruction and the variables that the probe's arguments
/// refer to, in bytes.
fn resolve_variables(
    files: &SymbolFiles<'_>,
    probes: &mut [UsdtProbe],
    addresses: &[u64],
) -> Result<(), ProgramErrorKind> {
    let arguments = probes.iter().flat_map(|probe| &probe.arguments);
    let names: BTreeSet<&str> = arguments
        .filter_map(|argument| match &argument.location {
            ArgumentLocation::RipRelative { symbol, .. } => Some(symbol.as_str()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let variables: BTreeMap<String, u64> = files.data_addresses(&names)?;
    for (probe, address) in probes.iter_mut().zip(addresses) {
        for argument in &mut probe.arguments {
            if let ArgumentLocation::RipRelative { symbol, displacement, from_probe } =
                &mut argument.location
            {
                *from_probe = variables.get(symbol.as_str()).map(|variable| {
                    (variable.wrapping_sub(*address) as i64).wrapping_add(*displacement)
                });
            }
        }
    }
    Ok(())
}
