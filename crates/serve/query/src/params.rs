//! Parsing of a query string into parameters. Start at [`Params`].

use crate::answer::{Answer, Result};
use std::borrow::Cow;

/// Decoded parameters of a query string. If a name occurs several times, its first value counts.
#[derive(Clone, Debug, Default)]
pub struct Params<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// Maximum number of parameters in a query string.
const COUNT_MAX: usize = 64;

impl<'a> Params<'a> {
    /// Decodes a query string. Parameters beyond the maximum are ignored.
    pub fn parse(query: &'a str) -> Params<'a> {
        Params { pairs: form_urlencoded::parse(query.as_bytes()).take(COUNT_MAX).collect() }
    }

    /// Returns the value of a parameter, possibly empty; `None` if the parameter is missing.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_ref())
    }

    /// Returns the value of a required parameter; fails if the parameter is missing.
    pub(crate) fn need(&self, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| Answer::bad(format!("parameter {name} is missing")))
    }

    /// Returns the value of a parameter as a number; `None` if the parameter is missing or empty.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| Answer::bad(format!("{name} is not a whole number: {text}"))),
        }
    }
}
