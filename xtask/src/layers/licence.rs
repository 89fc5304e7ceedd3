//! Checks that accepted licences satisfy a package's licence expression (SPDX).

/// Licences that are accepted for any package.
const ACCEPTED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Licences that are also accepted for packages that only help to build and test, and are never
/// shipped.
const ACCEPTED_UNLINKED: [&str; 1] = ["MPL-2.0"];

/// Maximum nesting depth of parentheses.
const DEPTH_MAX: usize = 16;

/// Checks the licence expression of a package. `linked` is true if the package is linked into
/// shipped programs.
pub(super) fn check(expression: &str, linked: bool) -> Result<(), String> {
    // Before SPDX expressions, cargo separated alternatives by a slash.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), at: 0, linked };
    let satisfied = parser.any(0)?;
    if parser.at < parser.words.len() {
        return Err(format!("cannot read the licence expression `{expression}`"));
    }
    let linked = if linked { " for a crate that we ship" } else { "" };
    if satisfied { Ok(()) } else { Err(format!("licence `{expression}` is not accepted{linked}")) }
}

struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    linked: bool,
}

impl Parser<'_> {
    /// Parses `all OR all ...`; returns true if accepted licences satisfy an alternative.
    fn any(&mut self, depth: usize) -> Result<bool, String> {
        let mut satisfied = self.all(depth)?;
        while self.take("OR") {
            satisfied |= self.all(depth)?;
        }
        Ok(satisfied)
    }

    /// Parses `one AND one ...`; returns true if accepted licences satisfy all parts.
    fn all(&mut self, depth: usize) -> Result<bool, String> {
        let mut satisfied = self.one(depth)?;
        while self.take("AND") {
            satisfied &= self.one(depth)?;
        }
        Ok(satisfied)
    }

    /// Parses a licence, with or without an exception, or an expression in parentheses.
    fn one(&mut self, depth: usize) -> Result<bool, String> {
        if depth > DEPTH_MAX {
            return Err("licence expression is nested too deeply".to_owned());
        }
        if self.take("(") {
            let satisfied = self.any(depth + 1)?;
            return if self.take(")") {
                Ok(satisfied)
            } else {
                Err("licence expression lacks a `)`".to_owned())
            };
        }
        let mut licence = self.next()?.to_owned();
        if self.take("WITH") {
            licence = format!("{licence} WITH {}", self.next()?);
        }
        Ok(ACCEPTED.contains(&licence.as_str())
            || !self.linked && ACCEPTED_UNLINKED.contains(&licence.as_str()))
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at) == Some(&word);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self) -> Result<&str, String> {
        let word = self.words.get(self.at).ok_or("licence expression ends too early")?;
        self.at += 1;
        Ok(word)
    }
}
