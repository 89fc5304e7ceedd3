//! `blkkin service`: recorders that are registered once and record whenever the machine runs.
//!
//! A recorder is a file in `recorders.d` (`recorder`): a session's definition, with triggers. Its
//! process (`runner`) keeps the session at the agent. It is started by systemd or by this command
//! (`manager`).

mod import;
mod list;
mod logs;
mod manager;
mod recorder;
mod runner;

use crate::commands::session::saved;
use crate::exit::{Error, Exit, note, warn};
use crate::process_lock::Process;
use manager::{Manager, StartState};
use recorder::{Recorder, named};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// Register recorders, which record whenever the machine runs
///
/// A recorder is a file that says what to record: a session as of `blkkin session save`, with
/// channels, events, limits, chunks or a relay, and triggers. It has a process of its own, which
/// makes the session, makes it again when it is gone, and ends it when it is stopped.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin session save web | blkkin service add - --name web --enable --now\n  \
        blkkin service list\n  \
        blkkin service status web\n  \
        blkkin service import /etc/systemtap",
    after_help = crate::help::AGENT_HELP,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    Add(Add),
    Remove(Names),
    /// Start recorders with the machine
    #[command(
        before_help = "Examples:\n  \
            blkkin service enable web --now",
        after_help = crate::help::EXIT_HELP
    )]
    Enable(Enabling),
    /// Do not start recorders with the machine
    #[command(
        before_help = "Examples:\n  \
            blkkin service disable web --now",
        after_help = crate::help::EXIT_HELP
    )]
    Disable(Enabling),
    #[command(visible_alias = "ls")]
    List(list::List),
    Start(Start),
    /// Stop recorders: their sessions and triggers end
    #[command(
        before_help = "Examples:\n  \
            blkkin service stop web\n  \
            blkkin service stop                                   all",
        after_help = crate::help::EXIT_HELP
    )]
    Stop(Recorders),
    /// Let running recorders read their changed files
    ///
    /// The files are checked first: if one is wrong, all recorders go on as before. A recorder
    /// whose file has changed ends its session and begins another one.
    #[command(
        before_help = "Examples:\n  \
            blkkin service add web.toml --replace && blkkin service reload web",
        after_help = crate::help::EXIT_HELP
    )]
    Reload(Recorders),
    Status(list::Status),
    Log(logs::Log),
    Check(Check),
    Import(import::Import),
    #[command(hide = true)]
    Run(Run),
}

/// Register a recorder: check its file, and copy it to recorders.d
///
/// The session gets the recorder's name. Each start of the recorder makes a new directory NAME-DATE
/// below the session's `output`.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin service add web.toml\n  \
        blkkin service add web.toml --enable --now\n  \
        blkkin session save web | blkkin service add - --name web",
    after_help = crate::help::EXIT_HELP
)]
struct Add {
    /// File of the recorder; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Name of the recorder [default: the file's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Replace the file of a recorder with this name; `blkkin service reload` puts it into effect
    #[arg(long)]
    replace: bool,

    /// Start it with the machine
    #[arg(long)]
    enable: bool,

    /// Start it now
    #[arg(long)]
    now: bool,
}

/// Stop recorders and remove their files; what they have recorded stays
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin service remove web",
    after_help = crate::help::EXIT_HELP
)]
struct Names {
    /// Names of the recorders
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

/// Recorders to start with the machine, or not.
#[derive(clap::Args, Debug)]
struct Enabling {
    /// Names of the recorders; all without any
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Start or stop them now, too
    #[arg(long)]
    now: bool,
}

/// Recorders that a command acts on.
#[derive(clap::Args, Debug)]
struct Recorders {
    /// Names of the recorders; all without any
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Start recorders
///
/// The files of all recorders are checked before one is started.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin service start web\n  \
        blkkin service start                                  all\n  \
        blkkin service start --enabled                        those that start with the machine",
    after_help = crate::help::AGENT_HELP
)]
struct Start {
    /// Names of the recorders; all without any
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Start only the enabled ones
    #[arg(long, conflicts_with = "names")]
    enabled: bool,
}

/// Check files of recorders, and change nothing
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin service check web\n  \
        blkkin service check ./web.toml",
    after_help = crate::help::EXIT_HELP
)]
struct Check {
    /// Names of recorders, or paths of files; all recorders without any
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Record until a signal ends this process: SIGHUP reads the file again, SIGUSR2 rotates
#[derive(clap::Args, Debug)]
struct Run {
    /// Name of the recorder
    #[arg(value_name = "NAME")]
    name: String,

    /// Go on when the terminal is closed
    #[arg(long)]
    background: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    match args.command {
        Command::Add(add) => register(&add),
        Command::Remove(Names { names }) => each(&named(&names)?, remove),
        Command::Enable(Enabling { names, now }) => enable(&named(&names)?, now),
        Command::Disable(Enabling { names, now }) => each(&named(&names)?, |recorder| {
            Manager::find().set_enabled(recorder, false)?;
            note(&format!("recorder `{}` does not start with the machine", recorder.name()));
            if now { stop(recorder) } else { Ok(()) }
        }),
        Command::List(args) => list::list(&args),
        Command::Start(Start { names, enabled }) => {
            let mut recorders = named(&names)?;
            recorders.retain(|recorder| !enabled || recorder.is_enabled());
            start_all(&recorders)
        }
        Command::Stop(Recorders { names }) => each(&named(&names)?, stop),
        Command::Reload(Recorders { names }) => reload(&named(&names)?),
        Command::Status(args) => list::status(&args),
        Command::Log(args) => logs::run(&args),
        Command::Check(Check { names }) => check(&names),
        Command::Import(args) => import::run(&args),
        Command::Run(Run { name, background }) => {
            if background {
                let _ = rustix::process::setsid();
            }
            runner::run(&Recorder::existing(&name)?)
        }
    }
}

/// Acts on each recorder. An error of one does not keep the others from being acted on.
fn each(
    recorders: &[Recorder],
    act: impl Fn(&Recorder) -> Result<(), Error>,
) -> Result<Exit, Error> {
    let mut failures: Vec<Error> = recorders.iter().filter_map(|one| act(one).err()).collect();
    let last = failures.pop();
    for error in failures {
        error.report();
    }
    last.map_or(Ok(Exit::Ok), Err)
}

fn register(add: &Add) -> Result<Exit, Error> {
    let text = saved::read(&add.file)?;
    let name = match (&add.name, add.file.file_stem().and_then(|stem| stem.to_str())) {
        (Some(name), _) => name.clone(),
        (None, Some(stem)) if stem != "-" => stem.to_owned(),
        _ => {
            let told = Error::usage("the recorder has no name");
            return Err(told.hint("give one with --name"));
        }
    };
    let recorder = Recorder::new(&name)?;
    recorder.checked(&add.file, &text)?;
    recorder.write(&text, add.replace)?;
    note(&format!("recorder `{name}` added: {}", recorder.file().display()));
    let all = [recorder];
    match (add.enable, add.now) {
        (true, now) => enable(&all, now),
        (false, true) => start_all(&all),
        (false, false) => Ok(Exit::Ok),
    }
}

fn remove(recorder: &Recorder) -> Result<(), Error> {
    let manager = Manager::find();
    if recorder.is_enabled() {
        manager.set_enabled(recorder, false)?;
    }
    manager.stop(recorder)?;
    recorder.remove()?;
    note(&format!("recorder `{}` removed; what it has recorded stays", recorder.name()));
    Ok(())
}

fn enable(recorders: &[Recorder], now: bool) -> Result<Exit, Error> {
    let manager = Manager::find();
    recorders.iter().try_for_each(|recorder| recorder.definition().map(drop))?;
    for recorder in recorders {
        manager.set_enabled(recorder, true)?;
        note(&format!("recorder `{}` starts with the machine", recorder.name()));
    }
    if manager == Manager::Own && !recorders.is_empty() && !has_start_script() {
        warn(
            "nothing starts recorders here: there is neither systemd's unit nor /etc/init.d/blkkin",
        );
    }
    if now { start_all(recorders) } else { Ok(Exit::Ok) }
}

/// Returns whether an init script, or a user's own means, starts the enabled recorders.
fn has_start_script() -> bool {
    blkkin_sys::user_id() != 0 || Path::new("/etc/init.d/blkkin").exists()
}

fn start_all(recorders: &[Recorder]) -> Result<Exit, Error> {
    recorders.iter().try_for_each(|recorder| recorder.definition().map(drop))?;
    let manager = Manager::find();
    each(recorders, |recorder| {
        let name = recorder.name();
        if recorder.process() != Process::Down {
            note(&format!("recorder `{name}` runs"));
            return Ok(());
        }
        match manager.start(recorder)? {
            StartState::Recording => {
                let state = recorder.state();
                let output = state["output"].as_str().map(|output| format!(" to {output}"));
                note(&format!("recorder `{name}` records{}", output.unwrap_or_default()));
            }
            StartState::Waiting(why) => warn(&format!("recorder `{name}` waits: {why}")),
        }
        Ok(())
    })
}

fn stop(recorder: &Recorder) -> Result<(), Error> {
    let name = recorder.name();
    let manager = Manager::find();
    // systemd may be about to start it again.
    if recorder.process() == Process::Down && manager == Manager::Own {
        note(&format!("recorder `{name}` does not run"));
        return Ok(());
    }
    manager.stop(recorder)?;
    note(&format!("recorder `{name}` stopped"));
    Ok(())
}

fn reload(recorders: &[Recorder]) -> Result<Exit, Error> {
    recorders.iter().try_for_each(|recorder| recorder.definition().map(drop))?;
    each(recorders, |recorder| {
        let told = match recorder.lock().signal(Signal::HUP)? {
            true => "reads its file again",
            false => "does not run",
        };
        note(&format!("recorder `{}` {told}", recorder.name()));
        Ok(())
    })
}

fn check(names: &[String]) -> Result<Exit, Error> {
    let is_path = |name: &&String| name.contains('/') || name.ends_with(".toml");
    let (paths, names): (Vec<&String>, Vec<&String>) = names.iter().partition(is_path);
    for path in &paths {
        let path = Path::new(path);
        saved::parse(path, &saved::read(path)?)?.check()?;
    }
    let names: Vec<String> = names.into_iter().cloned().collect();
    let recorders = if names.is_empty() && !paths.is_empty() { Vec::new() } else { named(&names)? };
    recorders.iter().try_for_each(|recorder| recorder.definition().map(drop))?;
    let count = (paths.len() + recorders.len()) as u64;
    note(&format!("{} can be used", crate::output::plural(count, "file")));
    Ok(Exit::Ok)
}
