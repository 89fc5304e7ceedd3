//! Derives the endpoints of a span from its attributes.

use crate::values::address_of_text;
use blkkin_model::{EndpointRef, Kind, Origin, TagRef, ValueRef};

/// Returns the precedence of an attribute that names the remote service; 0 is the highest.
fn rank(key: &str) -> Option<u8> {
    Some(match key {
        "peer.service" => 0,
        "server.address" => 1,
        "net.peer.name" => 2,
        "network.peer.address" => 3,
        "server.socket.domain" => 4,
        "server.socket.address" => 5,
        "net.sock.peer.name" => 6,
        "net.sock.peer.addr" => 7,
        "peer.hostname" => 8,
        "peer.address" => 9,
        "db.name" => 10,
        _ => return None,
    })
}

/// Endpoint field that an attribute sets directly, without the ranking of [`rank`].
#[derive(Clone, Copy, PartialEq)]
enum EndpointField {
    LocalAddress,
    LocalPort,
    RemoteAddress,
    RemotePort,
}

fn endpoint_field(key: &str) -> Option<EndpointField> {
    Some(match key {
        "network.local.address" | "net.host.ip" => EndpointField::LocalAddress,
        "network.local.port" | "net.host.port" => EndpointField::LocalPort,
        "net.peer.ip" => EndpointField::RemoteAddress,
        "network.peer.port" | "server.socket.port" | "net.sock.peer.port" | "net.peer.port" => {
            EndpointField::RemotePort
        }
        _ => return None,
    })
}

/// Extracts endpoints from a span's own tags. The remote endpoint is only set for a client or
/// producer.
pub(crate) fn find<'t>(
    tags: &[TagRef<'t>],
    kind: Kind,
    local: &mut EndpointRef<'t>,
    remote: &mut EndpointRef<'t>,
) {
    let calls = matches!(kind, Kind::Client | Kind::Producer);
    let mut best = u8::MAX;
    for tag in tags.iter().filter(|tag| tag.origin == Origin::Span) {
        if let Some(field) = endpoint_field(tag.key) {
            match field {
                EndpointField::LocalAddress => address(tag, local),
                EndpointField::LocalPort => port(tag, local),
                EndpointField::RemoteAddress if calls => address(tag, remote),
                EndpointField::RemotePort if calls => port(tag, remote),
                EndpointField::RemoteAddress | EndpointField::RemotePort => {}
            }
        } else if let (true, Some(rank)) = (calls, rank(tag.key)) {
            name(tag, rank, &mut best, remote);
        }
    }
}

/// Sets the remote address if the tag's text is an IP address and no such address is set. Sets the
/// remote service if the tag has other text and a higher precedence than `best`.
fn name<'t>(tag: &TagRef<'t>, rank: u8, best: &mut u8, remote: &mut EndpointRef<'t>) {
    let ValueRef::Str(name) = tag.value else { return };
    let mut found = EndpointRef::NONE;
    address_of_text(name, &mut found);
    if !found.is_none() {
        remote.ipv4 = remote.ipv4.or(found.ipv4);
        remote.ipv6 = remote.ipv6.or(found.ipv6);
    } else if rank < *best && !name.is_empty() {
        *best = rank;
        remote.service = name;
    }
}

fn address(tag: &TagRef<'_>, endpoint: &mut EndpointRef<'_>) {
    if let ValueRef::Str(text) = tag.value {
        address_of_text(text, endpoint);
    }
}

fn port(tag: &TagRef<'_>, endpoint: &mut EndpointRef<'_>) {
    let number = match tag.value {
        ValueRef::Int(number) => u16::try_from(number).ok(),
        ValueRef::Str(text) => text.parse().ok(),
        _ => None,
    };
    endpoint.port = number.unwrap_or(endpoint.port);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_found_in_tags() {
        fn check(kind: Kind, tags: &[(&str, ValueRef<'_>)], local: &str, remote: &str) {
            let tags: Vec<TagRef<'_>> = tags
                .iter()
                .map(|&(key, value)| TagRef { key, value, origin: Origin::Span })
                .collect();
            let (mut here, mut there) = (EndpointRef::NONE, EndpointRef::NONE);
            find(&tags, kind, &mut here, &mut there);
            let show = |endpoint: EndpointRef<'_>| {
                let address = endpoint.ipv4.map(|it| it.to_string());
                format!("{} {} {}", endpoint.service, address.unwrap_or_default(), endpoint.port)
            };
            assert_eq!((show(here), show(there)), (local.into(), remote.into()), "{tags:?}");
        }
        use ValueRef::{Int, Str};
        check(Kind::Client, &[], "  0", "  0");
        check(Kind::Client, &[("db.name", Str("d")), ("peer.service", Str("s"))], "  0", "s  0");
        check(Kind::Server, &[("peer.service", Str("s")), ("net.peer.port", Int(1))], "  0", "  0");
        check(
            Kind::Producer,
            &[("network.peer.address", Str("1.2.3.4")), ("network.peer.port", Int(5))],
            "  0",
            " 1.2.3.4 5",
        );
        check(
            Kind::Client,
            &[("server.address", Str("1.2.3.4")), ("net.peer.name", Str("osd"))],
            "  0",
            "osd 1.2.3.4 0",
        );
        check(
            Kind::Server,
            &[("net.host.ip", Str("::1.2.3.4")), ("net.host.port", Str("80"))],
            " 1.2.3.4 80",
            "  0",
        );
        check(Kind::Server, &[("net.host.port", Int(65536))], "  0", "  0");
        check(Kind::Client, &[("peer.service", Int(1)), ("peer.address", Str(""))], "  0", "  0");
    }
}
