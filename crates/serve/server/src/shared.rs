//! State of the server that all connections share. Start at [`Shared`].

use crate::assets::Assets;
use crate::connections::Connections;
use crate::counts::{Counts, RequestLatencies};
use crate::guard::Guard;
use crate::settings::{Settings, StartError};
use crate::tls;
use blkkin_collector::{Budget, Collector};
use blkkin_query::Api;
use blkkin_secure::Tokens;
use blkkin_store::SpanStore;
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// State of a running server, which all connections share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) tls: RwLock<Option<TlsAcceptor>>,
    pub(crate) store: Arc<dyn SpanStore>,
    pub(crate) collector: Arc<Collector>,
    pub(crate) api: Arc<Api>,
    pub(crate) assets: Assets,
    /// Semaphore that limits the number of running queries.
    pub(crate) query_slots: Arc<Semaphore>,
    /// Memory budget of the answers to queries that are being sent.
    pub(crate) answers: Arc<Budget>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) counts: Counts,
    pub(crate) requests: RequestLatencies,
    pub(crate) start: Instant,
}

impl Shared {
    /// Returns the TLS acceptor for new connections; `None` without a certificate.
    pub(crate) fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.read().clone()
    }

    /// Reads the certificate, its key and the tokens again. If any file is unusable, the current
    /// certificate, key and tokens stay in use.
    pub(crate) fn reload(&self) -> Result<(), StartError> {
        let tokens = Tokens::read(&self.settings.token_files())?;
        let tls = self.settings.tls.as_ref().map(tls::acceptor).transpose()?;
        self.guard.set_tokens(tokens);
        *self.tls.write() = tls;
        Ok(())
    }
}
