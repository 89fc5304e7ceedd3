//! Functions of a program by pattern of their names, and addresses of its data by name.
//!
//! ```text
//! symbol   offset of the name (4 bytes), type and binding, visibility,
//!          index of the section (2 bytes; 0: in another library), address, size (8 bytes each)
//! ```
//!
//! The table of symbols is read in chunks, and its functions are sorted by the offset of their
//! names, so that names are read in sequence. A query has two passes: the first finds the addresses
//! of matching names, the second collects all names of these addresses.

use super::demangle::{Demangled, demangle};
use super::elf::{Elf, SHT_DYNSYM, SHT_SYMTAB, Section, half, long, word};
use super::error::ProgramErrorKind;
use super::names::Names;
use super::pattern::Pattern;
use std::collections::{BTreeMap, BTreeSet};

/// Size in bytes of a symbol.
const SYMBOL_BYTES: u64 = 24;
/// Number of symbols that are read at once.
const CHUNK_SYMBOLS: u64 = 4096;
/// Maximum size in bytes of a table of symbols.
const TABLE_BYTES_MAX: u64 = 1 << 30;
/// Maximum number of functions in a table. Large browsers have a million.
const ENTRIES_MAX: usize = 4 << 20;
/// Maximum size in bytes of the result of a query.
const RESULT_BYTES_MAX: usize = 64 << 20;
/// Memory in bytes that a name in a result takes besides its text.
const NAME_OVERHEAD: usize = 128;
/// Bytes of names, mangled and demangled, that a pass may process for each byte of the names in the
/// file. Names share their ends, so hostile offsets would make the work quadratic.
const WORK_FACTOR: u64 = 64;
/// Bytes of names that a pass may process in any case.
const WORK_MIN: u64 = 16 << 20;

/// Function of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Name in the program's table of symbols, without version. Of several names for one address,
    /// the first one that matches the pattern; global names precede local ones, and short names
    /// long ones.
    pub name: String,
    /// Demangled name of a Rust or C++ function: of a Rust function without its hash, of a C++
    /// function with its parameters.
    pub demangled: Option<String>,
    /// Other names of the same address.
    pub other_names: Vec<String>,
    /// Offset of the first instruction in the file.
    pub file_offset: u64,
    /// Size in bytes; 0 if the program does not state it.
    pub size: u64,
}

/// Kind of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SymbolKind {
    Function,
    Data,
}

/// Symbol of a table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    size: u64,
    /// Offset of the name in the names of the table.
    name: u32,
    binding: Binding,
}

/// Visibility to other object files, in the order in which names are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Global,
    Weak,
    Local,
}

/// Names of one address.
#[derive(Default)]
struct Function {
    size: u64,
    names: BTreeMap<String, NameRank>,
}

/// Criteria for the preferred one of several names of an address, and the demangled name.
struct NameRank {
    is_match: bool,
    binding: Binding,
    demangled: Option<String>,
}

/// Program, and its separate debug file.
#[derive(Clone, Copy, Debug)]
pub(super) struct SymbolFiles<'e> {
    pub(super) program: &'e Elf,
    pub(super) debug: Option<&'e Elf>,
}

impl<'e> SymbolFiles<'e> {
    /// Returns the functions with a name that the pattern matches, in the order of the file.
    pub(super) fn functions(&self, pattern: &str) -> Result<Vec<Symbol>, ProgramErrorKind> {
        let pattern = Pattern::new(pattern);
        let mut tables = Vec::new();
        for table in self.tables() {
            let has_code = |address| self.program.code_offset(address).is_some();
            tables.push((table, table.read(SymbolKind::Function, has_code)?));
        }
        let mut addresses = Vec::new();
        for (table, entries) in &tables {
            table.visit(entries, |entry, name| {
                if name.is_match(&pattern) {
                    addresses.push(entry.address);
                }
                Ok(())
            })?;
        }
        addresses.sort_unstable();
        addresses.dedup();
        let mut functions: BTreeMap<u64, Function> = BTreeMap::new();
        let mut bytes = 0;
        for (table, entries) in &mut tables {
            entries.retain(|entry| addresses.binary_search(&entry.address).is_ok());
            table.visit(entries, |entry, name| {
                bytes += name.text.len() + NAME_OVERHEAD;
                bytes += name.demangled().map_or(0, Demangled::size);
                if bytes > RESULT_BYTES_MAX {
                    let bytes_max = RESULT_BYTES_MAX;
                    return Err(ProgramErrorKind::TooManyMatches { bytes_max });
                }
                let function = functions.entry(entry.address).or_default();
                function.size = function.size.max(entry.size);
                let is_match = name.is_match(&pattern);
                let demangled = name.demangled().map(|demangled| demangled.full.clone());
                let rank = NameRank { is_match, binding: entry.binding, demangled };
                // The two tables may give the same name with different bindings.
                let known = function.names.entry(name.text.to_owned()).or_insert(rank);
                known.binding = known.binding.min(entry.binding);
                Ok(())
            })?;
        }
        let symbols =
            functions.into_iter().filter_map(|function| self.symbol(function.0, function.1));
        let mut symbols: Vec<Symbol> = symbols.collect();
        symbols.sort_by_key(|symbol| symbol.file_offset);
        Ok(symbols)
    }

    fn symbol(&self, address: u64, function: Function) -> Option<Symbol> {
        let file_offset = self.program.code_offset(address)?;
        let mut names: Vec<(String, NameRank)> = function.names.into_iter().collect();
        names.sort_by_key(|entry| (!entry.1.is_match, entry.1.binding, entry.0.len()));
        let mut names = names.into_iter();
        let first = names.next()?;
        let (name, demangled) = (first.0, first.1.demangled);
        let other_names = names.map(|entry| entry.0).collect();
        Some(Symbol { name, demangled, other_names, file_offset, size: function.size })
    }

    /// Returns the addresses of data by name. Names of several addresses are left out.
    pub(super) fn data_addresses(
        &self,
        names: &BTreeSet<&str>,
    ) -> Result<BTreeMap<String, u64>, ProgramErrorKind> {
        let mut found: BTreeMap<String, Option<u64>> = BTreeMap::new();
        for table in self.tables() {
            let has_bytes = |address| self.program.has_memory(address);
            let entries = table.read(SymbolKind::Data, has_bytes)?;
            table.visit(&entries, |entry, name| {
                if names.contains(name.text) {
                    let address = found.entry(name.text.to_owned()).or_insert(Some(entry.address));
                    if *address != Some(entry.address) {
                        *address = None;
                    }
                }
                Ok(())
            })?;
        }
        let found = found.into_iter();
        Ok(found.filter_map(|place| Some((place.0, place.1?))).collect())
    }

    /// Returns the tables with symbols. The table for dynamic linking is a part of the other one.
    fn tables(&self) -> Vec<Table<'e>> {
        // Files have at most one table of each kind.
        let tables = |elf: &'e Elf, kind| {
            elf.sections_of(kind).take(1).map(move |section| Table { elf, section })
        };
        let mut all: Vec<Table<'e>> = tables(self.program, SHT_SYMTAB).collect();
        if all.is_empty() {
            all.extend(tables(self.program, SHT_DYNSYM));
            all.extend(self.debug.into_iter().flat_map(|debug| tables(debug, SHT_SYMTAB)));
        }
        all
    }
}

/// Table of symbols.
#[derive(Clone, Copy, Debug)]
struct Table<'e> {
    elf: &'e Elf,
    section: &'e Section,
}

impl<'e> Table<'e> {
    /// Reads the defined symbols of a kind at wanted addresses, sorted by their names' offsets.
    fn read(
        &self,
        kind: SymbolKind,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<Vec<Entry>, ProgramErrorKind> {
        let section = self.section;
        self.elf.check_section(section)?;
        if section.size > TABLE_BYTES_MAX {
            let subject = "bytes in a table of symbols";
            return Err(ProgramErrorKind::TooMany { subject, max: TABLE_BYTES_MAX });
        }
        let names_size = self.names_section()?.size;
        let mut entries = Vec::new();
        let count = section.size / SYMBOL_BYTES;
        for start in (0..count).step_by(CHUNK_SYMBOLS as usize) {
            let offset = section.offset + start * SYMBOL_BYTES;
            let size = CHUNK_SYMBOLS.min(count - start) * SYMBOL_BYTES;
            let bytes = self.elf.source.read(offset, size as usize)?;
            for (index, symbol) in bytes.chunks_exact(SYMBOL_BYTES as usize).enumerate() {
                let address = long(symbol, 8);
                if symbol_kind(symbol) != Some(kind) || !is_wanted(address) {
                    continue;
                }
                let name = word(symbol, 0);
                if u64::from(name) >= names_size {
                    let offset = offset + index as u64 * SYMBOL_BYTES;
                    let expected = "offset of a symbol's name within the names";
                    return Err(ProgramErrorKind::Malformed { offset, expected });
                }
                if entries.len() == ENTRIES_MAX {
                    let subject = "symbols of one kind";
                    return Err(ProgramErrorKind::TooMany { subject, max: ENTRIES_MAX as u64 });
                }
                let binding = match symbol.get(4).map_or(0, |info| info >> 4) {
                    0 => Binding::Local,
                    2 => Binding::Weak,
                    _ => Binding::Global,
                };
                entries.push(Entry { address, size: long(symbol, 16), name, binding });
            }
        }
        entries.sort_unstable_by_key(|entry| (entry.name, entry.address));
        Ok(entries)
    }

    /// Calls `visit` with each symbol and its name. Symbols with the same name share the result of
    /// demangling. Symbols without a name, and with one that is too long, are skipped.
    fn visit(
        &self,
        entries: &[Entry],
        mut visit: impl FnMut(&Entry, &mut Name<'_>) -> Result<(), ProgramErrorKind>,
    ) -> Result<(), ProgramErrorKind> {
        let section = self.names_section()?;
        let mut names = Names::new(&self.elf.source, section.offset, section.size);
        let work_max = section.size.saturating_mul(WORK_FACTOR).saturating_add(WORK_MIN);
        let mut work = 0_u64;
        for group in entries.chunk_by(|entry, next| entry.name == next.name) {
            let Some(first) = group.first() else { continue };
            let Some(bytes) = names.at(first.name)? else { continue };
            let text = String::from_utf8_lossy(bytes);
            let mut name = Name::new(&text);
            for entry in group {
                visit(entry, &mut name)?;
            }
            work += (text.len() + name.known_size()) as u64;
            if work > work_max {
                let subject = "bytes in names of symbols";
                return Err(ProgramErrorKind::TooMany { subject, max: work_max });
            }
        }
        Ok(())
    }

    /// Returns the section with the names.
    fn names_section(&self) -> Result<&'e Section, ProgramErrorKind> {
        let Some(section) = self.elf.section_at(self.section.link) else {
            let offset = self.section.link_offset();
            let expected = "index of the section with the names of symbols";
            return Err(ProgramErrorKind::Malformed { offset, expected });
        };
        self.elf.check_section(section)?;
        Ok(section)
    }
}

/// Name of a symbol, demangled on first use.
struct Name<'n> {
    /// Name without version.
    text: &'n str,
    demangled: Option<Option<Demangled>>,
    /// Result of the last match; all matches of a pass are with the same pattern.
    is_match: Option<bool>,
}

impl<'n> Name<'n> {
    fn new(text: &'n str) -> Name<'n> {
        // Linkers append `@VERSION` and `@@VERSION`.
        let text = match text.find('@') {
            Some(end) if end > 0 => &text[..end],
            _ => text,
        };
        Name { text, demangled: None, is_match: None }
    }

    fn demangled(&mut self) -> Option<&Demangled> {
        self.demangled.get_or_insert_with(|| demangle(self.text)).as_ref()
    }

    fn is_match(&mut self, pattern: &Pattern<'_>) -> bool {
        if let Some(is_match) = self.is_match {
            return is_match;
        }
        let is_match = pattern.is_match(self.text.as_bytes())
            || self.demangled().is_some_and(|name| pattern.is_demangled_match(name));
        self.is_match = Some(is_match);
        is_match
    }

    /// Size in bytes of the demangled names, if they were needed.
    fn known_size(&self) -> usize {
        self.demangled.iter().flatten().map(Demangled::size).sum()
    }
}

/// Returns the kind of a symbol that the program defines. Indirect functions (`STT_GNU_IFUNC`) are
/// left out: their address is that of the function which chooses the implementation.
fn symbol_kind(symbol: &[u8]) -> Option<SymbolKind> {
    if half(symbol, 6) == 0 {
        return None;
    }
    match symbol.get(4).map_or(0, |info| info & 15) {
        0 | 1 | 5 => Some(SymbolKind::Data),
        2 => Some(SymbolKind::Function),
        _ => None,
    }
}
