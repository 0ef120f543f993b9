//! A client of the payment service that pays once, however often it has to ask: when the server is
//! down, when answers are lost, and when the client itself is killed.
//!
//! `cargo run --example client invoice-17 1200 EUR`, as often as you like. `URL`, `TOKEN`, `JOURNAL`,
//! `TIMEOUT`, `PAUSE`, `GIVE_UP_AFTER` and `REPEAT_WITHIN` come from the environment. A journal
//! belongs to one caller at one server.
//!
//! The exit code is 0 if everything is done, 1 if something was refused or went wrong before it was
//! sent, and 2 if the outcome of something is unknown.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "prints what became of the payments")]

mod attempts;
mod command;

use std::{env, error::Error, process::ExitCode};

use attempts::Attempts;
use command::Command;
use idem_examples::{
    journal::{Journal, Operation, Request, State},
    retry::Earlier,
    settings::ClientSettings,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<ExitCode, Box<dyn Error>> {
    let command = Command::parse(env::args().skip(1))?;
    let settings = ClientSettings::from_env()?;
    let path = settings.journal.display();
    let journal = Journal::open(&settings.journal);
    let mut journal = journal.map_err(|error| format!("the journal `{path}`: {error}"))?;
    let attempts = Attempts::new(&settings)?;

    let mut due = started(&journal);
    match command {
        Command::List => {
            list(&journal);
            return Ok(ExitCode::SUCCESS);
        }
        Command::PickUp => {}
        Command::Pay { name, body } => {
            let url = settings.url.clone();
            let asked = Operation::new(name, Request { url, body });
            due.extend(ask(&mut journal, asked)?);
        }
    }
    let mut ended = Vec::new();
    for (mut operation, earlier) in due {
        if operation.state.is_open() {
            operation.state = attempts.make(&operation, earlier).await;
            journal.write(operation.clone())?;
        }
        ended.push(operation);
    }
    Ok(report(&ended))
}

/// What an earlier process has left in the middle.
fn started(journal: &Journal) -> Vec<(Operation, Earlier)> {
    let operations = journal.operations().iter();
    operations
        .filter(|operation| operation.state == State::Started)
        // Nobody knows how far it came.
        .map(|operation| (operation.clone(), Earlier::Sent))
        .collect()
}

/// Writes a new operation down, before its first attempt, or finds the one of its name. There is
/// nothing to add to what is due if an earlier process has started it.
fn ask(
    journal: &mut Journal,
    asked: Operation,
) -> Result<Option<(Operation, Earlier)>, Box<dyn Error>> {
    let Some(known) = journal.find(&asked.name) else {
        journal.write(asked.clone())?;
        return Ok(Some((asked, Earlier::Unsent)));
    };
    if known.request != asked.request {
        let (name, Request { url, body }) = (&known.name, &known.request);
        return Err(format!("`{name}` is another request: {body} to {url}").into());
    }
    match known.state {
        State::Started => Ok(None),
        State::Done { .. } | State::Refused { .. } | State::Unknown { .. } => {
            Ok(Some((known.clone(), Earlier::Sent)))
        }
    }
}

/// Prints what somebody has to find out about.
fn list(journal: &Journal) {
    for operation in journal.operations() {
        let Operation {
            name, key, request, ..
        } = operation;
        let state = match &operation.state {
            State::Started => "started",
            State::Unknown { answer } => &format!("unknown ({answer})"),
            State::Done { .. } | State::Refused { .. } => continue,
        };
        println!("{name}: {state}, key {key}, {}", request.body);
    }
}

fn report(ended: &[Operation]) -> ExitCode {
    let (mut refused, mut unknown) = (false, false);
    for operation in ended {
        let name = &operation.name;
        match &operation.state {
            State::Done {
                status,
                replayed,
                body,
            } => {
                let replay = if *replayed { ", a replay" } else { "" };
                println!("{name}: done, {status}{replay}\n{body}");
            }
            State::Refused { answer, body } => {
                refused = true;
                println!("{name}: refused, {answer}\n{body}");
            }
            State::Unknown { answer } => {
                unknown = true;
                println!("{name}: unknown, {answer}\nask again by its name, or look it up");
            }
            State::Started => {}
        }
    }
    match (unknown, refused) {
        (true, _) => ExitCode::from(2),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    }
}
