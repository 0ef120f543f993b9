//! What a client remembers of its operations, so that one that was killed goes on with the keys and
//! the bytes that it has sent.
//!
//! A file of JSON lines. A line is the whole operation, and the last one of a name is in force. Each
//! is on the disk before [`Journal::write`] returns. A service would keep the same in a table of its
//! database, written in the transaction that makes the order.
//!
//! Invariant: an operation has one key, one request and one line at least before its first attempt.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a client wants to be done once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Operation {
    /// The client's own name for it, such as the number of an invoice: who asks again by this name
    /// asks for the same operation.
    #[serde(rename = "operation")]
    pub name: String,
    /// Made once, sent with each attempt.
    pub key: Uuid,
    /// When the key was made.
    pub created: Timestamp,
    /// What each attempt sends.
    pub request: Request,
    /// How far it is.
    #[serde(flatten)]
    pub state: State,
}

impl Operation {
    /// A new operation, with a new key.
    pub fn new(name: String, request: Request) -> Self {
        Self {
            name,
            key: Uuid::new_v4(),
            created: Timestamp::now(),
            request,
            state: State::Started,
        }
    }

    /// How old it is; zero if it was made on a clock that was ahead.
    pub fn age(&self, now: Timestamp) -> Duration {
        let age = now.duration_since(self.created);
        age.try_into().unwrap_or_default()
    }
}

/// What each attempt sends: a POST of JSON. It stays what it is even where the program that goes on
/// with it would write the body in another way, or has been told another URL.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct Request {
    /// Where to.
    pub url: String,
    /// The body, byte for byte.
    pub body: String,
}

/// How far an operation is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum State {
    /// Attempts are made. After a crash the next start goes on with it.
    Started,
    /// It took place.
    Done {
        /// The status of the answer.
        status: u16,
        /// Whether the answer was that to an earlier attempt.
        replayed: bool,
        /// The body of the answer.
        body: String,
    },
    /// It did not take place.
    Refused {
        /// The status, and the `code` of a problem document.
        answer: String,
        /// The body of the answer.
        body: String,
    },
    /// The client gave up; it may have taken place.
    Unknown {
        /// What came last.
        answer: String,
    },
}

impl State {
    /// Whether somebody has to find out what became of it.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Started | Self::Unknown { .. } => true,
            Self::Done { .. } | Self::Refused { .. } => false,
        }
    }
}

/// The operations of one client.
#[derive(Debug)]
pub struct Journal {
    file: File,
    operations: Vec<Operation>,
}

impl Journal {
    /// Opens the file, or makes it. It is this process's own until the journal is dropped.
    ///
    /// # Errors
    /// Another process has it, or a line is none of ours. A line that broke off at the end of the
    /// file is removed: what it was about to say has not happened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::Error(error) => error,
            TryLockError::WouldBlock => io::Error::other("another process has it"),
        })?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n');
        let whole = whole.map_or(0, |end| end + 1);
        if whole < text.len() {
            text.truncate(whole);
            file.set_len(text.len() as u64)?;
        }
        file.sync_all()?;
        // The name of a new file is on the disk when its directory is.
        let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;

        let mut journal = Self {
            file,
            operations: Vec::new(),
        };
        for line in text.split(|byte| *byte == b'\n') {
            if !line.is_empty() {
                journal.remember(serde_json::from_slice(line)?);
            }
        }
        Ok(journal)
    }

    /// The operations in the order in which they were started.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operation of this name.
    pub fn find(&self, name: &str) -> Option<&Operation> {
        self.operations
            .iter()
            .find(|operation| operation.name == name)
    }

    /// Writes how far an operation is.
    ///
    /// # Errors
    /// The line may or may not be on the disk. Nothing more may be written: open the file anew.
    pub fn write(&mut self, operation: Operation) -> io::Result<()> {
        let mut line = serde_json::to_vec(&operation)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.remember(operation);
        Ok(())
    }

    fn remember(&mut self, operation: Operation) {
        let mut known = self.operations.iter_mut();
        match known.find(|known| known.name == operation.name) {
            Some(known) => *known = operation,
            None => self.operations.push(operation),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::PathBuf};

    use super::*;

    /// A file of its own; removed when dropped.
    struct Place(PathBuf);

    impl Place {
        fn new() -> Self {
            Self(env::temp_dir().join(format!("idem-journal-{}", Uuid::new_v4())))
        }

        fn open(&self) -> Journal {
            Journal::open(&self.0).expect("a journal")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    fn operation(name: &str) -> Operation {
        let request = Request {
            url: "http://localhost/".to_owned(),
            body: r#"{"amount": 1200,  "currency": "EUR"}"#.to_owned(),
        };
        Operation::new(name.to_owned(), request)
    }

    #[test]
    fn a_line_says_what_whoever_reads_the_file_looks_for() {
        let mut operation = operation("invoice-17");
        operation.state = State::Unknown {
            answer: "503".to_owned(),
        };
        let line = serde_json::json!({
            "operation": "invoice-17",
            "key": operation.key.to_string(),
            "created": operation.created.to_string(),
            "request": {"url": "http://localhost/", "body": operation.request.body},
            "state": "unknown",
            "answer": "503",
        });
        let written = serde_json::to_value(&operation).expect("JSON");
        assert_eq!(written, line);
    }

    #[test]
    fn the_last_line_of_a_name_is_in_force_after_a_restart() {
        let place = Place::new();
        let states = [
            State::Started,
            State::Done {
                status: 201,
                replayed: true,
                body: "two\nlines".to_owned(),
            },
            State::Refused {
                answer: "409 key-reused".to_owned(),
                body: "{}".to_owned(),
            },
            State::Unknown {
                answer: "503".to_owned(),
            },
        ];
        let mut written = Vec::new();
        for (number, state) in states.into_iter().enumerate() {
            let started = operation(&format!("invoice-{number}"));
            let mut journal = place.open();
            journal.write(started.clone()).expect("written");
            let ended = Operation { state, ..started };
            journal.write(ended.clone()).expect("written");
            written.push(ended);
        }
        assert_eq!(place.open().operations(), written);
    }

    #[test]
    fn a_line_that_broke_off_is_as_if_never_written() {
        let place = Place::new();
        let first = operation("first");
        place.open().write(first.clone()).expect("written");
        let mut text = fs::read(&place.0).expect("a file");
        text.extend_from_slice(br#"{"operation":"second","key":"#);
        fs::write(&place.0, text).expect("written");

        let mut journal = place.open();
        assert_eq!(journal.operations(), std::slice::from_ref(&first));
        let third = operation("third");
        journal.write(third.clone()).expect("written");
        drop(journal);
        assert_eq!(place.open().operations(), [first, third]);
    }

    #[test]
    fn what_is_no_journal_is_left_as_it_is() {
        let place = Place::new();
        fs::write(&place.0, "# notes\n").expect("written");
        Journal::open(&place.0).expect_err("no journal");
        assert_eq!(fs::read(&place.0).expect("a file"), b"# notes\n");
    }

    #[test]
    fn one_process_has_it() {
        let place = Place::new();
        let journal = place.open();
        let refused = Journal::open(&place.0).expect_err("it is open");
        assert_eq!(refused.to_string(), "another process has it");
        drop(journal);
        place.open();
    }

    #[test]
    fn an_operation_from_the_future_is_new() {
        let operation = operation("invoice");
        let second = Duration::from_secs(1);
        assert_eq!(operation.age(operation.created + second), second);
        assert_eq!(operation.age(operation.created - second), Duration::ZERO);
    }
}
