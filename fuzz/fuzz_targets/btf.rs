//! Fuzzes the reader of the kernel's types: a file is refused, or each query of its types, by all
//! of its names, ends with a result or an error.
#![no_main]

use blkkin_kernel::Btf;
use libfuzzer_sys::fuzz_target;

/// Maximum number of names that are combined to structures and members.
const NAMES_MAX: usize = 32;

fuzz_target!(|bytes: &[u8]| {
    let Ok(btf) = Btf::parse(bytes.to_vec()) else { return };
    let mut names = vec!["", "nr"];
    for type_id in 0..=btf.end_id() {
        let text = btf.type_text(type_id);
        assert!(!text.is_empty() && text.len() < 300);
        names.push(btf.type_name(type_id));
    }
    for name in btf.raw_tracepoints() {
        let tracepoint = btf.raw_tracepoint(name);
        // An earlier type of the same name may be no tracepoint.
        assert!(tracepoint.is_err() || tracepoint.is_ok_and(|found| found.type_id < btf.end_id()));
    }
    for name in btf.functions() {
        let _ = btf.function(name);
    }
    names.truncate(NAMES_MAX);
    for structure in &names {
        let _ = (btf.structure_size(structure), btf.field(structure, "numbers.nr"));
        for name in &names {
            let _ = (btf.field(structure, name), btf.enum_value(structure, name));
        }
    }
});
