//! Contents of a block: words derived from its number and version.

const TAG: u64 = 0x426c_6f63_6b53_7461;

/// Contents found in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Only zeros, as in a block that was never written.
    Zeros,
    Version(u32),
    /// Neither a version of this block nor zeros.
    Broken,
}

/// Appends the contents of version `version` of block `block` to `output`.
pub(super) fn write(block: u64, version: u32, size: usize, output: &mut Vec<u8>) {
    let start = output.len();
    output.resize(start + size, 0);
    let (words, _) = output[start..].as_chunks_mut::<8>();
    for (word, value) in words.iter_mut().zip(words_of(block, version)) {
        *word = value.to_le_bytes();
    }
}

/// Determines whether the bytes are zeros, a version of block `block`, or neither.
pub(super) fn read(block: u64, bytes: &[u8]) -> Contents {
    let (words, _) = bytes.as_chunks::<8>();
    let [first, second, ..] = words else { return Contents::Broken };
    if u64::from_le_bytes(*first) != TAG ^ block {
        return if bytes.iter().all(|byte| *byte == 0) {
            Contents::Zeros
        } else {
            Contents::Broken
        };
    }
    let Ok(version) = u32::try_from(u64::from_le_bytes(*second)) else { return Contents::Broken };
    let mut expected = words.iter().zip(words_of(block, version));
    match expected.all(|(word, expected)| u64::from_le_bytes(*word) == expected) {
        true => Contents::Version(version),
        false => Contents::Broken,
    }
}

fn words_of(block: u64, version: u32) -> impl Iterator<Item = u64> {
    let base = hash(hash(block) ^ u64::from(version));
    let rest = (0..).map(move |at: u64| hash(base.wrapping_add(at)));
    [TAG ^ block, u64::from(version)].into_iter().chain(rest)
}

/// Returns a hash that spreads consecutive numbers over all 64 bits.
pub(super) fn hash(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    number ^ number >> 29
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_tell_what_they_are() {
        let block = |block, version| {
            let mut bytes = Vec::new();
            write(block, version, 4096, &mut bytes);
            bytes
        };
        assert_eq!(read(7, &block(7, 3)), Contents::Version(3));
        assert_eq!(read(8, &block(7, 3)), Contents::Broken);
        assert_eq!(read(7, &[0; 4096]), Contents::Zeros);
        // The part after `cut` is of another version.
        for cut in [16, 512, 2048, 4088] {
            let torn = [&block(7, 3)[..cut], &block(7, 4)[cut..]].concat();
            assert_eq!(read(7, &torn), Contents::Broken, "{cut}");
        }
        for at in 0..4096 {
            let mut damaged = block(7, 3);
            damaged[at] ^= 16;
            assert_eq!(read(7, &damaged), Contents::Broken, "{at}");
        }
    }
}
