//! Tags: named values that describe a span.

/// Key and value that describe a span, borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TagRef<'a> {
    /// Key; may be empty.
    pub key: &'a str,
    /// Value of the tag.
    pub value: ValueRef<'a>,
    /// Subject that the tag describes.
    pub origin: Origin,
}

/// Key and value that describe a span.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    /// Key; may be empty.
    pub key: String,
    /// Value of the tag.
    pub value: Value,
    /// Subject that the tag describes.
    pub origin: Origin,
}

/// Subject that a tag describes. If several subjects have a tag of one key, the span's own takes
/// precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The process, machine or service that recorded the span.
    Resource,
    /// The library that recorded the span.
    Scope,
    /// The span itself.
    #[default]
    Span,
}

/// Value of a tag, borrowed. Lists and maps are JSON text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// Text.
    Str(&'a str),
    /// Integer.
    Int(i64),
    /// Boolean.
    Bool(bool),
    /// Floating-point number.
    Double(f64),
    /// Byte string.
    Bytes(&'a [u8]),
}

/// Value of a tag. Lists and maps are JSON text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Str(String),
    /// Integer.
    Int(i64),
    /// Boolean.
    Bool(bool),
    /// Floating-point number.
    Double(f64),
    /// Byte string.
    Bytes(Vec<u8>),
}

impl<'a> TagRef<'a> {
    /// Makes a text tag of the span itself.
    pub const fn text(key: &'a str, value: &'a str) -> TagRef<'a> {
        TagRef { key, value: ValueRef::Str(value), origin: Origin::Span }
    }

    /// Copies the tag with its text.
    pub fn to_owned(&self) -> Tag {
        let TagRef { key, value, origin } = *self;
        Tag { key: key.to_owned(), value: value.to_owned(), origin }
    }
}

impl Tag {
    /// Borrows the tag.
    pub fn as_ref(&self) -> TagRef<'_> {
        let Tag { key, value, origin } = self;
        TagRef { key, value: value.as_ref(), origin: *origin }
    }
}

impl ValueRef<'_> {
    /// Copies the value with its text.
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
    /// Borrows the value.
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
