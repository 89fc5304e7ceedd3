//! Text of socket addresses, from the bytes of a `sockaddr`, and of sockets without an address.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum size of a socket address in bytes, the kernel's `sockaddr_storage`.
pub(crate) const ADDRESS_SIZE_MAX: usize = 128;

const AF_UNSPEC: u16 = 0;
const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const AF_NETLINK: u16 = 16;
const AF_PACKET: u16 = 17;
const AF_VSOCK: u16 = 40;

/// Returns an address as text: `127.0.0.1:80`, `[::1]:80`, `unix:/path`, `unix:@abstract`, `unix`
/// (without a name), `netlink`, `packet`, `vsock:CID:PORT`. Returns `None` if the bytes are too few
/// or the family is unknown.
pub(crate) fn text(address: &[u8]) -> Option<String> {
    let mut family = u16::from_le_bytes(*address.first_chunk()?);
    // The bytes are in the order of the traced machine, and families are small numbers.
    let is_swapped = family > 0xff;
    if is_swapped {
        family = family.swap_bytes();
    }
    let body = &address[2..];
    match family {
        AF_UNSPEC => None,
        AF_UNIX => Some(unix(body)),
        AF_INET => {
            let (port, host) = (*body.first_chunk()?, *body.get(2..)?.first_chunk::<4>()?);
            Some(format!("{}:{}", Ipv4Addr::from(host), u16::from_be_bytes(port)))
        }
        AF_INET6 => {
            let (port, host) = (*body.first_chunk()?, *body.get(6..)?.first_chunk::<16>()?);
            let scope = body.get(22..).and_then(|scope| scope.first_chunk()).copied();
            let scope = scope.map_or(0, |scope| number(scope, is_swapped));
            let (host, port) = (Ipv6Addr::from(host), u16::from_be_bytes(port));
            match scope {
                0 => Some(format!("[{host}]:{port}")),
                scope => Some(format!("[{host}%{scope}]:{port}")),
            }
        }
        AF_NETLINK => Some("netlink".to_owned()),
        AF_PACKET => Some("packet".to_owned()),
        AF_VSOCK => {
            let (port, cid) = (*body.get(2..)?.first_chunk()?, *body.get(6..)?.first_chunk()?);
            Some(format!("vsock:{}:{}", number(cid, is_swapped), number(port, is_swapped)))
        }
        _ => None,
    }
}

/// Start of the paths of sockets without an address, here and in `/proc`.
const SOCKET: &str = "socket:";

/// Returns the path of a socket that is neither connected nor bound: `socket:inet`, or with the
/// number of a family without a name.
pub(crate) fn socket(family: i32) -> String {
    let name = match u16::try_from(family) {
        Ok(AF_UNIX) => "unix",
        Ok(AF_INET) => "inet",
        Ok(AF_INET6) => "inet6",
        Ok(AF_NETLINK) => "netlink",
        Ok(AF_PACKET) => "packet",
        _ => return format!("{SOCKET}{family}"),
    };
    format!("{SOCKET}{name}")
}

/// Returns true if a path describes a socket without an address.
pub(crate) fn is_socket(path: &str) -> bool {
    path.starts_with(SOCKET)
}

/// Returns the number that four bytes encode in the order of the traced machine.
fn number(bytes: [u8; 4], is_swapped: bool) -> u32 {
    if is_swapped { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

fn unix(body: &[u8]) -> String {
    let used = body.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let body = &body[..used];
    match body {
        [] => "unix".to_owned(),
        // A zero within an abstract name is shown as `@`, as `ss` does.
        [0, name @ ..] => format!("unix:@{}", String::from_utf8_lossy(name).replace('\0', "@")),
        _ => {
            let end = body.iter().position(|byte| *byte == 0).unwrap_or(used);
            format!("unix:{}", String::from_utf8_lossy(&body[..end]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |bytes: &[u8], expected: Option<&str>| {
            assert_eq!(text(bytes).as_deref(), expected, "{bytes:?}");
        };
        let inet6 = |last: u8, scope: u8| {
            let mut bytes = vec![10, 0, 0x1f, 0x90, 0, 0, 0, 0];
            bytes.extend([0; 15]);
            bytes.extend([last, scope, 0, 0, 0]);
            bytes
        };
        check(&[2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], Some("127.0.0.1:80"));
        check(&[2, 0, 0, 80, 127, 0, 0, 1], Some("127.0.0.1:80"));
        check(&[0, 2, 0, 80, 127, 0, 0, 1], Some("127.0.0.1:80"));
        check(&[2, 0, 0, 80, 127, 0, 0], None);
        check(&inet6(1, 0), Some("[::1]:8080"));
        check(&inet6(1, 3), Some("[::1%3]:8080"));
        check(&inet6(1, 0)[..24], Some("[::1]:8080"));
        check(&inet6(1, 0)[..23], None);
        check(b"\x01\0/run/x\0garbage\0", Some("unix:/run/x"));
        check(b"\x01\0\0name\0\0\0", Some("unix:@name"));
        check(b"\x01\0\0a\0b", Some("unix:@a@b"));
        check(b"\x01\0\xff", Some("unix:\u{fffd}"));
        check(b"\x01\0", Some("unix"));
        check(&[1, 0, 0, 0, 0], Some("unix"));
        check(&[16, 0], Some("netlink"));
        check(&[17, 0], Some("packet"));
        check(&[40, 0, 0, 0, 1, 2, 0, 0, 3, 0, 0, 0], Some("vsock:3:513"));
        check(&[40, 0, 0, 0, 1], None);
        check(&[0, 0, 1, 2, 3, 4, 5, 6], None);
        check(&[99, 0, 1, 2], None);
        check(&[2], None);
        check(&[], None);
    }
}
