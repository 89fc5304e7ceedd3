//! What is known of a span, by name.

/// A name and its value, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TagRef<'a> {
    /// The name; may be empty.
    pub key: &'a str,
    /// What it is.
    pub value: ValueRef<'a>,
    /// Of what it is said.
    pub origin: Origin,
}

/// A name and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    /// The name; may be empty.
    pub key: String,
    /// What it is.
    pub value: Value,
    /// Of what it is said.
    pub origin: Origin,
}

/// Of what something is said. Where one name is said of several, the span's own counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Of the process, machine or service that the span was recorded in.
    Resource,
    /// Of the library that recorded it.
    Scope,
    /// Of the span itself.
    #[default]
    Span,
}

/// The value of a tag, borrowed. Lists and maps are text, JSON.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// Text.
    Str(&'a str),
    /// A whole number.
    Int(i64),
    /// Yes or no.
    Bool(bool),
    /// A number.
    Double(f64),
    /// Anything.
    Bytes(&'a [u8]),
}

/// The value of a tag. Lists and maps are text, JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Str(String),
    /// A whole number.
    Int(i64),
    /// Yes or no.
    Bool(bool),
    /// A number.
    Double(f64),
    /// Anything.
    Bytes(Vec<u8>),
}

impl<'a> TagRef<'a> {
    /// Text that is said of the span itself.
    pub const fn text(key: &'a str, value: &'a str) -> TagRef<'a> {
        TagRef { key, value: ValueRef::Str(value), origin: Origin::Span }
    }

    /// With text of its own.
    pub fn to_owned(&self) -> Tag {
        let TagRef { key, value, origin } = *self;
        Tag { key: key.to_owned(), value: value.to_owned(), origin }
    }
}

impl Tag {
    /// Borrowed.
    pub fn as_ref(&self) -> TagRef<'_> {
        let Tag { key, value, origin } = self;
        TagRef { key, value: value.as_ref(), origin: *origin }
    }
}

impl ValueRef<'_> {
    /// With text of its own.
    pub fn to_owned(self) -> Value {
        match self {
            ValueRef::Str(text) => Value::Str(text.to_owned()),
            ValueRef::Int(number) => Value::Int(number),
            ValueRef::Bool(flag) => Value::Bool(flag),
            ValueRef::Double(number) => Value::Double(number),
            ValueRef::Bytes(bytes) => Value::Bytes(bytes.to_owned()),
        }
    }
}

impl Value {
    /// Borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Str(text) => ValueRef::Str(text),
            Value::Int(number) => ValueRef::Int(*number),
            Value::Bool(flag) => ValueRef::Bool(*flag),
            Value::Double(number) => ValueRef::Double(*number),
            Value::Bytes(bytes) => ValueRef::Bytes(bytes),
        }
    }
}
