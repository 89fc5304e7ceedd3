//! The syntax tree of TSDL text, as [`super::parser`] makes it: what is written, not yet what it
//! means. Start at [`Statement`]. `at` is always a byte offset in the text.

use std::borrow::Cow;

/// A whole text. Events are most of it, so they are read one by one when all else is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Syntax<'t> {
    /// All but events, and what nobody needs.
    pub(super) statements: Vec<Statement<'t>>,
    /// What they take in memory.
    pub(super) size: usize,
    /// Where `event` blocks start.
    pub(super) events: Vec<usize>,
}

/// What stands between two semicolons.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Statement<'t> {
    /// `trace { … };` and the like, at the root only.
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
    /// A structure, variant or enumeration that is declared without being used.
    Declaration(TypeSpec<'t>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Typealias<'t> {
    pub(super) class: TypeSpec<'t>,
    pub(super) declarator: Declarator<'t>,
    /// The new name, with its pointers.
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
    /// The block's attributes, in the order of the text.
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

/// `key = value`, of a block or of an `integer { … }`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Attribute<'t> {
    /// Words with dots between them.
    pub(super) key: Cow<'t, str>,
    pub(super) at: usize,
    pub(super) value: Value<'t>,
    pub(super) value_at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'t> {
    /// Wide enough for all of `u64` and its negatives.
    Integer(i128),
    /// A string, or words with dots between them: TSDL treats both alike.
    Text(Cow<'t, str>),
}

/// A type as it is written down.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TypeSpec<'t> {
    pub(super) at: usize,
    pub(super) kind: TypeKind<'t>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TypeKind<'t> {
    /// The name of an alias, its words separated by one space.
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
    /// Whether the type declares its own name, as `struct name { … }` does.
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

/// `align(…)` after a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Align {
    pub(super) value: i128,
    pub(super) at: usize,
}

/// Words with dots between them that name a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path<'t> {
    pub(super) text: Cow<'t, str>,
    pub(super) at: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Enumerator<'t> {
    pub(super) label: Cow<'t, str>,
    pub(super) at: usize,
    /// First and last value; without them one more than the label before.
    pub(super) range: Option<(i128, i128)>,
}

/// What follows a type and makes a field or a new type of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declarator<'t> {
    pub(super) at: usize,
    /// `" *"` or `" * const"` for each pointer: they only add to the name of the type.
    pub(super) pointers: String,
    /// Empty where a type is meant without naming anything.
    pub(super) name: Cow<'t, str>,
    /// Outermost array first.
    pub(super) lengths: Vec<LengthSpec<'t>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct LengthSpec<'t> {
    pub(super) at: usize,
    pub(super) value: Value<'t>,
}
