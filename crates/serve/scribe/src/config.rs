//! Parser of configuration files: `key=value` lines and nested blocks `<store> ... </store>`.
//! Errors have line numbers. The module `plan` defines the meaning of the keys.

use std::fmt;

/// Error in a configuration, or a setting without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line number in the file, starting at 1; 0 if the problem concerns the whole configuration.
    pub line: usize,
    /// Description of the problem in plain text.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.text),
            line => write!(f, "line {line}: {}", self.text),
        }
    }
}

/// Parsed configuration, with the syntax errors that were found.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Block that contains all top-level settings and blocks.
    pub(crate) root: Block,
    /// Syntax errors, in order of detection. An unclosed block is detected at the end of an
    /// enclosing block or of the text.
    pub(crate) problems: Vec<Problem>,
}

/// Block of a configuration: its settings and nested blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) values: Vec<Value>,
    pub(crate) blocks: Vec<Block>,
}

/// Setting in a block: key, value and line number.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) text: String,
}

/// Maximum nesting depth of blocks, a limit on malformed input. `LINES_MAX` limits the number of
/// lines.
const DEPTH_MAX: usize = 16;
const LINES_MAX: usize = 100_000;

impl Config {
    /// Parses a configuration. Lines with syntax errors are skipped and reported.
    pub fn read(text: &str) -> Config {
        let mut problems = Vec::new();
        // Stack of open blocks.
        let mut open = vec![Block::default()];
        let mut report = |line, text: String| problems.push(Problem { line, text });
        let mut is_too_deep = 0;
        for (line, text) in (1..).zip(text.lines().take(LINES_MAX)) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            if let Some(tag) = text.strip_prefix('<') {
                let Some(tag) = tag.strip_suffix('>') else {
                    report(line, format!("`{text}` lacks its `>`"));
                    continue;
                };
                match tag.trim().strip_prefix('/').map(str::trim) {
                    None if open.len() > DEPTH_MAX || is_too_deep > 0 => {
                        is_too_deep += 1;
                        report(line, format!("`{text}`: blocks are too deep within each other"));
                    }
                    None => {
                        let name = tag.trim().to_owned();
                        open.push(Block { name, line, ..Block::default() });
                    }
                    Some(_) if is_too_deep > 0 => is_too_deep -= 1,
                    Some(name) => close(&mut open, name, line, &mut report),
                }
                continue;
            }
            let Some((key, value)) = text.split_once('=') else {
                report(line, format!("`{text}` is neither `key=value` nor `<block>`"));
                continue;
            };
            let (key, text) = (key.trim().to_owned(), value.trim().to_owned());
            if let (Some(block), 0) = (open.last_mut(), is_too_deep) {
                block.values.push(Value { line, key, text });
            }
        }
        while open.len() > 1 {
            let Some(block) = open.pop() else { break };
            report(block.line, format!("`<{}>` is never closed", block.name));
            if let Some(above) = open.last_mut() {
                above.blocks.push(block);
            }
        }
        Config { root: open.pop().unwrap_or_default(), problems }
    }
}

fn close(open: &mut Vec<Block>, name: &str, line: usize, report: &mut impl FnMut(usize, String)) {
    let is_open = |block: &Block| block.name.eq_ignore_ascii_case(name);
    if !open.iter().skip(1).any(is_open) {
        return report(line, format!("`</{name}>` closes nothing"));
    }
    // Unclosed inner blocks end with the block that is closed.
    while open.len() > 1 {
        let Some(block) = open.pop() else { break };
        let found = is_open(&block);
        if !found {
            report(block.line, format!("`<{}>` is not closed before line {line}", block.name));
        }
        if let Some(above) = open.last_mut() {
            above.blocks.push(block);
        }
        if found {
            break;
        }
    }
}

impl Block {
    /// Returns the setting with this key; the last one if the key is repeated.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.values.iter().rfind(|value| value.key == key)
    }

    pub(crate) fn block(&self, name: &str) -> Option<&Block> {
        self.blocks.iter().find(|block| block.name.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        Config::read(text).problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn blocks_are_within_each_other() {
        let config = Config::read(
            "# a comment\n port = 1463 \n<store>\ncategory=default\n <primary>\n type=file\n \
             </primary>\n</store>\n\nmax_conn=2=3\n",
        );
        assert!(config.problems.is_empty(), "{:?}", config.problems);
        assert_eq!(config.root.value("port").map(|value| value.text.as_str()), Some("1463"));
        assert_eq!(config.root.value("max_conn").map(|value| value.text.as_str()), Some("2=3"));
        let store = config.root.block("store").expect("a store");
        assert_eq!((store.line, store.values.len()), (3, 1));
        let primary = store.block("primary").expect("a primary");
        assert_eq!(primary.value("type").map(|value| value.line), Some(6));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert_eq!(problems("port"), ["line 1: `port` is neither `key=value` nor `<block>`"]);
        assert_eq!(problems("\n<store\n"), ["line 2: `<store` lacks its `>`"]);
        assert_eq!(problems("</store>"), ["line 1: `</store>` closes nothing"]);
        assert_eq!(problems("<store>\n"), ["line 1: `<store>` is never closed"]);
        assert_eq!(
            problems("<store>\n<primary>\n</store>"),
            ["line 2: `<primary>` is not closed before line 3"]
        );
        let deep = problems(&"<a>\n".repeat(1000));
        assert_eq!(deep.len(), 1000);
        assert_eq!(deep[0], "line 17: `<a>`: blocks are too deep within each other");
    }
}
