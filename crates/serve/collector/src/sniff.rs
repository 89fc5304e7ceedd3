//! Check of a batch against its format: its first bytes and, for JSON, names of fields of the other
//! version. Zipkin's server makes the same check before decoding. Start at [`check`].

use blkkin_wire::Format;
use memchr::memmem;

/// Checks that the first bytes of a batch fit its declared format, and that Zipkin's JSON has no
/// fields of its other version. Errors have the wording of Zipkin's server.
pub(crate) fn check(format: Format, batch: &[u8]) -> Result<(), String> {
    let first = batch.first().copied();
    let (name, fits) = match format {
        Format::ZipkinJson => ("JSON_V2", first == Some(b'[')),
        Format::ZipkinV1Json => ("JSON_V1", first == Some(b'[')),
        Format::ZipkinProto => {
            ("PROTO3", first == Some(10) && batch.get(1).is_some_and(|&size| size != 0))
        }
        Format::ZipkinThrift => ("THRIFT", matches!(first, Some(11 | 12))),
        Format::ZipkinThriftSpan | Format::OtlpProto | Format::OtlpJson => return Ok(()),
    };
    if !fits {
        return Err(format!("Expected a {name} encoded list\n"));
    }
    let has = |text: &str| memmem::find(batch, text.as_bytes()).is_some();
    let other = match format {
        Format::ZipkinJson => has("yAnnotations\"").then_some("JSON_V1"),
        Format::ZipkinV1Json => (has("Endpoint\"") || has("\"tags\"")).then_some("JSON_V2"),
        _ => None,
    };
    match other {
        Some(other) => Err(format!("Expected a {name} encoded list, but received: {other}\n")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: Format, batch: &[u8], expected: &str) {
        let found = super::check(format, batch).err().unwrap_or_default();
        assert_eq!(found.trim_end(), expected, "{format:?} {batch:?}");
    }

    #[test]
    fn formats_are_told_apart() {
        let v1 = br#"[{"binaryAnnotations":[]}]"#;
        let v2 = br#"[{"localEndpoint":{}}]"#;
        check(Format::ZipkinJson, b"[]", "");
        check(Format::ZipkinJson, v2, "");
        let received = "Expected a JSON_V2 encoded list, but received: JSON_V1";
        check(Format::ZipkinJson, v1, received);
        check(Format::ZipkinV1Json, v1, "");
        let received = "Expected a JSON_V1 encoded list, but received: JSON_V2";
        check(Format::ZipkinV1Json, v2, received);
        check(Format::ZipkinV1Json, br#"[{"tags":{}}]"#, received);
        for wrong in [&b"{}"[..], b" []", b"\xef\xbb\xbf[]", b"\n", b"\x0c"] {
            check(Format::ZipkinJson, wrong, "Expected a JSON_V2 encoded list");
            check(Format::ZipkinV1Json, wrong, "Expected a JSON_V1 encoded list");
        }
        check(Format::ZipkinProto, b"\x0a\x05", "");
        for wrong in [&b"\x0a"[..], b"\x0a\x00", b"[]", b"\x0c\x00"] {
            check(Format::ZipkinProto, wrong, "Expected a PROTO3 encoded list");
        }
        check(Format::ZipkinThrift, b"\x0c\x00", "");
        check(Format::ZipkinThrift, b"[]", "Expected a THRIFT encoded list");
    }
}
