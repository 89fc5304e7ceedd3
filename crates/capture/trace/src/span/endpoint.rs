//! Endpoint of a span or annotation: service, address and port.

/// Endpoint of one side of a call: service name, IP address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint<'a> {
    service_name: &'a str,
    ip: &'a str,
    port: i32,
}

impl<'a> Endpoint<'a> {
    /// Returns the endpoint of a service at an address. Port 0 means that there is no port.
    pub const fn new(service_name: &'a str, ip: &'a str, port: u16) -> Endpoint<'a> {
        Endpoint { service_name, ip, port: port as i32 }
    }

    /// Returns the endpoint of a service without a known address. The address is empty: each
    /// annotation and span repeats it, and blkin's "0.0.0.0" would be a tenth of a small
    /// annotation.
    pub const fn named(service_name: &'a str) -> Endpoint<'a> {
        Endpoint::new(service_name, "", 0)
    }

    /// Returns the service's name.
    pub const fn service_name(&self) -> &'a str {
        self.service_name
    }

    /// Returns the IP address; empty if it is unknown.
    pub const fn ip(&self) -> &'a str {
        self.ip
    }

    /// Returns the port; 0 if it is unknown.
    pub const fn port(&self) -> i32 {
        self.port
    }
}
