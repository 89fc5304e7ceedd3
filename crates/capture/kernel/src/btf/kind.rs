//! Kinds of BTF types, and the data that follows the 12 common bytes of a type of each kind.

/// Kind of a type, with the kernel's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Integer = 1,
    Pointer = 2,
    Array = 3,
    Structure = 4,
    Union = 5,
    Enumeration = 6,
    /// Structure or union that is declared but not defined.
    Forward = 7,
    Typedef = 8,
    Volatile = 9,
    Const = 10,
    Restrict = 11,
    Function = 12,
    /// Parameters and result of a function.
    Prototype = 13,
    Variable = 14,
    /// Section with its variables.
    Section = 15,
    Float = 16,
    DeclarationTag = 17,
    TypeTag = 18,
    /// Enumeration with values of 64 bits.
    Enumeration64 = 19,
}

/// All kinds, from number 1.
const KINDS: [Kind; 19] = [
    Kind::Integer,
    Kind::Pointer,
    Kind::Array,
    Kind::Structure,
    Kind::Union,
    Kind::Enumeration,
    Kind::Forward,
    Kind::Typedef,
    Kind::Volatile,
    Kind::Const,
    Kind::Restrict,
    Kind::Function,
    Kind::Prototype,
    Kind::Variable,
    Kind::Section,
    Kind::Float,
    Kind::DeclarationTag,
    Kind::TypeTag,
    Kind::Enumeration64,
];

/// Data of a type after its 12 common bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// Bytes of a fixed number.
    Fixed(usize),
    /// Entries, as many as the type's info says.
    Entries(EntryLayout),
}

/// Layout of an entry: a member, value, parameter or variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryLayout {
    /// Size of the entry in bytes.
    pub(super) size: usize,
    /// Position of the name field, which holds an offset into the strings, in bytes from the start
    /// of the entry.
    pub(super) name: Option<usize>,
    /// Position of the field with the type's id, in bytes from the start of the entry.
    pub(super) type_id: Option<usize>,
}

impl Kind {
    /// Returns the kind with this number.
    pub(super) fn from_number(number: u32) -> Option<Kind> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        KINDS.get(index).copied()
    }

    /// Returns true if the last of a type's common words is the id of another type.
    pub(super) fn has_target(self) -> bool {
        self.is_modifier()
            || matches!(
                self,
                Kind::Pointer
                    | Kind::Function
                    | Kind::Prototype
                    | Kind::Variable
                    | Kind::DeclarationTag
            )
    }

    /// Returns true if types of this kind have size and members of their target.
    pub(super) fn is_modifier(self) -> bool {
        matches!(
            self,
            Kind::Typedef | Kind::Volatile | Kind::Const | Kind::Restrict | Kind::TypeTag
        )
    }

    /// Returns true for structures and unions.
    pub(super) fn has_members(self) -> bool {
        matches!(self, Kind::Structure | Kind::Union)
    }

    /// Returns true for both kinds of enumerations.
    pub(super) fn is_enumeration(self) -> bool {
        matches!(self, Kind::Enumeration | Kind::Enumeration64)
    }

    /// Returns the data that follows the common bytes of a type.
    pub(super) fn data(self) -> Data {
        let entries = |size, name, type_id| Data::Entries(EntryLayout { size, name, type_id });
        match self {
            Kind::Structure | Kind::Union => entries(12, Some(0), Some(4)),
            Kind::Enumeration => entries(8, Some(0), None),
            Kind::Enumeration64 => entries(12, Some(0), None),
            Kind::Prototype => entries(8, Some(0), Some(4)),
            Kind::Section => entries(12, None, Some(0)),
            Kind::Integer | Kind::Variable | Kind::DeclarationTag => Data::Fixed(4),
            Kind::Array => Data::Fixed(12),
            Kind::Pointer
            | Kind::Forward
            | Kind::Typedef
            | Kind::Volatile
            | Kind::Const
            | Kind::Restrict
            | Kind::Function
            | Kind::Float
            | Kind::TypeTag => Data::Fixed(0),
        }
    }
}
