//! What all connections share. Start at [`Shared`].

use crate::assets::Assets;
use crate::connections::Connections;
use crate::guard::{Guard, Tokens};
use crate::metrics::Requests;
use crate::settings::{Settings, StartError};
use crate::tls;
use blkkin_collector::{Budget, Collector};
use blkkin_query::Api;
use blkkin_store::{DatedCounter, Interval, SpanStore};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) tls: RwLock<Option<TlsAcceptor>>,
    pub(crate) store: Arc<dyn SpanStore>,
    pub(crate) collector: Arc<Collector>,
    pub(crate) api: Arc<Api>,
    pub(crate) assets: Assets,
    /// Questions that may be asked at the same time.
    pub(crate) questions: Arc<Semaphore>,
    /// Bytes of answers.
    pub(crate) answers: Arc<Budget>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) counts: Counts,
    pub(crate) requests: Requests,
    pub(crate) start: Instant,
}

impl Shared {
    /// What new connections talk TLS with, if they do.
    pub(crate) fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the certificate, its key and the tokens again. Keeps those in use if any of the files is bad.
    pub(crate) fn reload(&self) -> Result<(), StartError> {
        let tokens = Tokens::read(&self.settings)?;
        let tls = self.settings.tls.as_ref().map(tls::acceptor).transpose()?;
        self.guard.set_tokens(tokens);
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
        Ok(())
    }
}

/// What is counted of the server itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Connections that came.
    Accepted,
    /// Connections that could not be taken, mostly for want of descriptors.
    AcceptsFailed,
    /// Connections for which there was no place.
    NoPlace,
    /// Connections that were closed for others.
    MadeRoom,
    /// Connections that were closed as nothing happened.
    Idle,
    /// Connections from networks that are not trusted.
    DeniedNetwork,
    /// Connections that did not come to terms on TLS.
    HandshakesFailed,
    /// Requests sent to another host.
    DeniedHost,
    /// Requests from a page of somebody else.
    DeniedOrigin,
    /// Requests without a token that is known.
    DeniedToken,
    /// Questions that took too long.
    QuestionsLate,
    /// Answers for which there was no room.
    AnswersTurnedAway,
}

impl Count {
    /// All of them, with their names and what they are.
    pub(crate) const ALL: [(Count, &'static str, &'static str); 12] = [
        (Count::Accepted, "connections_accepted", "Connections that came"),
        (
            Count::AcceptsFailed,
            "connections_failed",
            "Connections that could not be taken, mostly for want of descriptors",
        ),
        (Count::NoPlace, "connections_without_place", "Connections that found all places busy"),
        (Count::MadeRoom, "connections_made_room", "Connections that were closed for newer ones"),
        (Count::Idle, "connections_idle", "Connections that were closed as nothing happened"),
        (
            Count::DeniedNetwork,
            "connections_denied_network",
            "Connections from networks that are not trusted",
        ),
        (
            Count::HandshakesFailed,
            "handshakes_failed",
            "Connections that did not come to terms on TLS",
        ),
        (Count::DeniedHost, "requests_denied_host", "Requests that were sent to another host"),
        (Count::DeniedOrigin, "requests_denied_origin", "Requests of other sites' pages"),
        (Count::DeniedToken, "requests_denied_token", "Requests without a token that permits them"),
        (Count::QuestionsLate, "questions_late", "Questions that took too long"),
        (Count::AnswersTurnedAway, "answers_turned_away", "Answers for which there was no room"),
    ];

    /// Whether somebody did not get what they came for.
    pub(crate) const fn is_loss(self) -> bool {
        !matches!(self, Count::Accepted | Count::MadeRoom | Count::Idle)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Counts([DatedCounter; Count::ALL.len()]);

impl Counts {
    pub(crate) fn add(&self, count: Count) {
        self.0[count as usize].add(1);
    }

    pub(crate) fn get(&self, count: Count) -> u64 {
        self.0[count as usize].get()
    }

    pub(crate) fn interval(&self, count: Count) -> Option<Interval> {
        self.0[count as usize].interval()
    }
}
