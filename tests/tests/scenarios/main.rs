//! The scenarios: a real listener, a real client, every framework and store.
#![forbid(unsafe_code)]

mod answers;
mod associated;
mod attempts;
mod body;
mod concurrency;
mod expiry;
mod fingerprint;
mod forms;
mod framing;
mod interruption;
mod keys;
mod layers;
mod limits;
mod lookup;
mod methods;
mod on_actix;
mod panics;
mod privacy;
mod refusals;
mod scope;
mod settlement;
mod shutdown;
mod spans;
mod streams;
mod takeover;
mod wait;
