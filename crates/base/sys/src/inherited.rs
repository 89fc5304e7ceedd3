//! Listening sockets that the service manager has opened and passed to this daemon, by systemd's
//! protocol: the variables `LISTEN_PID` and `LISTEN_FDS`, and descriptors from 3 on. So connections
//! wait while the daemon is started or restarted.

use rustix::fs::fcntl_getfl;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{SocketAddrUnix, getsockname};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Sockets that were passed and are not in use yet.
static SOCKETS: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// Number of the first descriptor that is passed.
const FIRST: i32 = 3;
/// Maximum number of sockets.
const SOCKETS_MAX: i32 = 64;

/// Keeps the sockets that were passed to this process, so that its children do not get them, for
/// [`listen_tcp`] and [`Listener::inherited`](crate::socket::Listener::inherited). Returns their
/// number. To be called once, before the process opens files.
pub fn keep_inherited_sockets() -> usize {
    let number = |name| std::env::var(name).ok()?.parse::<i32>().ok();
    let is_own = number("LISTEN_PID").is_some_and(|pid| pid as u32 == std::process::id());
    let count = number("LISTEN_FDS").filter(|_| is_own).unwrap_or(0).clamp(0, SOCKETS_MAX);
    let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    if !sockets.is_empty() {
        return sockets.len();
    }
    for number in FIRST..FIRST + count {
        // SAFETY: the descriptor is only looked at, and closed ones are refused by the kernel.
        #[expect(unsafe_code)]
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        if fcntl_getfl(borrowed).is_err() || fcntl_setfd(borrowed, FdFlags::CLOEXEC).is_err() {
            continue;
        }
        // SAFETY: the service manager has passed this open descriptor to this process for its use,
        // as the variables with the process's own id say, and the list above was empty, so that
        // nothing owns it yet.
        #[expect(unsafe_code)]
        sockets.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    sockets.len()
}

/// Takes the first kept socket that listens and meets a condition.
fn take(is_wanted: impl Fn(&OwnedFd) -> bool) -> Option<OwnedFd> {
    let mut sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = sockets
        .iter()
        .position(|socket| socket_acceptconn(socket).unwrap_or(false) && is_wanted(socket))?;
    Some(sockets.swap_remove(at))
}

/// Takes the kept socket that listens at a path.
pub(crate) fn take_unix(path: &Path) -> Option<OwnedFd> {
    let wanted = SocketAddrUnix::new(path).ok()?;
    take(|socket| {
        let own = getsockname(socket).and_then(SocketAddrUnix::try_from);
        own.is_ok_and(|own| own.path_bytes() == wanted.path_bytes())
    })
}

/// Listens at an address: with the kept socket that has this address, or else with a new one.
pub fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let is_wanted = |socket: &OwnedFd| {
        let own = getsockname(socket).and_then(SocketAddr::try_from);
        own.is_ok_and(|own| own == address)
    };
    match take(is_wanted) {
        Some(socket) => {
            let listener = TcpListener::from(socket);
            listener.set_nonblocking(false)?;
            Ok(listener)
        }
        None => TcpListener::bind(address),
    }
}

/// Returns descriptions of the kept sockets that nobody has taken: the daemon listens elsewhere.
pub fn unused_inherited_sockets() -> Vec<String> {
    let sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    let address = |socket: &OwnedFd| {
        let address = getsockname(socket).ok()?;
        if let Ok(address) = SocketAddr::try_from(address.clone()) {
            return Some(address.to_string());
        }
        let unix = SocketAddrUnix::try_from(address).ok()?;
        Some(String::from_utf8_lossy(unix.path_bytes()?).into_owned())
    };
    sockets.iter().map(|socket| address(socket).unwrap_or_else(|| "unknown".to_owned())).collect()
}
