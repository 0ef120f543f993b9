//! Making attempts until it is known what became of an operation, or the time is over.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use backon::{BackoffBuilder, ExponentialBuilder};
use idem_examples::{
    journal::{Operation, State},
    retry::{Answer, Earlier, Next, Response, after},
    settings::ClientSettings,
};
use jiff::Timestamp;
use reqwest::{
    Client,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap},
    redirect::Policy,
};
use tokio::time::sleep;

/// The longest pause that the client makes on its own, without its random part. The last attempt is
/// then never long before the end.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The requests of one caller.
pub(crate) struct Attempts {
    client: Client,
    pause: Duration,
    give_up_after: Duration,
    repeat_within: Duration,
}

impl Attempts {
    pub(crate) fn new(settings: &ClientSettings) -> reqwest::Result<Self> {
        let headers = [(AUTHORIZATION, settings.authorization.clone())];
        let client = Client::builder()
            .default_headers(HeaderMap::from_iter(headers))
            // A request to another place is another request.
            .redirect(Policy::none())
            .timeout(settings.timeout)
            .build()?;
        Ok(Self {
            client,
            pause: settings.pause,
            give_up_after: settings.give_up_after,
            repeat_within: settings.repeat_within,
        })
    }

    /// Repeats the request of `operation` until it has an answer that counts. Returns how it ended.
    ///
    /// # Cancel safety
    /// Cancel safe: it may be called again, with [`Earlier::Sent`].
    pub(crate) async fn make(&self, operation: &Operation, mut earlier: Earlier) -> State {
        let limit = self.limit(operation);
        if limit.is_zero() {
            let answer = "too old to be repeated".to_owned();
            return State::Unknown { answer };
        }
        let began = Instant::now();
        let mut pauses = self.pauses();
        loop {
            let answer = self.attempt(operation).await;
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            match after(&answer, earlier, pause) {
                // No attempt begins after the limit, so there is nothing to wait for.
                Next::Again { pause } if pause >= limit.saturating_sub(began.elapsed()) => {
                    return unknown(&answer);
                }
                Next::Again { pause } => {
                    eprintln!("{}: {answer}; again in {pause:.1?}", operation.name);
                    earlier = earlier.then(&answer);
                    sleep(pause).await;
                }
                Next::Done(response) => {
                    return State::Done {
                        status: response.status.as_u16(),
                        replayed: response.replayed,
                        body: response.body.clone(),
                    };
                }
                Next::Refused(response) => {
                    return State::Refused {
                        answer: answer.to_string(),
                        body: response.body.clone(),
                    };
                }
                Next::Unknown => return unknown(&answer),
            }
        }
    }

    /// For how long attempts are begun: zero once the server may have forgotten the outcome.
    fn limit(&self, operation: &Operation) -> Duration {
        let age = operation.age(Timestamp::now());
        let left = self.repeat_within.saturating_sub(age);
        self.give_up_after.min(left)
    }

    /// 1 s, 2 s, 4 s and so on, each with a random part of up to its own length, so that clients of a
    /// server that was down do not all come back at once.
    fn pauses(&self) -> impl Iterator<Item = Duration> {
        ExponentialBuilder::new()
            .with_min_delay(self.pause)
            .with_max_delay(LONGEST_PAUSE)
            .without_max_times()
            .with_jitter()
            .build()
    }

    async fn attempt(&self, operation: &Operation) -> Answer {
        let request = self.client.post(&operation.request.url);
        let request = request
            .header("idempotency-key", operation.key.to_string())
            .header(CONTENT_TYPE, "application/json")
            .body(operation.request.body.clone());
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Answer::Unreachable(cause(&error)),
            Err(error) => return Answer::Lost(cause(&error)),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        match response.text().await {
            Ok(body) => Answer::Response(Response::read(status, &headers, body, Timestamp::now())),
            // Half an answer is none: the recorded one is whole.
            Err(error) => Answer::Lost(cause(&error)),
        }
    }
}

fn unknown(answer: &Answer) -> State {
    State::Unknown {
        answer: answer.to_string(),
    }
}

/// The innermost cause, such as "Connection refused".
fn cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
