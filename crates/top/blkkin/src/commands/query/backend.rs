//! Backends that answer queries: a server over HTTP, or a store's directory. Both accept the same
//! queries. Start at [`Backend`].

use crate::exit::{self, Error};
use blkkin_http::{Server, Settings};
use blkkin_lake::{Lake, Options, Retention};
use blkkin_query::{Api, ApiQuery, Params};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Server or store to query.
#[derive(clap::Args, Debug)]
pub(super) struct SourceArgs {
    /// URL of the server; the default port is 9411, or 443 for https
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:9411",
        help_heading = "Source"
    )]
    server: String,

    /// File with a token for the server: the first line that is neither empty nor a comment
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    token_file: Option<PathBuf>,

    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    ca: Option<PathBuf>,

    /// Directory of a store to read, instead of a server
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["server", "token_file", "ca"],
        help_heading = "Source"
    )]
    data: Option<PathBuf>,
}

/// Server or store that answers queries.
pub(super) enum Backend {
    /// HTTP client and URL of the server.
    Server(Box<Server>, String),
    Store(Api),
}

/// Maximum size of an answer, in bytes. A server's own limit is smaller.
const ANSWER_BYTES_MAX: usize = 128 << 20;
/// Timeout of a query. A server's own limit is shorter.
const PATIENCE: Duration = Duration::from_secs(15);
/// Path of BlkKin's own query API.
const API: &str = "/api/blkkin/v1/";

impl Backend {
    pub(super) fn open(args: &SourceArgs) -> Result<Backend, Error> {
        if let Some(directory) = &args.data {
            return store(directory);
        }
        let token = args.token_file.as_deref().map(token).transpose()?;
        let settings = Settings {
            port: 9411,
            token: token.as_deref(),
            ca: args.ca.as_deref(),
            timeout: PATIENCE,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let url = args.server.trim_end_matches('/').to_owned();
        let server = Server::at(&url, &settings).map_err(|why| {
            Error::usage(format!("`{url}`: {why}")).hint("give --server http://HOST:PORT")
        })?;
        Ok(Backend::Server(Box::new(server), url))
    }

    /// Executes one query, given as a path below [`API`] with parameters.
    pub(super) fn query(&mut self, question: &str) -> Result<Value, Error> {
        let (status, body) = match self {
            Backend::Server(server, url) => {
                let answer = server.get(&format!("{API}{question}")).map_err(|why| {
                    Error::failed(format!("{url}: {why}")).hint(
                        "start one with `blkkin server`, name another with --server URL, or read \
                         a store's directory with --data DIR",
                    )
                })?;
                if answer.is_cut {
                    let told = format!("{url}: the answer has more than {ANSWER_BYTES_MAX} bytes");
                    return Err(Error::failed(told).hint("ask for less with --limit or a filter"));
                }
                (answer.status.as_u16(), answer.body)
            }
            Backend::Store(api) => {
                let (path, params) = question.split_once('?').unwrap_or((question, ""));
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
                let answer = api.own(&ApiQuery { path, params: Params::parse(params), now_ns });
                (answer.status, answer.body)
            }
        };
        let text = || String::from_utf8_lossy(&body).trim().to_owned();
        match status {
            200 => serde_json::from_slice(&body)
                .map_err(|error| Error::failed(format!("the answer is no JSON: {error}"))),
            400 => Err(Error::usage(text())),
            401 => Err(Error::failed("the server wants a token")
                .hint("give a file that has it with --token-file FILE")),
            404 => Err(Error::failed(match question.strip_prefix("trace/") {
                Some(id) => format!("no request {id} is kept"),
                None => "what answers is not blkkin server, or of another release".to_owned(),
            })),
            _ => Err(Error::failed(format!("it answered {status}: {}", text()))),
        }
    }
}

/// Opens a store that no other process uses, without eviction by age or size.
fn store(directory: &Path) -> Result<Backend, Error> {
    let shown = directory.display();
    if !directory.join("spans").is_dir() {
        let told = format!("{shown}: there is no store of spans");
        return Err(
            Error::failed(told).hint("it is the directory that `blkkin server` keeps them in")
        );
    }
    let retention = Retention { age: None, bytes: None };
    let (lake, opened) = Lake::open(directory, Options { retention, ..Options::default() })
        .map_err(|error| {
            Error::failed(format!("{shown}: {error}"))
                .hint("if a server has it, ask that: without --data, or with --server URL")
        })?;
    for damage in &opened.damage {
        exit::warn(&format!("left out: {damage}"));
    }
    Ok(Backend::Store(Api::new(Arc::new(lake), blkkin_query::Settings::default())))
}

fn token(file: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(file)
        .map_err(|error| Error::failed(format!("{}: {error}", file.display())))?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    line.map(str::to_owned)
        .ok_or_else(|| Error::failed(format!("{}: there is no token in it", file.display())))
}
