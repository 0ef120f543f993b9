//! A bare connection that takes answers apart as they are framed, for what a proper client hides:
//! half a request, the framing of an answer, its trailers.

use std::{fmt::Write, time::Duration};

use tokio::{io::AsyncWriteExt, time::timeout};

use crate::connection::Connection;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer as it was framed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Framed {
    /// The status.
    pub status: u16,
    /// The header lines, in order; names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// The trailer lines, in order.
    pub trailers: Vec<(String, String)>,
}

impl Framed {
    /// The value of a header that must not be repeated.
    ///
    /// # Panics
    /// If it is.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let (_, value) = values.next()?;
        assert!(values.next().is_none(), "{name} is repeated: {self:?}");
        Some(value)
    }

    /// The answer without these headers.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.headers
            .retain(|(name, _)| !names.contains(&name.as_str()));
        self
    }
}

impl Connection {
    /// Sends the head of a POST by `ada`, with these headers too.
    pub async fn head(&mut self, path: &str, headers: &[(&str, &str)]) {
        let mut head =
            format!("POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer ada\r\n");
        for (name, value) in headers {
            // Writing to a string does not fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        self.write(head.as_bytes()).await;
    }

    /// Sends one chunk of a body in chunks; an empty one is the last.
    pub async fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let size = format!("{:x}\r\n", bytes.len());
        self.write(&[size.as_bytes(), bytes, b"\r\n"].concat())
            .await;
    }

    /// Takes a whole answer.
    ///
    /// # Panics
    /// If none comes, or it breaks off, or its framing contradicts itself.
    pub async fn framed(&mut self) -> Framed {
        let mut answer = self.take_head().await;
        let coding = answer.header("transfer-encoding");
        let length = answer.header("content-length");
        match (coding, length) {
            (Some(coding), None) => {
                assert_eq!(coding, "chunked");
                loop {
                    let chunk = self.take_chunk().await;
                    if chunk.is_empty() {
                        break;
                    }
                    answer.body.extend_from_slice(&chunk);
                }
                answer.trailers = self.lines().await;
            }
            (None, Some(length)) => {
                let length = length.parse().expect("a length");
                answer.body = self.exactly(length).await;
            }
            (None, None) => {
                let bodiless = matches!(answer.status, 100..=199 | 204 | 304);
                assert!(bodiless, "its length is unknown: {answer:?}");
            }
            (Some(_), Some(_)) => panic!("its length is said twice: {answer:?}"),
        }
        answer
    }

    /// Takes the head of an answer.
    ///
    /// # Panics
    /// If none comes.
    pub async fn take_head(&mut self) -> Framed {
        let line = self.line().await;
        let status = line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .unwrap_or_else(|| panic!("not a status line: {line:?}"));
        Framed {
            status,
            headers: self.lines().await,
            ..Framed::default()
        }
    }

    /// Takes one chunk; an empty one is the last.
    ///
    /// # Panics
    /// If none comes, or it is not as long as it says.
    pub async fn take_chunk(&mut self) -> Vec<u8> {
        let line = self.line().await;
        let length = usize::from_str_radix(&line, 16)
            .unwrap_or_else(|error| panic!("{error}: not the length of a chunk: {line:?}"));
        if length == 0 {
            return Vec::new();
        }
        let chunk = self.exactly(length).await;
        assert_eq!(self.line().await, "", "a chunk is longer than it says");
        chunk
    }

    /// Says that nothing more is coming, and takes all that the server sends until it closes the
    /// connection too.
    ///
    /// # Panics
    /// If it does not close it.
    pub async fn hang_up(mut self) -> Vec<u8> {
        // The server may have closed it already.
        let _ = self.stream.shutdown().await;
        self.rest().await
    }

    /// Takes all that the server sends until it closes the connection.
    ///
    /// # Panics
    /// If it does not close it.
    pub async fn rest(mut self) -> Vec<u8> {
        let closed = timeout(PATIENCE, async { while self.fill().await.is_some() {} });
        closed.await.expect("the server closes the connection");
        self.read.to_vec()
    }

    async fn lines(&mut self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        loop {
            let line = self.line().await;
            if line.is_empty() {
                return lines;
            }
            let (name, value) = line.split_once(':').expect("a header line");
            lines.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    async fn line(&mut self) -> String {
        let end = loop {
            match self.read.windows(2).position(|end| end == b"\r\n") {
                Some(end) => break end,
                None => self.more().await,
            }
        };
        let line = self.exactly(end + 2).await;
        String::from_utf8_lossy(&line[..end]).into_owned()
    }

    async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.read.len() < length {
            self.more().await;
        }
        self.read.split_to(length).to_vec()
    }

    async fn more(&mut self) {
        let more = timeout(PATIENCE, self.fill()).await;
        more.expect("an answer in time")
            .expect("the answer goes on");
    }
}
