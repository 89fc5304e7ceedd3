//! Encoder of the protobuf messages in answers. Start at [`Fields`].

use blkkin_model::varint;

/// Protobuf message to which fields are appended.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<u8>);

impl Fields {
    /// Appends an integer field. The value 0 is omitted, as protobuf's default.
    pub(crate) fn number(mut self, field: u8, number: u64) -> Fields {
        if number > 0 {
            self.0.push(field << 3);
            varint::write(&mut self.0, number);
        }
        self
    }

    /// Appends a string or bytes field. An empty value is omitted, as protobuf's default.
    pub(crate) fn bytes(self, field: u8, bytes: &[u8]) -> Fields {
        if bytes.is_empty() { self } else { self.present(field, bytes) }
    }

    /// Appends an embedded message as a field, even if it is empty.
    pub(crate) fn message(self, field: u8, message: Fields) -> Fields {
        self.present(field, &message.0)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn present(mut self, field: u8, bytes: &[u8]) -> Fields {
        self.0.push(field << 3 | 2);
        varint::write(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_protobuf() {
        let inner = Fields::default().number(1, 300).bytes(2, b"no").number(3, 0).bytes(4, b"");
        let outer = Fields::default().message(1, inner).message(2, Fields::default());
        assert_eq!(outer.into_bytes(), b"\x0a\x07\x08\xac\x02\x12\x02no\x12\x00");
    }
}
