//! Routing of requests to their handlers, after access control. Start at [`answer`].

use crate::assets::FileId;
use crate::counts::Count;
use crate::counts::RequestClass;
use crate::guard::{Access, Denial, add_security_headers};
use crate::pages::{Page, page};
use crate::queries::run_query;
use crate::response::text;
use crate::shared::Shared;
use blkkin_collector::{Answer, HEALTH, Version};
use blkkin_query::{ApiQuery, Params};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header, request};
use hyper::body::Body;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

/// Endpoint that a request addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target<'p> {
    Zipkin(Version),
    Otlp,
    Grpc,
    GrpcHealth,
    /// Query of Zipkin's API, with the path below the API's root.
    ZipkinApi(&'p str),
    /// Query of BlkKin's own API, with the path below the API's root.
    OwnApi(&'p str),
    Page(Page),
    /// File of BlkKin's web page.
    File(FileId),
    /// Page of Zipkin's server, which is redirected to BlkKin's web page.
    ZipkinPages,
    Unknown,
}

/// Answers a request. `local` is the address of this server at which the request arrived.
pub(crate) async fn answer<B>(shared: &Arc<Shared>, request: Request<B>, local: IpAddr) -> Answer
where
    B: Body<Data = Bytes, Error: Display>,
{
    let start = Instant::now();
    let (head, body) = request.into_parts();
    let reader = shared.guard.allowed_origin(&head.headers);
    let method = method(&head.method);
    let target = target(&head);
    let uri = template(target);
    let mut answer = match shared.guard.check(&head, local, access(target)) {
        Err(denial) => denied(shared, denial),
        Ok(()) if head.method == Method::OPTIONS => preflight(&head.headers, reader.as_ref()),
        Ok(()) => match allowed(target) {
            Some(allowed) if !allowed.contains(&method) => not_allowed(allowed),
            // The path is cloned, as the head is moved together with the body.
            _ => {
                let path = head.uri.path().to_owned();
                let target = find(&path, &head);
                dispatch(shared, target, Request::from_parts(head, body)).await
            }
        },
    };
    let headers = answer.headers_mut();
    add_security_headers(headers);
    if let Some(origin) = reader {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    if shared.guard.allows_origins() {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    let status = answer.status().as_u16();
    shared.requests.add(RequestClass { method, status, uri }, start.elapsed());
    answer
}

async fn dispatch<B>(shared: &Arc<Shared>, target: Target<'_>, request: Request<B>) -> Answer
where
    B: Body<Data = Bytes, Error: Display>,
{
    let collector = &shared.collector;
    match target {
        Target::Zipkin(version) => collector.zipkin(version, request).await,
        Target::Otlp => collector.otlp(request).await,
        Target::Grpc | Target::GrpcHealth => collector.grpc(request).await,
        Target::ZipkinApi(path) | Target::OwnApi(path) => {
            let path = path.to_owned();
            let query = request.uri().query().unwrap_or_default().to_owned();
            let is_own = matches!(target, Target::OwnApi(_));
            let late = match is_own {
                true => StatusCode::GATEWAY_TIMEOUT,
                false => StatusCode::INTERNAL_SERVER_ERROR,
            };
            run_query(shared, request.headers(), late, move |api| {
                let params = Params::parse(&query);
                let question =
                    ApiQuery { path: &path, params, now_ns: blkkin_store::time_of_day_ns() };
                if is_own { api.own(&question) } else { api.zipkin(&question) }
            })
            .await
        }
        Target::Page(which) => page(shared, which, request.headers()),
        Target::File(id) => shared.assets.answer(id, request.headers()),
        Target::ZipkinPages => {
            let mut answer = text(StatusCode::FOUND, "BlkKin's pages are at /");
            let start = HeaderValue::from_str(&zipkin_page_redirect(request.uri()));
            let start = start.unwrap_or(HeaderValue::from_static("/"));
            answer.headers_mut().insert(header::LOCATION, start);
            answer
        }
        Target::Unknown => text(StatusCode::NOT_FOUND, "Not Found"),
    }
}

/// Returns the permission that an endpoint needs. Health probes, metrics for Prometheus and Zipkin,
/// and the web page's files need no permission.
fn access(target: Target<'_>) -> Access {
    match target {
        Target::Zipkin(_) | Target::Otlp | Target::Grpc => Access::Write,
        Target::File(_) | Target::ZipkinPages | Target::GrpcHealth => Access::Open,
        Target::Page(
            Page::Health | Page::Readiness | Page::Metrics | Page::Prometheus | Page::ZipkinMetrics,
        ) => Access::Open,
        Target::Page(_) | Target::ZipkinApi(_) | Target::OwnApi(_) | Target::Unknown => {
            Access::Read
        }
    }
}

fn target(head: &request::Parts) -> Target<'_> {
    find(head.uri.path(), head)
}

fn find<'p>(path: &'p str, head: &request::Parts) -> Target<'p> {
    // Senders append `/api/v2/spans` to a base address that may end with a slash.
    let slashes = path.len() - path.trim_start_matches('/').len();
    let path = &path[slashes.saturating_sub(1)..];
    let is_post = head.method == Method::POST;
    let kind = head.headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    if is_post && kind.starts_with(b"application/grpc") {
        return if path == HEALTH { Target::GrpcHealth } else { Target::Grpc };
    }
    match path {
        "/zipkin" | "/zipkin/" | "/zipkin/dependency" => return Target::ZipkinPages,
        path if path.starts_with("/zipkin/traces/") => return Target::ZipkinPages,
        "/api/v1/spans" => return Target::Zipkin(Version::V1),
        "/api/v2/spans" if is_post => return Target::Zipkin(Version::V2),
        "/v1/traces" => return Target::Otlp,
        "/api/blkkin/v1/counters" => return Target::Page(Page::Counters),
        "/api/blkkin/v1/status" => return Target::Page(Page::Status),
        "/health" | "/actuator/health" => return Target::Page(Page::Health),
        "/health/readiness" | "/actuator/health/readiness" => {
            return Target::Page(Page::Readiness);
        }
        "/info" | "/actuator/info" => return Target::Page(Page::Info),
        "/metrics" => return Target::Page(Page::Metrics),
        "/prometheus" | "/actuator/prometheus" => return Target::Page(Page::Prometheus),
        "/actuator/metrics" => return Target::Page(Page::ZipkinMetrics),
        "/zipkin/config.json" => return Target::Page(Page::Config),
        _ => {}
    }
    if let Some(id) = FileId::of(path) {
        return Target::File(id);
    }
    if let Some(rest) = path.strip_prefix("/api/blkkin/v1/") {
        return Target::OwnApi(rest);
    }
    let rest = path.strip_prefix("/zipkin").unwrap_or(path);
    rest.strip_prefix("/api/v2/").map_or(Target::Unknown, Target::ZipkinApi)
}

/// Returns the path of BlkKin's web page that corresponds to a page of Zipkin. The query string is
/// parsed by the page itself.
fn zipkin_page_redirect(uri: &Uri) -> String {
    let page = uri.path().strip_prefix("/zipkin").unwrap_or_default().trim_matches('/');
    match uri.query() {
        None if page.is_empty() => "/".to_owned(),
        None => format!("/#/zipkin/{page}"),
        Some(query) => format!("/#/zipkin/{page}?{query}"),
    }
}

/// Returns the methods that an endpoint accepts; `None` for unknown paths.
fn allowed(target: Target<'_>) -> Option<&'static [&'static str]> {
    match target {
        Target::Zipkin(_) | Target::Otlp | Target::Grpc | Target::GrpcHealth => Some(&["POST"]),
        Target::ZipkinApi(_) | Target::OwnApi(_) | Target::Page(_) => Some(&["GET", "HEAD"]),
        Target::File(_) | Target::ZipkinPages => Some(&["GET", "HEAD"]),
        Target::Unknown => None,
    }
}

/// Returns the path template of an endpoint, with placeholders for the parts that clients choose.
/// gRPC calls and unknown paths have fixed names instead.
fn template(target: Target<'_>) -> &'static str {
    match target {
        Target::Zipkin(Version::V1) => "/api/v1/spans",
        Target::Zipkin(Version::V2) => "/api/v2/spans",
        Target::Otlp => "/v1/traces",
        Target::Grpc => "grpc",
        Target::GrpcHealth => "grpc health",
        Target::ZipkinApi(path) => match path {
            "services" => "/api/v2/services",
            "spans" => "/api/v2/spans",
            "remoteServices" => "/api/v2/remoteServices",
            "traces" => "/api/v2/traces",
            "traceMany" => "/api/v2/traceMany",
            "dependencies" => "/api/v2/dependencies",
            "autocompleteKeys" => "/api/v2/autocompleteKeys",
            "autocompleteValues" => "/api/v2/autocompleteValues",
            path if path.starts_with("trace/") => "/api/v2/trace/{traceId}",
            _ => "unknown",
        },
        Target::OwnApi(path) => match path {
            "search" => "/api/blkkin/v1/search",
            "latency" => "/api/blkkin/v1/latency",
            "latencies" => "/api/blkkin/v1/latencies",
            "heatmap" => "/api/blkkin/v1/heatmap",
            "difference" => "/api/blkkin/v1/difference",
            "links" => "/api/blkkin/v1/links",
            "fields" => "/api/blkkin/v1/fields",
            path if path.starts_with("trace/") => "/api/blkkin/v1/trace/{traceId}",
            path if path.starts_with("find/") => "/api/blkkin/v1/find/{traceId}",
            path if path.starts_with("outline/") => "/api/blkkin/v1/outline/{traceId}",
            _ => "unknown",
        },
        Target::Page(page) => match page {
            Page::Health => "/health",
            Page::Readiness => "/health/readiness",
            Page::Info => "/info",
            Page::Metrics => "/metrics",
            Page::Prometheus => "/prometheus",
            Page::ZipkinMetrics => "/actuator/metrics",
            Page::Config => "/zipkin/config.json",
            Page::Counters => "/api/blkkin/v1/counters",
            Page::Status => "/api/blkkin/v1/status",
        },
        Target::File(id) => id.path(),
        Target::ZipkinPages => "/zipkin/",
        Target::Unknown => "unknown",
    }
}

fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn denied(shared: &Shared, denial: Denial) -> Answer {
    match denial {
        Denial::Host => shared.counts.add(Count::DeniedHost),
        Denial::Origin => shared.counts.add(Count::DeniedOrigin),
        Denial::Token | Denial::Access => shared.counts.add(Count::DeniedToken),
        Denial::NoHost => {}
    }
    let (status, words) = denial.response();
    let mut answer = text(status, words);
    if denial == Denial::Token {
        let scheme = HeaderValue::from_static("Bearer");
        answer.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    }
    answer
}

/// Creates the answer, with status 503, to a request on a connection without a slot.
pub(crate) fn no_slot() -> Answer {
    let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, "too many connections at the moment");
    let headers = answer.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    add_security_headers(headers);
    answer
}

fn not_allowed(allowed: &[&str]) -> Answer {
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    if let Ok(value) = HeaderValue::try_from(allowed.join(", ")) {
        answer.headers_mut().insert(header::ALLOW, value);
    }
    answer
}

/// Answers an `OPTIONS` request: permits a CORS preflight of an allowed origin, and refuses others.
fn preflight(headers: &HeaderMap, reader: Option<&HeaderValue>) -> Answer {
    if !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return not_allowed(&["GET", "HEAD", "POST"]);
    }
    if reader.is_none() {
        let (status, words) = Denial::Origin.response();
        return text(status, words);
    }
    let mut answer = text(StatusCode::OK, "");
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET,POST"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "content-type,x-grpc-web,authorization,b3"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}
