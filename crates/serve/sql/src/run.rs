//! A query from its text to its answer, within limits of time and memory that hold whatever it asks. Start at [`run`].
//!
//! DataFusion is asked to keep to the limit on memory, and accounts for most of what it holds, but not for all; and
//! what a function or the planner does in one go it does not interrupt. So the query runs in threads of its own, and
//! the one that asked looks every few milliseconds at the clock and at what the process has grown by. What does not
//! stop is left behind: it ends with the process, so who cannot end asks by a process of its own.

use crate::error::Error;
use crate::files::Snapshot;
use crate::functions;
use crate::guard::{self, Asked};
use crate::otlp;
use crate::print::Printer;
use crate::table::{Files, PLACE};
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

/// Of which store, and how much a query may take.
#[derive(Clone, Debug)]
pub struct Options {
    /// The store's directory.
    pub directory: PathBuf,
    /// Most rows of an answer; `None` is all.
    pub rows_max: Option<usize>,
    /// Longest time.
    pub timeout: Duration,
    /// Most bytes that the process grows by.
    pub memory_bytes: usize,
    /// Whether files that are damaged are left out, after all were read as a whole.
    pub skip_damaged: bool,
}

/// What came of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Rows of the answer.
    pub rows: usize,
    /// Whether there were more.
    pub is_cut: bool,
    /// Files of the store.
    pub files: usize,
    /// Bytes that were read of them, footers not counted.
    pub bytes_read: u64,
    /// What is wrong with each file that was left out.
    pub left_out: Vec<String>,
}

/// How often the limits are looked at.
const TICK: Duration = Duration::from_millis(5);

/// A plan is worked on by recursion, as deep as the SQL is long.
const STACK_BYTES: usize = 256 << 20;

/// What the query's threads tell.
enum Told {
    Schema(SchemaRef),
    Batch(RecordBatch),
    Done(Result<bool, Error>),
}

/// Answers a query, and has it printed.
pub fn run<W: Write>(
    options: &Options,
    sql: &str,
    printer: &mut Printer<W>,
) -> Result<Summary, Error> {
    let watch = Watch::start(options);
    let (snapshot, left_out) = take(options, &watch)?;
    if let (Some(damaged), false) = (snapshot.damage().first(), options.skip_damaged) {
        return Err(damage(format!("cannot be read: {damaged}")));
    }
    if let Some(damaged) = snapshot.files.iter().find_map(|file| file.check_size().err()) {
        return Err(damage(damaged));
    }
    let snapshot = Arc::new(snapshot);
    let mut summary = Summary { files: snapshot.files.len(), left_out, ..Summary::default() };
    let bytes_read = Arc::new(AtomicU64::new(0));
    // Dropped when we do not wait any more.
    let (_wanted, unwanted) = oneshot::channel();
    let (tell, told) = sync_channel(2);
    let query = Query {
        snapshot: snapshot.clone(),
        bytes_read: bytes_read.clone(),
        sql: sql.to_owned(),
        rows_max: options.rows_max,
        // The rest is for what is not accounted for.
        pool_bytes: options.memory_bytes / 4 * 3,
        tell,
    };
    start_thread(move || query.run(unwanted))?;
    let done = wait(&watch, &told, printer, &mut summary);
    summary.bytes_read = bytes_read.load(Ordering::Relaxed);
    match done {
        Ok(is_cut) => summary.is_cut = is_cut,
        Err(error) => return Err(name_damaged(error, &snapshot)),
    }
    printer.end().map_err(cannot_print)?;
    Ok(summary)
}

/// Opens the store's files, without those that are damaged if they are to be left out. That may take long, too.
fn take(options: &Options, watch: &Watch) -> Result<(Snapshot, Vec<String>), Error> {
    let (tell, told) = sync_channel(1);
    let (directory, skips) = (options.directory.clone(), options.skip_damaged);
    let made_bytes = Arc::clone(&watch.made_bytes);
    let taking = move || {
        let taken = Snapshot::take(&directory, &made_bytes).map(|mut snapshot| {
            let left_out = if skips { snapshot.leave_out_damaged() } else { Vec::new() };
            (snapshot, left_out)
        });
        let _ = tell.send(taken);
    };
    start_thread(taking)?;
    loop {
        match told.recv_timeout(TICK) {
            Ok(taken) => return taken,
            Err(RecvTimeoutError::Timeout) => watch.look()?,
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
    watch: &Watch,
    told: &Receiver<Told>,
    printer: &mut Printer<W>,
    summary: &mut Summary,
) -> Result<bool, Error> {
    loop {
        match told.recv_timeout(TICK) {
            Ok(Told::Schema(schema)) => printer.begin(&schema).map_err(cannot_print)?,
            Ok(Told::Batch(batch)) => {
                summary.rows += batch.num_rows();
                printer.rows(&batch).map_err(cannot_print)?;
            }
            Ok(Told::Done(done)) => return done,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::failed("the query engine ended unexpectedly"));
            }
        }
        watch.look()?;
    }
}

fn cannot_print(error: io::Error) -> Error {
    Error::output(error)
}

fn damage(message: String) -> Error {
    Error::failed(message).hint("--skip-damaged answers from all other files")
}

/// What DataFusion says of a file that cannot be decoded does not tell which one it is.
fn name_damaged(error: Error, snapshot: &Snapshot) -> Error {
    if !error.is_of_data() {
        return error;
    }
    match snapshot.files.iter().find_map(|file| file.check().err()) {
        Some(damaged) => damage(damaged),
        None => error,
    }
}

/// Looks at the limits.
struct Watch {
    started: Instant,
    timeout: Duration,
    memory_before: usize,
    memory_max: usize,
    /// What files in memory take, which is not the process's.
    made_bytes: Arc<AtomicUsize>,
}

impl Watch {
    fn start(options: &Options) -> Watch {
        Watch {
            started: Instant::now(),
            timeout: options.timeout,
            memory_before: resident_bytes(),
            memory_max: options.memory_bytes,
            made_bytes: Arc::default(),
        }
    }

    fn look(&self) -> Result<(), Error> {
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

/// How much memory the process has; 0 if nobody says.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok().and_then(|text| {
        text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok())
    });
    pages.unwrap_or(0).saturating_mul(rustix::param::page_size())
}

/// What the query's own threads need.
struct Query {
    snapshot: Arc<Snapshot>,
    bytes_read: Arc<AtomicU64>,
    sql: String,
    rows_max: Option<usize>,
    pool_bytes: usize,
    tell: SyncSender<Told>,
}

impl Query {
    fn run(self, unwanted: oneshot::Receiver<()>) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads())
            .thread_stack_size(STACK_BYTES)
            .thread_name("sql")
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                let error = Error::failed(format!("cannot start threads: {error}"));
                let _ = self.tell.send(Told::Done(Err(error)));
                return;
            }
        };
        runtime.block_on(async {
            tokio::select! {
                _ = unwanted => {}
                done = self.answer() => { let _ = self.tell.send(Told::Done(done)); }
            }
        });
        runtime.shutdown_background();
    }

    /// Tells all rows; whether there were more.
    async fn answer(&self) -> Result<bool, Error> {
        let context = context(self.pool_bytes)?;
        add_tables(&context, &self.snapshot, &self.bytes_read).await?;
        guard::leave_out_functions(&context);
        let state = context.state();
        let asked = guard::parse(&state, &self.sql)?;
        let (statement, most) = match asked {
            Asked::Rows(statement) => (statement, self.rows_max),
            Asked::About(statement) => (statement, None),
        };
        let plan = state.statement_to_plan(statement).await?;
        guard::check(&plan)?;
        let mut frame = functions::show_json_as_text(DataFrame::new(state, plan))?;
        if let Some(most) = most {
            // One more shows that there are more.
            frame = frame.limit(0, Some(most.saturating_add(1)))?;
        }
        let mut stream = frame.execute_stream().await?;
        if self.tell.send(Told::Schema(stream.schema())).is_err() {
            return Ok(false);
        }
        let mut left = most.unwrap_or(usize::MAX);
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            let rows = batch.num_rows().min(left);
            left -= rows;
            let is_cut = rows < batch.num_rows();
            if self.tell.send(Told::Batch(batch.slice(0, rows))).is_err() || is_cut {
                return Ok(is_cut);
            }
        }
        Ok(false)
    }
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A session that reaches nothing, and may use so much memory.
fn context(pool_bytes: usize) -> Result<SessionContext, Error> {
    let place = datafusion::execution::object_store::ObjectStoreUrl::parse(PLACE)?;
    let stores = DefaultObjectStoreRegistry::new();
    // By default there is one that has all files of the machine.
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

/// Makes the tables that users see. The one that they are made of is in a session of its own, where nobody sees it.
async fn add_tables(
    context: &SessionContext,
    snapshot: &Arc<Snapshot>,
    bytes_read: &Arc<AtomicU64>,
) -> Result<(), DataFusionError> {
    let inner = SessionContext::new();
    inner.register_udf(ScalarUDF::new_from_impl(SpanTags::new()));
    otlp::add(&inner);
    let files = Files::new(snapshot.clone(), bytes_read.clone());
    inner.register_table("files", Arc::new(files))?;
    for table in &TABLES {
        let plan = inner.state().create_logical_plan(table.sql).await?;
        let view = ViewTable::new(plan, Some(table.sql.to_owned()));
        context.register_table(table.name, Arc::new(view))?;
    }
    Ok(())
}
