//! Types with resolved type names. Aliases share their types, so a text with aliases of aliases
//! stays small in this form. [`super::expand`] makes a tree of field classes at each use of a type,
//! because lengths and tags can only be resolved at the use.
//!
//! Names borrow from the text, and lookups use binary search, because there may be very many names.

use crate::schema::{Base, Bits, ByteOrder, Encoding, FloatClass, IntKind, Mapping};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// A type with resolved type names. Its references to fields are not resolved yet.
#[derive(Clone, Debug)]
pub(super) enum Type<'t> {
    Int(IntType),
    /// An integer wider than 64 bits, by its size in bytes.
    WideInt(u64),
    Float(FloatClass),
    String(Encoding),
    Array(Rc<ArrayType<'t>>),
    Struct(Rc<StructType<'t>>),
    Variant(Rc<VariantType<'t>>),
}

#[derive(Clone, Debug)]
pub(super) struct IntType {
    pub(super) bits: Bits,
    pub(super) kind: IntKind,
    pub(super) base: Base,
    /// Encoding stated in the type; `None` if the type states none. [`IntType::text_encoding`]
    /// decides whether an array of the type is text.
    pub(super) encoding: Option<Encoding>,
    /// Index of the clock in `map = clock.NAME.value`.
    pub(super) clock: Option<usize>,
    pub(super) enumeration: Option<Rc<Enumeration>>,
}

#[derive(Debug)]
pub(super) struct Enumeration {
    /// Labels, shared with the field classes made from the type.
    pub(super) mappings: Arc<[Mapping]>,
    /// Indexes in `mappings`, sorted by label, for binary search.
    sorted: Box<[u32]>,
}

#[derive(Debug)]
pub(super) struct ArrayType<'t> {
    pub(super) element: Type<'t>,
    pub(super) length: LengthType,
    pub(super) depth: usize,
}

#[derive(Clone, Debug)]
pub(super) enum LengthType {
    Static(u64),
    Dynamic(Rc<PathRef>),
}

/// Reference to a field in a length or tag.
#[derive(Debug)]
pub(super) struct PathRef {
    /// Words of the path, at least one.
    pub(super) words: Box<[String]>,
    /// Byte offset of the reference in the text, for error messages.
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) struct StructType<'t> {
    pub(super) members: Members<'t>,
    pub(super) align: u64,
    pub(super) depth: usize,
}

#[derive(Debug)]
pub(super) struct VariantType<'t> {
    pub(super) options: Rc<Members<'t>>,
    /// Reference to the tag; `None` if the declaration states no tag, as in `variant name { … }`.
    pub(super) tag: Option<Rc<PathRef>>,
    pub(super) at: usize,
    pub(super) depth: usize,
}

/// The members of a structure or the options of a variant.
#[derive(Debug, Default)]
pub(super) struct Members<'t> {
    pub(super) list: Vec<MemberType<'t>>,
    /// Indexes in `list`, sorted by written name, for binary search.
    sorted: Box<[u32]>,
}

#[derive(Debug)]
pub(super) struct MemberType<'t> {
    /// Name as written in the text.
    pub(super) written: Cow<'t, str>,
    /// True if the display name lacks the leading underscore of the written name.
    is_escaped: bool,
    pub(super) class: Type<'t>,
    pub(super) at: usize,
}

/// Error of a repeated member name, with the offsets of both members.
#[derive(Debug)]
pub(super) struct DuplicateMember<'t> {
    pub(super) name: Cow<'t, str>,
    pub(super) at: usize,
    pub(super) first_at: usize,
}

impl Type<'_> {
    /// Returns the number of nested compound types, including this one.
    pub(super) fn depth(&self) -> usize {
        match self {
            Type::Array(array) => array.depth,
            Type::Struct(structure) => structure.depth,
            Type::Variant(variant) => variant.depth,
            _ => 0,
        }
    }

    /// Describes the type for an error message.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Type::Int(IntType { enumeration: Some(_), .. }) => "an enumeration",
            Type::Int(IntType { kind: IntKind::Signed, .. }) => "a signed integer",
            Type::Int(_) => "an integer",
            Type::WideInt(_) => "an integer of more than 64 bits",
            Type::Float(_) => "a floating point number",
            Type::String(_) => "a string",
            Type::Array(_) => "an array",
            Type::Struct(_) => "a structure",
            Type::Variant(_) => "a variant",
        }
    }
}

impl IntType {
    /// Returns the encoding of the text in an array of this integer type. `None` unless the integer
    /// has an encoding, 8 bits and an alignment of 8 bits.
    pub(super) fn text_encoding(&self) -> Option<Encoding> {
        self.encoding.filter(|_| self.bits.size == 8 && self.bits.align == 8)
    }
}

impl Enumeration {
    /// Makes an enumeration of `mappings`, whose labels are unique.
    pub(super) fn new(mappings: Vec<Mapping>) -> Enumeration {
        let mut sorted: Box<[u32]> = (0..mappings.len() as u32).collect();
        sorted.sort_unstable_by_key(|&index| mappings[index as usize].label.as_str());
        Enumeration { mappings: mappings.into(), sorted }
    }

    /// Returns the index of `label` in the mappings; `None` if the enumeration lacks the label.
    pub(super) fn find(&self, label: &str) -> Option<usize> {
        let label_of = |index: &u32| self.mappings[*index as usize].label.as_str();
        let found = self.sorted.binary_search_by_key(&label, label_of).ok()?;
        Some(self.sorted[found] as usize)
    }
}

impl<'t> MemberType<'t> {
    pub(super) fn new(written: Cow<'t, str>, class: Type<'t>, at: usize) -> MemberType<'t> {
        MemberType { written, is_escaped: false, class, at }
    }

    /// Returns the member's display name, without the escaping underscore.
    pub(super) fn display(&self) -> &str {
        &self.written[usize::from(self.is_escaped)..]
    }
}

impl<'t> Members<'t> {
    /// Makes a list of members, and checks that their names are unique.
    pub(super) fn new(mut list: Vec<MemberType<'t>>) -> Result<Members<'t>, DuplicateMember<'t>> {
        list.shrink_to_fit();
        let mut sorted: Box<[u32]> = (0..list.len() as u32).collect();
        // A stable sort keeps members of the same name in order.
        sorted.sort_by_key(|&index| list[index as usize].written.as_ref());
        let pairs = sorted.windows(2).map(|pair| (pair[0] as usize, pair[1] as usize));
        let same = pairs.filter(|&(one, other)| list[one].written == list[other].written);
        if let Some((first, second)) = same.min_by_key(|&(_, second)| second) {
            let (first_at, second) = (list[first].at, list.swap_remove(second));
            return Err(DuplicateMember { name: second.written, at: second.at, first_at });
        }
        let mut members = Members { list, sorted };
        for index in 0..members.list.len() {
            let written = members.list[index].written.as_ref();
            let display = display_name(written, |name| members.find(name, true).is_some());
            members.list[index].is_escaped = display.len() < written.len();
        }
        Ok(members)
    }

    /// Returns the index of a member by its written name. If `exactly` is false, searches instead
    /// for a member whose written name differs from `name` by one leading underscore.
    pub(super) fn find(&self, name: &str, exactly: bool) -> Option<usize> {
        let find = |name: &str| {
            let name_of = |index: &u32| self.list[*index as usize].written.as_ref();
            let found = self.sorted.binary_search_by_key(&name, name_of).ok()?;
            Some(self.sorted[found] as usize)
        };
        if exactly {
            return find(name);
        }
        name.strip_prefix('_').and_then(find).or_else(|| find(&format!("_{name}")))
    }

    pub(super) fn depth(&self) -> usize {
        self.list.iter().map(|member| member.class.depth()).max().unwrap_or(0)
    }
}

/// Returns the display name of a written name: the name without the leading underscore by which
/// producers distinguish names from keywords. The underscore stays if another field has that
/// display name. `is_taken` returns whether a name is written in the same structure.
pub(super) fn display_name(written: &str, is_taken: impl Fn(&str) -> bool) -> &str {
    let mut lowest = written;
    while let Some(bare) = lowest.strip_prefix('_').filter(|bare| !bare.is_empty()) {
        if !is_taken(bare) {
            // This name and the shorter names in the chain all lose one underscore, so they stay
            // distinct.
            return &written[1..];
        }
        lowest = bare;
    }
    written
}

/// Returns the layout with the usual bit order of `byte_order`.
pub(super) fn bits(size: u32, align: u64, byte_order: ByteOrder) -> Bits {
    Bits { size, align, byte_order, bit_order: byte_order.usual_bit_order() }
}
