//! The files of a snapshot as one DataFusion table. All tables that users can query are views of
//! it. Start at [`Files`].

use crate::files::{Snapshot, SpanFile};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures_util::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// URL of the snapshot's files in query plans. A query cannot reach any other URL.
pub(crate) const FILES_URL: &str = "store://files";

/// Table of all spans in the snapshot, with all columns of span files.
#[derive(Debug)]
pub(crate) struct Files {
    snapshot: Arc<Snapshot>,
    readers: Arc<Readers>,
    schema: SchemaRef,
}

impl Files {
    pub(crate) fn new(snapshot: Arc<Snapshot>, read: Arc<AtomicU64>) -> Files {
        let readers = Readers { snapshot: snapshot.clone(), read };
        Files { snapshot, readers: Arc::new(readers), schema: Arc::new(schema()) }
    }

    /// Distributes the files to at most `most` groups. Groups are read in parallel.
    fn groups(&self, most: usize) -> Vec<FileGroup> {
        let mut groups = vec![Vec::new(); most.clamp(1, self.snapshot.files.len().max(1))];
        let count = groups.len();
        for (number, file) in self.snapshot.files.iter().enumerate() {
            let of = PartitionedFile::new(file.name.clone(), file.bytes).with_extension(number);
            groups[number % count].push(of);
        }
        groups.into_iter().map(FileGroup::new).collect()
    }
}

#[async_trait]
impl TableProvider for Files {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Creates the scan of the files. Ignores `_filters`: DataFusion later pushes the filters that
    /// the scan supports into it, and applies the other filters itself.
    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = state.config_options();
        let mut parquet = datafusion::config::TableParquetOptions::new();
        parquet.global = options.execution.parquet.clone();
        let source = ParquetSource::new(self.schema.clone())
            .with_table_parquet_options(parquet)
            .with_parquet_file_reader_factory(self.readers.clone());
        let mut statistics = Statistics::new_unknown(&self.schema);
        let spans = usize::try_from(self.snapshot.spans()).unwrap_or(usize::MAX);
        statistics.num_rows = Precision::Inexact(spans);
        let place = ObjectStoreUrl::parse(FILES_URL)?;
        let config = FileScanConfigBuilder::new(place, Arc::new(source))
            .with_file_groups(self.groups(options.execution.target_partitions))
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}

/// Factory that creates a reader for each file of the snapshot.
#[derive(Debug)]
struct Readers {
    snapshot: Arc<Snapshot>,
    /// Number of bytes that all readers have read, without footers.
    read: Arc<AtomicU64>,
}

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        _partition: usize,
        file: PartitionedFile,
        _metadata_size: Option<usize>,
        _metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let number = file.extension::<usize>();
        let file = number.and_then(|number| self.snapshot.files.get(*number)).ok_or_else(|| {
            DataFusionError::Execution(format!("{} is not in the snapshot", file.path()))
        })?;
        Ok(Box::new(Reader { file: file.clone(), read: self.read.clone() }))
    }
}

/// Reader of one file. Reads synchronously, because asynchronous I/O would gain nothing with local
/// files.
struct Reader {
    file: Arc<SpanFile>,
    read: Arc<AtomicU64>,
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        let length = range.end.saturating_sub(range.start);
        self.read.fetch_add(length, Ordering::Relaxed);
        let bytes = self.file.read(range.start, length);
        Box::pin(std::future::ready(bytes))
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        let policy = options.map_or(PageIndexPolicy::Skip, ArrowReaderOptions::column_index_policy);
        Box::pin(std::future::ready(self.file.metadata(policy)))
    }
}

/// Returns the schema of span files (docs/span-files.md). A nullable column that a file lacks is
/// NULL; a query of any other missing column fails.
pub(crate) fn schema() -> Schema {
    let text = |name: &str, is_optional| Field::new(name, DataType::Utf8View, is_optional);
    let flag = |name: &str| Field::new(name, DataType::Boolean, false);
    let time = || DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    let inner = |name: &str| Field::new(name, DataType::Utf8, false);
    let map = |name: &str| {
        let entry = DataType::Struct(Fields::from(vec![inner("key"), inner("value")]));
        let entries = Arc::new(Field::new("key_value", entry, false));
        Field::new(name, DataType::Map(entries, false), false)
    };
    let annotation = Fields::from(vec![Field::new("time", time(), false), inner("value")]);
    let annotation = Field::new("element", DataType::Struct(annotation), false);
    Schema::new(vec![
        text("trace_id", false),
        text("span_id", false),
        text("parent_id", true),
        text("kind", true),
        text("status", true),
        flag("error"),
        text("name", true),
        text("service", true),
        Field::new("start_time", time(), true),
        Field::new("duration_ns", DataType::Int64, true),
        text("remote_service", true),
        text("local_ipv4", true),
        text("local_ipv6", true),
        Field::new("local_port", DataType::Int32, true),
        text("remote_ipv4", true),
        text("remote_ipv6", true),
        Field::new("remote_port", DataType::Int32, true),
        flag("debug"),
        flag("shared"),
        Field::new("annotations", DataType::List(Arc::new(annotation)), false),
        map("tags"),
        map("resource_tags"),
        map("scope_tags"),
        text("tag_layout", true),
    ])
}
