//! Rust types that can be fields of an event.

use crate::kind::Kind;
use blkkin_control::Scalar;
use blkkin_ring::Encoder;

/// A Rust type whose values can be fields of an event.
pub trait Value {
    /// Kind of the fields that have values of this type.
    const KIND: Kind;

    /// Appends the value to an event as its next field.
    fn encode(&self, encoder: &mut Encoder<'_>);
}

/// The fields of an event: a tuple of values.
pub trait Fields {
    /// Kinds of the fields, in order.
    const KINDS: &'static [Kind];

    /// Appends the fields to an event, in order.
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

/// A number type that arrays and slices can have as elements.
pub trait Number: Value {
    /// Number type of the control protocol that corresponds to this type.
    const SCALAR: Scalar = match Self::KIND.scalar() {
        Some(scalar) => scalar,
        None => panic!("a number"),
    };
}

macro_rules! many {
    ($($type:ty)*) => {
        $(impl Number for $type {})*
    };
}

many!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 bool);

impl<N: Number, const COUNT: usize> Value for [N; COUNT] {
    const KIND: Kind = Kind::Array(N::SCALAR, COUNT as u32);

    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        const { assert!(COUNT <= u32::MAX as usize) };
        self.iter().for_each(|number| number.encode(encoder));
    }
}

impl<N: Number> Value for [N] {
    const KIND: Kind = Kind::Sequence(N::SCALAR);

    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        // A sequence of more than 2³²-1 elements fits no event.
        encoder.put((self.len() as u32).to_le_bytes());
        self.iter().for_each(|number| number.encode(encoder));
    }
}

impl<N: Number> Value for Vec<N> {
    const KIND: Kind = Kind::Sequence(N::SCALAR);

    #[inline]
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.as_slice().encode(encoder);
    }
}

/// Makes a fieldless enumeration usable as an event field, with labels for the listed variants:
/// `event_enum!(State as u8 { Idle, Busy })`. Values are recorded as integers of the given type.
#[macro_export]
macro_rules! event_enum {
    ($name:ident as $repr:ty { $($variant:ident),+ $(,)? }) => {
        impl $crate::Value for $name {
            const KIND: $crate::Kind = $crate::Kind::Enum(
                <$repr as $crate::Number>::SCALAR,
                &$crate::Labels(&[$($crate::Label {
                    name: stringify!($variant),
                    value: $name::$variant as $repr as u64,
                }),+]),
            );

            #[inline(always)]
            fn encode(&self, encoder: &mut $crate::Encoder<'_>) {
                $crate::Value::encode(&(*self as $repr), encoder);
            }
        }
    };
}

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
    (A B C D E F G H I J K L M),
    (A B C D E F G H I J K L M N),
    (A B C D E F G H I J K L M N O),
    (A B C D E F G H I J K L M N O P),
);
