//! What the arguments ask for.

use idem_examples::ledger::{Card, NewPayment};

const USAGE: &str = "\
client NAME AMOUNT CURRENCY [CARD]  pays, once for each name; goes on with what was left
client                              goes on with what was left
client --list                       shows what was left and what is unknown
AMOUNT is in minor units, CARD is `ok`, `declined` or `crash`";

/// What the client is to do.
pub(crate) enum Command {
    /// Show what is not over.
    List,
    /// Go on with what an earlier process has left.
    PickUp,
    /// The same, and pay.
    Pay {
        /// The operation.
        name: String,
        /// Made here and nowhere else: each attempt sends these bytes.
        body: String,
    },
}

impl Command {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, &'static str> {
        let arguments: Vec<String> = arguments.collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match arguments[..] {
            [] => Ok(Self::PickUp),
            ["--list"] => Ok(Self::List),
            [name, amount, currency] => pay(name, amount, currency, "ok").ok_or(USAGE),
            [name, amount, currency, card] => pay(name, amount, currency, card).ok_or(USAGE),
            _ => Err(USAGE),
        }
    }
}

fn pay(name: &str, amount: &str, currency: &str, card: &str) -> Option<Command> {
    let card: Card = serde_json::from_value(card.into()).ok()?;
    let payment = NewPayment {
        amount: amount.parse().ok()?,
        currency: currency.to_owned(),
        card,
    };
    Some(Command::Pay {
        name: name.to_owned(),
        body: serde_json::to_string(&payment).ok()?,
    })
}
