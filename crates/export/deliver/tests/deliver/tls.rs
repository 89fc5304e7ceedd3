//! Tests of TLS with a self-signed certificate: only an exporter with the certificate's file trusts
//! it.

use crate::accounts::{finish, options, push};
use crate::server::{Reply, Server, ServerOptions};
use blkkin_deliver::{Exporter, Options};
use blkkin_wire::Format;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
}

fn server(is_http2: bool) -> Server {
    let own = CertificateDer::from_pem_file(certificate("server.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(certificate("server.key.pem")).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![own], key);
    let mut config = config.expect("a configuration");
    config.alpn_protocols = vec![if is_http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    let tls = Some(TlsAcceptor::from(Arc::new(config)));
    Server::start(ServerOptions { is_http2, tls }, move |_, _| match is_http2 {
        true => Reply::Trailers(Vec::new(), vec![("grpc-status", "0".to_owned())]),
        false => Reply::status(202),
    })
}

#[test]
fn spans_arrive() {
    for (scheme, path, format) in
        [("https", "/api/v2/spans", Format::ZipkinJson), ("otlps", "", Format::OtlpProto)]
    {
        let (server, ca) = (server(scheme == "otlps"), certificate("server.pem"));
        let url = format!("{scheme}://localhost:{}{path}", server.address.port());
        let exporter =
            Exporter::open(Options { ca: Some(ca), ..options(&url) }).expect("an exporter");
        (0..10).for_each(|number| push(&exporter, number));
        assert_eq!(finish(exporter).delivered, 10);
        assert_eq!(server.numbers(format), (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn nobody_else_is_told_anything() {
    let server = server(false);
    let other_ca = certificate("other.pem");
    let url = format!("https://localhost:{}/api/v2/spans", server.address.port());
    let exporter =
        Exporter::open(Options { ca: Some(other_ca), ..options(&url) }).expect("an exporter");
    push(&exporter, 0);
    exporter.flush().expect("room");
    let start = Instant::now();
    while exporter.counters().retries == 0 {
        assert!(start.elapsed() < crate::accounts::PATIENCE);
        std::thread::sleep(Duration::from_millis(1));
    }
    let trouble = exporter.trouble().expect("trouble");
    assert!(trouble.contains("TLS") && trouble.contains("certificate"), "{trouble}");
    assert_eq!(exporter.close().delivered, 0);
    assert!(server.asked().is_empty());
    // A missing file, and a file without certificates.
    let none = [
        ("/nowhere/ca.pem", "/nowhere/ca.pem: "),
        ("/dev/null", "/dev/null: there is no certificate"),
    ];
    for (ca, message) in none {
        let error = Exporter::open(Options { ca: Some(ca.into()), ..options(&url) }).map(drop);
        let error = error.expect_err("an error").to_string();
        assert!(error.contains(message), "{error}");
    }
}
