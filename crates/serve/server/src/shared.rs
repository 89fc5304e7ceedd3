//! What all connections share. Start at [`Shared`].

use crate::assets::Assets;
use crate::connections::Connections;
use crate::guard::Guard;
use crate::metrics::Requests;
use crate::settings::Settings;
use blkkin_collector::{Budget, Collector};
use blkkin_query::Api;
use blkkin_store::{DatedCounter, Interval, SpanStore};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) guard: Guard,
    pub(crate) tls: Option<TlsAcceptor>,
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
    pub(crate) const ALL: [(Count, &'static str); 11] = [
        (Count::Accepted, "connections_accepted"),
        (Count::AcceptsFailed, "connections_failed"),
        (Count::NoPlace, "connections_without_place"),
        (Count::MadeRoom, "connections_made_room"),
        (Count::Idle, "connections_idle"),
        (Count::HandshakesFailed, "handshakes_failed"),
        (Count::DeniedHost, "requests_denied_host"),
        (Count::DeniedOrigin, "requests_denied_origin"),
        (Count::DeniedToken, "requests_denied_token"),
        (Count::QuestionsLate, "questions_late"),
        (Count::AnswersTurnedAway, "answers_turned_away"),
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
