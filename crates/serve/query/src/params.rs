//! What stands behind the `?` of an address. Start at [`Params`].

use crate::answer::{Answer, Result};
use std::borrow::Cow;

/// Names and values, of which the first of each name counts.
#[derive(Clone, Debug, Default)]
pub struct Params<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// No question has more of them.
const COUNT_MAX: usize = 64;

impl<'a> Params<'a> {
    /// Reads them. What follows after too many is not read.
    pub fn parse(query: &'a str) -> Params<'a> {
        Params { pairs: form_urlencoded::parse(query.as_bytes()).take(COUNT_MAX).collect() }
    }

    /// The value of a name, which may be empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_ref())
    }

    /// The value of a name that has to be there.
    pub(crate) fn need(&self, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| Answer::bad(format!("parameter {name} is missing")))
    }

    /// The number that a name has; empty is none.
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
