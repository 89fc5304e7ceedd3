//! Forms of the values that functions and tracepoints pass.

use super::file::Btf;
use super::kind::Kind;

/// Maximum number of pointers' and integers' qualifiers and typedefs. More are taken for a cycle.
const STEPS_MAX: u32 = 64;
/// Bit of an integer's encoding for signed numbers.
const IS_SIGNED: u32 = 1 << 24;
/// Tag that clang gives to types in a program's memory.
const USER_TAG: &str = "user";

/// Form of a value that a function or a tracepoint passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {
    /// No value: the result of a function that returns nothing.
    Nothing,
    /// Integer or enumeration.
    Integer {
        /// Size in bytes.
        bytes: u32,
        /// Set for signed numbers.
        is_signed: bool,
    },
    /// Pointer to text that ends with NUL: `const char *`.
    Text,
    /// Pointer to anything else.
    Pointer,
    /// Structure, union or array.
    Structure {
        /// Size in bytes.
        bytes: u32,
    },
    /// Variable arguments, or a value of a type without a known size.
    Unknown,
}

impl ValueForm {
    /// Returns the size of the value in bytes, as it is passed: 0 if it is not known.
    pub(crate) fn size(self) -> u32 {
        match self {
            ValueForm::Nothing | ValueForm::Unknown => 0,
            ValueForm::Integer { bytes, .. } | ValueForm::Structure { bytes } => bytes,
            ValueForm::Text | ValueForm::Pointer => 8,
        }
    }
}

impl Btf {
    /// Returns the form of a type's values.
    pub(super) fn value_form(&self, type_id: u32) -> ValueForm {
        let Ok(plain) = self.without_modifiers(type_id) else { return ValueForm::Unknown };
        let Some(record) = self.record(plain) else { return ValueForm::Nothing };
        match record.kind {
            Kind::Integer => ValueForm::Integer {
                bytes: record.size_or_type,
                is_signed: record.data_word(0) & IS_SIGNED != 0,
            },
            Kind::Enumeration | Kind::Enumeration64 => {
                ValueForm::Integer { bytes: record.size_or_type, is_signed: record.is_flagged }
            }
            Kind::Pointer if self.is_constant_text(record.size_or_type) => ValueForm::Text,
            Kind::Pointer => ValueForm::Pointer,
            Kind::Structure | Kind::Union | Kind::Array => {
                self.size_of(plain).map_or(ValueForm::Unknown, |bytes| match bytes {
                    0 => ValueForm::Unknown,
                    _ => ValueForm::Structure { bytes },
                })
            }
            _ => ValueForm::Unknown,
        }
    }

    /// Returns true for `const char` that is not in a program's memory.
    fn is_constant_text(&self, type_id: u32) -> bool {
        let (mut current, mut is_constant) = (type_id, false);
        for _ in 0..STEPS_MAX {
            let Some(record) = self.record(current) else { return false };
            let name = self.name(record.name_offset);
            match record.kind {
                Kind::Const => is_constant = true,
                Kind::TypeTag if name == USER_TAG => return false,
                Kind::Integer => return is_constant && name == "char" && record.size_or_type == 1,
                // Typedefs of `char` are numbers, such as `u8`.
                Kind::Volatile | Kind::Restrict | Kind::TypeTag => {}
                _ => return false,
            }
            current = record.size_or_type;
        }
        false
    }
}
