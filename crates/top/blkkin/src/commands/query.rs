//! `blkkin query`: finds requests and latencies in a server or in a store's directory.

mod answers;
mod backend;
pub(super) mod tree;

use crate::exit::{self, Error, Exit};
use crate::output::{ColorChoice, ignore_closed_pipe, locale_is_utf8, width, write};
use crate::values;
use answers::{list, members};
use backend::{Backend, SourceArgs};
use blkkin_text::query_results::{self, Options};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Find requests, newest or slowest first, and see how long they take
///
/// Queries a server (`blkkin server`), or the directory of a store that no server uses. A filter is
/// a condition on spans, and selects the requests with a matching span: `service == "osd*" &&
/// duration > 5ms && error`. It is described in docs/filter.md.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin query                                          the newest requests\n  \
        blkkin query --slowest --since 1h 'service == \"osd*\"'\n  \
        blkkin query --trace 463ac35c9f6413ad                 one of them, as a tree\n  \
        blkkin query --latency 'service == \"osd.3\" && name == \"write\"'\n  \
        blkkin query --latencies --since 1h                   the same of each service and name\n  \
        blkkin query --calls                                  who calls whom, errors and latency\n  \
        blkkin query --data /srv/spans --json 'error'         without a server, for programs",
    after_help = crate::help::EXIT_HELP
)]
#[command(group(clap::ArgGroup::new("question")))]
pub(crate) struct Args {
    /// Only requests with a matching span; for --latency and --latencies, only matching spans
    #[arg(value_name = "FILTER", conflicts_with_all = ["trace", "calls", "services", "names", "keys", "values"])]
    filter: Option<String>,

    /// Show one request as a tree, with bars to scale
    #[arg(long, value_name = "ID", group = "question", help_heading = "Question")]
    trace: Option<String>,

    /// Latency of matching spans: percentiles, a histogram, examples
    #[arg(long, group = "question", help_heading = "Question")]
    latency: bool,

    /// Latency of matching spans for each service and name
    #[arg(long, group = "question", help_heading = "Question")]
    latencies: bool,

    /// Calls between services: count, latency and errors
    #[arg(long, visible_alias = "dependencies", group = "question", help_heading = "Question")]
    calls: bool,

    /// List the services
    #[arg(long, group = "question", help_heading = "Question")]
    services: bool,

    /// List the span names of a service
    #[arg(long, value_name = "SERVICE", group = "question", help_heading = "Question")]
    names: Option<String>,

    /// List the keys of tags, with the approximate number of spans that have each
    #[arg(long, group = "question", help_heading = "Question")]
    keys: bool,

    /// List the values of a tag
    #[arg(long, value_name = "KEY", group = "question", help_heading = "Question")]
    values: Option<String>,

    /// Slowest requests first, instead of newest
    #[arg(long, conflicts_with = "question", help_heading = "Selection")]
    slowest: bool,

    /// Only requests that began at most this long ago: 10m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = values::age, help_heading = "Selection")]
    since: Option<Duration>,

    /// Only requests that began at least this long ago
    #[arg(long, value_name = "TIME", value_parser = values::age, help_heading = "Selection")]
    until: Option<Duration>,

    /// Maximum number of requests, services, names, keys or values
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, help_heading = "Selection")]
    limit: usize,

    #[command(flatten)]
    source: SourceArgs,

    /// Print JSON as described in docs/server-api.md; requests as one object a line
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Show the annotations below each span
    #[arg(long, requires = "trace", help_heading = "Output")]
    annotations: bool,

    /// Use only ASCII [default: if the locale is not UTF-8]
    #[arg(long, help_heading = "Output")]
    ascii: bool,

    /// When to colour the output
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    color: ColorChoice,

    /// Print times in UTC instead of the local time zone
    #[arg(long, visible_alias = "clock-utc", help_heading = "Output")]
    clock_gmt: bool,
}

/// Maximum number of requests in one page of a server's answer.
const PAGE: usize = 1000;

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let mut backend = Backend::open(&args.source)?;
    let options = Options {
        color: args.color.applies(&io::stdout()),
        ascii: args.ascii || !locale_is_utf8(),
        width: width(),
        utc: args.clock_gmt,
    };
    let fields = |of: &str, more: &str| format!("fields?of={of}{more}&limit={}", args.limit.max(1));
    let single = match (&args.trace, &args.names, &args.values) {
        (Some(id), ..) => Some(format!("trace/{}", encoded(id))),
        (_, Some(service), _) => Some(fields("names", &format!("&service={}", encoded(service)))),
        (.., Some(key)) => Some(fields("values", &format!("&key={}", encoded(key)))),
        _ if args.services => Some(fields("services", "")),
        _ if args.keys => Some(fields("keys", "")),
        _ if args.calls => Some(format!("links?{}", selection(&args)?)),
        _ if args.latencies => Some(format!("latencies?{}", selection(&args)?)),
        _ if args.latency => Some(format!("latency?{}", selection(&args)?)),
        _ => None,
    };
    let Some(question) = single else { return search(&args, &mut backend, &options) };
    let answer = backend.query(&question)?;
    if args.json {
        return print(&format!("{answer}\n"));
    }
    let is_empty = |list: &str| answer[list].as_array().is_some_and(Vec::is_empty);
    if is_empty("links") {
        exit::note("no calls are known; those of spans that have just come are a second later");
        return Ok(Exit::Ok);
    }
    if is_empty("latencies") {
        exit::note("no spans like that");
        return Ok(Exit::Ok);
    }
    if let Some(more @ 1..) = answer["leftOut"].as_u64() {
        exit::note(&format!("{more} services and names more; a filter shows those"));
    }
    print(&match () {
        () if args.trace.is_some() => tree::draw(&answer, &options, args.annotations)?,
        () if args.calls => {
            query_results::calls(&members(&answer, "links", answers::calls)?, &options)
        }
        () if args.latencies => {
            query_results::latencies(&members(&answer, "latencies", answers::latencies)?, &options)
        }
        () if args.latency => query_results::latency(&answers::latency(&answer)?, &options),
        () => answers::words(&answer)?,
    })
}

fn search(args: &Args, backend: &mut Backend, options: &Options) -> Result<Exit, Error> {
    let order = if args.slowest { "slowest" } else { "newest" };
    let selection = selection(args)?;
    let (mut requests, mut after) = (Vec::new(), String::new());
    let mut is_more = false;
    while requests.len() < args.limit {
        let limit = (args.limit - requests.len()).min(PAGE);
        let question = format!("search?order={order}&limit={limit}&{selection}{after}");
        let mut answer = backend.query(&question)?;
        requests.extend(list(&mut answer, "requests")?);
        let next = answer["next"].as_str();
        is_more = next.is_some();
        let Some(next) = next else { break };
        after = format!("&after={}", encoded(next));
    }
    if args.json {
        return print(&requests.iter().map(|request| format!("{request}\n")).collect::<String>());
    }
    if requests.is_empty() {
        exit::note("no requests like that");
        return Ok(Exit::Ok);
    }
    let lines = requests.iter().map(answers::request_summary).collect::<Result<Vec<_>, _>>()?;
    let exit = print(&query_results::requests(&lines, options))?;
    if is_more {
        exit::note(&format!("only the first {} shown; --limit shows more", lines.len()));
    }
    Ok(exit)
}

/// Returns the URL parameters that searches, calls and latencies share: times and filter.
fn selection(args: &Args) -> Result<String, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if let (Some(since), Some(until)) = (args.since, args.until)
        && since <= until
    {
        return Err(Error::usage("--since is not before --until: nothing is between them"));
    }
    let mut text = String::new();
    for (name, ago) in [("startNs", args.since), ("endNs", args.until)] {
        if let Some(ago) = ago {
            text.push_str(&format!("&{name}={}", now.saturating_sub(ago).as_nanos()));
        }
    }
    if let Some(filter) = &args.filter {
        text.push_str(&format!("&filter={}", encoded(filter)));
    }
    Ok(text.trim_start_matches('&').to_owned())
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn print(text: &str) -> Result<Exit, Error> {
    ignore_closed_pipe(write(text))?;
    Ok(Exit::Ok)
}
