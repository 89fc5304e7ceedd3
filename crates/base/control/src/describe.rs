//! Macros that define message types together with their encodings: `record!` defines a structure,
//! `choice!` an enumeration, `messages!` all messages of one direction. Fields are listed in the
//! order in which they are encoded. The expression after each `=` is the field's
//! [encoding](crate::encoding).

/// Defines a structure and its encoding: the fields in their order.
macro_rules! record {
    (
        $(#[$note:meta])*
        pub struct $name:ident {
            $($(#[$field_note:meta])* pub $field:ident: $type:ty = $form:expr,)*
        }
    ) => {
        $(#[$note])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_note])* pub $field: $type,)*
        }

        impl $crate::encoding::Record for $name {
            fn write(&self, writer: &mut $crate::wire::Writer<'_>) -> Result<(), $crate::Fault> {
                $(
                    writer.field(stringify!($field));
                    $crate::encoding::Form::<$type>::write(&$form, &self.$field, writer)?;
                )*
                Ok(())
            }

            fn read(reader: &mut $crate::wire::Reader<'_>) -> Result<$name, $crate::Fault> {
                $(
                    reader.field(stringify!($field));
                    let $field = $crate::encoding::Form::<$type>::read(&$form, reader)?;
                )*
                Ok($name { $($field),* })
            }

            #[cfg(test)]
            fn make(random: &mut $crate::tests::Random) -> $name {
                $(let $field = $crate::encoding::Form::<$type>::make(&$form, random);)*
                $name { $($field),* }
            }
        }
    };
}

/// Defines an enumeration. Its encoding is the variant's number and then the variant's fields. The
/// string before each variant is the variant's name for display.
macro_rules! choice {
    (
        $(#[$note:meta])*
        pub enum $name:ident {
            $(
                $(#[$variant_note:meta])*
                $number:literal $word:literal $variant:ident
                $({ $($(#[$field_note:meta])* $field:ident: $type:ty = $form:expr,)* })?,
            )*
        }
    ) => {
        $(#[$note])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_note])* $variant $({ $($(#[$field_note])* $field: $type,)* })?,)*
        }

        impl $name {
            /// Returns the variant's name for display.
            pub const fn word(&self) -> &'static str {
                match self {
                    $($name::$variant { .. } => $word,)*
                }
            }
        }

        impl $crate::encoding::Record for $name {
            fn write(&self, writer: &mut $crate::wire::Writer<'_>) -> Result<(), $crate::Fault> {
                match self {
                    $($name::$variant { $($($field),*)? } => {
                        writer.bytes(&[$number]);
                        $($($crate::encoding::Form::<$type>::write(&$form, $field, writer)?;)*)?
                    })*
                }
                Ok(())
            }

            fn read(reader: &mut $crate::wire::Reader<'_>) -> Result<$name, $crate::Fault> {
                let [found] = reader.array()?;
                match found {
                    $($number => {
                        $($(let $field = $crate::encoding::Form::<$type>::read(&$form, reader)?;)*)?
                        Ok($name::$variant { $($($field),*)? })
                    })*
                    _ => {
                        let expected = stringify!($name);
                        Err(reader.fault($crate::Reason::Number { found, expected }))
                    }
                }
            }

            #[cfg(test)]
            fn make(random: &mut $crate::tests::Random) -> $name {
                let numbers = [$($number),*];
                match numbers[random.below(numbers.len())] {
                    $($number => {
                        $($(let $field = $crate::encoding::Form::<$type>::make(&$form, random);)*)?
                        $name::$variant { $($($field),*)? }
                    })*
                    _ => unreachable!("it is one of these"),
                }
            }
        }
    };
}

/// Defines all messages of one direction and phase: their kinds, names and bodies.
macro_rules! messages {
    (@) => { false };
    (@ once) => { true };
    (
        $(#[$note:meta])*
        pub enum $name:ident up to $size_max:path $(, $once:ident)? {
            $(
                $(#[$variant_note:meta])*
                $number:literal $variant:ident $(($body:ident: $type:ty = $form:expr))?,
            )*
        }
    ) => {
        $(#[$note])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_note])* $variant $(($type))?,)*
        }

        impl $crate::message::Messages for $name {
            const KINDS: &'static [$crate::Kind] =
                &[$($crate::Kind { number: $number, name: stringify!($variant) }),*];
            const BODY_SIZE_MAX: usize = $size_max;
            const ONCE: bool = messages!(@ $($once)?);

            fn kind(&self) -> $crate::Kind {
                match self {
                    $($name::$variant { .. } => {
                        $crate::Kind { number: $number, name: stringify!($variant) }
                    })*
                }
            }
        }

        impl $crate::message::Body for $name {
            fn write(&self, writer: &mut $crate::wire::Writer<'_>) -> Result<(), $crate::Fault> {
                match self {
                    $($name::$variant $(($body))? => {
                        $(
                            writer.field(stringify!($body));
                            $crate::encoding::Form::<$type>::write(&$form, $body, writer)?;
                        )?
                    })*
                }
                Ok(())
            }

            fn read(
                kind: $crate::Kind,
                reader: &mut $crate::wire::Reader<'_>,
            ) -> Result<$name, $crate::Fault> {
                match kind.number {
                    $($number => {
                        $(
                            reader.field(stringify!($body));
                            let $body = $crate::encoding::Form::<$type>::read(&$form, reader)?;
                        )?
                        Ok($name::$variant $(($body))?)
                    })*
                    kind => Err(reader.fault($crate::Reason::UnknownKind { kind })),
                }
            }

            #[cfg(test)]
            fn make(kind: $crate::Kind, random: &mut $crate::tests::Random) -> $name {
                match kind.number {
                    $($number => {
                        $(let $body = $crate::encoding::Form::<$type>::make(&$form, random);)?
                        $name::$variant $(($body))?
                    })*
                    _ => unreachable!("it is one of these"),
                }
            }
        }
    };
}
