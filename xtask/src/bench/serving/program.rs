//! Interface to the program in `benches/server`, which sends spans and queries servers. Start at
//! [`Program`].

use crate::bench::blkkin;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// Name of the program's package and file.
pub(in crate::bench) const PACKAGE: &str = "blkkin-bench-server";

/// The program in `benches/server`, given by its path.
pub(in crate::bench) struct Program(PathBuf);

/// Parameters from which the program computes the ids and start times of synthetic requests.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Numbers {
    pub(in crate::bench) seed: u64,
    pub(in crate::bench) origin_ns: u64,
    pub(in crate::bench) step_ns: u64,
}

/// Results of one run in which the program sent spans.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::bench) struct SendResult {
    pub(in crate::bench) spans: f64,
    pub(in crate::bench) requests: u64,
    pub(in crate::bench) bytes: f64,
    pub(in crate::bench) refusals: f64,
    pub(in crate::bench) seconds: f64,
    pub(in crate::bench) own_cpu_seconds: f64,
    pub(in crate::bench) p50_ns: f64,
    pub(in crate::bench) p99_ns: f64,
    /// Acknowledged spans a second in successive intervals.
    pub(in crate::bench) rates: Vec<f64>,
}

/// A running process that queries a server or database. For each range of queries, the process
/// prints one line with the answers. A database's process first prints a line about loading.
pub(in crate::bench) struct QueryProcess {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// An answer to a query: its kind, its latency in nanoseconds, and the number of results.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::bench) struct Answer {
    pub(in crate::bench) kind: String,
    pub(in crate::bench) ns: f64,
    pub(in crate::bench) found: u64,
}

impl Numbers {
    /// Returns parameters for requests from the current time on, at the intervals of a rate of a
    /// million spans a second.
    pub(in crate::bench) fn now() -> Numbers {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin_ns = u64::try_from(now.as_nanos()).unwrap_or_default();
        Numbers { seed: origin_ns, origin_ns, step_ns: 8000 }
    }

    /// Adds the parameters to the arguments of the program.
    pub(in crate::bench) fn tell(&self, arguments: &mut Value) {
        arguments["seed"] = json!(self.seed);
        arguments["origin_ns"] = json!(self.origin_ns);
        arguments["step_ns"] = json!(self.step_ns);
    }
}

impl Program {
    /// Returns the program in the folder of built programs.
    pub(in crate::bench) fn built() -> Program {
        Program(blkkin::folder().join(PACKAGE))
    }

    fn command(&self, what: &str, arguments: &Value) -> Command {
        let mut command = Command::new(&self.0);
        command.arg(what).arg(arguments.to_string());
        command
    }

    pub(in crate::bench) fn start(&self, what: &str, arguments: &Value) -> Result<Child, String> {
        let mut command = self.command(what, arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|error| format!("cannot start {}: {error}", self.0.display()))
    }

    /// Runs the command `what` of the program; returns the output.
    pub(in crate::bench) fn text(&self, what: &str, arguments: &Value) -> Result<String, String> {
        finish(self.start(what, arguments)?)
    }

    /// Runs the command `what` of the program; returns the output, parsed as JSON.
    pub(in crate::bench) fn run(&self, what: &str, arguments: &Value) -> Result<Value, String> {
        read(&self.text(what, arguments)?)
    }

    pub(in crate::bench) fn ask(&self, arguments: &Value) -> Result<QueryProcess, String> {
        QueryProcess::start(&mut self.command("ask", arguments))
    }
}

/// Waits until a process has ended, and returns its output. If the process failed, the error has
/// the text that it wrote to standard error.
pub(in crate::bench) fn finish(child: Child) -> Result<String, String> {
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

pub(in crate::bench) fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("`{}`: {error}", text.trim()))
}

impl SendResult {
    pub(in crate::bench) fn of(value: &Value) -> Option<SendResult> {
        let number = |name: &str| value.get(name)?.as_f64();
        let latency = |name: &str| value.get("acknowledgement")?.get(name)?.as_f64();
        Some(SendResult {
            spans: number("spans")?,
            requests: value.get("requests")?.as_u64()?,
            bytes: number("bytes")?,
            refusals: number("refusals")?,
            seconds: number("seconds")?,
            own_cpu_seconds: number("own_cpu_seconds")?,
            p50_ns: latency("p50_ns")?,
            p99_ns: latency("p99_ns")?,
            rates: value.get("rates")?.as_array()?.iter().filter_map(Value::as_f64).collect(),
        })
    }

    pub(in crate::bench) fn rate(&self) -> f64 {
        self.spans / self.seconds.max(1e-9)
    }
}

impl QueryProcess {
    pub(in crate::bench) fn start(command: &mut Command) -> Result<QueryProcess, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".to_owned());
        };
        Ok(QueryProcess { child, questions, answers: BufReader::new(answers) })
    }

    /// Reads the next line of the process's output, parsed as JSON.
    pub(in crate::bench) fn line(&mut self) -> Result<Value, String> {
        let mut line = String::new();
        let read_bytes = self.answers.read_line(&mut line).map_err(|error| error.to_string())?;
        match read_bytes {
            0 => Err("it ended without an answer".to_owned()),
            _ => read(&line),
        }
    }

    /// Runs the queries with the numbers `from..to`, and returns their answers. Queries that the
    /// server's API does not have are skipped.
    pub(in crate::bench) fn ask(&mut self, from: usize, to: usize) -> Result<Vec<Answer>, String> {
        writeln!(self.questions, "{from} {to}").map_err(|error| error.to_string())?;
        let value = self.line()?;
        answers(&value).ok_or_else(|| format!("`{value}` are no answers"))
    }

    pub(in crate::bench) fn end(self) -> Result<(), String> {
        let QueryProcess { mut child, questions, answers } = self;
        drop((questions, answers));
        child.wait().map(drop).map_err(|error| error.to_string())
    }
}

fn answers(value: &Value) -> Option<Vec<Answer>> {
    let one = |value: &Value| {
        let [kind, ns, found] = value.as_array()?.as_slice() else { return None };
        Some(Answer { kind: kind.as_str()?.to_owned(), ns: ns.as_f64()?, found: found.as_u64()? })
    };
    value.as_array()?.iter().map(one).collect()
}

/// Numbers of files and spans in a store, and sizes of its files by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::bench) struct OnDisk {
    pub(in crate::bench) files: u64,
    pub(in crate::bench) spans: u64,
    pub(in crate::bench) parquet_bytes: u64,
    pub(in crate::bench) index_bytes: u64,
    pub(in crate::bench) other_bytes: u64,
}

impl OnDisk {
    pub(in crate::bench) fn of(program: &Program, folder: &Path) -> Result<OnDisk, String> {
        let value = program.run("files", &json!({"directory": folder}))?;
        let number = |name: &str| {
            value
                .get(name)
                .and_then(Value::as_u64)
                .ok_or_else(|| format!("`{value}` has no {name}"))
        };
        Ok(OnDisk {
            files: number("files")?,
            spans: number("spans")?,
            parquet_bytes: number("parquet_bytes")?,
            index_bytes: number("index_bytes")?,
            other_bytes: number("other_bytes")?,
        })
    }

    /// Returns the size of a span in Parquet files in bytes, without and with the index. Returns
    /// `None` if no span is in a file.
    pub(in crate::bench) fn bytes_a_span(&self) -> Option<(f64, f64)> {
        let spans = self.spans as f64;
        let of = |bytes: u64| bytes as f64 / spans;
        (self.spans > 0)
            .then(|| (of(self.parquet_bytes), of(self.parquet_bytes + self.index_bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_prints_is_read() {
        let text = r#"{"spans":1000,"requests":125,"bytes":300000,"refusals":2,"seconds":0.5,
            "own_cpu_seconds":0.25,"acknowledgement":{"count":3,"p50_ns":7,"p99_ns":9,"max_ns":9},
            "rates":[1500.0,500.0],"rates_every_ms":500}"#;
        let sent = SendResult::of(&read(text).expect("JSON")).expect("all of it");
        assert_eq!((sent.rate(), sent.p99_ns, sent.rates.len()), (2000.0, 9.0, 2));
        assert_eq!(SendResult::of(&json!({"spans": 1})), None);
    }

    #[test]
    fn answers_are_read() {
        let value = json!([["trace", 1000, 8], ["search", 5.0, 0]]);
        let expected = Answer { kind: "search".to_owned(), ns: 5.0, found: 0 };
        assert_eq!(answers(&value).expect("good")[1], expected);
        assert_eq!(answers(&json!([["trace", 1000]])), None);
        assert_eq!(answers(&json!({})), None);
    }

    #[test]
    fn who_is_asked_answers_in_lines() {
        let script = r#"while read from to; do echo "[[\"$from\", 1, $to]]"; done"#;
        let mut asked =
            QueryProcess::start(Command::new("sh").args(["-c", script])).expect("a shell");
        assert_eq!(asked.ask(3, 8).expect("an answer")[0].found, 8);
        assert_eq!(asked.ask(4, 9).expect("an answer")[0].kind, "4");
        asked.end().expect("ended");
    }

    #[test]
    fn bytes_are_those_of_spans_in_files() {
        let disk =
            OnDisk { files: 1, spans: 100, parquet_bytes: 2000, index_bytes: 300, other_bytes: 9 };
        assert_eq!(disk.bytes_a_span(), Some((20.0, 23.0)));
        assert_eq!(OnDisk::default().bytes_a_span(), None);
    }
}
