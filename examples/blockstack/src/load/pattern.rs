//! What a block holds: words that follow from which block it is, and which of its versions.

const TAG: u64 = 0x426c_6f63_6b53_7461;

/// What was found where a block should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Never written.
    Zeros,
    Version(u32),
    /// Neither one version of this block nor zeros.
    Broken,
}

/// Appends a version of a block.
pub(super) fn write(block: u64, version: u32, size: usize, output: &mut Vec<u8>) {
    let start = output.len();
    output.resize(start + size, 0);
    let (words, _) = output[start..].as_chunks_mut::<8>();
    for (word, value) in words.iter_mut().zip(words_of(block, version)) {
        *word = value.to_le_bytes();
    }
}

/// Looks what it is.
pub(super) fn read(block: u64, bytes: &[u8]) -> Found {
    let (words, _) = bytes.as_chunks::<8>();
    let [first, second, ..] = words else { return Found::Broken };
    if u64::from_le_bytes(*first) != TAG ^ block {
        return if bytes.iter().all(|byte| *byte == 0) { Found::Zeros } else { Found::Broken };
    }
    let Ok(version) = u32::try_from(u64::from_le_bytes(*second)) else { return Found::Broken };
    let mut expected = words.iter().zip(words_of(block, version));
    match expected.all(|(word, expected)| u64::from_le_bytes(*word) == expected) {
        true => Found::Version(version),
        false => Found::Broken,
    }
}

fn words_of(block: u64, version: u32) -> impl Iterator<Item = u64> {
    let base = mixed(mixed(block) ^ u64::from(version));
    let rest = (0..).map(move |at: u64| mixed(base.wrapping_add(at)));
    [TAG ^ block, u64::from(version)].into_iter().chain(rest)
}

/// One number of another, that looks like chance.
pub(super) fn mixed(number: u64) -> u64 {
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
        assert_eq!(read(7, &block(7, 3)), Found::Version(3));
        assert_eq!(read(8, &block(7, 3)), Found::Broken);
        assert_eq!(read(7, &[0; 4096]), Found::Zeros);
        // Half of it is of another version.
        for cut in [16, 512, 2048, 4088] {
            let torn = [&block(7, 3)[..cut], &block(7, 4)[cut..]].concat();
            assert_eq!(read(7, &torn), Found::Broken, "{cut}");
        }
        for at in 0..4096 {
            let mut damaged = block(7, 3);
            damaged[at] ^= 16;
            assert_eq!(read(7, &damaged), Found::Broken, "{at}");
        }
    }
}
