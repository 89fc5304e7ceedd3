//! Rivals of the server: Zipkin's server, installed by Maven; DuckDB and ClickHouse's engine,
//! installed by pip. Start at [`Peers::find`].

use crate::tools::workspace_root;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ZIPKIN: &str = "io.zipkin:zipkin-server:3.6.1:jar:exec";
const ZIPKIN_FILE: &str = "zipkin-server-3.6.1-exec.jar";
const MAVEN_COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";

/// Python packages that are installed from PyPI. DuckDB needs pytz to return times with a zone.
const PACKAGES: [&str; 3] = ["duckdb==2.0.0", "chdb==4.4.0", "pytz"];

/// Rivals that are installed on this machine.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// Path of Zipkin's server; `None` if it is not installed.
    pub(super) zipkin: Option<PathBuf>,
    /// Path of the Python interpreter with the databases; `None` if they are not installed.
    pub(super) python: Option<PathBuf>,
    /// Lines to report: the missing rivals, with the reasons.
    pub(super) skipped: Vec<String>,
}

impl Peers {
    /// Returns no rivals, for a quick run.
    pub(super) fn none() -> Peers {
        let skipped = vec!["skipped: all peers, as this is quick".to_owned()];
        Peers { skipped, ..Peers::default() }
    }

    pub(super) fn zipkin_alone(folder: &Path) -> Peers {
        let mut peers = Peers::default();
        match zipkin(folder) {
            Ok(jar) => peers.zipkin = Some(jar),
            Err(why) => peers.skipped.push(format!("skipped: Zipkin's server ({why})")),
        }
        peers
    }

    pub(super) fn find(folder: &Path) -> Peers {
        let mut peers = Peers::zipkin_alone(folder);
        match python(folder) {
            Ok(python) => peers.python = Some(python),
            Err(why) => {
                peers.skipped.push(format!("skipped: DuckDB and ClickHouse's engine ({why})"))
            }
        }
        peers
    }
}

fn zipkin(folder: &Path) -> Result<PathBuf, String> {
    let jar = folder.join(ZIPKIN_FILE);
    quiet(Command::new("java").arg("-version"))?;
    if !jar.exists() {
        let to = format!("-DoutputDirectory={}", folder.display());
        let artifact = format!("-Dartifact={ZIPKIN}");
        quiet(Command::new("mvn").args(["--quiet", "--batch-mode", MAVEN_COPY, &artifact, &to]))?;
    }
    match jar.exists() {
        true => Ok(jar),
        false => Err("Maven did not bring it".to_owned()),
    }
}

fn python(folder: &Path) -> Result<PathBuf, String> {
    let room = folder.join("python");
    let python = room.join("bin/python");
    let is_there = || quiet(Command::new(&python).args(["-c", "import duckdb, chdb, pytz"]));
    if is_there().is_err() {
        quiet(Command::new("python3").args(["-m", "venv"]).arg(&room))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        quiet(Command::new(&python).args(pip).args(PACKAGES))?;
        is_there()?;
    }
    Ok(python)
}

/// Runs a command and discards its output. If the command fails, the error has the last line that
/// the command wrote to standard error.
fn quiet(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{name}: {}", told.lines().last().unwrap_or("failed"))),
    }
}

/// Returns the command for the script that queries the database `who`. If the database's folder
/// `room` is empty, the script first loads the files, except for `duckdb-parquet`, which reads them
/// in each query.
pub(super) fn database(
    python: &Path,
    who: &str,
    questions: &Path,
    files: &Path,
    room: &Path,
) -> Command {
    let mut command = Command::new(python);
    command.arg(workspace_root().join("benches/server/peers.py")).arg(who);
    command.arg(questions).arg(files).arg(room);
    command
}
