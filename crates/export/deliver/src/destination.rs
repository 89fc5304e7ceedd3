//! Destination URLs: protocol, address and format. Start at [`Destination::parse`].

use crate::error::Error;
use blkkin_wire::Format;
use hyper::Uri;
use hyper::http::uri::PathAndQuery;
use std::fmt;

/// Destination of spans. Its displayed form omits the URL's query, which may contain a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination {
    pub(crate) protocol: Protocol,
    pub(crate) is_tls: bool,
    /// Host name or address; an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query of each request; for Scribe, the category.
    pub(crate) path: PathAndQuery,
    format: Format,
}

/// Protocol by which batches are sent to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP POST for each batch.
    Http,
    /// gRPC call for each batch.
    Grpc,
    /// Scribe `Log` call for each batch, with a message for each span.
    Scribe,
}

/// Path of the gRPC method that receives spans, in OpenTelemetry's trace service.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

impl Destination {
    /// Parses a URL. `format` selects one of the formats that scheme and path permit, and is
    /// required for an unknown path. An HTTP URL without a path must have port 9411 (Zipkin) or
    /// 4318 (OpenTelemetry). The defaults, apart from the single format of Scribe, are:
    ///
    /// - JSON for Zipkin: protobuf is smaller, but requires Zipkin 2.8, and other systems with
    ///   Zipkin's interface may not support it, while JSON is always supported;
    /// - thrift for Zipkin's v1 interface, which always supports it;
    /// - protobuf for OpenTelemetry, where it is mandatory, unlike JSON.
    pub fn parse(url: &str, format: Option<Format>) -> Result<Destination, Error> {
        // The message does not contain the URL, which may contain a password.
        let bad = |why: &str| Error::Destination(why.to_owned());
        let uri: Uri = url.parse().map_err(|_| bad("not a URL"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(bad("not a URL with a scheme and a host"));
        };
        if authority.as_str().contains('@') {
            return Err(bad("a password in a URL can be seen by others; use a file of headers"));
        }
        let (protocol, is_tls, port) = match scheme {
            "http" => (Protocol::Http, false, 80),
            "https" => (Protocol::Http, true, 443),
            "otlp" | "grpc" => (Protocol::Grpc, false, 4317),
            "otlps" | "grpcs" => (Protocol::Grpc, true, 4317),
            "scribe" => (Protocol::Scribe, false, 9410),
            _ => return Err(bad("its scheme is not known")),
        };
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(bad("it names no host"));
        }
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match (authority.port_u16(), has_port) {
            (Some(0), _) | (None, true) => return Err(bad("its port is not one")),
            (given, _) => given.unwrap_or(port),
        };
        let asked = uri.path_and_query().filter(|asked| !matches!(asked.as_str(), "" | "/"));
        let (path, formats) = match (protocol, asked) {
            (Protocol::Grpc, None) => (EXPORT, &[Format::OtlpProto][..]),
            (Protocol::Grpc, Some(_)) => return Err(bad("with this scheme it has no path")),
            (Protocol::Scribe, None) => ("/zipkin", SCRIBE),
            (Protocol::Scribe, Some(asked)) if is_category(asked.as_str()) => {
                (asked.as_str(), SCRIBE)
            }
            (Protocol::Scribe, Some(_)) => {
                return Err(bad("its path is not the name of a category"));
            }
            (Protocol::Http, None) => match port {
                9411 => ("/api/v2/spans", ZIPKIN),
                4318 => ("/v1/traces", OTLP),
                _ => return Err(bad("neither its path nor its port tells what takes spans there")),
            },
            (Protocol::Http, Some(asked)) => (asked.as_str(), formats_of(uri.path())),
        };
        let format = choose(format, formats).map_err(Error::Destination)?;
        let path = PathAndQuery::try_from(path).map_err(|_| bad("its path is not one"))?;
        Ok(Destination { protocol, is_tls, host: host.to_owned(), port, path, format })
    }

    /// Returns the format in which spans are encoded for the destination.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the category of the Scribe messages.
    pub(crate) fn category(&self) -> &str {
        self.path.path().trim_start_matches('/')
    }

    /// Returns host and port, as in a URL.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Formats of Zipkin's v2 interface; the first is the default.
const ZIPKIN: &[Format] = &[Format::ZipkinJson, Format::ZipkinProto];
const ZIPKIN_V1: &[Format] = &[Format::ZipkinThrift, Format::ZipkinV1Json];
const OTLP: &[Format] = &[Format::OtlpProto, Format::OtlpJson];
const SCRIBE: &[Format] = &[Format::ZipkinThriftSpan];

/// Returns true if Scribe can use the path as a category, which becomes a file name.
fn is_category(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let name = path.strip_prefix('/').unwrap_or(path);
    (1..=255).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('.')
}

/// Returns the formats accepted at a URL's path, the default first; empty if the path is unknown.
fn formats_of(path: &str) -> &'static [Format] {
    match path.trim_end_matches('/') {
        path if path.ends_with("/api/v2/spans") => ZIPKIN,
        path if path.ends_with("/api/v1/spans") => ZIPKIN_V1,
        path if path.ends_with("/v1/traces") => OTLP,
        _ => &[],
    }
}

fn choose(wanted: Option<Format>, formats: &[Format]) -> Result<Format, String> {
    match (wanted, formats) {
        (None, [first, ..]) => Ok(*first),
        (None, []) => Err("its path does not tell what takes spans there".to_owned()),
        (Some(Format::ZipkinThriftSpan), formats) if formats != SCRIBE => {
            Err("single spans are not sent by HTTP".to_owned())
        }
        (Some(wanted), formats) if formats.is_empty() || formats.contains(&wanted) => Ok(wanted),
        (Some(wanted), formats) => {
            let names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
            Err(format!("{} is not understood there, but {}", wanted.name(), names.join(", ")))
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match (self.protocol, self.is_tls) {
            (Protocol::Http, false) => "http",
            (Protocol::Http, true) => "https",
            (Protocol::Grpc, false) => "otlp",
            (Protocol::Grpc, true) => "otlps",
            (Protocol::Scribe, _) => "scribe",
        };
        write!(f, "{scheme}://{}", self.authority())?;
        match self.protocol {
            Protocol::Http | Protocol::Scribe => f.write_str(self.path.path()),
            Protocol::Grpc => Ok(()),
        }
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Destination({self} {})", self.format.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Destination;
    use blkkin_wire::Format;

    fn check(url: &str, format: Option<Format>, expected: Result<&str, &str>) {
        let found = Destination::parse(url, format);
        let found = found.map(|found| format!("{found} {}", found.format().name()));
        let found = found.map_err(|error| error.to_string());
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{url}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{url}: {found}"),
            _ => panic!("{url}: {found:?}"),
        }
    }

    #[test]
    fn urls() {
        let (json, proto) = (Some(Format::OtlpJson), Some(Format::ZipkinProto));
        check("http://z", None, Err("neither its path nor its port"));
        check("http://z:9411", None, Ok("http://z:9411/api/v2/spans zipkin-json"));
        check("http://z:9411/", proto, Ok("http://z:9411/api/v2/spans zipkin-proto"));
        check(
            "http://z/zipkin/api/v2/spans",
            None,
            Ok("http://z:80/zipkin/api/v2/spans zipkin-json"),
        );
        check("https://z/api/v1/spans", None, Ok("https://z:443/api/v1/spans zipkin-thrift"));
        check("http://[::1]:4318", None, Ok("http://[::1]:4318/v1/traces otlp-proto"));
        check("http://o:4318/v1/traces", json, Ok("http://o:4318/v1/traces otlp-json"));
        check("otlp://o", None, Ok("otlp://o:4317 otlp-proto"));
        check("grpcs://o:1/", None, Ok("otlps://o:1 otlp-proto"));
        check("http://o/ours?key=secret", json, Ok("http://o:80/ours otlp-json"));
        check("http://o/ours", None, Err("its path does not tell"));
        check(
            "http://z:9411",
            json,
            Err("otlp-json is not understood there, but zipkin-json, zipkin-proto"),
        );
        check("otlp://o", json, Err("otlp-json is not understood there, but otlp-proto"));
        check("otlp://o/v1/traces", None, Err("has no path"));
        check("scribe://s", None, Ok("scribe://s:9410/zipkin zipkin-thrift-span"));
        check(
            "scribe://s:1463/web.spans",
            None,
            Ok("scribe://s:1463/web.spans zipkin-thrift-span"),
        );
        check("scribe://s/a/b", None, Err("not the name of a category"));
        check("scribe://s/..", None, Err("not the name of a category"));
        check("scribe://s/a?b", None, Err("not the name of a category"));
        check("scribe://s", json, Err("otlp-json is not understood there, but zipkin-thrift-span"));
        for bad in
            ["", "z", "z:9411", "/x", "http://", "http://:9411", "http://z:0", "http://z:99999"]
        {
            check(bad, None, Err("http://HOST:9411"));
        }
        check("ftp://z:9411", None, Err("scheme is not known"));
    }

    #[test]
    fn passwords_are_not_shown() {
        for url in ["http://me:secret@z:9411", "http://me:secret@z:0 x", "ftp://me:secret@z"] {
            let error = Destination::parse(url, None).expect_err("an error");
            assert!(!format!("{error} {error:?}").contains("secret"), "{url}");
        }
        let url = "http://z:9411/api/v2/spans?key=secret";
        let found = Destination::parse(url, None).expect("a URL");
        assert!(!format!("{found} {found:?}").contains("secret"));
    }
}
