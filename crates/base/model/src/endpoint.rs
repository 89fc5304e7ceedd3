//! Endpoints of a span: the service on each side of a call, with address and port.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Service, addresses and port of one side of a call, with the service's name borrowed. An endpoint
/// in which all values are unknown counts as absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EndpointRef<'a> {
    /// Name of the service; empty if unknown.
    pub service: &'a str,
    /// IPv4 address; `None` if unknown.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address; `None` if unknown.
    pub ipv6: Option<Ipv6Addr>,
    /// Port of the service; 0 if unknown.
    pub port: u16,
}

/// Service, addresses and port of one side of a call, with the service's name owned. An endpoint in
/// which all values are unknown counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Name of the service; empty if unknown.
    pub service: String,
    /// IPv4 address; `None` if unknown.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv6 address; `None` if unknown.
    pub ipv6: Option<Ipv6Addr>,
    /// Port of the service; 0 if unknown.
    pub port: u16,
}

impl EndpointRef<'_> {
    /// Absent endpoint: all of its values are unknown.
    pub const NONE: EndpointRef<'static> =
        EndpointRef { service: "", ipv4: None, ipv6: None, port: 0 };

    /// Returns true if all values are unknown, so that the endpoint counts as absent.
    pub const fn is_none(&self) -> bool {
        self.service.is_empty() && self.ipv4.is_none() && self.ipv6.is_none() && self.port == 0
    }

    /// Converts the endpoint to one that owns its text.
    pub fn to_owned(&self) -> Endpoint {
        let EndpointRef { service, ipv4, ipv6, port } = *self;
        Endpoint { service: service.to_owned(), ipv4, ipv6, port }
    }
}

impl Endpoint {
    /// Converts the endpoint to one that borrows its text.
    pub fn as_ref(&self) -> EndpointRef<'_> {
        let Endpoint { service, ipv4, ipv6, port } = self;
        EndpointRef { service, ipv4: *ipv4, ipv6: *ipv6, port: *port }
    }
}
