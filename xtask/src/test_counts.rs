//! Counts of tests, by the result lines that cargo, its test programs and node print.

use std::io::{BufRead, Write};

/// Numbers of tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Counts passed tests as skipped: tests that lack a peer return, which the harness reports as
    /// passed.
    pub(crate) fn skip(&mut self, tests: u64) {
        self.passed = self.passed.saturating_sub(tests);
        self.skipped += tests;
    }
}

/// End of the line of an ignored test that other tests start. Cargo counts the test as ignored.
const PROGRAM: &str = " ... ignored, a program of other tests";

/// Copies the output of cargo or node line by line, and adds up its result lines.
pub(crate) fn pass_through(mut from: impl BufRead, mut to: impl Write) -> Result<Counts, String> {
    let mut counter = Counter::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = from.read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        if length == 0 {
            return Ok(counter.counts);
        }
        to.write_all(&line).and_then(|()| to.flush()).map_err(|error| error.to_string())?;
        counter.line(&String::from_utf8_lossy(&line));
    }
}

/// Adds up the result lines of a test program's output.
pub(crate) fn count_lines(text: &str) -> Counts {
    let mut counter = Counter::default();
    text.lines().for_each(|line| counter.line(line));
    counter.counts
}

/// Sum of the result lines so far.
#[derive(Default)]
struct Counter {
    counts: Counts,
    /// Number of programs of other tests since the last result line.
    programs: u64,
}

impl Counter {
    fn line(&mut self, line: &str) {
        if line.starts_with("test ") && line.trim_end().ends_with(PROGRAM) {
            self.programs += 1;
        }
        if let Some(mut result) = result_line(line) {
            result.skipped = result.skipped.saturating_sub(std::mem::take(&mut self.programs));
            self.counts.add(result);
        }
        self.counts.add(node_line(line));
    }
}

/// Parses a line of node's test summary, such as `ℹ pass 17`.
fn node_line(line: &str) -> Counts {
    let mut counts = Counts::default();
    let rest = line.strip_prefix("ℹ ").and_then(|rest| rest.trim_end().split_once(' '));
    let Some((what, Ok(number))) = rest.map(|(what, number)| (what, number.parse())) else {
        return counts;
    };
    match what {
        "pass" => counts.passed = number,
        "fail" | "cancelled" => counts.failed = number,
        "skipped" | "todo" => counts.skipped = number,
        _ => {}
    }
    counts
}

/// Parses a result line of cargo: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
fn result_line(line: &str) -> Option<Counts> {
    let rest = line.trim_start().strip_prefix("test result: ")?;
    let mut counts = Counts::default();
    for part in rest.split(['.', ';']) {
        let mut words = part.split_whitespace();
        let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
        let Ok(number) = number.parse() else { continue };
        match what {
            "passed" => counts.passed = number,
            "failed" => counts.failed = number,
            "ignored" => counts.skipped = number,
            _ => {}
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::{Counts, pass_through};

    fn check(output: &str, passed: u64, failed: u64, skipped: u64) {
        let mut copy = Vec::new();
        let counts = pass_through(output.as_bytes(), &mut copy).expect("no I/O here");
        assert_eq!(counts, Counts { passed, failed, skipped });
        assert_eq!(copy, output.as_bytes(), "every byte is passed on");
    }

    #[test]
    fn results_are_added_up() {
        check("", 0, 0, 0);
        check("running 2 tests\n..\n", 0, 0, 0);
        check(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; \
             finished in 0.01s\n",
            12,
            0,
            1,
        );
        check(
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\nnoise\n\
             test result: FAILED. 3 passed; 4 failed; 5 ignored; 0 measured",
            5,
            4,
            5,
        );
        check(
            "ℹ tests 9\nℹ pass 4\nℹ fail 2\nℹ cancelled 1\nℹ skipped 2\nℹ duration_ms 8.5\n",
            4,
            3,
            2,
        );
        check("an ℹ pass 3\nℹ pass x\n", 0, 0, 0);
        check("the test result: 9 passed\n", 0, 0, 0);
    }

    /// An ignored test counts as skipped, unless it is a program of other tests. The programs of
    /// each file of tests are counted separately.
    #[test]
    fn programs_of_other_tests_are_not_skipped() {
        let line = "test counts ... ignored, a program of other tests\n";
        let result = |ignored| format!("test result: ok. 1 passed; 0 failed; {ignored} ignored\n");
        check(&format!("{line}{line}{}", result(2)), 1, 0, 0);
        check(&format!("{line}test slow ... ignored, slow\n{}", result(2)), 1, 0, 1);
        check(&format!("{line}{}{}", result(1), result(1)), 2, 0, 1);
        check(&format!("a {line}{}", result(1)), 1, 0, 1);
    }
}
