//! Tests of the reader with files made by hand, and with damaged files.

use super::{
    ArgumentLocation, ProgramErrorKind, Register, ScaledIndex, Symbol, UsdtArgument, UsdtProbe,
    UserProgram, argument,
};
use blkkin_sys::testing::{Random, Scratch};
use std::path::Path;

/// Address at which the code of made programs begins; its offset in the file is 0.
const CODE: u64 = 0x40_0000;
/// Address at which the data of made programs begins; its offset in the file is [`DATA_OFFSET`].
const DATA: u64 = 0x60_1000;
const DATA_OFFSET: u64 = 0x80;
/// Size of code and of data in the file.
const SEGMENT_SIZE: u64 = 0x100;
/// Type of a function and of a variable, both global.
const FUNCTION: u8 = 0x12;
const VARIABLE: u8 = 0x11;

/// Section of a made program.
struct MadeSection {
    name: &'static str,
    kind: u32,
    address: u64,
    link: u32,
    bytes: Vec<u8>,
}

/// Maker of an ELF file with a segment of code, a segment of data and sections.
struct Builder {
    sections: Vec<MadeSection>,
    segments: Vec<[u64; 6]>,
}

impl Builder {
    fn new() -> Builder {
        // Type with flags, offset, address, size in the file, size in memory, alignment.
        let code = [1 | 5 << 32, 0, CODE, SEGMENT_SIZE, SEGMENT_SIZE, 4096];
        let data = [1 | 6 << 32, DATA_OFFSET, DATA, SEGMENT_SIZE, 2 * SEGMENT_SIZE, 4096];
        Builder { sections: Vec::new(), segments: vec![code, data] }
    }

    /// Adds a section and returns its index.
    fn section(&mut self, name: &'static str, kind: u32, address: u64, bytes: Vec<u8>) -> u32 {
        self.sections.push(MadeSection { name, kind, address, link: 0, bytes });
        self.sections.len() as u32
    }

    /// Adds a table of symbols: type, section, address and size of each, and its name.
    fn symbols(&mut self, kind: u32, symbols: &[(u8, u16, u64, u64, &str)]) {
        let (mut table, mut names) = (vec![0; 24], vec![0]);
        for (info, section, address, size, name) in symbols {
            table.extend_from_slice(&(names.len() as u32).to_le_bytes());
            table.extend_from_slice(&[*info, 0]);
            table.extend_from_slice(&section.to_le_bytes());
            table.extend_from_slice(&address.to_le_bytes());
            table.extend_from_slice(&size.to_le_bytes());
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        let link = self.section(".strtab", 3, 0, names);
        self.section(".symtab", kind, 0, table);
        self.sections.last_mut().expect("the table").link = link;
    }

    /// Adds notes of probes.
    fn usdt(&mut self, notes: &[Vec<u8>]) {
        self.section(".note.stapsdt", 7, 0, notes.concat());
    }

    fn finish(&self) -> Vec<u8> {
        let mut names = vec![0];
        let mut headers = vec![0; 64];
        let mut bodies = Vec::new();
        let body_start = 64 + self.segments.len() * 56;
        for section in &self.sections {
            headers.extend(section_header(section, names.len(), body_start + bodies.len()));
            names.extend_from_slice(section.name.as_bytes());
            names.push(0);
            bodies.extend_from_slice(&section.bytes);
            bodies.resize(bodies.len().next_multiple_of(8), 0);
        }
        let last = MadeSection { name: "", kind: 3, address: 0, link: 0, bytes: names };
        headers.extend(section_header(&last, 0, body_start + bodies.len()));
        bodies.extend_from_slice(&last.bytes);
        // The segments are within the file.
        bodies.resize(bodies.len().max(1024).next_multiple_of(8), 0);
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        bytes.extend_from_slice(&[3, 0, 62, 0, 1, 0, 0, 0]);
        for number in [CODE, 64, (body_start + bodies.len()) as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let counts = [self.segments.len(), 64, self.sections.len() + 2, self.sections.len() + 1];
        bytes.extend_from_slice(&[0, 0, 0, 0, 64, 0, 56, 0]);
        for count in counts {
            bytes.extend_from_slice(&(count as u16).to_le_bytes());
        }
        for segment in &self.segments {
            let [kind, offset, address, size, memory, alignment] = segment;
            for number in [kind, offset, address, address, size, memory, alignment] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&bodies);
        bytes.extend_from_slice(&headers);
        bytes
    }
}

fn section_header(section: &MadeSection, name: usize, offset: usize) -> Vec<u8> {
    let mut bytes = (name as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&section.kind.to_le_bytes());
    for number in [0, section.address, offset as u64, section.bytes.len() as u64] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&section.link.to_le_bytes());
    bytes.resize(48, 0);
    bytes.extend_from_slice(&4_u64.to_le_bytes());
    bytes.resize(64, 0);
    bytes
}

fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [name.len() as u32, content.len() as u32, kind] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(name);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Makes the note of a probe from its addresses (instruction, base, semaphore) and its texts.
fn probe_note(addresses: [u64; 3], texts: &str) -> Vec<u8> {
    let mut content = addresses.map(u64::to_le_bytes).concat();
    content.extend_from_slice(texts.as_bytes());
    note(b"stapsdt\0", 3, &content)
}

fn symbol(name: &str, others: &[&str], file_offset: u64, size: u64) -> Symbol {
    Symbol {
        name: name.to_owned(),
        demangled: None,
        other_names: others.iter().map(|name| (*name).to_owned()).collect(),
        file_offset,
        size,
    }
}

fn parse(builder: &Builder) -> UserProgram {
    UserProgram::parse(builder.finish()).expect("a program")
}

/// Program with everything that queries read.
fn sample() -> Builder {
    let mut file = Builder::new();
    file.symbols(
        2,
        &[
            (FUNCTION, 1, CODE + 0x20, 8, "main"),
            (FUNCTION, 1, CODE + 0x40, 0, "memcpy@@GLIBC_2.14"),
            (0x22, 1, CODE + 0x40, 16, "memcpy_weak"),
            (0x02, 1, CODE + 0x40, 16, "local"),
            (FUNCTION, 0, 0, 0, "imported"),
            (FUNCTION, 1, DATA + 0x10, 8, "in_data"),
            (0x1a, 1, CODE + 0x50, 8, "indirect"),
            (VARIABLE, 2, DATA + 0x30, 8, "variable"),
            (FUNCTION, 1, CODE + 0x60, 4, "_ZN5space3fooEibc"),
            (FUNCTION, 1, CODE + 0x70, 4, "_ZN5space3fooEv"),
            (FUNCTION, 1, CODE + 0x80, 4, "_ZN5space3bar17h0123456789abcdefE"),
        ],
    );
    file.section(".note.gnu.build-id", 7, 0, note(b"GNU\0", 3, &[1, 2, 3]));
    file.section(".stapsdt.base", 1, DATA + 0x100, vec![0]);
    file.usdt(&[
        probe_note([CODE + 8, DATA + 0x100, 0], "lib\0start\0\0"),
        probe_note([CODE + 9, DATA, DATA + 4], "lib\0stop\0-4@%edi 8@variable+4(%rip)\0"),
    ]);
    file
}

/// Symbols are found by mangled names, by demangled names with and without parameters, and by
/// patterns. Imported, indirect and unmapped functions are left out.
#[test]
fn functions_by_pattern() {
    let program = parse(&sample());
    #[track_caller]
    fn check(program: &UserProgram, pattern: &str, expected: &[&str]) {
        let symbols = program.symbols(pattern).expect("symbols");
        let names: Vec<&str> = symbols.iter().map(|symbol| symbol.name.as_str()).collect();
        assert_eq!(names, expected, "{pattern}");
    }
    let (foo_with, foo, bar) =
        ("_ZN5space3fooEibc", "_ZN5space3fooEv", "_ZN5space3bar17h0123456789abcdefE");
    check(&program, "main", &["main"]);
    check(&program, "mai", &[]);
    check(&program, "", &[]);
    check(&program, "m*", &["main", "memcpy"]);
    check(&program, "*", &["main", "memcpy", foo_with, foo, bar]);
    check(&program, "space::foo", &[foo_with, foo]);
    check(&program, "space::foo()", &[foo]);
    check(&program, "space::foo(int*", &[foo_with]);
    check(&program, "space::*", &[foo_with, foo, bar]);
    check(&program, "space::bar", &[bar]);
    for absent in ["imported", "in_data", "indirect", "variable"] {
        check(&program, absent, &[]);
    }
    let found = program.symbols("memcpy*").expect("symbols");
    assert_eq!(found, [symbol("memcpy", &["memcpy_weak", "local"], 0x40, 16)]);
    let found = program.symbols("local").expect("symbols");
    assert_eq!(found, [symbol("local", &["memcpy", "memcpy_weak"], 0x40, 16)]);
    let found = program.symbols("space::foo()").expect("symbols");
    assert_eq!(found[0].demangled.as_deref(), Some("space::foo()"));
    assert!(program.is_position_independent());
    assert_eq!(program.build_id(), Some(&[1, 2, 3][..]));
    assert!(!program.has_debug_file());
}

/// A stripped program has the symbols of dynamic linking, and those of its debug file if that has
/// the same build id.
#[test]
fn stripped_programs_and_their_debug_files() {
    let scratch = Scratch::new("debug-files");
    let write = |name: &str, bytes: Vec<u8>| {
        std::fs::write(scratch.0.join(name), bytes).expect("to write a file");
    };
    let build_id = |file: &mut Builder, id: &[u8]| {
        file.section(".note.gnu.build-id", 7, 0, note(b"GNU\0", 3, id));
    };
    let mut stripped = Builder::new();
    stripped.symbols(11, &[(FUNCTION, 1, CODE + 0x20, 8, "exported")]);
    build_id(&mut stripped, &[0xbd; 20]);
    stripped.section(".gnu_debuglink", 1, 0, b"program.debug\0\0\0\x01\x02\x03\x04".to_vec());
    let mut debug = Builder::new();
    debug.symbols(
        2,
        &[(0x02, 1, CODE + 0x30, 8, "internal"), (FUNCTION, 1, CODE + 0x20, 8, "exported")],
    );
    build_id(&mut debug, &[0xbd; 20]);
    write("program", stripped.finish());
    let names = || {
        let program = UserProgram::open(&scratch.0.join("program")).expect("a program");
        let symbols = program.symbols("*").expect("symbols");
        assert_eq!(symbols.len() == 2, program.has_debug_file());
        symbols.into_iter().map(|symbol| symbol.name).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["exported"]);
    write("program.debug", debug.finish());
    assert_eq!(names(), ["exported", "internal"]);
    let mut other = Builder::new();
    other.symbols(2, &[(0x02, 1, CODE + 0x30, 8, "internal")]);
    build_id(&mut other, &[0xbe; 20]);
    write("program.debug", other.finish());
    assert_eq!(names(), ["exported"]);
}

fn usdt_probe(name: &str, file_offset: u64, semaphore: Option<u64>) -> UsdtProbe {
    UsdtProbe {
        provider: "lib".to_owned(),
        name: name.to_owned(),
        file_offset,
        semaphore_offset: semaphore,
        arguments: Vec::new(),
    }
}

/// Addresses of probes and semaphores are corrected if the program was prelinked: by the difference
/// between the base section's address and the address in the notes.
#[test]
fn probes_and_their_places() {
    let program = parse(&sample());
    let mut stop = usdt_probe("stop", 0x109, Some(DATA_OFFSET + 0x104));
    let argument =
        |is_signed, size, location| UsdtArgument { size, is_signed, is_float: false, location };
    let edi =
        ArgumentLocation::Register { register: Register::Rdi, size_in_register: 4, shift_bits: 0 };
    // The instruction is moved by 0x100, the variable is not.
    let distance = (DATA + 0x30) as i64 - (CODE + 0x109) as i64 + 4;
    let variable = ArgumentLocation::RipRelative {
        symbol: "variable".to_owned(),
        displacement: 4,
        from_probe: Some(distance),
    };
    stop.arguments = vec![argument(true, 4, edi), argument(false, 8, variable)];
    assert!(program.usdt().is_err(), "0x109 is after the end of the code");
    let mut file = sample();
    file.segments[0][3] = 0x200;
    file.segments[1][3] = 0x200;
    let program = parse(&file);
    assert_eq!(program.usdt().expect("probes"), [usdt_probe("start", 8, None), stop]);
    assert_eq!(parse(&Builder::new()).usdt().expect("no probes"), []);
}

/// Without a base section, addresses are used as they are; other notes are skipped.
#[test]
fn notes_of_other_kinds() {
    let mut file = Builder::new();
    file.usdt(&[
        note(b"GNU\0", 3, &[0; 24]),
        probe_note([CODE + 1, 77, DATA], "lib\0a\0\0"),
        note(b"stapsdt\0", 4, &[0; 4]),
        probe_note([CODE + 2, 0, 0], "lib\0a\0\0"),
    ]);
    let expected = [usdt_probe("a", 1, Some(DATA_OFFSET)), usdt_probe("a", 2, None)];
    assert_eq!(parse(&file).usdt().expect("probes"), expected);
}

#[test]
fn malformed_probes() {
    #[track_caller]
    fn check(note: Vec<u8>, expected: &str) {
        let mut file = Builder::new();
        file.usdt(&[note]);
        let error = parse(&file).usdt().expect_err("a malformed note");
        assert_eq!(error.to_string(), expected);
    }
    let probe = |texts: &str| probe_note([CODE + 1, 0, 0], texts);
    let texts = "offset 196: expected three texts of a USDT probe, each terminated by NUL";
    check(probe("lib\0a\0"), texts);
    check(probe("lib\0a"), texts);
    check(probe("\0a\0\0"), "offset 196: expected provider and name of a USDT probe");
    check(note(b"stapsdt\0", 3, &[0; 23]), "offset 196: expected three addresses of a USDT probe");
    let outside = "of a USDT probe is in no segment of the file; a separate file of debug \
                   information has no code";
    let expected = format!("offset 196: address 0x400100 {outside}");
    check(probe_note([CODE + SEGMENT_SIZE, 0, 0], "a\0b\0\0"), &expected);
    check(probe_note([CODE, 0, 1], "a\0b\0\0"), &format!("offset 196: address 0x1 {outside}"));
    let many = format!("a\0b\0{}\0", "8@%rax ".repeat(33));
    check(probe(&many), "the limit of arguments of a USDT probe is 32, and the file exceeds it");
    let mut cut = probe("a\0b\0\0");
    cut.truncate(40);
    check(cut, "offset 176: expected a note with name and content within its section");
}

#[track_caller]
fn check_argument(text: &str, expected: ArgumentLocation) -> UsdtArgument {
    let parsed: Vec<UsdtArgument> = argument::parse_all(text).collect();
    let [argument] = &parsed[..] else { panic!("{text}: {parsed:?}") };
    assert_eq!(argument.location, expected, "{text}");
    argument.clone()
}

#[test]
fn arguments_in_registers() {
    #[track_caller]
    fn check(text: &str, register: Register, size_in_register: u8) {
        let shift_bits = if text.ends_with('h') { 8 } else { 0 };
        let location = ArgumentLocation::Register { register, size_in_register, shift_bits };
        check_argument(text, location);
    }
    check("-4@%edi", Register::Rdi, 4);
    check("8@%r12", Register::R12, 8);
    check("1@%al", Register::Rax, 1);
    check("1@%ah", Register::Rax, 1);
    check("1@%dh", Register::Rdx, 1);
    check("2@%bp", Register::Rbp, 2);
    check("1@%sil", Register::Rsi, 1);
    check("4@%r8d", Register::R8, 4);
    check("2@%r15w", Register::R15, 2);
    check("1@%r9b", Register::R9, 1);
    check("8f@%xmm0", Register::Xmm(0), 16);
    check("-4f@%xmm15", Register::Xmm(15), 16);
}

#[test]
fn arguments_in_memory_and_constants() {
    let memory = |base, displacement, index: Option<(Register, u8)>| ArgumentLocation::Memory {
        base,
        displacement,
        index: index.map(|index| ScaledIndex { register: index.0, scale: index.1 }),
    };
    use Register::{Rax, Rbp, Rbx, Rsp};
    check_argument("8@-16(%rbp)", memory(Rbp, -16, None));
    check_argument("8@(%rsp)", memory(Rsp, 0, None));
    check_argument("8@0x10(%rsp)", memory(Rsp, 16, None));
    check_argument("8@(%rax,%rbx,8)", memory(Rax, 0, Some((Rbx, 8))));
    check_argument("8@-8(%rax, %rbx)", memory(Rax, -8, Some((Rbx, 1))));
    check_argument("8@8+4(%rax,%rbx,)", memory(Rax, 12, Some((Rbx, 1))));
    check_argument("4@$5", ArgumentLocation::Constant(5));
    check_argument("-4@$-5", ArgumentLocation::Constant(-5));
    check_argument("8@$0xff", ArgumentLocation::Constant(255));
    check_argument("8@$18446744073709551615", ArgumentLocation::Constant(-1));
    check_argument("-8@$-9223372036854775808", ArgumentLocation::Constant(i64::MIN));
    let variable = |symbol: &str, displacement| ArgumentLocation::RipRelative {
        symbol: symbol.to_owned(),
        displacement,
        from_probe: None,
    };
    check_argument("8@foo(%rip)", variable("foo", 0));
    check_argument("8@foo.0+4(%rip)", variable("foo.0", 4));
    check_argument("8@-4+foo(%rip)", variable("foo", -4));
    let argument = check_argument("-8f@$1", ArgumentLocation::Constant(1));
    let expected = UsdtArgument { is_signed: true, is_float: true, ..argument.clone() };
    assert_eq!(argument, expected);
}

#[test]
fn unsupported_arguments() {
    for operand in [
        "",
        "%",
        "%rip",
        "%foo",
        "rax",
        "$",
        "$foo",
        "$1x",
        "$0x+1",
        "$18446744073709551616",
        "5",
        "foo",
        "%xmm32",
        "%xmm",
        "%st(1)",
        "(%rip)",
        "16(%rip)",
        "a+b(%rip)",
        "-a(%rip)",
        "foo@GOTPCREL(%rip)",
        "()",
        "(,%rax,8)",
        "foo(%rax)",
        "(%eax)",
        "(%rax,%ebx)",
        "(%rax,%rbx,3)",
        "(%rax,%rbx,1,)",
        "%fs:0(%rax)",
        "1+(%rax)",
        "--1(%rax)",
        "(%rax",
        "%rax)",
        "[sp, 16]",
        "((%rax))",
        "x0",
        "*(%rax)",
        "\u{e4}(%rax)",
    ] {
        let argument = check_argument_unless_spaced(
            operand,
            ArgumentLocation::Unsupported(operand.to_owned()),
        );
        assert!(argument.is_none_or(|argument| argument.size == 8 && !argument.is_signed));
    }
    for text in ["%rax", "3@%rax", "@%rax", "-@%rax", "f@%rax", "--4@%rax", "16@%rax", "4ff@%rax"] {
        check_argument(text, ArgumentLocation::Unsupported(text.to_owned()));
    }
}

/// Checks an operand of 8 bytes. Returns `None` for one with a space, which ends an argument.
fn check_argument_unless_spaced(operand: &str, expected: ArgumentLocation) -> Option<UsdtArgument> {
    let text = format!("8@{operand}");
    if operand.starts_with('[') {
        assert_eq!(argument::parse_all(&text).count(), 2);
        return None;
    }
    Some(check_argument(&text, expected))
}

#[test]
fn several_arguments() {
    let sizes = |text| argument::parse_all(text).map(|argument| argument.size).collect::<Vec<_>>();
    assert_eq!(sizes(""), []);
    assert_eq!(sizes("  "), []);
    assert_eq!(sizes("1@%al 2@8(%rax, %rbx, 4)  4@$5 "), [1, 2, 4]);
    assert_eq!(sizes("1@(%rax 2@%ax"), [1]);
}

#[test]
fn offsets_of_registers() {
    assert_eq!(Register::R15.pt_regs_offset(), Some(0));
    assert_eq!(Register::Rax.pt_regs_offset(), Some(80));
    assert_eq!(Register::Rdi.pt_regs_offset(), Some(112));
    assert_eq!(Register::Rsp.pt_regs_offset(), Some(152));
    assert_eq!(Register::Xmm(0).pt_regs_offset(), None);
}

/// Each change of a byte in the header is refused with the offset of the field.
#[test]
fn files_of_other_kinds() {
    #[track_caller]
    fn check(changes: &[(usize, u8)], expected: &str) {
        let mut bytes = sample().finish();
        for (offset, byte) in changes {
            bytes[*offset] = *byte;
        }
        let error = UserProgram::parse(bytes).expect_err("a file of another kind");
        assert_eq!(error.to_string(), expected);
    }
    let not_elf = "not an ELF program; probes need a binary, such as the interpreter of a script";
    check(&[(0, b'#')], not_elf);
    check(&[(4, 1)], "offset 4: a 32-bit program cannot have user-space probes");
    check(&[(5, 2)], "offset 5: a big-endian program cannot have user-space probes");
    check(
        &[(18, 3)],
        "offset 18: a program for a processor other than x86-64 and AArch64 cannot have \
         user-space probes",
    );
    check(&[(16, 1)], "offset 16: an object file or kernel module cannot have user-space probes");
    check(&[(16, 4)], "offset 16: a core dump cannot have user-space probes");
    check(&[(54, 55)], "offset 54: expected segment headers of 56 bytes");
    check(&[(58, 63)], "offset 58: expected section headers of 64 bytes");
    check(&[(57, 1)], "the limit of segments is 128, and the file exceeds it");
    check(&[(39, 1)], "offset 32: expected offset of the segment headers within the file");
    check(&[(47, 1)], "offset 40: expected offset of the section headers within the file");
    check(&[(61, 1)], "offset 40: expected offset of the section headers within the file");
    check(&[(62, 99)], "offset 62: expected index of the section with the names of sections");
    let empty = UserProgram::parse(Vec::new()).expect_err("an empty file");
    assert!(matches!(empty.kind(), ProgramErrorKind::NotElf));
    let short = UserProgram::parse(b"\x7fELF".to_vec()).expect_err("a short file");
    assert_eq!(short.to_string(), "offset 4: expected a header of 64 bytes");
    let missing = UserProgram::open(Path::new("/missing")).expect_err("a missing file");
    assert_eq!(missing.to_string(), "/missing: No such file or directory (os error 2)");
    let device = UserProgram::open(Path::new("/dev/null")).expect_err("a device");
    assert_eq!(device.to_string(), "/dev/null: not a file; name a program or a library");
    assert_eq!(device.path(), Path::new("/dev/null"));
}

/// Numbers that do not fit in the header are in section 0.
#[test]
fn extended_numbers_of_sections() {
    let mut bytes = sample().finish();
    let start = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes")) as usize;
    let (count, names) = (bytes[60], bytes[62]);
    bytes[60..64].copy_from_slice(&[0, 0, 0xff, 0xff]);
    bytes[start + 32] = count;
    bytes[start + 40] = names;
    let program = UserProgram::parse(bytes.clone()).expect("a program");
    assert_eq!(program.symbols("main").expect("symbols").len(), 1);
    bytes[start + 39] = 1;
    let error = UserProgram::parse(bytes).expect_err("too many sections");
    assert_eq!(error.to_string(), "the limit of sections is 65536, and the file exceeds it");
}

#[test]
fn malformed_symbols() {
    #[track_caller]
    fn check(file: &Builder, expected: &str) {
        let error = parse(file).symbols("*").expect_err("malformed symbols");
        assert_eq!(error.to_string(), expected);
    }
    let symbols = || {
        let mut file = Builder::new();
        file.symbols(2, &[(FUNCTION, 1, CODE, 8, "main")]);
        file
    };
    let mut file = symbols();
    file.sections[1].bytes[24] = 6;
    check(&file, "offset 208: expected offset of a symbol's name within the names");
    let mut file = symbols();
    file.sections[1].link = 9;
    check(&file, "offset 1368: expected index of the section with the names of symbols");
    let mut file = symbols();
    file.sections[0].kind = 8;
    check(&file, "offset 1268: expected a section with bytes in the file");
    // A name without end is no name.
    let mut file = symbols();
    file.sections[0].bytes = b"\0main".to_vec();
    assert_eq!(parse(&file).symbols("*").expect("no symbol"), []);
}

/// A table with many long names that share their ends leads to an error, or is processed in a short
/// time.
#[test]
fn names_that_share_their_ends() {
    let mut file = Builder::new();
    let size = 30_000;
    let mut table = Vec::new();
    for name in 0..size {
        table.extend_from_slice(&u32::to_le_bytes(name));
        table.extend_from_slice(&[FUNCTION, 0, 1, 0]);
        table.extend_from_slice(&CODE.to_le_bytes());
        table.extend_from_slice(&[0; 8]);
    }
    let mut names = vec![b'a'; size as usize];
    names.push(0);
    let link = file.section(".strtab", 3, 0, names);
    file.section(".symtab", 2, 0, table);
    file.sections[1].link = link;
    let error = parse(&file).symbols("*b").expect_err("too many names");
    assert!(matches!(error.kind(), ProgramErrorKind::TooMany { .. }), "{error}");
    let error = parse(&file).symbols("*").expect_err("too many matches");
    let is_limit = matches!(error.kind(), ProgramErrorKind::TooMany { .. });
    assert!(is_limit, "{error}");
}

/// Changed and cut files are refused or give a result.
#[test]
fn damaged_files() {
    let mut random = Random::new(7);
    let bytes = sample().finish();
    for size in 0..bytes.len() {
        query(bytes[..size].to_vec());
    }
    for _ in 0..5_000 {
        let mut bytes = bytes.clone();
        for _ in 0..random.between(1, 8) {
            let at = random.below(bytes.len());
            let any = random.next() as u8;
            bytes[at] = random.one_of(&[0, 1, 2, 8, 0x7f, 0x80, 0xff, any]);
        }
        query(bytes);
    }
}

fn query(bytes: Vec<u8>) {
    let Ok(program) = UserProgram::parse(bytes) else { return };
    let _ = (program.symbols("*"), program.symbols("space::foo"), program.usdt());
}
