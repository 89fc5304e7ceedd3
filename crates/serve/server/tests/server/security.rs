//! Tests of access control, both at the server's start and for requests, and of the security
//! headers for browsers. The unit tests of `guard` cover the rules for requests; these tests show
//! that each listener applies them.

use crate::calls::{OTLP, call, framed};
use crate::support::{Reply, any_port, connect, head, request, start, start_with};
use blkkin_server::{Listen, Server, Settings, StartError, Tls};
use blkkin_store::MemoryStore;
use blkkin_sys::testing::skip;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SECRET: &str = "planted-secret-4711";

/// Temporary directory with a certificate for localhost, its key, and a token file.
struct Files {
    directory: tempfile::TempDir,
    certificate: String,
}

impl Files {
    fn new() -> Files {
        let directory = tempfile::tempdir().expect("a directory");
        let made =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate = made.cert.pem();
        fs::write(directory.path().join("cert.pem"), &certificate).expect("written");
        fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem())
            .expect("written");
        fs::write(directory.path().join("tokens"), format!("{SECRET}\n")).expect("written");
        Files { directory, certificate }
    }

    fn tls(&self) -> Tls {
        let path = |name: &str| self.directory.path().join(name);
        Tls { certificates: path("cert.pem"), key: path("key.pem") }
    }
}

fn starts(settings: Settings) -> Result<(), StartError> {
    let store = MemoryStore::new(Default::default(), Default::default());
    Server::start(Arc::new(store), settings).map(drop)
}

#[test]
fn other_machines_are_let_in_with_tls_and_tokens_only() {
    let files = Files::new();
    let (tls, tokens) = (Some(files.tls()), Some(files.directory.path().join("tokens")));
    let open = "0.0.0.0:0".parse().expect("an address");
    let places = [
        Listen { web: vec![any_port(), open], ..Listen::default() },
        Listen { otlp_http: vec![open], ..Listen::default() },
        Listen { otlp_grpc: vec!["[::]:0".parse().expect("an address")], ..Listen::default() },
    ];
    for listen in places {
        let check = |tls: &Option<Tls>, token_file: &Option<_>| {
            let (tls, token_file) = (tls.clone(), token_file.clone());
            starts(Settings { listen: listen.clone(), tls, token_file, ..Settings::default() })
        };
        for refused in [check(&None, &None), check(&tls, &None), check(&None, &tokens)] {
            let error = refused.expect_err("it is open").to_string();
            assert!(error.contains("can be reached from other machines, and there"), "{error}");
        }
        if let Err(error) = check(&tls, &tokens) {
            // The machine may lack IPv6.
            assert!(matches!(error, StartError::Listen { .. }), "{error}");
        }
    }
    let listen = Listen { scribe: vec![open], ..Listen::default() };
    let settings = Settings { listen, tls, token_file: tokens, ..Settings::default() };
    let error = starts(settings).expect_err("Scribe has neither").to_string();
    assert!(error.contains("Scribe has neither TLS nor tokens"), "{error}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let files = Files::new();
    let path = |name: &str| files.directory.path().join(name);
    fs::write(path("empty"), "").expect("written");
    let tls = |certificates: &str, key: &str| {
        Some(Tls { certificates: path(certificates), key: path(key) })
    };
    for (tls, token_file, expected) in [
        (tls("nothing", "key.pem"), None, "nothing"),
        (tls("cert.pem", "nothing"), None, "nothing"),
        (tls("empty", "key.pem"), None, "empty"),
        (tls("cert.pem", "empty"), None, "empty"),
        (None, Some(path("nothing")), "nothing"),
        (None, Some(path("empty")), "empty"),
    ] {
        let settings = Settings { tls, token_file, ..Settings::default() };
        match starts(settings) {
            Err(StartError::Keys(blkkin_secure::Error::File { path, .. })) => {
                assert!(path.ends_with(expected))
            }
            other => panic!("{other:?} instead of {expected}"),
        }
    }
}

#[test]
fn requests_to_other_hosts_are_not_answered() {
    let tested = start();
    for path in ["/api/v2/services", "/health", "/metrics", "/nothing"] {
        let reply = request(tested.web(), "GET", path, &[("host", "evil.example")], b"");
        assert_eq!(reply.status, 421, "{path}");
        assert!(!reply.text().contains("evil"), "nothing of theirs is repeated");
    }
    let headers = [("host", "evil.example"), ("content-type", "application/json")];
    let spans = br#"[{"traceId":"a","id":"a"}]"#;
    assert_eq!(request(tested.web(), "POST", "/api/v2/spans", &headers, spans).status, 421);
    assert_eq!(tested.get("/api/v2/trace/a").status, 404);
    assert_eq!(tested.metric("blkkin_server_requests_denied_host_total"), 5);
    for addresses in [&tested.running.otlp_http, &tested.running.otlp_grpc] {
        let reply = request(addresses[0], "POST", "/v1/traces", &[("host", "evil.example")], b"");
        assert_eq!(reply.status, 421);
    }
}

#[test]
fn pages_of_others_change_nothing_and_read_nothing() {
    let tested = start_with(|settings| settings.origins = vec!["https://tools.example".into()]);
    let ask = |method: &str, origin: &str| {
        let headers = [("origin", origin), ("content-type", "text/plain")];
        request(tested.web(), method, "/api/v2/spans?serviceName=x", &headers, b"")
    };
    let allowed = "access-control-allow-origin";
    assert_eq!(ask("POST", "https://evil.example").status, 403);
    assert_eq!(ask("POST", "null").status, 403);
    let reply = ask("GET", "https://evil.example");
    assert_eq!((reply.status, reply.header(allowed)), (200, ""));
    for method in ["GET", "POST"] {
        let reply = ask(method, "https://tools.example");
        assert!(reply.status < 300, "{reply:?}");
        assert_eq!(reply.header(allowed), "https://tools.example");
        assert!(reply.headers.contains(&("vary".into(), "origin".into())), "{reply:?}");
        assert_eq!(reply.header("access-control-allow-credentials"), "");
    }
    let preflight = |origin: &str| {
        let headers = [("origin", origin), ("access-control-request-method", "POST")];
        request(tested.web(), "OPTIONS", "/api/v2/spans", &headers, b"")
    };
    let reply = preflight("https://tools.example");
    assert_eq!((reply.status, reply.header("access-control-allow-methods")), (200, "GET,POST"));
    assert_eq!(preflight("https://evil.example").status, 403);
    assert_eq!(tested.metric("blkkin_server_requests_denied_origin_total"), 2);
}

#[test]
fn any_page_can_be_let_in_as_zipkin_does() {
    let tested = start_with(|settings| settings.origins = vec!["*".into()]);
    let headers = [("origin", "https://any.example")];
    let reply = request(tested.web(), "GET", "/api/v2/services", &headers, b"");
    assert_eq!(reply.header("access-control-allow-origin"), "*");
    let reply = request(tested.web(), "POST", "/api/v2/spans", &headers, b"");
    assert_eq!(reply.status, 202);
}

#[test]
fn browsers_are_told_to_run_nothing() {
    let tested = start();
    let check = |reply: Reply, status: u16| {
        assert_eq!(reply.status, status);
        let policy = reply.header("content-security-policy");
        assert!(policy.contains("default-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("x-frame-options"), "DENY");
    };
    check(tested.get("/api/v2/services"), 200);
    check(tested.get("/health"), 200);
    check(tested.get("/nothing"), 404);
    check(tested.get("/api/v2/trace/%3Cscript%3E"), 400);
    check(tested.post("/api/v2/spans", "application/json", b"x"), 400);
    check(request(tested.web(), "DELETE", "/health", &[], b""), 405);
    check(request(tested.web(), "GET", "/health", &[("host", "evil.example")], b""), 421);
}

#[test]
fn tokens_are_asked_for_and_never_shown() {
    let files = Files::new();
    let tokens = files.directory.path().join("tokens");
    let tested = start_with(|settings| settings.token_file = Some(tokens));
    let ask = |path: &str, token: &str| {
        let value = format!("Bearer {token}");
        let headers: &[(&str, &str)] =
            if token.is_empty() { &[] } else { &[("authorization", &value)] };
        request(tested.web(), "GET", path, headers, b"")
    };
    let paths = [
        "/info",
        "/zipkin/config.json",
        "/api/v2/services",
        "/api/blkkin/v1/status",
        "/api/blkkin/v1/counters",
        "/nothing",
    ];
    let mut told = String::new();
    for path in paths {
        for wrong in ["", "wrong-secret", &SECRET[1..], &SECRET[..SECRET.len() - 1]] {
            let reply = ask(path, wrong);
            assert_eq!((reply.status, reply.header("www-authenticate")), (401, "Bearer"), "{path}");
            told += &format!("{reply:?}");
        }
        let reply = ask(path, SECRET);
        assert_ne!(reply.status, 401, "{path}");
        told += &format!("{:?} {}", reply.headers, reply.text());
    }
    // Health probes and monitoring need no token.
    for path in ["/health", "/metrics", "/prometheus", "/actuator/metrics"] {
        for token in ["", "wrong-secret", SECRET] {
            let reply = ask(path, token);
            assert_eq!(reply.status, 200, "{path}");
            told += &format!("{:?} {}", reply.headers, reply.text());
        }
    }
    assert!(!told.contains("secret"), "{told}");
    assert!(ask("/metrics", "").text().contains("requests_denied_token_total 24\n"));
    for addresses in [&tested.running.otlp_http, &tested.running.otlp_grpc] {
        assert_eq!(request(addresses[0], "POST", "/v1/traces", &[], b"").status, 401);
    }
}

/// Connects with TLS, trusting only this certificate.
fn tls_stream(
    certificate: &str,
    to: SocketAddr,
) -> rustls::StreamOwned<rustls::ClientConnection, TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    use rustls::pki_types::pem::PemObject;
    let certificate = rustls::pki_types::CertificateDer::from_pem_slice(certificate.as_bytes());
    roots.add(certificate.expect("a certificate")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let connection = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    rustls::StreamOwned::new(connection, connect(to))
}

#[test]
fn with_tls_nothing_is_said_in_the_open() {
    let files = Files::new();
    let tls = files.tls();
    let tested = start_with(|settings| settings.tls = Some(tls));
    let mut stream = tls_stream(&files.certificate, tested.web());
    let asked = head(tested.web(), "GET", "/health", &[("host", "localhost")], 0);
    stream.write_all(asked.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    assert_eq!(Reply::parse(&bytes).status, 200);

    let mut plain = connect(tested.web());
    plain.write_all(asked.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!String::from_utf8_lossy(&bytes).contains("HTTP/1.1"), "{bytes:?}");
}

/// A connection without a TLS handshake is evicted like any other idle connection, long before the
/// handshake's timeout.
#[test]
fn handshakes_count_as_connections() {
    let files = Files::new();
    let tls = files.tls();
    let tested = start_with(|settings| {
        settings.tls = Some(tls);
        settings.connections_max = 10;
    });
    let mut silent: Vec<_> = (0..60).map(|_| connect(tested.web())).collect();
    let begun = Instant::now();
    for stream in &mut silent[..50] {
        let read = stream.read(&mut [0]);
        assert!(
            matches!(read, Ok(0))
                || read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// A server with TLS stops without waiting for unfinished handshakes.
#[test]
fn handshakes_do_not_keep_the_server() {
    let files = Files::new();
    let tls = files.tls();
    let tested = start_with(|settings| settings.tls = Some(tls));
    let _silent = connect(tested.web());
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    assert!(tested.running.stop());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// A read token permits only queries, and a write token only sending spans. The unit tests of
/// `guard` cover the rules.
#[test]
fn tokens_can_be_for_one_purpose() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| {
        let path = directory.path().join(name);
        fs::write(&path, name).expect("written");
        Some(path)
    };
    let (readers, writers) = (file("reader"), file("writer"));
    let tested = start_with(|settings| {
        settings.read_token_file = readers;
        settings.write_token_file = writers;
    });
    let ask = |method: &str, path: &str, kind: &str, token: &str| {
        let value = format!("Bearer {token}");
        let headers = [("authorization", value.as_str()), ("content-type", kind)];
        request(tested.web(), method, path, &headers, b"[]").status
    };
    for path in ["/api/v2/spans", "/api/v1/spans", "//api/v2/spans"] {
        assert_eq!(ask("POST", path, "application/json", "writer"), 202, "{path}");
        assert_eq!(ask("POST", path, "application/json", "reader"), 403, "{path}");
    }
    for path in
        ["/api/v2/services", "/api/blkkin/v1/status", "/info", "/api/v2/spans?serviceName=a"]
    {
        assert_eq!(ask("GET", path, "", "reader"), 200, "{path}");
        assert_eq!(ask("GET", path, "", "writer"), 403, "{path}");
    }
    assert_eq!(ask("POST", "/v1/traces", "application/json", "reader"), 403);
    assert_eq!(ask("POST", OTLP, "application/grpc", "reader"), 403);
    let writer = [("authorization", "Bearer writer")];
    assert_eq!(call(tested.web(), OTLP, &writer, framed(0, b"")).status, "0");
}

/// A reload of the running server applies new tokens and a new certificate; an invalid file changes
/// nothing.
#[test]
fn files_are_read_again() {
    let files = Files::new();
    let path = |name: &str| files.directory.path().join(name);
    let (tls, tokens) = (files.tls(), path("tokens"));
    let tested = start_with(|settings| {
        settings.tls = Some(tls);
        settings.token_file = Some(tokens);
    });
    let status = |certificate: &str, token: &str| {
        let mut stream = tls_stream(certificate, tested.web());
        let value = format!("Bearer {token}");
        let headers = [("host", "localhost"), ("authorization", value.as_str())];
        let asked = head(tested.web(), "GET", "/info", &headers, 0);
        stream.write_all(asked.as_bytes()).ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok()?;
        Some(Reply::parse(&bytes).status)
    };
    let old = files.certificate.as_str();
    assert_eq!(status(old, SECRET), Some(200));
    let other = Files::new();
    for name in ["cert.pem", "key.pem"] {
        fs::copy(other.directory.path().join(name), path(name)).expect("copied");
    }
    fs::write(path("tokens"), "\n").expect("written");
    let error = tested.running.reload().expect_err("no token").to_string();
    assert!(error.ends_with("tokens: has no token"), "{error}");
    assert_eq!(status(old, SECRET), Some(200), "neither the certificate nor the tokens changed");
    fs::write(path("tokens"), "another").expect("written");
    fs::write(path("key.pem"), "no key").expect("written");
    assert!(tested.running.reload().is_err());
    assert_eq!((status(old, SECRET), status(old, "another")), (Some(200), Some(401)));
    fs::copy(other.directory.path().join("key.pem"), path("key.pem")).expect("copied");
    tested.running.reload().expect("good files");
    let new = other.certificate.as_str();
    assert_eq!((status(new, "another"), status(new, SECRET)), (Some(200), Some(401)));
    assert_eq!(status(old, "another"), None, "the old certificate is shown no more");
}

/// Returns an address by which other machines reach this machine; `None` without a network.
fn outer_address() -> Option<IpAddr> {
    // Connecting a UDP socket sends no packet.
    let socket = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    socket.ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

/// Clients in trusted networks need neither TLS nor tokens; connections from other networks are
/// closed.
#[test]
fn trusted_networks_are_let_in_and_no_others() {
    let Some(outer) = outer_address() else {
        return skip("trusted_networks_are_let_in_and_no_others", "this machine has no network");
    };
    let start = |network: &str| {
        let network = network.parse().expect("a network");
        start_with(|settings| {
            settings.listen.web = vec![SocketAddr::new(outer, 0)];
            settings.trusted_networks = vec![network];
        })
    };
    let tested = start(&outer.to_string());
    assert_eq!(tested.get("/api/v2/services").status, 200);
    drop(tested);
    let tested = start("198.51.100.0/24");
    let mut stream = connect(tested.web());
    let _ = stream.write_all(head(tested.web(), "GET", "/health", &[], 0).as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert_eq!(String::from_utf8_lossy(&bytes), "", "closed without an answer");
    // Connections from loopback addresses are always accepted.
    let reply = request(tested.running.otlp_http[0], "GET", "/metrics", &[], b"").text();
    assert!(reply.contains("blkkin_server_connections_denied_network_total 1\n"), "{reply}");
}
