//! Blocking requests to a server given by its URL. Start at [`Server`].

use crate::connection::{Answer, Connection, Peer};
use crate::tls::Tls;
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Client of one server, with blocking requests.
pub struct Server {
    connection: Connection,
    /// Runtime that drives the connection.
    runtime: Runtime,
    authority: HeaderValue,
    authorization: Option<HeaderValue>,
    /// Path of the URL, a prefix of each request's path.
    prefix: String,
}

/// Port, credentials and limits of a [`Server`].
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// Port for an `http` URL without a port.
    pub port: u16,
    /// Bearer token sent with each request, if the server requires authorization.
    pub token: Option<&'a str>,
    /// File of trusted certificates, which replaces the system's certificates.
    pub ca: Option<&'a Path>,
    /// Timeout for a complete answer.
    pub timeout: Duration,
    /// Maximum size of a stored answer, in bytes.
    pub answer_bytes_max: usize,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl Server {
    /// Creates a client of the server at `http://HOST[:PORT][/PATH]` or `https://…`, without
    /// connecting. Errors are messages for the user.
    pub fn at(url: &str, settings: &Settings<'_>) -> Result<Server, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("begins neither with http:// nor with https://".to_owned()),
        };
        if uri.query().is_some() {
            return Err("has a `?`, which comes with each question".to_owned());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("has no host")?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { settings.port });
        let tls = is_tls.then(|| {
            let tls = Tls::new(&host, settings.ca, false);
            tls.map_err(|why| format!("certificates: {why}"))
        });
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let text = |text: String| HeaderValue::try_from(text).map_err(|error| error.to_string());
        let authorization = settings.token.map(|token| {
            let mut value = text(format!("Bearer {token}"))?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let peer = Peer {
            host,
            port,
            tls: tls.transpose()?,
            is_http2: false,
            connect_timeout: CONNECT_TIMEOUT,
            answer_timeout: settings.timeout,
            answer_bytes_max: settings.answer_bytes_max,
        };
        Ok(Server {
            connection: Connection::new(peer),
            runtime: runtime.map_err(|error| format!("cannot wait for it: {error}"))?,
            authority: text(format!("{shown}:{port}"))?,
            authorization: authorization.transpose()?,
            prefix: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    /// Requests a path, which begins with a slash and may include a query.
    pub fn get(&mut self, path: &str) -> Result<Answer, String> {
        self.send(path, Method::GET, None)
    }

    /// Sends a JSON text to a path.
    pub fn post_json(&mut self, path: &str, json: &str) -> Result<Answer, String> {
        self.send(path, Method::POST, Some(Bytes::copy_from_slice(json.as_bytes())))
    }

    fn send(&mut self, path: &str, method: Method, json: Option<Bytes>) -> Result<Answer, String> {
        let request = || {
            let mut request = Request::builder()
                .method(method.clone())
                .uri(format!("{}{path}", self.prefix))
                .header(HOST, &self.authority)
                .header(USER_AGENT, concat!("blkkin/", env!("CARGO_PKG_VERSION")));
            if let Some(authorization) = &self.authorization {
                request = request.header(AUTHORIZATION, authorization);
            }
            if json.is_some() {
                request =
                    request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            }
            let body = Full::new(json.clone().unwrap_or_default());
            request.body(body).map_err(|error| error.to_string())
        };
        self.runtime.block_on(self.connection.send(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: Settings<'_> = Settings {
        port: 9411,
        token: None,
        ca: None,
        timeout: Duration::from_secs(1),
        answer_bytes_max: 1024,
    };

    #[test]
    fn urls_are_understood() {
        let at = |url| {
            let server = Server::at(url, &SETTINGS).expect(url);
            (server.authority.to_str().expect("text").to_owned(), server.prefix)
        };
        assert_eq!(at("http://trace"), ("trace:9411".to_owned(), String::new()));
        assert_eq!(at("http://trace:80/"), ("trace:80".to_owned(), String::new()));
        assert_eq!(at("http://[::1]/a/b/"), ("[::1]:9411".to_owned(), "/a/b".to_owned()));
        for wrong in ["trace", "ftp://trace", "http://", "http://trace/?a", "http://a b"] {
            assert!(Server::at(wrong, &SETTINGS).is_err(), "{wrong}");
        }
    }
}
