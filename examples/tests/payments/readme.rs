//! The transcript of the README, run as it is written.

use std::process::Command;

use serde_json::Value;

use super::{Framework, frameworks};

frameworks![; blocking: the_transcript_of_the_readme_is_what_happens];

/// What is printed after each command.
const END: &str = "---- end of step ----";

/// The commands of the README with what they print.
fn transcript() -> Vec<(String, String)> {
    let readme = include_str!("../../../README.md");
    let mut steps: Vec<(String, String)> = Vec::new();
    for block in readme.split("```console\n").skip(1) {
        let block = block.split("```").next().expect("a split has a first part");
        for line in block.lines() {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => {
                    output.push_str(line);
                    output.push('\n');
                }
                (None, None) => panic!("a transcript starts with a command"),
            }
        }
    }
    steps
}

/// Puts a name for what differs from run to run: ids by their order, times. Sorts the headers, whose
/// order is that of a framework.
fn normalise(output: &str, ids: &mut Vec<String>) -> String {
    let mut lines = Vec::new();
    let mut headers = None;
    for line in output.lines().map(|line| line.trim_end_matches('\r')) {
        if line.starts_with("date: ") || line.starts_with("content-length: ") {
            continue;
        }
        let mut line = line.to_owned();
        for id in uuids(&line) {
            let at = ids
                .iter()
                .position(|known| *known == id)
                .unwrap_or_else(|| {
                    ids.push(id.clone());
                    ids.len() - 1
                });
            line = line.replace(&id, &format!("<id {at}>"));
        }
        // The fields of a problem come in another order if a crate of the build wants
        // `serde_json/preserve_order`.
        if let Ok(mut json) = serde_json::from_str::<Value>(&line) {
            blank_times(&mut json);
            line = json.to_string();
        }
        if line.starts_with("HTTP/1.1 ") {
            headers = Some(lines.len() + 1);
        } else if line.is_empty()
            && let Some(first) = headers.take()
        {
            lines[first..].sort_unstable();
        }
        lines.push(line);
    }
    lines.join("\n").trim_end().to_owned()
}

/// Blanks the members that come from a clock.
fn blank_times(json: &mut Value) {
    match json {
        Value::Array(values) => values.iter_mut().for_each(blank_times),
        Value::Object(members) => {
            for name in ["created", "completed", "expires_in_seconds", "fence"] {
                if let Some(time) = members.get_mut(name) {
                    *time = Value::Null;
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn uuids(line: &str) -> Vec<String> {
    line.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'))
        .filter(|word| word.len() == 36 && word.matches('-').count() == 4)
        .map(str::to_owned)
        .collect()
}

fn the_transcript_of_the_readme_is_what_happens(framework: Framework) {
    let service = framework.start(&[]);
    let steps = transcript();
    assert_eq!(steps.len(), 7, "the README has lost a step");
    // One shell, as a reader has one: a command in the background goes on beside the next.
    let commands: Vec<&str> = steps.iter().map(|(command, _)| command.as_str()).collect();
    let script = commands.join(&format!("\necho {END}\n"));
    let script = script.replace("127.0.0.1:3000", &service.addr);
    let output = Command::new("sh")
        .args(["-ec", &script])
        .output()
        .expect("a shell");
    assert!(output.status.success(), "{}", output.stderr.escape_ascii());
    let output = String::from_utf8(output.stdout).expect("text");

    let (mut written, mut real) = (Vec::new(), Vec::new());
    for ((command, expected), printed) in steps.iter().zip(output.split(END)) {
        assert_eq!(
            normalise(printed.trim(), &mut real),
            normalise(expected, &mut written),
            "{command}"
        );
    }
}
