//! Programs, peers, folders and results that all phases share. Start at [`Bench`].

use super::peers::Peers;
use crate::bench::blkkin;
use crate::bench::options::Options;
use crate::bench::report::Report;
use crate::bench::serving::program::{PACKAGE, Program};
use crate::bench::serving::running::Running;
use crate::tools::{at, target_dir};
use std::fs;
use std::path::{Path, PathBuf};

/// State of the bench that all phases share.
pub(super) struct Bench<'r> {
    pub(super) options: &'r Options,
    pub(super) report: &'r mut Report,
    /// Path of the program `blkkin`.
    pub(super) server: PathBuf,
    pub(super) program: Program,
    pub(super) peers: Peers,
    /// Folder for the files of all phases except `bytes`.
    pub(super) folder: PathBuf,
    /// Peak memory in bytes of runs of `blkkin server`, each with a description of the work. Phases
    /// add them by [`Bench::note_memory`].
    pub(super) memory: Vec<(u64, String)>,
}

impl<'r> Bench<'r> {
    /// Builds the programs. Finds the peers by `find`, unless the bench is quick.
    pub(super) fn new(
        options: &'r Options,
        report: &'r mut Report,
        find: fn(&Path) -> Peers,
    ) -> Result<Bench<'r>, String> {
        let folder = target_dir().join("bench/server");
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let server = PathBuf::from(blkkin::build_with(&[PACKAGE])?);
        let program = Program::built();
        let peers = if options.quick { Peers::none() } else { find(&folder) };
        peers.skipped.iter().for_each(|line| report.say(line));
        Ok(Bench { options, report, server, program, peers, folder, memory: Vec::new() })
    }

    /// Starts `blkkin server` with its store in `data`.
    pub(super) fn start(&self, data: &Path) -> Result<Running, String> {
        Running::start(&self.server, &self.folder, &["--data".into(), data.into()])
    }

    /// Starts `blkkin server` with its store in `data`, whose size is limited to `bytes`.
    pub(super) fn start_limited(&self, data: &Path, bytes: u64) -> Result<Running, String> {
        let limit = bytes.to_string().into();
        let options = ["--data".into(), data.into(), "--keep-bytes".into(), limit];
        Running::start(&self.server, &self.folder, &options)
    }

    /// Reports that a measurement is skipped, and why.
    pub(super) fn skip(&self, why: &str) {
        self.report.say(format!("skipped: {why}"));
    }

    /// Makes an empty folder of the bench. An earlier folder with this name is removed.
    pub(super) fn room(&self, name: &str) -> Result<PathBuf, String> {
        let room = self.folder.join(name);
        clear(&room)?;
        fs::create_dir_all(&room).map_err(at(&room))?;
        Ok(room)
    }

    /// Stores the peak memory of `blkkin server` during some work, for the goal at the end.
    pub(super) fn note_memory(&mut self, what: impl Into<String>, rss_bytes_max: u64) {
        self.memory.push((rss_bytes_max, what.into()));
    }
}

/// Removes a folder with its content, if it exists.
pub(super) fn clear(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at(folder)(error)),
        _ => Ok(()),
    }
}
