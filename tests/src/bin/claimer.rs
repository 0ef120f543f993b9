//! A process of its own that claims keys of a store, together with another one.
//!
//! `claimer STORE-URL PLACE KEYS CLAIMS`: `PLACE` is the prefix or the table; `KEYS` and `CLAIMS` are how
//! many keys there are and how many claims of each this process sends at once. It says `ready`; then, for
//! each key, it waits for a line on its standard input and prints how its claims were answered.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "its answers are what it prints")]

use std::{env, error::Error, io, sync::Arc};

use idem_core::{
    Store,
    store::{Claim, ClaimRequest, Owner},
};
use idem_tests::race::{Race, Tally};
use tokio::{sync::Barrier, task::JoinSet};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, place, keys, claims] = &arguments[..] else {
        return Err("claimer STORE-URL PLACE KEYS CLAIMS".into());
    };
    let store = idem_tests::race::open(url, place).await;
    let (keys, claims): (usize, usize) = (keys.parse()?, claims.parse()?);
    println!("ready");
    for key in 0..keys {
        io::stdin().read_line(&mut String::new())?;
        let tally = claim_at_once(&store, &Race::key(key), claims).await;
        println!("{}", serde_json::to_string(&tally)?);
    }
    Ok(())
}

async fn claim_at_once(store: &Arc<dyn Store>, race: &Race, claims: usize) -> Tally {
    let start = Arc::new(Barrier::new(claims));
    let mut claiming = JoinSet::new();
    for _ in 0..claims {
        let (store, race, start) = (Arc::clone(store), race.clone(), Arc::clone(&start));
        claiming.spawn(async move {
            let claim = ClaimRequest {
                owner: Owner::random(),
                ..race.claim()
            };
            start.wait().await;
            store.claim(&claim).await
        });
    }
    let mut tally = Tally::default();
    for answer in claiming.join_all().await {
        match answer {
            Ok(Claim::Acquired { .. }) => tally.acquired += 1,
            Ok(Claim::InProgress { .. }) => tally.in_progress += 1,
            Ok(other) => tally.other.push(format!("{other:?}")),
            Err(error) => tally.other.push(format!("{error:?}")),
        }
    }
    tally
}
