//! The columns of a span file, as `docs/span-files.md` describes them. Start at [`COLUMNS`].

use blkkin_model::{Kind, Origin, Status};
use parquet::errors::ParquetError;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
use std::sync::Arc;

const MESSAGE: &str = "message span {
    required binary trace_id (STRING);
    required binary span_id (STRING);
    optional binary parent_id (STRING);
    optional binary kind (STRING);
    optional binary status (STRING);
    required boolean error;
    optional binary name (STRING);
    optional binary service (STRING);
    optional int64 start_time (TIMESTAMP(NANOS, true));
    optional int64 duration_ns;
    optional binary remote_service (STRING);
    optional binary local_ipv4 (STRING);
    optional binary local_ipv6 (STRING);
    optional int32 local_port (INTEGER(32, true));
    optional binary remote_ipv4 (STRING);
    optional binary remote_ipv6 (STRING);
    optional int32 remote_port (INTEGER(32, true));
    required boolean debug;
    required boolean shared;
    required group annotations (LIST) { repeated group list { required group element {
        required int64 time (TIMESTAMP(NANOS, true));
        required binary value (STRING);
    } } }
    required group tags (MAP) { repeated group key_value {
        required binary key (STRING);
        required binary value (STRING);
    } }
    required group resource_tags (MAP) { repeated group key_value {
        required binary key (STRING);
        required binary value (STRING);
    } }
    required group scope_tags (MAP) { repeated group key_value {
        required binary key (STRING);
        required binary value (STRING);
    } }
    optional binary tag_layout (STRING);
}";

/// Column of a span file. The discriminant is the column's number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Column {
    /// Trace id, hexadecimal.
    TraceId,
    /// Span id, hexadecimal.
    SpanId,
    /// Span id of the parent; absent if the span has no parent.
    ParentId,
    /// Role of the span in a call or message.
    Kind,
    /// Result of the span; absent if its program set none.
    Status,
    /// Flag of failed spans.
    Error,
    /// Name of the span.
    Name,
    /// Service that recorded the span.
    Service,
    /// Start time, in nanoseconds since 1970.
    StartTime,
    /// Duration in nanoseconds.
    Duration,
    /// Service of the remote endpoint.
    RemoteService,
    /// IPv4 address of the recording service.
    LocalIpv4,
    /// IPv6 address of the recording service.
    LocalIpv6,
    /// Port of the recording service.
    LocalPort,
    /// IPv4 address of the remote endpoint.
    RemoteIpv4,
    /// IPv6 address of the remote endpoint.
    RemoteIpv6,
    /// Port of the remote endpoint.
    RemotePort,
    /// Flag of spans that must be stored regardless of sampling.
    Debug,
    /// Flag of spans whose id was assigned by the other side of the call for its own span.
    Shared,
    /// Times of annotations, in nanoseconds since 1970.
    AnnotationTime,
    /// Texts of annotations, one for each time.
    AnnotationValue,
    /// Keys of the span's own tags.
    TagKey,
    /// Values of the span's own tags.
    TagValue,
    /// Keys of the tags of the span's resource: the process that recorded the span.
    ResourceKey,
    /// Values of the tags of the span's resource.
    ResourceValue,
    /// Keys of the tags of the span's scope: the instrumentation library that recorded the span.
    ScopeKey,
    /// Values of the tags of the span's scope.
    ScopeValue,
    /// Origins and types of the span's tags, in order; absent if all tags are texts of the span
    /// itself.
    TagLayout,
}

use Column::{
    AnnotationTime, AnnotationValue, Duration, Error, LocalIpv4, LocalIpv6, LocalPort, Name,
    ParentId, RemoteIpv4, RemoteIpv6, RemotePort, RemoteService, ResourceKey, ResourceValue,
    ScopeKey, ScopeValue, Service, Shared, SpanId, StartTime, TagKey, TagLayout, TagValue, TraceId,
};

/// All columns, in the order of their numbers.
pub(crate) const COLUMNS: [Column; 28] = [
    TraceId,
    SpanId,
    ParentId,
    Column::Kind,
    Column::Status,
    Error,
    Name,
    Service,
    StartTime,
    Duration,
    RemoteService,
    LocalIpv4,
    LocalIpv6,
    LocalPort,
    RemoteIpv4,
    RemoteIpv6,
    RemotePort,
    Column::Debug,
    Shared,
    AnnotationTime,
    AnnotationValue,
    TagKey,
    TagValue,
    ResourceKey,
    ResourceValue,
    ScopeKey,
    ScopeValue,
    TagLayout,
];

/// Repetition of a column: a row has exactly one value, at most one value, or a list of values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    Required,
    Optional,
    Repeated,
}

/// Physical type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Texts,
    /// Integers of the given size in bytes.
    Numbers(usize),
    Flags,
}

impl Column {
    pub(crate) fn repetition(self) -> Repetition {
        match self {
            TraceId | SpanId | Error | Column::Debug | Shared => Repetition::Required,
            AnnotationTime | AnnotationValue | TagKey | TagValue | ResourceKey | ResourceValue
            | ScopeKey | ScopeValue => Repetition::Repeated,
            _ => Repetition::Optional,
        }
    }

    /// Returns whether most values repeat values of earlier rows, in whole or in part. Such columns
    /// justify a higher zstd level. Trace ids do not count, since their encoding omits repetitions.
    pub(crate) fn recurs(self) -> bool {
        use Column::{AnnotationTime, Duration, ParentId, SpanId, StartTime, TraceId};
        !matches!(self, TraceId | SpanId | ParentId | StartTime | Duration | AnnotationTime)
    }

    pub(crate) fn values(self) -> Values {
        match self {
            StartTime | Duration | AnnotationTime => Values::Numbers(8),
            LocalPort | RemotePort => Values::Numbers(4),
            Error | Column::Debug | Shared => Values::Flags,
            _ => Values::Texts,
        }
    }
}

/// Tag origins, each with its key column and its value column.
pub(crate) const TAGS: [(Origin, Column, Column); 3] = [
    (Origin::Span, TagKey, TagValue),
    (Origin::Resource, ResourceKey, ResourceValue),
    (Origin::Scope, ScopeKey, ScopeValue),
];

/// All span kinds, in the order of their discriminants.
pub(crate) const KINDS: [Kind; 6] =
    [Kind::Unspecified, Kind::Internal, Kind::Client, Kind::Server, Kind::Producer, Kind::Consumer];

/// All statuses, in the order of their discriminants.
pub(crate) const STATUSES: [Status; 3] = [Status::Unset, Status::Ok, Status::Error];

pub(crate) fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Unspecified => "",
        Kind::Internal => "internal",
        Kind::Client => "client",
        Kind::Server => "server",
        Kind::Producer => "producer",
        Kind::Consumer => "consumer",
    }
}

pub(crate) fn status_text(status: Status) -> &'static str {
    match status {
        Status::Unset => "",
        Status::Ok => "ok",
        Status::Error => "error",
    }
}

pub(crate) fn schema() -> Result<TypePtr, ParquetError> {
    parse_message_type(MESSAGE).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::schema::types::SchemaDescriptor;

    /// The Parquet schema has as many columns as [`COLUMNS`], with the same repetition. The number
    /// of each column is its index in [`COLUMNS`].
    #[test]
    fn columns_are_those_of_the_schema() {
        let schema = SchemaDescriptor::new(schema().expect("a schema"));
        assert_eq!(schema.num_columns(), COLUMNS.len());
        for (column, at) in COLUMNS.into_iter().zip(0..) {
            assert_eq!(column as usize, at);
            let of = schema.column(at);
            let levels = (of.max_rep_level(), of.max_def_level());
            let expected = match column.repetition() {
                Repetition::Required => (0, 0),
                Repetition::Optional => (0, 1),
                Repetition::Repeated => (1, 1),
            };
            assert_eq!(levels, expected, "{column:?}");
        }
    }
}
