//! The client of the scenarios: real requests, answers taken whole.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use reqwest::{
    Method,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;

use crate::script::Script;

/// What a request is sent over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Http1, Self::Http2];

    /// A client that speaks this one only.
    ///
    /// # Panics
    /// If there is none to be had.
    pub fn client(self) -> reqwest::Client {
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        let client = match self {
            Self::Http1 => client.http1_only(),
            Self::Http2 => client.http2_prior_knowledge(),
        };
        client.build().expect("a client")
    }
}

/// A request to be sent.
#[derive(Debug, Clone)]
#[must_use]
pub struct Call {
    client: reqwest::Client,
    url: String,
    method: Method,
    headers: HeaderMap,
    body: Option<Bytes>,
}

impl Call {
    /// A request by `ada`.
    ///
    /// # Panics
    /// If the method is none.
    pub fn new(client: reqwest::Client, addr: SocketAddr, method: &str, path: &str) -> Self {
        let method = method.parse().expect("a method");
        let url = format!("http://{addr}{path}");
        Self {
            client,
            url,
            method,
            headers: HeaderMap::new(),
            body: None,
        }
        .user("ada")
    }

    /// Authenticates as this user instead of as `ada`.
    pub fn user(self, name: &str) -> Self {
        self.set("authorization", format!("Bearer {name}"))
    }

    /// Authenticates as a guest.
    pub fn guest(self) -> Self {
        self.set("authorization", "Anonymous")
    }

    /// Does not authenticate.
    pub fn nobody(mut self) -> Self {
        self.headers.remove("authorization");
        self
    }

    /// Sends this key.
    pub fn key(self, key: impl AsRef<[u8]>) -> Self {
        self.set("idempotency-key", key)
    }

    /// Sets a header.
    ///
    /// # Panics
    /// If it is none.
    pub fn set(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let (name, value) = line(name, value.as_ref());
        self.headers.insert(name, value);
        self
    }

    /// Adds a header line.
    ///
    /// # Panics
    /// If it is none.
    pub fn add(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let (name, value) = line(name, value.as_ref());
        self.headers.append(name, value);
        self
    }

    /// Sends it over this protocol, on a connection of its own.
    pub fn over(mut self, protocol: Protocol) -> Self {
        self.client = protocol.client();
        self
    }

    /// Tells the handler what to do.
    pub fn script(self, script: &Script) -> Self {
        let body = serde_json::to_vec(script).expect("a script is JSON");
        self.json(body)
    }

    /// Sends this body as JSON.
    pub fn json(self, body: impl Into<Bytes>) -> Self {
        self.set("content-type", "application/json").body(body)
    }

    /// Sends this body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// The request as HTTP/1.1 writes it, for a bare connection.
    ///
    /// # Panics
    /// If its address is none.
    pub fn to_bytes(&self) -> Vec<u8> {
        let url = self.url.strip_prefix("http://").expect("made by `new`");
        let (host, path) = url.split_at(url.find('/').expect("a path"));
        let body = self.body.clone().unwrap_or_default();
        let length = body.len();
        let mut bytes = format!(
            "{} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n",
            self.method
        )
        .into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&body);
        bytes
    }

    /// The same with further header lines, each with its end, which may be anything.
    ///
    /// # Panics
    /// If its address is none.
    pub fn to_bytes_with(&self, lines: impl AsRef<[u8]>) -> Vec<u8> {
        let mut bytes = self.to_bytes();
        let end = bytes.windows(2).position(|end| end == b"\r\n");
        let head = end.expect("the end of the request line") + 2;
        bytes.splice(head..head, lines.as_ref().iter().copied());
        bytes
    }

    /// Sends these chunks and then breaks off.
    ///
    /// # Errors
    /// What the client said, which is what is to be expected.
    pub async fn break_off(self, chunks: Vec<Bytes>) -> Result<Answer, reqwest::Error> {
        let chunks = chunks.into_iter().map(Ok);
        let broken = std::iter::once(Err(std::io::Error::other("the client broke off")));
        let body = reqwest::Body::wrap_stream(stream::iter(chunks.chain(broken)));
        take(self.request().body(body).send().await?).await
    }

    /// Sends the request and takes the whole answer.
    ///
    /// # Panics
    /// If there is none within 30 seconds.
    pub async fn send(self) -> Answer {
        self.try_send().await.expect("an answer")
    }

    /// Sends the request; an error if the connection ends before the answer.
    ///
    /// # Errors
    /// What the client said.
    pub async fn try_send(self) -> Result<Answer, reqwest::Error> {
        take(self.open().await?).await
    }

    /// Sends the request and gives the response as soon as its head is there.
    ///
    /// # Errors
    /// What the client said.
    pub async fn open(self) -> Result<reqwest::Response, reqwest::Error> {
        let mut request = self.request();
        if let Some(body) = self.body {
            request = request.body(body);
        }
        request.send().await
    }

    fn request(&self) -> reqwest::RequestBuilder {
        self.client
            .request(self.method.clone(), &self.url)
            .headers(self.headers.clone())
            .timeout(Duration::from_secs(30))
    }
}

/// Takes the whole answer.
async fn take(response: reqwest::Response) -> Result<Answer, reqwest::Error> {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(Answer {
        status,
        headers,
        body: response.bytes().await?,
    })
}

fn line(name: &str, value: &[u8]) -> (HeaderName, HeaderValue) {
    (
        name.parse().expect("a header name"),
        HeaderValue::from_bytes(value).expect("a header value"),
    )
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The header's value, if there is exactly one.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        assert!(values.next().is_none(), "{name} is repeated");
        value.to_str().ok()
    }

    /// All values of a header, in order.
    pub fn all(&self, name: &str) -> Vec<&[u8]> {
        self.headers
            .get_all(name)
            .iter()
            .map(HeaderValue::as_bytes)
            .collect()
    }

    /// Whether it is marked as a replay.
    pub fn replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}", self.body.escape_ascii()))
    }

    /// The code of a problem document, which must be a proper one.
    ///
    /// # Panics
    /// If it is none.
    pub fn code(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        assert_eq!(self.header("cache-control"), Some("no-store"));
        let problem = self.json();
        let code = problem["code"].as_str().expect("a code").to_owned();
        assert_eq!(problem["status"], self.status);
        assert!(
            problem["type"]
                .as_str()
                .is_some_and(|uri| uri.ends_with(&format!("/{code}")))
        );
        let retry_after = self
            .header("retry-after")
            .map(|seconds| seconds.parse::<u64>().ok());
        assert_eq!(problem["retryable"], retry_after.is_some(), "{code}");
        if let Some(seconds) = retry_after {
            assert!(
                seconds.is_some_and(|seconds| (1..=30).contains(&seconds)),
                "{seconds:?}"
            );
            assert_eq!(problem["retry_after"].as_u64(), seconds);
        }
        code
    }

    /// Fails unless this is a refusal of this status and code.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn assert_refused(&self, status: u16, code: &str) {
        assert_eq!(
            (self.status, self.code().as_str()),
            (status, code),
            "{self:?}"
        );
        assert!(!self.replayed());
    }

    /// Fails unless this replays `first`: same status and bytes, and marked.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn assert_replays(&self, first: &Answer) {
        assert!(self.replayed(), "not marked: {self:?}");
        assert!(!first.replayed(), "the first answer is marked: {first:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
    }
}
