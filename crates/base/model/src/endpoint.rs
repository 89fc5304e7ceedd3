//! Endpoints of a span: the service on each side of a call, with address and port.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Host that takes part in a span, with its name borrowed. An endpoint without any value counts as
/// absent.
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

/// Host that takes part in a span. An endpoint without any value counts as absent.
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
    /// Endpoint without any value, which counts as absent.
    pub const NONE: EndpointRef<'static> =
        EndpointRef { service: "", ipv4: None, ipv6: None, port: 0 };

    /// Returns true if the endpoint has no value and so counts as absent.
    pub const fn is_none(&self) -> bool {
        self.service.is_empty() && self.ipv4.is_none() && self.ipv6.is_none() && self.port == 0
    }

    /// Copies the endpoint with its text.
    pub fn to_owned(&self) -> Endpoint {
        let EndpointRef { service, ipv4, ipv6, port } = *self;
        Endpoint { service: service.to_owned(), ipv4, ipv6, port }
    }
}

impl Endpoint {
    /// Returns a reference form of the endpoint, which borrows its text.
    pub fn as_ref(&self) -> EndpointRef<'_> {
        let Endpoint { service, ipv4, ipv6, port } = self;
        EndpointRef { service, ipv4: *ipv4, ipv6: *ipv6, port: *port }
    }
}
