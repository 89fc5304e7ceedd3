//! Typed access to JSON values. An error is a [`Problem`], which collects the path to the value
//! while it propagates outwards.

use super::value::{Object, Value};
use crate::metadata::budget::OverBudget;
use std::borrow::Cow;
use std::fmt::Display;

/// An error in a fragment, with the path to the faulty value.
#[derive(Debug)]
pub(super) struct Problem {
    /// Steps of the path, the innermost first: property names (with an index for an array's item),
    /// alias uses, and roles.
    steps: Vec<String>,
    message: String,
    /// Suggested remedy, shown after the message; `None` if none is known.
    pub(super) hint: Option<String>,
}

impl Problem {
    pub(super) fn new(message: impl Into<String>) -> Problem {
        Problem { steps: Vec::new(), message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: Option<String>) -> Problem {
        self.hint = hint;
        self
    }

    /// Formats the path, outermost step first, and the message.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for step in self.steps.iter().rev() {
            text.push_str(step);
            text.push_str(": ");
        }
        text + &self.message
    }
}

impl From<OverBudget> for Problem {
    fn from(error: OverBudget) -> Problem {
        Problem::new(error.to_string()).hint(Some(OverBudget::HINT.to_owned()))
    }
}

/// Addition of an outer step to the path of a [`Problem`], while the error propagates out of nested
/// values.
pub(super) trait PathContext {
    fn add_step(self, step: impl Display) -> Self;
}

impl<T> PathContext for Result<T, Problem> {
    fn add_step(self, step: impl Display) -> Self {
        self.map_err(|mut problem| {
            problem.steps.push(step.to_string());
            problem
        })
    }
}

/// Quotes a word of the input for an error message. The word is truncated to 64 characters, and
/// then escaped.
pub(super) fn quote(word: &str) -> String {
    const LENGTH_MAX: usize = 64;
    let mut quoted: String = word.chars().take(LENGTH_MAX).flat_map(char::escape_debug).collect();
    if word.chars().nth(LENGTH_MAX).is_some() {
        quoted.push('…');
    }
    format!("`{quoted}`")
}

/// Reads an optional property. `null` counts as absent, because some producers write it for an
/// empty collection.
pub(super) fn optional<'a, 't, T>(
    object: &'a Object<'t>,
    key: &str,
    read: impl FnOnce(&'a Value<'t>) -> Result<T, Problem>,
) -> Result<Option<T>, Problem> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).add_step(key),
    }
}

/// Reads a mandatory property with `read`. A missing or `null` property is an error.
pub(super) fn required<'a, 't, T>(
    object: &'a Object<'t>,
    key: &str,
    read: impl FnOnce(&'a Value<'t>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    optional(object, key, read)?.ok_or_else(|| Problem::new(format!("`{key}` is missing")))
}

/// Reads an optional string property as an owned string.
pub(super) fn text(object: &Object<'_>, key: &str) -> Result<Option<String>, Problem> {
    Ok(optional(object, key, string)?.map(str::to_owned))
}

pub(super) fn object<'a, 't>(value: &'a Value<'t>) -> Result<&'a Object<'t>, Problem> {
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(unexpected(value, "an object")),
    }
}

pub(super) fn array<'a, 't>(value: &'a Value<'t>) -> Result<&'a [Value<'t>], Problem> {
    match value {
        Value::Array(array) => Ok(array),
        _ => Err(unexpected(value, "an array")),
    }
}

pub(super) fn string<'a>(value: &'a Value<'_>) -> Result<&'a str, Problem> {
    name(value).map(AsRef::as_ref)
}

/// Returns the string in a JSON value. The string may borrow from the metadata text, and then
/// outlives the value.
pub(super) fn name<'a, 't>(value: &'a Value<'t>) -> Result<&'a Cow<'t, str>, Problem> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(unexpected(value, "a string")),
    }
}

pub(super) fn unsigned(value: &Value<'_>) -> Result<u64, Problem> {
    value.as_u64().ok_or_else(|| unexpected(value, "an integer from 0 up, of at most 64 bits"))
}

pub(super) fn signed(value: &Value<'_>) -> Result<i64, Problem> {
    value.as_i64().ok_or_else(|| unexpected(value, "a signed integer of at most 64 bits"))
}

/// Reads an integer in the range of `u64` or of `i64`; any other value is an error.
pub(super) fn integer(value: &Value<'_>) -> Result<i128, Problem> {
    match (value.as_u64(), value.as_i64()) {
        (Some(number), _) => Ok(number.into()),
        (None, Some(number)) => Ok(number.into()),
        (None, None) => Err(unexpected(value, "an integer of at most 64 bits")),
    }
}

fn unexpected(value: &Value<'_>, expected: &str) -> Problem {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the string {}", quote(text)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Problem::new(format!("{expected} is needed, not {found}"))
}
