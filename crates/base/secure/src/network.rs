//! Networks of IP addresses, whose hosts may connect.

use std::net::IpAddr;
use std::str::FromStr;

/// Network of IP addresses, given by an address and a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    /// Returns whether an address is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let shift = |bits: u32| bits - self.prefix;
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).checked_shr(shift(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
        let wrong = || "not a network, such as 10.0.0.0/8 or fd00::/8".to_owned();
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match text.contains('/') {
            true => prefix.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(wrong)?,
            false => bits,
        };
        Ok(Network { address, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    #[test]
    fn networks_contain_their_addresses() {
        fn check(network: &str, inside: &[&str], outside: &[&str]) {
            let network: Network = network.parse().expect(network);
            let contains = |text: &&str| network.contains(text.parse().expect("an address"));
            assert!(inside.iter().all(contains), "{network:?} {inside:?}");
            assert!(!outside.iter().any(contains), "{network:?} {outside:?}");
        }
        check(
            "10.0.0.0/8",
            &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"],
            &["11.0.0.0", "::"],
        );
        check("10.1.2.3/15", &["10.0.0.1", "10.1.255.255"], &["10.2.0.0"]);
        check("10.1.2.3", &["10.1.2.3"], &["10.1.2.2"]);
        check("10.1.2.3/32", &["10.1.2.3"], &["10.1.2.2"]);
        check("0.0.0.0/0", &["1.2.3.4", "255.255.255.255"], &["::1"]);
        check("fd00::/8", &["fdff::1"], &["fe00::", "10.0.0.1"]);
        check("::/0", &["::1", "ffff::"], &["1.2.3.4"]);
        for wrong in
            ["", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "::/129", "10.0.0/8", "a/8"]
        {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
