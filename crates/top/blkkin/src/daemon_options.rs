//! Options of daemons from the environment, and of `blkkin server` from a file. Start at
//! [`complete`].
//!
//! Each option becomes an argument of the command line, so all sources share syntax and error
//! messages.

use crate::exit::Error;
use clap::{ArgAction, Command};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;

/// Commands with options in environment variables such as `BLKKIN_SERVER_KEEP`.
const COMMANDS: [&str; 2] = ["relay", "server"];

/// Option of a daemon; a flag has no value.
struct DaemonOption {
    name: String,
    is_flag: bool,
}

/// Appends options that are missing in the arguments `words`: first from the environment, then from
/// the configuration file. Arguments of other commands are returned unchanged.
pub(crate) fn complete(
    mut words: Vec<OsString>,
    command: &Command,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<OsString>, Error> {
    let name = COMMANDS.into_iter().find(|name| words.get(1).is_some_and(|word| word == name));
    let Some(daemon) = name.and_then(|name| command.find_subcommand(name)) else {
        return Ok(words);
    };
    let prefix = format!("BLKKIN_{}_", daemon.get_name().to_ascii_uppercase());
    let options: Vec<DaemonOption> = daemon
        .get_arguments()
        .filter_map(|argument| {
            let is_flag = !matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
            Some(DaemonOption { name: argument.get_long()?.to_owned(), is_flag })
        })
        .filter(|option| option.name != "help")
        .collect();
    let mut given: BTreeSet<String> = words[2..].iter().filter_map(|word| name_of(word)).collect();
    let mut added = Vec::new();
    for option in &options {
        let name = format!("{prefix}{}", option.name.replace('-', "_").to_ascii_uppercase());
        let value = variable(&name).filter(|value| !value.is_empty());
        let Some(value) = value.filter(|_| !given.contains(&option.name)) else { continue };
        let value = value.into_string().map_err(|_| Error::usage(format!("{name} is no text")))?;
        for value in value.split_whitespace() {
            added.extend(option.word(value).map_err(|why| Error::usage(format!("{name}: {why}")))?);
        }
        given.insert(option.name.clone());
    }
    let has_file = options.iter().any(|option| option.name == "config");
    let path = value_of(words.iter().skip(2).chain(&added), "--config");
    if let Some(path) = path.filter(|_| has_file) {
        let shown = path.display().to_string();
        let text = fs::read_to_string(&path)
            .map_err(|error| Error::failed(format!("cannot read {shown}: {error}")))?;
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |why: &str| Error::usage(format!("{shown}, line {number}: {why}"));
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, value) = line.split_once('=').ok_or_else(|| wrong("not OPTION = VALUE"))?;
            let (name, value) = (name.trim(), value.trim());
            let option = options.iter().find(|options| options.name == name && name != "config");
            let option = option.ok_or_else(|| wrong(&format!("there is no option `{name}`")))?;
            if !given.contains(name) {
                added.extend(option.word(value).map_err(|why| wrong(&why))?);
            }
        }
    }
    words.extend(added);
    Ok(words)
}

impl DaemonOption {
    /// Returns the command-line argument that sets this option to `value`; `None` for a flag that
    /// is off.
    fn word(&self, value: &str) -> Result<Option<OsString>, String> {
        let name = &self.name;
        match (self.is_flag, value) {
            (false, value) => Ok(Some(format!("--{name}={value}").into())),
            (true, "true" | "1") => Ok(Some(format!("--{name}").into())),
            (true, "false" | "0") => Ok(None),
            (true, other) => Err(format!("`{name}` is true or false, not `{other}`")),
        }
    }
}

/// Returns the option's name in a command-line argument, without `--` and value; `None` if the
/// argument is no option.
fn name_of(word: &OsStr) -> Option<String> {
    let name = word.to_str()?.strip_prefix("--")?;
    Some(name.split('=').next().unwrap_or(name).to_owned())
}

/// Returns the value of an option: from its own argument after `=`, or else the next argument.
fn value_of<'w>(
    mut words: impl Iterator<Item = &'w OsString>,
    option: &str,
) -> Option<std::path::PathBuf> {
    while let Some(word) = words.next() {
        if word == option {
            return words.next().map(Into::into);
        }
        let value = word.to_str().and_then(|word| word.strip_prefix(option)?.strip_prefix('='));
        if let Some(value) = value {
            return Some(value.into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn completed(
        words: &[&str],
        variables: &[(&str, &str)],
        file: &str,
    ) -> Result<Vec<String>, String> {
        let path = tempfile::NamedTempFile::new().expect("a file");
        fs::write(path.path(), file).expect("written");
        let config = format!("--config={}", path.path().display());
        let mut all = vec!["blkkin", "server"];
        if !file.is_empty() {
            all.push(&config);
        }
        all.extend(words);
        let variable = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(value))
        };
        let own = all.len() - words.len();
        let all = all.iter().map(OsString::from).collect();
        let completed = complete(all, &crate::Cli::command(), variable);
        let completed = completed.map_err(|error| format!("{error:?}"))?;
        let text = |word: OsString| word.into_string().expect("text");
        Ok(completed.into_iter().skip(own).map(text).collect())
    }

    #[track_caller]
    fn check(words: &[&str], variables: &[(&str, &str)], file: &str, expected: &[&str]) {
        assert_eq!(completed(words, variables, file).expect("good options"), expected);
    }

    #[test]
    fn the_command_line_goes_before_the_environment_and_that_before_the_file() {
        let file = "# ours\n\nkeep = 30d\nlisten = 9411\nlisten=[::1]:9411\nmemory = false\n";
        check(&[], &[], file, &["--keep=30d", "--listen=9411", "--listen=[::1]:9411"]);
        check(&["--listen", "1"], &[], file, &["--listen", "1", "--keep=30d"]);
        check(&["--keep=1h", "--listen=1"], &[], file, &["--keep=1h", "--listen=1"]);
        let variables = [("BLKKIN_SERVER_KEEP", "2h"), ("BLKKIN_SERVER_LISTEN", " 1  2 ")];
        check(&[], &variables, file, &["--keep=2h", "--listen=1", "--listen=2"]);
        check(&["--keep=1h"], &variables, "", &["--keep=1h", "--listen=1", "--listen=2"]);
        check(&[], &[("BLKKIN_SERVER_MEMORY", "1")], "", &["--memory"]);
        check(&[], &[("BLKKIN_SERVER_MEMORY", "0"), ("BLKKIN_SERVER_KEEP", "")], "", &[]);
        check(&[], &[("BLKKIN_SOCKET", "x")], "", &[]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |variables: &[(&str, &str)], file: &str, expected: &str| {
            let error = completed(&[], variables, file).expect_err("a mistake");
            assert!(error.contains(expected), "{error}");
        };
        check(&[], "\nkept = 1d\n", "line 2: there is no option `kept`");
        check(&[], "config = other\n", "line 1: there is no option `config`");
        check(&[], "keep\n", "line 1: not OPTION = VALUE");
        check(&[], "memory = maybe\n", "line 1: `memory` is true or false, not `maybe`");
        check(&[("BLKKIN_SERVER_MEMORY", "on")], "", "BLKKIN_SERVER_MEMORY: `memory` is true");
        check(&[("BLKKIN_SERVER_CONFIG", "/nowhere/server.conf")], "", "cannot read /nowhere");
    }

    #[test]
    fn relays_have_variables_of_their_own() {
        let variable = |name: &str| match name {
            "BLKKIN_RELAY_LISTEN" => Some("10.0.0.1".into()),
            "BLKKIN_RELAY_TRUSTED_NETWORK" => Some("10.0.0.0/8 127.0.0.1".into()),
            _ => None,
        };
        let words = ["blkkin", "relay"].map(OsString::from).into();
        let found = complete(words, &crate::Cli::command(), variable).expect("good options");
        let networks = ["--trusted-network=10.0.0.0/8", "--trusted-network=127.0.0.1"];
        assert_eq!(found[2..], ["--listen=10.0.0.1", networks[0], networks[1]]);
    }

    #[test]
    fn other_commands_are_left_alone() {
        let words: Vec<OsString> = ["blkkin", "status", "server"].map(OsString::from).into();
        let variable = |_: &str| Some("x".into());
        let found = complete(words.clone(), &crate::Cli::command(), variable);
        assert_eq!(found.expect("nothing to do"), words);
    }
}
