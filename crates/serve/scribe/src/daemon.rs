//! The daemon: a server, and what it does with what comes. Start at [`Daemon::start`].

use crate::plan::Plan;
use crate::router::{Control, Router};
use blkkin_scribe::{Running, Server, ServerCounters, ServerOptions};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// What a daemon needs to know that its configuration may not say.
pub struct Options {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where journals lie, unless the configuration says so.
    pub directory: PathBuf,
    /// Reads the configuration: at the start, and whenever somebody asks for it.
    pub configure: Box<dyn Fn() -> Plan>,
    /// Gets lines about what happens.
    pub log: fn(&str),
}

/// A daemon that runs.
pub struct Daemon {
    options: Options,
    server: Running<Router>,
    control: Sender<Control>,
    told: Receiver<Control>,
}

/// How long what is being answered is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(15);

/// Tells a daemon what to do, from another thread.
#[derive(Clone, Debug)]
pub struct Remote(Sender<Control>);

impl Remote {
    /// To read its configuration again.
    pub fn reload(&self) {
        let _ = self.0.send(Control::Reload);
    }

    /// To end.
    pub fn stop(&self) {
        let _ = self.0.send(Control::Stop);
    }
}

impl Daemon {
    /// Takes the port, goes on with what journals hold, and answers.
    pub fn start(options: Options) -> io::Result<Daemon> {
        let plan = (options.configure)();
        let usual = ServerOptions::default();
        let connections_max = plan.connections_max.unwrap_or(usual.connections_max);
        let server = Server::bind(options.listen, ServerOptions { connections_max, ..usual })?;
        let (control, told) = channel();
        let router = Router::new(control.clone(), options.log);
        begin(&router, plan, &options);
        let server = server.start(router)?;
        Ok(Daemon { options, server, control, told })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Lets others tell it what to do.
    pub fn remote(&self) -> Remote {
        Remote(self.control.clone())
    }

    /// What the server has counted.
    pub fn counters(&self) -> ServerCounters {
        self.server.counters()
    }

    /// Until it is told to end. What is being answered is answered, and what was taken is on disk.
    pub fn run(mut self) {
        while let Ok(Control::Reload) = self.told.recv() {
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
