use super::*;
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Files of a server and its clients, signed by one authority.
struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    fn new() -> Files {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_key = rcgen::KeyPair::generate().expect("a key");
        let ca_pem = ca.self_signed(&ca_key).expect("a certificate").pem();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        for (name, host) in [("server", "localhost"), ("client", "node-1")] {
            let key = rcgen::KeyPair::generate().expect("a key");
            let params = rcgen::CertificateParams::new([host.to_owned()]).expect("parameters");
            let certificate = params.signed_by(&key, &issuer).expect("a certificate");
            fs::write(path.join(format!("{name}.pem")), certificate.pem()).expect("written");
            fs::write(path.join(format!("{name}.key")), key.serialize_pem()).expect("written");
        }
        fs::write(path.join("ca.pem"), ca_pem).expect("written");
        for name in ["both", "read", "write"] {
            fs::write(path.join(name), format!("{name}-secret\n")).expect("written");
        }
        Files { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn server(&self, has_client_ca: bool, tokens: &[&str]) -> Result<ServerKeys, Error> {
        let file = |name: &str| tokens.contains(&name).then(|| self.path(name));
        let files = TokenFiles { both: file("both"), read: file("read"), write: file("write") };
        let ca = self.path("ca.pem");
        let (certificate, key) = (self.path("server.pem"), self.path("server.key"));
        ServerKeys::read(&certificate, &key, has_client_ca.then_some(&*ca), &files)
    }

    /// Returns the credentials of a client with some of the files.
    fn client(&self, files: &[(&str, &str)]) -> Credentials {
        let directory = tempfile::tempdir().expect("a directory");
        for (from, to) in files {
            fs::copy(self.path(from), directory.path().join(to)).expect("copied");
        }
        Credentials::read(directory.path()).expect("credentials")
    }
}

const TIME: Duration = Duration::from_secs(10);

/// Connects a client to a server at `host`. Returns the results of both, and the bytes that the
/// client has received.
fn meet(
    keys: &ServerKeys,
    access: Access,
    host: &str,
    credentials: &Credentials,
) -> (io::Result<Vec<u8>>, io::Result<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address");
    thread::scope(|scope| {
        let server = scope.spawn(move || {
            let (socket, _) = listener.accept().expect("a client");
            let mut channel = keys.accept(&socket, access, TIME)?;
            let (mut buffer, mut received) = (vec![0; 1000], Vec::new());
            while received.len() < 100_000 {
                let size = io::Read::read(&mut &socket, &mut buffer)?;
                assert!(size > 0, "the client sends all");
                received.extend_from_slice(channel.open(&buffer[..size])?);
            }
            io::Write::write_all(&mut &socket, channel.seal(&received)?)
        });
        let client = (|| {
            let socket = TcpStream::connect(address)?;
            let mut stream = Stream::secure(socket, host, credentials)?;
            let sent: Vec<u8> = (0..100_000).map(|at: u32| (at / 7) as u8).collect();
            stream.write_all(&sent)?;
            let (mut buffer, mut received) = (vec![0; 7000], Vec::new());
            while received.len() < sent.len() {
                let bytes = stream.read(&mut buffer)?;
                received.extend_from_slice(bytes.expect("the server sends all"));
            }
            assert!(received == sent);
            Ok(received)
        })();
        (client, server.join().expect("no panic"))
    })
}

#[test]
fn tokens_and_certificates_admit_clients() {
    let files = Files::new();
    let tokens = files.server(false, &["read", "write"]).expect("keys");
    let both = files.server(true, &["both"]).expect("keys");
    let only_certificates = files.server(true, &[]).expect("keys");
    let ca = ("ca.pem", "ca.pem");
    let with_certificate =
        files.client(&[ca, ("client.pem", "cert.pem"), ("client.key", "key.pem")]);
    let with = |token: &str| files.client(&[ca, (token, "token")]);
    let denied = "does not permit";
    for (keys, access, credentials, expected) in [
        (&tokens, Access::Read, with("read"), None),
        (&tokens, Access::Write, with("write"), None),
        (&tokens, Access::Write, with("read"), Some(denied)),
        (&tokens, Access::Read, with("write"), Some(denied)),
        (&tokens, Access::Read, with("both"), Some("not known")),
        (&tokens, Access::Read, files.client(&[ca]), Some("is needed")),
        (&tokens, Access::Read, with_certificate.clone(), Some("is needed")),
        (&both, Access::Write, with("both"), None),
        (&both, Access::Write, with_certificate.clone(), None),
        (&both, Access::Read, files.client(&[ca]), Some("is needed")),
        (&only_certificates, Access::Read, with_certificate, None),
        (&only_certificates, Access::Read, with("both"), Some("not known")),
    ] {
        let (client, server) = meet(keys, access, "localhost", &credentials);
        match expected {
            None => assert!(client.is_ok() && server.is_ok(), "{client:?} {server:?}"),
            Some(part) => {
                let refusal = client.as_ref().err().and_then(Refusal::of);
                let errors = [client.map(drop), server].map(|end| end.expect_err("refused"));
                for error in errors {
                    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
                    assert!(error.to_string().contains(part), "{error}");
                }
                assert_eq!(refusal, Some(Refusal::Client));
            }
        }
    }
}

#[test]
fn unknown_servers_and_clients_are_refused() {
    let (files, others) = (Files::new(), Files::new());
    let keys = files.server(true, &["both"]).expect("keys");
    let check = |host: &str, credentials: &Credentials, part: &str| {
        let (client, server) = meet(&keys, Access::Read, host, credentials);
        let error = client.map(drop).expect_err("refused");
        assert!(error.to_string().contains(part), "{error}");
        let of_server = part.starts_with("invalid").then_some(Refusal::Server);
        assert_eq!(Refusal::of(&error), of_server, "{error}");
        assert!(server.is_err());
    };
    let token = files.client(&[("ca.pem", "ca.pem"), ("both", "token")]);
    check("127.0.0.1", &token, "invalid peer certificate");
    check("relay.example", &token, "invalid peer certificate");
    check("localhost", &others.client(&[("ca.pem", "ca.pem"), ("both", "token")]), "invalid peer");
    check("no host", &token, "cannot have a certificate");
}

#[test]
fn servers_need_files_that_fit() {
    let files = Files::new();
    let missing = |tokens: &[&str]| match files.server(false, tokens) {
        Err(Error::Tokens { missing }) => missing,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(&[]), "reading and writing");
    assert_eq!(missing(&["read"]), "writing");
    assert_eq!(missing(&["write"]), "reading");
    assert!(files.server(true, &["read"]).is_ok(), "producers have certificates");
    let line = "-----BEGIN PRIVATE KEY-----\\nMIIEsecret-----END PRIVATE KEY-----";
    for text in ["no key", line, "-----BEGIN PRIVATE KEY-----\nMIIE\nsecret!\n"] {
        fs::write(files.path("server.key"), text).expect("written");
        let error = files.server(false, &["both"]).expect_err("no key").to_string();
        let bytes = format!("{:?}", b"secret").trim_matches(['[', ']']).to_owned();
        assert!(error.contains("server.key"), "{error}");
        assert!(!error.contains("secret") && !error.contains(&bytes), "{error}");
    }
    let client = |name: &str| {
        let directory = tempfile::tempdir().expect("a directory");
        fs::copy(files.path("ca.pem"), directory.path().join("ca.pem")).expect("copied");
        fs::copy(files.path("client.pem"), directory.path().join(name)).expect("copied");
        Credentials::read(directory.path()).map(drop).expect_err("incomplete").to_string()
    };
    assert!(client("cert.pem").contains("key.pem is missing"));
    assert!(client("key.pem").contains("cert.pem is missing"));
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("token"), "secret").expect("written");
    let error = Credentials::read(directory.path()).map(drop).expect_err("no authority");
    assert!(error.to_string().contains("ca.pem is missing"), "{error}");
}

#[test]
fn clients_that_stay_silent_are_refused_in_time() {
    let files = Files::new();
    let keys = files.server(false, &["both"]).expect("keys");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let (socket, _) = listener.accept().expect("a client");
    let short = Duration::from_millis(50);
    let error = keys.accept(&socket, Access::Read, short).map(drop).expect_err("refused");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    io::Write::write_all(&mut &client, b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    let error = keys.accept(&socket, Access::Read, TIME).map(drop).expect_err("refused");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
}

/// A client may end TLS and go on sending. The server ends the connection.
#[test]
fn bytes_after_the_end_of_tls_are_refused() {
    let files = Files::new();
    let keys = files.server(false, &["both"]).expect("keys");
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address");
    let client = thread::spawn(move || {
        let roots = trusted_roots(Some(&files.path("ca.pem"))).expect("roots");
        let mut config = rustls::ClientConfig::builder_with_provider(crate::files::provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![crate::server_keys::PROTOCOL.to_vec()];
        let name = "localhost".try_into().expect("a name");
        let tls = rustls::ClientConnection::new(config.into(), name).expect("a client");
        let socket = TcpStream::connect(address).expect("connected");
        let mut tls = rustls::StreamOwned::new(tls, socket);
        tls.conn.complete_io(&mut tls.sock).expect("a handshake");
        tls.conn.send_close_notify();
        tls.conn.complete_io(&mut tls.sock).expect("sent");
        thread::sleep(Duration::from_millis(50));
        io::Write::write_all(&mut tls.sock, b"x").expect("sent");
        tls
    });
    let (socket, _) = listener.accept().expect("a client");
    let error = keys.accept(&socket, Access::Read, TIME).map(drop).expect_err("refused");
    assert!(error.to_string().contains("the end of TLS"), "{error}");
    client.join().expect("no panic");
}

#[test]
fn greetings_are_bounded() {
    let mut bytes = Vec::new();
    Greeting { token: b"secret" }.encode(&mut bytes).expect("encoded");
    for size in 0..bytes.len() {
        assert_eq!(Greeting::decode(&bytes[..size]), Ok(None), "{size}");
    }
    bytes.push(0);
    assert_eq!(Greeting::decode(&bytes), Ok(Some((Greeting { token: b"secret" }, 12))));
    assert_eq!(Greeting::decode(b"BKN2"), Err(GreetingError::Magic(3)));
    assert_eq!(Greeting::decode(b"BKN1\xff\xff"), Err(GreetingError::Length(65535)));
    let token = &[b'x'; 5000][..];
    assert_eq!(Greeting { token }.encode(&mut bytes), Err(GreetingError::Length(5000)));
}
