//! The text form of a tag layout: one letter for each tag of a span, in order. The letter gives the
//! tag's origin and the type of its value. The text is empty if all tags are texts of the span
//! itself. [`LETTERS`] serves encoding and decoding.

use crate::layout::{Layout, Shape, ValueType};
use blkkin_model::Origin;

/// Letters of each origin, one for each of [`VALUE_TYPES`] in order.
const LETTERS: [(Origin, &[u8; VALUE_TYPES.len()]); 3] =
    [(Origin::Span, b"sibdx"), (Origin::Resource, b"SIBDX"), (Origin::Scope, b"tjcey")];

/// All value types, in the order of their discriminants.
const VALUE_TYPES: [ValueType; 5] =
    [ValueType::Str, ValueType::Int, ValueType::Bool, ValueType::Double, ValueType::Bytes];

/// Inverse of [`LETTERS`], indexed by letter: origin and value type.
static BY_LETTER: [Option<(Origin, ValueType)>; 256] = by_letter();

const fn by_letter() -> [Option<(Origin, ValueType)>; 256] {
    let mut types = [None; 256];
    let mut list = 0;
    while list < LETTERS.len() {
        let (origin, letters) = LETTERS[list];
        let mut number = 0;
        while number < letters.len() {
            types[letters[number] as usize] = Some((origin, VALUE_TYPES[number]));
            number += 1;
        }
        list += 1;
    }
    types
}

/// Returns the text form of a layout; empty if all tags are texts of the span itself.
pub(crate) fn layout_text(layout: Layout<'_>) -> String {
    let plain = |shape: &Shape| shape.origin == Origin::Span && shape.value == ValueType::Str;
    if layout.iter().all(plain) {
        return String::new();
    }
    layout.iter().map(|shape| letter(shape.origin, shape.value)).collect()
}

fn letter(origin: Origin, value: ValueType) -> char {
    let list = LETTERS.iter().position(|(of, _)| *of == origin).unwrap_or(0);
    LETTERS[list].1[value as usize].into()
}

/// Returns the origin and the value type of a letter; `None` if the letter is invalid.
#[inline]
pub(crate) fn tag_type(letter: u8) -> Option<(Origin, ValueType)> {
    BY_LETTER[usize::from(letter)]
}

#[cfg(test)]
mod tests {
    use super::{BY_LETTER, LETTERS, VALUE_TYPES, letter, tag_type};

    /// Each pair of origin and value type survives a round trip through its letter.
    #[test]
    fn letters_read_back() {
        for (number, value) in VALUE_TYPES.into_iter().enumerate() {
            assert_eq!(value as usize, number);
            for (origin, _) in LETTERS {
                let letter = u8::try_from(letter(origin, value)).expect("ASCII");
                assert_eq!(tag_type(letter), Some((origin, value)));
            }
        }
        assert_eq!(BY_LETTER.iter().flatten().count(), LETTERS.len() * VALUE_TYPES.len());
    }
}
