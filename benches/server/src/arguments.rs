//! Arguments of the program: one JSON object, since only other programs start this one.

use crate::numbers::Numbers;
use serde_json::Value;
use std::time::Duration;

/// Parsed JSON object of the program's arguments.
pub(crate) struct Arguments(Value);

impl Arguments {
    pub(crate) fn parse(text: &str) -> Result<Arguments, String> {
        serde_json::from_str(text).map(Arguments).map_err(|error| format!("`{text}`: {error}"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<u64, String> {
        let number = self.0.get(name).and_then(Value::as_u64);
        number.ok_or_else(|| format!("no number `{name}`"))
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).and_then(Value::as_str).ok_or_else(|| format!("no text `{name}`"))
    }

    /// Returns the argument `name`, a time in seconds; `None` if it is missing or null.
    pub(crate) fn seconds(&self, name: &str) -> Result<Option<Duration>, String> {
        let Some(value) = self.0.get(name).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let seconds = value.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        seconds.map(Some).ok_or_else(|| format!("`{name}` is no time"))
    }

    pub(crate) fn numbers(&self) -> Result<Numbers, String> {
        Ok(Numbers {
            seed: self.number("seed")?,
            origin_ns: self.number("origin_ns")?,
            step_ns: self.number("step_ns")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_found_or_missed() {
        let arguments =
            Arguments::parse(r#"{"a": 1, "b": "x", "s": 0.5, "n": null}"#).expect("good");
        assert_eq!(arguments.number("a"), Ok(1));
        assert_eq!(arguments.text("b"), Ok("x"));
        assert_eq!(arguments.seconds("s"), Ok(Some(Duration::from_millis(500))));
        assert_eq!((arguments.seconds("n"), arguments.seconds("m")), (Ok(None), Ok(None)));
        assert_eq!(arguments.number("b"), Err("no number `b`".to_owned()));
        assert!(arguments.numbers().is_err() && Arguments::parse("{").is_err());
    }
}
