//! The files of the pages for a browser, which are built into the program. Start at [`Assets`].
//!
//! They hold nothing that is kept here, so that they need no token; the questions that they ask do.

use crate::ask::{accepts_gzip, pack_well, typed};
use blkkin_collector::{Answer, Content};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A file, as it is built in.
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

/// All of them, by what stands in an address.
const SOURCES: [Source; 5] = [
    file!("/", "index.html", "text/html; charset=utf-8"),
    file!("/app.js", "app.js", "text/javascript; charset=utf-8"),
    file!("/app.css", "app.css", "text/css; charset=utf-8"),
    file!("/worker.js", "worker.js", "text/javascript; charset=utf-8"),
    file!("/icon.svg", "icon.svg", "image/svg+xml"),
];

/// What the pages may do: show and ask for what is here, make markup in no way but by the templates that they were built
/// of, and start one worker.
const POLICY: &str = "default-src 'self'; style-src 'self'; object-src 'none'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types svelte-trusted-html blkkin-worker";

/// The number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId(usize);

/// The files, ready to be sent.
pub(crate) struct Assets {
    files: Vec<Ready>,
}

struct Ready {
    /// Where it is smaller.
    packed: Option<Bytes>,
    tag: HeaderValue,
}

impl FileId {
    /// The file that stands at an address.
    pub(crate) fn of(path: &str) -> Option<FileId> {
        SOURCES.iter().position(|source| source.path == path).map(FileId)
    }

    /// Where it stands.
    pub(crate) fn path(self) -> &'static str {
        SOURCES[self.0].path
    }
}

impl Assets {
    pub(crate) fn new() -> Assets {
        let ready = |source: &Source| {
            let mut hasher = DefaultHasher::new();
            source.bytes.hash(&mut hasher);
            // Weak, since it stands for the file whether it is packed or not.
            let tag = format!("W/\"{:016x}\"", hasher.finish());
            let packed = pack_well(source.bytes).filter(|it| it.len() < source.bytes.len());
            Ready {
                packed: packed.map(Bytes::from),
                tag: HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\"")),
            }
        };
        Assets { files: SOURCES.iter().map(ready).collect() }
    }

    /// Answers with a file, or that it is the one that is known already.
    pub(crate) fn answer(&self, id: FileId, headers: &HeaderMap) -> Answer {
        let (source, ready) = (&SOURCES[id.0], &self.files[id.0]);
        let packed = ready.packed.as_ref().filter(|_| accepts_gzip(headers));
        let is_packed = packed.is_some();
        let mut answer = if is_known(headers, &ready.tag) {
            let mut answer = Answer::new(Content::default());
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            answer
        } else {
            let bytes = packed.cloned().unwrap_or(Bytes::from_static(source.bytes));
            let mut answer = typed(StatusCode::OK, source.kind, Content::new(bytes));
            if is_packed {
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

/// Whether who asks says that it has what this tag stands for.
fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let Ok(tag) = tag.to_str().map(strong) else { return false };
    let values = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|it| it.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|it| it.trim() == "*" || strong(it) == tag)
}
