//! What is shown of a request in a list. Start at [`Summary`].

use blkkin_model::TraceId;

/// A request in short.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The request.
    pub trace_id: TraceId,
    /// When its first span started.
    pub start_ns: u64,
    /// From the start of its first span to the end of its last.
    pub duration_ns: u64,
    /// The service of its root: of the first span met that has no parent, else of the earliest. Empty is unknown.
    pub service: String,
    /// The name of its root; empty is unknown.
    pub name: String,
    /// How many spans it has.
    pub spans: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Who takes part, the service with most spans first, then by name.
    pub services: Vec<ServiceSpans>,
}

/// The part of a service in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSpans {
    /// The service.
    pub service: String,
    /// How many spans it has recorded.
    pub spans: u64,
    /// How many of them failed.
    pub errors: u64,
}
