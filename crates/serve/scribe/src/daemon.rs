//! The Scribe daemon: a server and the router of its messages. Start at [`Daemon::start`].

use crate::plan::Plan;
use crate::router::{Control, Router};
use blkkin_scribe::{RunningServer, Server, ServerCounters, ServerOptions};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Options of the daemon that are not part of the configuration.
pub struct Options {
    /// Address on which the server accepts connections.
    pub listen: SocketAddr,
    /// Directory of the journals; a directory in the configuration takes precedence.
    pub directory: PathBuf,
    /// Function that reads the configuration, called at the start and on each reload.
    pub configure: Box<dyn Fn() -> Plan>,
    /// Function that writes a line to the daemon's log.
    pub log: fn(&str),
}

/// Running daemon, controlled by a [`Remote`].
pub struct Daemon {
    options: Options,
    server: RunningServer<Router>,
    control: Sender<Control>,
    commands: Receiver<Control>,
}

/// Time that open calls have to finish when the daemon stops.
const PATIENCE: Duration = Duration::from_secs(15);

/// Handle that reloads or stops a daemon from other threads.
#[derive(Clone, Debug)]
pub struct Remote(Sender<Control>);

impl Remote {
    /// Requests that the daemon reload its configuration; does not wait.
    pub fn reload(&self) {
        let _ = self.0.send(Control::Reload);
    }

    /// Requests that the daemon stop; does not wait.
    pub fn stop(&self) {
        let _ = self.0.send(Control::Stop);
    }
}

impl Daemon {
    /// Binds the address, resumes delivery of messages in the journals, and starts to accept calls.
    pub fn start(options: Options) -> io::Result<Daemon> {
        let plan = (options.configure)();
        let usual = ServerOptions::default();
        let connections_max = plan.connections_max.unwrap_or(usual.connections_max);
        let server = Server::bind(options.listen, ServerOptions { connections_max, ..usual })?;
        let (control, commands) = channel();
        let router = Router::new(control.clone(), options.log);
        begin(&router, plan, &options);
        let server = server.start(router)?;
        Ok(Daemon { options, server, control, commands })
    }

    /// Returns the address on which the server accepts connections.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns a handle that reloads or stops the daemon from other threads.
    pub fn remote(&self) -> Remote {
        Remote(self.control.clone())
    }

    /// Returns the counters of the server's connections and calls.
    pub fn counters(&self) -> ServerCounters {
        self.server.counters()
    }

    /// Runs until [`Remote::stop`] or a permitted `shutdown` call, handling reloads. On return,
    /// open calls are answered, unless they exceed `PATIENCE`, and accepted messages are durable.
    pub fn run(mut self) {
        while let Ok(Control::Reload) = self.commands.recv() {
            (self.options.log)("reading the configuration again");
            let router = self.server.handler();
            router.end();
            begin(router, (self.options.configure)(), &self.options);
        }
        self.server.stop(PATIENCE);
        self.server.handler().end();
    }
}

fn begin(router: &Router, plan: Plan, options: &Options) {
    for problem in &plan.problems {
        (options.log)(&format!("configuration: {problem}"));
    }
    for note in &plan.notes {
        (options.log)(&format!("configuration, for your information: {note}"));
    }
    let directory = plan.directory.clone().unwrap_or_else(|| options.directory.clone());
    router.begin(plan, directory);
}
