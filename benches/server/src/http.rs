//! Minimal HTTP/1.1 client for the servers of the bench, over one persistent connection with
//! pipelined requests. Start at [`Connection`].

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Timeout of connecting to an address, and of each read and write.
const PATIENCE: Duration = Duration::from_secs(120);

/// Number of buffered bytes above which an incomplete answer is an error.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A persistent connection to a server, with the bytes that were received ahead.
pub(crate) struct Connection {
    stream: TcpStream,
    host: String,
    buffer: Vec<u8>,
}

/// A server's answer to one request: status and body.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(host: &str) -> io::Result<Connection> {
        let mut failure = io::Error::other("no such host");
        for address in host.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(Connection { stream, host: host.to_owned(), buffer: Vec::new() });
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Reads the answer to the oldest request that is not answered yet.
    pub(crate) fn answer(&mut self) -> io::Result<Answer> {
        loop {
            if let Some((answer, size)) = read(&self.buffer)? {
                self.take(size);
                return Ok(answer);
            }
            self.more()?;
        }
    }

    /// Reads exactly `size` bytes.
    pub(crate) fn exactly(&mut self, size: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < size {
            self.more()?;
        }
        let bytes = self.buffer[..size].to_vec();
        self.take(size);
        Ok(bytes)
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<Answer> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        self.send(request.as_bytes())?;
        self.answer()
    }

    fn take(&mut self, size: usize) {
        self.buffer.drain(..size);
    }

    fn more(&mut self) -> io::Result<()> {
        let before = self.buffer.len();
        if before > ANSWER_BYTES_MAX {
            return Err(io::Error::other("answer without an end"));
        }
        self.buffer.resize(before + before.clamp(16 << 10, 1 << 20), 0);
        let read = self.stream.read(&mut self.buffer[before..]);
        self.buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up")),
            other => other.map(drop),
        }
    }
}

/// Parses the answer at the start of `bytes`. Returns the answer and its size in bytes, or `None`
/// if the answer is incomplete.
fn read(bytes: &[u8]) -> io::Result<Option<(Answer, usize)>> {
    let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what.to_owned()));
    let Some(head_len) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&bytes[..head_len]);
    let mut lines = head.split("\r\n");
    let Some(status) = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()) else {
        return wrong("not an answer of HTTP");
    };
    let start = head_len + 4;
    let header = |name: &str| {
        lines.clone().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    if header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        return chunked(&bytes[start..])
            .map(|found| found.map(|(body, size)| (Answer { status, body }, start + size)));
    }
    let len = match header("content-length").map(|value| value.parse::<usize>()) {
        Some(Ok(len)) => len,
        None if status == 204 || status == 304 => 0,
        _ => return wrong("an answer that does not say how long it is"),
    };
    let body = start.checked_add(len).and_then(|end| Some((bytes.get(start..end)?.to_vec(), end)));
    Ok(body.map(|(body, end)| (Answer { status, body }, end)))
}

fn chunked(bytes: &[u8]) -> io::Result<Option<(Vec<u8>, usize)>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "not a chunk");
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let Some(line_len) = bytes[at..].windows(2).position(|two| two == b"\r\n") else {
            return Ok(None);
        };
        let line = std::str::from_utf8(&bytes[at..at + line_len]).map_err(|_| wrong())?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| wrong())?;
        let start = at + line_len + 2;
        let end = start.checked_add(size).and_then(|end| end.checked_add(2)).ok_or_else(wrong)?;
        let Some(chunk) = bytes.get(start..end) else { return Ok(None) };
        body.extend_from_slice(&chunk[..size]);
        at = end;
        if size == 0 {
            return Ok(Some((body, at)));
        }
    }
}

/// Returns the percent-encoded text, for use in a part of a URL.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(byte.into());
            }
            _ => escaped += &format!("%{byte:02X}"),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_when_they_are_whole() {
        let check = |text: &str, status: u16, body: &str, behind: usize| {
            let whole = text.len() - behind;
            let expected = Answer { status, body: body.as_bytes().to_vec() };
            assert_eq!(read(text.as_bytes()).expect("good"), Some((expected, whole)), "{text}");
            for short in 0..whole {
                assert_eq!(read(&text.as_bytes()[..short]).expect("good"), None, "{short}");
            }
        };
        check("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, "", 0);
        check("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]HTTP/1.1 2", 200, "[]", 10);
        check(
            "HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n",
            503,
            "abcd",
            0,
        );
        assert!(read(b"hello\r\n\r\n").is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n").is_err());
    }

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(escape("a == \"b\" && é"), "a%20%3D%3D%20%22b%22%20%26%26%20%C3%A9");
    }
}
