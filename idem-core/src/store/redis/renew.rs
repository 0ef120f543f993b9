//! Renewing leases, many in one go.

use std::time::Duration;

use futures_util::future::join_all;
use redis::{Cmd, Pipeline, Value};

use super::{
    answer::Answer,
    failure::Failure,
    layout::lease_millis,
    link::{Lane, is_unknown_script},
    script,
};
use crate::store::{LeaseRef, Owner, Renewal};

/// The call that renews the lease of `owner`.
pub(super) fn call(name: &str, owner: Owner, lease: Duration) -> Cmd {
    let mut call = script::RENEW.on(name);
    call.arg(owner.as_bytes()).arg(lease_millis(lease));
    call
}

/// Renews in one go, or where the keys lie on several servers, all at once.
pub(super) async fn all(
    lane: &Lane<'_>,
    calls: Vec<(String, Cmd)>,
) -> Result<Vec<Result<Renewal, Failure>>, Failure> {
    let judged = |answer: Result<Value, Failure>| answer.and_then(read);
    if lane.is_cluster() {
        let renew = |(name, call): (String, Cmd)| {
            let mut lane = lane.clone();
            async move { judged(lane.run(&script::RENEW, &name, &call).await) }
        };
        return Ok(join_all(calls.into_iter().map(renew)).await);
    }
    let mut lane = lane.clone();
    // A single server has all of them; the name only matters in a Cluster.
    let name = calls.first().map_or("", |(name, _)| name);
    let mut all = Pipeline::with_capacity(calls.len());
    for (_, call) in &calls {
        all.add_command(call.clone());
    }
    let mut answers = lane.send_all(name, all.clone()).await?;
    let is_unknown = |answer: &Result<_, _>| answer.as_ref().is_err_and(is_unknown_script);
    if answers.iter().any(is_unknown) {
        lane.send(name, &script::RENEW.load()).await?;
        answers = lane.send_all(name, all).await?;
    }
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
/// more ours. Any other failure is one of all, and they are renewed again.
pub(super) fn told_apart(
    leases: &[LeaseRef<'_>],
    answers: Vec<Result<Renewal, Failure>>,
) -> Result<Vec<Renewal>, Failure> {
    let is_alone = !answers.iter().any(Result::is_ok);
    let told = leases
        .iter()
        .zip(answers)
        .map(|(lease, answer)| match answer {
            Err(Failure::Unreadable(unreadable)) if !is_alone => {
                tracing::error!(record = %lease.key, error = %unreadable, "cannot renew a lease");
                Ok(Renewal::Superseded)
            }
            answer => answer,
        });
    told.collect()
}
