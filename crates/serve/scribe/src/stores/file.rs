//! File store: appends messages to files named `<base>[-YYYY-MM-DD]_NNNNN` in the store's
//! directory. Only the last file grows. Times are UTC, so that no name repeats.
//!
//! A retry of a batch continues after the last complete write of a buffer; an incomplete write is
//! truncated first. After a crash, a failed truncation or a failed sync the store begins a new
//! file, because the end of the old file is uncertain. After a crash or a failed sync, messages
//! after the last durable position are written again.

use super::store::{Failure, Store, StoreContext, WriteCounts};
use crate::messages::Batch;
use crate::plan::{FilePlan, Rotation};
use blkkin_scribe::Entry;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of buffered bytes at which the buffer is written to the file.
const CHUNK: usize = 256 << 10;

/// Maximum length in bytes of a category that is used as a file name. Leaves space for date and
/// number.
pub(crate) const NAME_BYTES_MAX: usize = 200;

/// Returns whether a category is a valid file name.
pub(crate) fn is_name(category: &[u8]) -> bool {
    let is_special = matches!(category, b"." | b"..");
    !is_special
        && category.len() <= NAME_BYTES_MAX
        && !category.iter().any(|b| matches!(b, b'/' | 0))
}

pub(crate) struct File {
    plan: FilePlan,
    directory: PathBuf,
    base: OsString,
    open: Option<OpenFile>,
    /// True if the store opens a new file next, instead of appending to the last existing file.
    begins_anew: bool,
    /// Id of the batch in progress, and the number of its messages that are written.
    /// `(u64::MAX, 0)` after a complete batch or a failed sync.
    done: (u64, u64),
    buffer: Vec<u8>,
}

struct OpenFile {
    file: fs::File,
    name: OsString,
    bytes: u64,
    since: Timestamp,
}

impl File {
    pub(crate) fn new(plan: &FilePlan, context: &StoreContext) -> File {
        let category = OsStr::from_bytes(&context.category);
        let mut directory = plan.path.clone();
        directory.extend(&plan.sub_directory);
        if plan.has_hostname {
            directory.push(rustix::system::uname().nodename().to_string_lossy().into_owned());
        }
        if !context.is_exact {
            directory.push(category);
        }
        directory.extend(&context.bucket);
        let base = plan.base.as_ref().filter(|_| context.is_exact);
        File {
            plan: plan.clone(),
            directory,
            base: base.map_or_else(|| category.to_owned(), OsString::from),
            open: None,
            begins_anew: context.may_be_torn || plan.rotates_on_reopen,
            done: (u64::MAX, 0),
            buffer: Vec::new(),
        }
    }

    fn failed<'p>(
        during: &'p str,
        path: &'p Path,
    ) -> impl FnOnce(std::io::Error) -> Failure + use<'p> {
        move |error| Failure(format!("{}: cannot {during}: {error}", path.display()))
    }

    /// Returns the file to which messages are appended. First opens the next file if rotation is
    /// due at the time `now`, or a file if no file is open.
    fn current(&mut self, now: Timestamp) -> Result<&mut OpenFile, Failure> {
        let is_due = self.open.as_ref().is_some_and(|open| self.is_due(open, now));
        if is_due {
            self.rotate(now)?;
        }
        if self.open.is_none() {
            let (name, _) = self.next_name(now)?;
            self.open = Some(self.open_file(name, now)?);
            self.begins_anew = false;
        }
        self.open.as_mut().ok_or_else(|| Failure(String::new()))
    }

    fn is_due(&self, open: &OpenFile, now: Timestamp) -> bool {
        let is_full = self.plan.bytes_max > 0 && open.bytes >= self.plan.bytes_max;
        is_full
            || match self.plan.rotation {
                Rotation::Never => false,
                Rotation::Hourly { minute } => {
                    now.hours() != open.since.hours() && now.minute() >= minute
                }
                Rotation::Daily { hour, minute } => {
                    now.days() != open.since.days() && (now.hour(), now.minute()) >= (hour, minute)
                }
                Rotation::Every(period) => now.0 >= open.since.0.saturating_add(period.as_secs()),
            }
    }

    /// Syncs and closes the current file, and opens the next file. With `writes_meta`, first
    /// appends a line with the next file's path to the current file.
    fn rotate(&mut self, now: Timestamp) -> Result<(), Failure> {
        self.begins_anew = true;
        let (name, path) = self.next_name(now)?;
        if let Some(open) = self.open.as_mut().filter(|_| self.plan.writes_meta) {
            let line = [b"scribe_meta<new_logfile>: ", path.as_os_str().as_bytes(), b"\n"].concat();
            open.file.write_all(&line).map_err(File::failed("write", &path))?;
        }
        self.sync()?;
        self.open = Some(self.open_file(name, now)?);
        self.begins_anew = false;
        Ok(())
    }

    fn stem(&self, now: Timestamp) -> OsString {
        let mut stem = self.base.clone();
        if self.plan.rotation != Rotation::Never {
            stem.push(format!("-{}", now.date()));
        }
        stem.push("_");
        stem
    }

    /// Returns the name and the path of the file to open next. Creates the directory if it is
    /// missing.
    fn next_name(&self, now: Timestamp) -> Result<(OsString, PathBuf), Failure> {
        let directory = &self.directory;
        fs::create_dir_all(directory).map_err(File::failed("make the directory", directory))?;
        let stem = self.stem(now);
        let mut highest = None;
        let entries = fs::read_dir(directory).map_err(File::failed("list", directory))?;
        for entry in entries {
            let entry = entry.map_err(File::failed("list", directory))?;
            highest = highest.max(suffix(&entry.file_name(), &stem));
        }
        let first = match self.plan.rotation {
            Rotation::Hourly { .. } => now.hour(),
            _ => 0,
        };
        let number = match highest {
            Some(highest) if self.begins_anew => highest.saturating_add(1).max(first),
            Some(highest) => highest,
            None => first,
        };
        let mut name = stem;
        name.push(format!("{number:05}"));
        let path = directory.join(&name);
        Ok((name, path))
    }

    fn open_file(&self, name: OsString, now: Timestamp) -> Result<OpenFile, Failure> {
        let path = self.directory.join(&name);
        let file = fs::OpenOptions::new().append(true).create(true).open(&path);
        let file = file.map_err(File::failed("open", &path))?;
        let bytes = file.metadata().map_err(File::failed("look at", &path))?.len();
        // Syncs the directory, so that the name of the file survives a power failure.
        let directory = fs::File::open(&self.directory).and_then(|directory| directory.sync_all());
        directory.map_err(File::failed("make durable", &self.directory))?;
        if self.plan.makes_symlink {
            self.link(&name)?;
        }
        Ok(OpenFile { file, name, bytes, since: now })
    }

    /// Makes the symbolic link `<base>_current` point to the file `name`. A `base_symlink_name` in
    /// the configuration replaces the base.
    fn link(&self, name: &OsStr) -> Result<(), Failure> {
        let mut link = match &self.plan.symlink {
            Some(link) => OsString::from(link),
            None => self.base.clone(),
        };
        link.push("_current");
        let path = self.directory.join(&link);
        link.push(".new");
        let new = self.directory.join(link);
        let _ = fs::remove_file(&new);
        let made = std::os::unix::fs::symlink(name, &new).and_then(|()| fs::rename(&new, &path));
        made.map_err(File::failed("link", &path))
    }

    /// Encodes a message and appends it to the buffer. Zeros precede a message that does not fit
    /// into the rest of a chunk. `at` is the file offset of the buffer's first byte.
    fn put(&mut self, entry: Entry<'_>, at: u64) {
        let start = self.buffer.len();
        let plan = &self.plan;
        let newline = usize::from(plan.adds_newlines);
        let head = if plan.writes_category { entry.category.len() + 1 } else { 0 };
        let size = (head + entry.message.len() + newline) as u64;
        let at = at + start as u64;
        if plan.chunk_bytes > 0 {
            let left = plan.chunk_bytes - at % plan.chunk_bytes;
            if size > left && left < plan.chunk_bytes {
                self.buffer.resize(start + left as usize, 0);
            }
        }
        if plan.writes_category {
            self.buffer.extend_from_slice(entry.category);
            self.buffer.push(b'\n');
        }
        self.buffer.extend_from_slice(entry.message);
        if plan.adds_newlines {
            self.buffer.push(b'\n');
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if let Err(error) = open.file.write_all(&self.buffer) {
            // Truncates the partial write; the next attempt writes these bytes again.
            let cut = open.file.set_len(open.bytes);
            let path = self.directory.join(&open.name);
            if cut.is_err() {
                self.begins_anew = true;
                self.open = None;
            }
            return Err(File::failed("write", &path)(error));
        }
        open.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Store for File {
    fn write(&mut self, batch: &Batch) -> Result<WriteCounts, Failure> {
        let now = Timestamp::now();
        let mut done = if self.done.0 == batch.id { self.done.1 } else { 0 };
        self.done = (batch.id, done);
        self.buffer.clear();
        // Another program may have removed the file or its directory.
        if self.open.as_ref().is_some_and(|open| !self.directory.join(&open.name).exists()) {
            self.sync()?;
            self.open = None;
        }
        let mut at = self.current(now)?.bytes;
        let mut pending = 0;
        for entry in batch.iter().skip(done as usize) {
            self.put(entry, at);
            pending += 1;
            let is_full =
                self.plan.bytes_max > 0 && at + self.buffer.len() as u64 >= self.plan.bytes_max;
            if is_full || self.buffer.len() >= CHUNK {
                self.flush()?;
                done += pending;
                pending = 0;
                self.done = (batch.id, done);
                at = self.current(now)?.bytes;
            }
        }
        self.flush()?;
        // After a failed sync the outlet may write the whole batch again.
        self.done = (u64::MAX, 0);
        Ok(WriteCounts::sent(batch))
    }

    fn sync(&mut self) -> Result<(), Failure> {
        let Some(open) = &self.open else { return Ok(()) };
        let path = self.directory.join(&open.name);
        if let Err(error) = open.file.sync_data() {
            self.begins_anew = true;
            self.open = None;
            self.done = (u64::MAX, 0);
            return Err(File::failed("make durable", &path)(error));
        }
        Ok(())
    }
}

/// Parses the number that follows `stem` in a file name; `None` for other names.
fn suffix(name: &OsStr, stem: &OsStr) -> Option<u64> {
    let digits = name.as_bytes().strip_prefix(stem.as_bytes())?;
    let is_number = digits.len() >= 5 && digits.iter().all(u8::is_ascii_digit);
    let digits = OsString::from_vec(digits.to_vec()).into_string().ok()?;
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Point in time, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Timestamp(u64);

impl Timestamp {
    fn now() -> Timestamp {
        Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }

    fn minute(self) -> u64 {
        self.0 / 60 % 60
    }

    fn hours(self) -> u64 {
        self.0 / 3600
    }

    fn hour(self) -> u64 {
        self.hours() % 24
    }

    fn days(self) -> u64 {
        self.0 / 86_400
    }

    /// Returns the date of the time in UTC, as `YYYY-MM-DD`.
    fn date(self) -> impl Display {
        // The year is counted from March, so that the leap day is its last day; 400 years have
        // 146,097 days.
        let days = self.days().min(2_900_000) + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + era * 400 + u64::from(month <= 2);
        format!("{year:04}-{month:02}-{day:02}")
    }
}

#[cfg(test)]
mod tests;
