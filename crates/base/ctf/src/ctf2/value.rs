//! JSON values for the reader. Start at [`parse`].
//!
//! A value is compact, because a single fragment may be as large as the whole text. Parsing counts
//! the memory of values against a budget.

use crate::metadata::budget::{Budget, OverBudget, allocation};
use serde_core::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

/// A JSON value. Strings borrow from the text, unless they contain escapes.
#[derive(Clone, Debug)]
pub(super) enum Value<'t> {
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'t, str>),
    Array(Box<[Value<'t>]>),
    Object(Object<'t>),
}

/// Properties of a JSON object, in order of appearance. A lookup is a linear search, so callers
/// must not look up every property.
#[derive(Clone, Debug, Default)]
pub(super) struct Object<'t>(Box<[(Cow<'t, str>, Value<'t>)]>);

impl<'t> Value<'t> {
    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    pub(super) fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Number(number) => number.as_i64(),
            _ => None,
        }
    }

    /// Returns a property, if the value is an object that contains it.
    pub(super) fn get(&self, key: &str) -> Option<&Value<'t>> {
        match self {
            Value::Object(object) => object.get(key),
            _ => None,
        }
    }
}

impl<'t> Object<'t> {
    pub(super) fn get(&self, key: &str) -> Option<&Value<'t>> {
        self.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, (Cow<'t, str>, Value<'t>)> {
        self.0.iter()
    }
}

/// Parses a JSON text. An error of the category "data" means that the budget is exhausted.
pub(super) fn parse<'t>(text: &'t str, budget: &Budget) -> Result<Value<'t>, serde_json::Error> {
    let scratch = Scratch { budget, values: Stack::default(), properties: Stack::default() };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Seed(&scratch).deserialize(&mut deserializer)?;
    deserializer.end()?;
    budget.release_to(budget.passing() - scratch.values.size() - scratch.properties.size());
    Ok(value)
}

/// Buffers for the contents of unfinished arrays and objects. A growing vector for each of them
/// would leave more unused capacity than items, because most are short.
struct Scratch<'b, 't> {
    budget: &'b Budget,
    values: Stack<Value<'t>>,
    properties: Stack<(Cow<'t, str>, Value<'t>)>,
}

/// Items of the unfinished arrays or objects, those of the innermost one last.
struct Stack<T> {
    items: RefCell<Vec<T>>,
    /// Maximum length of the stack so far, which is the number of items counted in the budget.
    high: Cell<usize>,
}

impl<T> Default for Stack<T> {
    fn default() -> Stack<T> {
        Stack { items: RefCell::default(), high: Cell::new(0) }
    }
}

impl<T> Stack<T> {
    fn size(&self) -> usize {
        self.high.get() * size_of::<T>()
    }

    fn len(&self) -> usize {
        self.items.borrow().len()
    }

    fn push(&self, item: T, budget: &Budget) -> Result<(), OverBudget> {
        if self.len() == self.high.get() {
            self.high.set(self.high.get() + 1);
            budget.charge_temporary(size_of::<T>())?;
        }
        self.items.borrow_mut().push(item);
        Ok(())
    }

    /// Removes the items from index `start` on, which belong to the innermost array or object, and
    /// returns them as a vector.
    fn split_off(&self, start: usize, budget: &Budget) -> Result<Vec<T>, OverBudget> {
        budget.charge_temporary(allocation((self.len() - start) * size_of::<T>()))?;
        Ok(self.items.borrow_mut().drain(start..).collect())
    }
}

/// Visitor that makes a [`Value`] from any JSON value.
#[derive(Clone, Copy)]
struct Seed<'s, 'b, 't>(&'s Scratch<'b, 't>);

impl<'de> DeserializeSeed<'de> for Seed<'_, '_, 'de> {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_, 'de> {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value<'de>, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::String(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value<'de>, E> {
        self.0.budget.charge_temporary(allocation(text.len())).map_err(E::custom)?;
        Ok(Value::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let Scratch { budget, values, .. } = self.0;
        let start = values.len();
        while let Some(value) = items.next_element_seed(self)? {
            values.push(value, budget).map_err(A::Error::custom)?;
        }
        let array = values.split_off(start, budget).map_err(A::Error::custom)?;
        Ok(Value::Array(array.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let Scratch { budget, properties, .. } = self.0;
        let start = properties.len();
        while let Some(key) = items.next_key_seed(Key(budget))? {
            let value = items.next_value_seed(self)?;
            properties.push((key, value), budget).map_err(A::Error::custom)?;
        }
        let object = properties.split_off(start, budget).map_err(A::Error::custom)?;
        Ok(Value::Object(Object(merge_duplicates(object).into())))
    }
}

/// Visitor for the name of a property. A name with escapes is owned, so its memory is counted in
/// the budget.
struct Key<'b>(&'b Budget);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Cow<'de, str>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'_> {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a property")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cow<'de, str>, E> {
        self.0.charge_temporary(allocation(text.len())).map_err(E::custom)?;
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// Merges properties of the same name. The last value remains, at the position of the first
/// property.
fn merge_duplicates<'t>(
    mut object: Vec<(Cow<'t, str>, Value<'t>)>,
) -> Vec<(Cow<'t, str>, Value<'t>)> {
    let mut sorted: Vec<u32> = (0..object.len() as u32).collect();
    // A stable sort keeps properties of the same name in order.
    sorted.sort_by(|&a, &b| object[a as usize].0.cmp(&object[b as usize].0));
    let pairs = sorted.windows(2).map(|pair| (pair[0] as usize, pair[1] as usize));
    let same: Vec<_> = pairs.filter(|&(one, other)| object[one].0 == object[other].0).collect();
    if same.is_empty() {
        return object;
    }
    let mut is_repeated = vec![false; object.len()];
    for &(before, repeated) in same.iter().rev() {
        object[before].1 = std::mem::replace(&mut object[repeated].1, Value::Null);
        is_repeated[repeated] = true;
    }
    let mut is_repeated = is_repeated.into_iter();
    object.retain(|_| is_repeated.next() != Some(true));
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_values_counts() {
        let check = |text: &str, expected: &str| {
            let value = parse(text, &Budget::of_text(text.len())).expect("JSON");
            assert_eq!(format!("{value:?}"), expected);
        };
        check(r#"{}"#, r#"Object(Object([]))"#);
        check(
            r#"{"a": 1, "b": 2, "a": null, "\u0061": 3}"#,
            r#"Object(Object([("a", Number(Number(3))), ("b", Number(Number(2)))]))"#,
        );
    }

    #[test]
    fn values_are_small() {
        assert_eq!((size_of::<Value<'_>>(), size_of::<(Cow<'_, str>, Value<'_>)>()), (24, 48));
    }

    #[test]
    fn memory_is_counted_while_values_are_made() {
        let budget = Budget::of_text(0);
        let text = format!("[{}0]", "0,".repeat(1 << 20));
        let error = parse(&text, &budget).expect_err("too many values");
        assert!(error.is_data(), "{error}");
    }
}
