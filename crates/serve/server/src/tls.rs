//! Loading of the server's certificate and key. Start at [`acceptor`].

use crate::settings::{StartError, Tls};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Creates a TLS acceptor from the files with a certificate and its key.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, StartError> {
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(&tls.certificates)
            .and_then(Iterator::collect)
            .map_err(|error| unusable(&tls.certificates, error))?;
    if certificates.is_empty() {
        return Err(unusable(&tls.certificates, "has no certificate"));
    }
    // The library's error messages contain no part of the key.
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| unusable(&tls.key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| unusable(&tls.certificates, error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn unusable(path: &Path, reason: impl ToString) -> StartError {
    StartError::File { path: path.to_owned(), reason: reason.to_string() }
}
