//! URLs of relays and their sessions, in the notation of babeltrace2:
//! `net://HOST[:PORT][/host/NAME/SESSION]`, or `nets://` for TLS.

use blkkin_lttng::viewer::PORT;
use std::fmt;
use std::str::FromStr;

/// URL of a relay, or of a session that a relay holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Set if the connection has TLS.
    pub is_secure: bool,
    /// Addresses that may be used.
    pub family: Family,
    /// Name or address of the relay's machine, without brackets.
    pub host: String,
    /// Port for viewers.
    pub port: u16,
    /// Session; `None` for all sessions of the relay.
    pub session: Option<SessionName>,
}

/// Name of a session at a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionName {
    /// Name of the traced machine.
    pub host: String,
    /// Name of the session on that machine.
    pub session: String,
}

/// Kind of addresses that a URL permits, by its scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `net`, `nets`: any.
    Any,
    /// `net4`, `nets4`: IPv4.
    V4,
    /// `net6`, `nets6`: IPv6.
    V6,
}

impl Family {
    fn scheme(self, is_secure: bool) -> &'static str {
        match (self, is_secure) {
            (Family::Any, false) => "net",
            (Family::V4, false) => "net4",
            (Family::V6, false) => "net6",
            (Family::Any, true) => "nets",
            (Family::V4, true) => "nets4",
            (Family::V6, true) => "nets6",
        }
    }
}

/// Error of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError {
    /// The URL.
    pub url: String,
    /// Part of a URL that this one does not have.
    pub reason: &'static str,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no URL of a relay: {}", self.url, self.reason)
    }
}

impl std::error::Error for UrlError {}

impl Url {
    /// Returns true if the text has the scheme of a URL, and is no path.
    pub fn is_url(text: &str) -> bool {
        split_scheme(text).is_some()
    }

    /// Returns the URL of a session of the same relay.
    pub fn with_session(&self, host: &str, session: &str) -> Url {
        let name = SessionName { host: host.to_owned(), session: session.to_owned() };
        Url { session: Some(name), ..self.clone() }
    }

    /// Returns the URL of the relay, without a session.
    pub fn relay(&self) -> Url {
        Url { session: None, ..self.clone() }
    }
}

fn split_scheme(text: &str) -> Option<(Family, bool, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let families = [Family::Any, Family::V4, Family::V6];
    let mut kinds = families.into_iter().flat_map(|family| [(family, false), (family, true)]);
    let (family, is_secure) =
        kinds.find(|(family, is_secure)| family.scheme(*is_secure) == scheme)?;
    Some((family, is_secure, rest))
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Url, UrlError> {
        let refuse = |reason: &'static str| UrlError { url: text.to_owned(), reason };
        let (family, is_secure, rest) =
            split_scheme(text).ok_or(refuse("it starts with `net://` or `nets://`"))?;
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                bracketed.split_once(']').ok_or(refuse("`]` is missing after the IPv6 address"))?
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        if host.is_empty() {
            return Err(refuse("the relay's host is missing"));
        }
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port != 0),
            None => Some(PORT).filter(|_| port.is_empty()),
        };
        let is_bare_v6 = !authority.starts_with('[') && authority.matches(':').count() > 1;
        let port = port.ok_or(refuse(match is_bare_v6 {
            true => "an IPv6 address is in brackets: `net://[::1]`",
            false => "the port is a number from 1 to 65535",
        }))?;
        let session = match path.trim_matches('/') {
            "" => None,
            path => {
                let name = path.strip_prefix("host/").and_then(|path| path.split_once('/'));
                let is_name =
                    |text: &str| !text.is_empty() && !text.contains('/') && !text.contains('\0');
                let (host, session) = name
                    .filter(|(host, session)| is_name(host) && is_name(session))
                    .ok_or(refuse("the path is `/host/NAME/SESSION`"))?;
                Some(SessionName { host: host.to_owned(), session: session.to_owned() })
            }
        };
        Ok(Url { is_secure, family, host: host.to_owned(), port, session })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.family.scheme(self.is_secure))?;
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        if self.port != PORT {
            write!(f, ":{}", self.port)?;
        }
        match &self.session {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host/{}/{}", self.host, self.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_print_as_they_parse() {
        for text in [
            "net://localhost",
            "net4://10.0.0.1:80",
            "net6://[::1]:5345",
            "nets://relay/host/node-1/web",
            "nets4://10.0.0.1",
            "nets6://[::1]:5345",
            "net://[fe80::1%eth0]",
            "net://relay/host/node-1/web",
            "net://relay:99/host/n/auto-20261128-130857",
        ] {
            let url: Url = text.parse().expect(text);
            assert_eq!(url.to_string(), text);
        }
        let url: Url = "net://relay:5344/host/node/web/".parse().expect("a URL");
        assert_eq!(url.to_string(), "net://relay/host/node/web");
        assert_eq!(url.relay().to_string(), "net://relay");
        assert_eq!((url.port, url.session.map(|name| name.session)), (5344, Some("web".into())));
        assert_eq!("net://relay/".parse::<Url>().expect("a URL").session, None);
    }

    #[test]
    fn errors_say_what_is_expected() {
        for (text, part) in [
            ("relay", "starts with `net://`"),
            ("http://relay", "starts with `net://`"),
            ("net://", "host is missing"),
            ("net://:5344", "host is missing"),
            ("net://relay:0", "1 to 65535"),
            ("net://relay:x", "1 to 65535"),
            ("net://relay:65536", "1 to 65535"),
            ("net://::1", "host is missing"),
            ("net://fe80::1", "in brackets"),
            ("net://[::1", "`]` is missing"),
            ("net://[::1]5", "1 to 65535"),
            ("net://relay/web", "/host/NAME/SESSION"),
            ("net://relay/host/node", "/host/NAME/SESSION"),
            ("net://relay/host/node/a/b", "/host/NAME/SESSION"),
            ("net://relay/host//web", "/host/NAME/SESSION"),
        ] {
            let error = text.parse::<Url>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(Url::is_url("net6://x") && !Url::is_url("net:/x") && !Url::is_url("./net4://x"));
    }
}
