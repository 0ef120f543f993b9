//! Renewing leases, many in one go.

use std::{future::Future, time::Duration};

use futures_util::future::join_all;
use redis::{Cmd, Pipeline, Value};
use tokio::time::{Instant, timeout_at};

use super::{
    answer::Answer,
    failure::Failure,
    layout::lease_millis,
    link::{Lane, is_unknown_script},
    script,
};
use crate::store::{LeaseRef, Owner, Renewal};

/// How many leases a single server renews in one go.
const AT_ONCE: usize = 512;

/// The call that renews the lease of `owner`.
pub(super) fn call(name: &str, owner: Owner, lease: Duration) -> Cmd {
    let mut call = script::RENEW.on(name);
    call.arg(owner.as_bytes()).arg(lease_millis(lease));
    call
}

/// Renews in one go, or where the keys lie on several servers, all at once: each call has the same
/// time then, and those to a server that is silent hold none of the others up.
pub(super) async fn all(
    lane: &Lane<'_>,
    calls: Vec<(String, Cmd)>,
    until: Instant,
) -> Vec<Result<Renewal, Failure>> {
    if lane.is_cluster() {
        let renew = |(name, call): (String, Cmd)| {
            let mut lane = lane.clone();
            async move {
                let answer = lane.run(&script::RENEW, &name, &call);
                in_time(until, answer).await.and_then(read)
            }
        };
        return join_all(calls.into_iter().map(renew)).await;
    }
    let mut answers = Vec::with_capacity(calls.len());
    for calls in calls.chunks(AT_ONCE) {
        match in_time(until, in_one_go(lane, calls)).await {
            Ok(told) => answers.extend(told),
            Err(failure) => answers.extend(calls.iter().map(|_| Err(failure.clone()))),
        }
    }
    answers
}

async fn in_time<T>(
    until: Instant,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let limit = until.saturating_duration_since(Instant::now());
    let done = timeout_at(until, work).await;
    done.unwrap_or(Err(Failure::TimedOut { limit }))
}

/// A single server has all of them; the name only matters in a Cluster.
async fn in_one_go(
    lane: &Lane<'_>,
    calls: &[(String, Cmd)],
) -> Result<Vec<Result<Renewal, Failure>>, Failure> {
    let mut lane = lane.clone();
    let name = calls.first().map_or("", |(name, _)| name);
    let mut all = Pipeline::with_capacity(calls.len());
    for (_, call) in calls {
        all.add_command(call.clone());
    }
    let mut answers = lane.send_all(name, all.clone()).await?;
    let is_unknown = |answer: &Result<_, _>| answer.as_ref().is_err_and(is_unknown_script);
    if answers.iter().any(is_unknown) {
        lane.send(name, &script::RENEW.load()).await?;
        answers = lane.send_all(name, all).await?;
    }
    let judged = |answer: Result<Value, Failure>| answer.and_then(read);
    Ok(answers.into_iter().map(judged).collect())
}

/// What became of a renewal.
pub(super) fn read(answer: Value) -> Result<Renewal, Failure> {
    let answer = Answer::read(answer)?;
    match answer.status()? {
        "renewed" => Ok(Renewal::Renewed {
            left: Duration::from_millis(answer.number(1)?),
        }),
        "superseded" => Ok(Renewal::Superseded),
        "ended" => Ok(Renewal::Ended),
        "gone" => Ok(Renewal::Gone),
        _ => Err(answer.failure()),
    }
}

/// One record that cannot be read must not cost the leases of the others: among others, it is no
/// more ours. Nor must a server that does not answer: what others said counts.
pub(super) fn told_apart(
    leases: &[LeaseRef<'_>],
    answers: Vec<Result<Renewal, Failure>>,
) -> Result<Vec<Renewal>, Failure> {
    let is_any_known = answers.iter().any(Result::is_ok);
    let told = leases
        .iter()
        .zip(answers)
        .map(|(lease, answer)| match answer {
            Err(Failure::Unreadable(unreadable)) if is_any_known => {
                tracing::error!(record = %lease.key, error = %unreadable, "cannot renew a lease");
                Ok(Renewal::Superseded)
            }
            Err(_) if is_any_known => Ok(Renewal::Unanswered),
            answer => answer,
        });
    told.collect()
}
