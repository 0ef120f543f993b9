//! A bare connection, which a scenario can cut where it likes.

use std::{net::SocketAddr, time::Duration};

use bytes::{Buf, Bytes, BytesMut};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::client::{Answer, Call};

/// A connection over HTTP/1.1. Dropping it closes it, as a client that leaves does.
#[derive(Debug)]
pub struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) read: BytesMut,
}

impl Connection {
    /// Connects.
    ///
    /// # Panics
    /// If nobody listens there.
    pub async fn open(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.expect("a listener");
        stream.set_nodelay(true).expect("a connected socket");
        Self {
            stream,
            read: BytesMut::new(),
        }
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// If the server has closed the connection.
    pub async fn write(&mut self, bytes: &[u8]) {
        let sent = self.stream.write_all(bytes).await;
        sent.expect("the connection is open");
    }

    /// Sends a request.
    pub async fn send(&mut self, call: &Call) {
        self.write(&call.to_bytes()).await;
    }

    /// Says that nothing more will be sent, and goes on reading.
    ///
    /// # Panics
    /// If the server has closed the connection.
    pub async fn half_close(&mut self) {
        let closed = self.stream.shutdown().await;
        closed.expect("the connection is open");
    }

    /// Leaves without a farewell: the server's next read or write fails.
    ///
    /// # Panics
    /// If the socket cannot be told so.
    pub fn reset(self) {
        self.stream.set_zero_linger().expect("a connected socket");
    }

    /// Takes one answer; `None` if the server closes the connection before the end of it.
    ///
    /// # Panics
    /// If there is none within 30 seconds, or it is not framed by a `content-length`.
    pub async fn answer(&mut self) -> Option<Answer> {
        timeout(Duration::from_secs(30), self.next())
            .await
            .expect("an answer or an end")
    }

    async fn next(&mut self) -> Option<Answer> {
        let head = loop {
            match self.read.windows(4).position(|end| end == b"\r\n\r\n") {
                Some(end) => break self.read.split_to(end + 4).freeze(),
                None => self.fill().await?,
            }
        };
        let (status, headers) = parse(&head);
        let length = headers.get("content-length");
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        let length: usize = match status {
            204 | 304 => 0,
            _ => length.expect("an answer of known length"),
        };
        while self.read.len() < length {
            self.fill().await?;
        }
        Some(Answer {
            status,
            headers,
            body: self.read.split_to(length).freeze(),
        })
    }

    pub(crate) async fn fill(&mut self) -> Option<()> {
        match self.stream.read_buf(&mut self.read).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }
}

fn parse(head: &Bytes) -> (u16, HeaderMap) {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let status = lines.next().and_then(|line| line.get(9..12));
    let status = status.and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
    let mut headers = HeaderMap::new();
    for mut line in lines.filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':');
        let name = line.split_at(colon.expect("a header line")).0;
        line.advance(name.len() + 1);
        headers.append(
            HeaderName::from_bytes(name).expect("a header name"),
            HeaderValue::from_bytes(line.trim_ascii()).expect("a header value"),
        );
    }
    (status.expect("a status line"), headers)
}
