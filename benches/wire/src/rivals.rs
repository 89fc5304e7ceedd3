//! Rivals of our codecs: for each format, a codec of another project that could replace ours.

mod otlp;
mod prost_zipkin;
mod rival;
mod serde_zipkin;
mod thrift_zipkin;

use blkkin_wire::Format;
use rival::Rival;

pub(crate) fn of(format: Format, batch: &'static [u8]) -> Rival {
    match format {
        Format::ZipkinJson => serde_zipkin::v2(batch),
        Format::ZipkinV1Json => serde_zipkin::v1(batch),
        Format::ZipkinProto => prost_zipkin::rival(batch),
        Format::ZipkinThrift | Format::ZipkinThriftSpan => thrift_zipkin::rival(batch),
        Format::OtlpProto => otlp::proto(batch),
        Format::OtlpJson => otlp::json(batch),
    }
}
