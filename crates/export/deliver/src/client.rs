//! One connection to the destination, made when it is needed, with one request on it at a time. What comes back is
//! bounded in size and time.

use crate::destination::{Destination, Protocol};
use crate::error::Error;
use crate::options::Options;
use crate::record::Record;
use crate::scribe::Scribe;
use crate::verdict::Verdict;
use crate::{grpc, http};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::http::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Bytes of an answer that are looked at. OpenTelemetry permits more, but nothing that is of use is as long.
const ANSWER_BYTES_MAX: usize = 256 << 10;

pub(crate) struct Client {
    options: Options,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    connection: Option<Connection>,
    scribe: Scribe,
}

enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// What the destination has answered.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// There was more of the body.
    pub(crate) is_cut: bool,
    pub(crate) trailers: HeaderMap,
}

impl Client {
    pub(crate) fn new(options: &Options) -> Result<Client, Error> {
        let destination = &options.destination;
        let tls = match destination.is_tls {
            true => Some((connector(options)?, server_name(destination)?)),
            false => None,
        };
        let scribe = Scribe::new(options);
        Ok(Client { options: options.clone(), tls, connection: None, scribe })
    }

    /// Sends a batch, and finds out what the answer means. If the future is dropped, nobody knows what has come of it.
    pub(crate) async fn send(&mut self, record: &Record) -> Verdict {
        let protocol = self.options.destination.protocol;
        if protocol == Protocol::Scribe {
            return self.scribe.send(record).await;
        }
        match self.exchange(record).await {
            Err(reason) => Verdict::later(reason),
            Ok(answer) if protocol == Protocol::Grpc => grpc::judge(&answer),
            Ok(answer) => http::judge(&answer, record.format, SystemTime::now()),
        }
    }

    fn request(&self, record: &Record) -> Result<Request<Full<Bytes>>, String> {
        let destination = &self.options.destination;
        let mut request = match destination.protocol {
            Protocol::Http | Protocol::Scribe => http::request(destination, record),
            Protocol::Grpc => grpc::request(destination, record),
        }
        .map_err(|error| error.to_string())?;
        let headers = request.headers_mut();
        if destination.protocol == Protocol::Http {
            let host = HeaderValue::try_from(destination.authority());
            headers.insert(HOST, host.map_err(|error| error.to_string())?);
        }
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("blkkin/", env!("CARGO_PKG_VERSION"))),
        );
        for (name, value) in self.options.headers.iter() {
            headers.append(name, value.clone());
        }
        Ok(request)
    }

    async fn exchange(&mut self, record: &Record) -> Result<Answer, String> {
        let patience = self.options.answer_timeout;
        // One that was kept may have been closed meanwhile, which shows only when it is used.
        if let Some(connection) = self.connection.take() {
            match timeout(patience, connection.ask(self.request(record)?)).await {
                Ok(Ok((answer, connection))) => {
                    self.connection = connection;
                    return Ok(answer);
                }
                Ok(Err(_)) => {}
                Err(_) => return Err(late("answer", patience)),
            }
        }
        let connecting = self.options.connect_timeout;
        let connection = timeout(connecting, self.connect()).await;
        let connection = connection.map_err(|_| late("connection", connecting))??;
        let asked = timeout(patience, connection.ask(self.request(record)?)).await;
        let (answer, connection) = asked.map_err(|_| late("answer", patience))??;
        self.connection = connection;
        Ok(answer)
    }

    async fn connect(&self) -> Result<Connection, String> {
        let destination = &self.options.destination;
        let connected = TcpStream::connect((destination.host.as_str(), destination.port)).await;
        let stream = connected.map_err(|error| format!("cannot connect: {error}"))?;
        // Requests are written as a whole; only their ends would wait.
        let _ = stream.set_nodelay(true);
        let is_http2 = destination.protocol == Protocol::Grpc;
        match &self.tls {
            None => shake_hands(stream, is_http2).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                let stream = stream.map_err(|error| format!("cannot connect by TLS: {error}"))?;
                shake_hands(stream, is_http2).await
            }
        }
    }
}

fn late(what: &str, patience: Duration) -> String {
    format!("no {what} within {} s", patience.as_secs_f64())
}

async fn shake_hands(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    is_http2: bool,
) -> Result<Connection, String> {
    let stream = TokioIo::new(stream);
    if is_http2 {
        let (sender, driver) =
            http2::handshake(TokioExecutor::new(), stream).await.map_err(|error| cause(&error))?;
        // What it ends with shows in the request, too.
        tokio::spawn(async move { drop(driver.await) });
        return Ok(Connection::Http2(sender));
    }
    let (sender, driver) = http1::handshake(stream).await.map_err(|error| cause(&error))?;
    tokio::spawn(async move { drop(driver.await) });
    Ok(Connection::Http1(sender))
}

impl Connection {
    /// Asks, and reads the answer. The connection can be used again if it is returned, too.
    async fn ask(
        self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Answer, Option<Connection>), String> {
        let (response, connection) = match self {
            Connection::Http1(mut sender) => {
                sender.ready().await.map_err(|error| cause(&error))?;
                let response = sender.send_request(request).await.map_err(|error| cause(&error))?;
                (response, Connection::Http1(sender))
            }
            Connection::Http2(mut sender) => {
                sender.ready().await.map_err(|error| cause(&error))?;
                let response = sender.send_request(request).await.map_err(|error| cause(&error))?;
                (response, Connection::Http2(sender))
            }
        };
        let answer = read(response).await?;
        let connection = (!answer.is_cut).then_some(connection);
        Ok((answer, connection))
    }
}

async fn read(response: Response<Incoming>) -> Result<Answer, String> {
    let (head, mut body) = response.into_parts();
    let mut answer = Answer { status: head.status, headers: head.headers, ..Answer::default() };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| cause(&error))?;
        match frame.into_data() {
            Ok(data) => {
                let room = ANSWER_BYTES_MAX - answer.body.len();
                answer.body.extend_from_slice(data.get(..room).unwrap_or(&data));
                if data.len() > room {
                    answer.is_cut = true;
                    return Ok(answer);
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    answer.trailers = trailers;
                }
            }
        }
    }
    Ok(answer)
}

/// An error with what has caused it.
fn cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

fn connector(options: &Options) -> Result<TlsConnector, Error> {
    let provider = Arc::new(ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Error::Certificates(error.to_string()))?;
    let mut config = config.with_root_certificates(trusted(options)?).with_no_client_auth();
    let protocol: &[u8] = match options.destination.protocol {
        Protocol::Http | Protocol::Scribe => b"http/1.1",
        Protocol::Grpc => b"h2",
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The certificates of the file, or of the system.
fn trusted(options: &Options) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let Some(file) = &options.ca else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = "the system has none that it trusts; name a file of some";
            return Err(Error::Certificates(why.to_owned()));
        }
        return Ok(roots);
    };
    let wrong = |why: String| Error::Certificates(format!("{}: {why}", file.display()));
    for certificate in
        CertificateDer::pem_file_iter(file).map_err(|error| wrong(error.to_string()))?
    {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("there is no certificate in it (PEM)".to_owned()));
    }
    Ok(roots)
}

fn server_name(destination: &Destination) -> Result<ServerName<'static>, Error> {
    let name = ServerName::try_from(destination.host.clone());
    name.map_err(|_| Error::Destination("its host cannot have a certificate".to_owned()))
}
