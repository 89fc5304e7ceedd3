//! Recipes: traces written as readable text, in `tests/corpus`.
//!
//! A recipe opens with comments on its purpose (`# …`) and with the comparisons that do not apply
//! (`not-babeltrace: why`, `not-stdin: why`). Then files follow, each after a line `--- PATH KIND`.
//! KIND is `text` (literally; the default for metadata), `json` (a line that starts with `{`
//! begins a fragment), `packets le N` or `packets be N` (metadata packets with N bytes of text
//! each), `packets-and-stray le N` (the same and a byte more), or `bytes` (the default for other
//! files).
//! `@include FILE` inserts lines of a file in `common/`.
//!
//! Bytes are words, and `#` starts a comment:
//! - `c11f` hexadecimal bytes; `"text\n"` characters, without a NUL
//! - `u32le 7`, `i16be -1`, `f64le 1.5` numbers
//! - `bits-le 5:3 11:700` integers, each with its width in bits, padded to a whole byte at the end
//! - `fill 8 00` a repeated byte; `align 8` zeros up to a multiple of this number of bytes in the
//!   packet
//! - `packet` begins a packet; in it `content32le` and `size32le` are replaced by its sizes in
//!   bits, and `end` (or `end-3`: three bits earlier) marks the end of its content before padding

use std::fs;
use std::path::Path;

/// Trace described by a recipe.
pub struct Recipe {
    pub name: String,
    /// Path of each file below the trace's directory, and its content.
    pub files: Vec<(String, Vec<u8>)>,
    /// Reason why babeltrace2 fails or prints a different text; `None` if it must print the same.
    pub not_babeltrace: Option<String>,
    /// Reason why the trace is not read from standard input, although its files have the form that
    /// [`Recipe::as_stdin`] needs.
    pub not_stdin: Option<String>,
}

impl Recipe {
    /// Reads the recipe at `path`. The directory `common` is beside the recipe's directory.
    pub fn read(path: &Path) -> Recipe {
        let lines = lines(path);
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a file name").to_owned();
        let mut recipe = Recipe { name, files: Vec::new(), not_babeltrace: None, not_stdin: None };
        let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in &lines {
            if let Some(title) = line.strip_prefix("--- ") {
                sections.push((title, Vec::new()));
            } else if let Some((_, content)) = sections.last_mut() {
                content.push(line);
            } else if let Some(reason) = line.strip_prefix("not-babeltrace: ") {
                recipe.not_babeltrace = Some(reason.to_owned());
            } else if let Some(reason) = line.strip_prefix("not-stdin: ") {
                recipe.not_stdin = Some(reason.to_owned());
            } else {
                assert!(line.is_empty() || line.starts_with('#'), "{path:?}: what is `{line}`?");
            }
        }
        for (title, content) in sections {
            let mut words = title.split_whitespace();
            let file = words.next().expect("a path after ---");
            let default = if file.ends_with("metadata") { "text" } else { "bytes" };
            let bytes = match (words.next().unwrap_or(default), words.next(), words.next()) {
                ("text", None, None) => text(&content).into_bytes(),
                ("json", None, None) => json(&content).into_bytes(),
                ("packets", Some(order), Some(size)) => {
                    let size = size.parse().expect("a size");
                    metadata_packets(text(&content).as_bytes(), order == "be", size)
                }
                ("packets-and-stray", Some(order), Some(size)) => {
                    let size = size.parse().expect("a size");
                    let mut bytes =
                        metadata_packets(text(&content).as_bytes(), order == "be", size);
                    bytes.push(0);
                    bytes
                }
                ("bytes", None, None) => {
                    bytes(&content).unwrap_or_else(|error| panic!("{path:?}: {file}: {error}"))
                }
                _ => panic!("{path:?}: what is `{title}`?"),
            };
            recipe.files.push((file.to_owned(), bytes));
        }
        recipe
    }

    /// Writes the trace as `directory/NAME`.
    pub fn write(&self, directory: &Path) {
        for (name, content) in &self.files {
            let path = directory.join(&self.name).join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("to make a folder");
            fs::write(path, content).expect("to write a file");
        }
    }

    /// Returns the trace as one stream of bytes, metadata first. Returns `None` if `not_stdin` is
    /// set. Also returns `None` unless the trace has exactly one metadata file and at least one
    /// stream file, and each stream file begins with the magic number.
    pub fn as_stdin(&self) -> Option<Vec<u8>> {
        let (metadata, streams): (Vec<_>, Vec<_>) =
            self.files.iter().partition(|(name, _)| name.ends_with("metadata"));
        let has_magic = |bytes: &[u8]| {
            bytes.starts_with(&[0xc1, 0x1f, 0xfc, 0xc1])
                || bytes.starts_with(&[0xc1, 0xfc, 0x1f, 0xc1])
        };
        let possible = metadata.len() == 1
            && !streams.is_empty()
            && streams.iter().all(|(_, bytes)| has_magic(bytes))
            && self.not_stdin.is_none();
        possible.then(|| metadata.iter().chain(&streams).flat_map(|(_, b)| b.clone()).collect())
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("@include ") {
            Some(name) => {
                let folder = path.parent().and_then(Path::parent).expect("a folder above");
                lines.extend(self::lines(&folder.join("common").join(name)));
            }
            None => lines.push(line.to_owned()),
        }
    }
    lines
}

fn text(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn json(lines: &[&str]) -> String {
    let fragment = |line: &&str| if line.starts_with('{') { "\u{1e}" } else { "" };
    lines.iter().map(|line| format!("{}{line}\n", fragment(line))).collect()
}

/// Returns metadata in packets, as LTTng writes them, each with 16 bytes of padding.
fn metadata_packets(text: &[u8], big: bool, size: usize) -> Vec<u8> {
    const HEADER: usize = 37;
    const PADDING: usize = 16;
    let number = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = Vec::new();
    for piece in text.chunks(size) {
        let content = HEADER + piece.len();
        bytes.extend(number(0x75d1_1d57));
        bytes.extend(0x10..0x20); // UUID
        bytes.extend(number(0)); // checksum
        bytes.extend(number(content as u32 * 8));
        bytes.extend(number((content + PADDING) as u32 * 8));
        bytes.extend([0, 0, 0, 1, 8]); // compression, encryption, checksum schemes; version
        bytes.extend(piece);
        bytes.extend([0; PADDING]);
    }
    bytes
}

/// Returns the words of a line, without its comment.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        let end = match rest.strip_prefix('"') {
            Some(inside) => 2 + inside.find('"').ok_or("string without end")?,
            None => rest.find(char::is_whitespace).unwrap_or(rest.len()),
        };
        words.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    Ok(words)
}

/// Builder of a stream file.
#[derive(Default)]
struct Bytes {
    out: Vec<u8>,
    packet: usize,
    content_bits: Option<usize>,
    /// Positions of sizes that are filled in later: offset, width in bits, true if big-endian, and
    /// true for the size of the content instead of the packet.
    sizes: Vec<(usize, usize, bool, bool)>,
}

/// Returns the bytes that the lines describe.
pub fn bytes(lines: &[&str]) -> Result<Vec<u8>, String> {
    let mut bytes = Bytes::default();
    for line in lines {
        let words = words(line)?;
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            let in_line = |error: String| format!("`{line}`: {error}");
            bytes.word(word, &mut words).map_err(in_line)?;
        }
    }
    bytes.close();
    Ok(bytes.out)
}

impl Bytes {
    fn word<'w>(
        &mut self,
        word: &str,
        words: &mut std::iter::Peekable<impl Iterator<Item = &'w str>>,
    ) -> Result<(), String> {
        let mut argument = || words.next().ok_or(format!("`{word}` needs something behind it"));
        let big = word.ends_with("be");
        match word.trim_end_matches("le").trim_end_matches("be") {
            "packet" => {
                self.close();
                self.packet = self.out.len();
            }
            "content16" => self.size(16, big, true),
            "content32" => self.size(32, big, true),
            "content64" => self.size(64, big, true),
            "size16" => self.size(16, big, false),
            "size32" => self.size(32, big, false),
            "size64" => self.size(64, big, false),
            "end" => self.content_bits = Some((self.out.len() - self.packet) * 8),
            "fill" => {
                let count = number(argument()?)? as usize;
                let byte = hex(argument()?).ok_or("no byte to repeat")?;
                self.out.extend(byte.repeat(count));
            }
            "align" => {
                let align = number(argument()?)? as usize;
                while !(self.out.len() - self.packet).is_multiple_of(align) {
                    self.out.push(0);
                }
            }
            "u8" | "i8" => self.number(number(argument()?)?, 1, big),
            "u16" | "i16" => self.number(number(argument()?)?, 2, big),
            "u32" | "i32" => self.number(number(argument()?)?, 4, big),
            "u64" | "i64" => self.number(number(argument()?)?, 8, big),
            "f32" => {
                let value: f32 = argument()?.parse().map_err(|_| "not a number")?;
                self.number(i128::from(value.to_bits()), 4, big);
            }
            "f64" => {
                let value: f64 = argument()?.parse().map_err(|_| "not a number")?;
                self.number(i128::from(value.to_bits()), 8, big);
            }
            "bits-" => {
                let mut fields = Vec::new();
                while let Some((width, value)) = words.peek().and_then(|word| word.split_once(':'))
                {
                    fields.push((number(width)?, number(value)?));
                    words.next();
                }
                self.bits(&fields, big);
            }
            _ if word.starts_with("end-") => {
                let less = number(&word[4..])? as usize;
                self.content_bits = Some((self.out.len() - self.packet) * 8 - less);
            }
            _ if word.starts_with('"') => self.characters(&word[1..word.len() - 1])?,
            _ => self.out.extend(hex(word).ok_or(format!("what is `{word}`?"))?),
        }
        Ok(())
    }

    fn number(&mut self, value: i128, size: usize, big: bool) {
        let bytes = value.to_le_bytes();
        match big {
            false => self.out.extend(&bytes[..size]),
            true => self.out.extend(bytes[..size].iter().rev()),
        }
    }

    fn size(&mut self, bits: usize, big: bool, of_content: bool) {
        self.sizes.push((self.out.len(), bits, big, of_content));
        self.number(0, bits / 8, big);
    }

    /// Writes integers bit by bit, so that the code cannot share an error with the decoder.
    fn bits(&mut self, fields: &[(i128, i128)], big: bool) {
        let mut bit_count = 0;
        for &(width, value) in fields {
            for bit in 0..width {
                let set = match big {
                    false => value >> bit & 1,
                    true => value >> (width - 1 - bit) & 1,
                };
                if bit_count % 8 == 0 {
                    self.out.push(0);
                }
                let place = if big { 7 - bit_count % 8 } else { bit_count % 8 };
                *self.out.last_mut().expect("a byte") |= (set as u8) << place;
                bit_count += 1;
            }
        }
    }

    fn characters(&mut self, text: &str) -> Result<(), String> {
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            let plain = match (character, character == '\\') {
                (_, true) => match characters.next() {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some('q') => '"',
                    Some('\\') => '\\',
                    other => return Err(format!("what is `\\{other:?}`?")),
                },
                (plain, false) => plain,
            };
            self.out.extend(plain.to_string().bytes());
        }
        Ok(())
    }

    /// Ends the packet, and fills in its sizes.
    fn close(&mut self) {
        let total = (self.out.len() - self.packet) * 8;
        let content = self.content_bits.take().unwrap_or(total);
        for (offset, bits, big, of_content) in self.sizes.drain(..) {
            let value = if of_content { content } else { total };
            let size = bits / 8;
            let bytes = value.to_le_bytes();
            for (index, &byte) in bytes[..size].iter().enumerate() {
                self.out[offset + if big { size - 1 - index } else { index }] = byte;
            }
        }
    }
}

fn number(text: &str) -> Result<i128, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| format!("`{text}`: {error}"))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    if is_hex { (0..text.len()).step_by(2).map(byte).collect() } else { None }
}
