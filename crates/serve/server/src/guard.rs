//! Access control by host names, origins and tokens. Start at [`Guard::check`].
//!
//! A page in a browser can send requests to any server that the browser reaches, including a server
//! on this machine. But the page cannot forge two headers that the browser adds. `Host` contains
//! the name under which the page addresses the server, which reveals DNS rebinding. `Origin`
//! contains the page's origin, and is sent with requests that change something.

use crate::settings::{Settings, StartError};
use blkkin_secure::Tokens;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header, request};
use parking_lot::RwLock;
use std::net::IpAddr;
use std::sync::Arc;

/// Rules by which the server permits or denies requests.
#[derive(Debug)]
pub(crate) struct Guard {
    tokens: RwLock<Arc<Tokens>>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Permission that a request to an endpoint needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// No permission is needed.
    Open,
    /// Permission to send queries, and to read the server's status and configuration.
    Read,
    /// Permission to send spans.
    Write,
}

/// Reason why a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The request names a host that is not this server.
    Host,
    /// The request may modify the server's state, and its origin is not allowed.
    Origin,
    /// The request has no valid token.
    Token,
    /// The request's token gives another permission than the request needs.
    Access,
    /// The request has several `Host` headers, an invalid one, or no host at all. In HTTP/2 the
    /// URI's authority may replace the header.
    NoHost,
}

impl Guard {
    pub(crate) fn new(settings: &Settings) -> Result<Guard, StartError> {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let tokens = RwLock::new(Arc::new(Tokens::read(&settings.token_files())?));
        Ok(Guard { tokens, hosts: lower(&settings.hosts), origins: lower(&settings.origins) })
    }

    /// Replaces the tokens. Later requests are checked against the new tokens.
    pub(crate) fn set_tokens(&self, tokens: Tokens) {
        *self.tokens.write() = Arc::new(tokens);
    }

    fn tokens(&self) -> Arc<Tokens> {
        self.tokens.read().clone()
    }

    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens().is_empty()
    }

    /// Checks the host, origin and token of a request. `local` is the address of this server at
    /// which the request arrived.
    pub(crate) fn check(
        &self,
        head: &request::Parts,
        local: IpAddr,
        access: Access,
    ) -> Result<(), Denial> {
        let host = host(head)?;
        let target = head.uri.authority().map(Authority::as_str);
        if ![Some(host), target].into_iter().flatten().all(|host| self.is_own_host(host, local)) {
            return Err(Denial::Host);
        }
        // GET, HEAD and OPTIONS change nothing. Browsers send OPTIONS as a preflight for pages of
        // other origins.
        let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&head.method);
        if !is_safe
            && head
                .headers
                .get_all(header::ORIGIN)
                .iter()
                .any(|origin| !self.is_own_origin(origin, host))
        {
            return Err(Denial::Origin);
        }
        // Browsers send no token with a preflight.
        if head.method == Method::OPTIONS {
            return Ok(());
        }
        check_token(&self.tokens(), &head.headers, access)
    }

    /// Returns whether a request has the permission `access`, by its token or because the server
    /// has no tokens.
    pub(crate) fn permits(&self, headers: &HeaderMap, access: Access) -> bool {
        check_token(&self.tokens(), headers, access).is_ok()
    }

    /// Returns the value of `Access-Control-Allow-Origin`; `None` if the request has no `Origin`,
    /// or one that the settings do not list.
    pub(crate) fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        if self.origins.iter().any(|known| known == "*") {
            return Some(HeaderValue::from_static("*"));
        }
        self.is_listed(origin).then(|| origin.clone())
    }

    /// Returns whether the settings list any other origin whose pages may read answers. If so, the
    /// headers of answers depend on the request's origin.
    pub(crate) fn allows_origins(&self) -> bool {
        !self.origins.is_empty()
    }

    fn is_own_host(&self, host: &str, local: IpAddr) -> bool {
        let name = without_port(host);
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let plain = name.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = plain.parse::<IpAddr>() {
            return address.to_canonical() == local.to_canonical() || self.hosts.contains(&name);
        }
        (name == "localhost" && local.to_canonical().is_loopback()) || self.hosts.contains(&name)
    }

    fn is_own_origin(&self, origin: &HeaderValue, host: &str) -> bool {
        let text = origin.to_str().unwrap_or_default();
        let same = text.split_once("://").is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(host));
        same || self.is_listed(origin)
    }

    fn is_listed(&self, origin: &HeaderValue) -> bool {
        let text = origin.to_str().unwrap_or_default().to_ascii_lowercase();
        self.origins.iter().any(|known| *known == text || known == "*")
    }
}

/// Checks the token of a request.
fn check_token(tokens: &Tokens, headers: &HeaderMap, access: Access) -> Result<(), Denial> {
    let access = match access {
        Access::Open => return Ok(()),
        _ if tokens.is_empty() => return Ok(()),
        Access::Read => blkkin_secure::Access::Read,
        Access::Write => blkkin_secure::Access::Write,
    };
    let value = headers.get(header::AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
    let response = match value.split_at_checked(7) {
        Some((scheme, response)) if scheme.eq_ignore_ascii_case(b"Bearer ") => {
            response.trim_ascii()
        }
        _ => b"",
    };
    tokens.check(response, access).map_err(|denial| match denial {
        blkkin_secure::Denial::Unknown => Denial::Token,
        blkkin_secure::Denial::Access => Denial::Access,
    })
}

/// Returns the host to which a request is addressed, from `Host`, or from the URI in HTTP/2.
fn host(head: &request::Parts) -> Result<&str, Denial> {
    let mut values = head.headers.get_all(header::HOST).iter();
    match (values.next(), values.next()) {
        (Some(host), None) => host.to_str().map_err(|_| Denial::NoHost),
        (None, None) => match head.uri.authority() {
            Some(authority) if head.version >= Version::HTTP_2 => Ok(authority.as_str()),
            _ => Err(Denial::NoHost),
        },
        _ => Err(Denial::NoHost),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            // IPv6 addresses contain colons and are enclosed in brackets.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

impl Denial {
    /// Returns the status and the text of the answer to a denied request.
    pub(crate) fn response(self) -> (StatusCode, &'static str) {
        match self {
            Denial::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "this is not the host that the request was sent to; see blkkin server --host",
            ),
            Denial::Origin => (
                StatusCode::FORBIDDEN,
                "pages of this origin may not do that; see blkkin server --origin",
            ),
            Denial::Token => (StatusCode::UNAUTHORIZED, "a token is needed: Authorization: Bearer"),
            Denial::Access => (StatusCode::FORBIDDEN, "this token does not permit that"),
            Denial::NoHost => (StatusCode::BAD_REQUEST, "request does not say to which host"),
        }
    }
}

/// Adds the security headers that an answer lacks. Browsers then load content from this origin
/// only, guess no content types, show the answer in no frame, send no referrer, and isolate the
/// window from windows of other origins.
pub(crate) fn add_security_headers(headers: &mut HeaderMap) {
    const HEADERS: [(&str, &str); 5] = [
        (
            "content-security-policy",
            "default-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'; \
             object-src 'none'; require-trusted-types-for 'script'",
        ),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
    ];
    for (name, value) in HEADERS {
        // A header that the answer already has is kept: the page has its own policy.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use std::io::Write;

    fn guard(hosts: &[&str], origins: &[&str]) -> Guard {
        let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let settings = Settings { hosts: own(hosts), origins: own(origins), ..Settings::default() };
        Guard::new(&settings).expect("without files")
    }

    fn request(method: &str, headers: &[(&str, &str)]) -> request::Parts {
        let mut request = Request::builder().method(method).uri("/api/v2/spans");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn only_what_was_sent_here_is_answered() {
        fn check(local: &str, host: &str, expected: bool) {
            let local = local.parse().expect("an address");
            let found = guard(&["Trace.example"], &[]).check(
                &request("GET", &[("host", host)]),
                local,
                Access::Read,
            );
            assert_eq!(found.is_ok(), expected, "{local} {host} {found:?}");
        }
        for host in [
            "localhost",
            "LocalHost:1234",
            "localhost.",
            "127.0.0.1",
            "127.0.0.1:9411",
            "trace.example",
            "TRACE.example:80",
            "trace.example.",
        ] {
            check("127.0.0.1", host, true);
        }
        check("::1", "[::1]:9411", true);
        check("::1", "[::1]", true);
        check("::ffff:10.0.0.1", "10.0.0.1:9411", true);
        // Forged host names.
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evil.localhost",
            "127.0.0.1.evil.example",
            "127.0.0.2",
            "8.8.8.8",
            "10.0.0.1:9411",
            "[::1]",
            "[::1]:9411",
            "0.0.0.0",
            "127.1",
            "2130706433",
            "0x7f000001",
            "localhost@evil.example",
            "localhost:9411@evil.example",
            "",
            ":9411",
            "localhost evil",
            "trace.example.evil.example",
            "xtrace.example",
        ] {
            check("127.0.0.1", host, false);
        }
        check("10.0.0.1", "localhost", false);
    }

    #[test]
    fn one_host_is_named() {
        let local = "127.0.0.1".parse().expect("an address");
        let check = |headers: &[(&str, &str)]| {
            guard(&[], &[]).check(&request("GET", headers), local, Access::Read)
        };
        assert_eq!(check(&[]), Err(Denial::NoHost));
        assert_eq!(check(&[("host", "localhost"), ("host", "localhost")]), Err(Denial::NoHost));
        let mut head = request("GET", &[("host", "localhost")]);
        head.uri = "http://evil.example/".parse().expect("an address");
        assert_eq!(guard(&[], &[]).check(&head, local, Access::Open), Err(Denial::Host));
    }

    #[test]
    fn pages_of_others_change_nothing() {
        fn check(method: &str, origin: &str, origins: &[&str], expected: bool) {
            let head = request(method, &[("host", "localhost:9411"), ("origin", origin)]);
            let local = "127.0.0.1".parse().expect("an address");
            let found = guard(&[], origins).check(&head, local, Access::Read);
            assert_eq!(found.is_ok(), expected, "{method} {origin} {found:?}");
        }
        let ours = "http://localhost:9411";
        check("POST", ours, &[], true);
        for origin in
            ["null", "http://evil.example", "http://localhost:9412", "http://localhost", "", "x"]
        {
            check("POST", origin, &[], false);
            check("DELETE", origin, &[], false);
            check("GET", origin, &[], true);
        }
        check("POST", "https://tools.example", &["https://Tools.example"], true);
        check("POST", "https://tools.example.evil", &["https://tools.example"], false);
        check("POST", "http://evil.example", &["*"], true);
    }

    #[test]
    fn tokens_are_asked_for() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        writeln!(file, "first-secret\n\n  second-secret ").expect("written");
        let path = Some(file.path().to_owned());
        let settings = Settings { token_file: path, ..Settings::default() };
        let guard = Guard::new(&settings).expect("a file with tokens");
        let check = |value: &str, expected: bool| {
            let headers = [("host", "localhost"), ("authorization", value)];
            let local = "127.0.0.1".parse().expect("an address");
            let found = guard.check(&request("GET", &headers), local, Access::Read);
            assert_eq!(found.is_ok(), expected, "{value} {found:?}");
            let found = guard.check(&request("GET", &headers), local, Access::Open);
            assert_eq!(found, Ok(()), "{value}");
        };
        check("Bearer first-secret", true);
        check("bearer second-secret", true);
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "first-secret",
            "Basic first-secret",
            "Bearer first-secre",
            "Bearer first-secrets",
            "Bearer First-secret",
        ] {
            check(wrong, false);
        }
        assert!(!format!("{guard:?}").contains("secret"));
        std::fs::write(file.path(), "\n \n").expect("written");
        assert!(Guard::new(&settings).is_err(), "no token at all");
    }

    #[test]
    fn tokens_are_for_reading_or_writing() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, format!("{name}-secret")).expect("written");
            Some(path)
        };
        let settings = Settings {
            token_file: file("both"),
            read_token_file: file("read"),
            write_token_file: file("write"),
            ..Settings::default()
        };
        let local = "127.0.0.1".parse().expect("an address");
        let check = |token: &str, access: Access, expected: Result<(), Denial>| {
            let value = format!("Bearer {token}-secret");
            let headers = [("host", "localhost"), ("authorization", value.as_str())];
            let guard = Guard::new(&settings).expect("files with tokens");
            let found = guard.check(&request("GET", &headers), local, access);
            assert_eq!(found, expected, "{token} {access:?}");
        };
        for access in [Access::Read, Access::Write] {
            check("both", access, Ok(()));
            check("other", access, Err(Denial::Token));
        }
        check("read", Access::Read, Ok(()));
        check("read", Access::Write, Err(Denial::Access));
        check("write", Access::Write, Ok(()));
        check("write", Access::Read, Err(Denial::Access));
        check("other", Access::Open, Ok(()));
        let one = Settings { read_token_file: file("read"), ..Settings::default() };
        assert!(Guard::new(&one).is_err(), "nobody would need a token for writing");
        let one = Settings { write_token_file: file("write"), ..Settings::default() };
        assert!(Guard::new(&one).is_err(), "nobody would need a token for reading");
        let two = Settings { read_token_file: file("read"), ..one };
        assert!(Guard::new(&two).is_ok());
    }
}
