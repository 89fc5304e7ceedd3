//! Tests of the language: tables of filters with their expected results, and properties of random
//! filters.

mod errors;
mod evaluation;
mod random;
mod syntax;

use crate::{Filter, Integer, Labels, Value, Values};

#[track_caller]
fn parse(text: &str) -> Filter {
    match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => panic!("{text}\n{}", error.render(false)),
    }
}

/// Event whose fields are looked up by name, as written in filters.
struct Event<'f> {
    filter: &'f Filter,
    fields: &'f [(&'static str, Value<'static>)],
}

impl Values for Event<'_> {
    fn value(&self, operand: usize) -> Value<'_> {
        let name = self.filter.operands()[operand].to_string();
        self.fields
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(Value::Absent, |(_, value)| *value)
    }
}

fn eval(text: &str, fields: &[(&'static str, Value<'static>)]) -> bool {
    let filter = parse(text);
    filter.eval(&Event { filter: &filter, fields })
}

/// Enumeration in which value 1 has two labels and value 3 has none.
#[derive(Debug)]
struct State;

impl Labels for State {
    fn any(&self, value: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let labels: &[&str] = match value.exact() {
            0 => &["IDLE"],
            1 => &["RUNNING", "ACTIVE"],
            -1 => &["BROKEN"],
            _ => &[],
        };
        labels.iter().any(|label| test(label.as_bytes()))
    }
}
