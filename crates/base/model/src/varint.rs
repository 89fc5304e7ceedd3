//! Integers of variable length in LEB128, as protobuf and Parquet write them: seven bits in a byte,
//! the lowest first, and the highest bit of a byte set if another byte follows.

/// Reason why bytes are not an integer of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarintError {
    /// The last byte says that another one follows.
    Incomplete,
    /// The integer has more than 64 bits.
    TooLong,
}

/// Appends an integer.
#[inline]
pub fn write(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads the integer at the start of `bytes`; returns it and its size in bytes.
#[inline]
pub fn read(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    let mut number = 0;
    for (index, byte) in bytes.iter().enumerate() {
        // The tenth byte has only one valid bit.
        if index == 9 && *byte > 1 {
            return Err(VarintError::TooLong);
        }
        number |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Ok((number, index + 1));
        }
    }
    Err(VarintError::Incomplete)
}

#[cfg(test)]
mod tests {
    use super::{VarintError, read, write};

    #[test]
    fn integers_are_read_as_written() {
        for shift in 0..64 {
            for number in [1 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                write(&mut bytes, number);
                let size = bytes.len();
                assert_eq!(size, (64 - number.leading_zeros()).max(1).div_ceil(7) as usize);
                bytes.push(0xff);
                assert_eq!(read(&bytes), Ok((number, size)));
                assert_eq!(read(&bytes[..size - 1]), Err(VarintError::Incomplete));
            }
        }
    }

    #[test]
    fn integers_have_at_most_64_bits() {
        let mut bytes = [0xff; 10];
        assert_eq!(read(&bytes), Err(VarintError::TooLong));
        bytes[9] = 1;
        assert_eq!(read(&bytes), Ok((u64::MAX, 10)));
        bytes[9] = 2;
        assert_eq!(read(&bytes), Err(VarintError::TooLong));
    }
}
