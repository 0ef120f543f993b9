//! Claiming a key: one native command, and the script where that cannot tell.

use std::time::Duration;

use bytes::Bytes;
use redis::{Cmd, Value};

use super::{
    answer::Answer,
    failure::Failure,
    layout::{self, Claimed, Head},
    link::{Lane, is_out_of_memory},
    renew, script,
};
use crate::{
    record::Record,
    store::{Claim, ClaimRequest, Renewal, State, Takeover},
};

/// Claims the key of this name.
pub(super) async fn claim(
    lane: &mut Lane<'_>,
    name: &str,
    claim: &ClaimRequest<'_>,
    claimed: &Claimed,
) -> Result<Claim, Failure> {
    match claim_natively(lane, name, claim, claimed).await? {
        Some(found) => Ok(found),
        // It is rare, and larger than all else.
        None => Box::pin(claim_unfinished(lane, name, claim, claimed)).await,
    }
}

/// Claims with one command. `None` if the server's clock, or its free memory, has to decide.
async fn claim_natively(
    lane: &mut Lane<'_>,
    name: &str,
    claim: &ClaimRequest<'_>,
    claimed: &Claimed,
) -> Result<Option<Claim>, Failure> {
    let mut set = Cmd::with_capacity(7, name.len() + claimed.value.len() + 32);
    set.arg("SET")
        .arg(name)
        .arg(&claimed.value[..])
        .arg("NX")
        .arg("GET")
        .arg("PX")
        .arg(claimed.life_ms);
    let (answer, acknowledged) = match lane.send_durably(name, &set).await {
        // A full server refuses the command even where it would write nothing.
        Err(failure) if is_out_of_memory(&failure) => return Ok(None),
        answer => answer?,
    };
    let value = match answer {
        Value::Nil => {
            acknowledged.required()?;
            let grant = claimed.grant;
            return Ok(Some(Claim::Acquired { grant }));
        }
        Value::BulkString(value) => value,
        _ => return Err(Failure::Answer),
    };
    let head = match Head::read(&value) {
        Ok(head) => head,
        Err(unreadable) => return Ok(Some(Claim::Unreadable(unreadable))),
    };
    if head.fingerprint(&value) != claim.fingerprint.as_bytes() {
        let state = head.state;
        return Ok(Some(Claim::Mismatch { state }));
    }
    Ok(match head.state {
        // The script gives it its expiry back.
        State::Completed if head.is_overdue(claimed.sent) => None,
        State::Completed => Some(replayed(head.response(&value.into()))),
        State::Unknown => Some(Claim::Unknown { grant: head.grant }),
        State::InProgress | State::Released => None,
    })
}

/// Claims a key whose record is unfinished, or which a full server may know.
async fn claim_unfinished(
    lane: &mut Lane<'_>,
    name: &str,
    claim: &ClaimRequest<'_>,
    claimed: &Claimed,
) -> Result<Claim, Failure> {
    let mut call = script::CLAIM.on(name);
    call.arg(claim.owner.as_bytes())
        .arg(claim.fingerprint.as_bytes())
        .arg(claimed.lease_ms)
        .arg(claimed.life_ms)
        .arg(claimed.meta())
        .arg(match claim.takeover {
            Takeover::Allowed => "1",
            Takeover::Refused => "0",
        });
    let (answer, acknowledged) = match lane.run_durably(&script::CLAIM, name, &call).await {
        Err(failure) if is_out_of_memory(&failure) => return Err(Failure::Full),
        answer => answer?,
    };
    let answer = Answer::read(answer)?;
    Ok(match answer.status()? {
        "acquired" => {
            acknowledged.required()?;
            let grant = answer.grant()?;
            Claim::Acquired { grant }
        }
        "ours" => {
            keep_ours(lane, name, claim).await?;
            let grant = answer.grant()?;
            Claim::Acquired { grant }
        }
        "in_progress" => Claim::InProgress {
            grant: answer.grant()?,
            left: Duration::from_millis(answer.number(3)?),
        },
        "mismatch" => Claim::Mismatch {
            state: layout::state_from(answer.number(1)?).ok_or(Failure::Answer)?,
        },
        "completed" => replayed(answer.bytes(1)?.to_vec().into()),
        "unknown" => Claim::Unknown {
            grant: answer.grant()?,
        },
        "lapsed" => Claim::Lapsed {
            grant: answer.grant()?,
        },
        _ => match answer.failure() {
            Failure::Unreadable(unreadable) => Claim::Unreadable(unreadable),
            other => return Err(other),
        },
    })
}

/// The lease of a claim that is sent again counts from now. A full server grants a renewal, too.
async fn keep_ours(
    lane: &mut Lane<'_>,
    name: &str,
    claim: &ClaimRequest<'_>,
) -> Result<(), Failure> {
    let call = renew::call(name, claim.owner, claim.lease);
    let renewed = lane.run_durably(&script::RENEW, name, &call).await;
    let (answer, acknowledged) = renewed?;
    match renew::read(answer)? {
        Renewal::Renewed { .. } => acknowledged.required(),
        // It was ours a moment ago; whoever asks once more learns what it is now.
        Renewal::Superseded | Renewal::Ended | Renewal::Gone | Renewal::Unanswered => {
            Err(Failure::Changed)
        }
    }
}

fn replayed(response: Bytes) -> Claim {
    match Record::decode(response) {
        Ok(record) => Claim::Completed {
            record: Box::new(record),
        },
        Err(unreadable) => Claim::Unreadable(unreadable),
    }
}
