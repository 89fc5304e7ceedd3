//! Who takes part in a span: a service, and where it listens or calls from.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A host that takes part in a span, borrowed. One of which nothing is known is as good as none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EndpointRef<'a> {
    /// The service's name; empty is unknown.
    pub service: &'a str,
    /// Its address of 32 bits.
    pub ipv4: Option<Ipv4Addr>,
    /// Its address of 128 bits.
    pub ipv6: Option<Ipv6Addr>,
    /// Its port; 0 is unknown.
    pub port: u16,
}

/// A host that takes part in a span. One of which nothing is known is as good as none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The service's name; empty is unknown.
    pub service: String,
    /// Its address of 32 bits.
    pub ipv4: Option<Ipv4Addr>,
    /// Its address of 128 bits.
    pub ipv6: Option<Ipv6Addr>,
    /// Its port; 0 is unknown.
    pub port: u16,
}

impl EndpointRef<'_> {
    /// A host of which nothing is known.
    pub const NONE: EndpointRef<'static> =
        EndpointRef { service: "", ipv4: None, ipv6: None, port: 0 };

    /// Whether nothing is known.
    pub const fn is_none(&self) -> bool {
        self.service.is_empty() && self.ipv4.is_none() && self.ipv6.is_none() && self.port == 0
    }

    /// With text of its own.
    pub fn to_owned(&self) -> Endpoint {
        let EndpointRef { service, ipv4, ipv6, port } = *self;
        Endpoint { service: service.to_owned(), ipv4, ipv6, port }
    }
}

impl Endpoint {
    /// Borrowed.
    pub fn as_ref(&self) -> EndpointRef<'_> {
        let Endpoint { service, ipv4, ipv6, port } = self;
        EndpointRef { service, ipv4: *ipv4, ipv6: *ipv6, port: *port }
    }
}
