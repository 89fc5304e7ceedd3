//! All connections, of which there may be so many. Start at [`Connections::enter`].
//!
//! Where there is no room for another one, the one that has been quiet for longest makes some: a connection is quiet
//! while no request on it is under way. So those who open many and say nothing hurt only each other.
//!
//! A connection that has to leave, or finds no place, may still answer the request that it has received: with 503. At
//! most a sixteenth of all connections do so at the same time, the others are closed at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Sockets beside those that have a place, however few places there are: each listener has one in advance.
const SOCKETS_MIN: usize = 8;

/// All connections of the server.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    start: Instant,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next: AtomicU64,
    /// Connections without a place that are being answered.
    farewells: AtomicUsize,
    /// Descriptors of connections, also of those that have lost their place and are being closed.
    sockets: Arc<Semaphore>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    start: Instant,
    /// Requests that are under way.
    active: AtomicUsize,
    /// When something last happened that was asked for, in milliseconds since `start`.
    stirred_ms: AtomicU64,
    /// Another connection has its place.
    pub(crate) leave: Notify,
    is_leaving: AtomicBool,
}

/// A place among the connections, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    id: u64,
    connections: Arc<Connections>,
    pub(crate) connection: Arc<Connection>,
    /// Whether another connection had to leave for this one.
    pub(crate) made_room: bool,
}

/// The permission to answer on a connection without a place.
#[derive(Debug)]
pub(crate) struct Farewell<'c>(&'c Connections);

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Underway(Arc<Connection>);

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

    /// Waits until there may be one more socket, which is as long as it takes to close others. `None` never happens:
    /// the semaphore is not closed.
    pub(crate) async fn socket(&self) -> Option<OwnedSemaphorePermit> {
        self.sockets.clone().acquire_owned().await.ok()
    }

    /// Admits a connection, and has the quietest one leave if there is no place left. `Err` is a connection without a
    /// place: all others are busy.
    pub(crate) fn enter(self: &Arc<Connections>) -> Result<Place, Place> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            start: self.start,
            active: AtomicUsize::new(0),
            stirred_ms: AtomicU64::new(0),
            leave: Notify::new(),
            is_leaving: AtomicBool::new(false),
        });
        connection.stir();
        let mut place = Place { id, connections: self.clone(), connection, made_room: false };
        let mut open = self.lock();
        if open.len() >= self.max {
            // Of those of one millisecond, the one that came first.
            let quiet = open.iter().filter(|(_, one)| one.is_quiet());
            let quietest =
                quiet.min_by_key(|&(&id, one)| (one.stirred_ms.load(Ordering::Relaxed), id));
            let Some(id) = quietest.map(|(&id, _)| id) else {
                drop(open);
                place.connection.dismiss();
                return Err(place);
            };
            if let Some(one) = open.remove(&id) {
                one.dismiss();
            }
            place.made_room = true;
        }
        open.insert(id, place.connection.clone());
        drop(open);
        Ok(place)
    }

    /// Permits a connection without a place to answer, unless too many do so already.
    pub(crate) fn farewell(&self) -> Option<Farewell<'_>> {
        let farewell = Farewell(self);
        let others = self.farewells.fetch_add(1, Ordering::Relaxed);
        (others < self.max.div_ceil(16)).then_some(farewell)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Nobody leaves the map half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.id);
    }
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        self.0.farewells.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connection {
    fn dismiss(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
        self.leave.notify_one();
    }

    /// Whether the connection has no place (any more).
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Something happens that was asked for.
    pub(crate) fn stir(&self) {
        let now = self.start.elapsed().as_millis() as u64;
        self.stirred_ms.store(now, Ordering::Relaxed);
    }

    /// A request begins.
    pub(crate) fn begin(self: &Arc<Connection>) -> Underway {
        self.active.fetch_add(1, Ordering::Relaxed);
        Underway(self.clone())
    }

    /// Whether nothing has happened for so long.
    pub(crate) fn is_idle(&self, time: Duration) -> bool {
        let stirred = Duration::from_millis(self.stirred_ms.load(Ordering::Relaxed));
        self.is_quiet() && self.start.elapsed().saturating_sub(stirred) >= time
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.stir();
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quietest_makes_room() {
        let connections = Connections::new(2);
        let first = connections.enter().expect("a place");
        let second = connections.enter().expect("a place");
        first.connection.stirred_ms.store(9, Ordering::Relaxed);
        second.connection.stirred_ms.store(5, Ordering::Relaxed);
        let third = connections.enter().expect("the second one's place");
        assert_eq!(connections.count(), 2);
        let busy = [first.connection.begin(), third.connection.begin()];
        assert!(connections.enter().is_err(), "all are busy");
        drop(second);
        assert_eq!(connections.count(), 2, "its place was gone");
        drop(busy);
        assert!(first.connection.is_idle(Duration::ZERO));
        drop(first);
        assert_eq!(connections.count(), 1);
        assert!(connections.enter().is_ok());
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
        let places: Vec<Place> = (0..8).map(|_| connections.enter().expect("a place")).collect();
        for place in &places {
            place.connection.stirred_ms.store(5, Ordering::Relaxed);
        }
        let _other = connections.enter().expect("the first one's place");
        let open = connections.lock();
        assert!(!open.contains_key(&places[0].id));
        assert!(places[1..].iter().all(|place| open.contains_key(&place.id)));
        // Places need the map when they are dropped.
        drop(open);
    }
}
