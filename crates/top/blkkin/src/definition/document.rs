//! Parser of a subset of TOML: tables, arrays of tables, and in each line at most one key with a
//! string, an unsigned integer, a boolean or an array of these. Knows the line of each value, for
//! errors.

use blkkin_filter::suggest;
use std::fmt;

/// Error in a file, with its line, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileError {
    pub(crate) line: usize,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl FileError {
    pub(super) fn new(line: usize, message: impl Into<String>) -> FileError {
        FileError { line, message: message.into(), hint: None }
    }

    /// Adds the known word that is most similar to `wrong`, or all of them if there are few.
    pub(super) fn suggest(self, wrong: &str, known: &[&'static str]) -> FileError {
        let near = suggest(wrong, known.iter().copied());
        let hint = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}", known.join(", ")),
        };
        FileError { hint: Some(hint), ..self }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Number(u64),
    Flag(bool),
    List(Vec<Value>),
}

/// A table with its keys. The keys before the first heading belong to a table with an empty name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    /// Set for a heading in double brackets, of which there may be several.
    pub(super) is_item: bool,
    pub(super) line: usize,
    entries: Vec<(String, usize, Value)>,
}

impl Table {
    /// Removes the value of a key, and returns it with its line.
    pub(super) fn take(&mut self, key: &str) -> Option<(usize, Value)> {
        let at = self.entries.iter().position(|(own, ..)| own == key)?;
        let (_, line, value) = self.entries.remove(at);
        Some((line, value))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(own, ..)| own == key)
    }

    /// Returns the line of a key, or else that of the table's heading.
    pub(super) fn line_of(&self, key: &str) -> usize {
        let entry = self.entries.iter().find(|(own, ..)| own == key);
        entry.map_or(self.line, |(_, line, _)| *line)
    }

    /// Fails if the table has another key than `known`.
    pub(super) fn check_keys(&self, known: &[&'static str]) -> Result<(), FileError> {
        let unknown = self.entries.iter().find(|(key, ..)| !known.contains(&key.as_str()));
        let Some((key, line, _)) = unknown else { return Ok(()) };
        let place = match self.name.as_str() {
            "" => "before the first table".to_owned(),
            name => format!("in `{name}`"),
        };
        Err(FileError::new(*line, format!("there is no `{key}` {place}")).suggest(key, known))
    }
}

/// Parses a file into its tables, the first of which has the keys before any heading.
pub(super) fn parse(text: &str) -> Result<Vec<Table>, FileError> {
    let table = |name: &str, is_item, line| Table {
        name: name.to_owned(),
        is_item,
        line,
        entries: Vec::new(),
    };
    let mut tables = vec![table("", false, 1)];
    for (number, line) in (1..).zip(text.lines()) {
        let error = |message: String| FileError::new(number, message);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(heading) = line.strip_prefix('[') {
            let (inner, is_item) = match heading.strip_prefix('[') {
                Some(inner) => (inner.split_once("]]"), true),
                None => (heading.split_once(']'), false),
            };
            let Some((name, _)) = inner.filter(|(_, rest)| is_end(rest)) else {
                return Err(error(format!("`{line}` is no heading, such as [session]")));
            };
            let name = name.trim();
            if !is_item && tables.iter().any(|table| table.name == name) {
                return Err(error(format!("there is a table `{name}` already")));
            }
            tables.push(table(name, is_item, number));
            continue;
        }
        let Some((key, rest)) = line.split_once('=') else {
            return Err(error(format!("`{line}` is neither a heading nor KEY = VALUE")));
        };
        let key = key.trim();
        let (value, rest) = parse_value(rest.trim_start(), 0).map_err(error)?;
        if !is_end(rest) {
            return Err(error(format!("`{}` follows the value", rest.trim())));
        }
        let Some(last) = tables.last_mut() else { continue };
        if last.entries.iter().any(|(own, ..)| own == key) {
            return Err(error(format!("`{key}` is there already")));
        }
        last.entries.push((key.to_owned(), number, value));
    }
    Ok(tables)
}

/// Returns whether the rest of a line is empty or a comment.
fn is_end(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with('#')
}

/// Parses a value at the start of `text`. Returns the text after it.
fn parse_value(text: &str, depth: u32) -> Result<(Value, &str), String> {
    if let Some(inner) = text.strip_prefix('[') {
        if depth > 0 {
            return Err("an array must not contain another one".to_owned());
        }
        return parse_list(inner);
    }
    if text.starts_with('"') {
        let end = end_of_string(text).ok_or("a string lacks its closing quote")?;
        let (quoted, rest) = text.split_at(end);
        let value = serde_json::from_str(quoted);
        let value = value.map_err(|_| format!("{quoted} is no string: write \\\\ for a backslash"));
        return Ok((Value::Text(value?), rest));
    }
    if let Some(inner) = text.strip_prefix('\'') {
        let (value, rest) = inner.split_once('\'').ok_or("a string lacks its closing quote")?;
        return Ok((Value::Text(value.to_owned()), rest));
    }
    let end = text.find(|letter: char| ",]# \t".contains(letter)).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let value = match word {
        "true" => Value::Flag(true),
        "false" => Value::Flag(false),
        _ => {
            let number = word.bytes().all(|digit| digit.is_ascii_digit()).then(|| word.parse());
            let number = number.and_then(Result::ok);
            let wrong = || match word {
                "" => "there is no value".to_owned(),
                _ => format!("`{word}` is no value: write strings in quotes, as \"{word}\""),
            };
            Value::Number(number.ok_or_else(wrong)?)
        }
    };
    Ok((value, rest))
}

/// Parses an array after its opening bracket.
fn parse_list(mut text: &str) -> Result<(Value, &str), String> {
    let mut list = Vec::new();
    loop {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix(']') {
            return Ok((Value::List(list), rest));
        }
        if text.is_empty() {
            return Err("an array lacks its closing bracket in the same line".to_owned());
        }
        let (value, rest) = parse_value(text, 1)?;
        list.push(value);
        let rest = rest.trim_start();
        text = match rest.strip_prefix(',') {
            Some(rest) => rest,
            None if rest.starts_with(']') => rest,
            None => return Err("values of an array need a comma between them".to_owned()),
        };
    }
}

/// Returns the length of the string in double quotes at the start of `text`.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '"' if !is_escaped => return Some(at + 1),
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    None
}
