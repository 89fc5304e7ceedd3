//! Errors in reading and querying BTF.

use std::fmt;
use std::io;

/// Error in BTF, or in a query of it.
#[derive(Debug)]
pub enum BtfError {
    /// Missing file of the kernel's types.
    Missing,
    /// Failure to read a file.
    Read {
        /// Path of the file.
        path: String,
        /// Cause of the failure.
        error: io::Error,
    },
    /// File or name that exceeds a limit.
    TooLarge {
        /// Name of the limited quantity.
        subject: &'static str,
        /// Limit in bytes.
        bytes_max: usize,
    },
    /// Bytes that differ from the format.
    Malformed {
        /// Offset of the bytes in the file.
        offset: usize,
        /// Content that the format requires at the offset.
        expected: &'static str,
    },
    /// Type of a kind that this release does not know, so that the size of the type is unknown.
    UnknownKind {
        /// Number of the kind.
        kind: u32,
        /// Offset of the type in the file.
        offset: usize,
    },
    /// Reference to a type that is not in the file.
    UnknownType {
        /// Id of the missing type.
        type_id: u32,
        /// Offset of the reference in the file.
        offset: usize,
    },
    /// Name that no type of the wanted kind has.
    NotFound {
        /// Wanted kind, such as `structure`.
        expected: &'static str,
        /// Wanted name.
        name: String,
    },
    /// Structure without a member of this name, also in its anonymous members.
    NoField {
        /// Name of the outermost structure.
        structure: String,
        /// Path to the missing member.
        field: String,
    },
    /// Path that leads on from a member without members of its own.
    NotStructure {
        /// Name of the outermost structure.
        structure: String,
        /// Path to the member.
        field: String,
        /// Type of the member in C notation.
        type_text: String,
    },
    /// Bit field, which has no offset in bytes.
    BitField {
        /// Name of the outermost structure.
        structure: String,
        /// Path to the member.
        field: String,
    },
    /// Type that contains itself, or that is nested too deeply.
    Cycle {
        /// Id of the type.
        type_id: u32,
    },
    /// Type of another form than the query expects.
    Unexpected {
        /// Id of the type.
        type_id: u32,
        /// Expected form.
        expected: &'static str,
    },
}

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BtfError::Missing => f.write_str(
                "/sys/kernel/btf/vmlinux is missing: the kernel was built without \
                 CONFIG_DEBUG_INFO_BTF, or /sys is not mounted",
            ),
            BtfError::Read { path, error } => write!(f, "{path}: {error}"),
            BtfError::TooLarge { subject, bytes_max } => {
                write!(f, "BTF: {subject} exceeds {bytes_max} bytes")
            }
            BtfError::Malformed { offset, expected } => {
                write!(f, "BTF, offset {offset}: expected {expected}")
            }
            BtfError::UnknownKind { kind, offset } => write!(
                f,
                "BTF, offset {offset}: kind {kind} of a type is unknown to this release, which \
                 knows kinds 1 to 19"
            ),
            BtfError::UnknownType { type_id, offset } => {
                write!(f, "BTF, offset {offset}: there is no type {type_id}")
            }
            BtfError::NotFound { expected, name } => {
                write!(f, "the kernel has no {expected} {name}")
            }
            BtfError::NoField { structure, field } => {
                write!(f, "the kernel's structure {structure} has no member {field}")
            }
            BtfError::NotStructure { structure, field, type_text } => write!(
                f,
                "member {field} of the kernel's structure {structure} is of type {type_text}, \
                 which has no members in place"
            ),
            BtfError::BitField { structure, field } => write!(
                f,
                "member {field} of the kernel's structure {structure} is a bit field and has no \
                 offset in bytes"
            ),
            BtfError::Cycle { type_id } => {
                write!(f, "BTF: type {type_id} contains itself or is nested too deeply")
            }
            BtfError::Unexpected { type_id, expected } => {
                write!(f, "BTF: type {type_id} is not {expected}")
            }
        }
    }
}

impl std::error::Error for BtfError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BtfError::Read { error, .. } => Some(error),
            _ => None,
        }
    }
}
