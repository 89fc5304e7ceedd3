//! All connections, of which there may be so many. Start at [`Connections::enter`].
//!
//! Where there is no room for another one, the one that has been quiet for longest makes some: a connection is quiet
//! while no request on it is under way. So those who open many and say nothing hurt only each other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// All connections of the server.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    start: Instant,
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next: AtomicU64,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    start: Instant,
    /// Requests that are under way.
    active: AtomicUsize,
    /// When something last happened that was asked for, in milliseconds since `start`.
    stirred_ms: AtomicU64,
    /// Somebody else needs its place.
    pub(crate) leave: Notify,
}

/// A place among the connections, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    id: u64,
    connections: Arc<Connections>,
    pub(crate) connection: Arc<Connection>,
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Underway(Arc<Connection>);

impl Connections {
    pub(crate) fn new(max: usize) -> Arc<Connections> {
        let start = Instant::now();
        Arc::new(Connections { max: max.max(1), start, open: Mutex::default(), next: 0.into() })
    }

    /// Lets a connection in. Who has to leave for it is told; if nobody can, there is no place.
    pub(crate) fn enter(self: &Arc<Connections>) -> Option<Place> {
        let mut open = self.lock();
        if open.len() >= self.max {
            // Of those of one millisecond, the one that came first.
            let quiet = open.iter().filter(|(_, one)| one.is_quiet());
            let (&id, _) =
                quiet.min_by_key(|&(&id, one)| (one.stirred_ms.load(Ordering::Relaxed), id))?;
            if let Some(one) = open.remove(&id) {
                one.leave.notify_one();
            }
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection {
            start: self.start,
            active: AtomicUsize::new(0),
            stirred_ms: AtomicU64::new(0),
            leave: Notify::new(),
        });
        connection.stir();
        open.insert(id, connection.clone());
        Some(Place { id, connections: self.clone(), connection })
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

impl Connection {
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

    fn is_quiet(&self) -> bool {
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
        assert!(connections.enter().is_none(), "all are busy");
        drop(second);
        assert_eq!(connections.count(), 2, "its place was gone");
        drop(busy);
        assert!(first.connection.is_idle(Duration::ZERO));
        drop(first);
        assert_eq!(connections.count(), 1);
        assert!(connections.enter().is_some());
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
