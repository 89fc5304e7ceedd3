//! Fuzzes the reader of programs: a file is refused, or each query of its functions and USDT probes
//! ends with a result or an error, and places are within the file.
#![no_main]

use blkkin_kernel::UserProgram;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(program) = UserProgram::parse(bytes.to_vec()) else { return };
    let size = bytes.len() as u64;
    for symbol in program.symbols("*").unwrap_or_default() {
        assert!(symbol.file_offset < size);
        let name = symbol.demangled.unwrap_or(symbol.name);
        let found = program.symbols(&name).unwrap_or_default();
        // Text that is not UTF-8, a star in the name and a version are read in another way.
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert!(!is_plain || found.iter().any(|found| found.file_offset == symbol.file_offset));
        if found.len() > 16 {
            break;
        }
    }
    for probe in program.usdt().unwrap_or_default() {
        assert!(probe.file_offset < size);
        assert!(probe.semaphore_offset.is_none_or(|offset| offset < size));
        assert!(!probe.provider.is_empty() && !probe.name.is_empty());
    }
    assert!(program.build_id().is_none_or(|id| !id.is_empty()));
});
