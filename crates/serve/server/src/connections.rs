//! Limit on connections. Start at [`Connections::admit`].
//!
//! When all slots are used, a new connection replaces the connection that has been idle for
//! longest; a connection is idle while no request on it is being processed. So clients with many
//! idle connections harm only each other.
//!
//! A connection without a slot may still answer a request that it has received, with status 503.
//! For every sixteen slots, at most one connection does so at the same time; others are closed at
//! once.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Minimum number of socket descriptors in addition to one per slot. Each listener reserves a
/// descriptor before it accepts a connection.
const SOCKETS_MIN: usize = 8;

/// Open connections of the server, with their limits.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    start: Instant,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next: AtomicU64,
    /// Number of connections that are being answered without a slot.
    farewells: AtomicUsize,
    /// Permits for socket descriptors. A connection that has lost its slot keeps its permit until
    /// the connection is closed.
    sockets: Arc<Semaphore>,
}

/// State of a connection, shared by its task and [`Connections`].
#[derive(Debug)]
pub(crate) struct Connection {
    start: Instant,
    /// Number of requests that are being processed.
    active: AtomicUsize,
    /// Time of the last activity, in milliseconds since `start`. All connections have the same
    /// `start`.
    active_ms: AtomicU64,
    /// Notification that the connection has lost its slot or never had one.
    pub(crate) leave: Notify,
    is_dismissed: AtomicBool,
}

/// Connection with its slot, if it got one. The slot is freed on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    id: u64,
    connections: Arc<Connections>,
    pub(crate) connection: Arc<Connection>,
    /// True if another connection was evicted for this slot.
    pub(crate) made_room: bool,
}

/// Permit to answer on a connection without a slot.
#[derive(Debug)]
pub(crate) struct FarewellPermit<'c>(&'c Connections);

/// Guard that counts a request as being processed until it is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<Connection>);

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Connections> {
        let max = max.max(1);
        Arc::new(Connections {
            max,
            start: Instant::now(),
            open: Mutex::default(),
            next: 0.into(),
            farewells: 0.into(),
            sockets: Arc::new(Semaphore::new(max + max / 8 + SOCKETS_MIN)),
        })
    }

    /// Waits until a socket may be opened, and returns a permit for it. Never returns `None`, as
    /// the semaphore is never closed.
    pub(crate) async fn socket(&self) -> Option<OwnedSemaphorePermit> {
        self.sockets.clone().acquire_owned().await.ok()
    }

    /// Admits a new connection. If all slots are used, the connection that has been idle for
    /// longest loses its slot. If no connection is idle, the new connection gets no slot and is
    /// returned as `Err`.
    pub(crate) fn admit(self: &Arc<Connections>) -> Result<Slot, Slot> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            start: self.start,
            active: AtomicUsize::new(0),
            active_ms: AtomicU64::new(0),
            leave: Notify::new(),
            is_dismissed: AtomicBool::new(false),
        });
        connection.touch();
        let mut slot = Slot { id, connections: self.clone(), connection, made_room: false };
        let mut open = self.open.lock();
        if open.len() >= self.max {
            // Ties within a millisecond are broken by age: the oldest connection is evicted.
            let quiet = open.iter().filter(|(_, one)| one.is_quiet());
            let quietest =
                quiet.min_by_key(|&(&id, one)| (one.active_ms.load(Ordering::Relaxed), id));
            let Some(id) = quietest.map(|(&id, _)| id) else {
                drop(open);
                slot.connection.dismiss();
                return Err(slot);
            };
            if let Some(one) = open.remove(&id) {
                one.dismiss();
            }
            slot.made_room = true;
        }
        open.insert(id, slot.connection.clone());
        drop(open);
        Ok(slot)
    }

    /// Returns a permit for a connection without a slot to answer; `None` if too many such
    /// connections are being answered already.
    pub(crate) fn farewell(&self) -> Option<FarewellPermit<'_>> {
        let farewell = FarewellPermit(self);
        let others = self.farewells.fetch_add(1, Ordering::Relaxed);
        (others < self.max.div_ceil(16)).then_some(farewell)
    }

    /// Returns the number of connections with a slot.
    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.open.lock().remove(&self.id);
    }
}

impl Drop for FarewellPermit<'_> {
    fn drop(&mut self) {
        self.0.farewells.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    fn dismiss(&self) {
        self.is_dismissed.store(true, Ordering::Relaxed);
        self.leave.notify_one();
    }

    /// Returns whether the connection has lost its slot or never had one.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_dismissed.load(Ordering::Relaxed)
    }

    /// Records activity at the current time.
    pub(crate) fn touch(&self) {
        let now = self.start.elapsed().as_millis() as u64;
        self.active_ms.store(now, Ordering::Relaxed);
    }

    /// Counts a request as being processed until the returned guard is dropped.
    pub(crate) fn begin(self: &Arc<Connection>) -> ActiveRequest {
        self.active.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self.clone())
    }

    /// Returns whether the connection had neither a request nor activity for at least `time`.
    pub(crate) fn is_idle(&self, time: Duration) -> bool {
        let touched = Duration::from_millis(self.active_ms.load(Ordering::Relaxed));
        self.is_quiet() && self.start.elapsed().saturating_sub(touched) >= time
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.touch();
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quietest_makes_room() {
        let connections = Connections::new(2);
        let first = connections.admit().expect("a place");
        let second = connections.admit().expect("a place");
        first.connection.active_ms.store(9, Ordering::Relaxed);
        second.connection.active_ms.store(5, Ordering::Relaxed);
        let third = connections.admit().expect("the second one's place");
        assert_eq!(connections.count(), 2);
        let busy = [first.connection.begin(), third.connection.begin()];
        assert!(connections.admit().is_err(), "all are busy");
        drop(second);
        assert_eq!(connections.count(), 2, "its place was gone");
        drop(busy);
        assert!(first.connection.is_idle(Duration::ZERO));
        drop(first);
        assert_eq!(connections.count(), 1);
        assert!(connections.admit().is_ok());
    }

    #[test]
    fn farewells_are_limited() {
        let connections = Connections::new(20);
        let two = [connections.farewell(), connections.farewell()];
        assert!(two.iter().all(Option::is_some));
        assert!(connections.farewell().is_none());
        drop(two);
        assert!(connections.farewell().is_some());
    }

    #[test]
    fn of_those_of_one_moment_the_first_leaves() {
        let connections = Connections::new(8);
        let places: Vec<Slot> = (0..8).map(|_| connections.admit().expect("a place")).collect();
        for slot in &places {
            slot.connection.active_ms.store(5, Ordering::Relaxed);
        }
        let _other = connections.admit().expect("the first one's place");
        let open = connections.open.lock();
        assert!(!open.contains_key(&places[0].id));
        assert!(places[1..].iter().all(|slot| open.contains_key(&slot.id)));
        // Slots lock the map when they are dropped.
        drop(open);
    }
}
