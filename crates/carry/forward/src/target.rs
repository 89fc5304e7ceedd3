//! Address of a relay: `net://HOST[:CONTROL_PORT[:DATA_PORT]]`, or `nets://` for TLS.

use blkkin_lttng::relay::{CONTROL_PORT, DATA_PORT};
use std::fmt;
use std::str::FromStr;

/// Address of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Set if the connections have TLS.
    pub is_secure: bool,
    /// Name or IP address of the host.
    pub host: String,
    /// Port for control connections.
    pub control_port: u16,
    /// Port for data connections.
    pub data_port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target { is_secure, host, control_port, data_port } = self;
        let scheme = if *is_secure { "nets" } else { "net" };
        match host.contains(':') {
            true => write!(f, "{scheme}://[{host}]:{control_port}:{data_port}"),
            false => write!(f, "{scheme}://{host}:{control_port}:{data_port}"),
        }
    }
}

/// Error of an address that is not a relay's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError(String);

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not of the form net://HOST[:CONTROL_PORT[:DATA_PORT]], or nets:// for TLS",
            self.0
        )
    }
}

impl std::error::Error for TargetError {}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let wrong = || TargetError(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let is_secure = match scheme {
            "net" => false,
            "nets" => true,
            _ => return Err(wrong()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, ports) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(wrong)?,
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        if host.is_empty() || host.contains('/') {
            return Err(wrong());
        }
        let (control_port, data_port) = (CONTROL_PORT, DATA_PORT);
        let mut target = Target { is_secure, host: host.to_owned(), control_port, data_port };
        if ports.is_empty() {
            return Ok(target);
        }
        let ports: Vec<&str> = ports.strip_prefix(':').ok_or_else(wrong)?.split(':').collect();
        let port = |text: &str| text.parse().map_err(|_| wrong());
        match ports[..] {
            [control] => target.control_port = port(control)?,
            [control, data] => {
                (target.control_port, target.data_port) = (port(control)?, port(data)?);
            }
            _ => return Err(wrong()),
        }
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_up_to_two_ports() {
        for (text, expected) in [
            ("net://localhost", Some(("localhost", 5342, 5343))),
            ("net://10.0.0.1:6000", Some(("10.0.0.1", 6000, 5343))),
            ("net://relay:6000:6001/", Some(("relay", 6000, 6001))),
            ("net://[::1]:1:2", Some(("::1", 1, 2))),
            ("net://[::1]", Some(("::1", 5342, 5343))),
            ("nets://relay", Some(("relay", 5342, 5343))),
            ("nets://[::1]:1:2", Some(("::1", 1, 2))),
            ("net://", None),
            ("net://a/b", None),
            ("net://a:port", None),
            ("net://a:1:2:3", None),
            ("net://a:99999", None),
            ("net://[::1", None),
            ("http://a", None),
            ("a", None),
        ] {
            let target = text.parse::<Target>().ok();
            let parts = target.as_ref().map(|it| (&*it.host, it.control_port, it.data_port));
            assert_eq!(parts, expected, "{text}");
            if let Some(target) = target {
                assert_eq!(target.is_secure, text.starts_with("nets"));
                assert_eq!(target.to_string().parse(), Ok(target));
            }
        }
    }
}
