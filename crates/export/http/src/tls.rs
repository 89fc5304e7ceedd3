//! TLS connections to servers. Start at [`Tls`].

use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;

/// TLS settings for a server.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tls {
    /// Creates settings for a host. The host's certificate must be signed by a certificate in the
    /// file `ca`; if `ca` is `None`, by a certificate that the system trusts. Errors are messages
    /// for the user.
    pub fn new(host: &str, ca: Option<&Path>, is_http2: bool) -> Result<Tls, String> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| format!("{host} cannot have a certificate"))?;
        let roots = blkkin_secure::trusted_roots(ca).map_err(|error| error.to_string())?;
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        let protocol: &[u8] = if is_http2 { b"h2" } else { b"http/1.1" };
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Tls { connector: TlsConnector::from(Arc::new(config)), name })
    }

    pub(crate) async fn connect(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
        let stream = self.connector.connect(self.name.clone(), stream).await;
        stream.map_err(|error| format!("cannot connect by TLS: {error}"))
    }
}
