//! Reading of a session's definition, with the line of each error.

use super::document::{FileError, Table, Value, parse};
use super::{Definition, Relay, TriggerWords, VERSION};
use crate::commands::event::check_patterns;
use crate::commands::trigger::check_words;
use crate::conversation::SessionChannel;
use crate::values;
use blkkin_control::{
    Channel, Context, Hook, Levels, Mode, Processes, Purpose, RedactedRule, Redaction, Retention,
    Rotation, Rule, Selection, Session, Sharing,
};
use blkkin_filter::Filter;
use blkkin_forward::Target;
use std::path::PathBuf;

const TABLES: [&str; 5] = ["session", "chunks", "channel", "rule", "trigger"];
const SESSION_KEYS: [&str; 9] =
    ["name", "purpose", "output", "net", "size-max", "direct", "drop", "keep", "memory"];
const CHUNK_KEYS: [&str; 7] =
    ["size", "age", "files", "total", "name-pattern", "on-chunk", "on-chunk-timeout"];
const PART_KEYS: [&str; 3] = ["name", "of", "share"];
const CHANNEL_KEYS: [&str; 9] = [
    "name",
    "domain",
    "shared",
    "overwrite",
    "subbuf-size",
    "num-subbuf",
    "contexts",
    "blocking",
    "string-max",
];
const RULE_KEYS: [&str; 11] = [
    "channel",
    "enabled",
    "events",
    "exclude",
    "level",
    "level-only",
    "filter",
    "pids",
    "executables",
    "children",
    "redact",
];
const TRIGGER_KEYS: [&str; 2] = ["name", "options"];
/// Time limit of a command for chunks that states none, in milliseconds.
const HOOK_TIMEOUT_MS: u64 = 600_000;

impl Definition {
    /// Parses the text of a definition.
    pub(crate) fn from_text(text: &str) -> Result<Definition, FileError> {
        let mut tables = parse(text)?.into_iter();
        if let Some(mut top) = tables.next() {
            top.check_keys(&["version"])?;
            let version = number(&mut top, "version")?;
            if let Some((line, version)) = version
                && version != VERSION
            {
                let message = format!("version {version} is not known, only {VERSION}");
                return Err(FileError::new(line, message));
            }
        }
        let mut session = None;
        let mut rotation = None;
        let mut channels: Vec<SessionChannel> = Vec::new();
        let mut rules = Vec::new();
        let mut triggers: Vec<TriggerWords> = Vec::new();
        for table in tables {
            let is_list = ["channel", "rule", "trigger"].contains(&table.name.as_str());
            if is_list != table.is_item && TABLES.contains(&table.name.as_str()) {
                let name = &table.name;
                let right = if is_list { format!("[[{name}]]") } else { format!("[{name}]") };
                return Err(FileError::new(table.line, format!("write the heading as {right}")));
            }
            match table.name.as_str() {
                "session" => session = Some(read_session(table)?),
                "chunks" => rotation = Some((table.line, read_rotation(table)?)),
                "channel" => {
                    let line = table.line;
                    let channel = read_channel(table, &channels)?;
                    let name = &channel.channel.name;
                    if channels.iter().any(|one| one.channel.name == *name) {
                        let message = format!("there is a channel `{name}` already");
                        return Err(FileError::new(line, message));
                    }
                    channels.push(channel);
                }
                "rule" => rules.push(read_rule(table, &channels)?),
                "trigger" => {
                    let line = table.line;
                    let trigger = read_trigger(table)?;
                    let name = &trigger.name;
                    if triggers.iter().any(|one| one.name == *name) {
                        let message = format!("there is a trigger `{name}` already");
                        return Err(FileError::new(line, message));
                    }
                    triggers.push(trigger);
                }
                name => {
                    let message = format!("there is no table `{name}`");
                    return Err(FileError::new(table.line, message).suggest(name, &TABLES));
                }
            }
        }
        let missing = || FileError::new(text.lines().count().max(1), "there is no [session]");
        let SessionTable { session, retention, size_max, is_direct, net } =
            session.ok_or_else(missing)?;
        if let Some((line, rotation)) = &rotation {
            let why = match net {
                _ if session.purpose == Purpose::Snapshot => {
                    "snapshots are not divided into chunks"
                }
                Some(_) if rotation.takes_chunks_away() => {
                    "`files`, `total` and `on-chunk` could take chunks away before they are sent"
                }
                _ => "",
            };
            if !why.is_empty() {
                return Err(FileError::new(*line, why));
            }
        }
        let rotation = rotation.map(|(_, rotation)| rotation);
        Ok(Definition {
            session,
            retention,
            net,
            size_max,
            is_direct,
            rotation,
            channels,
            rules,
            triggers,
        })
    }
}

fn wrong(line: usize, key: &str, why: impl std::fmt::Display) -> FileError {
    FileError::new(line, format!("`{key}`: {why}"))
}

/// Takes the text of a key.
fn text(table: &mut Table, key: &str) -> Result<Option<(usize, String)>, FileError> {
    match table.take(key) {
        None => Ok(None),
        Some((line, Value::Text(text))) => Ok(Some((line, text))),
        Some((line, _)) => Err(wrong(line, key, "not a string in quotes")),
    }
}

/// Takes the number of a key.
fn number(table: &mut Table, key: &str) -> Result<Option<(usize, u64)>, FileError> {
    match table.take(key) {
        None => Ok(None),
        Some((line, Value::Number(number))) => Ok(Some((line, number))),
        Some((line, _)) => Err(wrong(line, key, "not a number without quotes")),
    }
}

fn flag(table: &mut Table, key: &str) -> Result<Option<bool>, FileError> {
    match table.take(key) {
        None => Ok(None),
        Some((_, Value::Flag(flag))) => Ok(Some(flag)),
        Some((line, _)) => Err(wrong(line, key, "neither true nor false")),
    }
}

/// Takes the list of a key, and converts each value with `convert`.
fn list<T>(
    table: &mut Table,
    key: &str,
    convert: impl Fn(Value) -> Result<T, String>,
) -> Result<Vec<T>, FileError> {
    match table.take(key) {
        None => Ok(Vec::new()),
        Some((line, Value::List(list))) => {
            let all: Result<Vec<T>, String> = list.into_iter().map(convert).collect();
            all.map_err(|why| wrong(line, key, why))
        }
        Some((line, _)) => Err(wrong(line, key, "not an array, such as [\"a\", \"b\"]")),
    }
}

fn item_text(value: Value) -> Result<String, String> {
    match value {
        Value::Text(text) => Ok(text),
        _ => Err("not an array of strings in quotes".to_owned()),
    }
}

/// Takes a key whose value has the syntax of an option: a string, or a number without a unit.
fn option<T>(
    table: &mut Table,
    key: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, FileError> {
    let (line, text) = match table.take(key) {
        None => return Ok(None),
        Some((line, Value::Text(text))) => (line, text),
        Some((line, Value::Number(number))) => (line, number.to_string()),
        Some((line, _)) => return Err(wrong(line, key, "neither a string nor a number")),
    };
    parse(&text).map(Some).map_err(|why| wrong(line, key, why))
}

fn required<T>(table: &Table, key: &str, value: Option<T>) -> Result<T, FileError> {
    let missing = || FileError::new(table.line, format!("`{}` lacks its `{key}`", table.name));
    value.ok_or_else(missing)
}

/// Contents of the table of the session.
struct SessionTable {
    session: Session,
    retention: Retention,
    size_max: Option<u64>,
    is_direct: bool,
    net: Option<Relay>,
}

fn read_session(mut table: Table) -> Result<SessionTable, FileError> {
    table.check_keys(&SESSION_KEYS)?;
    let name = text(&mut table, "name")?;
    let (_, name) = required(&table, "name", name)?;
    let purpose = match text(&mut table, "purpose")? {
        None => Purpose::Record,
        Some((_, word)) if word == "record" => Purpose::Record,
        Some((_, word)) if word == "snapshot" => Purpose::Snapshot,
        Some((line, word)) => {
            let error = wrong(line, "purpose", format!("`{word}` is not known"));
            return Err(error.suggest(&word, &["record", "snapshot"]));
        }
    };
    let output = match text(&mut table, "output")? {
        Some((line, output)) if !output.starts_with('/') => {
            return Err(wrong(line, "output", format!("`{output}` is not an absolute path")));
        }
        output => output.map(|(_, output)| PathBuf::from(output)),
    };
    let parse_net = |text: &str| text.parse::<Target>().map_err(|error| error.to_string());
    let target = option(&mut table, "net", parse_net)?;
    let size_max = option(&mut table, "size-max", values::bytes)?;
    let is_direct = flag(&mut table, "direct")?.unwrap_or(false);
    let drops_oldest = match text(&mut table, "drop")? {
        None => false,
        Some((line, _)) if target.is_none() || size_max.is_none() || output.is_some() => {
            return Err(wrong(line, "drop", "needs `net` and `size-max`, and no `output`"));
        }
        Some((_, word)) if word == "oldest" || word == "newest" => word == "oldest",
        Some((line, word)) => {
            let error = wrong(line, "drop", format!("`{word}` is not known"));
            return Err(error.suggest(&word, &["newest", "oldest"]));
        }
    };
    let net = target.map(|target| Relay { target, drops_oldest });
    let keep_ms = option(&mut table, "keep", values::retention)?;
    let memory = option(&mut table, "memory", values::bytes)?;
    let is_retaining = keep_ms.is_some() || memory.is_some();
    if purpose == Purpose::Record && is_retaining {
        let message = "`keep` and `memory` need purpose = \"snapshot\"";
        return Err(FileError::new(table.line, message));
    }
    if purpose == Purpose::Snapshot && (size_max.is_some() || net.is_some() || is_direct) {
        let message = "`size-max`, `direct` and `net` need purpose = \"record\"";
        return Err(FileError::new(table.line, message));
    }
    let session = Session { name, purpose, output };
    let retention = Retention { keep_ms, memory };
    Ok(SessionTable { session, retention, size_max, is_direct, net })
}

fn read_rotation(mut table: Table) -> Result<Rotation, FileError> {
    table.check_keys(&CHUNK_KEYS)?;
    let files = match number(&mut table, "files")? {
        None => None,
        Some((line, files)) => {
            let narrow = u32::try_from(files).ok().filter(|files| *files >= 2);
            Some(narrow.ok_or_else(|| wrong(line, "files", "at least 2, and not that many"))?)
        }
    };
    let timeout = option(&mut table, "on-chunk-timeout", values::retention)?;
    let command = text(&mut table, "on-chunk")?.map(|(_, command)| command);
    let timeout_ms = timeout.unwrap_or(HOOK_TIMEOUT_MS);
    Ok(Rotation {
        size: option(&mut table, "size", values::bytes)?,
        age_ms: option(&mut table, "age", values::retention)?,
        files,
        total: option(&mut table, "total", values::bytes)?,
        name_pattern: text(&mut table, "name-pattern")?.map(|(_, pattern)| pattern),
        hook: command.map(|command| Hook { command, timeout_ms }),
    })
}

fn read_channel(mut table: Table, above: &[SessionChannel]) -> Result<SessionChannel, FileError> {
    if table.has("of") || table.has("share") {
        return read_part(table, above);
    }
    table.check_keys(&CHANNEL_KEYS)?;
    let name = text(&mut table, "name")?;
    let (_, name) = required(&table, "name", name)?;
    let is_kernel = match text(&mut table, "domain")? {
        None => false,
        Some((_, word)) if word == "user" => false,
        Some((_, word)) if word == "kernel" => true,
        Some((line, word)) => {
            let error = wrong(line, "domain", format!("`{word}` is not known"));
            return Err(error.suggest(&word, &["user", "kernel"]));
        }
    };
    let is_shared = flag(&mut table, "shared")?.unwrap_or(false);
    let overwrites = flag(&mut table, "overwrite")?.unwrap_or(false);
    let context = |value| item_text(value).and_then(|text| values::context(&text));
    let contexts: Vec<Context> = list(&mut table, "contexts", context)?;
    let channel = Channel {
        mode: if overwrites { Mode::Overwrite } else { Mode::Discard },
        subbuffer_size: option(&mut table, "subbuf-size", values::size)?,
        subbuffer_count: option(&mut table, "num-subbuf", values::count)?,
        contexts,
        wait_us: option(&mut table, "blocking", values::blocking)?.unwrap_or(0),
        event_size: option(&mut table, "string-max", values::string_max)?,
        ..Channel::named(name)
    };
    let sharing = is_shared.then_some(Sharing::Shared);
    Ok(SessionChannel { channel, is_kernel, sharing })
}

/// Reads a part of a shared channel, which must be above.
fn read_part(mut table: Table, above: &[SessionChannel]) -> Result<SessionChannel, FileError> {
    table.check_keys(&PART_KEYS)?;
    let name = text(&mut table, "name")?;
    let (_, name) = required(&table, "name", name)?;
    let of = text(&mut table, "of")?;
    let (line, of) = required(&table, "of", of)?;
    let is_meant =
        |one: &&SessionChannel| one.channel.name == of && one.sharing == Some(Sharing::Shared);
    let Some(shared) = above.iter().find(is_meant) else {
        let error = wrong(line, "of", format!("there is no shared channel `{of}` above"));
        let hint = Some("its [[channel]] has `shared = true`".to_owned());
        return Err(FileError { hint, ..error });
    };
    let percent = option(&mut table, "share", values::percent)?;
    let percent = required(&table, "share", percent)?;
    let channel = SessionChannel::new(Channel::named(name), shared.is_kernel);
    Ok(SessionChannel { sharing: Some(Sharing::Part { of, percent }), ..channel })
}

fn read_rule(mut table: Table, channels: &[SessionChannel]) -> Result<RedactedRule, FileError> {
    table.check_keys(&RULE_KEYS)?;
    let channel = text(&mut table, "channel")?;
    let (line, channel) = required(&table, "channel", channel)?;
    let Some(known) = channels.iter().find(|one| one.channel.name == channel) else {
        let names = channels.iter().map(|one| one.channel.name.as_str());
        let near = blkkin_filter::suggest(&channel, names);
        let hint = near.map_or_else(
            || "a rule follows its [[channel]]".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        let error = wrong(line, "channel", format!("there is no channel `{channel}` above"));
        return Err(FileError { hint: Some(hint), ..error });
    };
    let patterns = |table: &mut Table, key: &str| {
        let line = table.line_of(key);
        let names = list(table, key, item_text)?;
        check_patterns(&names).map_err(|error| wrong(line, key, error.message()))?;
        Ok::<_, FileError>(names)
    };
    let names = patterns(&mut table, "events")?;
    let names = required(&table, "events", Some(names).filter(|names| !names.is_empty()))?;
    let excluded = patterns(&mut table, "exclude")?;
    let level = option(&mut table, "level", values::level)?;
    let level_only = option(&mut table, "level-only", values::level)?;
    let levels = match (level, level_only) {
        (None, None) => Levels::Any,
        (Some(level), None) => Levels::AtLeast { level },
        (None, Some(level)) => Levels::Exactly { level },
        (Some(_), Some(_)) => {
            let message = "a rule has either `level` or `level-only`";
            return Err(FileError::new(table.line, message));
        }
    };
    let filter = text(&mut table, "filter")?;
    if let Some((line, filter)) = &filter {
        Filter::parse_for_recording(filter).map_err(|error| wrong(*line, "filter", error))?;
    }
    let pid = |value| match value {
        Value::Number(pid) => u32::try_from(pid).map_err(|_| format!("{pid} is no process id")),
        _ => Err("not an array of numbers".to_owned()),
    };
    let processes = Processes {
        pids: list(&mut table, "pids", pid)?,
        executables: list(&mut table, "executables", item_text)?,
        children: flag(&mut table, "children")?.unwrap_or(false),
    };
    let line = table.line_of("redact");
    let redaction =
        |value| item_text(value)?.parse::<Redaction>().map_err(|error| error.to_string());
    let redactions = list(&mut table, "redact", redaction)?;
    if !redactions.is_empty() && !known.is_kernel {
        return Err(wrong(line, "redact", "only events of the kernel are redacted"));
    }
    let enabled = flag(&mut table, "enabled")?.unwrap_or(true);
    let filter = filter.map(|(_, filter)| filter);
    let selection = Selection { names, excluded, levels, filter, processes };
    Ok(RedactedRule { rule: Rule { channel, enabled, selection }, redactions })
}

fn read_trigger(mut table: Table) -> Result<TriggerWords, FileError> {
    table.check_keys(&TRIGGER_KEYS)?;
    let name = text(&mut table, "name")?;
    let (_, name) = required(&table, "name", name)?;
    let line = table.line_of("options");
    let words = list(&mut table, "options", item_text)?;
    match check_words(&name, &words) {
        Ok(()) => Ok(TriggerWords { name, words }),
        Err((why, hint)) => Err(FileError { hint, ..wrong(line, "options", why) }),
    }
}
