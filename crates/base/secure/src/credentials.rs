//! Credentials of clients: certificates that they trust, their token, and their certificate.

use crate::channel::Channel;
use crate::error::Error;
use crate::files::{certificates, private_key, provider, trusted_roots};
use crate::tokens::Token;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Credentials of a client.
#[derive(Clone, Debug)]
pub struct Credentials {
    config: Arc<ClientConfig>,
    token: Option<Token>,
}

impl Credentials {
    /// Reads the files of a directory, each of which may be missing: `ca.pem` has the certificates
    /// that sign the servers' (otherwise those that the system trusts do), `token` has the token,
    /// `cert.pem` and `key.pem` have the client's certificate and its key. A token needs `ca.pem`,
    /// as it would else be shown to any server with a certificate that the system trusts.
    pub fn read(directory: &Path) -> Result<Credentials, Error> {
        let file = |name: &str| -> Result<Option<PathBuf>, Error> {
            let path = directory.join(name);
            match path.try_exists() {
                Ok(true) => Ok(Some(path)),
                Ok(false) => Ok(None),
                Err(error) => Err(Error::file(&path, error)),
            }
        };
        let (ca, token) = (file("ca.pem")?, file("token")?);
        if let (None, Some(token)) = (&ca, &token) {
            return Err(Error::file(token, "ca.pem is missing beside it"));
        }
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Tls(error.to_string()))?
            .with_root_certificates(trusted_roots(ca.as_deref())?);
        let mut config = match (file("cert.pem")?, file("key.pem")?) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => builder
                .with_client_auth_cert(certificates(&certificate)?, private_key(&key)?)
                .map_err(|error| Error::file(&certificate, error))?,
            (Some(certificate), None) => {
                return Err(Error::file(&certificate, "key.pem is missing beside it"));
            }
            (None, Some(key)) => return Err(Error::file(&key, "cert.pem is missing beside it")),
        };
        config.alpn_protocols = vec![crate::server_keys::PROTOCOL.to_vec()];
        let token = token.map(|path| Token::read_first(&path)).transpose()?;
        Ok(Credentials { config: Arc::new(config), token })
    }

    pub(crate) fn token(&self) -> &[u8] {
        self.token.as_ref().map_or(&[], Token::as_bytes)
    }

    /// Begins a connection to a host, which must have a certificate for this name or address.
    pub(crate) fn channel(&self, host: &str) -> io::Result<Channel> {
        let name = ServerName::try_from(host.to_owned());
        let name =
            name.map_err(|_| io::Error::other(format!("{host} cannot have a certificate")))?;
        let connection = ClientConnection::new(self.config.clone(), name);
        connection.map(Channel::new).map_err(io::Error::other)
    }
}
