//! Notifies the service manager of a daemon's state, by systemd's protocol: a datagram to the
//! socket in the variable `NOTIFY_SOCKET`. The daemon neither waits for an answer nor depends on
//! delivery.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Message that the daemon is ready for clients.
pub const READY: &str = "READY=1";
/// Message that the daemon is shutting down.
pub const STOPPING: &str = "STOPPING=1";

/// Message that the daemon goes on, for a manager that restarts those that hang.
pub const ALIVE: &str = "WATCHDOG=1";

/// Sends a state to the service manager's socket. `to` is a path, or `@` and an abstract name.
pub fn notify(to: &OsStr, state: &str) -> io::Result<()> {
    let address = match to.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(to)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[track_caller]
    fn check(bound: &SocketAddr, name: &OsStr) {
        let socket = UnixDatagram::bind_addr(bound).unwrap();
        socket.set_nonblocking(true).unwrap();
        for state in [READY, STOPPING] {
            notify(name, state).unwrap();
            let mut told = [0; 100];
            let length = socket.recv(&mut told).unwrap();
            assert_eq!(&told[..length], state.as_bytes());
        }
    }

    #[test]
    fn sockets_of_both_kinds_are_told() {
        let folder = Scratch::new("notify");
        let path = folder.0.join("notify");
        check(&SocketAddr::from_pathname(&path).unwrap(), path.as_os_str());
        let name = format!("blkkin-notify-{}", std::process::id());
        check(&SocketAddr::from_abstract_name(&name).unwrap(), format!("@{name}").as_ref());
    }

    #[test]
    fn what_is_no_socket_is_an_error() {
        let folder = Scratch::new("notify-full");
        let full = folder.0.join("full");
        let _kept = UnixDatagram::bind(&full).unwrap();
        while notify(full.as_os_str(), READY).is_ok() {}
        assert_eq!(
            notify(full.as_os_str(), READY).unwrap_err().kind(),
            io::ErrorKind::WouldBlock,
            "a manager that does not listen must not stop the agent"
        );
        assert!(notify(folder.0.join("none").as_os_str(), READY).is_err());
        assert!(notify(OsStr::new(&"x".repeat(200)), READY).is_err());
        assert!(notify(OsStr::new(&format!("@{}", "x".repeat(200))), READY).is_err());
    }
}
