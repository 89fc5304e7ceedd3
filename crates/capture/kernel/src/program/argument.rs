//! Arguments of USDT probes: where a probe's values are when its instruction runs, parsed from the
//! operands of the assembler.
//!
//! ```text
//! arguments = argument { " " argument }
//! argument  = [ "-" ] size [ "f" ] "@" operand      "-": signed, "f": floating point
//! operand   = "$" number | "%" register
//!           | [ number ] "(" "%" base [ "," "%" index [ "," scale ] ] ")"
//!           | symbol [ ("+" | "-") number ] "(%rip)"
//! ```

/// Argument of a USDT probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtArgument {
    /// Size of the value in bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// True for a signed integer.
    pub is_signed: bool,
    /// True for a floating-point number.
    pub is_float: bool,
    /// Location of the value.
    pub location: ArgumentLocation,
}

/// Location of an argument's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentLocation {
    /// Number that the compiler knew. Numbers above the maximum of `i64` wrap around.
    Constant(i64),
    /// Register.
    Register {
        /// Register that contains the value.
        register: Register,
        /// Size in bytes of the register's name, such as 4 for `%eax`. May differ from the
        /// argument's size.
        size_in_register: u8,
        /// Number of bits below the value in the register: 8 for `%ah`, else 0.
        shift_bits: u8,
    },
    /// Memory at an address from registers.
    Memory {
        /// Register of the address.
        base: Register,
        /// Displacement in bytes, added to the base register.
        displacement: i64,
        /// Register whose product with a factor is added.
        index: Option<ScaledIndex>,
    },
    /// Variable of the program.
    RipRelative {
        /// Name of the variable.
        symbol: String,
        /// Distance in bytes from the variable.
        displacement: i64,
        /// Distance in bytes of the value from the probe's instruction, with the displacement.
        /// `None` if the program has no unique symbol of that name.
        from_probe: Option<i64>,
    },
    /// Operand of another form, such as one for another processor.
    Unsupported(String),
}

/// Register with a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaledIndex {
    /// Register.
    pub register: Register,
    /// Factor: 1, 2, 4 or 8.
    pub scale: u8,
}

/// Register of x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the processor's manual describes the registers")]
pub enum Register {
    Rax,
    Rbx,
    Rcx,
    Rdx,
    Rsi,
    Rdi,
    Rbp,
    Rsp,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    /// Vector register, which kernel probes cannot read.
    Xmm(u8),
}

impl Register {
    /// Returns the offset in the kernel's `struct pt_regs` of x86-64; `None` for vector registers.
    pub fn pt_regs_offset(self) -> Option<u16> {
        let index = match self {
            Register::R15 => 0,
            Register::R14 => 1,
            Register::R13 => 2,
            Register::R12 => 3,
            Register::Rbp => 4,
            Register::Rbx => 5,
            Register::R11 => 6,
            Register::R10 => 7,
            Register::R9 => 8,
            Register::R8 => 9,
            Register::Rax => 10,
            Register::Rcx => 11,
            Register::Rdx => 12,
            Register::Rsi => 13,
            Register::Rdi => 14,
            Register::Rsp => 19,
            Register::Xmm(_) => return None,
        };
        Some(index * 8)
    }
}

/// General registers, with their names of 8, 4, 2 and 1 bytes.
const REGISTERS: [(Register, [&str; 4]); 16] = [
    (Register::Rax, ["rax", "eax", "ax", "al"]),
    (Register::Rbx, ["rbx", "ebx", "bx", "bl"]),
    (Register::Rcx, ["rcx", "ecx", "cx", "cl"]),
    (Register::Rdx, ["rdx", "edx", "dx", "dl"]),
    (Register::Rsi, ["rsi", "esi", "si", "sil"]),
    (Register::Rdi, ["rdi", "edi", "di", "dil"]),
    (Register::Rbp, ["rbp", "ebp", "bp", "bpl"]),
    (Register::Rsp, ["rsp", "esp", "sp", "spl"]),
    (Register::R8, ["r8", "r8d", "r8w", "r8b"]),
    (Register::R9, ["r9", "r9d", "r9w", "r9b"]),
    (Register::R10, ["r10", "r10d", "r10w", "r10b"]),
    (Register::R11, ["r11", "r11d", "r11w", "r11b"]),
    (Register::R12, ["r12", "r12d", "r12w", "r12b"]),
    (Register::R13, ["r13", "r13d", "r13w", "r13b"]),
    (Register::R14, ["r14", "r14d", "r14w", "r14b"]),
    (Register::R15, ["r15", "r15d", "r15w", "r15b"]),
];

/// Names of the registers' second bytes, such as `%ah`.
const HIGH_BYTES: [(Register, &str); 4] =
    [(Register::Rax, "ah"), (Register::Rbx, "bh"), (Register::Rcx, "ch"), (Register::Rdx, "dh")];

/// Iterates over the arguments of a probe.
pub(super) fn parse_all(text: &str) -> impl Iterator<Item = UsdtArgument> {
    let mut rest = text.trim_ascii();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // Some assemblers write spaces within parentheses.
        let mut is_inside = false;
        let end = rest.bytes().position(|byte| {
            is_inside = byte == b'(' || is_inside && byte != b')';
            !is_inside && byte.is_ascii_whitespace()
        });
        let (argument, tail) = rest.split_at(end.unwrap_or(rest.len()));
        rest = tail.trim_ascii_start();
        Some(parse(argument))
    })
}

/// Parses an argument. Returns an unsupported one of 8 bytes if the size is not in its form.
fn parse(text: &str) -> UsdtArgument {
    let sized = || {
        let (kind, operand) = text.split_once('@')?;
        let (is_signed, kind) = kind.strip_prefix('-').map_or((false, kind), |kind| (true, kind));
        let (is_float, kind) = kind.strip_suffix('f').map_or((false, kind), |kind| (true, kind));
        let size = match kind {
            "1" => 1,
            "2" => 2,
            "4" => 4,
            "8" => 8,
            _ => return None,
        };
        let location = parse_operand(operand)
            .unwrap_or_else(|| ArgumentLocation::Unsupported(operand.to_owned()));
        Some(UsdtArgument { size, is_signed, is_float, location })
    };
    sized().unwrap_or_else(|| UsdtArgument {
        size: 8,
        is_signed: false,
        is_float: false,
        location: ArgumentLocation::Unsupported(text.to_owned()),
    })
}

fn parse_operand(text: &str) -> Option<ArgumentLocation> {
    if let Some(number) = text.strip_prefix('$') {
        let sum = Sum::parse(number)?;
        return sum.symbol.is_none().then_some(ArgumentLocation::Constant(sum.number));
    }
    if !text.ends_with(')') {
        let part = parse_register(text)?;
        return Some(ArgumentLocation::Register {
            register: part.register,
            size_in_register: part.size,
            shift_bits: part.shift_bits,
        });
    }
    let (sum, inside) = text.strip_suffix(')')?.split_once('(')?;
    let sum = if sum.is_empty() { Sum::default() } else { Sum::parse(sum)? };
    if inside.trim_ascii() == "%rip" {
        // A number alone is counted from the end of an instruction that is not known.
        return Some(ArgumentLocation::RipRelative {
            symbol: sum.symbol?.to_owned(),
            displacement: sum.number,
            from_probe: None,
        });
    }
    if sum.symbol.is_some() {
        return None;
    }
    let mut parts = inside.split(',').map(str::trim_ascii);
    let base = parse_address_register(parts.next()?)?;
    let index = match parts.next() {
        None => None,
        Some(index) => {
            let register = parse_address_register(index)?;
            let scale = match parts.next() {
                None | Some("" | "1") => 1,
                Some("2") => 2,
                Some("4") => 4,
                Some("8") => 8,
                Some(_) => return None,
            };
            Some(ScaledIndex { register, scale })
        }
    };
    parts.next().is_none().then_some(ArgumentLocation::Memory {
        base,
        displacement: sum.number,
        index,
    })
}

/// Register and the part of it that a register name such as `%ah` stands for.
struct RegisterPart {
    register: Register,
    /// Size of the part in bytes.
    size: u8,
    shift_bits: u8,
}

fn parse_register(text: &str) -> Option<RegisterPart> {
    let name = text.strip_prefix('%')?;
    if let Some(number) = name.strip_prefix("xmm") {
        let number = number.parse().ok().filter(|number: &u8| *number < 32)?;
        return Some(RegisterPart { register: Register::Xmm(number), size: 16, shift_bits: 0 });
    }
    if let Some(found) = HIGH_BYTES.iter().find(|entry| entry.1 == name) {
        return Some(RegisterPart { register: found.0, size: 1, shift_bits: 8 });
    }
    REGISTERS.iter().find_map(|entry| {
        let position = entry.1.iter().position(|known| *known == name)?;
        Some(RegisterPart { register: entry.0, size: 8 >> position, shift_bits: 0 })
    })
}

/// Parses a register of an address, which has 64 bits.
fn parse_address_register(text: &str) -> Option<Register> {
    let part = parse_register(text)?;
    (part.size == 8).then_some(part.register)
}

/// Sum of numbers and at most one symbol.
#[derive(Default)]
struct Sum<'t> {
    symbol: Option<&'t str>,
    number: i64,
}

impl<'t> Sum<'t> {
    fn parse(text: &'t str) -> Option<Sum<'t>> {
        let mut sum = Sum::default();
        let mut rest = text;
        loop {
            let (is_negative, term) = match rest.as_bytes().first()? {
                b'-' => (true, &rest[1..]),
                b'+' => (false, &rest[1..]),
                _ => (false, rest),
            };
            let end = term.find(['+', '-']).unwrap_or(term.len());
            let (term, tail) = term.split_at(end);
            if term.as_bytes().first()?.is_ascii_digit() {
                let number = parse_number(term)?;
                let number = if is_negative { number.wrapping_neg() } else { number };
                sum.number = sum.number.wrapping_add(number);
            } else {
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte);
                if is_negative || sum.symbol.is_some() || !term.bytes().all(is_part) {
                    return None;
                }
                sum.symbol = Some(term);
            }
            if tail.is_empty() {
                return Some(sum);
            }
            rest = tail;
        }
    }
}

/// Parses a number of at most 64 bits in C notation.
fn parse_number(text: &str) -> Option<i64> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16),
        Some(_) => return None,
        None => text.parse::<u64>(),
    };
    number.ok().map(|number| number as i64)
}
