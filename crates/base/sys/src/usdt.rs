//! USDT probes of a program's own (SystemTap's user statically-defined tracing): the text of a
//! probe's note, and the macro [`usdt_probe!`](crate::usdt_probe) with the probe's instruction.
//!
//! ```text
//! code                    nop, where the processor's register of the first argument points to
//!                         the probe's arguments: 8 bytes each
//! .note.stapsdt           note of the probe: addresses of the nop and of the semaphore, then
//!                         "PROVIDER" NUL "NAME" NUL "4@0(%rdi) -8@8(%rdi)" NUL
//! .stapsdt.base           one byte, whose address is in each note
//! .probes                 semaphores: 2 bytes, which the kernel increments for each tracer
//! ```
//!
//! The text has the same form wherever the compiler places the probe, because the arguments are
//! always in memory at that register. A note is linked to its function (`SHF_LINK_ORDER`), so that
//! a linker which removes the function removes the note, too.

/// Maximum number of arguments of a probe. libbpf refuses to attach to probes with more.
pub const USDT_ARGUMENTS_MAX: usize = 12;

/// Arguments of a probe, in order. Smaller integers are in the lower bytes.
pub type UsdtArguments = [u64; USDT_ARGUMENTS_MAX];

/// Maximum size in bytes of provider and name with the character between them.
const NAME_SIZE_MAX: usize = 255;
/// Maximum size in bytes of an argument's text, with the space after it: `-8@88(%rdi) `.
const ARGUMENT_SIZE_MAX: usize = 12;
/// Size in bytes of the longest text: the name with its NUL, and the arguments with theirs.
const TEXT_SIZE_MAX: usize = NAME_SIZE_MAX + 1 + USDT_ARGUMENTS_MAX * ARGUMENT_SIZE_MAX + 1;
/// Size in bytes of the three addresses in front of the text.
const ADDRESSES_SIZE: usize = 24;

/// Text of a probe's note: provider, name and arguments, each terminated by a NUL.
#[derive(Clone, Copy, Debug)]
pub struct UsdtText {
    bytes: [u8; TEXT_SIZE_MAX],
    /// Number of bytes used; 0 for a probe without a note, because its name is too long.
    size: usize,
    arguments_count: usize,
}

impl UsdtText {
    /// Returns the text of the probe `PROVIDER:NAME`, without arguments. The first colon separates
    /// the two. The text is empty if the name exceeds 255 bytes, has no colon or contains a NUL.
    pub const fn new(name: &str) -> UsdtText {
        let mut text = UsdtText { bytes: [0; TEXT_SIZE_MAX], size: 0, arguments_count: 0 };
        let name = name.as_bytes();
        let mut has_provider = false;
        let mut index = 0;
        while index < name.len() {
            if name[index] == 0 || index == NAME_SIZE_MAX {
                return UsdtText { size: 0, ..text };
            }
            let separates = name[index] == b':' && !has_provider;
            has_provider |= separates;
            text.push(if separates { 0 } else { name[index] });
            index += 1;
        }
        if !has_provider {
            return UsdtText { size: 0, ..text };
        }
        // The NUL after the name, and the one after the arguments.
        text.size += 2;
        text
    }

    /// Adds an argument of 1, 2, 4 or 8 bytes. Arguments beyond [`USDT_ARGUMENTS_MAX`] are left
    /// out.
    #[must_use]
    pub const fn with_argument(mut self, size: usize, is_signed: bool) -> UsdtText {
        if self.size == 0 || self.arguments_count == USDT_ARGUMENTS_MAX {
            return self;
        }
        // Without the NUL.
        self.size -= 1;
        if self.arguments_count > 0 {
            self.push(b' ');
        }
        if is_signed {
            self.push(b'-');
        }
        self.push(b'0' + size as u8);
        let offset = 8 * self.arguments_count;
        match cfg!(target_arch = "aarch64") {
            true => {
                self.push_all("@[x0, ");
                self.push_number(offset);
                self.push(b']');
            }
            false => {
                self.push(b'@');
                self.push_number(offset);
                self.push_all("(%rdi)");
            }
        }
        self.size += 1;
        self.arguments_count += 1;
        self
    }

    const fn push(&mut self, byte: u8) {
        self.bytes[self.size] = byte;
        self.size += 1;
    }

    const fn push_all(&mut self, text: &str) {
        let mut index = 0;
        while index < text.len() {
            self.push(text.as_bytes()[index]);
            index += 1;
        }
    }

    /// Adds a number below 100 in decimal.
    const fn push_number(&mut self, number: usize) {
        if number >= 10 {
            self.push(b'0' + (number / 10) as u8);
        }
        self.push(b'0' + (number % 10) as u8);
    }

    /// Returns the text's size in bytes; 0 for a probe without a note.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Returns the size in bytes of the note's content: the addresses and the text.
    pub const fn content_size(&self) -> usize {
        ADDRESSES_SIZE + self.size
    }

    /// Returns eight bytes of the text as a little-endian number, with zeros after its end.
    pub const fn word(&self, index: usize) -> u64 {
        let mut word = 0;
        let mut byte = 8;
        while byte > 0 {
            byte -= 1;
            let place = 8 * index + byte;
            word = word << 8 | if place < self.size { self.bytes[place] as u64 } else { 0 };
        }
        word
    }

    /// Returns the text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

/// Declares a static that begins with the semaphore of a probe: `usdt_static!(static EVENT: Site =
/// ...)`. The type is `repr(C)`, and its value may change.
///
/// The static is in the section `.probes`, with which BCC and bpftrace convert the semaphore's
/// address to an offset in the file. The section is not `.bss`, whose contents are not in the file.
#[macro_export]
macro_rules! usdt_static {
    (static $name:ident: $type:ty = $value:expr) => {
        // SAFETY: the section is one for variables, and programs use it for nothing else.
        #[unsafe(link_section = ".probes")]
        static $name: $type = $value;
    };
}

/// Expands to a probe: the instruction to which tracers attach, and its note. On processors other
/// than x86-64 and ARM64, expands to nothing.
///
/// `usdt_probe!(text, semaphore, arguments, function)`: the [`UsdtText`], a constant; the
/// [static](crate::usdt_static) whose first two bytes are the semaphore; a reference to the
/// [`UsdtArguments`]; and the function that contains the macro and is not inlined.
///
/// The macro contains unsafe code. A program that forbids unsafe code of its own can use it all the
/// same, because the compiler's check leaves out macros of other crates.
#[macro_export]
#[cfg(target_arch = "x86_64")]
macro_rules! usdt_probe {
    ($text:expr, $semaphore:path, $arguments:expr, $($function:tt)+) => {
        $crate::usdt_probe_at!("rdi", $text, $semaphore, $arguments, $($function)+)
    };
}

/// Expands to the probe on ARM64.
#[macro_export]
#[cfg(target_arch = "aarch64")]
macro_rules! usdt_probe {
    ($text:expr, $semaphore:path, $arguments:expr, $($function:tt)+) => {
        $crate::usdt_probe_at!("x0", $text, $semaphore, $arguments, $($function)+)
    };
}

/// Expands to a probe whose arguments are at the address in a register.
#[doc(hidden)]
#[macro_export]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! usdt_probe_at {
    ($register:tt, $text:expr, $semaphore:path, $arguments:expr, $($function:tt)+) => {
        $crate::usdt_probe_at!(
            @words [
                0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25
                26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50
            ]
            $register, $text, $semaphore, $arguments, $($function)+
        )
    };
    (
        @words [$($word:literal)*]
        $register:tt, $text:expr, $semaphore:path, $arguments:expr, $($function:tt)+
    ) => {{
        let arguments: &$crate::UsdtArguments = $arguments;
        // SAFETY: the instruction does nothing. A tracer that replaces it by a breakpoint returns
        // after it with all registers unchanged, and only reads the arguments. The rest is data:
        // a note, which is not loaded, and one byte.
        unsafe {
            ::core::arch::asm!(
                "990: nop",
                ".if {size} > 0",
                ".pushsection .note.stapsdt, \"o\", @note, {function}",
                ".balign 4",
                ".4byte 8, {content_size}, 3",
                ".asciz \"stapsdt\"",
                ".8byte 990b, _.stapsdt.base, {semaphore}",
                // The text, in whole words of 4 bytes.
                $(
                    concat!(".if {size} > 8 * ", $word, " + 4"),
                    concat!(".8byte {", $word, "}"),
                    concat!(".elseif {size} > 8 * ", $word),
                    concat!(".4byte {", $word, "}"),
                    ".endif",
                )*
                ".popsection",
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"aG\", @progbits, .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                ".endif",
                $(const $text.word($word),)*
                size = const $text.size(),
                content_size = const $text.content_size(),
                function = sym $($function)+,
                semaphore = sym $semaphore,
                in($register) arguments,
                options(nostack, preserves_flags),
            );
        }
    }};
}

/// Expands to nothing on this processor.
#[macro_export]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
macro_rules! usdt_probe {
    ($text:expr, $semaphore:path, $arguments:expr, $($function:tt)+) => {
        let _ = $arguments;
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, arguments: &[(usize, bool)]) -> Vec<u8> {
        let arguments = arguments.iter();
        let text = arguments.fold(UsdtText::new(name), |text, (size, is_signed)| {
            text.with_argument(*size, *is_signed)
        });
        let words = (0..text.size().div_ceil(8)).map(|index| text.word(index).to_le_bytes());
        let words: Vec<u8> = words.flatten().collect();
        assert_eq!(words[..text.size()], *text.as_bytes());
        assert!(words[text.size()..].iter().all(|byte| *byte == 0));
        text.as_bytes().to_vec()
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn text_has_provider_name_and_arguments() {
        assert_eq!(text("osd:write", &[]), b"osd\0write\0\0");
        assert_eq!(text("osd:write", &[(4, true)]), b"osd\0write\0-4@0(%rdi)\0");
        let two = text("a:b:c", &[(1, false), (8, true)]);
        assert_eq!(two, b"a\0b:c\x001@0(%rdi) -8@8(%rdi)\0");
    }

    /// The longest name with the longest arguments fits; a thirteenth argument is left out.
    #[test]
    fn text_of_maximum_size_fits() {
        let name = format!("{}:b", "a".repeat(253));
        let text = text(&name, &[(8, true); 13]);
        assert_eq!(text.iter().filter(|byte| **byte == b'@').count(), USDT_ARGUMENTS_MAX);
        assert_eq!(text.iter().filter(|byte| **byte == 0).count(), 3);
        // The macro has as many words.
        assert_eq!(TEXT_SIZE_MAX.div_ceil(8), 51);
    }

    #[test]
    fn names_that_no_tracer_can_use_have_no_text() {
        for name in ["osd", &format!("{}:b", "a".repeat(254)), "osd:wr\0ite"] {
            assert_eq!(text(name, &[(8, false)]), b"", "{name}");
        }
    }
}
