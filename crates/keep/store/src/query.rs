//! The search for requests. Start at [`Query`].

use crate::{Condition, Summary};
use blkkin_model::TraceId;

/// Asks for requests. A request that was kept in parts counts as one.
#[derive(Clone, Debug)]
pub struct Query {
    /// When the request began, which is when the first span met without a parent started, else the earliest of all. A
    /// request of which no span has a start is not found.
    pub window: Window,
    /// Each must hold for one of the request's spans; not for the same one.
    pub conditions: Vec<Condition>,
    /// In which order they come.
    pub order: Order,
    /// How many at most.
    pub limit: usize,
    /// Behind which request of an earlier answer.
    pub after: Option<Place>,
}

/// From when to when, in nanoseconds since 1970, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first.
    pub start_ns: u64,
    /// The last.
    pub end_ns: u64,
}

/// An order of requests. Requests that are alike come in the order of their ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The ones that began last first.
    #[default]
    Newest,
    /// The ones that took longest first.
    Slowest,
}

/// The place of a request in an order: what an answer ends with, and the next one starts behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// When it began, or how long it took, as the order wants it.
    pub rank_ns: u64,
    /// The request.
    pub trace_id: TraceId,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Requests, in order.
    pub requests: Vec<Summary>,
    /// Behind which there are more; `None` if there are not.
    pub next: Option<Place>,
}

impl Window {
    /// All times.
    pub const ALL: Window = Window { start_ns: 0, end_ns: u64::MAX };

    /// Whether a time is in it.
    #[inline]
    pub const fn holds(&self, time_ns: u64) -> bool {
        self.start_ns <= time_ns && time_ns <= self.end_ns
    }
}
