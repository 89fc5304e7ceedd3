//! Starts all roles as processes. The standard input of each role is a pipe from this process, and
//! the role ends when the pipe is closed. So roles never outlive this process, however it ends.

use crate::address::Address;
use crate::volume::Volume;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time limit for the start of a role, which may have to replay a journal.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for the end of a role.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Prefix of a role's output that precedes its address.
const LISTENING_PREFIX: &str = "listening ";

/// Settings of a chain: addresses, volumes, durability, and the command for its roles.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory for data and sockets, created if it does not exist.
    pub directory: PathBuf,
    /// Address of the NBD server; by default, a socket in the directory.
    pub nbd: Option<Address>,
    /// Volumes that clients can use.
    pub volumes: Vec<Volume>,
    /// Set if the roles are connected over TCP instead of Unix sockets.
    pub tcp: bool,
    /// Set if the stores sync their journals before they answer a write.
    pub sync: bool,
    /// Size of a journal file in bytes, at which a store starts a new file.
    pub journal_size: u64,
    /// Sampling rules for requests, as in `BLKKIN_SAMPLE`.
    pub sample: Option<String>,
    /// Command that is started for each role, with the role's arguments appended. The command
    /// passes the arguments to [`run`](crate::run).
    pub program: Vec<OsString>,
    /// Additional environment variables of the roles, such as `BLKKIN_SOCKET`.
    pub environment: Vec<(OsString, OsString)>,
}

impl Options {
    /// Creates options for a volume `disk` of 1 GiB, with all data in `directory`, and `program`
    /// for each role.
    pub fn new(directory: &Path, program: Vec<OsString>) -> Options {
        Options {
            directory: directory.to_owned(),
            nbd: None,
            volumes: vec![Volume { name: "disk".to_owned(), size: 1 << 30 }],
            tcp: false,
            sync: false,
            journal_size: 64 << 20,
            sample: None,
            program,
            environment: Vec::new(),
        }
    }
}

/// A running chain, which ends when it is dropped.
#[derive(Debug)]
pub struct Stack {
    options: Options,
    /// Processes in the order of their start: servers before their clients.
    roles: Vec<Role>,
}

/// A process of the chain, with the address at which it listens.
#[derive(Debug)]
pub struct Role {
    name: &'static str,
    arguments: Vec<OsString>,
    child: Child,
    address: Address,
    has_ended: bool,
}

impl Role {
    /// Returns the name of the role: `nbd`, `composer`, `mapper`, `store.1` or `store.2`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the process id of the role.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the address at which the role listens.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Stack {
    /// Starts all roles and waits until they listen.
    pub fn start(options: Options) -> Result<Stack, String> {
        let directory = std::path::absolute(&options.directory)
            .and_then(|directory| std::fs::create_dir_all(&directory).map(|()| directory))
            .map_err(|error| format!("{}: {error}", options.directory.display()))?;
        let mut stack = Stack { options: Options { directory, ..options }, roles: Vec::new() };
        for (name, number) in [("store.1", "store1"), ("store.2", "store2")] {
            let mut arguments = option("--name", name).to_vec();
            arguments.extend(option("--dir", stack.options.directory.join(number)));
            arguments.extend(option("--journal-size", stack.options.journal_size.to_string()));
            if stack.options.sync {
                arguments.push("--sync".into());
            }
            stack.add(name, "store", arguments, None)?;
        }
        let mut arguments = option("--map", stack.options.directory.join("map")).to_vec();
        for store in &stack.roles {
            arguments.extend(option("--store", store.address.to_string()));
        }
        stack.add("mapper", "mapper", arguments, None)?;
        let mut arguments = stack.upstream_option("--mapper");
        for volume in &stack.options.volumes {
            arguments.extend(option("--volume", volume.to_string()));
        }
        stack.add("composer", "composer", arguments, None)?;
        let mut arguments = stack.upstream_option("--composer");
        if let Some(rules) = &stack.options.sample {
            arguments.extend(option("--sample", rules));
        }
        let listen = stack.options.nbd.clone();
        let listen = listen.unwrap_or(Address::Path(stack.options.directory.join("nbd.sock")));
        stack.add("nbd", "nbd", arguments, Some(listen))?;
        Ok(stack)
    }

    /// Returns the option `name` with the address of the role that was started last. This role is
    /// the server of the next role.
    fn upstream_option(&self, name: &str) -> Vec<OsString> {
        let last = self.roles.last().map(|role| option(name, role.address.to_string()));
        last.into_iter().flatten().collect()
    }

    fn add(
        &mut self,
        name: &'static str,
        role: &str,
        arguments: Vec<OsString>,
        listen: Option<Address>,
    ) -> Result<(), String> {
        let listen = listen.unwrap_or_else(|| match self.options.tcp {
            true => Address::Net("127.0.0.1:0".to_owned()),
            false => Address::Path(self.options.directory.join(format!("{name}.sock"))),
        });
        let mut all: Vec<OsString> = vec![role.into(), "--until-eof".into()];
        all.extend(option("--listen", listen.to_string()));
        all.extend(arguments);
        let role = start(&self.options, name, all)?;
        self.roles.push(role);
        Ok(())
    }

    /// Returns the address for NBD clients.
    pub fn nbd(&self) -> Option<&Address> {
        self.roles.last().map(Role::address)
    }

    /// Returns the NBD URI of the first volume.
    pub fn nbd_uri(&self) -> String {
        let volume = self.options.volumes.first().map_or("", Volume::name);
        match self.nbd() {
            Some(Address::Path(path)) => {
                format!("nbd+unix:///{volume}?socket={}", path.display())
            }
            Some(Address::Net(address)) => format!("nbd://{address}/{volume}"),
            None => String::new(),
        }
    }

    /// Returns the processes of all roles, servers before their clients.
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// Returns the name of a role that has ended by itself, or `None`. Each end is reported only
    /// once.
    pub fn ended(&mut self) -> Option<&'static str> {
        let mut roles = self.roles.iter_mut().filter(|role| !role.has_ended);
        let ended = roles.find_map(|role| match role.child.try_wait() {
            Ok(None) => None,
            _ => Some(role),
        })?;
        ended.has_ended = true;
        Some(ended.name)
    }

    /// Returns true if the NBD server was killed, or [`ended`](Self::ended) has reported its end.
    /// No client can be served then.
    pub fn is_over(&self) -> bool {
        self.roles.last().is_none_or(|role| role.has_ended)
    }

    /// Kills the process of a role with SIGKILL.
    pub fn kill(&mut self, name: &str) -> Result<(), String> {
        let role = self.find(name)?;
        role.child.kill().and_then(|()| role.child.wait()).map_err(|error| error.to_string())?;
        role.has_ended = true;
        Ok(())
    }

    /// Restarts a role with its arguments and address, and waits until it listens. Fails unless the
    /// role was killed, or [`ended`](Self::ended) has reported its end.
    pub fn restart(&mut self, name: &str) -> Result<(), String> {
        let options = self.options.clone();
        let role = self.find(name)?;
        if !role.has_ended {
            return Err(format!("{name} runs"));
        }
        let mut arguments = role.arguments.clone();
        // Retain the address, even if the system has selected the port.
        if let Some(at) = arguments.iter().position(|argument| argument == "--listen") {
            arguments[at + 1] = role.address.to_string().into();
        }
        *role = start(&options, role.name, arguments)?;
        Ok(())
    }

    fn find(&mut self, name: &str) -> Result<&mut Role, String> {
        let role = self.roles.iter_mut().find(|role| role.name == name);
        role.ok_or_else(|| format!("no role {name}"))
    }

    /// Ends all roles, clients before their servers. The error names roles that had to be killed.
    pub fn stop(mut self) -> Result<(), String> {
        self.end()
    }

    fn end(&mut self) -> Result<(), String> {
        let mut killed = Vec::new();
        for mut role in self.roles.drain(..).rev() {
            drop(role.child.stdin.take());
            let end = Instant::now() + END_TIMEOUT;
            while matches!(role.child.try_wait(), Ok(None)) {
                if Instant::now() > end {
                    killed.push(role.name);
                    let _ = role.child.kill();
                    let _ = role.child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        if killed.is_empty() {
            Ok(())
        } else {
            Err(format!("killed, as it did not end by itself: {}", killed.join(", ")))
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn option(name: &str, value: impl Into<OsString>) -> [OsString; 2] {
    [name.into(), value.into()]
}

/// Starts the process of a role and waits until it prints its address.
fn start(options: &Options, name: &'static str, arguments: Vec<OsString>) -> Result<Role, String> {
    let (first, rest) = options.program.split_first().ok_or("no program to start")?;
    let mut child = Command::new(first)
        .args(rest)
        .args(&arguments)
        .env("BLKKIN_PROGRAM", name)
        .envs(options.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name}: {error}"))?;
    let output = child.stdout.take().ok_or("no pipe")?;
    let (say, said) = mpsc::channel();
    std::thread::spawn(move || {
        // The program that starts the role may print other lines first.
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        let found = lines
            .filter_map(|line| Some(line.split_once(LISTENING_PREFIX)?.1.trim_end().to_owned()));
        for address in found.take(1) {
            let _ = say.send(address);
        }
    });
    let address = said.recv_timeout(START_TIMEOUT).ok().and_then(|text| text.parse().ok());
    match address {
        Some(address) => Ok(Role { name, arguments, child, address, has_ended: false }),
        None => {
            let _ = child.kill();
            let status = child.wait();
            let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            Err(format!("{name} does not start: {status}"))
        }
    }
}
