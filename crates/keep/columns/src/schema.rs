//! The columns of a file, as docs/span-files.md describes them, and how each is encoded. Start at [`COLUMNS`].

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

/// A column, by its number in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Column {
    /// The request's id, hexadecimal.
    TraceId,
    /// The span's id, hexadecimal.
    SpanId,
    /// The id of the span that caused it.
    ParentId,
    /// What it is to its parent.
    Kind,
    /// How it ended.
    Status,
    /// Whether it failed.
    Error,
    /// What was done.
    Name,
    /// The service that recorded it.
    Service,
    /// When it started.
    StartTime,
    /// How long it took.
    Duration,
    /// The service at the other end.
    RemoteService,
    /// Who recorded it: the address of 32 bits.
    LocalIpv4,
    /// Who recorded it: the address of 128 bits.
    LocalIpv6,
    /// Who recorded it: the port.
    LocalPort,
    /// Who is at the other end: the address of 32 bits.
    RemoteIpv4,
    /// Who is at the other end: the address of 128 bits.
    RemoteIpv6,
    /// Who is at the other end: the port.
    RemotePort,
    /// Whether it is to be kept, whatever sampling says.
    Debug,
    /// Whether another service has a span of this id too.
    Shared,
    /// When something happened.
    AnnotationTime,
    /// What happened.
    AnnotationValue,
    /// The keys of its tags.
    TagKey,
    /// The values of its tags.
    TagValue,
    /// The keys of its process's tags.
    ResourceKey,
    /// The values of its process's tags.
    ResourceValue,
    /// The keys of its library's tags.
    ScopeKey,
    /// The values of its library's tags.
    ScopeValue,
    /// In which order its tags are, and of what type.
    TagLayout,
}

use Column::{
    AnnotationTime, AnnotationValue, Duration, Error, LocalIpv4, LocalIpv6, LocalPort, Name,
    ParentId, RemoteIpv4, RemoteIpv6, RemotePort, RemoteService, ResourceKey, ResourceValue,
    ScopeKey, ScopeValue, Service, Shared, SpanId, StartTime, TagKey, TagLayout, TagValue, TraceId,
};

/// All of them, in order.
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

/// What a column holds for each row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    AtMostOne,
    Many,
}

/// What a column's values are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Texts,
    /// Of so many bytes.
    Numbers(usize),
    Flags,
}

impl Column {
    pub(crate) fn shape(self) -> Shape {
        match self {
            TraceId | SpanId | Error | Column::Debug | Shared => Shape::One,
            AnnotationTime | AnnotationValue | TagKey | TagValue | ResourceKey | ResourceValue
            | ScopeKey | ScopeValue => Shape::Many,
            _ => Shape::AtMostOne,
        }
    }

    /// Whether its values are mostly those of rows before, in part or together: to look for those longer finds more.
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

/// The keys and values of the tags of an origin.
pub(crate) const TAGS: [(Origin, Column, Column); 3] = [
    (Origin::Span, TagKey, TagValue),
    (Origin::Resource, ResourceKey, ResourceValue),
    (Origin::Scope, ScopeKey, ScopeValue),
];

/// All kinds, in the order of their numbers.
pub(crate) const KINDS: [Kind; 6] =
    [Kind::Unspecified, Kind::Internal, Kind::Client, Kind::Server, Kind::Producer, Kind::Consumer];

/// All statuses, in the order of their numbers.
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

    /// The numbers of columns are those of the schema.
    #[test]
    fn columns_are_those_of_the_schema() {
        let schema = SchemaDescriptor::new(schema().expect("a schema"));
        assert_eq!(schema.num_columns(), COLUMNS.len());
        for (column, at) in COLUMNS.into_iter().zip(0..) {
            assert_eq!(column as usize, at);
            let of = schema.column(at);
            let levels = (of.max_rep_level(), of.max_def_level());
            let expected = match column.shape() {
                Shape::One => (0, 0),
                Shape::AtMostOne => (0, 1),
                Shape::Many => (1, 1),
            };
            assert_eq!(levels, expected, "{column:?}");
        }
    }
}
