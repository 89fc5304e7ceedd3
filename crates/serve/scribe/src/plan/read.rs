//! Conversion of a parsed configuration to a plan. Start at [`Plan::of`].

use super::{
    BucketPlan, BucketRule, BufferPlan, FilePlan, Kind, NetworkPlan, Pattern, Plan, Rotation,
    StorePlan,
};
use crate::config::{Block, Config, Problem, Value};
use std::path::PathBuf;
use std::time::Duration;

/// Keys of Scribe's configuration that have no effect here, each with the reason.
const WITHOUT_EFFECT: [(&str, &str); 15] = [
    ("target_write_size", "what comes is written at once"),
    ("max_write_interval", "what comes is written at once"),
    ("max_write_size", "what comes is written at once"),
    ("max_queue_size", "messages wait on disk, up to `quota`"),
    ("num_thrift_server_threads", "each connection has a thread"),
    ("new_thread_per_category", "each category has its own queue"),
    ("check_interval", "what is due is done when it is due"),
    ("use_conn_pool", "each store has a connection of its own"),
    ("buffer_send_rate", "what waits is sent in small batches, as fast as it is taken"),
    ("flush_streaming", "what waits is sent first"),
    ("buffer_bypass_max_ratio", "what waits is sent first"),
    ("retry_interval_range", "each try comes between half of the interval and all of it"),
    ("max_random_offset", "each try comes between half of the interval and all of it"),
    ("write_stats", "`blkkin scribe` tells its counters by getCounters"),
    ("failure_bucket", "what a bucket does not take is tried again"),
];

impl Plan {
    /// Builds the plan for a parsed configuration. Errors are listed in [`Plan::problems`].
    pub fn of(config: &Config) -> Plan {
        let mut reader = Reader { problems: config.problems.clone(), notes: Vec::new() };
        let root = &config.root;
        let plan = Plan::default();
        let scope = Scope { blocks: &[root] };
        let number = |reader: &mut Reader, key, usual| reader.number(scope, "", key, usual);
        let port = number(&mut reader, "port", 0);
        let connections = number(&mut reader, "max_conn", 0);
        let mut plan = Plan {
            port: u16::try_from(port).ok().filter(|port| *port > 0),
            directory: scope.find("", "queue_path").map(|value| PathBuf::from(&value.text)),
            messages_per_second_max: number(&mut reader, "max_msg_per_second", 0),
            connections_max: usize::try_from(connections).ok().filter(|count| *count > 0),
            quota_bytes: number(&mut reader, "quota", plan.quota_bytes).max(QUOTA_BYTES_MIN),
            categories_max: number(&mut reader, "max_categories", 250).clamp(1, 10_000) as usize,
            permits_control: reader.flag(scope, "", "permit_control", false),
            ..plan
        };
        if port > u64::from(u16::MAX) {
            let line = root.value("port").map_or(0, |value| value.line);
            reader.problem(line, format!("there is no port {port}"));
        }
        for block in &root.blocks {
            match block.name.eq_ignore_ascii_case("store") {
                true => plan.stores.extend(reader.store(root, block)),
                false => reader.problem(block.line, format!("`<{}>` is no store", block.name)),
            }
        }
        if plan.stores.is_empty() {
            reader.problem(0, "no store is configured".to_owned());
        }
        (plan.problems, plan.notes) = (reader.problems, reader.notes);
        reader_notes(root, &mut plan.notes);
        plan
    }
}

/// Minimum quota of a category in bytes: two segments of a journal.
const QUOTA_BYTES_MIN: u64 = 16 << 20;

/// Maximum number of buckets in a bucket store.
const BUCKETS_MAX: u64 = 1000;

fn reader_notes(block: &Block, notes: &mut Vec<Problem>) {
    for value in &block.values {
        let key = value.key.rsplit("::").next().unwrap_or(&value.key);
        if let Some((_, why)) = WITHOUT_EFFECT.iter().find(|(other, _)| *other == key) {
            notes.push(Problem { line: value.line, text: format!("`{key}` has no effect: {why}") });
        }
    }
    block.blocks.iter().for_each(|block| reader_notes(block, notes));
}

/// Block and its enclosing blocks, innermost first; the last is the top level. A key is looked up
/// in the innermost block, and then as `type::key` in all blocks in this order.
#[derive(Clone, Copy)]
struct Scope<'c> {
    blocks: &'c [&'c Block],
}

impl<'c> Scope<'c> {
    fn own(self, key: &str) -> Option<&'c Value> {
        self.blocks.first().and_then(|block| block.value(key))
    }

    fn find(self, kind: &str, key: &str) -> Option<&'c Value> {
        let inherited = format!("{kind}::{key}");
        let inherit = |block: &&'c Block| block.value(&inherited);
        self.own(key).or_else(|| self.blocks.iter().find_map(inherit))
    }

    fn line(self) -> usize {
        self.blocks.first().map_or(0, |block| block.line)
    }
}

struct Reader {
    problems: Vec<Problem>,
    notes: Vec<Problem>,
}

impl Reader {
    fn problem(&mut self, line: usize, text: String) {
        self.problems.push(Problem { line, text });
    }

    fn note(&mut self, line: usize, text: &str) {
        self.notes.push(Problem { line, text: text.to_owned() });
    }

    fn number(&mut self, scope: Scope<'_>, kind: &str, key: &str, usual: u64) -> u64 {
        let Some(value) = scope.find(kind, key) else { return usual };
        value.text.parse().unwrap_or_else(|_| {
            let text = format!("`{key}={}`: not a number; {usual} is used", value.text);
            self.problem(value.line, text);
            usual
        })
    }

    fn flag(&mut self, scope: Scope<'_>, kind: &str, key: &str, usual: bool) -> bool {
        let Some(value) = scope.find(kind, key) else { return usual };
        match value.text.as_str() {
            "yes" | "1" | "true" => true,
            "no" | "0" | "false" => false,
            text => {
                let word = if usual { "yes" } else { "no" };
                let text = format!("`{key}={text}`: neither yes nor no; {word} is used");
                self.problem(value.line, text);
                usual
            }
        }
    }

    fn text(scope: Scope<'_>, kind: &str, key: &str) -> Option<String> {
        scope.find(kind, key).map(|value| value.text.clone()).filter(|text| !text.is_empty())
    }

    fn store(&mut self, root: &Block, block: &Block) -> Option<StorePlan> {
        let scope = Scope { blocks: &[block, root] };
        let words = [scope.own("category"), scope.own("categories")];
        let words = words.into_iter().flatten().flat_map(|value| value.text.split_whitespace());
        let categories: Vec<Pattern> = words.map(Pattern::new).collect();
        if categories.is_empty() {
            self.problem(block.line, "the store has no `category`".to_owned());
            return None;
        }
        let kind = self.kind(scope)?;
        let must_succeed = self.flag(scope, "", "must_succeed", true);
        Some(StorePlan { categories, kind, must_succeed })
    }

    fn kind(&mut self, scope: Scope<'_>) -> Option<Kind> {
        let Some(kind) = scope.own("type") else {
            self.problem(scope.line(), "the store has no `type`".to_owned());
            return None;
        };
        let line = kind.line;
        match kind.text.as_str() {
            "file" => self.file(scope).map(|plan| Kind::File(Box::new(plan))),
            "network" => self.network(scope).map(Kind::Network),
            "null" => Some(Kind::Null),
            "buffer" => self.buffer(scope).map(|plan| Kind::Buffer(Box::new(plan))),
            "multi" => self.multi(scope),
            "bucket" => self.bucket(scope).map(|plan| Kind::Bucket(Box::new(plan))),
            "category" => self.nested(scope, "model").map(|kind| Kind::Category(Box::new(kind))),
            "multifile" => {
                let file = self.file(scope)?;
                Some(Kind::Category(Box::new(Kind::File(Box::new(file)))))
            }
            "thriftfile" | "thriftmultifile" => {
                let text = format!("`type={}` is not supported; use `type=file`", kind.text);
                self.problem(line, text);
                None
            }
            other => {
                let text = format!(
                    "`type={other}`: no such type; there are file, network, buffer, multi, \
                     bucket, category, multifile and null"
                );
                self.problem(line, text);
                None
            }
        }
    }

    /// Reads the store of the block `name`, a child of the innermost block in the scope. Reports a
    /// problem and returns `None` if the block is missing or describes no valid store.
    fn nested(&mut self, scope: Scope<'_>, name: &str) -> Option<Kind> {
        let Some(block) = scope.blocks.first().and_then(|block| block.block(name)) else {
            self.problem(scope.line(), format!("the store has no `<{name}>`"));
            return None;
        };
        self.kind_of(scope, block)
    }

    fn kind_of(&mut self, scope: Scope<'_>, block: &Block) -> Option<Kind> {
        let mut blocks = vec![block];
        blocks.extend(scope.blocks);
        self.kind(Scope { blocks: &blocks })
    }

    fn file(&mut self, scope: Scope<'_>) -> Option<FilePlan> {
        let kind = "file";
        let text = |key| Reader::text(scope, kind, key);
        let path = text("file_path").unwrap_or_else(|| "/tmp".to_owned());
        if path.starts_with("hdfs:") || text("fs_type").is_some_and(|text| text != "std") {
            let line = scope.find(kind, "fs_type").or_else(|| scope.find(kind, "file_path"));
            let text =
                "files in HDFS are not supported; use a local `file_path`, or another server";
            self.problem(line.map_or(scope.line(), |value| value.line), text.to_owned());
            return None;
        }
        let is_component = |text: &String| !text.contains('/') && text != "." && text != "..";
        for key in ["sub_directory", "base_filename", "base_symlink_name"] {
            if let Some(value) = scope.find(kind, key).filter(|value| !is_component(&value.text)) {
                let text = format!("`{key}={}`: not the name of one file", value.text);
                self.problem(value.line, text);
                return None;
            }
        }
        Some(FilePlan {
            path: PathBuf::from(path),
            sub_directory: text("sub_directory"),
            has_hostname: self.flag(scope, kind, "use_hostname_sub_directory", false),
            base: text("base_filename"),
            symlink: text("base_symlink_name"),
            makes_symlink: self.flag(scope, kind, "create_symlink", true),
            bytes_max: self.number(scope, kind, "max_size", 1_000_000_000),
            rotation: self.rotation(scope),
            rotates_on_reopen: self.flag(scope, kind, "rotate_on_reopen", false),
            adds_newlines: self.flag(scope, kind, "add_newlines", false),
            writes_category: self.flag(scope, kind, "write_category", false),
            writes_meta: self.flag(scope, kind, "write_meta", false),
            chunk_bytes: self.number(scope, kind, "chunk_size", 0),
        })
    }

    fn rotation(&mut self, scope: Scope<'_>) -> Rotation {
        let hour = self.number(scope, "file", "rotate_hour", 1).min(23);
        let minute = self.number(scope, "file", "rotate_minute", 15).min(59);
        let Some(value) = scope.find("file", "rotate_period") else { return Rotation::Never };
        match value.text.as_str() {
            "never" => Rotation::Never,
            "hourly" => Rotation::Hourly { minute },
            "daily" => Rotation::Daily { hour, minute },
            text => period(text).map_or_else(
                || {
                    let text = format!(
                        "`rotate_period={text}`: neither never, hourly, daily nor a time such as \
                         30m; never is used"
                    );
                    self.problem(value.line, text);
                    Rotation::Never
                },
                Rotation::Every,
            ),
        }
    }

    fn network(&mut self, scope: Scope<'_>) -> Option<NetworkPlan> {
        let kind = "network";
        let port_usual = u64::from(blkkin_scribe::PORT);
        let port = self.number(scope, kind, "list_default_port", port_usual);
        let mut servers = Vec::new();
        if let Some(list) = scope.find(kind, "service_list") {
            let words = list.text.split([' ', ',', '\t']).filter(|word| !word.is_empty());
            servers.extend(words.map(|word| with_port(word, port)));
        } else if let Some(host) = scope.find(kind, "remote_host") {
            let port = self.number(scope, kind, "remote_port", port_usual);
            servers.push(with_port(&host.text, port));
        }
        if servers.is_empty() {
            let line = scope.line();
            self.problem(line, "the store has neither `remote_host` nor `service_list`".to_owned());
            return None;
        }
        let timeout_ms = self.number(scope, kind, "timeout", 5000).clamp(1, 600_000);
        let ignores_errors = self.flag(scope, kind, "ignore_network_error", false);
        Some(NetworkPlan { servers, timeout: Duration::from_millis(timeout_ms), ignores_errors })
    }

    fn buffer(&mut self, scope: Scope<'_>) -> Option<BufferPlan> {
        let primary = self.nested(scope, "primary")?;
        if matches!(primary, Kind::Multi { is_any: false, .. } | Kind::Buffer(_)) {
            let text = "a multi or buffer store cannot be a primary; put the buffer into it";
            self.problem(scope.line(), text.to_owned());
            return None;
        }
        let mut directory = None;
        match scope.blocks.first().and_then(|block| block.block("secondary")) {
            None => self.problem(
                scope.line(),
                "the store has no `<secondary>`; messages wait where others do".to_owned(),
            ),
            Some(block) => {
                let mut blocks = vec![block];
                blocks.extend(scope.blocks);
                let scope = Scope { blocks: &blocks };
                let is_file = scope.own("type").is_some_and(|value| value.text == "file");
                let path = Reader::text(scope, "file", "file_path");
                directory = path.filter(|path| is_file && !path.starts_with("hdfs:"));
                if !is_file {
                    self.note(block.line, "messages wait on disk, not in this `<secondary>`");
                }
            }
        }
        if !self.flag(scope, "buffer", "replay_buffer", true) {
            self.note(scope.line(), "`replay_buffer=no` has no effect: what waits is sent");
        }
        let is_adaptive = self.flag(scope, "buffer", "adaptive_backoff", false);
        let (first, longest) = match is_adaptive {
            true => (
                self.number(scope, "buffer", "min_retry_interval", 5),
                self.number(scope, "buffer", "max_retry_interval", 100),
            ),
            false => (1, self.number(scope, "buffer", "retry_interval", 300)),
        };
        let seconds = |count: u64| Duration::from_secs(count.clamp(1, 86_400));
        let (retry_first, retry_longest) = (seconds(first.min(longest)), seconds(longest));
        let directory = directory.map(PathBuf::from);
        Some(BufferPlan { primary, directory, retry_first, retry_longest })
    }

    fn multi(&mut self, scope: Scope<'_>) -> Option<Kind> {
        let blocks = scope.blocks.first().map_or(&[][..], |block| &block.blocks);
        let is_store = |block: &&Block| block.name.to_ascii_lowercase().starts_with("store");
        let blocks: Vec<&Block> = blocks.iter().filter(is_store).collect();
        if blocks.is_empty() {
            self.problem(scope.line(), "the store has no `<store0>`".to_owned());
            return None;
        }
        let is_any = match Reader::text(scope, "multi", "report_success").as_deref() {
            None | Some("all") => false,
            Some("any") => true,
            Some(text) => {
                let text = format!("`report_success={text}`: neither all nor any; all is used");
                self.problem(scope.line(), text);
                false
            }
        };
        let children: Vec<Kind> =
            blocks.iter().filter_map(|block| self.kind_of(scope, block)).collect();
        (!children.is_empty()).then_some(Kind::Multi { children, is_any })
    }

    fn bucket(&mut self, scope: Scope<'_>) -> Option<BucketPlan> {
        let kind = "bucket";
        let count = self.number(scope, kind, "num_buckets", 0);
        if !(1..=BUCKETS_MAX).contains(&count) {
            let text = format!("`num_buckets` has to be from 1 to {BUCKETS_MAX}");
            self.problem(scope.line(), text);
            return None;
        }
        let range = self.number(scope, kind, "bucket_range", 0);
        let rule = match Reader::text(scope, kind, "bucket_type").as_deref() {
            Some("random") => BucketRule::Random,
            Some("key_hash" | "context_log") => BucketRule::Hash,
            Some("key_modulo") => BucketRule::Modulo,
            Some("key_range") if range > 0 => BucketRule::Range(range),
            other => {
                let text = match other {
                    None => "the store has no `bucket_type`".to_owned(),
                    Some("key_range") => "`key_range` needs a `bucket_range`".to_owned(),
                    Some(text) => format!(
                        "`bucket_type={text}`: no such type; there are random, key_hash, \
                         key_modulo, key_range and context_log"
                    ),
                };
                self.problem(scope.line(), text);
                return None;
            }
        };
        let own = scope.blocks.first()?;
        let (mut model, mut each) = (None, Vec::new());
        if own.block("bucket").is_some() {
            model = Some(self.nested(scope, "bucket")?);
        } else {
            for number in 0..=count {
                each.push(self.nested(scope, &format!("bucket{number}"))?);
            }
        }
        Some(BucketPlan {
            rule,
            delimiter: self.number(scope, kind, "delimiter", 58).min(255) as u8,
            removes_key: self.flag(scope, kind, "remove_key", false),
            directory: Reader::text(scope, kind, "bucket_subdir").unwrap_or("bucket".to_owned()),
            offset: self.number(scope, kind, "bucket_offset", 0).min(1 << 20) as usize,
            model,
            each,
            count: count as usize,
        })
    }
}

/// Appends `port` to a host without a port.
fn with_port(host: &str, port: u64) -> String {
    let has_port = match host.strip_prefix('[') {
        Some(rest) => rest.contains("]:"),
        None => host.matches(':').count() == 1,
    };
    match has_port {
        true => host.to_owned(),
        false if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Parses a period such as `30m`: a number with a unit s, m, h, d or w.
fn period(text: &str) -> Option<Duration> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];
    let (unit, seconds) = units.into_iter().find(|(unit, _)| text.ends_with(*unit))?;
    let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
    Some(Duration::from_secs(count.checked_mul(seconds).filter(|seconds| *seconds > 0)?))
}
