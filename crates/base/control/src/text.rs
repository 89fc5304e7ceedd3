//! Texts and paths, and the characters permitted in them. Texts of traced programs appear on
//! terminals, in file names and in the metadata of shared traces. Texts may therefore not contain
//! control characters, except for tabs and line breaks in multi-line texts. Names that become part
//! of file names may not contain `/`, and field names must be C identifiers.

use crate::encoding::{Form, Number};
use crate::fault::{Fault, Reason};
use crate::limits::{
    EVENT_NAME_SIZE_MAX, FIELD_NAME_SIZE_MAX, FILE_SIZE_MAX, FILTER_SIZE_MAX, LABEL_SIZE_MAX,
    NAME_SIZE_MAX, PATH_SIZE_MAX, SAMPLING_SIZE_MAX,
};
#[cfg(test)]
use crate::tests::Random;
use crate::wire::{Reader, Writer};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Form of the name of a session or channel, which becomes part of file names.
pub(crate) const NAME: Text = Text::new(Letters::FileName, NAME_SIZE_MAX);
pub(crate) const FILTER: Text = Text::new(Letters::Lines, FILTER_SIZE_MAX);
pub(crate) const SAMPLING: Text = Text::new(Letters::Line, SAMPLING_SIZE_MAX);
pub(crate) const EVENT_NAME: Text = Text::new(Letters::Name, EVENT_NAME_SIZE_MAX);
pub(crate) const FIELD_NAME: Text = Text::new(Letters::Identifier, FIELD_NAME_SIZE_MAX);
pub(crate) const LABEL: Text = Text::new(Letters::Name, LABEL_SIZE_MAX);
pub(crate) const FILE: Text = Text::new(Letters::Line, FILE_SIZE_MAX);

/// Form of a text: permitted characters and maximum size in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    pub(crate) letters: Letters,
    pub(crate) size_max: usize,
}

/// Set of characters permitted in a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Letters {
    /// One line; the text may be empty.
    Line,
    /// One line with at least one character.
    Name,
    /// Any number of lines; the text may be empty.
    Lines,
    /// Non-empty name that can be part of a file name: without `/`, and without a dot at its start.
    FileName,
    /// C identifier, which needs no quoting in the metadata of a trace.
    Identifier,
    /// Lower-case letters and hyphens: a code for scripts.
    Word,
}

impl Letters {
    /// Returns true if the character is permitted at byte offset `place` of the text. Does not
    /// reject the leading dot of a file name; `Text::check` does.
    fn permits(self, place: usize, found: char) -> bool {
        match self {
            Letters::Line | Letters::Name => !found.is_control(),
            Letters::Lines => !found.is_control() || matches!(found, '\n' | '\r' | '\t'),
            Letters::FileName => !found.is_control() && found != '/',
            Letters::Identifier => {
                found.is_ascii_alphabetic() || found == '_' || (found.is_ascii_digit() && place > 0)
            }
            Letters::Word => found.is_ascii_lowercase() || found == '-',
        }
    }

    /// Returns the description of the permitted characters, for errors.
    const fn expected(self) -> &'static str {
        match self {
            Letters::Line | Letters::Name => "printable characters",
            Letters::Lines => "printable characters and line breaks",
            Letters::FileName => "printable characters other than '/'",
            Letters::Identifier => "letters, '_' and, but at the start, digits",
            Letters::Word => "lower-case letters and '-'",
        }
    }
}

impl Text {
    pub(crate) const fn new(letters: Letters, size_max: usize) -> Text {
        Text { letters, size_max }
    }

    pub(crate) fn check(self, text: &str) -> Result<(), Reason> {
        check_size(text.len(), self.size_max)?;
        if text.is_empty() && !matches!(self.letters, Letters::Line | Letters::Lines) {
            return Err(Reason::Empty);
        }
        let bad = text.char_indices().find(|&(place, found)| !self.letters.permits(place, found));
        if let Some((_, found)) = bad {
            return Err(Reason::Character { found, expected: self.letters.expected() });
        }
        match self.letters == Letters::FileName && text.starts_with('.') {
            true => Err(Reason::LeadingDot),
            false => Ok(()),
        }
    }
}

impl Form<String> for Text {
    fn write(&self, value: &String, writer: &mut Writer<'_>) -> Result<(), Fault> {
        self.check(value).map_err(|reason| writer.fault(reason))?;
        write_bytes(value.as_bytes(), writer)
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<String, Fault> {
        let bytes = read_bytes(self.size_max, reader)?;
        let text = str::from_utf8(bytes).map_err(|_| reader.fault(Reason::NotUtf8))?;
        self.check(text).map_err(|reason| reader.fault(reason))?;
        Ok(text.to_owned())
    }

    #[cfg(test)]
    fn make(&self, random: &mut Random) -> String {
        let size_min = usize::from(!matches!(self.letters, Letters::Line | Letters::Lines));
        let size = random.between(size_min, self.size_max);
        let mut text = String::new();
        while text.len() < size {
            // Shifts by a random number of bits, so that UTF-8 sequences of all lengths occur.
            let character = char::from_u32((random.next() >> (43 + random.below(15))) as u32);
            let found = character.unwrap_or('a');
            let found = if self.letters.permits(text.len(), found) { found } else { 'a' };
            text.push(if text.len() + found.len_utf8() > size { 'z' } else { found });
        }
        if text.starts_with('.') && self.letters == Letters::FileName {
            text.replace_range(..1, "a");
        }
        text
    }
}

/// Form of an absolute path. Linux paths need not be UTF-8.
pub(crate) struct Path;

impl Path {
    fn check(bytes: &[u8]) -> Result<(), Reason> {
        check_size(bytes.len(), PATH_SIZE_MAX)?;
        match bytes.starts_with(b"/") && !bytes.contains(&0) {
            true => Ok(()),
            false => Err(Reason::Path),
        }
    }
}

impl Form<PathBuf> for Path {
    fn write(&self, value: &PathBuf, writer: &mut Writer<'_>) -> Result<(), Fault> {
        let bytes = value.as_os_str().as_bytes();
        Path::check(bytes).map_err(|reason| writer.fault(reason))?;
        write_bytes(bytes, writer)
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<PathBuf, Fault> {
        let bytes = read_bytes(PATH_SIZE_MAX, reader)?;
        Path::check(bytes).map_err(|reason| reader.fault(reason))?;
        Ok(PathBuf::from(OsStr::from_bytes(bytes)))
    }

    #[cfg(test)]
    fn make(&self, random: &mut Random) -> PathBuf {
        let size = random.between(1, PATH_SIZE_MAX);
        let bytes: Vec<u8> = (1..size).map(|_| random.next() as u8 | 1).collect();
        PathBuf::from(OsStr::from_bytes(&[b"/", &bytes[..]].concat()))
    }
}

fn check_size(size: usize, size_max: usize) -> Result<(), Reason> {
    if size <= size_max { Ok(()) } else { Err(Reason::TooLong { size, size_max }) }
}

fn write_bytes(bytes: &[u8], writer: &mut Writer<'_>) -> Result<(), Fault> {
    let size = u32::try_from(bytes.len());
    // Unreachable with the limits on texts and paths.
    let too_long = Reason::TooLong { size: bytes.len(), size_max: u32::MAX as usize };
    Number.write(&size.map_err(|_| writer.fault(too_long))?, writer)?;
    writer.bytes(bytes);
    Ok(())
}

fn read_bytes<'b>(size_max: usize, reader: &mut Reader<'b>) -> Result<&'b [u8], Fault> {
    let size = u32::from_le_bytes(reader.array()?) as usize;
    check_size(size, size_max).map_err(|reason| reader.fault(reason))?;
    reader.bytes(size)
}
