//! `blkkin service import`: recorders out of a folder of SystemTap's service, which has scripts and
//! their options.

mod script;

use super::recorder::Recorder;
use crate::conversation::{SessionChannel, print};
use crate::definition::Definition;
use crate::exit::{Error, Exit, note, warn};
use crate::table::{Align, Table};
use blkkin_control::{
    Channel, Processes, Purpose, RedactedRule, Retention, Rotation, Rule, Selection, Session,
};
use script::{Probe, probes};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Make recorders out of a folder of scripts and options of SystemTap's service
///
/// Each script.d/NAME.stp becomes a recorder NAME of the events at its probe points, with all of
/// their fields; what the script does with them is left out. The options in conf.d/*.conf,
/// NAME_OPT="-S 10,3 -o /var/log/NAME", become limits, chunks and directories. The folder may also
/// have these files itself. For each script, the command says what it made of each probe point and
/// option.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin service import /etc/systemtap --dry-run\n  \
        blkkin service import /etc/systemtap --output /var/log/blkkin\n  \
        blkkin service start",
    after_help = crate::help::EXIT_HELP
)]
pub(super) struct Import {
    /// Folder with script.d and conf.d, or with the files themselves
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Directory for the traces of scripts that have no option -o [default: the agent chooses one]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Print the recorders' files, and write nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Replace recorders that are there already
    #[arg(long)]
    replace: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A script and its options become this.
#[derive(Debug)]
struct Imported {
    name: String,
    /// Definition; `None` if the script has no probe point whose events can be recorded.
    definition: Option<Definition>,
    /// Probe points and options, each with what became of it.
    remarks: Vec<(String, String)>,
}

/// Maximum size of a script or a file of options, in bytes.
const SIZE_MAX: u64 = 1 << 20;
/// Maximum number of scripts.
const SCRIPTS_MAX: usize = 1000;
const MIB: u64 = 1 << 20;
/// Number of sub-buffers of a processor's buffer, whose size an option has.
const SUB_BUFFERS: u32 = 4;
const CHANNEL: &str = "kernel";

pub(super) fn run(args: &Import) -> Result<Exit, Error> {
    let options = read_options(&args.folder)?;
    let scripts = scripts(&args.folder)?;
    if scripts.is_empty() {
        let told = format!("there are no scripts (*.stp) in {}", args.folder.display());
        return Err(Error::failed(told));
    }
    let base = args.output.as_ref().map(std::path::absolute).transpose()?;
    let mut exit = Exit::Ok;
    let mut objects = Vec::new();
    for (name, text) in scripts {
        let words = options.get(&name).cloned().unwrap_or_default();
        let imported = import(name, &text, &words, base.as_deref());
        let written = match write(&imported, args) {
            Ok(written) => written,
            Err(error) => {
                error.report();
                exit = Exit::Failed;
                None
            }
        };
        if imported.definition.is_none() {
            exit = Exit::Failed;
        }
        match args.json {
            true => objects.push(to_json(&imported, written)),
            false => report(&imported, written, args.dry_run)?,
        }
    }
    if args.json {
        print(&format!("{}\n", json!({ "schema": "blkkin.import.v1", "scripts": objects })))?;
    }
    Ok(exit)
}

/// Writes the file of a recorder, if the script becomes one. Returns its path.
fn write(imported: &Imported, args: &Import) -> Result<Option<PathBuf>, Error> {
    let Some(definition) = &imported.definition else { return Ok(None) };
    let recorder = Recorder::new(&imported.name)?;
    let text = definition.to_text();
    recorder.checked(&recorder.file(), &text)?;
    if !args.dry_run {
        recorder.write(&text, args.replace)?;
    }
    Ok(Some(recorder.file()))
}

fn report(imported: &Imported, written: Option<PathBuf>, is_dry: bool) -> Result<(), Error> {
    let name = &imported.name;
    match (&written, &imported.definition) {
        (Some(path), _) if is_dry => note(&format!("{name}: would be {}", path.display())),
        (Some(path), _) => note(&format!("{name}: {}", path.display())),
        (None, None) => warn(&format!("{name}: no recorder, since no event can be recorded")),
        (None, Some(_)) => {}
    }
    let mut table = Table::new(&[("SCRIPT", Align::Left), ("RECORDER", Align::Left)]);
    for (what, became) in &imported.remarks {
        table.row(vec![what.as_str().into(), became.as_str().into()]);
    }
    print(&(table.print(false) + "\n"))?;
    if let (true, Some(definition)) = (is_dry, &imported.definition) {
        print(&(definition.to_text() + "\n"))?;
    }
    Ok(())
}

fn to_json(imported: &Imported, written: Option<PathBuf>) -> serde_json::Value {
    let remark = |(what, became): &(String, String)| json!({ "script": what, "recorder": became });
    json!({
        "name": imported.name,
        "file": written.map(|path| path.display().to_string()),
        "text": imported.definition.as_ref().map(Definition::to_text),
        "remarks": imported.remarks.iter().map(remark).collect::<Vec<_>>(),
    })
}

fn read(path: &Path) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SIZE_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| Error::failed(format!("cannot read {}: {error}", path.display())))?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(Error::failed(format!("{} is larger than 1 MiB", path.display())));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the files of a folder and of one within it that have an extension, sorted.
fn files(folder: &Path, within: &str, extension: &str) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    for directory in [folder.to_owned(), folder.join(within)] {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound && directory != folder => {
                continue;
            }
            Err(error) => {
                return Err(Error::failed(format!("cannot read {}: {error}", directory.display())));
            }
        };
        let paths = entries.flatten().map(|entry| entry.path());
        all.extend(paths.filter(|path| path.extension().is_some_and(|own| own == extension)));
    }
    all.sort();
    all.truncate(SCRIPTS_MAX);
    Ok(all)
}

/// Returns the names and the texts of all scripts.
fn scripts(folder: &Path) -> Result<Vec<(String, String)>, Error> {
    let paths = files(folder, "script.d", "stp")?.into_iter();
    let named = paths.filter_map(|path| Some((path.file_stem()?.to_str()?.to_owned(), path)));
    named.map(|(name, path)| Ok((name, read(&path)?))).collect()
}

/// Returns the words of the options of each script: lines `NAME_OPT="…"`.
fn read_options(folder: &Path) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let mut all = BTreeMap::new();
    for path in files(folder, "conf.d", "conf")? {
        for line in read(&path)?.lines() {
            if let Some((key, value)) = line.trim().split_once('=')
                && let Some(name) = key.trim().strip_suffix("_OPT")
            {
                let value = value.trim().trim_matches(['"', '\'']);
                let words = value.split_whitespace().map(str::to_owned).collect();
                all.insert(name.to_owned(), words);
            }
        }
    }
    Ok(all)
}

fn import(name: String, text: &str, options: &[String], base: Option<&Path>) -> Imported {
    let mut remarks = Vec::new();
    let mut events: Vec<String> = Vec::new();
    for Probe { point, events: own } in probes(text) {
        remarks.push((
            format!("probe {point}"),
            match &own {
                Ok(own) => own.join(", "),
                Err(why) => format!("left out: {why}"),
            },
        ));
        for event in own.unwrap_or_default() {
            if !events.contains(&event) {
                events.push(event);
            }
        }
    }
    let settings = read_settings(options, &mut remarks);
    if !events.is_empty() {
        remarks.push((
            "handlers".to_owned(),
            "left out: all fields of the events are recorded".to_owned(),
        ));
    }
    let output = settings.output.clone().or(base.map(Path::to_owned));
    let make = || {
        let channel = Channel {
            subbuffer_size: settings
                .buffer
                .map(|size| (size / u64::from(SUB_BUFFERS)).next_power_of_two()),
            subbuffer_count: settings.buffer.map(|_| SUB_BUFFERS),
            ..Channel::named(CHANNEL)
        };
        let processes = Processes { pids: settings.pids.clone(), ..Processes::default() };
        let selection = Selection {
            names: events.clone(),
            excluded: Vec::new(),
            levels: blkkin_control::Levels::Any,
            filter: None,
            processes,
        };
        let rule = Rule { channel: CHANNEL.to_owned(), enabled: true, selection };
        let rotation = settings.chunk_size.map(|size| Rotation {
            size: Some(size),
            age_ms: None,
            files: settings.files,
            total: None,
            name_pattern: None,
            hook: None,
        });
        Definition {
            session: Session { name: name.clone(), purpose: Purpose::Record, output },
            retention: Retention::default(),
            net: None,
            size_max: None,
            is_direct: false,
            rotation,
            channels: vec![SessionChannel::new(channel, true)],
            rules: vec![RedactedRule { rule, redactions: Vec::new() }],
            triggers: Vec::new(),
        }
    };
    let definition = (!events.is_empty()).then(make);
    Imported { name, definition, remarks }
}

/// Settings that options have.
#[derive(Debug, Default)]
struct Settings {
    output: Option<PathBuf>,
    /// Size of a processor's buffer in bytes.
    buffer: Option<u64>,
    chunk_size: Option<u64>,
    files: Option<u32>,
    pids: Vec<u32>,
}

/// Reads the options of a script, and adds a remark for each.
fn read_settings(options: &[String], remarks: &mut Vec<(String, String)>) -> Settings {
    let mut settings = Settings::default();
    let mut words = options.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let known = ["-o", "-S", "-s", "-x", "-c", "-m", "-I", "-D", "-p", "-r", "-R", "-B"];
        let split = known.into_iter().find_map(|flag| Some((flag, word.strip_prefix(flag)?)));
        let (flag, value) = match split {
            Some((flag, "")) => (flag, words.next().unwrap_or_default()),
            Some((flag, attached)) => (flag, attached),
            None => (word, ""),
        };
        let became = settings.take(flag, value);
        remarks.push((format!("{flag} {value}").trim_end().to_owned(), became));
    }
    settings
}

impl Settings {
    /// Takes an option, and returns what became of it.
    fn take(&mut self, flag: &str, value: &str) -> String {
        let megabytes = |text: &str| text.parse::<u64>().ok()?.checked_mul(MIB).filter(|n| *n > 0);
        match flag {
            "-o" if value.starts_with('/') => {
                let path = Path::new(value).with_extension("");
                let became = format!("directories of traces below {}", path.display());
                self.output = Some(path);
                became
            }
            "-S" => {
                let (size, files) = value.split_once(',').unwrap_or((value, ""));
                self.chunk_size = megabytes(size);
                self.files = files.parse().ok().map(|files: u32| files.max(2));
                match (self.chunk_size, self.files) {
                    (None, _) => "left out: it has no size".to_owned(),
                    (Some(_), None) => format!("chunks of {size}M, all of which are kept"),
                    (Some(_), Some(files)) => {
                        format!("chunks of {size}M, the last {files} are kept")
                    }
                }
            }
            "-s" => {
                let text = value.trim_end_matches(['M', 'm']);
                self.buffer = megabytes(text);
                match self.buffer {
                    Some(_) => format!("buffers of {text}M for each processor"),
                    None => "left out: it has no size".to_owned(),
                }
            }
            "-x" => match value.parse() {
                Ok(pid) => {
                    self.pids.push(pid);
                    format!("events of process {pid} only")
                }
                Err(_) => "left out: it is no process id".to_owned(),
            },
            "-F" => "recorders run in the background anyway".to_owned(),
            "-c" => "left out: `blkkin record -- COMMAND` records a command".to_owned(),
            "-o" => "left out: the path is not absolute".to_owned(),
            _ => "left out: it has no meaning for a recorder".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_become_settings() {
        let script = "probe syscall.openat { println(pn()) }";
        let options = words("-F -S 10,3 -o /var/log/io.log -s16 -x 7 -m frtrace");
        let imported = import("io".into(), script, &options, None);
        let definition = imported.definition.expect("a recorder");
        assert_eq!(definition.session.output, Some("/var/log/io".into()));
        let rotation = definition.rotation.as_ref().expect("chunks");
        assert_eq!((rotation.size, rotation.files), (Some(10 * MIB), Some(3)));
        let channel = &definition.channels[0].channel;
        assert_eq!((channel.subbuffer_size, channel.subbuffer_count), (Some(4 * MIB), Some(4)));
        let rule = &definition.rules[0].rule;
        assert_eq!(rule.selection.names, ["syscall:openat"]);
        assert_eq!(rule.selection.processes.pids, [7]);
        assert_eq!(Definition::from_text(&definition.to_text()), Ok(definition));
        let remarks: Vec<&str> = imported.remarks.iter().map(|(what, _)| what.as_str()).collect();
        let expected =
            "probe syscall.openat|-F|-S 10,3|-o /var/log/io.log|-s 16|-x 7|-m frtrace|handlers";
        assert_eq!(remarks.join("|"), expected);
    }

    #[test]
    fn scripts_without_events_become_no_recorders() {
        let imported = import("x".into(), "probe begin, timer.s(5) { exit() }", &[], None);
        assert!(imported.definition.is_none());
        assert_eq!(imported.remarks.len(), 2);
    }
}
