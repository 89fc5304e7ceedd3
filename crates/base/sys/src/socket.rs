//! Stream sockets between processes of one machine. They can pass descriptors, and the kernel
//! reports the peer's identity. Sockets do not block, unless they are converted from a blocking
//! descriptor: a call that would block returns [`io::ErrorKind::WouldBlock`].

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Maximum number of descriptors sent with one call.
pub const DESCRIPTORS_MAX: usize = 16;
/// Maximum number of descriptors received with one call: the kernel's own limit (`SCM_MAX_FD`). A
/// receiver's buffer must have room for all of them, because the kernel closes excess descriptors
/// within the call. Such a close can block on the sender.
const RECEIVED_MAX: usize = 253;

/// Maximum number of supplementary groups of a process: the kernel's own limit.
const GROUPS_MAX: usize = 1 << 16;
const SO_PEERPIDFD: i32 = 77;

/// One end of a connection between two processes.
#[derive(Debug)]
pub struct Socket(OwnedFd);

/// Identity of the peer's process when it connected, or when it began to listen if the peer is the
/// listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Process id in this process's PID namespace; 0 if that namespace does not contain the peer.
    pub pid: u32,
    /// Effective user id of the peer.
    pub uid: u32,
    /// Effective group id of the peer.
    pub gid: u32,
}

/// Socket on which an agent or another server accepts connections.
#[derive(Debug)]
pub struct Listener(OwnedFd);

const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

impl Socket {
    /// Connects to the listener at `path` without waiting.
    pub fn connect(path: &Path) -> io::Result<Socket> {
        let address = SocketAddrUnix::new(path)?;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        rustix::net::connect(&socket, &address)?;
        Ok(Socket(socket))
    }

    /// Sends as many bytes as fit into the socket's buffer. All descriptors are passed with the
    /// first byte. Returns the number of bytes sent.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        let fits =
            descriptors.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        if !fits {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = SendFlags::NOSIGNAL;
        Ok(rustix::net::sendmsg(&self.0, &[IoSlice::new(bytes)], &mut ancillary, flags)?)
    }

    /// Receives bytes, and appends the descriptors passed with them to `descriptors`. Returns the
    /// number of bytes; 0 if the peer has closed the connection.
    pub fn receive(&self, bytes: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RECEIVED_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let mut parts = [IoSliceMut::new(bytes)];
        let received = rustix::net::recvmsg(&self.0, &mut parts, &mut ancillary, flags)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Ok(received.bytes)
    }

    /// Returns the identity of the peer, which the kernel recorded when the peer connected or began
    /// to listen.
    pub fn peer(&self) -> io::Result<Peer> {
        // `rustix` is not used here, because its process ids exclude 0: the id of a peer outside of
        // this PID namespace.
        let mut room = [0; 3];
        let [pid, uid, gid] = self.option(libc::SO_PEERCRED, &mut room)? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        Ok(Peer { pid: *pid, uid: *uid, gid: *gid })
    }

    /// Returns the supplementary groups that the peer had when it connected or began to listen;
    /// `None` if the kernel cannot report them (before Linux 4.13).
    pub fn peer_groups(&self) -> io::Result<Option<Vec<u32>>> {
        let mut groups = vec![0; GROUPS_MAX];
        match self.option(libc::SO_PEERGROUPS, &mut groups).map(<[u32]>::len) {
            Ok(count) => {
                groups.truncate(count);
                Ok(Some(groups))
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the connected process has certainly ended. Its id may then belong to another
    /// process, and other processes may still have the connection open. Always returns false with
    /// kernels before Linux 6.5.
    pub fn peer_has_ended(&self) -> bool {
        let mut number = [0];
        let process = match self.option(SO_PEERPIDFD, &mut number) {
            // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
            #[expect(unsafe_code)]
            Ok(_) => unsafe { OwnedFd::from_raw_fd(number[0] as i32) },
            // With other errors, as at the descriptor limit, the state of the process is unknown.
            Err(error) => return matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)),
        };
        // The descriptor is readable once the process has ended.
        let mut ready = [PollFd::new(&process, PollFlags::IN)];
        rustix::event::poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0)
    }

    /// Reads a socket option into the buffer `room`. Returns the part of the buffer that the kernel
    /// has written.
    fn option<'r>(&self, option: i32, room: &'r mut [u32]) -> io::Result<&'r [u32]> {
        let mut size = size_of_val(room) as libc::socklen_t;
        // SAFETY: the kernel writes at most `size` bytes to `room`, which has that many.
        #[expect(unsafe_code)]
        let result = unsafe {
            let into = room.as_mut_ptr().cast();
            libc::getsockopt(self.0.as_raw_fd(), libc::SOL_SOCKET, option, into, &raw mut size)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(&room[..room.len().min(size as usize / size_of::<u32>())])
    }
}

impl From<OwnedFd> for Socket {
    fn from(descriptor: OwnedFd) -> Socket {
        Socket(descriptor)
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> OwnedFd {
        socket.0
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener {
    /// Starts to listen at `path`. Fails if a file exists there.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let address = SocketAddrUnix::new(path)?;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
        rustix::net::bind(&socket, &address)?;
        rustix::net::listen(&socket, 1024)?;
        Ok(Listener(socket))
    }

    /// Takes the socket that the service manager has opened at `path` for this process, if it has.
    pub fn inherited(path: &Path) -> Option<Listener> {
        let socket = crate::inherited::take_unix(path)?;
        rustix::io::ioctl_fionbio(&socket, true).ok()?;
        Some(Listener(socket))
    }

    /// Accepts the next pending connection.
    pub fn accept(&self) -> io::Result<Socket> {
        Ok(Socket(rustix::net::accept_with(&self.0, FLAGS)?))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Closes a descriptor of any kind. A socket that lingers is closed in the background. The close
/// may still block for other causes, such as a file system in user space.
pub fn close_at_once(descriptor: OwnedFd) {
    // Other files do not have this option, and are not affected.
    let _ = rustix::net::sockopt::set_socket_linger(&descriptor, None);
    drop(descriptor);
}

/// Sends as many bytes as fit into the buffer of a borrowed socket, without waiting.
pub fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) {
    let _ = rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::io::Write;

    #[test]
    fn bytes_descriptors_and_credentials_arrive() {
        let path = std::env::temp_dir().join(format!("blkkin-socket-{}", std::process::id()));
        let listener = Listener::bind(&path).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let ours = Socket::connect(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let theirs = listener.accept().unwrap();
        assert_eq!(theirs.peer().unwrap().pid, std::process::id());
        assert!(!theirs.peer_has_ended());
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let own = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
        let own: Vec<u32> = own.split_whitespace().map(|group| group.parse().unwrap()).collect();
        assert_eq!(theirs.peer_groups().unwrap(), Some(own));
        let (mut reads, mut writes) = std::io::pipe().unwrap();
        assert_eq!(ours.send(b"hello", &[reads.as_fd(), writes.as_fd()]).unwrap(), 5);
        let (mut bytes, mut descriptors) = ([0; 9], Vec::new());
        assert_eq!(theirs.receive(&mut bytes, &mut descriptors).unwrap(), 5);
        assert_eq!(&bytes[..5], b"hello");
        let sent = File::from(descriptors.pop().unwrap());
        writes.write_all(b"1").unwrap();
        (&sent).write_all(b"2").unwrap();
        let mut found = [0; 2];
        reads.read_exact(&mut found).unwrap();
        assert_eq!(&found, b"12");
        assert_eq!(descriptors.len(), 1);
        let nothing = theirs.receive(&mut bytes, &mut descriptors).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(ours);
        assert_eq!(theirs.receive(&mut bytes, &mut descriptors).unwrap(), 0);
        assert!(theirs.send(b"x", &[]).is_err());
    }

    /// The reported groups are the peer's groups at its connect, however many there are.
    #[test]
    fn groups_are_those_of_the_moment_of_connecting() {
        let path = std::env::temp_dir().join(format!("blkkin-groups-{}", std::process::id()));
        let listener = Listener::bind(&path).unwrap();
        let ours = Socket::connect(&path).unwrap();
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
        let own: Vec<u32> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert_eq!(listener.accept().unwrap().peer_groups().unwrap(), Some(own));
        drop(ours);
        // Only root can choose groups; the call changes them for a single thread.
        if crate::user_id() == 0 {
            for count in [0, 1, 32, 33, 1000] {
                let wanted: Vec<u32> = (0..count).map(|number| 70_000 + number).collect();
                let (groups, path) = (wanted.clone(), &path);
                let connected = move || {
                    // SAFETY: the slice has that many groups; the call affects this thread only.
                    #[expect(unsafe_code)]
                    let set = |groups: &[u32]| unsafe {
                        libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr())
                    };
                    assert_eq!(set(&groups), 0);
                    let connected = Socket::connect(path).unwrap();
                    assert_eq!(set(&[]), 0);
                    connected
                };
                let _ours = std::thread::scope(|scope| scope.spawn(connected).join().unwrap());
                let found = listener.accept().unwrap().peer_groups().unwrap();
                assert_eq!(found, Some(wanted));
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
