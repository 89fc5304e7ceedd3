//! Encodings of values and their permitted ranges. The same description is used for writing and for
//! reading. A [`Record`] is a type with a single encoding. A [`Form`] describes the encoding of one
//! field; it is needed for types such as `String`, for which each field has its own restrictions.
//! [`crate::text`] contains the forms of texts and paths.

use crate::fault::{Fault, Reason};
#[cfg(test)]
use crate::tests::Random;
use crate::version::Version;
use crate::wire::{Reader, Writer};
use blkkin_filter::Severity as Level;
use std::collections::HashSet;

/// Protocol identifier at the start of each encoded version.
const MAGIC: &[u8; 6] = b"blkkin";

/// Type with a single encoding, which is the same in every field.
pub(crate) trait Record: Sized {
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), Fault>;
    fn read(reader: &mut Reader<'_>) -> Result<Self, Fault>;
    /// Returns a random valid value.
    #[cfg(test)]
    fn make(random: &mut Random) -> Self;
}

/// Encoding of a field, and its permitted values.
pub(crate) trait Form<T> {
    fn write(&self, value: &T, writer: &mut Writer<'_>) -> Result<(), Fault>;
    fn read(&self, reader: &mut Reader<'_>) -> Result<T, Fault>;
    /// Returns a random value that the form permits.
    #[cfg(test)]
    fn make(&self, random: &mut Random) -> T;
}

/// Form of a [`Record`]: its single encoding.
pub(crate) struct RecordForm;

impl<T: Record> Form<T> for RecordForm {
    fn write(&self, value: &T, writer: &mut Writer<'_>) -> Result<(), Fault> {
        value.write(writer)
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<T, Fault> {
        T::read(reader)
    }

    #[cfg(test)]
    fn make(&self, random: &mut Random) -> T {
        T::make(random)
    }
}

/// Form of a number: little-endian, with the size of its type.
pub(crate) struct Number;

macro_rules! numbers {
    ($($type:ty)*) => {
        $(impl Form<$type> for Number {
            fn write(&self, value: &$type, writer: &mut Writer<'_>) -> Result<(), Fault> {
                writer.bytes(&value.to_le_bytes());
                Ok(())
            }

            fn read(&self, reader: &mut Reader<'_>) -> Result<$type, Fault> {
                Ok(<$type>::from_le_bytes(reader.array()?))
            }

            #[cfg(test)]
            fn make(&self, random: &mut Random) -> $type {
                random.next() as $type >> random.below(<$type>::BITS as usize)
            }
        })*
    };
}
numbers! { u8 u16 u32 u64 }

/// Form of a boolean: one byte, 0 or 1.
pub(crate) struct Flag;

impl Form<bool> for Flag {
    fn write(&self, value: &bool, writer: &mut Writer<'_>) -> Result<(), Fault> {
        Number.write(&u8::from(*value), writer)
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<bool, Fault> {
        match Number.read(reader)? {
            0u8 => Ok(false),
            1 => Ok(true),
            found => Err(reader.fault(Reason::Number { found, expected: "flag" })),
        }
    }

    #[cfg(test)]
    fn make(&self, random: &mut Random) -> bool {
        random.below(2) == 1
    }
}

impl Record for Level {
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), Fault> {
        Number.write(&(*self as u8), writer)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Level, Fault> {
        let found: u8 = Number.read(reader)?;
        let reason = Reason::Number { found, expected: "level" };
        Level::from_number(found.into()).ok_or_else(|| reader.fault(reason))
    }

    #[cfg(test)]
    fn make(random: &mut Random) -> Level {
        Level::from_number(random.next() % 15).expect("there are fifteen")
    }
}

/// Encodes the version in `Hello` and `Welcome`. Reading fails if the major number differs from
/// that of [`Version::OURS`].
impl Record for Version {
    fn write(&self, writer: &mut Writer<'_>) -> Result<(), Fault> {
        AnyVersion.write(self, writer)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Version, Fault> {
        let theirs = AnyVersion.read(reader)?;
        match theirs.major == Version::OURS.major {
            true => Ok(theirs),
            false => Err(reader.fault(Reason::OtherVersion { theirs })),
        }
    }

    #[cfg(test)]
    fn make(random: &mut Random) -> Version {
        AnyVersion.make(random)
    }
}

/// Form of the version in `Refused`, which peers of any version can read.
pub(crate) struct AnyVersion;

impl Form<Version> for AnyVersion {
    fn write(&self, value: &Version, writer: &mut Writer<'_>) -> Result<(), Fault> {
        writer.bytes(MAGIC);
        writer.bytes(&value.major.to_le_bytes());
        writer.bytes(&value.minor.to_le_bytes());
        Ok(())
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Version, Fault> {
        if reader.array::<6>()? != *MAGIC {
            return Err(reader.fault(Reason::OtherProtocol));
        }
        let [major, minor] = [reader.array()?, reader.array()?].map(u16::from_le_bytes);
        let theirs = Version { major, minor };
        reader.set_peer(theirs);
        Ok(theirs)
    }

    #[cfg(test)]
    fn make(&self, _: &mut Random) -> Version {
        Version::OURS
    }
}

/// Form of an optional value: a flag, then the value if the flag is set.
pub(crate) struct Optional<F>(pub(crate) F);

impl<T, F: Form<T>> Form<Option<T>> for Optional<F> {
    fn write(&self, value: &Option<T>, writer: &mut Writer<'_>) -> Result<(), Fault> {
        Flag.write(&value.is_some(), writer)?;
        value.as_ref().map_or(Ok(()), |value| self.0.write(value, writer))
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Option<T>, Fault> {
        match Flag.read(reader)? {
            true => self.0.read(reader).map(Some),
            false => Ok(None),
        }
    }

    #[cfg(test)]
    fn make(&self, random: &mut Random) -> Option<T> {
        Flag.make(random).then(|| self.0.make(random))
    }
}

/// Form of a list: a count, then the items.
pub(crate) struct List<F> {
    pub(crate) count_min: usize,
    /// Maximum number of items; at most `u16::MAX`.
    pub(crate) count_max: usize,
    pub(crate) of: F,
}

impl<F> List<F> {
    fn check(&self, count: usize) -> Result<u16, Reason> {
        let (count_min, count_max) = (self.count_min, self.count_max);
        let permitted = (count_min..=count_max).contains(&count);
        let count_u16 = u16::try_from(count).ok().filter(|_| permitted);
        count_u16.ok_or(Reason::Count { count, count_min, count_max })
    }
}

impl<T, F: Form<T>> Form<Vec<T>> for List<F> {
    fn write(&self, value: &Vec<T>, writer: &mut Writer<'_>) -> Result<(), Fault> {
        let count = self.check(value.len()).map_err(|reason| writer.fault(reason))?;
        Number.write(&count, writer)?;
        value.iter().try_for_each(|item| self.of.write(item, writer))
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Vec<T>, Fault> {
        let count: u16 = Number.read(reader)?;
        self.check(count.into()).map_err(|reason| reader.fault(reason))?;
        // Memory grows with the items read, not with the announced count.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.of.read(reader)?);
        }
        Ok(items)
    }

    #[cfg(test)]
    fn make(&self, random: &mut Random) -> Vec<T> {
        let count = random.between(self.count_min, self.count_max);
        (0..count).map(|_| self.of.make(random)).collect()
    }
}

/// Form of a list of items with distinct names.
pub(crate) struct Distinct<T, F> {
    pub(crate) list: List<F>,
    pub(crate) name: fn(&T) -> &str,
}

impl<T, F> Distinct<T, F> {
    fn check(&self, items: &[T]) -> Result<(), Reason> {
        let mut names = HashSet::new();
        let distinct = items.iter().all(|item| names.insert((self.name)(item)));
        if distinct { Ok(()) } else { Err(Reason::DuplicateName) }
    }
}

impl<T, F: Form<T>> Form<Vec<T>> for Distinct<T, F> {
    fn write(&self, value: &Vec<T>, writer: &mut Writer<'_>) -> Result<(), Fault> {
        self.check(value).map_err(|reason| writer.fault(reason))?;
        self.list.write(value, writer)
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<Vec<T>, Fault> {
        let field = reader.field_name();
        let items = self.list.read(reader)?;
        reader.field(field);
        self.check(&items).map_err(|reason| reader.fault(reason))?;
        Ok(items)
    }

    #[cfg(test)]
    fn make(&self, random: &mut Random) -> Vec<T> {
        let mut items = self.list.make(random);
        let mut names = HashSet::new();
        items.retain(|item| names.insert((self.name)(item).to_owned()));
        items
    }
}
