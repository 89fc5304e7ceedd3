//! Settings from environment variables, read once, before `main`. `docs/environment.md` lists all
//! variables; see also [`daemon`](super).

use crate::sample;
use blkkin_control::address::SocketEnvironment;
use blkkin_control::limits::PROGRAM_SIZE_MAX;
use std::env;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// Environment variable; 1 disables the library.
const DISABLE: &str = "BLKKIN_DISABLE";
/// Environment variable; 1 enables reports on standard error: invalid variables, and problems with
/// an agent.
const DEBUG: &str = "BLKKIN_DEBUG";
/// Environment variable with the maximum time to wait for an agent's rules, in milliseconds.
/// Applies before `main`, and to a child's first event.
const WAIT: &str = "BLKKIN_WAIT";
/// Environment variable with the program's name, as users see it.
const PROGRAM: &str = "BLKKIN_PROGRAM";

/// Settings of this process, read from environment variables before `main`.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Set if the library must do nothing.
    pub(super) is_inert: bool,
    /// Set if invalid variables and problems with an agent are reported on standard error.
    pub(super) reports_mistakes: bool,
    /// Time limits on waiting for an agent.
    pub(super) wait_limits: WaitLimits,
    /// The program's name, as users see it.
    pub(super) program: String,
    /// Paths where agents may listen.
    pub(super) sockets: Vec<PathBuf>,
}

/// Time limits on waiting for an agent, before `main` and at a child's first event. The limits
/// count from the start of the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitLimits {
    /// Limit on the time until the agent has accepted the program.
    pub(super) acceptance: Duration,
    /// Limit on the time until an agent that has accepted the program has sent its rules.
    pub(super) rules: Duration,
}

impl WaitLimits {
    /// Limits if `BLKKIN_WAIT` is unset, empty or invalid. A stopped agent delays the program by at
    /// most `acceptance`, and a busy agent by at most `rules`.
    pub(super) const DEFAULT: WaitLimits =
        WaitLimits { acceptance: Duration::from_millis(500), rules: Duration::from_secs(2) };
    pub(super) const NONE: WaitLimits =
        WaitLimits { acceptance: Duration::ZERO, rules: Duration::ZERO };

    /// Returns limits of `wait` for both acceptance and rules.
    pub(super) fn of(wait: Duration) -> WaitLimits {
        WaitLimits { acceptance: wait, rules: wait }
    }
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Returns the settings, which are read before `main`.
pub(super) fn get() -> &'static Settings {
    SETTINGS.get_or_init(read)
}

/// Reports a problem on standard error, if reports are enabled.
pub(super) fn report(what: impl FnOnce() -> String) {
    if SETTINGS.get().is_some_and(|settings| settings.reports_mistakes) {
        write(&what());
    }
}

fn write(what: &str) {
    let _ = std::io::stderr().write_all(format!("blkkin: {what}\n").as_bytes());
}

fn read() -> Settings {
    // Set-user-id and similar programs have more rights than their user, so the environment is
    // ignored.
    if blkkin_sys::process::is_privileged() {
        return Settings { is_inert: true, ..Settings::default() };
    }
    let text = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let mut mistakes = Vec::new();
    let mut flag = |name: &str| match text(name) {
        None => false,
        Some(value) if value == "0" || value == "1" => value == "1",
        Some(value) => {
            mistakes.push(format!("{name} is {value:?}; it can be 0 or 1"));
            false
        }
    };
    let (is_disabled, reports_mistakes) = (flag(DISABLE), flag(DEBUG));
    if is_disabled {
        return Settings { is_inert: true, reports_mistakes, ..Settings::default() };
    }
    let wait = text(WAIT).and_then(|value| {
        let number = value.to_str().and_then(|value| value.parse::<u32>().ok());
        if number.is_none() {
            mistakes.push(format!("{WAIT} is {value:?}; it is a number of milliseconds"));
        }
        number
    });
    let wait = wait.map(|wait| Duration::from_millis(wait.into()));
    if let Some(value) = text(sample::VARIABLE) {
        match value.to_str().unwrap_or("?").parse() {
            Ok(rules) => sample::set_default(rules),
            Err(error) => mistakes.push(format!("{}: {error}", sample::VARIABLE)),
        }
    }
    if reports_mistakes {
        mistakes.iter().for_each(|mistake| write(mistake));
    }
    Settings {
        is_inert: false,
        reports_mistakes,
        wait_limits: wait.map_or(WaitLimits::DEFAULT, WaitLimits::of),
        program: program(text(PROGRAM).map(|name| name.to_string_lossy().into_owned())),
        sockets: SocketEnvironment::new(blkkin_sys::user_id(), text).candidates(),
    }
}

/// Returns the program name to show: `given`, or else the executable file's name; empty if neither
/// is known. Control characters are removed, and the name is truncated to [`PROGRAM_SIZE_MAX`]
/// bytes at a boundary of characters.
fn program(given: Option<String>) -> String {
    let of_file = || {
        let path = env::current_exe().ok()?;
        Some(path.file_name()?.to_string_lossy().into_owned())
    };
    let name = given.or_else(of_file).unwrap_or_default();
    let mut shown = String::new();
    for letter in name.chars().filter(|letter| !letter.is_control()) {
        if shown.len() + letter.len_utf8() > PROGRAM_SIZE_MAX {
            break;
        }
        shown.push(letter);
    }
    shown
}
