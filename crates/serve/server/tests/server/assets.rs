//! Tests of the web page's files, and of the redirects from Zipkin's pages to the web page.

use crate::support::{Reply, TestServer, gunzip, request, start, start_with};

fn get(tested: &TestServer, path: &str, headers: &[(&str, &str)]) -> Reply {
    request(tested.web(), "GET", path, headers, b"")
}

const FILES: [(&str, &str); 5] = [
    ("/", "text/html; charset=utf-8"),
    ("/app.js", "text/javascript; charset=utf-8"),
    ("/app.css", "text/css; charset=utf-8"),
    ("/worker.js", "text/javascript; charset=utf-8"),
    ("/icon.svg", "image/svg+xml"),
];

#[test]
fn pages_are_there_with_what_they_may_do() {
    let tested = start();
    for (path, kind) in FILES {
        let reply = get(&tested, path, &[]);
        assert_eq!((reply.status, reply.header("content-type")), (200, kind), "{path}");
        assert!(!reply.body.is_empty(), "{path}");
        assert_eq!(reply.header("cache-control"), "no-cache");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        let policies = reply.headers.iter().filter(|(name, _)| name == "content-security-policy");
        let policies: Vec<&str> = policies.map(|(_, policy)| policy.as_str()).collect();
        let expected = "default-src 'self'; style-src 'self'; object-src 'none'; base-uri 'none'; \
                        frame-ancestors 'none'; require-trusted-types-for 'script'; \
                        trusted-types svelte-trusted-html blkkin-worker";
        assert_eq!(policies, [expected], "{path}");
    }
    assert!(get(&tested, "/", &[]).text().contains("<div id=\"app\""));
    assert_eq!(tested.post("/", "text/plain", b"x").status, 405);
    assert_eq!(get(&tested, "/index.html", &[]).status, 404);
}

#[test]
fn pages_are_packed_once_and_sent_once() {
    let tested = start();
    for (path, _) in FILES {
        let plain = get(&tested, path, &[]);
        let packed = get(&tested, path, &[("accept-encoding", "br, gzip")]);
        assert_eq!((packed.status, plain.header("content-encoding")), (200, ""), "{path}");
        if packed.header("content-encoding") == "gzip" {
            assert!(packed.body.len() < plain.body.len(), "{path}");
            assert_eq!(gunzip(&packed.body), plain.body, "{path}");
        } else {
            assert_eq!(packed.body, plain.body, "{path}");
        }
        let tag = plain.header("etag");
        assert_eq!(packed.header("etag"), tag);
        let strong = tag.trim_start_matches("W/");
        let listed = format!("\"other\", {strong}");
        for known in [tag, strong, &listed, "*"] {
            let reply = get(&tested, path, &[("if-none-match", known)]);
            assert_eq!((reply.status, reply.body.len()), (304, 0), "{path} {known}");
            assert_eq!(reply.header("etag"), tag);
        }
        assert_eq!(get(&tested, path, &[("if-none-match", "\"other\"")]).status, 200);
    }
    let script = get(&tested, "/app.js", &[("accept-encoding", "gzip")]);
    assert_eq!(script.header("content-encoding"), "gzip");
    let tags: std::collections::BTreeSet<String> =
        FILES.iter().map(|(path, _)| get(&tested, path, &[]).header("etag").to_owned()).collect();
    assert_eq!(tags.len(), FILES.len());
}

/// The web page's files contain no data and need no token, while queries, `/info` and unknown paths
/// need one. Requests that name another host are refused for files, too.
#[test]
fn pages_need_no_token() {
    let directory = tempfile::tempdir().expect("a directory");
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "secret").expect("written");
    let tested = start_with(|settings| settings.token_file = Some(tokens));
    for (path, _) in FILES {
        assert_eq!(get(&tested, path, &[]).status, 200, "{path}");
        let reply = get(&tested, path, &[("host", "evil.example")]);
        assert_eq!(reply.status, 421, "{path}");
    }
    for path in ["/api/blkkin/v1/search", "/api/v2/services", "/info", "/nothing"] {
        assert_eq!(get(&tested, path, &[]).status, 401, "{path}");
    }
}

#[test]
fn who_looks_for_pages_of_zipkin_finds_ours() {
    let tested = start();
    for path in ["/zipkin", "/zipkin/"] {
        let reply = get(&tested, path, &[]);
        assert_eq!((reply.status, reply.header("location")), (302, "/"), "{path}");
    }
    for (path, page) in [
        ("/zipkin/traces/00000000000000aB", "/#/zipkin/traces/00000000000000aB"),
        ("/zipkin/dependency?startTs=1", "/#/zipkin/dependency?startTs=1"),
        ("/zipkin/?serviceName=a%20b&limit=10", "/#/zipkin/?serviceName=a%20b&limit=10"),
    ] {
        let reply = get(&tested, path, &[]);
        assert_eq!((reply.status, reply.header("location")), (302, page), "{path}");
    }
}
