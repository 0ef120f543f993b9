//! How a key is read from its header: one line, one documented form, octet by octet.

use idem_tests::{Answer, Call, Protocol, Script, Setup, World, scenarios};

scenarios![
    a_repeated_header_is_refused_even_if_its_lines_are_equal,
    a_repeated_header_leaves_no_claim_behind,
    a_comma_never_joins_two_keys,
    quoted_and_bare_are_the_same_key,
    escapes_and_parameters_are_those_of_a_structured_string,
    a_malformed_structured_string_is_refused,
    blanks_around_a_key_are_not_part_of_it,
    a_bare_key_is_any_visible_ascii_but_four_characters,
    a_quoted_key_is_any_printable_ascii,
    keys_that_differ_in_one_octet_are_different_keys,
    a_key_is_at_most_255_bytes_long,
    the_application_sets_how_long_a_key_is,
    a_refusal_names_the_rule_and_not_the_key,
    a_key_that_is_no_uuid_is_refused_where_one_is_demanded,
    a_uuid_is_not_normalised,
    the_name_of_the_header_has_no_case,
    the_application_names_the_header,
    the_handler_names_the_header,
    a_header_that_is_no_http_runs_nothing,
    a_key_in_a_trailer_is_none,
];

fn pay(world: &World) -> Call {
    world.post("/charge").script(&Script::new("pay"))
}

/// Sends a POST whose further header lines are these, with their ends.
async fn send(world: &World, lines: impl AsRef<[u8]>) -> Answer {
    world.raw(pay(world).to_bytes_with(lines)).await
}

/// B09-01
async fn a_repeated_header_is_refused_even_if_its_lines_are_equal(world: World) {
    let pairs = [
        ["a", "a"],
        ["a", "b"],
        ["\"a", "b\""],
        ["\"a\"", "\"a\""],
        ["a", ""],
        ["", ""],
    ];
    for [one, two] in pairs {
        let over1 = pay(&world).key(one).add("idempotency-key", two);
        let over2 = over1.clone().over(Protocol::Http2);
        let lines = format!("Idempotency-Key: {one}\r\nidempotency-KEY: {two}\r\n");
        for answer in [
            over1.send().await,
            over2.send().await,
            send(&world, lines).await,
        ] {
            answer.assert_refused(400, "key-invalid");
            assert_eq!(
                answer.json()["detail"],
                "the header was sent more than once"
            );
        }
    }
    assert_eq!(world.app.runs("pay"), 0);
}

/// B09-01
async fn a_repeated_header_leaves_no_claim_behind(world: World) {
    for call in [pay(&world), pay(&world).over(Protocol::Http2)] {
        let repeated = call.clone().key("a").add("idempotency-key", "a");
        repeated.send().await.assert_refused(400, "key-invalid");
    }
    let first = pay(&world).key("a").send().await;
    assert_eq!((first.status, first.replayed()), (201, false));
    pay(&world)
        .key("a")
        .over(Protocol::Http2)
        .send()
        .await
        .assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B09-01
async fn a_comma_never_joins_two_keys(world: World) {
    for value in [
        "a, a",
        "a,a",
        "a,b",
        ",",
        "a,",
        "\"a\", \"a\"",
        "\"a\",\"b\"",
    ] {
        for call in [pay(&world), pay(&world).over(Protocol::Http2)] {
            call.key(value)
                .send()
                .await
                .assert_refused(400, "key-invalid");
        }
    }
    assert_eq!(world.app.runs("pay"), 0);
}

/// B09-03
async fn quoted_and_bare_are_the_same_key(world: World) {
    let first = pay(&world).key("\"8e03\"").send().await;
    assert_eq!(first.status, 201);
    pay(&world).key("8e03").send().await.assert_replays(&first);
    pay(&world)
        .key("\"8e03\"")
        .over(Protocol::Http2)
        .send()
        .await
        .assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B09-03. Each row is one key in several spellings.
async fn escapes_and_parameters_are_those_of_a_structured_string(world: World) {
    let keys: [&[&str]; 4] = [
        &[
            "a",
            "\"a\"",
            "\"a\";v=1",
            "\"a\"; v=\"b\";c",
            "\"a\";v=:YQ==:",
        ],
        &[r#""a\"b""#, r#""a\"b";v"#],
        &[r#""a\\b""#, r#""a\\b";v"#],
        &[r#""a, b""#, r#""a, b";v"#],
    ];
    for spellings in keys {
        let first = pay(&world).key(spellings[0]).send().await;
        assert_eq!((first.status, first.replayed()), (201, false));
        for spelling in &spellings[1..] {
            pay(&world)
                .key(spelling)
                .send()
                .await
                .assert_replays(&first);
        }
    }
    assert_eq!(world.app.effects("pay"), keys.len());
}

/// B09-03
async fn a_malformed_structured_string_is_refused(world: World) {
    let values = [
        "\"",
        "\"a",
        "a\"",
        "\"a\"b",
        "\"a\"\"b\"",
        "\"a\" b",
        "\"a\";",
        "\"a\";V=1",
        "\"a\" ;v=1",
        r#""a\b""#,
        r#""a\"#,
        "\"a\tb\"",
        "\"\"",
        "\"\";v=1",
        "'a\"",
    ];
    for value in values {
        let answer = pay(&world).key(value).send().await;
        assert_eq!(answer.status, 400, "{value}");
        answer.assert_refused(400, "key-invalid");
    }
    assert_eq!(world.app.runs("pay"), 0);
}

/// B09-03
async fn blanks_around_a_key_are_not_part_of_it(world: World) {
    let first = pay(&world).key("a").send().await;
    for value in ["a", " a", "  a  ", "\ta\t", " \"a\" ", "\"a\""] {
        let again = send(&world, format!("Idempotency-Key:{value}\r\n")).await;
        again.assert_replays(&first);
    }
    for value in ["", " ", "\t"] {
        let empty = send(&world, format!("Idempotency-Key:{value}\r\n")).await;
        empty.assert_refused(400, "key-invalid");
        assert_eq!(empty.json()["detail"], "the key is empty");
    }
    assert_eq!(world.app.effects("pay"), 1);
}

/// Sends each octet within a key, and expects exactly those of `allowed` to run, each once.
async fn only_these_octets_run(world: &World, quote: &str, allowed: impl Fn(u8) -> bool) {
    for octet in 0..=255 {
        let mut line = format!("Idempotency-Key: {quote}a").into_bytes();
        line.push(octet);
        line.extend_from_slice(format!("b{quote}\r\n").as_bytes());
        let answer = send(world, &line).await;
        if allowed(octet) {
            assert_eq!(
                (answer.status, answer.replayed()),
                (201, false),
                "{octet:#x}"
            );
            send(world, &line).await.assert_replays(&answer);
        } else {
            assert_eq!(answer.status, 400, "{octet:#x}");
        }
    }
    assert_eq!(
        world.app.effects("pay"),
        (0..=255).filter(|octet| allowed(*octet)).count()
    );
}

/// B09-04, P-11, P-18
async fn a_bare_key_is_any_visible_ascii_but_four_characters(world: World) {
    only_these_octets_run(&world, "", |octet| {
        octet.is_ascii_graphic() && !b"\",;\\".contains(&octet)
    })
    .await;
}

/// B09-04. A quote and a backslash need an escape.
async fn a_quoted_key_is_any_printable_ascii(world: World) {
    only_these_octets_run(&world, "\"", |octet| {
        (octet.is_ascii_graphic() || octet == b' ') && !b"\"\\".contains(&octet)
    })
    .await;
}

/// P-11, B09-04
async fn keys_that_differ_in_one_octet_are_different_keys(world: World) {
    let keys = [
        "a:b", "a/b", "../../x", "../x", "%00", "%2e", ".", "..", "a", "A", "a%20b", "a+b", "*",
        "{a}", "<a>", "'a'", "0", "00", "null", "${a}", "?1", ":YQ==:", "@1", "-1",
    ];
    let mut answers = Vec::new();
    for key in keys {
        answers.push(pay(&world).key(key).send().await);
    }
    for (key, first) in keys.iter().zip(&answers) {
        assert_eq!((first.status, first.replayed()), (201, false), "{key}");
        pay(&world).key(key).send().await.assert_replays(first);
    }
    assert_eq!(world.app.effects("pay"), keys.len());
}

/// Expects keys of up to `longest` bytes to be taken, after unquoting.
async fn the_longest_key_has(world: &World, longest: usize) {
    let key = |length: usize| "k".repeat(length);
    let first = pay(world).key(key(longest)).send().await;
    assert_eq!(first.status, 201);
    let quoted = pay(world).key(format!("\"{}\"", key(longest)));
    quoted.send().await.assert_replays(&first);
    for length in [longest + 1, 300, 10_000] {
        for key in [key(length), format!("\"{}\"", key(length))] {
            let answer = pay(world).key(key).send().await;
            answer.assert_refused(400, "key-invalid");
            let detail = format!("the key is longer than {longest} bytes");
            assert_eq!(answer.json()["detail"], detail);
        }
    }
    assert_eq!(world.app.effects("pay"), 1);
}

/// B09-04, P-18
async fn a_key_is_at_most_255_bytes_long(world: World) {
    the_longest_key_has(&world, 255).await;
}

/// B09-04
async fn the_application_sets_how_long_a_key_is(world: World) {
    let setup = Setup {
        max_key_len: Some(128),
        ..Setup::default()
    };
    the_longest_key_has(&world.again(setup).await, 128).await;
}

/// B09-04
async fn a_refusal_names_the_rule_and_not_the_key(world: World) {
    for (value, rule) in [
        ("se cret", "visible ASCII"),
        ("se,cret", "visible ASCII"),
        ("secr\u{e9}t", "visible ASCII"),
        ("\"secret", "not a complete quoted string"),
    ] {
        let answer = pay(&world).key(value).send().await;
        answer.assert_refused(400, "key-invalid");
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains(rule), "{detail}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("secr"));
    }
    assert_eq!((world.counts().rejected, world.app.runs("pay")), (4, 0));
}

/// B09-04
async fn a_key_that_is_no_uuid_is_refused_where_one_is_demanded(world: World) {
    let send = |key: &str| {
        world
            .post("/uuid")
            .key(key)
            .script(&Script::new("pay"))
            .send()
    };
    for key in [
        "8e03978e-40d5-43e8-bc93-6894a57f932",
        "8e03978e-40d5-43e8-bc93-6894a57f93244",
        "8e03978e40d543e8bc936894a57f9324",
        "{8e03978e-40d5-43e8-bc93-6894a57f9324}",
        "urn:uuid:8e03978e-40d5-43e8-bc93-6894a57f9324",
        "8e03978e-40d5-43e8-bc93-6894a57f932g",
        "8e03978e-40d543e8-bc93-6894-a57f9324",
        "order-17",
    ] {
        let answer = send(key).await;
        answer.assert_refused(400, "key-invalid");
        assert!(
            answer.json()["detail"]
                .to_string()
                .contains("must be a UUID")
        );
    }
    assert_eq!(world.app.runs("pay"), 0);
    for key in [
        "8e03978e-40d5-43e8-bc93-6894a57f9324",
        "\"0197a1b2-0000-7000-8000-000000000000\"",
        "00000000-0000-0000-0000-000000000000",
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
    ] {
        assert_eq!(send(key).await.status, 201, "{key}");
    }
}

/// B09-04
async fn a_uuid_is_not_normalised(world: World) {
    let send = |key: &str| {
        world
            .post("/uuid")
            .key(key)
            .script(&Script::new("pay"))
            .send()
    };
    let lower = send("8e03978e-40d5-43e8-bc93-6894a57f9324").await;
    let upper = send("8E03978E-40D5-43E8-BC93-6894A57F9324").await;
    assert_eq!((lower.status, upper.status), (201, 201));
    assert!(!upper.replayed());
    assert_eq!(world.app.effects("pay"), 2);
}

/// B09-05
async fn the_name_of_the_header_has_no_case(world: World) {
    let first = send(&world, "Idempotency-Key: a\r\n").await;
    assert_eq!(first.status, 201);
    for name in ["idempotency-key", "IDEMPOTENCY-KEY", "iDEMPOTENCY-kEY"] {
        let again = send(&world, format!("{name}: a\r\n")).await;
        again.assert_replays(&first);
    }
    assert_eq!(world.app.effects("pay"), 1);
}

/// Expects the key to be in this header of `path`, and in no other.
async fn the_key_is_in(world: &World, path: &str, header: &str, others: &[&str]) {
    let call = world.post(path).script(&Script::new("pay"));
    let first = call.clone().set(header, "a").send().await;
    assert_eq!((first.status, first.replayed()), (201, false));
    call.clone()
        .set(header, "a")
        .send()
        .await
        .assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
    for (runs, other) in others.iter().enumerate() {
        let ignored = call.clone().set(other, "a").send().await;
        assert_eq!(
            (ignored.status, ignored.replayed()),
            (201, false),
            "{other}"
        );
        assert_eq!(world.app.effects("pay"), runs + 2);
    }
}

/// B09-05
async fn the_application_names_the_header(world: World) {
    let setup = Setup {
        header: Some("X-Idempotency-Key"),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let others = ["idempotency-key", "x-event-id", "x-idempotency"];
    the_key_is_in(&world, "/charge", "x-idempotency-key", &others).await;
}

/// B09-05. The handler's word counts, and not the application's.
async fn the_handler_names_the_header(world: World) {
    let setup = Setup {
        header: Some("X-Idempotency-Key"),
        ..Setup::default()
    };
    let world = world.again(setup).await;
    let others = ["idempotency-key", "x-idempotency-key"];
    the_key_is_in(&world, "/event", "x-event-id", &others).await;
}

/// B09-01. They are refused before they get to us, but they must be.
async fn a_header_that_is_no_http_runs_nothing(world: World) {
    let lines: [&[u8]; 8] = [
        b"Idempotency-Key: a\r\n b\r\n",
        b"Idempotency-Key: a\r\n\tb\r\n",
        b"Idempotency-Key : a\r\n",
        b" Idempotency-Key: a\r\n",
        b"Idempotency-Key: a\rb\r\n",
        b"Idempotency-Key: a\0\r\n",
        b"Idempotency-Key\r\n",
        b"Idempotency-Key\xe9: a\r\n",
    ];
    for line in lines {
        let answer = send(&world, line).await;
        assert_eq!(answer.status, 400, "{}", line.escape_ascii());
    }
    assert_eq!(world.app.runs("pay"), 0);
}

/// B09-01
async fn a_key_in_a_trailer_is_none(world: World) {
    let body = serde_json::to_string(&Script::new("pay")).expect("a script is JSON");
    let request = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer ada\r\nContent-Type: application/json\r\n\
             Transfer-Encoding: chunked\r\nTrailer: Idempotency-Key\r\n\r\n\
             {:x}\r\n{body}\r\n0\r\nIdempotency-Key: a\r\n\r\n",
            body.len()
        )
    };
    let unprotected = world.raw(request("/charge")).await;
    assert_eq!(unprotected.status, 201);
    assert_eq!(world.counts().unprotected, 1);
    let required = world.raw(request("/required")).await;
    required.assert_refused(400, "key-missing");
    assert_eq!(world.app.runs("pay"), 1);
}
