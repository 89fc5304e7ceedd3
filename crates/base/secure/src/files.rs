//! PEM files with certificates and private keys, and the TLS settings that use them.

use crate::error::Error;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

const NO_CERTIFICATE: &str = "there is no certificate in it (PEM)";

/// Returns the error of a PEM file. The library's messages quote lines of the file, which may be
/// parts of a key.
fn unusable(path: &Path, error: &pem::Error, missing: &str) -> Error {
    match error {
        pem::Error::Io(error) => Error::file(path, error),
        pem::Error::NoItemsFound => Error::file(path, missing),
        _ => Error::file(path, "is no PEM file, or a damaged one"),
    }
}

/// Reads a certificate with its chain.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(path, &error, NO_CERTIFICATE))?;
    match found.is_empty() {
        true => Err(Error::file(path, NO_CERTIFICATE)),
        false => Ok(found),
    }
}

/// Reads a private key.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| unusable(path, &error, "there is no key in it (PEM)"))
}

/// Reads trusted certificates from a file, or from the system if `file` is `None`.
pub fn trusted_roots(file: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let told = "the system has no trusted certificates; name a file with some";
            return Err(Error::Tls(told.to_owned()));
        }
        return Ok(roots);
    };
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| Error::file(file, error))?;
    }
    Ok(roots)
}

/// Creates a server's TLS settings from the files with its certificate and key. With `client_ca`,
/// clients may present a certificate that a certificate in this file has signed.
pub fn server_config(
    certificate: &Path,
    key: &Path,
    client_ca: Option<&Path>,
) -> Result<ServerConfig, Error> {
    let (chain, key) = (certificates(certificate)?, private_key(key)?);
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let roots = Arc::new(trusted_roots(Some(file))?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                .allow_unauthenticated()
                .build()
                .map_err(|error| Error::file(file, error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    builder.with_single_cert(chain, key).map_err(|error| Error::file(certificate, error))
}
