//! Descriptions of event types and of their integers, and the ids of event types.

use crate::error::Error;
use blkkin_control::limits::EVENT_TYPES_MAX;
use blkkin_control::{EventType, Field, FieldKind, Level, Scalar, Width};
use std::collections::HashMap;

/// Event types of a program's events, with ids from 0 in the order in which they were added.
#[derive(Debug, Default)]
pub struct EventTypes {
    types: Vec<EventType>,
    /// Ids of the types with a name; types with the same name differ in their fields.
    by_name: HashMap<String, Vec<u16>>,
}

impl EventTypes {
    /// Returns all types, in the order of their ids.
    pub fn all(&self) -> &[EventType] {
        &self.types
    }

    /// Returns the id of an event type, whose index is ignored. Adds the type if no earlier type
    /// has the same name and fields.
    pub(crate) fn add(&mut self, event_type: EventType) -> Result<u16, Error> {
        let ids = self.by_name.entry(event_type.name.clone()).or_default();
        let is_same = |id: &&u16| self.types[usize::from(**id)].fields == event_type.fields;
        if let Some(id) = ids.iter().find(is_same) {
            return Ok(*id);
        }
        let next = u16::try_from(self.types.len()).ok();
        let id = next.filter(|id| usize::from(*id) < EVENT_TYPES_MAX);
        let id = id.ok_or(Error::TooManyTypes)?;
        ids.push(id);
        self.types.push(EventType { index: id.into(), ..event_type });
        Ok(id)
    }
}

/// Severity of all events of the kernel.
pub(crate) const LEVEL: Level = Level::Info;

/// Returns the description of an event type with these fields.
pub(crate) fn event_type<'n>(
    id: u16,
    name: String,
    fields: impl IntoIterator<Item = (&'n str, FieldKind)>,
) -> EventType {
    let fields = fields.into_iter().map(|(name, kind)| Field { name: name.to_owned(), kind });
    EventType {
        index: id.into(),
        name,
        level: LEVEL,
        file: String::new(),
        line: 0,
        fields: fields.collect(),
    }
}

/// Type of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Integer {
    /// Size in bytes: 1, 2, 4 or 8.
    pub(crate) bytes: usize,
    pub(crate) is_signed: bool,
    /// Set if viewers show the integer in hexadecimal.
    pub(crate) is_hex: bool,
}

impl Integer {
    /// Returns an unsigned integer that is shown in decimal.
    pub(crate) const fn unsigned(bytes: usize) -> Integer {
        Integer { bytes, is_signed: false, is_hex: false }
    }

    /// Returns a signed integer that is shown in decimal.
    pub(crate) const fn signed(bytes: usize) -> Integer {
        Integer { bytes, is_signed: true, is_hex: false }
    }

    /// Returns the type of a pointer.
    pub(crate) const fn pointer() -> Integer {
        Integer { bytes: 8, is_signed: false, is_hex: true }
    }

    fn width(self) -> Width {
        match self.bytes {
            1 => Width::Bits8,
            2 => Width::Bits16,
            4 => Width::Bits32,
            _ => Width::Bits64,
        }
    }

    /// Returns the kind of a field of this type.
    pub(crate) fn field(self) -> FieldKind {
        let (width, hex) = (self.width(), self.is_hex);
        match self.is_signed {
            true => FieldKind::Signed { width, hex },
            false => FieldKind::Unsigned { width, hex },
        }
    }

    /// Returns the kind of a field that is a sequence of this type.
    pub(crate) fn sequence(self) -> FieldKind {
        FieldKind::Sequence { of: self.scalar() }
    }

    /// Returns the kind of a field that is an array of this type.
    pub(crate) fn array(self, count: usize) -> FieldKind {
        FieldKind::Array { of: self.scalar(), count: count as u32 }
    }

    fn scalar(self) -> Scalar {
        let (width, hex) = (self.width(), self.is_hex);
        match self.is_signed {
            true => Scalar::Signed { width, hex },
            false => Scalar::Unsigned { width, hex },
        }
    }
}
