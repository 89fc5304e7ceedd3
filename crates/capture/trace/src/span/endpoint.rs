//! Where something happens.

/// A service, and the address that it is found at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint<'a> {
    service_name: &'a str,
    ip: &'a str,
    port: i32,
}

impl<'a> Endpoint<'a> {
    /// A service at an address. A port of 0 is none.
    pub const fn new(service_name: &'a str, ip: &'a str, port: u16) -> Endpoint<'a> {
        Endpoint { service_name, ip, port: port as i32 }
    }

    /// A service of which no address is known. It is empty then: each annotation and span says it again, and
    /// blkin's "0.0.0.0" would be a tenth of what a small one takes.
    pub const fn named(service_name: &'a str) -> Endpoint<'a> {
        Endpoint::new(service_name, "", 0)
    }

    /// The service's name.
    pub const fn service_name(&self) -> &'a str {
        self.service_name
    }

    /// The address.
    pub const fn ip(&self) -> &'a str {
        self.ip
    }

    /// The port.
    pub const fn port(&self) -> i32 {
        self.port
    }
}
