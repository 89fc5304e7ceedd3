//! Receivers of a trigger's notices: the system's log, and web addresses.

use blkkin_http::{Server, Settings};
use std::str::FromStr;
use std::time::Duration;

/// Receiver of notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    /// The system's log.
    Syslog,
    /// A web address, which gets each notice by POST.
    Web {
        /// Scheme, host and port.
        server: String,
        /// Path and query.
        path: String,
    },
}

/// Settings for requests to web addresses.
pub(super) const SETTINGS: Settings<'_> = Settings {
    port: 80,
    token: None,
    ca: None,
    timeout: Duration::from_secs(10),
    answer_bytes_max: 1024,
};

impl FromStr for Receiver {
    type Err = String;

    fn from_str(text: &str) -> Result<Receiver, String> {
        if text == "syslog" {
            return Ok(Receiver::Syslog);
        }
        let after = text.find("://").map(|at| at + 3);
        let after = after.ok_or("neither `syslog` nor a URL with http:// or https://")?;
        let rest = text.get(after..).unwrap_or_default();
        let end = rest.find(['/', '?']).map_or(text.len(), |at| after + at);
        let (server, path) = text.split_at(end);
        Server::at(server, &SETTINGS).map_err(|why| format!("the URL {why}"))?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Receiver::Web { server: server.to_owned(), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_understood() {
        let web = |server: &str, path: &str| {
            Ok(Receiver::Web { server: server.to_owned(), path: path.to_owned() })
        };
        assert_eq!("syslog".parse(), Ok(Receiver::Syslog));
        assert_eq!("https://hooks/a?key=b".parse(), web("https://hooks", "/a?key=b"));
        assert_eq!("http://hooks:8080".parse(), web("http://hooks:8080", "/"));
        assert_eq!("http://hooks?a".parse(), web("http://hooks", "/?a"));
        for wrong in ["mail", "ftp://a", "http://", "http:///a", "http://a b/"] {
            assert!(wrong.parse::<Receiver>().is_err(), "{wrong}");
        }
    }
}
