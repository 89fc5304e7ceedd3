//! Execution of SQL queries within limits of time and memory. Start at [`run`].
//!
//! DataFusion has a memory limit, but accounts only for most of its memory, and cannot interrupt
//! a function or the planner. So the query runs on separate threads, while the caller's thread
//! checks the clock and the growth of the process every few milliseconds. A query that ignores
//! cancellation may run until the process exits; a long-lived caller should run queries in a
//! subprocess.

use crate::error::Error;
use crate::files::Snapshot;
use crate::functions;
use crate::guard::{self, AcceptedStatement};
use crate::otlp;
use crate::own_time;
use crate::print::Printer;
use crate::removed_functions;
use crate::table::{FILES_URL, Files};
use crate::tags::SpanTags;
use crate::views::TABLES;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::ViewTable;
use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::ScalarUDF;
use datafusion::object_store::memory::InMemory;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures_util::StreamExt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Store that a query reads, and the limits of the query.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of the store, as given to `blkkin server --data`.
    pub directory: PathBuf,
    /// Maximum number of rows in the result; `None` for no limit.
    pub rows_max: Option<usize>,
    /// Maximum time for the query, including the opening of the store.
    pub timeout: Duration,
    /// Maximum number of bytes by which the process's memory may grow.
    pub memory_bytes: usize,
    /// True to skip damaged files and damaged parts of the journal. All files are then verified
    /// completely before the query.
    pub skip_damaged: bool,
}

/// Statistics of a completed query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of rows that were printed.
    pub rows: usize,
    /// True if the row limit truncated the result.
    pub is_cut: bool,
    /// Number of files in the store's snapshot.
    pub files: usize,
    /// Number of bytes that the query read from files, without footers.
    pub bytes_read: u64,
    /// Descriptions of the skipped damaged files and of unreadable or missing parts of the journal.
    pub left_out: Vec<String>,
}

/// Interval at which the limits of time and memory are checked.
const TICK: Duration = Duration::from_millis(5);

/// Stack size of query threads, in bytes. Plans are processed recursively, as deep as the SQL is
/// nested.
const STACK_BYTES: usize = 256 << 20;

/// Message from the query's threads to the caller's thread.
enum QueryEvent {
    Schema(SchemaRef),
    Batch(RecordBatch),
    Done(Result<bool, Error>),
}

/// Runs a query on a store and prints the result.
pub fn run<W: Write>(
    options: &Options,
    sql: &str,
    printer: &mut Printer<W>,
) -> Result<Summary, Error> {
    let watch = LimitWatch::start(options);
    let (snapshot, left_out) = take_snapshot(options, &watch)?;
    if let (Some(damaged), false) = (snapshot.damage().first(), options.skip_damaged) {
        return Err(damage(format!("cannot be read: {damaged}")));
    }
    if let Some(damaged) = snapshot.files.iter().find_map(|file| file.check_size().err()) {
        return Err(damage(damaged));
    }
    let snapshot = Arc::new(snapshot);
    let mut summary = Summary { files: snapshot.files.len(), left_out, ..Summary::default() };
    let bytes_read = Arc::new(AtomicU64::new(0));
    // Dropping `_cancel` cancels the query.
    let (_cancel, cancelled) = oneshot::channel();
    let (sender, events) = sync_channel(2);
    let query = Query {
        snapshot: snapshot.clone(),
        bytes_read: bytes_read.clone(),
        sql: sql.to_owned(),
        rows_max: options.rows_max,
        // The remaining quarter is for memory that DataFusion does not account for.
        pool_bytes: options.memory_bytes / 4 * 3,
        sender,
    };
    start_thread(move || query.run(cancelled))?;
    let done = wait(&watch, &events, printer, &mut summary);
    summary.bytes_read = bytes_read.load(Ordering::Relaxed);
    match done {
        Ok(is_cut) => summary.is_cut = is_cut,
        Err(error) => return Err(name_damaged(error, &snapshot)),
    }
    printer.end().map_err(cannot_print)?;
    Ok(summary)
}

/// Takes a snapshot of the store, without damaged files if `skip_damaged` is set. Verifying the
/// files may take long, so the limits apply. Returns the snapshot, and descriptions of the skipped
/// files and of the missing parts of the journal.
fn take_snapshot(options: &Options, watch: &LimitWatch) -> Result<(Snapshot, Vec<String>), Error> {
    let (sender, events) = sync_channel(1);
    let (directory, skips) = (options.directory.clone(), options.skip_damaged);
    let made_bytes = Arc::clone(&watch.made_bytes);
    let work = move || {
        let result = Snapshot::take(&directory, &made_bytes).map(|mut snapshot| {
            let left_out = if skips { snapshot.remove_damaged() } else { Vec::new() };
            (snapshot, left_out)
        });
        let _ = sender.send(result);
    };
    start_thread(work)?;
    loop {
        match events.recv_timeout(TICK) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => watch.check()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::failed("what reads the store ended unexpectedly"));
            }
        }
    }
}

fn start_thread(run: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let thread = thread::Builder::new().name("sql".into()).stack_size(STACK_BYTES).spawn(run);
    let started = thread.map(drop);
    started.map_err(|error| Error::failed(format!("cannot start a thread: {error}")))
}

fn wait<W: Write>(
    watch: &LimitWatch,
    events: &Receiver<QueryEvent>,
    printer: &mut Printer<W>,
    summary: &mut Summary,
) -> Result<bool, Error> {
    loop {
        match events.recv_timeout(TICK) {
            Ok(QueryEvent::Schema(schema)) => printer.begin(&schema).map_err(cannot_print)?,
            Ok(QueryEvent::Batch(batch)) => {
                summary.rows += batch.num_rows();
                printer.rows(&batch).map_err(cannot_print)?;
            }
            Ok(QueryEvent::Done(done)) => return done,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::failed("the query engine ended unexpectedly"));
            }
        }
        watch.check()?;
    }
}

fn cannot_print(error: io::Error) -> Error {
    Error::output(error)
}

fn damage(message: String) -> Error {
    Error::failed(message).hint("--skip-damaged answers from all other files")
}

/// Replaces a read or decoding error by an error that names the damaged file, as DataFusion's error
/// lacks the name. Returns the error unchanged if it has another cause, or if no file is damaged.
fn name_damaged(error: Error, snapshot: &Snapshot) -> Error {
    if !error.is_of_data() {
        return error;
    }
    match snapshot.files.iter().find_map(|file| file.check().err()) {
        Some(damaged) => damage(damaged),
        None => error,
    }
}

/// Time and memory limits of a query, with its start time and the process's memory use at that
/// time.
struct LimitWatch {
    started: Instant,
    timeout: Duration,
    memory_before: usize,
    memory_max: usize,
    /// Total size of the snapshot's files in memory, in bytes. The process's resident memory does
    /// not include them.
    made_bytes: Arc<AtomicUsize>,
}

impl LimitWatch {
    fn start(options: &Options) -> LimitWatch {
        LimitWatch {
            started: Instant::now(),
            timeout: options.timeout,
            memory_before: resident_bytes(),
            memory_max: options.memory_bytes,
            made_bytes: Arc::default(),
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.started.elapsed() >= self.timeout {
            let message = format!("the query took longer than {:?}", self.timeout);
            return Err(Error::stopped(message)
                .hint("ask for less: a shorter time, a LIMIT; or raise --timeout"));
        }
        let grown_by = resident_bytes().saturating_sub(self.memory_before);
        if grown_by + self.made_bytes.load(Ordering::Relaxed) > self.memory_max {
            return Err(Error::too_much_memory());
        }
        Ok(())
    }
}

/// Returns the resident memory of this process, in bytes; 0 if unknown.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok().and_then(|text| {
        text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok())
    });
    pages.unwrap_or(0).saturating_mul(rustix::param::page_size())
}

/// Input of a query and the channel for its result, which are moved to the query's threads.
struct Query {
    snapshot: Arc<Snapshot>,
    bytes_read: Arc<AtomicU64>,
    sql: String,
    rows_max: Option<usize>,
    pool_bytes: usize,
    sender: SyncSender<QueryEvent>,
}

impl Query {
    fn run(self, cancelled: oneshot::Receiver<()>) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads())
            .thread_stack_size(STACK_BYTES)
            .thread_name("sql")
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                let error = Error::failed(format!("cannot start threads: {error}"));
                let _ = self.sender.send(QueryEvent::Done(Err(error)));
                return;
            }
        };
        runtime.block_on(async {
            tokio::select! {
                _ = cancelled => {}
                done = self.answer() => { let _ = self.sender.send(QueryEvent::Done(done)); }
            }
        });
        runtime.shutdown_background();
    }

    /// Runs the query and sends the rows of the result. Returns whether the row limit truncated the
    /// result.
    async fn answer(&self) -> Result<bool, Error> {
        let context = context(self.pool_bytes)?;
        add_tables(&context, &self.snapshot, &self.bytes_read).await?;
        removed_functions::remove_functions(&context);
        let state = context.state();
        let accepted = guard::parse(&state, &self.sql)?;
        let (statement, most) = match accepted {
            AcceptedStatement::Rows(statement) => (statement, self.rows_max),
            AcceptedStatement::Info(statement) => (statement, None),
        };
        let plan = state.statement_to_plan(statement).await?;
        guard::check(&plan)?;
        let mut frame = functions::show_json_as_text(DataFrame::new(state, plan))?;
        if let Some(most) = most {
            // One row more than the limit shows whether the result is truncated.
            frame = frame.limit(0, Some(most.saturating_add(1)))?;
        }
        let mut stream = frame.execute_stream().await?;
        if self.sender.send(QueryEvent::Schema(stream.schema())).is_err() {
            return Ok(false);
        }
        let mut left = most.unwrap_or(usize::MAX);
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            let rows = batch.num_rows().min(left);
            left -= rows;
            let is_cut = rows < batch.num_rows();
            if self.sender.send(QueryEvent::Batch(batch.slice(0, rows))).is_err() || is_cut {
                return Ok(is_cut);
            }
        }
        Ok(false)
    }
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Creates a session with a memory limit. Its queries cannot access files of this machine by URL.
fn context(pool_bytes: usize) -> Result<SessionContext, Error> {
    let place = datafusion::execution::object_store::ObjectStoreUrl::parse(FILES_URL)?;
    let stores = DefaultObjectStoreRegistry::new();
    // The default registry gives access to all files of the machine.
    let _ = stores.deregister_store(
        datafusion::execution::object_store::ObjectStoreUrl::local_filesystem().as_ref(),
    );
    stores.register_store(place.as_ref(), Arc::new(InMemory::new()));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(pool_bytes)))
        .with_disk_manager_builder(
            DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
        )
        .with_object_store_registry(Arc::new(stores))
        .build_arc()?;
    let mut config = SessionConfig::new()
        .with_target_partitions(threads())
        .with_information_schema(true)
        .with_default_catalog_and_schema("blkkin", "store");
    let options = config.options_mut();
    options.execution.parquet.pushdown_filters = true;
    options.execution.parquet.reorder_filters = true;
    options.execution.collect_statistics = false;
    options.sql_parser.collect_spans = true;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .build();
    let mut context = SessionContext::new_with_state(state);
    functions::add(&mut context)?;
    Ok(context)
}

/// Registers the tables that users can query. These tables are views of a table of all files. The
/// table of all files is in a separate session, so that users cannot query it directly.
async fn add_tables(
    context: &SessionContext,
    snapshot: &Arc<Snapshot>,
    bytes_read: &Arc<AtomicU64>,
) -> Result<(), DataFusionError> {
    let inner = SessionContext::new();
    inner.register_udf(ScalarUDF::new_from_impl(SpanTags::new()));
    otlp::add(&inner);
    own_time::add(&inner);
    let files = Files::new(snapshot.clone(), bytes_read.clone());
    inner.register_table("files", Arc::new(files))?;
    for table in &TABLES {
        let plan = inner.state().create_logical_plan(table.sql).await?;
        let view = ViewTable::new(plan, Some(table.sql.to_owned()));
        context.register_table(table.name, Arc::new(view))?;
    }
    Ok(())
}
