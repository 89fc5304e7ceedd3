//! `blkkin io apps`: reads and changes the list of programs of running recordings.

use super::control_socket::{self, LINE_SIZE_MAX, PATIENCE};
use crate::exit::{self, Error, Exit};
use crate::table::{Align, Table};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Show or change the programs that running `blkkin io` commands record
///
/// Changes are in effect when the command returns, for programs that run and for those that start
/// later.
#[derive(clap::Args, Debug)]
#[command(before_help = "Examples:\n  \
        blkkin io apps ls\n  \
        blkkin io apps set iozone,dd\n  \
        blkkin io apps add postgres\n  \
        blkkin io apps add cgroup:system.slice/cron.service\n  \
        blkkin io apps remove dd")]
pub(super) struct Args {
    #[command(subcommand)]
    change: Change,

    /// Only the recording of this process; by default all of this user
    #[arg(long, value_name = "PID", global = true)]
    recording: Option<u32>,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand, Debug)]
enum Change {
    /// List the programs
    Ls,
    /// Replace the list
    Set(Names),
    /// Add programs to the list
    Add(Names),
    /// Remove programs from the list
    Remove(Names),
}

#[derive(clap::Args, Debug)]
struct Names {
    /// Names of programs, as `ps -o comm` shows them, or cgroup:PATH for all processes in a control
    /// group
    #[arg(required = true, value_name = "NAME", value_delimiter = ',')]
    names: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<Exit, Error> {
    let request = match &args.change {
        Change::Ls => json!({}),
        Change::Set(names) => json!({"set": names.names}),
        Change::Add(names) => json!({"add": names.names}),
        Change::Remove(names) => json!({"remove": names.names}),
    };
    let mut answers = Vec::new();
    for path in sockets(args.recording) {
        match ask(&path, &request) {
            Ok(answer) => answers.push(answer),
            // The socket of a process that has ended.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(&path);
            }
            Err(error) => exit::warn(&format!("{}: {error}", path.display())),
        }
    }
    if answers.is_empty() {
        let error = match args.recording {
            Some(pid) => Error::failed(format!("no recording of process {pid}")),
            None => Error::failed("no `blkkin io` with a list of programs is running"),
        };
        return Err(error.hint("start one: blkkin io --app NAME"));
    }
    let mut table = Table::new(&[("RECORDING", Align::Right), ("PROGRAMS", Align::Left)]);
    for answer in &answers {
        if let Some(error) = answer.get("error").and_then(Value::as_str) {
            return Err(Error::failed(error));
        }
        let apps = answer["apps"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let apps: Vec<&str> = apps.collect();
        table.row(vec![answer["pid"].to_string().into(), apps.join(",").into()]);
    }
    let text = match args.json {
        true => answers.iter().map(|answer| format!("{answer}\n")).collect(),
        false => table.print(false),
    };
    crate::output::ignore_closed_pipe(crate::output::write(&text))?;
    Ok(Exit::Ok)
}

/// Returns the sockets of this user's recordings.
fn sockets(recording: Option<u32>) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(control_socket::folder()).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    let is_wanted = |path: &Path| match recording {
        Some(pid) => path.file_stem().is_some_and(|stem| *stem == *pid.to_string()),
        None => path.extension().is_some_and(|extension| extension == "sock"),
    };
    paths.retain(|path| is_wanted(path));
    paths.sort();
    paths
}

fn ask(path: &Path, request: &Value) -> io::Result<Value> {
    let mut socket = UnixStream::connect(path)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    writeln!(socket, "{request}")?;
    let mut line = String::new();
    BufReader::new(socket.take(LINE_SIZE_MAX)).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}
