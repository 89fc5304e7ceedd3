//! `blkkin store`: checks, repairs, exports and imports a store of spans.

use crate::directories::state_directory;
use crate::exit::{self, Error, Exit};
use crate::output::{ignore_closed_pipe, plural, write};
use crate::progress::ProgressLine;
use crate::table::{Align, Table};
use blkkin_lake::{AdoptReport, Condition, Inspection, Lake, LockedStore, Options, Retention};
use blkkin_model::SpanRef;
use blkkin_store::{Batch, Policy, SpanStore};
use blkkin_wire::Format;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};

/// Check, repair, back up and restore a store of spans
///
/// A store is the directory of `blkkin server --data`. The server must not run on it at the same
/// time.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin store check                                    what the store holds, and what is wrong\n  \
        blkkin store adopt --data /srv/spans                  make a store of files that lie there\n  \
        blkkin store export --data /srv/spans -o backup       all spans as a folder of Parquet files\n  \
        blkkin store import --data /srv/new backup            and back, in any store",
    after_help = crate::help::EXIT_HELP,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Check(Check),
    Adopt(Adopt),
    Export(Export),
    Import(Import),
}

/// Options of all subcommands: the store and the form of the result.
#[derive(clap::Args, Debug)]
struct StoreArgs {
    /// Store directory [default: as for `blkkin server`]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Print the result as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// List a store's files and what is wrong with them
///
/// Reads the journal and all files that the manifest names, and changes nothing. A file is `good`;
/// `damaged`, if bytes in it are wrong; `missing`, if the manifest names it but it is not there;
/// `unnamed`, if the manifest does not name it. A file with `no index` gets one at the next start
/// of the server. A file that is `removing` may be removed then: its spans were merged into another
/// file or have expired, or it was never finished. The store ignores files that are `other`. The
/// exit status is 1 if a file is damaged, missing or unnamed, or if the manifest or the journal is
/// damaged.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin store check\n  \
        blkkin store check --data /srv/spans --json | jq '.files[] | select(.condition != \"good\")'",
    after_help = crate::help::EXIT_HELP
)]
struct Check {
    #[command(flatten)]
    store: StoreArgs,
}

/// Turn a directory of span files into a store again
///
/// For a directory whose manifest is missing, damaged or older than its files, or into which files
/// were copied: the server refuses those. Afterwards the manifest names all readable files of
/// spans. Missing indexes are created, and the journal stays as it is.
///
/// No file of spans is removed. A file that repeats spans is renamed to `*.duplicate`, and its new
/// spans are written to another file. An unreadable file is renamed to `*.unreadable`, or to
/// `*.damaged` if the manifest named it. A store ignores files with these names. If the store has
/// no setting for retention, all spans are kept until `blkkin server` is given `--keep` or
/// `--keep-bytes`.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin store adopt --data /srv/spans                  after a restore of its folder spans/ alone\n  \
        blkkin store adopt --json",
    after_help = crate::help::EXIT_HELP
)]
struct Adopt {
    #[command(flatten)]
    store: StoreArgs,
}

/// Write all spans of a store to a folder or file
///
/// Parquet keeps all data of spans, and other programs can read it. In Zipkin's and OpenTelemetry's
/// JSON each line is a batch of spans; Zipkin's truncates times to microseconds. The output appears
/// under its name when it is complete. It includes spans that are only in the journal.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin store export -o backup                         a folder of Parquet files\n  \
        blkkin store export --format otlp -o spans.jsonl\n  \
        blkkin store export --format zipkin -o - | gzip > spans.jsonl.gz",
    after_help = crate::help::EXIT_HELP
)]
struct Export {
    #[command(flatten)]
    store: StoreArgs,

    /// Folder to create for Parquet, or file to create for JSON lines; `-` is standard output
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,

    /// Format of the output
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: ExportFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// A folder of Parquet files
    #[default]
    Parquet,
    /// A file with a list of Zipkin's spans in each line
    Zipkin,
    /// A file with an OpenTelemetry request in each line
    Otlp,
}

/// Add spans from folders and files to a store
///
/// Reads the output of `blkkin store export`: Parquet files, folders of them, and JSON lines in
/// Zipkin's or OpenTelemetry's format. Spans that the store has already are skipped, so an import
/// can be repeated. The store is created if necessary; a new one keeps all spans until `blkkin
/// server` is given `--keep` or `--keep-bytes`.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin store import --data /srv/new backup            a folder of Parquet files\n  \
        zcat spans.jsonl.gz | blkkin store import --data /srv/new -",
    after_help = crate::help::EXIT_HELP
)]
struct Import {
    #[command(flatten)]
    store: StoreArgs,

    /// Folders, Parquet files, or files of JSON lines; `-` reads JSON lines from standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    match args.command {
        Command::Check(args) => check(&args),
        Command::Adopt(args) => adopt(&args),
        Command::Export(args) => export(&args),
        Command::Import(args) => import(&args),
    }
}

impl StoreArgs {
    fn directory(&self) -> Result<PathBuf, Error> {
        self.data.clone().or_else(|| state_directory("spans")).ok_or_else(|| {
            Error::usage("there is no home directory to look for a store in").hint("give --data")
        })
    }
}

/// Returns the error of a failed store operation, with a hint for common causes.
fn failed(directory: &Path, error: &blkkin_lake::Error) -> Error {
    let told = Error::failed(format!("{}: {error}", directory.display()));
    match error {
        blkkin_lake::Error::InUse => told.hint("stop `blkkin server` on this directory first"),
        blkkin_lake::Error::NoStore => {
            told.hint("--data names the directory of `blkkin server --data`")
        }
        _ => told,
    }
}

/// Starts a progress line for reading the store's files.
fn progress(directory: &Path, done: &Arc<AtomicU64>) -> ProgressLine {
    let entries = fs::read_dir(directory.join("spans")).into_iter().flatten().flatten();
    let files = entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "parquet"));
    let total = files.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum();
    ProgressLine::of_bytes(Arc::clone(done), total)
}

fn check(args: &Check) -> Result<Exit, Error> {
    let directory = args.store.directory()?;
    let done = Arc::default();
    let line = progress(&directory, &done);
    let inspection = blkkin_lake::inspect(&directory, &done);
    drop(line);
    let inspection = inspection.map_err(|error| failed(&directory, &error))?;
    let text = match args.store.json {
        true => format!("{}\n", inspection_json(&directory, &inspection)),
        false => inspection_text(&inspection),
    };
    ignore_closed_pipe(write(&text))?;
    if inspection.needs_adopting() {
        let shown = directory.display();
        exit::note(&format!(
            "a server refuses this directory; `blkkin store adopt --data {shown}` makes a store of it"
        ));
    }
    Ok(if inspection.is_good() { Exit::Ok } else { Exit::Failed })
}

fn inspection_text(inspection: &Inspection) -> String {
    let mut text = String::new();
    for (name, copy) in &inspection.manifest {
        match copy {
            Ok(commit) => text.push_str(&format!("{name}: commit {commit}\n")),
            Err(reason) => text.push_str(&format!("{name}: {reason}\n")),
        }
    }
    let mut table = Table::new(&[
        ("FILE", Align::Left),
        ("SPANS", Align::Right),
        ("BYTES", Align::Right),
        ("CONDITION", Align::Left),
    ]);
    for file in &inspection.files {
        let condition = match &file.condition {
            Condition::Damaged(why) => format!("damaged: {why}"),
            condition => condition.word().to_owned(),
        };
        table.row(vec![
            file.name.clone().into(),
            file.spans.to_string().into(),
            file.bytes.to_string().into(),
            condition.into(),
        ]);
    }
    text.push_str(&table.print(false));
    let spans = plural(inspection.journal_spans, "span");
    text.push_str(&format!("in the journal, and in no file by the manifest: {spans}\n"));
    for damage in &inspection.journal_damage {
        text.push_str(&format!("journal: {damage}\n"));
    }
    text
}

fn inspection_json(directory: &Path, inspection: &Inspection) -> serde_json::Value {
    let copies = inspection.manifest.iter().map(|(name, copy)| {
        json!({ "name": name, "commit": copy.as_ref().ok(), "problem": copy.as_ref().err() })
    });
    let files = inspection.files.iter().map(|file| {
        let problem = match &file.condition {
            Condition::Damaged(why) => Some(why),
            _ => None,
        };
        json!({
            "name": file.name,
            "spans": file.spans,
            "bytes": file.bytes,
            "condition": file.condition.word(),
            "problem": problem,
        })
    });
    json!({
        "directory": directory.display().to_string(),
        "good": inspection.is_good(),
        "needsAdopting": inspection.needs_adopting(),
        "manifest": copies.collect::<Vec<_>>(),
        "keepSeconds": inspection.retention.and_then(|it| it.age).map(|age| age.as_secs()),
        "keepBytes": inspection.retention.and_then(|it| it.bytes),
        "files": files.collect::<Vec<_>>(),
        "journalSpans": inspection.journal_spans,
        "journalDamage": inspection.journal_damage,
    })
}

fn adopt(args: &Adopt) -> Result<Exit, Error> {
    let directory = args.store.directory()?;
    let done = Arc::default();
    let line = progress(&directory, &done);
    let adopted = blkkin_lake::adopt(&directory, &done);
    drop(line);
    let adopted = adopted.map_err(|error| failed(&directory, &error))?;
    report(&args.store, &directory, &adopted)
}

/// Prints the result of `adopt`, or of an import.
fn report(args: &StoreArgs, directory: &Path, adopted: &AdoptReport) -> Result<Exit, Error> {
    let AdoptReport { files, spans, adopted_files, adopted_spans, duplicate_spans, .. } = *adopted;
    for damage in &adopted.damage {
        exit::warn(&format!("left out: {damage}"));
    }
    if args.json {
        let renamed =
            adopted.renamed_files.iter().map(|(from, to)| json!({ "from": from, "to": to }));
        let object = json!({
            "directory": directory.display().to_string(),
            "files": files,
            "spans": spans,
            "adoptedFiles": adopted_files,
            "adoptedSpans": adopted_spans,
            "duplicateSpans": duplicate_spans,
            "renamed": renamed.collect::<Vec<_>>(),
            "damage": adopted.damage,
            "keepsAll": adopted.keeps_all,
        });
        ignore_closed_pipe(write(&format!("{object}\n")))?;
    } else {
        for (from, to) in &adopted.renamed_files {
            exit::note(&format!("renamed {from} to {to}"));
        }
        exit::note(&format!(
            "{}: {} in {}; {} of {} new, {duplicate_spans} there already",
            directory.display(),
            plural(spans, "span"),
            plural(files, "file"),
            plural(adopted_spans, "span"),
            plural(adopted_files, "file"),
        ));
        if adopted.keeps_all {
            exit::note("all spans are kept until `blkkin server` is given --keep or --keep-bytes");
        }
    }
    Ok(if adopted.damage.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Maximum number of spans in a line of JSON.
const SPANS_OF_LINE: usize = 500;

fn export(args: &Export) -> Result<Exit, Error> {
    let directory = args.store.directory()?;
    let to_output = args.output.as_os_str() == "-";
    if to_output && args.format == ExportFormat::Parquet {
        return Err(Error::usage("Parquet is written to a folder").hint("-o FOLDER"));
    }
    if to_output && args.store.json {
        return Err(Error::usage("--json and -o - both write to standard output"));
    }
    if !to_output && args.output.exists() {
        return Err(Error::usage(format!("{} exists", args.output.display()))
            .hint("name one that does not; nothing is replaced"));
    }
    let stored = LockedStore::open(&directory).map_err(|error| failed(&directory, &error))?;
    let done = Arc::default();
    let line = ProgressLine::of_bytes(Arc::clone(&done), stored.bytes());
    let exported = match args.format {
        ExportFormat::Parquet => export_files(&stored, &args.output, &done),
        ExportFormat::Zipkin => export_lines(&stored, &args.output, Format::ZipkinJson, &done),
        ExportFormat::Otlp => export_lines(&stored, &args.output, Format::OtlpJson, &done),
    };
    drop(line);
    let (spans, damage) = exported.map_err(|error| match error {
        ExportError::Store(error) => failed(&directory, &error)
            .hint("`blkkin store check` lists what is damaged; nothing was exported"),
        ExportError::Output(error) => {
            Error::failed(format!("cannot write {}: {error}", args.output.display()))
        }
    })?;
    for damage in &damage {
        exit::warn(&format!("left out: {damage}"));
    }
    if args.store.json {
        let output = args.output.display().to_string();
        let object = json!({ "output": output, "spans": spans, "damage": damage });
        ignore_closed_pipe(write(&format!("{object}\n")))?;
    } else {
        exit::note(&format!("{}: {}", args.output.display(), plural(spans, "span")));
    }
    Ok(if damage.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// Cause of a failed export: an error that a function of the store returned, including a failed
/// write of the output in that function, or another error of the output.
enum ExportError {
    Store(blkkin_lake::Error),
    Output(io::Error),
}

impl From<blkkin_lake::Error> for ExportError {
    fn from(error: blkkin_lake::Error) -> ExportError {
        ExportError::Store(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> ExportError {
        ExportError::Output(error)
    }
}

/// Returns the temporary path under which an output is written, in the directory of its final path.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".unfinished");
    path.with_file_name(name)
}

fn add(done: &AtomicU64, bytes: u64) {
    done.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
}

/// Copies the files of a store, and writes the spans that are only in its journal to additional
/// files. Returns the number of spans, and a message for each damage in the journal.
fn export_files(
    stored: &LockedStore,
    output: &Path,
    done: &AtomicU64,
) -> Result<(u64, Vec<String>), ExportError> {
    let folder = unfinished(output);
    fs::create_dir(&folder)?;
    let complete = || {
        let mut spans = 0;
        let name = |number: usize| folder.join(format!("{number:010}.parquet"));
        for file in 0..stored.files() {
            let mut to = File::create_new(name(file + 1))?;
            spans += stored.copy(file, &mut to)?;
            to.sync_all()?;
            add(done, to.metadata()?.len());
        }
        let mut number = stored.files();
        let rest = stored.copy_journal(|| {
            number += 1;
            File::create_new(name(number))
        })?;
        for (file, count) in &rest.files {
            file.sync_all()?;
            spans += count;
        }
        File::open(&folder)?.sync_all()?;
        fs::rename(&folder, output)?;
        Ok((spans, rest.damage))
    };
    complete().inspect_err(|_| {
        let _ = fs::remove_dir_all(&folder);
    })
}

/// Writes all spans of a store as lines of JSON. Returns the same as [`export_files`].
fn export_lines(
    stored: &LockedStore,
    output: &Path,
    format: Format,
    done: &AtomicU64,
) -> Result<(u64, Vec<String>), ExportError> {
    if output.as_os_str() == "-" {
        return write_lines(stored, &mut crate::output::stdout(), format, done);
    }
    let name = unfinished(output);
    let file = File::create_new(&name)?;
    let complete = || {
        let written = write_lines(stored, &mut &file, format, done)?;
        file.sync_all()?;
        fs::rename(&name, output)?;
        Ok(written)
    };
    complete().inspect_err(|_| {
        let _ = fs::remove_file(&name);
    })
}

fn write_lines(
    stored: &LockedStore,
    to: &mut dyn Write,
    format: Format,
    done: &AtomicU64,
) -> Result<(u64, Vec<String>), ExportError> {
    let mut lines =
        Lines { to: BufWriter::new(to), format, batch: blkkin_wire::Batch::new(format) };
    let mut spans = 0;
    let mut each = |block: &blkkin_columns::Block| {
        let mut scratch = blkkin_columns::Scratch::default();
        spans += block.len() as u64;
        (0..block.len()).try_for_each(|row| lines.span(&block.span(row as u32, &mut scratch)))
    };
    for file in 0..stored.files() {
        stored.read(file, &mut each)?;
        add(done, stored.bytes() / stored.files() as u64);
    }
    let damage = stored.read_journal(&mut each)?;
    lines.end()?;
    Ok((spans, damage))
}

/// Writer of JSON lines, each with one batch of spans.
struct Lines<'o> {
    to: BufWriter<&'o mut dyn Write>,
    format: Format,
    batch: blkkin_wire::Batch,
}

impl Lines<'_> {
    fn span(&mut self, span: &SpanRef<'_>) -> io::Result<()> {
        self.batch.span(span);
        if self.batch.count() < SPANS_OF_LINE && self.batch.size() < 1 << 20 {
            return Ok(());
        }
        self.line()
    }

    fn line(&mut self) -> io::Result<()> {
        let next = blkkin_wire::Batch::new(self.format);
        let batch = std::mem::replace(&mut self.batch, next);
        if batch.count() == 0 {
            return Ok(());
        }
        self.to.write_all(&batch.finish())?;
        self.to.write_all(b"\n")
    }

    fn end(mut self) -> io::Result<()> {
        self.line()?;
        self.to.flush()
    }
}

/// Maximum length of an input line, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 20;

fn import(args: &Import) -> Result<Exit, Error> {
    let directory = args.store.directory()?;
    let mut files = Vec::new();
    let mut texts = Vec::new();
    for path in &args.paths {
        let cannot = |error| Error::failed(format!("cannot read {}: {error}", path.display()));
        if path.as_os_str() == "-" {
            texts.push(path.clone());
        } else if path.is_dir() {
            let entries = fs::read_dir(path).map_err(cannot)?;
            let paths = entries.map(|entry| entry.map(|entry| entry.path()));
            let mut paths = paths.collect::<io::Result<Vec<_>>>().map_err(cannot)?;
            paths.retain(|path| path.extension().is_some_and(|it| it == "parquet"));
            if paths.is_empty() {
                return Err(Error::failed(format!("{}: no Parquet files", path.display())));
            }
            paths.sort();
            files.extend(paths);
        } else if path.extension().is_some_and(|it| it == "parquet") {
            files.push(path.clone());
        } else {
            texts.push(path.clone());
        }
    }
    let mut total = AdoptReport::default();
    if !files.is_empty() {
        let open = |path: &PathBuf| {
            // All files are checked before the store is changed.
            let cannot = |error: &dyn std::fmt::Display| {
                Error::failed(format!("cannot read {}: {error}", path.display()))
            };
            let file = blkkin_columns::File::open_path(path).map_err(|error| cannot(&error))?;
            file.verify().map_err(|error| cannot(&error))?;
            Ok(LazyFile { path: path.clone(), file: None })
        };
        let mut sources = files.iter().map(open).collect::<Result<Vec<_>, Error>>()?;
        let done = Arc::default();
        let bytes = files.iter().filter_map(|path| fs::metadata(path).ok()).map(|it| it.len());
        let line = ProgressLine::of_bytes(Arc::clone(&done), bytes.sum());
        let imported = LockedStore::import(&directory, &mut sources, &done);
        drop(line);
        total = imported.map_err(|error| failed(&directory, &error))?;
    }
    if !texts.is_empty() {
        import_lines(&directory, &texts, &mut total)?;
    }
    report(&args.store, &directory, &total)
}

/// Input file that is opened only while it is read, since an import may have more files than the
/// descriptor limit.
struct LazyFile {
    path: PathBuf,
    file: Option<File>,
}

impl Read for LazyFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(File::open(&self.path)?),
        };
        let count = file.read(bytes)?;
        if count == 0 {
            self.file = None;
        }
        Ok(count)
    }
}

fn import_lines(directory: &Path, texts: &[PathBuf], total: &mut AdoptReport) -> Result<(), Error> {
    let is_new = !directory.join("spans").exists();
    let options =
        Options { retention: Retention::ALL, stores_retention: is_new, ..Options::default() };
    let (lake, _) = Lake::open(directory, options).map_err(|error| failed(directory, &error))?;
    total.keeps_all |= is_new;
    let before = lake.counters();
    for path in texts {
        let cannot = |error| Error::failed(format!("cannot read {}: {error}", path.display()));
        let mut reader: Box<dyn BufRead> = match path.as_os_str() == "-" {
            true => Box::new(io::stdin().lock()),
            false => Box::new(BufReader::new(File::open(path).map_err(cannot)?)),
        };
        let mut line = Vec::new();
        for number in 1_u64.. {
            line.clear();
            let mut limited = reader.by_ref().take(LINE_BYTES_MAX + 1);
            if limited.read_until(b'\n', &mut line).map_err(cannot)? == 0 {
                break;
            }
            let place = format!("{}: line {number}", path.display());
            if line.len() as u64 > LINE_BYTES_MAX {
                return Err(Error::failed(format!("{place}: longer than {LINE_BYTES_MAX} bytes")));
            }
            if let Some(damage) = store_line(&lake, line.trim_ascii()).map_err(Error::failed)? {
                total.damage.push(format!("{place}: {damage}"));
            }
        }
    }
    lake.flush().map_err(Error::failed)?;
    let after = lake.counters();
    total.duplicate_spans += after.duplicates - before.duplicates;
    total.adopted_spans += after.kept - before.kept;
    total.spans = after.kept;
    drop(lake);
    let stored = LockedStore::open(directory).map_err(|error| failed(directory, &error))?;
    total.files = stored.files() as u64;
    Ok(())
}

/// Stores the spans of one input line; repeats a line that the store rejects for the moment.
/// Returns the first refusal of a span or the fault in the line, `None` if the line has neither, or
/// an error if the disk is full.
fn store_line(lake: &Lake, line: &[u8]) -> Result<Option<String>, String> {
    let format = match line.first() {
        None => return Ok(None),
        Some(b'[') => Format::ZipkinJson,
        Some(_) => Format::OtlpJson,
    };
    loop {
        let (tell, told) = mpsc::channel();
        let batch = Batch { format, bytes: line, policy: Policy::EachSpan };
        lake.accept(batch, Box::new(move |result| drop(tell.send(result))));
        match told.recv().map_err(|error| error.to_string())? {
            Ok(accepted) => {
                return Ok(accepted.outcome.first_refusal().map(ToString::to_string));
            }
            Err(refusal) if refusal.reason.contains("No space") => return Err(refusal.reason),
            Err(refusal) => std::thread::sleep(refusal.retry_after),
        }
    }
}
