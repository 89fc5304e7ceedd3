//! `blkkin service`: recorders with real agents and programs.

mod support;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::node::{self, Node, eventually, is_root, read};
use support::{is_installed, run, skip, text};

#[test]
#[ignore = "a program of other tests"]
fn program() {
    node::numbers();
}

/// Node with a directory of recorders.
struct Fixture {
    node: Node,
}

const CHANNEL: &str =
    "[[channel]]\nname = \"c\"\n[[rule]]\nchannel = \"c\"\nevents = [\"test:*\"]\n";

impl Fixture {
    fn new() -> Fixture {
        Fixture { node: Node::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.node.directory.path().join(name)
    }

    fn start_agent(&self) -> node::Running {
        let traces = self.path("traces");
        self.node.agent_by(self.command(&["agent", "--traces", traces.to_str().expect("text")]))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.node.command(arguments);
        command.env("BLKKIN_RECORDERS", self.path("recorders.d"));
        command.env("BLKKIN_TRIGGERS", self.path("triggers"));
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let output = run(&mut self.command(arguments));
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs a command that is refused, and returns its messages.
    #[track_caller]
    fn refuse(&self, arguments: &[&str], status: i32) -> String {
        let output = run(&mut self.command(arguments));
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
        errors
    }

    /// Writes a file of a recorder whose traces are below `out`.
    fn write(&self, name: &str, more: &str) -> String {
        let path = self.path(&format!("{name}.toml"));
        let out = self.path("out");
        let out = out.display();
        let session = format!("[session]\nname = \"any\"\noutput = \"{out}\"\n{more}{CHANNEL}");
        fs::write(&path, session).expect("written");
        path.to_str().expect("text").to_owned()
    }

    /// Returns what `service status` shows of a recorder.
    fn status(&self, name: &str) -> Value {
        let output = run(&mut self.command(&["service", "status", "--json"]));
        let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let list = status["recorders"].as_array().expect("a list");
        list.iter().find(|one| one["name"] == name).expect("the recorder").clone()
    }

    #[track_caller]
    fn await_recording(&self, name: &str, other_than: &str) -> String {
        eventually("the recorder records", || {
            let status = self.status(name);
            let output = status["output"].as_str().filter(|output| *output != other_than)?;
            (status["state"] == "recording").then(|| output.to_owned())
        })
    }

    fn log(&self, name: &str) -> String {
        self.run(&["service", "log", name, "-n", "1000"])
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.command(&["service", "stop"]).output();
    }
}

/// A recorder records until it is stopped, though its agent, its session and its process go.
#[test]
fn recorders_keep_their_sessions() {
    let fixture = Fixture::new();
    let mut agent = fixture.start_agent();
    let file = fixture.write("web", "");
    fixture.run(&["service", "add", &file, "--now"]);
    let first = fixture.await_recording("web", "");
    assert!(first.starts_with(fixture.path("out/web-").to_str().expect("text")), "{first}");
    let program = fixture.node.program(5, 1000);
    let events = |output: &str| {
        eventually("events are recorded", || {
            let run = fixture.command(&["view", output]).output().expect("a command");
            (run.stdout.len() > 1000).then_some(())
        });
    };
    events(&first);
    // The agent is killed, and the next one goes on.
    agent.kill();
    eventually("the recorder misses its agent", || {
        (fixture.status("web")["state"] == "waiting").then_some(())
    });
    agent = fixture.start_agent();
    assert_eq!(fixture.await_recording("web", ""), first);
    // The recorder's process is killed. Its session goes on, and so does the next process.
    let pid = fixture.status("web")["pid"].as_u64().expect("a process");
    kill_process(Pid::from_raw(pid as i32).expect("an id"), Signal::KILL).expect("killed");
    eventually("the process is gone", || {
        (fixture.status("web")["state"] == "stopped").then_some(())
    });
    assert!(fixture.run(&["session", "list"]).contains("web"));
    fixture.run(&["service", "start", "web"]);
    assert_eq!(fixture.await_recording("web", ""), first);
    assert!(fixture.log("web").contains("continues"));
    // Somebody stops the session.
    fixture.run(&["session", "stop", "web"]);
    eventually("the recorder says so", || {
        let status = fixture.status("web");
        status["trouble"].as_str()?.contains("its session was stopped").then_some(())
    });
    fixture.run(&["service", "stop", "web"]);
    assert!(!fixture.run(&["session", "list"]).contains("web"));
    fixture.run(&["service", "start", "web"]);
    let first_again = fixture.await_recording("web", &first);
    events(&first_again);
    // Somebody destroys the session.
    fixture.run(&["session", "destroy", "web"]);
    let second = fixture.await_recording("web", &first_again);
    events(&second);
    fixture.run(&["service", "stop", "web"]);
    assert!(!fixture.run(&["session", "list"]).contains("web"));
    let tried = program.end();
    let numbers: Vec<u64> = [&first, &first_again, &second]
        .into_iter()
        .flat_map(|output| read(output.as_ref()).0)
        .collect();
    node::check_distinct(&numbers);
    assert!((numbers.len() as u64) < tried);
    let stopped = fixture.status("web");
    assert_eq!((&stopped["state"], &stopped["pid"]), (&"stopped".into(), &Value::Null));
    assert!(fixture.refuse(&["service", "status", "web"], 1).is_empty());
    agent.kill();
}

/// A wrong file is refused with its line, and stops nothing.
#[test]
fn wrong_files_stop_nothing() {
    let fixture = Fixture::new();
    let _agent = fixture.start_agent();
    let wrong = fixture.write("wrong", "siz-max = \"1G\"\n");
    let errors = fixture.refuse(&["service", "add", &wrong], 2);
    assert!(errors.contains("wrong.toml, line 4: "), "{errors}");
    assert!(errors.contains("did you mean `size-max`?"), "{errors}");
    let trigger = "[[trigger]]\nname = \"t\"\noptions = [\"--slowr\", \"5ms\"]\n";
    let errors = fixture.refuse(&["service", "add", &fixture.write("wrong", trigger)], 2);
    assert!(errors.contains("line 6: `options`: unexpected argument '--slowr'"), "{errors}");
    assert!(errors.contains("--slower"), "{errors}");
    for name in ["a b", "../x", ".x"] {
        let file = fixture.write("good", "");
        fixture.refuse(&["service", "add", &file, "--name", name], 2);
    }
    assert!(!fixture.path("recorders.d").exists());
    let good = fixture.write("good", "");
    fixture.run(&["service", "add", &good, "--now"]);
    assert!(fixture.refuse(&["service", "add", &good], 1).contains("there is a recorder"));
    let first = fixture.await_recording("good", "");
    // The registered file becomes wrong.
    let registered = fixture.path("recorders.d/good.toml");
    let text = fs::read_to_string(&registered).expect("text");
    fs::write(&registered, text.replace("[[rule]]", "[[rules]]")).expect("written");
    for command in ["reload", "check", "start"] {
        let errors = fixture.refuse(&["service", command, "good"], 2);
        assert!(errors.contains("good.toml, line ") && errors.contains("`rule`"), "{errors}");
    }
    let pid = fixture.status("good")["pid"].as_u64().expect("a process");
    kill_process(Pid::from_raw(pid as i32).expect("an id"), Signal::HUP).expect("told");
    eventually("the recorder says why", || {
        fixture.log("good").contains("goes on as before, since its file is wrong: ").then_some(())
    });
    assert_eq!(fixture.await_recording("good", ""), first);
    let list: Value =
        serde_json::from_str(&fixture.run(&["service", "list", "--json"])).expect("JSON");
    assert!(list["recorders"][0]["trouble"].as_str().expect("a reason").contains("line "));
    // A right one takes effect.
    fs::write(&registered, text.replace("test:*", "test:n*")).expect("written");
    fixture.run(&["service", "reload", "good"]);
    fixture.await_recording("good", &first);
    assert!(fixture.run(&["session", "save", "good"]).contains("test:n*"));
    // A session of the same name that somebody else has made is not touched.
    fixture.run(&["service", "stop", "good"]);
    fixture.run(&["session", "create", "good"]);
    let errors = fixture.refuse(&["service", "start", "good"], 1);
    assert!(errors.contains("the recorder did not make"), "{errors}");
    assert!(fixture.run(&["session", "list"]).contains("good"));
}

/// All enabled recorders start together; one that is removed is gone with its session.
#[test]
fn enabled_recorders_start_with_the_machine() {
    let fixture = Fixture::new();
    for name in ["a", "b", "c"] {
        fixture.run(&["service", "add", &fixture.write(name, "")]);
    }
    fixture.run(&["service", "enable", "a", "c"]);
    // They wait for the agent.
    fixture.run(&["service", "start", "--enabled"]);
    assert_eq!(fixture.status("a")["state"], "waiting");
    assert_eq!(fixture.status("b")["state"], "stopped");
    let _agent = fixture.start_agent();
    fixture.await_recording("a", "");
    fixture.await_recording("c", "");
    fixture.run(&["service", "disable", "c", "--now"]);
    let list: Value =
        serde_json::from_str(&fixture.run(&["service", "list", "--json"])).expect("JSON");
    let shown: Vec<(&str, bool, &str)> = list["recorders"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| {
            let word = |key: &str| one[key].as_str().expect("a word");
            (word("name"), one["enabled"].as_bool().expect("a flag"), word("state"))
        })
        .collect();
    assert_eq!(shown, [("a", true, "recording"), ("b", false, "stopped"), ("c", false, "stopped")]);
    fixture.run(&["service", "remove", "a"]);
    assert!(!fixture.run(&["session", "list"]).contains('a'));
    assert!(fixture.refuse(&["service", "start", "a"], 1).contains("there is no recorder `a`"));
}

/// The triggers of a recorder come and go with it.
#[test]
fn recorders_have_triggers() {
    let fixture = Fixture::new();
    let _agent = fixture.start_agent();
    let file = fixture.path("flight.toml");
    let text = format!(
        "[session]\nname = \"flight\"\npurpose = \"snapshot\"\noutput = \"{}\"\n{CHANNEL}\
         [[trigger]]\nname = \"seen\"\n\
         options = [\"test:*\", \"--filter\", \"n == 500\", \"--snapshot\", \"flight\", \"--once\"]\n",
        fixture.path("out").display()
    );
    fs::write(&file, text).expect("written");
    fixture.run(&["service", "add", file.to_str().expect("text"), "--now"]);
    let output = fixture.await_recording("flight", "");
    let triggers = || -> Value {
        serde_json::from_str(&fixture.run(&["trigger", "ls", "--json"])).expect("JSON")
    };
    assert_eq!(triggers()["triggers"][0]["name"], "flight-seen");
    let program = fixture.node.program(5, 1000);
    eventually("a snapshot is taken", || fs::read_dir(&output).ok()?.flatten().next().map(|_| ()));
    program.end();
    fixture.run(&["service", "stop", "flight"]);
    assert_eq!(triggers()["triggers"], Value::Array(Vec::new()));
    assert!(fs::read_dir(&output).expect("a directory").count() > 0);
}

/// A service manager is told when the recorder records, that it lives, and that it ends.
#[test]
fn service_managers_are_told() {
    let fixture = Fixture::new();
    fixture.run(&["service", "add", &fixture.write("web", "")]);
    let path = fixture.path("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let mut command = fixture.command(&["service", "run", "web"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000");
    let mut recorder = node::Running(command.spawn().expect("a process"));
    let told = || {
        let mut bytes = [0; 100];
        let size = socket.recv(&mut bytes).expect("a message");
        String::from_utf8_lossy(&bytes[..size]).into_owned()
    };
    // It waits for the agent, which holds nobody up.
    assert_eq!((told(), told()), ("READY=1".to_owned(), "WATCHDOG=1".to_owned()));
    let agent = fixture.start_agent();
    fixture.await_recording("web", "");
    assert_eq!((told(), told()), ("WATCHDOG=1".to_owned(), "WATCHDOG=1".to_owned()));
    let pid = Pid::from_raw(recorder.id() as i32).expect("an id");
    kill_process(pid, Signal::TERM).expect("told");
    while told() != "STOPPING=1" {}
    assert_eq!(recorder.0.wait().expect("an end").code(), Some(0));
    drop(agent);
}

/// A folder of SystemTap's service becomes recorders, which record.
#[test]
fn folders_of_scripts_are_imported() {
    let fixture = Fixture::new();
    let folder = fixture.path("systemtap");
    for directory in ["script.d", "conf.d"] {
        fs::create_dir_all(folder.join(directory)).expect("a directory");
    }
    let script = "#!/usr/bin/stap\nglobal reads\n/* counts */\n\
                  probe syscall.openat.return, begin { reads[pid()]++ }\nprobe timer.s(5) { exit() }\n";
    fs::write(folder.join("script.d/opens.stp"), script).expect("written");
    fs::write(folder.join("script.d/none.stp"), "probe begin { exit() }\n").expect("written");
    let out = fixture.path("log");
    let options = format!("# options\nopens_OPT=\"-F -S 10,3 -o {}/opens.log\"\n", out.display());
    fs::write(folder.join("conf.d/all.conf"), options).expect("written");
    let folder = folder.to_str().expect("text");
    let output = run(&mut fixture.command(&["service", "import", folder]));
    assert_eq!(output.status.code(), Some(1), "a script has no events");
    assert!(text(&output.stderr).contains("none: no recorder"), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    let line = |start: &str| {
        let line = table.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {table}")).split_whitespace().collect::<Vec<_>>()
    };
    assert_eq!(line("probe syscall.openat.return").last(), Some(&"syscall:openat"));
    assert_eq!(line("-S 10,3").join(" "), "-S 10,3 chunks of 10M, the last 3 are kept");
    assert!(line("probe timer.s(5)").contains(&"left"));
    assert!(line("handlers").contains(&"left"));
    fixture.run(&["service", "check", "opens"]);
    let kernel = "imported recorders record";
    if !is_root() {
        return skip(kernel, "only root traces the kernel");
    }
    let listed = run(&mut fixture.command(&["probe", "ls", "syscall:openat"]));
    if !text(&listed.stdout).contains("openat") {
        return skip(kernel, "the kernel's system calls cannot be traced");
    }
    let _agent = fixture.start_agent();
    fixture.run(&["service", "start", "opens"]);
    let output = fixture.await_recording("opens", "");
    eventually("calls are recorded", || {
        let _ = fs::read_to_string("/proc/self/status");
        let run = fixture.command(&["view", &output]).output().expect("a command");
        text(&run.stdout).contains("openat").then_some(())
    });
}

/// The init script starts the agent and the enabled recorders, and stops them.
#[test]
fn the_init_script_starts_and_stops() {
    let test = "the_init_script_starts_and_stops";
    if !is_root() || !is_installed("unshare") {
        return skip(test, "only root runs init scripts");
    }
    let fixture = Fixture::new();
    fixture.run(&["service", "add", &fixture.write("web", ""), "--enable"]);
    let program = env!("CARGO_BIN_EXE_blkkin");
    let script = include_str!("../../../../xtask/src/install/files/blkkin.init");
    let script = script.replace("@PREFIX@/bin/blkkin", program);
    let path = fixture.path("blkkin");
    fs::write(&path, script).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permitted");
    // The script's files are in directories that only this test sees.
    let all = "mount -t tmpfs none /run; mount -t tmpfs none /var/log; \
               sh $1 start; sh $1 status web; sh $1 reload; sh $1 restart web; \
               \"$2\" session list; sh $1 stop; ! sh $1 status";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", all, "sh"]);
    command.arg(&path).arg(program);
    command.env("BLKKIN_RECORDERS", fixture.path("recorders.d"));
    command.env("BLKKIN_SOCKET", fixture.node.socket());
    let output = run(&mut command);
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}{errors}");
    assert!(told.contains("recording") && told.contains("the agent does not run"), "{told}");
    assert!(errors.contains("recorder `web` stopped"), "{errors}");
    let outputs = fs::read_dir(fixture.path("out")).expect("a directory").count();
    assert_eq!(outputs, 2);
}

/// Daemons go on with the sockets that the service manager has opened, which start them.
#[test]
fn daemons_take_sockets_of_the_service_manager() {
    let test = "daemons_take_sockets_of_the_service_manager";
    if !is_installed("systemd-socket-activate") {
        return skip(test, "systemd-socket-activate is not installed");
    }
    let fixture = Fixture::new();
    let directory = fixture.path("run");
    fs::create_dir_all(&directory).expect("a directory");
    let activate = |listen: &[String], arguments: &[&str]| {
        let mut command = Command::new("systemd-socket-activate");
        listen.iter().for_each(|address| {
            command.args(["-l", address]);
        });
        command.args(["-E", "BLKKIN_SOCKET", "-E", "HOME"]);
        command.env("BLKKIN_SOCKET", fixture.node.socket()).env("HOME", fixture.path(""));
        command.arg(env!("CARGO_BIN_EXE_blkkin")).args(arguments);
        node::Running(command.stderr(Stdio::null()).spawn().expect("a process"))
    };
    let socket = fixture.node.socket();
    let mut agent = activate(&[socket.to_str().expect("text").to_owned()], &["agent"]);
    eventually("the socket is there", || socket.exists().then_some(()));
    fixture.run(&["session", "create", "s"]);
    let pid = Pid::from_raw(agent.id() as i32).expect("an id");
    kill_process(pid, Signal::TERM).expect("told");
    assert_eq!(agent.0.wait().expect("an end").code(), Some(0));
    // It is the manager's socket, which stays.
    assert!(socket.exists());
    // The ports are free now; the options name the same ones.
    let ports: Vec<u16> = (0..3)
        .map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"))
        .collect::<Vec<_>>()
        .iter()
        .map(|listener| listener.local_addr().expect("an address").port())
        .collect();
    let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let output = fixture.path("relay");
    let [control, data, live] = [0, 1, 2].map(|at| ports[at].to_string());
    let arguments = ["relay", "--output", output.to_str().expect("text")];
    let numbers = ["--control-port", &control, "--data-port", &data, "--live-port", &live];
    let _relay = activate(&addresses, &[&arguments[..], &numbers].concat());
    let url = format!("net://127.0.0.1:{live}");
    eventually("the relay answers", || {
        let listed = fixture.command(&["live", "ls", &url]).output().expect("a command");
        listed.status.success().then_some(())
    });
    let web = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let off = ["--scribe", "off", "--otlp-http", "off", "--otlp-grpc", "off"];
    let arguments = ["server", "--memory", "--listen", &web.to_string()];
    let _server = activate(&[web.to_string()], &[&arguments[..], &off].concat());
    eventually("the server answers", || {
        let mut stream = TcpStream::connect(web).ok()?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.starts_with("HTTP/1.").then_some(())
    });
}
