//! Parser of an event's `format` file in the tracing file system, which describes the event's
//! record:
//!
//! ```text
//! name: sched_process_fork
//! ID: 366
//! format:
//!     field:unsigned short common_type;       offset:0;   size:2; signed:0;
//!     …
//!     (empty line)
//!     field:__data_loc char[] parent_comm;    offset:8;   size:4; signed:0;
//!     field:pid_t parent_pid;                 offset:12;  size:4; signed:1;
//!     (empty line)
//! print fmt: "comm=%s pid=%d", __get_str(parent_comm), REC->parent_pid
//! ```
//!
//! The fields before the first empty line are common to all events.

use std::fmt;

/// Maximum size of a file in bytes. The largest file of Linux 6.18 has about 6,000 bytes.
pub(crate) const BYTES_MAX: usize = 256 << 10;
/// Maximum number of fields.
const FIELDS_MAX: usize = 1024;
/// Maximum length of the excerpt of a `format` file in an error message, in bytes.
const FOUND_BYTES_MAX: usize = 64;

/// Layout of an event's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// Name of the event.
    pub name: String,
    /// Number of the event in this boot, which `perf_event_open` expects.
    pub id: u32,
    /// Fields in the order of the file.
    pub fields: Vec<FormatField>,
    /// Number of fields at the start of `fields` that all events have.
    pub common_field_count: usize,
    /// Format string and arguments with which the kernel prints the event, as in a call of
    /// `printf`.
    pub print: String,
}

impl EventFormat {
    /// Returns the fields without those that all events have.
    pub fn own_fields(&self) -> &[FormatField] {
        self.fields.get(self.common_field_count..).unwrap_or_default()
    }
}

/// Field of an event's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatField {
    /// Name of the field.
    pub name: String,
    /// Type in C notation; for arrays, the type of an element.
    pub type_text: String,
    /// Offset from the record's start in bytes.
    pub offset: u32,
    /// Size in bytes: for dynamic arrays the size of the word at `offset`, for flexible arrays 0.
    pub size: u32,
    /// Signedness of a plain field. The kernel's value for arrays and pointers has no meaning.
    pub is_signed: bool,
    /// Form of the field.
    pub kind: FieldKind,
}

/// Form of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Number, pointer or structure.
    Plain,
    /// Array with this number of elements.
    Array(u32),
    /// Array that ends with the record.
    FlexibleArray,
    /// Word with the offset (lower 16 bits) and the size (upper 16 bits) of an array in bytes. The
    /// offset counts from the record's start.
    DynamicArray,
    /// Word as for dynamic arrays, whose offset counts from the end of the word.
    RelativeDynamicArray,
}

/// Error in a `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Content that the format requires in the line.
    pub expected: &'static str,
    /// Start of the line's actual content.
    pub found: String,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FormatError { line, expected, found } = self;
        write!(f, "line {line}: expected {expected}, found {found:?}")
    }
}

impl std::error::Error for FormatError {}

impl EventFormat {
    /// Parses the text of a `format` file.
    pub fn parse(text: &str) -> Result<EventFormat, FormatError> {
        let mut lines = Lines { rest: text, number: 0 };
        if text.len() > BYTES_MAX {
            return Err(lines.error("at most 256 KiB of text", text));
        }
        let name = lines.labelled("name: ", "`name: ` and the name of the event")?;
        let expected_id = "`ID: ` and the number of the event";
        let id = lines.labelled("ID: ", expected_id)?;
        let id = id.parse().map_err(|_| lines.error(expected_id, id))?;
        let heading = lines.next();
        if heading.trim_end() != "format:" {
            return Err(lines.error("`format:`", heading));
        }
        let mut fields = Vec::new();
        let mut common_field_count = 0;
        loop {
            let line = lines.next();
            if let Some(print) = line.strip_prefix("print fmt: ") {
                // Format strings of some events contain line breaks.
                let print = format!("{print}\n{}", lines.rest).trim_end().to_owned();
                let name = name.to_owned();
                return Ok(EventFormat { name, id, fields, common_field_count, print });
            }
            match line.trim_start().strip_prefix("field:") {
                Some(_) if fields.len() == FIELDS_MAX => {
                    return Err(lines.error("at most 1,024 fields", line));
                }
                Some(field) => fields.push(parse_field(field, &lines)?),
                None if line.trim().is_empty() && !lines.is_at_end() => {
                    if common_field_count == 0 {
                        common_field_count = fields.len();
                    }
                }
                None => return Err(lines.error("`field:`, an empty line or `print fmt: `", line)),
            }
        }
    }
}

/// Lines of a text.
struct Lines<'t> {
    rest: &'t str,
    /// Number of the last line that was returned.
    number: usize,
}

impl<'t> Lines<'t> {
    /// Returns the next line; an empty one after the end.
    fn next(&mut self) -> &'t str {
        self.number += 1;
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.rest = rest;
        line
    }

    fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the content of the next line, which has a label and is not empty.
    fn labelled(&mut self, label: &str, expected: &'static str) -> Result<&'t str, FormatError> {
        let line = self.next();
        let content = line.strip_prefix(label).map(str::trim).unwrap_or_default();
        match content {
            "" => Err(self.error(expected, line)),
            _ => Ok(content),
        }
    }

    fn error(&self, expected: &'static str, found: &str) -> FormatError {
        let found = found.trim();
        let end = found.floor_char_boundary(FOUND_BYTES_MAX);
        FormatError {
            line: self.number.max(1),
            expected,
            found: found.get(..end).unwrap_or_default().to_owned(),
        }
    }
}

/// Parses a field's line after `field:`.
fn parse_field(text: &str, lines: &Lines<'_>) -> Result<FormatField, FormatError> {
    let mut parts = text.split(';');
    let declaration = parts.next().unwrap_or_default();
    let mut number = |label: &str, expected| {
        let part = parts.next().unwrap_or_default();
        let number = part.trim().strip_prefix(label).and_then(|number| number.parse::<u32>().ok());
        number.ok_or_else(|| lines.error(expected, part))
    };
    let offset =
        number("offset:", "`offset:` and a number of bytes after the field's declaration")?;
    let size = number("size:", "`size:` and a number of bytes after the field's offset")?;
    let is_signed = match number("signed:", "`signed:0` or `signed:1` after the field's size")? {
        0 => false,
        1 => true,
        _ => return Err(lines.error("`signed:0` or `signed:1`", text)),
    };
    if offset.checked_add(size).is_none() {
        return Err(lines.error("a field that ends below 4 GiB", text));
    }
    let Some(declaration) = Declaration::parse(declaration.trim(), size) else {
        return Err(lines.error("a type and a name, as in C", declaration));
    };
    Ok(FormatField {
        name: declaration.name.to_owned(),
        type_text: declaration.type_text.to_owned(),
        offset,
        size,
        is_signed,
        kind: declaration.kind,
    })
}

/// Parsed declaration of a field.
struct Declaration<'t> {
    type_text: &'t str,
    name: &'t str,
    kind: FieldKind,
}

impl<'t> Declaration<'t> {
    fn parse(text: &'t str, size: u32) -> Option<Declaration<'t>> {
        let dynamic = [
            ("__data_loc ", FieldKind::DynamicArray),
            ("__rel_loc ", FieldKind::RelativeDynamicArray),
        ];
        for (prefix, kind) in dynamic {
            if let Some(text) = text.strip_prefix(prefix) {
                let plain = Declaration::plain(text)?;
                // Masks of CPUs are of a type without brackets.
                let element = plain.type_text.strip_suffix("[]").unwrap_or(plain.type_text);
                let type_text = element.trim_end();
                return Some(Declaration { type_text, kind, ..plain })
                    .filter(|found| !found.type_text.is_empty());
            }
        }
        let Some(bracket) = text.find('[').filter(|_| text.ends_with(']')) else {
            return Declaration::plain(text);
        };
        let plain = Declaration::plain(text.get(..bracket)?.trim_end())?;
        let dimensions = text.get(bracket..)?;
        let kind = match dimensions {
            "[]" if size == 0 => FieldKind::FlexibleArray,
            _ => FieldKind::Array(element_count(dimensions, plain.type_text, size)?),
        };
        Some(Declaration { kind, ..plain })
    }

    /// Parses a declaration without brackets behind the name.
    fn plain(text: &'t str) -> Option<Declaration<'t>> {
        let kind = FieldKind::Plain;
        // A pointer to a function has its name within the type.
        if let Some(start) = text.find("(*") {
            let name = text.get(start + 2..)?.split(')').next()?.trim();
            return Some(Declaration { type_text: text, name, kind }).filter(|_| is_name(name));
        }
        let start = text.rfind(|last: char| !is_of_name(last))?;
        let start = start + text.get(start..)?.chars().next()?.len_utf8();
        let (type_text, name) = (text.get(..start)?.trim_end(), text.get(start..)?);
        Some(Declaration { type_text, name, kind })
            .filter(|_| is_name(name) && !type_text.is_empty())
    }
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn is_name(text: &str) -> bool {
    text.chars().all(is_of_name) && text.starts_with(|first: char| !first.is_ascii_digit())
}

/// Returns the number of elements of an array with `dimensions` such as `[4][16]`. Some kernels
/// write an expression instead of a number; the number of elements then follows from the size.
fn element_count(dimensions: &str, type_text: &str, size: u32) -> Option<u32> {
    let inner = dimensions.strip_prefix('[')?.strip_suffix(']')?;
    let mut product = Some(1u32);
    for dimension in inner.split("][") {
        let number = dimension.trim().parse::<u32>().ok();
        product = product.and_then(|product| product.checked_mul(number?));
    }
    product.or_else(|| size.checked_div(element_size(type_text)?))
}

/// Returns the size of the types of which the kernel's arrays consist.
fn element_size(type_text: &str) -> Option<u32> {
    let name = type_text.strip_prefix("const ").unwrap_or(type_text);
    let name = name.strip_prefix("unsigned ").unwrap_or(name);
    match name {
        "char" | "signed char" | "u8" | "s8" | "__u8" | "__s8" | "uint8_t" | "bool" => Some(1),
        "short" | "u16" | "s16" | "__u16" | "__s16" | "__be16" | "__le16" => Some(2),
        "int" | "unsigned" | "u32" | "s32" | "__u32" | "__s32" | "__be32" | "__le32" => Some(4),
        "long" | "long long" | "u64" | "s64" | "__u64" | "__s64" | "__be64" | "__le64" => Some(8),
        _ => name.ends_with('*').then_some(8),
    }
}

#[cfg(test)]
mod tests;
