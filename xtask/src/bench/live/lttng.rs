//! LTTng's chain: its session daemon and consumer daemon, `lttng-relayd` and `babeltrace2`.

use super::chain::{self, Chain, Ports};
use crate::bench::c::{Source, compile};
use crate::bench::lttng::{self, Daemon};
use crate::bench::recipe::{Output, Recipe, Session};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A relay with a session. Both end on drop, the session first.
pub(super) struct Lttng<'d> {
    _session: Session<'d>,
    daemons: Vec<u32>,
    ports: Ports,
    timer: Duration,
    program: PathBuf,
    _relay: chain::Daemon,
    _place: Output,
}

impl Lttng<'_> {
    /// Builds the traced program in `folder`, and returns its path.
    pub(super) fn build(folder: &Path) -> Result<PathBuf, String> {
        let program = folder.join("lttng-paced");
        let source = Source {
            folders: &[Path::new("live")],
            files: &["live/paced.c"],
            libraries: &lttng::LIBRARIES,
        };
        compile(&program, &source).map(|()| program)
    }

    /// Starts a relay, which writes below `place`, and a session with a live timer.
    pub(super) fn start<'d>(
        daemon: &'d Daemon,
        program: &Path,
        place: Output,
        timer: Duration,
    ) -> Result<Lttng<'d>, String> {
        let daemon_id = daemon.id().ok_or("end the lttng-sessiond that runs, and try again")?;
        let ports = Ports::free()?;
        let Ports { control, data, live } = ports;
        let mut command = Command::new("lttng-relayd");
        for (option, port) in [("-C", control), ("-D", data), ("-L", live)] {
            command.arg(option).arg(format!("tcp://127.0.0.1:{port}"));
        }
        command.arg("--output").arg(&place.0);
        let relay = chain::Daemon::start(command)?;
        ports.wait()?;
        let recipe = Recipe {
            output: &place.0,
            is_snapshot: false,
            channel: &[],
            event: "bench:time",
            contexts: &[],
        };
        let session = daemon.live_session(timer, (control, data), &recipe)?;
        Ok(Lttng {
            _session: session,
            daemons: vec![daemon_id, relay.id()],
            ports,
            timer,
            program: program.to_owned(),
            _relay: relay,
            _place: place,
        })
    }
}

impl Chain for Lttng<'_> {
    fn daemons(&self) -> Vec<u32> {
        self.daemons.clone()
    }

    fn view(&self) -> Result<Child, String> {
        // babeltrace2 polls; a shorter interval than the timer's would only cost more. Its output
        // to a pipe has a large buffer, unless told otherwise.
        let retry = self.timer.min(POLL_INTERVAL).as_micros();
        let url = self.ports.url(&lttng::name())?;
        Command::new("stdbuf")
            .args(["--output=L", "babeltrace2", "--component=source.ctf.lttng-live"])
            .arg(format!("--params=inputs=[\"{url}\"],session-not-found-action=\"end\""))
            .arg(format!("--retry-duration={retry}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start babeltrace2: {error}; try `cargo xtask peers`"))
    }

    fn program(&self) -> Command {
        lttng::traced(&self.program)
    }
}

/// Default interval at which babeltrace2 polls.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
