//! `blkkin completions`: completion scripts for shells, and completion with names from the running
//! agent. Completion is fast and prints only candidates.

use crate::conversation::print;
use crate::exit::{Error, Exit};
use crate::values;
use blkkin_client::{Client, Timeouts};
use blkkin_control::{Applications, Processes, Reply, Request};
use blkkin_filter::Severity;
use blkkin_kernel::{Listing, ProbeKind};
use clap_complete::CompleteEnv;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{Bash, EnvCompleter, Fish, Shells, Zsh};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Environment variable that a shell sets to request completions.
const VARIABLE: &str = "BLKKIN_COMPLETE";
/// Maximum time to wait for names from the agent.
const PATIENCE: Duration = Duration::from_millis(300);
/// Maximum number of session, channel or event names that are read from the agent.
const NAMES_MAX: usize = 1000;

/// Print the script with which a shell completes commands, options and live names
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        echo 'source <(blkkin completions bash)' >> ~/.bashrc\n  \
        echo 'source <(blkkin completions zsh)' >> ~/.zshrc       behind compinit\n  \
        blkkin completions fish > ~/.config/fish/completions/blkkin.fish",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    /// Shell to print the script for
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[allow(missing_docs, reason = "the names say it")]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Bash function that completes words, and its registration. Bash splits words at `:` and `=`; the
/// function joins the parts of a word before completion. It then removes the part up to the last of
/// these characters from each candidate, because Bash replaces only the part after it.
const BASH_WORDS: &str = r#"
_blkkin() {
    local line=${COMP_LINE:0:COMP_POINT} rest word i words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        rest=${line#"${line%%[![:space:]]*}"}
        word=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && word=$rest
        if ((i > 0)) && [[ -n $rest && $rest == "$line" ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        line=${rest:${#word}}
    done
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
    local current=${words[COMP_CWORD]} end=
    _clap_complete_blkkin "$1" "$current" "$3"
    [[ $COMP_WORDBREAKS == *:* ]] && end+=:
    [[ $COMP_WORDBREAKS == *=* ]] && end+==
    [[ -n $end ]] && COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*[$end]}"}"}")
}
complete -o nospace -o bashdefault -F _blkkin blkkin
"#;

/// Zsh code for an autoloaded script. At the first completion, zsh runs the script `_blkkin` and
/// expects candidates from it.
const ZSH_FIRST: &str = r#"
[[ ${funcstack[1]} == _blkkin ]] && _clap_dynamic_completer_blkkin "$@"
true
"#;

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let mut script = Vec::new();
    let completer: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
    };
    completer.write_registration(VARIABLE, "blkkin", "blkkin", "blkkin", &mut script)?;
    let mut script = String::from_utf8_lossy(&script).into_owned();
    match args.shell {
        Shell::Bash => script += BASH_WORDS,
        Shell::Zsh => script += ZSH_FIRST,
        Shell::Fish => {}
    }
    print(&script)?;
    Ok(Exit::Ok)
}

/// Prints candidates for the current word if a shell started this program for completion; otherwise
/// returns `None`.
pub(crate) fn offer(command: fn() -> clap::Command) -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    let shells: [&dyn EnvCompleter; 3] = [&Bash, &Zsh, &Fish];
    let words = CompleteEnv::with_factory(command).var(VARIABLE).shells(Shells(&shells));
    let directory = std::env::current_dir().ok();
    match words.try_complete(std::env::args_os(), directory.as_deref()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        // A message would appear in the line that the user is editing.
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Returns the names of sessions, as completion candidates.
pub(crate) fn sessions() -> Vec<CompletionCandidate> {
    names(Request::ListSessions(None), |reply| match reply {
        Reply::Session(state) => Some(state.session.name),
        _ => None,
    })
}

/// Returns channel names as completion candidates. They belong to the session on the command line
/// or, if it names none, to all sessions.
pub(super) fn channels() -> Vec<CompletionCandidate> {
    let session = option_before(std::env::args_os(), "-s", "--session");
    names(Request::ListSessions(session), |reply| match reply {
        Reply::Channel(channel) | Reply::KernelChannel(channel) => Some(channel.name),
        _ => None,
    })
}

/// Returns the names of event types of running programs, as completion candidates.
pub(super) fn events() -> Vec<CompletionCandidate> {
    let applications = Applications { processes: Processes::default(), event_types: true };
    names(Request::ListApplications(applications), |reply| match reply {
        Reply::EventType(event_type) => Some(event_type.name),
        _ => None,
    })
}

/// Returns the names of probes that begin with `current`, as completion candidates; without a colon
/// in it, the words that names begin with.
pub(super) fn probes_from(current: &str) -> Vec<CompletionCandidate> {
    let listing = Listing::new();
    let mut names = BTreeSet::new();
    match current.split_once(':') {
        Some((_, rest)) if !rest.contains('*') => {
            let found = listing.find(&format!("{current}*")).probes;
            let found = found.into_iter().map(|probe| probe.name);
            names.extend(found.filter(|name| is_plain(name)).take(NAMES_MAX));
        }
        Some(_) => {}
        None => {
            let kinds = ProbeKind::ALL.into_iter().filter(|kind| *kind != ProbeKind::Tracepoint);
            names.extend(kinds.map(|kind| format!("{}:", kind.word())));
            let events = listing.names(ProbeKind::Tracepoint).unwrap_or_default();
            let subsystems = events.iter().filter_map(|name| name.split(':').next());
            names.extend(subsystems.map(|name| format!("{name}:")));
            names.retain(|name| name.starts_with(current) && is_plain(name));
        }
    }
    names.into_iter().map(CompletionCandidate::new).collect()
}

pub(super) fn levels() -> Vec<CompletionCandidate> {
    Severity::words().map(CompletionCandidate::new).collect()
}

pub(super) fn redactions() -> Vec<CompletionCandidate> {
    ["*=hash", "*=length", "filename=hash", "filename=length"].map(CompletionCandidate::new).into()
}

pub(super) fn contexts() -> Vec<CompletionCandidate> {
    values::contexts().map(CompletionCandidate::new).collect()
}

/// Returns the names in the agent's reply that pass [`is_plain`], sorted, at most [`NAMES_MAX`].
/// Returns no names if the request fails, or if reading the reply takes longer than [`PATIENCE`].
fn names(request: Request, name: fn(Reply) -> Option<String>) -> Vec<CompletionCandidate> {
    let (sender, names) = mpsc::channel();
    // The thread of a slow agent is not joined: it ends with the process.
    let asking = thread::Builder::new().spawn(move || {
        let patience = Timeouts { opening: PATIENCE, item: PATIENCE };
        let release = env!("CARGO_PKG_VERSION");
        let client = Client::connect(&blkkin_client::addresses(), "blkkin", release, patience);
        let Ok(mut client) = client else { return };
        let Ok(replies) = client.request(&request) else { return };
        let mut names = BTreeSet::new();
        for reply in replies {
            let Ok(reply) = reply else { break };
            names.extend(name(reply).filter(|name| is_plain(name)));
            if names.len() >= NAMES_MAX {
                break;
            }
        }
        // The receiver may have timed out.
        let _ = sender.send(names);
    });
    if asking.is_err() {
        return Vec::new();
    }
    let names = names.recv_timeout(PATIENCE).unwrap_or_default();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns true if a shell reads the name literally. Names are chosen by other programs, and a
/// candidate is inserted into the user's command line, so a name such as `$(reboot)` must not be
/// offered.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '+' | '@');
    name.chars().all(plain) && !name.starts_with('-')
}

/// Returns the last value of an option on the command line; `None` if it is missing or empty.
fn option_before(
    words: impl IntoIterator<Item = OsString>,
    short: &str,
    long: &str,
) -> Option<String> {
    let mut given = None;
    let mut words = words.into_iter().filter_map(|word| word.into_string().ok());
    while let Some(word) = words.next() {
        if word == short || word == long {
            given = words.next();
        } else if let Some(value) = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='))
        {
            given = Some(value.to_owned());
        }
    }
    given.filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_shells_take_as_they_are() {
        for name in ["web", "zipkin:keyval", "a.b-c_d", "größe", "x@y+1"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["$(reboot)", "a b", "-rf", "a;b", "`x`", "a'b", "a\"", "*", "~", "#x", "a&b"] {
            assert!(!is_plain(name), "{name}");
        }
    }

    #[test]
    fn the_session_on_the_line() {
        let check = |line: &str, expected: Option<&str>| {
            let words = line.split(' ').map(OsString::from);
            assert_eq!(option_before(words, "-s", "--session").as_deref(), expected, "{line}");
        };
        check("blkkin event enable -s web -c ", Some("web"));
        check("blkkin event enable --session web -c ", Some("web"));
        check("blkkin event enable --session=web -c ", Some("web"));
        check("blkkin event enable -c ", None);
        check("blkkin event enable -s ", None);
    }
}
