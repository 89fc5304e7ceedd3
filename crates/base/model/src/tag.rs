//! Tags: keys with values that describe a span, its resource or its scope.

/// Key and value that describe a span, its scope or its resource, both borrowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TagRef<'a> {
    /// Key: the name of the described property, such as `http.method`; may be empty.
    pub key: &'a str,
    /// Value of the property that the key names.
    pub value: ValueRef<'a>,
    /// Subject of the tag: the span, its scope or its resource.
    pub origin: Origin,
}

/// Key and value that describe a span, its scope or its resource, both owned.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    /// Key: the name of the described property, such as `http.method`; may be empty.
    pub key: String,
    /// Value of the property that the key names.
    pub value: Value,
    /// Subject of the tag: the span, its scope or its resource.
    pub origin: Origin,
}

/// Subject that a tag describes. The variants are in ascending precedence for tags with the same
/// key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Process, machine or service that recorded the span.
    Resource,
    /// Library that recorded the span.
    Scope,
    /// Span itself, and not its resource or scope.
    #[default]
    Span,
}

/// Value of a tag, with borrowed text. Lists and maps are JSON text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// UTF-8 text, or the JSON text of a list or map.
    Str(&'a str),
    /// Signed integer of 64 bits.
    Int(i64),
    /// Boolean value, as set by the program.
    Bool(bool),
    /// Floating-point number of 64 bits.
    Double(f64),
    /// Bytes that need not be UTF-8.
    Bytes(&'a [u8]),
}

/// Value of a tag, with owned text. Lists and maps are JSON text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// UTF-8 text, or the JSON text of a list or map.
    Str(String),
    /// Signed integer of 64 bits.
    Int(i64),
    /// Boolean value, as set by the program.
    Bool(bool),
    /// Floating-point number of 64 bits.
    Double(f64),
    /// Bytes that need not be UTF-8.
    Bytes(Vec<u8>),
}

impl<'a> TagRef<'a> {
    /// Makes a tag of the span itself, with a text as its value.
    pub const fn text(key: &'a str, value: &'a str) -> TagRef<'a> {
        TagRef { key, value: ValueRef::Str(value), origin: Origin::Span }
    }

    /// Converts the tag to one that owns its key and value.
    pub fn to_owned(&self) -> Tag {
        let TagRef { key, value, origin } = *self;
        Tag { key: key.to_owned(), value: value.to_owned(), origin }
    }
}

impl Tag {
    /// Converts the tag to one that borrows its key and value.
    pub fn as_ref(&self) -> TagRef<'_> {
        let Tag { key, value, origin } = self;
        TagRef { key, value: value.as_ref(), origin: *origin }
    }
}

/// Key of the tag with the clock of a span's machine, if it was measured against a relay's: `BOOT
/// ERROR`, the identity of the machine's boot and the error in nanoseconds; or `unknown`. Spans
/// have it whose parent is missing or on another machine.
pub const CLOCK_KEY: &str = "blkkin.clock";

impl ValueRef<'_> {
    /// Converts the value to one that owns its text or bytes.
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
    /// Converts the value to one that borrows its text or bytes.
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
