//! Fuzzes configurations of the Scribe daemon: any text is parsed, each problem has a line number
//! within the text or 0, and the plan has a store or a problem.
#![no_main]

use blkkin_scribed::{Config, Plan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let plan = Plan::of(&Config::read(&text));
    let lines = text.lines().count();
    for problem in plan.problems.iter().chain(&plan.notes) {
        assert!(problem.line <= lines && !problem.text.is_empty(), "{problem}");
    }
    assert!(plan.has_stores() || !plan.problems.is_empty());
    assert!(plan.port != Some(0) && plan.quota_bytes >= 16 << 20);
});
