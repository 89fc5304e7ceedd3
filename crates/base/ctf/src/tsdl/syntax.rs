//! The syntax tree of TSDL text that [`super::parser`] builds, with unresolved names. Start at
//! [`Statement`]. Each `at` is a byte offset in the text.

use std::borrow::Cow;

/// A whole text. Its `event` blocks are parsed one by one, after all other statements have been
/// processed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Syntax<'t> {
    /// All statements except for `event` and `callsite` blocks.
    pub(super) statements: Vec<Statement<'t>>,
    /// Memory of the statements, in bytes.
    pub(super) size: usize,
    /// Byte offsets of the `event` blocks in the text.
    pub(super) events: Vec<usize>,
}

/// A statement at the root of the text, in a block, or in a structure or variant.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Statement<'t> {
    /// A block such as `trace { … };`, at the root only.
    Block(Block<'t>),
    /// `key = value;`
    Attribute(Attribute<'t>),
    /// `key := type;`
    Assignment { key: Cow<'t, str>, at: usize, class: TypeSpec<'t> },
    /// `typedef type name, other[4];`
    Typedef { class: TypeSpec<'t>, names: Vec<Declarator<'t>> },
    /// `typealias type := name;`
    Typealias(Box<Typealias<'t>>),
    /// `type name, other[4];` in a structure or variant.
    Field { class: TypeSpec<'t>, names: Vec<Declarator<'t>> },
    /// A type specification without a field, such as `struct name { … };`.
    Declaration(TypeSpec<'t>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Typealias<'t> {
    pub(super) class: TypeSpec<'t>,
    pub(super) declarator: Declarator<'t>,
    /// Name of the new type, with its pointers.
    pub(super) name: Cow<'t, str>,
    pub(super) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block<'t> {
    pub(super) kind: BlockKind,
    pub(super) at: usize,
    pub(super) body: Vec<Statement<'t>>,
}

impl<'t> Block<'t> {
    /// Iterates over the block's attributes, in the order of the text.
    pub(super) fn attributes(&self) -> impl Iterator<Item = &Attribute<'t>> {
        self.body.iter().filter_map(|statement| match statement {
            Statement::Attribute(attribute) => Some(attribute),
            _ => None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Trace,
    Env,
    Clock,
    Stream,
    Event,
    Callsite,
}

/// `key = value`, in a block or in the braces of a type such as `integer { … }`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attribute<'t> {
    /// Name of the attribute: a word or string, or words joined by dots.
    pub(super) key: Cow<'t, str>,
    pub(super) at: usize,
    pub(super) value: Value<'t>,
    pub(super) value_at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'t> {
    /// An integer; the type can represent each `u64` and its negative.
    Integer(i128),
    /// A string, or words joined by dots: TSDL treats both alike.
    Text(Cow<'t, str>),
}

/// A type specification, as in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TypeSpec<'t> {
    pub(super) at: usize,
    pub(super) kind: TypeKind<'t>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TypeKind<'t> {
    /// The name of an alias, with its words separated by one space.
    Named(Cow<'t, str>),
    Integer(Vec<Attribute<'t>>),
    Float(Vec<Attribute<'t>>),
    String(Vec<Attribute<'t>>),
    Struct {
        name: Option<Cow<'t, str>>,
        body: Option<Vec<Statement<'t>>>,
        align: Option<Align>,
    },
    Variant {
        name: Option<Cow<'t, str>>,
        tag: Option<Path<'t>>,
        body: Option<Vec<Statement<'t>>>,
    },
    Enum(Box<EnumSpec<'t>>),
}

impl TypeKind<'_> {
    /// Returns whether the type declares a name for itself, as `struct name { … }` does.
    pub(super) fn declares_name(&self) -> bool {
        match self {
            TypeKind::Struct { name, body, .. } | TypeKind::Variant { name, body, .. } => {
                name.is_some() && body.is_some()
            }
            TypeKind::Enum(spec) => spec.name.is_some() && spec.labels.is_some(),
            _ => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct EnumSpec<'t> {
    pub(super) name: Option<Cow<'t, str>>,
    pub(super) container: Option<TypeSpec<'t>>,
    pub(super) labels: Option<Vec<Enumerator<'t>>>,
}

/// The minimum alignment `align(…)` after a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Align {
    pub(super) value: i128,
    pub(super) at: usize,
}

/// Reference to a field: words joined by dots.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path<'t> {
    pub(super) text: Cow<'t, str>,
    pub(super) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Enumerator<'t> {
    pub(super) label: Cow<'t, str>,
    pub(super) at: usize,
    /// First and last value of the label. `None` means one more than the last value of the previous
    /// label, or 0 for the first label.
    pub(super) range: Option<(i128, i128)>,
}

/// The part of a declaration after the type: the name, pointers and array lengths of a field or a
/// new type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declarator<'t> {
    pub(super) at: usize,
    /// `" *"` or `" * const"` for each pointer. Pointers only extend the type's name.
    pub(super) pointers: String,
    /// Name of the field or type; empty in a `typealias`.
    pub(super) name: Cow<'t, str>,
    /// Lengths of the arrays, the outermost first.
    pub(super) lengths: Vec<LengthSpec<'t>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct LengthSpec<'t> {
    pub(super) at: usize,
    pub(super) value: Value<'t>,
}
