//! The supported formats of span batches, and their names.

/// Format of a batch of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Zipkin v2 as JSON: a list of span objects.
    ZipkinJson,
    /// Zipkin v2, protobuf: `ListOfSpans` of `zipkin.proto3`.
    ZipkinProto,
    /// Zipkin v1 as JSON: a list of span objects with annotations and binary annotations.
    ZipkinV1Json,
    /// Zipkin v1, thrift: a list of `Span`.
    ZipkinThrift,
    /// Zipkin v1, thrift: a single `Span`, as in a Scribe message.
    ZipkinThriftSpan,
    /// OpenTelemetry, protobuf: `ExportTraceServiceRequest`.
    OtlpProto,
    /// OpenTelemetry as JSON: the same message as for [`Format::OtlpProto`], with ids in
    /// hexadecimal.
    OtlpJson,
}

impl Format {
    /// All formats, in the order of the variants.
    pub const ALL: [Format; 7] = [
        Format::ZipkinJson,
        Format::ZipkinProto,
        Format::ZipkinV1Json,
        Format::ZipkinThrift,
        Format::ZipkinThriftSpan,
        Format::OtlpProto,
        Format::OtlpJson,
    ];

    /// Returns the name of the format in options, messages and file names.
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
