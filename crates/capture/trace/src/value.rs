//! What fields can be made of.

use crate::event::Kind;
use blkkin_ring::Encoder;

/// A field's value.
pub trait Value {
    /// What the field holds.
    const KIND: Kind;

    /// Appends it to an event.
    fn encode(&self, encoder: &mut Encoder<'_>);
}

/// The fields of an event: a tuple of values.
pub trait Fields {
    /// What they hold.
    const KINDS: &'static [Kind];

    /// Appends them to an event.
    fn encode(&self, encoder: &mut Encoder<'_>);
}

macro_rules! numbers {
    ($($type:ty: $kind:ident),* $(,)?) => {
        $(impl Value for $type {
            const KIND: Kind = Kind::$kind;

            #[inline(always)]
            fn encode(&self, encoder: &mut Encoder<'_>) {
                encoder.put(self.to_le_bytes());
            }
        })*
    };
}

numbers!(
    u8: U8, u16: U16, u32: U32, u64: U64,
    i8: I8, i16: I16, i32: I32, i64: I64,
    f32: F32, f64: F64,
);

impl Value for usize {
    const KIND: Kind = Kind::U64;

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put((*self as u64).to_le_bytes());
    }
}

impl Value for isize {
    const KIND: Kind = Kind::I64;

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put((*self as i64).to_le_bytes());
    }
}

impl Value for bool {
    const KIND: Kind = Kind::Bool;

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put([u8::from(*self)]);
    }
}

impl Value for str {
    const KIND: Kind = Kind::String;

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put_string(self);
    }
}

impl Value for String {
    const KIND: Kind = Kind::String;

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put_string(self);
    }
}

impl<V: Value + ?Sized> Value for &V {
    const KIND: Kind = V::KIND;

    #[inline(always)]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        (**self).encode(encoder);
    }
}

macro_rules! tuples {
    ($(($($name:ident)*),)*) => {
        $(impl<$($name: Value),*> Fields for ($($name,)*) {
            const KINDS: &'static [Kind] = &[$($name::KIND),*];

            #[inline(always)]
            #[allow(non_snake_case, unused_variables, reason = "variables are named like their types")]
            fn encode(&self, encoder: &mut Encoder<'_>) {
                let ($($name,)*) = self;
                $($name.encode(encoder);)*
            }
        })*
    };
}

tuples!(
    (),
    (A),
    (A B),
    (A B C),
    (A B C D),
    (A B C D E),
    (A B C D E F),
    (A B C D E F G),
    (A B C D E F G H),
    (A B C D E F G H I),
    (A B C D E F G H I J),
    (A B C D E F G H I J K),
    (A B C D E F G H I J K L),
);
