//! Support for tests: CTF traces in a temporary folder, written from a description of their
//! packets, and a transcript of the delivered events and losses.
//!
//! A description has one packet a line: file, stream, begin and end, and after `|` its events.
//!
//! ```text
//! FILE CLASS.ID BEGIN..END [#SEQ] [-DISCARDED] | TIME NAME X, TIME NAME X, ...
//! a    0.1      10..20                         | 10 e 1, 15 f 2
//! ```
//!
//! By default `SEQ` is one more than in the stream's previous packet, from 0, and `DISCARDED` is 0.
//! Both stream classes have the events `e` and `f`. The payload of `e` is `x`. The payload of `f`
//! is `x`, a string `s` (the letter `s` and the number) and an array `a` (`x` and ten times `x`).
//! The metadata of [`TraceFolder::write_metadata`] can also have an event `g`. The packet context
//! has `cpu_id`, which is the stream's id, and the event context has `vtid`, which is the stream's
//! id plus 100. The files of a subfolder form a trace of their own. Subfolders with names of one
//! letter have UUIDs in the reverse order of their names.

use crate::event::Event;
use crate::event_merge::Consumer;
use crate::loss::Loss;
use crate::reading::Reading;
use crate::stats::Stats;
use crate::trace::{Stream, Trace};
use crate::{OpenTraces, Source, open};
use blkkin_ctf::decode::{Decoder, Node, Visitor};
use blkkin_ctf::encode::{Encoder, PacketEnd, PacketWriter, Value, lower_unchanged};
use blkkin_ctf::metadata;
use blkkin_ctf::schema::Scope;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Names of the events, by class id.
const EVENTS: [&str; 3] = ["e", "f", "g"];

/// CTF traces in a temporary folder, which is removed on drop.
pub(crate) struct TraceFolder {
    folder: TempDir,
    decoder: Decoder,
    encoder: Arc<Encoder>,
    /// Default `SEQ` of the next packet, by subfolder, class and id of the stream.
    packet_counts: HashMap<(PathBuf, usize, u64), u64>,
}

impl TraceFolder {
    /// Writes the packets that `description` lists, and metadata without the event `g`.
    pub(crate) fn new(description: &str) -> TraceFolder {
        let schema = metadata::parse(metadata_text("", true).into_bytes()).expect("valid metadata");
        let decoder = Decoder::new(Arc::new(schema)).expect("a decoder");
        let lowered = lower_unchanged(&decoder).expect("a schema that can be written");
        let mut folder = TraceFolder {
            folder: tempfile::tempdir().expect("a temporary folder"),
            encoder: Arc::new(Encoder::new(lowered).expect("an encoder")),
            decoder,
            packet_counts: HashMap::new(),
        };
        folder.append(description);
        folder
    }

    /// Appends the packets that `description` lists to their files.
    pub(crate) fn append(&mut self, description: &str) {
        for (file, packet) in self.packets(description) {
            self.append_bytes(&file, &packet);
        }
    }

    /// Returns the file names and bytes of the packets that `description` lists.
    pub(crate) fn packets(&mut self, description: &str) -> Vec<(String, Vec<u8>)> {
        let lines = description.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(|line| self.packet(line)).collect()
    }

    /// Appends bytes to a file. Writes metadata to the file's folder if the folder has none.
    pub(crate) fn append_bytes(&self, file: &str, bytes: &[u8]) {
        let path = self.path().join(file);
        let folder = path.parent().expect("a folder");
        if !folder.join("metadata").exists() {
            fs::create_dir_all(folder).expect("to make a folder");
            let name = folder.strip_prefix(self.path()).expect("a subfolder");
            let text = metadata_text(&name.to_string_lossy(), false);
            fs::write(folder.join("metadata"), text).expect("to write metadata");
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
        file.write_all(bytes).expect("to write packets");
    }

    /// Replaces the metadata of a subfolder, with or without the event `g`.
    pub(crate) fn write_metadata(&self, folder: &str, has_g: bool) {
        let text = metadata_text(folder, has_g);
        fs::write(self.path().join(folder).join("metadata"), text).expect("to write metadata");
    }

    /// Removes the last `count` bytes of a file.
    pub(crate) fn truncate(&self, file: &str, count: u64) {
        let file = OpenOptions::new().write(true).open(self.path().join(file)).expect("a file");
        let size = file.metadata().expect("the file's size").len();
        file.set_len(size - count).expect("to truncate the file");
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn source(&self) -> Source {
        Source::Path(self.path().to_owned())
    }

    pub(crate) fn open(&self) -> OpenTraces {
        open(&[self.source()])
    }

    /// Returns the file name and bytes of the packet that a line describes.
    pub(crate) fn packet(&mut self, line: &str) -> (String, Vec<u8>) {
        let (head, events) = line.split_once('|').expect("events after `|`");
        let mut words = head.split_whitespace();
        let mut word = || words.next().expect("file, stream and times");
        let (file, stream, times) = (word(), word(), word());
        let (class, id) = stream.split_once('.').expect("CLASS.ID");
        let (class, id) = (number(class) as usize, number(id));
        let (begin, end) = times.split_once("..").expect("BEGIN..END");
        let folder = Path::new(file).parent().expect("a path").to_owned();
        let count = self.packet_counts.entry((folder, class, id)).or_default();
        let (mut seq, mut discarded) = (*count, 0);
        for word in words {
            match word.split_at(1) {
                ("#", text) => seq = number(text),
                ("-", text) => discarded = number(text),
                _ => panic!("what is {word}?"),
            }
        }
        *count = seq + 1;
        let nodes = self.decoder.nodes();
        let root = |scope, index| scope_root(nodes, scope, index);
        let context = Value::Struct(vec![Value::Unsigned(id)]);
        let head = self.encoder.head(class, id, |writer| {
            let root = root(Scope::PacketContext, class);
            context.visit(nodes, root, writer).expect("a packet context");
        });
        let mut packet = PacketWriter::new(self.encoder.clone());
        packet.begin(&head, number(begin));
        for event in events.split(',').map(str::trim).filter(|event| !event.is_empty()) {
            let words: Vec<&str> = event.split_whitespace().collect();
            let [time, name, x] = words[..] else { panic!("TIME NAME X, not {event}") };
            let index = EVENTS.iter().position(|event| *event == name).expect("an event");
            let mut payload = vec![Value::Unsigned(number(x))];
            if name == "f" {
                payload.push(Value::String(format!("s{x}").into_bytes()));
                let elements = [1, 10].map(|factor| Value::Unsigned(factor * number(x)));
                payload.push(Value::Array(elements.into()));
            }
            let context = Value::Struct(vec![Value::Unsigned(100 + id)]);
            let scopes = [
                (root(Scope::CommonContext, class), context),
                (root(Scope::Payload, class * EVENTS.len() + index), Value::Struct(payload)),
            ];
            let is_written = packet.event(index, number(time), |writer| {
                scopes.iter().all(|(root, value)| value.visit(nodes, *root, writer).is_ok())
            });
            assert_eq!(is_written, Ok(true), "{event}");
        }
        let end = PacketEnd { begin: number(begin), end: number(end), seq, discarded };
        (file.to_owned(), packet.finish(end).expect("a packet").to_vec())
    }
}

/// Returns the id of a root node: the node at `index` among the roots of `scope`.
fn scope_root(nodes: &[Node], scope: Scope, index: usize) -> u32 {
    let mut roots = nodes.iter().filter(|node| node.scope == scope && node.parent.is_none());
    roots.nth(index).expect("a scope").id
}

pub(crate) fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

/// Returns the metadata of the trace in a subfolder, with or without the event `g`.
pub(crate) fn metadata_text(folder: &str, has_g: bool) -> String {
    let uuid = folder.bytes().fold(0_u64, |uuid, byte| uuid << 8 | u64::from(255 - byte));
    let mut text = format!(
        "/* CTF 1.8 */
        typealias integer {{ size = 32; align = 8; }} := u32;
        typealias integer {{ size = 64; align = 8; }} := u64;
        trace {{
          major = 1; minor = 8; byte_order = le; uuid = \"00000000-0000-0000-0000-{uuid:012x}\";
          packet.header := struct {{ u32 magic; u32 stream_id; u64 stream_instance_id; }};
        }};
        clock {{ name = c; freq = 1000000000; }};
        typealias integer {{ size = 64; align = 8; map = clock.c.value; }} := time;"
    );
    for class in 0..2 {
        let _ = write!(
            text,
            "stream {{
              id = {class};
              packet.context := struct {{
                time timestamp_begin; time timestamp_end; u64 content_size; u64 packet_size;
                u64 packet_seq_num; u64 events_discarded; u32 cpu_id;
              }};
              event.header := struct {{ u32 id; time timestamp; }};
              event.context := struct {{ u32 vtid; }};
            }};"
        );
        for (id, name) in EVENTS.iter().enumerate().take(if has_g { 3 } else { 2 }) {
            let others = if *name == "f" { "string s; u32 a[2];" } else { "" };
            let _ = write!(
                text,
                "event {{
                  name = {name:?}; id = {id}; stream_id = {class}; loglevel = {};
                  fields := struct {{ u32 x; {others} }};
                }};",
                4 + id
            );
        }
    }
    text
}

/// Consumer that appends a line of text for each event and loss.
///
/// ```text
/// 10 e1 0.1                   time, name with x, stream
/// lost 3 events 10..20 0.1    begin and end of the loss
/// ```
#[derive(Default)]
pub(crate) struct Transcript(pub(crate) String);

impl Transcript {
    /// Appends the problems of `stats`, with paths relative to the folder, and returns the whole
    /// text.
    pub(crate) fn finish(mut self, folder: &TraceFolder, stats: &Stats) -> String {
        let prefix = format!("{}/", folder.path().display());
        for problem in &stats.problems {
            let _ = writeln!(self.0, "! {}", problem.to_string().replace(&prefix, ""));
        }
        self.0
    }
}

impl Consumer for Transcript {
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        if let Some(line) = event_line(event) {
            self.0.push_str(&line);
            self.0.push('\n');
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, _: &Trace, stream: &Stream, loss: &Loss) -> ControlFlow<()> {
        self.0.push_str(&loss_line(stream, loss));
        self.0.push('\n');
        ControlFlow::Continue(())
    }
}

/// Returns the transcript's line for an event; `None` if the event cannot be decoded, or has no
/// time, name or `x`.
pub(crate) fn event_line(event: &mut Event<'_>) -> Option<String> {
    let mut x = PayloadX::default();
    if !event.visit(&mut x) {
        return None;
    }
    let (time, name) = (event.time()?, event.class().name.as_deref()?);
    Some(format!("{time} {name}{} {}", x.value?, stream_name(event.stream())))
}

pub(crate) fn loss_line(stream: &Stream, loss: &Loss) -> String {
    let count = loss.count.map_or("?".to_owned(), |count| count.to_string());
    let ns = |time: Option<(i64, u64)>| time.map_or(String::new(), |(ns, _)| ns.to_string());
    let (from, to) = (ns(loss.from), ns(loss.to));
    format!("lost {count} {}s {from}..{to} {}", loss.kind, stream_name(stream))
}

fn stream_name(stream: &Stream) -> String {
    format!("{}.{}", stream.class_id, stream.instance.unwrap_or(0))
}

/// Visitor that finds `x`, the payload's first unsigned integer.
#[derive(Default)]
struct PayloadX {
    value: Option<u64>,
}

impl Visitor for PayloadX {
    fn restart(&mut self) {
        self.value = None;
    }

    fn unsigned(&mut self, node: &Node, value: u64) {
        if node.scope == Scope::Payload {
            self.value.get_or_insert(value);
        }
    }
}

/// Reads all traces of the folder with the options that `select` sets, and returns the transcript.
pub(crate) fn transcript(
    folder: &TraceFolder,
    select: impl for<'r> FnOnce(Reading<'r>) -> Reading<'r>,
) -> String {
    let opened = folder.open();
    assert_eq!(opened.problems, [], "problems when the traces were opened");
    let mut transcript = Transcript::default();
    let stats = select(Reading::new(&opened.traces)).ordered(&mut transcript);
    transcript.finish(folder, &stats)
}

/// Checks that two texts have the same lines, apart from indentation and empty lines.
#[track_caller]
pub(crate) fn check_lines(actual: &str, expected: &str, case: &str) {
    let lines = |text: &str| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("\n")
    };
    let (actual, expected) = (lines(actual), lines(expected));
    assert!(actual == expected, "{case}\n--- actual\n{actual}\n--- expected\n{expected}");
}

/// Writes the traces that `description` lists, and checks the transcript of all their events.
#[track_caller]
pub(crate) fn check(description: &str, expected: &str) {
    let folder = TraceFolder::new(description);
    check_lines(&transcript(&folder, |reading| reading), expected, description);
}
