//! Searches for requests: [`Query`] and the [`Page`]s of its results.

use crate::{Condition, Summary, request_start_ns};
use blkkin_model::{SpanRef, TraceId};
use std::cmp::Ordering;
use std::ops::RangeInclusive;

/// Search for requests. A request whose spans arrived in several batches is a single result.
#[derive(Clone, Debug)]
pub struct Query {
    /// Window in which requests start; [`request_start_ns`] defines the start. Requests without any
    /// start are not found.
    pub window: Window,
    /// Conditions on spans. Each condition must hold for some span of the request, not necessarily
    /// for the same span.
    pub conditions: Vec<Condition>,
    /// Inclusive range of request durations in nanoseconds, as in [`Summary::duration_ns`].
    pub durations: RangeInclusive<u64>,
    /// Order of the results over all pages.
    pub order: Order,
    /// Maximum number of requests on the page.
    pub limit: usize,
    /// Cursor: the position of the last request of the previous page, after which the results
    /// start. `None` for the first page.
    pub after: Option<Place>,
}

/// Inclusive time window, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First nanosecond of the window.
    pub start_ns: u64,
    /// Last nanosecond of the window.
    pub end_ns: u64,
}

/// Order of requests in results. Requests of equal rank are sorted by trace id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By start of the request, latest first.
    #[default]
    Newest,
    /// By duration of the request, longest first.
    Slowest,
}

/// Position of a request in the order of results. The position of a page's last request is the
/// cursor for the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Start of the request ([`Order::Newest`]) or its duration ([`Order::Slowest`]).
    pub rank_ns: u64,
    /// Id of the request, the sort key among equal ranks.
    pub trace_id: TraceId,
}

/// One page of a query's results.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Requests in the query's order.
    pub requests: Vec<Summary>,
    /// Cursor for the next page: the position after which it starts. `None` if this is the last
    /// page.
    pub next: Option<Place>,
}

impl Window {
    /// Window that contains all times.
    pub const ALL: Window = Window { start_ns: 0, end_ns: u64::MAX };

    /// Returns whether a time is in the window, bounds included.
    #[inline]
    pub const fn holds(&self, time_ns: u64) -> bool {
        self.start_ns <= time_ns && time_ns <= self.end_ns
    }
}

impl Query {
    /// Creates a query that selects all requests, newest first, `limit` on a page.
    pub const fn new(limit: usize) -> Query {
        let (window, order, durations) = (Window::ALL, Order::Newest, 0..=u64::MAX);
        Query { window, conditions: Vec::new(), durations, order, limit, after: None }
    }

    /// Returns whether a request with these spans matches the query, regardless of its page.
    pub fn holds(&self, spans: &[SpanRef<'_>]) -> bool {
        request_start_ns(spans).is_some_and(|began| self.window.holds(began))
            && self
                .conditions
                .iter()
                .all(|condition| spans.iter().any(|span| condition.holds(span)))
            && (self.durations == (0..=u64::MAX)
                || Summary::of(spans).is_some_and(|it| self.durations.contains(&it.duration_ns)))
    }

    /// Returns the positions of this page's requests in order, and the cursor for the next page, or
    /// `None` after the last page. `places` are the positions of all matching requests, in any
    /// order.
    pub fn page(&self, mut places: Vec<Place>) -> (Vec<Place>, Option<Place>) {
        if let Some(after) = &self.after {
            places.retain(|place| self.order.compare(after, place).is_lt());
        }
        places.sort_by(|one, other| self.order.compare(one, other));
        let has_more = places.len() > self.limit;
        places.truncate(self.limit);
        let next = places.last().copied().or(self.after).filter(|_| has_more);
        (places, next)
    }
}

impl Order {
    /// Returns the position of a request with this start and duration in this order of results.
    pub const fn place(self, trace_id: TraceId, began_ns: u64, duration_ns: u64) -> Place {
        let rank_ns = match self {
            Order::Newest => began_ns,
            Order::Slowest => duration_ns,
        };
        Place { rank_ns, trace_id }
    }

    /// Compares two positions in this order of results.
    pub fn compare(self, one: &Place, other: &Place) -> Ordering {
        other.rank_ns.cmp(&one.rank_ns).then(one.trace_id.cmp(&other.trace_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(rank_ns: u64, id: u128) -> Place {
        Place { rank_ns, trace_id: TraceId::from_number(id).expect("not 0") }
    }

    #[test]
    fn pages_follow_each_other() {
        let all = [(5, 1), (9, 4), (9, 3), (0, 7), (u64::MAX, 9), (9, 1 << 64 | 3)];
        let ordered = [(u64::MAX, 9), (9, 3), (9, 4), (9, 1 << 64 | 3), (5, 1), (0, 7)];
        let places = |all: &[(u64, u128)]| -> Vec<Place> {
            all.iter().map(|&(rank, id)| place(rank, id)).collect()
        };
        for order in [Order::Newest, Order::Slowest] {
            for limit in 1..8 {
                let mut query = Query { order, ..Query::new(limit) };
                let mut seen = Vec::new();
                loop {
                    let (page, next) = query.page(places(&all));
                    assert!(page.len() == limit || next.is_none());
                    seen.extend(page);
                    query.after = next;
                    if next.is_none() {
                        break;
                    }
                }
                assert_eq!(seen, places(&ordered));
            }
        }
        // The cursor need not be the place of an existing request.
        let query = Query { after: Some(place(9, 5)), ..Query::new(2) };
        assert_eq!(query.page(places(&all)), (places(&ordered[3..5]), Some(place(5, 1))));
        let query = Query { after: Some(place(0, 7)), ..Query::new(2) };
        assert_eq!(query.page(places(&all)), (vec![], None));
        assert_eq!(Query::new(0).page(places(&all)), (vec![], None));
        assert_eq!(Query::new(usize::MAX).page(places(&all)), (places(&ordered), None));
    }

    #[test]
    fn ranks_are_what_the_order_wants() {
        let id = TraceId::from_number(1).expect("not 0");
        assert_eq!(Order::Newest.place(id, 7, 8), place(7, 1));
        assert_eq!(Order::Slowest.place(id, 7, 8), place(8, 1));
    }
}
