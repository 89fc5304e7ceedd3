//! Starting, reloading and stopping the server. Start at [`Server::start`].

use crate::assets::Assets;
use crate::connections::Connections;
use crate::counts::{Counts, RequestLatencies};
use crate::guard::Guard;
use crate::listener::{bind, listen};
use crate::settings::{Settings, StartError};
use crate::shared::Shared;
use crate::tls;
use blkkin_collector::{Budget, Collector, Counters, ScribeSpans, Transport};
use blkkin_query::Api;
use blkkin_scribe::ServerOptions;
use blkkin_store::{AcceptedBatch, Policy, Refusal, SpanStore};
use blkkin_wire::Format;
use parking_lot::RwLock;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Time limit for open requests to be answered when the server stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Namespace of [`Server::start`], which starts a server.
pub struct Server;

/// Running server, with the addresses of its listeners. Dropping it stops the server.
pub struct Running {
    /// Addresses for Zipkin's protocols, OpenTelemetry over HTTP and gRPC, and queries.
    pub web: Vec<SocketAddr>,
    /// Addresses on which senders expect OpenTelemetry over HTTP.
    pub otlp_http: Vec<SocketAddr>,
    /// Addresses on which senders expect OpenTelemetry over gRPC.
    pub otlp_grpc: Vec<SocketAddr>,
    scribe: Vec<blkkin_scribe::RunningServer<ScribeSpans>>,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    listeners: JoinSet<()>,
    runtime: Runtime,
}

impl Server {
    /// Starts a server with a store. Returns when all listening sockets are open.
    pub fn start(store: Arc<dyn SpanStore>, settings: Settings) -> Result<Running, StartError> {
        check_open(&settings)?;
        let guard = Guard::new(&settings)?;
        let tls = settings.tls.as_ref().map(tls::acceptor).transpose()?;
        let threads = settings.collector.workers + settings.queries_max;
        let runtime = Builder::new_multi_thread()
            .thread_name("blkkin-server")
            .max_blocking_threads(threads.max(1))
            .enable_io()
            .enable_time()
            .build()
            .map_err(StartError::Threads)?;
        let addresses = settings.listen.clone();
        let shared = Arc::new(Shared {
            guard,
            tls: RwLock::new(tls),
            collector: Arc::new(Collector::new(store.clone(), settings.collector)),
            api: Arc::new(Api::new(store.clone(), settings.query.clone())),
            assets: Assets::new(),
            store,
            query_slots: Arc::new(Semaphore::new(settings.queries_max.max(1))),
            answers: Budget::new(settings.answers_bytes),
            connections: Connections::new(settings.connections_max),
            counts: Counts::default(),
            requests: RequestLatencies::default(),
            start: Instant::now(),
            settings,
        });
        let (stop, stopped) = watch::channel(false);
        let mut open = Vec::new();
        let mut bind_all = |addresses: &[SocketAddr]| -> Result<Vec<SocketAddr>, StartError> {
            addresses
                .iter()
                .map(|&address| {
                    let listener = runtime.block_on(bind(address))?;
                    let bound = listener.local_addr();
                    open.push(listener);
                    bound.map_err(|error| StartError::Listen { address, error })
                })
                .collect()
        };
        let web = bind_all(&addresses.web)?;
        let otlp_http = bind_all(&addresses.otlp_http)?;
        let otlp_grpc = bind_all(&addresses.otlp_grpc)?;
        let mut scribe = Vec::new();
        for &address in &addresses.scribe {
            let failed = |error| StartError::Listen { address, error };
            let options = ServerOptions {
                connections_max: shared.settings.scribe_connections_max,
                ..ServerOptions::default()
            };
            let server = blkkin_scribe::Server::bind(address, options).map_err(failed)?;
            let spans = ScribeSpans(shared.collector.clone());
            scribe.push(server.start(spans).map_err(failed)?);
        }
        let mut listeners = JoinSet::new();
        for listener in open {
            let listening: TcpListener = listener;
            listeners
                .spawn_on(listen(shared.clone(), listening, stopped.clone()), runtime.handle());
        }
        Ok(Running { web, otlp_http, otlp_grpc, scribe, shared, stop, listeners, runtime })
    }
}

/// View of the server's counters and of the store's state, for logs. Remains valid after the server
/// has stopped.
#[derive(Clone)]
pub struct ServerState(Arc<Shared>);

impl ServerState {
    /// Returns the number of messages that the collector or the store refused for lack of memory or
    /// space, or because the store failed.
    pub fn turned_away(&self) -> u64 {
        self.sum(|counters| counters.messages_turned_away)
    }

    /// Returns the number of messages of which no span was stored because they were invalid, of an
    /// unknown format, too large or late.
    pub fn dropped(&self) -> u64 {
        self.sum(|counters| counters.messages_dropped)
    }

    /// Returns the reason of the store's last refusal; `None` if the store has accepted a batch
    /// since, or if the refusal is older than a minute.
    pub fn refusal(&self) -> Option<String> {
        self.0.collector.refusal()
    }

    fn sum(&self, count: fn(&Counters) -> u64) -> u64 {
        Transport::ALL.iter().map(|&transport| count(&self.0.collector.counters(transport))).sum()
    }
}

/// Entrance for spans that the server's process has made itself.
#[derive(Clone)]
pub struct Entrance(Arc<Shared>);

impl Entrance {
    /// Passes a batch of spans of relays' sessions to the store, and counts it; blocks until the
    /// store has accepted or refused the batch.
    pub fn accept(&self, format: Format, batch: &[u8]) -> Result<AcceptedBatch, Refusal> {
        self.0.collector.accept(Transport::Relay, format, Policy::EachSpan, batch)
    }
}

impl Running {
    /// Returns the entrance for spans that this process makes itself.
    pub fn entrance(&self) -> Entrance {
        Entrance(self.shared.clone())
    }

    /// Returns a view of the server's counters and of the store's state.
    pub fn conditions(&self) -> ServerState {
        ServerState(self.shared.clone())
    }

    /// Returns the addresses that accept spans over Scribe.
    pub fn scribe(&self) -> Vec<SocketAddr> {
        self.scribe.iter().map(|running| running.address()).collect()
    }

    /// Reads the certificate, its key and the tokens again, for later connections and requests. If
    /// any file is unusable, the current certificate, key and tokens stay in use.
    pub fn reload(&self) -> Result<(), StartError> {
        self.shared.reload()
    }

    /// Stops accepting connections, and returns after open requests were answered or the time limit
    /// expired. Returns whether all requests were answered in time.
    pub fn stop(mut self) -> bool {
        self.stop.send_replace(true);
        let listeners = &mut self.listeners;
        let end = Instant::now() + STOP_TIMEOUT;
        let mut ended = self.runtime.block_on(async {
            let all = async { while listeners.join_next().await.is_some() {} };
            tokio::time::timeout(STOP_TIMEOUT, all).await.is_ok()
        });
        for mut scribe in self.scribe {
            ended &= scribe.stop(end.saturating_duration_since(Instant::now()));
        }
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        ended
    }
}

/// Returns an error if other machines can reach a listener, unless there are a certificate and
/// tokens, or trusted networks. Listeners for Scribe must be on loopback addresses in any case.
fn check_open(settings: &Settings) -> Result<(), StartError> {
    let listen = &settings.listen;
    let is_open = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
    if let Some(&address) = listen.scribe.iter().find(is_open) {
        let missing = "Scribe has neither TLS nor tokens";
        return Err(StartError::Open { address, missing });
    }
    let missing = match (&settings.tls, settings.has_tokens()) {
        _ if !settings.trusted_networks.is_empty() => return Ok(()),
        (None, _) => "there is no TLS: give --tls-cert and --tls-key",
        (_, false) => "there are no tokens: give --token-file",
        _ => return Ok(()),
    };
    let mut all = listen.web.iter().chain(&listen.otlp_http).chain(&listen.otlp_grpc);
    match all.find(is_open) {
        Some(&address) => Err(StartError::Open { address, missing }),
        None => Ok(()),
    }
}
