//! Typed access to JSON values. What is wrong becomes a [`Problem`], which collects the way to
//! the value while it travels outwards.

use serde_json::{Map, Value};
use std::fmt::Display;

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// What is wrong in a fragment, and where.
#[derive(Debug)]
pub(super) struct Problem {
    /// Property names and indexes, the innermost first.
    steps: Vec<String>,
    message: String,
    /// What to do about it.
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

    /// The way, from the outside in, and the message.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for step in self.steps.iter().rev() {
            text.push_str(step);
            text.push_str(": ");
        }
        text + &self.message
    }
}

/// Adds a step to a problem's way.
pub(super) trait Within {
    fn within(self, step: impl Display) -> Self;
}

impl<T> Within for Result<T, Problem> {
    fn within(self, step: impl Display) -> Self {
        self.map_err(|mut problem| {
            problem.steps.push(step.to_string());
            problem
        })
    }
}

/// A word of the input between quotes, cut and escaped so that it is fit for a message.
pub(super) fn quote(word: &str) -> String {
    const LENGTH_MAX: usize = 64;
    let mut quoted: String = word.chars().take(LENGTH_MAX).flat_map(char::escape_debug).collect();
    if word.chars().nth(LENGTH_MAX).is_some() {
        quoted.push('…');
    }
    format!("`{quoted}`")
}

/// Reads a property that may be absent. `null` counts as absent: some producers write it for an
/// empty collection.
pub(super) fn optional<'a, T>(
    object: &'a Object,
    key: &str,
    read: impl FnOnce(&'a Value) -> Result<T, Problem>,
) -> Result<Option<T>, Problem> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => read(value).map(Some).within(key),
    }
}

/// Reads a property that must be there.
pub(super) fn required<'a, T>(
    object: &'a Object,
    key: &str,
    read: impl FnOnce(&'a Value) -> Result<T, Problem>,
) -> Result<T, Problem> {
    optional(object, key, read)?.ok_or_else(|| Problem::new(format!("`{key}` is missing")))
}

/// Reads a property that is an owned string and may be absent.
pub(super) fn text(object: &Object, key: &str) -> Result<Option<String>, Problem> {
    Ok(optional(object, key, string)?.map(str::to_owned))
}

pub(super) fn object(value: &Value) -> Result<&Object, Problem> {
    value.as_object().ok_or_else(|| unexpected(value, "an object"))
}

pub(super) fn array(value: &Value) -> Result<&[Value], Problem> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| unexpected(value, "an array"))
}

pub(super) fn string(value: &Value) -> Result<&str, Problem> {
    value.as_str().ok_or_else(|| unexpected(value, "a string"))
}

pub(super) fn unsigned(value: &Value) -> Result<u64, Problem> {
    value.as_u64().ok_or_else(|| unexpected(value, "an integer from 0 up, of at most 64 bits"))
}

pub(super) fn signed(value: &Value) -> Result<i64, Problem> {
    value.as_i64().ok_or_else(|| unexpected(value, "a signed integer of at most 64 bits"))
}

/// An integer that fits either `u64` or `i64`.
pub(super) fn integer(value: &Value) -> Result<i128, Problem> {
    match (value.as_u64(), value.as_i64()) {
        (Some(number), _) => Ok(number.into()),
        (None, Some(number)) => Ok(number.into()),
        (None, None) => Err(unexpected(value, "an integer of at most 64 bits")),
    }
}

fn unexpected(value: &Value, expected: &str) -> Problem {
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
