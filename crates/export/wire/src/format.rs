//! The formats, by name.

/// A format of a batch of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Zipkin's second format, protobuf: `ListOfSpans` of `zipkin.proto3`.
    ZipkinProto,
    /// OpenTelemetry's, protobuf: `ExportTraceServiceRequest`.
    OtlpProto,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 2] = [Format::ZipkinProto, Format::OtlpProto];

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Format::ZipkinProto => "zipkin-proto",
            Format::OtlpProto => "otlp-proto",
        }
    }
}
