//! Supported destination URLs.

/// Supported destination URLs and their systems, one per line, for error messages.
pub const SUPPORTED_URLS: &str = "\
http://HOST:9411/api/v2/spans    Zipkin
http://HOST:9411/api/v1/spans    Zipkin's first format
http://HOST:4318/v1/traces       OpenTelemetry, OTLP over HTTP
otlp://HOST:4317                 OpenTelemetry, OTLP over gRPC; also grpc://
scribe://HOST:9410/CATEGORY      Scribe; the category is zipkin, unless another is named
With https, otlps or grpcs by TLS. The path may be left out with these ports.";
