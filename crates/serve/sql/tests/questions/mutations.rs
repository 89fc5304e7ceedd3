//! Test that random mutations of the example queries end with a result or a proper error. This is a
//! plain test and not a fuzz target with a sanitizer, which would build DataFusion's parser and
//! planner a second time.

use crate::support::{Store, requests, run_query};
use blkkin_sql::{EXAMPLES, Format, Options};
use std::time::{Duration, Instant};

/// SQL keywords and other tokens that are inserted into queries, besides parts of the examples.
const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "UNION ALL",
    "INTERSECT",
    "JOIN",
    "LEFT JOIN",
    "CROSS JOIN",
    "ON",
    "USING",
    "WITH",
    "RECURSIVE",
    "AS",
    "DISTINCT",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "TRY_CAST",
    "EXISTS",
    "IN",
    "NOT",
    "IS",
    "NULL",
    "BETWEEN",
    "LIKE",
    "ILIKE",
    "SIMILAR TO",
    "OVER",
    "PARTITION BY",
    "ROWS",
    "UNBOUNDED PRECEDING",
    "EXTRACT",
    "INTERVAL",
    "VALUES",
    "LATERAL",
    "UNNEST",
    "EXPLAIN",
    "ANALYZE",
    "DESCRIBE",
    "SHOW",
    "TABLES",
    "INSERT INTO",
    "COPY",
    "CREATE TABLE",
    "DROP",
    "SET",
    "spans",
    "annotations",
    "tags",
    "service",
    "name",
    "duration_ns",
    "start_time",
    "trace_id",
    "key",
    "value",
    "count(*)",
    "approx_median",
    "row_number()",
    "lag",
    "date_bin",
    "regexp_match",
    "array_agg",
    "struct",
    "make_array",
    "'1 minute'",
    "''",
    "'%'",
    "'(['",
    "0",
    "1",
    "-1",
    "9223372036854775808",
    "1e999",
    "0x",
    "NaN",
    "*",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    ";",
    "::",
    "+",
    "-",
    "/",
    "%",
    "||",
    "->",
    "=>",
    "=",
    "<>",
    "<=",
    "~",
    "!~*",
    "@",
    "$1",
    "?",
    "\"",
    "'",
    "`",
    "--",
    "/*",
    "*/",
    "\\",
    "\u{0}",
    "é",
    "\u{1f600}",
];

/// Time for which mutated queries are tested.
const FOR: Duration = Duration::from_secs(20);

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Returns an example query after random cuts, duplications and insertions.
fn mutated(random: &mut Random) -> String {
    let example = |random: &mut Random| EXAMPLES[random.below(EXAMPLES.len())].sql;
    let mut words: Vec<String> = example(random).split(' ').map(str::to_owned).collect();
    for _ in 0..1 + random.below(6) {
        let at = random.below(words.len() + 1);
        match random.below(6) {
            0 if at < words.len() => drop(words.remove(at)),
            1 if at < words.len() => {
                let end = at + random.below(words.len() - at) + 1;
                let part = words[at..end].to_vec();
                let to = random.below(words.len() + 1);
                words.splice(to..to, part);
            }
            2 => {
                let other: Vec<String> = example(random).split(' ').map(str::to_owned).collect();
                let from = random.below(other.len());
                words.splice(at..at, other[from..].iter().cloned());
            }
            3 if at < words.len() => {
                let word = words[at].clone();
                let cut = word.char_indices().nth(random.below(word.chars().count() + 1));
                words[at] = word[..cut.map_or(word.len(), |(at, _)| at)].to_owned();
            }
            _ => words.insert(at, WORDS[random.below(WORDS.len())].to_owned()),
        }
        words.truncate(200);
    }
    words.join(if random.below(8) == 0 { "" } else { " " })
}

#[test]
fn mutated_sql_ends_well() {
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1);
    let mut random = Random(seed);
    let store = Store::of(&requests());
    let options = Options { timeout: Duration::from_secs(10), ..store.options() };
    let (mut answered, mut refused) = (0, 0);
    let started = Instant::now();
    while started.elapsed() < FOR {
        let sql = mutated(&mut random);
        match run_query(&options, Format::Json, &sql).0 {
            Ok(_) => answered += 1,
            Err(error) => {
                let said = error.to_string();
                assert!(!said.contains("unexpectedly"), "TEST_SEED={seed}: {sql}: {said}");
                refused += 1;
            }
        }
    }
    assert!(answered > 0 && refused > 0, "{answered} were answered and {refused} refused");
}
