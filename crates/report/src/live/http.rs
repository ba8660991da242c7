//! As much of HTTP as one page needs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

/// A request's head is not read further than this.
pub const HEAD: u64 = 16 * 1024;
/// How long a client may take to ask, and to read.
pub const PATIENCE: Duration = Duration::from_secs(10);

const COMMON: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n";

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Before the question mark.
    pub path: String,
    /// After it.
    pub query: String,
    /// The header `Host`.
    pub host: String,
}

impl Request {
    /// Reads a request; nothing if it is none that is answered.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn read(stream: &TcpStream) -> io::Result<Option<Self>> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut lines = BufReader::new(stream.take(HEAD));
        let mut head = String::new();
        loop {
            let before = head.len();
            match lines.read_line(&mut head) {
                Ok(0) => return Ok(None),
                Ok(_) if head[before..].trim_end().is_empty() => return Ok(Self::parse(&head)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    fn parse(head: &str) -> Option<Self> {
        let mut lines = head.lines();
        let mut words = lines.next()?.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if method != "GET" || !version.starts_with("HTTP/1.") || !target.starts_with('/') {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let host = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
        });
        Some(Self { path: path.to_owned(), query: query.to_owned(), host: host? })
    }

    /// Whether whoever asks may have an answer: with the token, or if there is none by having asked
    /// for this very machine.
    #[must_use]
    pub fn is_allowed(&self, token: Option<&str>) -> bool {
        match token {
            None => is_loopback(&self.host),
            Some(token) => {
                let given = self.query.split('&').filter_map(|pair| pair.strip_prefix("token="));
                given.fold(false, |found, given| found | same(given.as_bytes(), token.as_bytes()))
            }
        }
    }
}

/// Compares in a time that does not depend on where texts differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Answers and closes.
///
/// # Errors
/// When the connection breaks.
pub fn answer(mut stream: &TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{COMMON}\r\n")?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}

/// The head of a stream of events.
#[must_use]
pub fn events_head() -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{COMMON}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &str, host: &str) -> Request {
        Request::parse(&format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n")).expect("a request")
    }

    #[test]
    fn only_this_machine_or_the_token() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.1.2.3", "[::1]:80"] {
            assert!(request("/", host).is_allowed(None), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]", "localhost.evil.example"]
        {
            assert!(!request("/", host).is_allowed(None), "{host}");
        }
        assert!(request("/?token=secret", "evil.example").is_allowed(Some("secret")));
        for target in
            ["/", "/?token=", "/?token=secre", "/?token=secret1", "/?xtoken=secret", "/token=secret"]
        {
            assert!(!request(target, "localhost").is_allowed(Some("secret")), "{target}");
        }
    }

    #[test]
    fn what_is_no_request_is_none() {
        for head in [
            "",
            "GET\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\n",
            "GET / HTTP/2\r\nHost: a\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\n",
            "GET / HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(Request::parse(head), None, "{head:?}");
        }
    }
}
