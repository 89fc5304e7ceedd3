//! User-supplied headers for each request. They contain keys and passwords, so they are never
//! displayed. Answers of the destination may repeat them, so they are redacted from answers.

use crate::error::Error;
use hyper::http::{HeaderName, HeaderValue};
use std::fmt;

/// Headers with secret values.
#[derive(Clone, Default)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

/// Maximum size of a list of headers, in bytes.
const BYTES_MAX: usize = 64 << 10;

/// Minimum length of a redacted word, in bytes. Redacting shorter words would garble messages
/// without protecting a secret.
const SECRET_BYTES_MIN: usize = 6;

/// Header names that are reserved for the exporter; users must not set these headers.
const RESERVED: [&str; 7] = [
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "te",
    "connection",
];

impl Headers {
    /// Parses lines such as `Authorization: Bearer …`. Empty lines and lines that begin with `#`
    /// are ignored.
    pub fn parse(text: &str) -> Result<Headers, Error> {
        if text.len() > BYTES_MAX {
            return Err(Error::Headers("too long for a list of headers".to_owned()));
        }
        let mut headers = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            headers.push(
                header(line).map_err(|why| Error::Headers(format!("line {}: {why}", index + 1)))?,
            );
        }
        Ok(Headers(headers))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// Replaces header values, and the words in them, by `***` if they have at least
    /// [`SECRET_BYTES_MIN`] bytes.
    pub(crate) fn redact(&self, text: &str) -> String {
        // `to_str` would refuse letters beyond ASCII.
        let values = self.0.iter().filter_map(|(_, value)| str::from_utf8(value.as_bytes()).ok());
        let mut words: Vec<&str> = values
            .flat_map(|value| std::iter::once(value).chain(value.split([' ', ',', ';', '=', ':'])))
            .filter(|word| word.len() >= SECRET_BYTES_MIN)
            .collect();
        // Longer words first, as they may contain shorter words.
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words.iter().fold(text.to_owned(), |text, word| text.replace(word, "***"))
    }
}

fn header(line: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let (name, value) = line.split_once(':').ok_or("not a header, such as `Name: value`")?;
    let name: HeaderName = name.trim().parse().map_err(|_| "not the name of a header")?;
    if RESERVED.contains(&name.as_str()) {
        return Err("a header that is not to be chosen");
    }
    let mut value: HeaderValue = value.trim().parse().map_err(|_| "not the value of a header")?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Formats only the number of headers, never their values.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Headers({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::Headers;

    #[test]
    fn secrets_stay() {
        let headers = Headers::parse("# ours\n\nAuthorization: Bearer sesame-open\nX-Key: k\n")
            .expect("headers");
        assert_eq!(headers.iter().count(), 2);
        assert_eq!(format!("{headers:?}"), "Headers(2)");
        let found = headers.redact("no `Bearer sesame-open`, nor sesame-open: key k");
        assert_eq!(found, "no `***`, nor ***: key k");
        let foreign = Headers::parse("X-Key: sésame-ouvre-toi").expect("headers");
        assert_eq!(foreign.redact("key sésame-ouvre-toi"), "key ***");
    }

    #[test]
    fn what_is_no_header_is_refused_without_being_shown() {
        for (text, expected) in [
            ("sesame-open", "line 1: not a header"),
            ("\nses ame: open", "line 2: not the name of a header"),
            ("a: sesame\u{1}", "line 1: not the value"),
            ("Host: sesame", "line 1: a header that is not to be chosen"),
            (&"a: sesame\n".repeat(10_000), "too long"),
        ] {
            let error = Headers::parse(text).expect_err("an error");
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(expected) && !shown.contains("sesame"), "{shown}");
        }
    }
}
