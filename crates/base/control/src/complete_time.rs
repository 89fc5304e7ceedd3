//! File by which the agent tells the forwarder up to which time the traces of a session are
//! complete. The agent overwrites it after each drain of rings in which it has written packets.

/// Name of the file in the directory of a session.
pub const COMPLETE_FILE: &str = ".complete";

/// Content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompleteTime {
    /// Time before which all events are in the files, in nanoseconds since 1970.
    pub until_ns: u64,
}

impl CompleteTime {
    /// Size of the file's content in bytes.
    pub const SIZE: usize = 16;

    /// Encodes the content: the time, then its complement as a checksum. A read during a write may
    /// return parts of both contents.
    pub fn encode(self) -> [u8; CompleteTime::SIZE] {
        let value = u128::from(self.until_ns) | u128::from(!self.until_ns) << 64;
        value.to_le_bytes()
    }

    /// Decodes the content. Returns `None` if it is not whole.
    pub fn decode(bytes: [u8; CompleteTime::SIZE]) -> Option<CompleteTime> {
        let value = u128::from_le_bytes(bytes);
        let (until_ns, complement) = (value as u64, (value >> 64) as u64);
        (until_ns == !complement).then_some(CompleteTime { until_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::CompleteTime;

    #[test]
    fn mixed_contents_are_refused() {
        for until_ns in [0, 1, u64::MAX, 1_795_000_000_123_456_789] {
            let time = CompleteTime { until_ns };
            let mut bytes = time.encode();
            assert_eq!(CompleteTime::decode(bytes), Some(time));
            bytes[3] ^= 1;
            assert_eq!(CompleteTime::decode(bytes), None);
        }
        assert_eq!(CompleteTime::decode([0; 16]), None);
    }
}
