//! Requests written byte by byte, for what no client would send.

use std::net::SocketAddr;

use reqwest::header::{HeaderName, HeaderValue};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Duration, timeout},
};

use crate::{client::Answer, script::Script, world::World};

/// The bytes of a POST by `ada` over HTTP/1.1. `lines` are further header lines, each with the
/// end of its line.
pub fn post(path: &str, lines: impl AsRef<[u8]>, script: &Script) -> Vec<u8> {
    let body = serde_json::to_vec(script).expect("a script is JSON");
    let length = body.len();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: Bearer ada\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n"
    )
    .into_bytes();
    request.extend_from_slice(lines.as_ref());
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(&body);
    request
}

/// An answer as it came over the wire, on a connection that the server then closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawAnswer {
    /// The status.
    pub status: u16,
    /// The header lines in order, their names as they were sent.
    pub lines: Vec<(String, Vec<u8>)>,
    /// What followed the empty line.
    pub body: Vec<u8>,
}

impl World {
    /// Sends these bytes on a connection of their own and takes what comes until the server
    /// closes it, so a request should ask for that: `Connection: close`.
    ///
    /// # Panics
    /// If it does not close, or sends no answer.
    pub async fn raw(&self, request: impl AsRef<[u8]>) -> RawAnswer {
        let exchange = exchange(self.addr, request.as_ref());
        let bytes = timeout(Duration::from_secs(30), exchange).await;
        let bytes = bytes.expect("the server closes the connection");
        RawAnswer::parse(&bytes)
    }
}

async fn exchange(addr: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(addr).await.expect("the server listens");
    stream.write_all(request).await.expect("the server reads");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("an answer");
    bytes
}

impl RawAnswer {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head in {}", bytes.escape_ascii()));
        let mut lines = bytes[..end]
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii);
        let status = lines.next().expect("a status line");
        let status = String::from_utf8_lossy(status);
        let status = status.split(' ').nth(1).expect("a status").parse();
        let lines = lines.map(|line| {
            let colon = line
                .iter()
                .position(|byte| *byte == b':')
                .expect("a header line");
            let name = String::from_utf8_lossy(&line[..colon]).into_owned();
            (name, line[colon + 1..].trim_ascii().to_vec())
        });
        Self {
            status: status.expect("a number"),
            lines: lines.collect(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    /// The values of a header, in order.
    pub fn all(&self, name: &str) -> Vec<&[u8]> {
        let named = |line: &&(String, Vec<u8>)| line.0.eq_ignore_ascii_case(name);
        self.lines
            .iter()
            .filter(named)
            .map(|line| &*line.1)
            .collect()
    }

    /// The header lines but those of these names.
    #[must_use]
    pub fn without(&self, names: &[&str]) -> Vec<(&str, &[u8])> {
        let lines = self
            .lines
            .iter()
            .map(|(name, value)| (name.as_str(), &**value));
        lines
            .filter(|(name, _)| !names.iter().any(|other| other.eq_ignore_ascii_case(name)))
            .collect()
    }
}

/// The answer as the client of the other scenarios gives it.
impl From<RawAnswer> for Answer {
    fn from(raw: RawAnswer) -> Self {
        let lines = raw.lines.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().expect("a header name");
            (
                name,
                HeaderValue::from_bytes(value).expect("a header value"),
            )
        });
        Self {
            status: raw.status,
            headers: lines.collect(),
            body: raw.body.into(),
        }
    }
}
