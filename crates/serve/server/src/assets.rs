//! Files of the web page, built into the program. Start at [`Assets`].
//!
//! The files contain no stored data, so requests for them need no token. The page's queries need a
//! token if the server has token files.

use crate::response::{accepts_gzip, compress_well, typed};
use blkkin_collector::{Answer, Content};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::hash::{DefaultHasher, Hash, Hasher};

/// File of the web page, as built into the program.
struct Source {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! file {
    ($path:literal, $name:literal, $kind:literal) => {
        Source {
            path: $path,
            kind: $kind,
            bytes: include_bytes!(concat!("../../../../ui/dist/", $name)),
        }
    };
}

/// All files of the web page, each with its path, content type and content.
const SOURCES: [Source; 5] = [
    file!("/", "index.html", "text/html; charset=utf-8"),
    file!("/app.js", "app.js", "text/javascript; charset=utf-8"),
    file!("/app.css", "app.css", "text/css; charset=utf-8"),
    file!("/worker.js", "worker.js", "text/javascript; charset=utf-8"),
    file!("/icon.svg", "icon.svg", "image/svg+xml"),
];

/// Content security policy of the page. The page may load from this server only, and query this
/// server only. Its Trusted Types policies restrict scripts: only Svelte's templates may create
/// markup, and only the page's own policy `blkkin-worker` may start workers.
const POLICY: &str = "default-src 'self'; style-src 'self'; object-src 'none'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types svelte-trusted-html blkkin-worker";

/// Identifier of a built-in file: its index in [`SOURCES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId(usize);

/// Files of the web page, prepared for sending: compressed, and with entity tags.
pub(crate) struct Assets {
    files: Vec<PreparedFile>,
}

struct PreparedFile {
    /// Content compressed by gzip; `None` if compression does not make the file smaller.
    compressed: Option<Bytes>,
    tag: HeaderValue,
}

impl FileId {
    /// Returns the file that is served at this path, if any.
    pub(crate) fn of(path: &str) -> Option<FileId> {
        SOURCES.iter().position(|source| source.path == path).map(FileId)
    }

    /// Returns the path at which the file is served.
    pub(crate) fn path(self) -> &'static str {
        SOURCES[self.0].path
    }
}

impl Assets {
    pub(crate) fn new() -> Assets {
        let ready = |source: &Source| {
            let mut hasher = DefaultHasher::new();
            source.bytes.hash(&mut hasher);
            // The tag is weak, since it identifies both the plain and the compressed content.
            let tag = format!("W/\"{:016x}\"", hasher.finish());
            let compressed = compress_well(source.bytes).filter(|it| it.len() < source.bytes.len());
            PreparedFile {
                compressed: compressed.map(Bytes::from),
                tag: HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\"")),
            }
        };
        Assets { files: SOURCES.iter().map(ready).collect() }
    }

    /// Answers with a file, or with 304 if the client's copy is current.
    pub(crate) fn answer(&self, id: FileId, headers: &HeaderMap) -> Answer {
        let (source, ready) = (&SOURCES[id.0], &self.files[id.0]);
        let compressed = ready.compressed.as_ref().filter(|_| accepts_gzip(headers));
        let is_compressed = compressed.is_some();
        let mut answer = if is_known(headers, &ready.tag) {
            let mut answer = Answer::new(Content::default());
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            answer
        } else {
            let bytes = compressed.cloned().unwrap_or(Bytes::from_static(source.bytes));
            let mut answer = typed(StatusCode::OK, source.kind, Content::new(bytes));
            if is_compressed {
                let gzip = HeaderValue::from_static("gzip");
                answer.headers_mut().insert(header::CONTENT_ENCODING, gzip);
            }
            answer
        };
        let headers = answer.headers_mut();
        headers.insert(header::ETAG, ready.tag.clone());
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
        answer
    }
}

/// Returns whether `If-None-Match` contains this entity tag, compared as a weak tag, or `*`.
fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Ok(tag) = tag.to_str().map(strong) else { return false };
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|it| it.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|it| it.trim() == "*" || strong(it) == tag)
}
