//! Types after names have been looked up: aliases share what they stand for, so a text that names
//! aliases in aliases stays small here. [`super::expand`] makes a tree of field classes from it
//! wherever a type is used, for only there do lengths and tags find the fields they name.

use crate::schema::{Base, Bits, ByteOrder, Encoding, FloatClass, IntKind, Mapping};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A type whose names of types are resolved and whose names of fields are not.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Int(IntType),
    /// An integer wider than 64 bits: that many bytes.
    Wide(u64),
    Float(FloatClass),
    String(Encoding),
    Array(Rc<ArrayType>),
    Struct(Rc<StructType>),
    Variant(Rc<VariantType>),
}

#[derive(Clone, Debug)]
pub(super) struct IntType {
    pub(super) bits: Bits,
    pub(super) kind: IntKind,
    pub(super) base: Base,
    /// Makes text of an array.
    pub(super) encoding: Option<Encoding>,
    /// Index of the clock in `map = clock.NAME.value`.
    pub(super) clock: Option<usize>,
    pub(super) enumeration: Option<Rc<Enumeration>>,
}

#[derive(Debug, Default)]
pub(super) struct Enumeration {
    /// Shared with the field classes that are made of it.
    pub(super) mappings: Arc<[Mapping]>,
    /// Index of each label in `mappings`.
    pub(super) index: HashMap<String, usize>,
}

#[derive(Debug)]
pub(super) struct ArrayType {
    pub(super) element: Type,
    pub(super) length: LengthType,
    pub(super) depth: usize,
}

#[derive(Clone, Debug)]
pub(super) enum LengthType {
    Static(u64),
    Dynamic(Rc<PathRef>),
}

/// The name of a field, as a length or tag gives it.
#[derive(Debug)]
pub(super) struct PathRef {
    /// At least one.
    pub(super) words: Vec<String>,
    /// Byte offset in the text.
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) struct StructType {
    pub(super) members: Members,
    pub(super) align: u64,
    pub(super) depth: usize,
}

#[derive(Debug)]
pub(super) struct VariantType {
    pub(super) options: Rc<Members>,
    /// `None` while a named variant is only declared.
    pub(super) tag: Option<Rc<PathRef>>,
    pub(super) at: usize,
    pub(super) depth: usize,
}

/// The members of a structure or the options of a variant.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) list: Vec<MemberType>,
    /// Index of each written name in `list`.
    pub(super) index: HashMap<String, usize>,
}

#[derive(Debug)]
pub(super) struct MemberType {
    /// The name in the text.
    pub(super) written: String,
    /// The name for people.
    pub(super) display: String,
    pub(super) class: Type,
    pub(super) at: usize,
}

impl Type {
    /// Levels of compound types, this one included.
    pub(super) fn depth(&self) -> usize {
        match self {
            Type::Array(array) => array.depth,
            Type::Struct(structure) => structure.depth,
            Type::Variant(variant) => variant.depth,
            _ => 0,
        }
    }

    /// How an error message calls it.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Type::Int(IntType { enumeration: Some(_), .. }) => "an enumeration",
            Type::Int(IntType { kind: IntKind::Signed, .. }) => "a signed integer",
            Type::Int(_) => "an integer",
            Type::Wide(_) => "an integer of more than 64 bits",
            Type::Float(_) => "a floating point number",
            Type::String(_) => "a string",
            Type::Array(_) => "an array",
            Type::Struct(_) => "a structure",
            Type::Variant(_) => "a variant",
        }
    }
}

impl IntType {
    /// The encoding, if arrays of such integers are text.
    pub(super) fn text_encoding(&self) -> Option<Encoding> {
        self.encoding.filter(|_| self.bits.size == 8 && self.bits.align == 8)
    }
}

impl Members {
    /// Adds a member unless its name is taken; then gives the index of the one that has it.
    pub(super) fn add(&mut self, written: &str, class: Type, at: usize) -> Result<(), usize> {
        if let Some(&index) = self.index.get(written) {
            return Err(index);
        }
        self.index.insert(written.to_owned(), self.list.len());
        let (written, display) = (written.to_owned(), String::new());
        self.list.push(MemberType { written, display, class, at });
        Ok(())
    }

    /// Gives members the names that people see: without the one leading underscore that keeps
    /// producers' names apart from keywords, unless that name is taken.
    pub(super) fn set_display_names(&mut self) {
        for member in &mut self.list {
            member.display = display_name(&member.written, |name| self.index.contains_key(name));
        }
    }

    /// The index of the member with that name, or else of one that differs by the escaping
    /// underscore.
    pub(super) fn find(&self, name: &str, exactly: bool) -> Option<usize> {
        if exactly {
            return self.index.get(name).copied();
        }
        let bare = name.strip_prefix('_').and_then(|bare| self.index.get(bare));
        bare.or_else(|| self.index.get(&format!("_{name}"))).copied()
    }

    pub(super) fn depth(&self) -> usize {
        self.list.iter().map(|member| member.class.depth()).max().unwrap_or(0)
    }
}

/// What people see of a written name among others that `is_taken` knows.
pub(super) fn display_name(written: &str, is_taken: impl Fn(&str) -> bool) -> String {
    match written.strip_prefix('_') {
        Some(bare) if !bare.is_empty() && !is_taken(bare) => bare.to_owned(),
        _ => written.to_owned(),
    }
}

/// Where bits lie with the usual order in each byte.
pub(super) fn bits(size: u32, align: u64, byte_order: ByteOrder) -> Bits {
    Bits { size, align, byte_order, bit_order: byte_order.usual_bit_order() }
}
