//! The formats, by name.

/// A format of a batch of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Zipkin's second format, JSON.
    ZipkinJson,
    /// Zipkin's second format, protobuf: `ListOfSpans` of `zipkin.proto3`.
    ZipkinProto,
    /// Zipkin's first format, JSON.
    ZipkinV1Json,
    /// Zipkin's first format, thrift: a list of `Span`.
    ZipkinThrift,
    /// One `Span` of it, as in a message of Scribe's.
    ZipkinThriftSpan,
    /// OpenTelemetry's, protobuf: `ExportTraceServiceRequest`.
    OtlpProto,
    /// The same, JSON.
    OtlpJson,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 7] = [
        Format::ZipkinJson,
        Format::ZipkinProto,
        Format::ZipkinV1Json,
        Format::ZipkinThrift,
        Format::ZipkinThriftSpan,
        Format::OtlpProto,
        Format::OtlpJson,
    ];

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Format::ZipkinJson => "zipkin-json",
            Format::ZipkinProto => "zipkin-proto",
            Format::ZipkinV1Json => "zipkin-v1-json",
            Format::ZipkinThrift => "zipkin-thrift",
            Format::ZipkinThriftSpan => "zipkin-thrift-span",
            Format::OtlpProto => "otlp-proto",
            Format::OtlpJson => "otlp-json",
        }
    }
}
