//! TLS of the server's listeners. Start at [`acceptor`].

use crate::settings::{StartError, Tls};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Creates a TLS acceptor from the files with a certificate and its key.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, StartError> {
    let mut config = blkkin_secure::server_config(&tls.certificates, &tls.key, None)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
