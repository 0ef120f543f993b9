//! Whose key it is and for which operation: nobody is answered with what belongs elsewhere.

use std::sync::Arc;

use idem_core::observe::Observer;
use idem_tests::{Call, Heard, Script, Setup, Step, World, scenarios};

scenarios![
    each_caller_has_an_answer_of_its_own_under_one_key,
    a_caller_learns_nothing_of_another_callers_key,
    a_refreshed_token_is_the_same_caller,
    a_caller_may_be_named_by_an_argument_of_the_handler,
    without_a_principal_a_key_is_refused_as_not_configured,
    an_anonymous_caller_is_refused,
    an_empty_caller_is_refused,
    callers_share_an_answer_only_where_the_handler_says_so,
    each_tenant_has_an_answer_of_its_own_under_one_key,
    a_scope_without_a_resolver_is_refused_as_not_configured,
    a_resolver_that_finds_nobody_is_refused_as_not_configured,
    a_resolver_that_fails_is_logged_and_not_shown,
    without_a_key_nobody_needs_to_be_named,
    each_namespace_has_an_answer_of_its_own_under_one_key,
    each_operation_has_an_answer_of_its_own_under_one_key,
    an_operation_is_the_method_and_the_whole_route_template,
    a_nested_route_is_another_operation_than_the_same_route_elsewhere,
    another_resource_of_a_nested_route_is_refused,
    a_handler_without_a_route_is_refused_as_not_configured,
    a_named_operation_needs_no_route,
    a_named_operation_never_runs_again_under_another_route,
    a_caller_whose_permission_is_revoked_gets_no_replay,
    a_caller_whose_login_is_gone_gets_no_replay,
];

fn pay(world: &World, path: &str, line: &str) -> Call {
    world.post(path).key("1").script(&Script::new(line))
}

/// B02-01
async fn each_caller_has_an_answer_of_its_own_under_one_key(world: World) {
    let call = pay(&world, "/charge", "pay");
    let ada = call.clone().user("ada").send().await;
    let bob = call.clone().user("bob").send().await;
    assert_eq!((ada.status, bob.status), (201, 201));
    assert_ne!(ada.body, bob.body);
    call.clone().user("ada").send().await.assert_replays(&ada);
    call.clone().user("bob").send().await.assert_replays(&bob);
    assert_eq!(world.app.effects("pay"), 2);
}

/// B02-01. Bob is told the same whether Ada used the key before him or nobody did.
async fn a_caller_learns_nothing_of_another_callers_key(world: World) {
    let mut told = Vec::new();
    for before in [true, false] {
        let world = world.again(Setup::default()).await;
        let secret = Step::default().bytes("of ada").header("x-of", "ada");
        let ada = world.post("/charge").key("1");
        let bob = ada.clone().user("bob");
        if before {
            ada.script(&Script::new("pay").step(secret)).send().await;
        }
        let script = Script::new("pay").step(Step::default().bytes("of bob"));
        let mut answers = Vec::new();
        for script in [&script, &script, &script.clone().extra(1)] {
            let mut answer = bob.clone().script(script).send().await;
            answer.headers.remove("date");
            answers.push((answer.status, answer.headers, answer.body));
        }
        told.push(answers);
    }
    assert_eq!(told[0], told[1]);
}

/// P-25
async fn a_refreshed_token_is_the_same_caller(world: World) {
    let call = pay(&world, "/charge", "pay");
    let first = call.clone().user("ada.token-1").send().await;
    let second = call.user("ada.token-2").send().await;
    second.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B02-05. Authentication that is an extractor runs before the caller is looked for.
async fn a_caller_may_be_named_by_an_argument_of_the_handler(world: World) {
    let call = pay(&world, "/extracted", "pay").nobody();
    let ada = call.clone().set("x-login", "ada").send().await;
    let bob = call.clone().set("x-login", "bob").send().await;
    assert_eq!((ada.status, bob.status), (201, 201));
    let again = call.clone().set("x-login", "ada").send().await;
    again.assert_replays(&ada);
    assert_eq!(call.send().await.status, 401);
    assert_eq!(world.app.effects("pay"), 2);
}

/// Expects the refusal of a request that the application is not made for, and one error in the log
/// that contains all of `remedy`.
async fn is_not_configured(world: &World, call: Call, remedy: &[&str]) {
    let answer = call.clone().send().await;
    answer.assert_refused(500, "not-configured");
    let logs = world.logs();
    let errors: Vec<_> = logs
        .iter()
        .filter(|line| line.contains(" ERROR "))
        .collect();
    let [error] = errors[..] else {
        panic!("{errors:?}");
    };
    for text in remedy {
        assert!(error.contains(text), "no {text} in {error}");
        assert!(
            !String::from_utf8_lossy(&answer.body).contains(text),
            "{answer:?}"
        );
    }
    assert_eq!(world.app.total(), 0);
}

/// B02-02, P-26
async fn without_a_principal_a_key_is_refused_as_not_configured(world: World) {
    let call = pay(&world, "/charge", "pay").nobody();
    let remedy = [
        "no `Principal` in the request's extensions; insert one",
        "`.scope(\"user\", …)`",
    ];
    is_not_configured(&world, call, &remedy).await;
}

/// B02-02. Two of them never meet.
async fn an_anonymous_caller_is_refused(world: World) {
    let call = pay(&world, "/charge", "pay").guest();
    for _ in 0..2 {
        call.clone()
            .send()
            .await
            .assert_refused(403, "caller-missing");
    }
    assert_eq!(world.app.runs("pay"), 0);
    assert!(world.logs().iter().all(|line| !line.contains(" ERROR ")));
}

/// B02-02
async fn an_empty_caller_is_refused(world: World) {
    let user = pay(&world, "/charge", "pay").user(".token");
    let tenant = pay(&world, "/tenant", "pay").set("x-tenant", "");
    for call in [user, tenant] {
        call.send().await.assert_refused(403, "caller-missing");
    }
    assert_eq!(world.app.runs("pay"), 0);
}

/// B02-02, P-26
async fn callers_share_an_answer_only_where_the_handler_says_so(world: World) {
    let call = pay(&world, "/shared", "pay");
    let first = call.clone().user("ada").send().await;
    assert_eq!(first.status, 201);
    for call in [
        call.clone().user("bob"),
        call.clone().guest(),
        call.nobody(),
    ] {
        call.send().await.assert_replays(&first);
    }
    assert_eq!(world.app.effects("pay"), 1);
}

/// B02-01. Whoever acts for a tenant shares its answers.
async fn each_tenant_has_an_answer_of_its_own_under_one_key(world: World) {
    let call = pay(&world, "/tenant", "pay");
    let send = |tenant: &str, user: &str| call.clone().set("x-tenant", tenant).user(user).send();
    let acme = send("acme", "ada").await;
    let other = send("globex", "ada").await;
    assert_eq!((acme.status, other.status), (201, 201));
    send("acme", "bob").await.assert_replays(&acme);
    send("globex", "bob").await.assert_replays(&other);
    assert_eq!(world.app.effects("pay"), 2);
}

/// B02-02
async fn a_scope_without_a_resolver_is_refused_as_not_configured(world: World) {
    let remedy = [
        "the scope `nowhere` has no resolver",
        "`.scope(\"nowhere\", …)`",
    ];
    is_not_configured(&world, pay(&world, "/unregistered", "pay"), &remedy).await;
}

/// B02-02
async fn a_resolver_that_finds_nobody_is_refused_as_not_configured(world: World) {
    let remedy = [
        "the resolver of the scope `tenant` found no caller",
        "`Ok(None)`",
    ];
    is_not_configured(&world, pay(&world, "/tenant", "pay"), &remedy).await;
}

/// B02-02
async fn a_resolver_that_fails_is_logged_and_not_shown(world: World) {
    let remedy = ["the resolver of the scope `flaky` failed: the directory is down"];
    is_not_configured(&world, pay(&world, "/flaky", "pay"), &remedy).await;
}

/// B02-02
async fn without_a_key_nobody_needs_to_be_named(world: World) {
    for (runs, path) in ["/charge", "/tenant", "/flaky", "/unregistered", "/lost"]
        .iter()
        .enumerate()
    {
        let call = world.post(path).nobody().script(&Script::new("pay"));
        assert_eq!(call.send().await.status, 201, "{path}");
        assert_eq!(world.app.effects("pay"), runs + 1);
    }
}

/// B02-01. Two services in one store, whose callers have the same names.
async fn each_namespace_has_an_answer_of_its_own_under_one_key(world: World) {
    let setup = Setup {
        namespace: Some("payments"),
        ..Setup::default()
    };
    let beside = world.beside(setup).await;
    let first = pay(&world, "/charge", "pay").send().await;
    let second = pay(&beside, "/charge", "pay").send().await;
    assert_eq!((first.status, second.status), (201, 201));
    pay(&world, "/charge", "pay")
        .send()
        .await
        .assert_replays(&first);
    pay(&beside, "/charge", "pay")
        .send()
        .await
        .assert_replays(&second);
    assert_eq!(world.app.effects("pay"), 2);
}

/// B02-03, P-02
async fn each_operation_has_an_answer_of_its_own_under_one_key(world: World) {
    let script = Script::new("pay");
    let call = |(method, path): (&str, &str)| world.call(method, path).key("1").script(&script);
    let operations = [
        ("POST", "/charge"),
        ("POST", "/refund"),
        ("PUT", "/charge"),
        ("DELETE", "/charge"),
        ("post", "/charge"),
        ("POST", "/accounts/1/charge"),
    ];
    let mut first = Vec::new();
    for operation in operations {
        first.push(call(operation).send().await);
    }
    for (operation, first) in operations.into_iter().zip(&first) {
        call(operation).send().await.assert_replays(first);
    }
    assert_eq!(world.app.effects("pay"), operations.len());
}

async fn heard(world: &World) -> (World, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let observer: Arc<dyn Observer> = Arc::clone(&heard) as _;
    let setup = Setup {
        observer: Some(observer),
        ..Setup::default()
    };
    (world.again(setup).await, heard)
}

/// B02-04
async fn an_operation_is_the_method_and_the_whole_route_template(world: World) {
    let (world, heard) = heard(&world).await;
    for (method, path, operation) in [
        ("POST", "/charge", "POST /charge"),
        ("PATCH", "/charge", "PATCH /charge"),
        ("POST", "/accounts/7/charge", "POST /accounts/{id}/charge"),
        (
            "POST",
            "/nested/acme/accounts/7/charge?a=b",
            "POST /nested/{tenant}/accounts/{id}/charge",
        ),
        ("POST", "/named", "charges.create"),
    ] {
        let call = world
            .call(method, path)
            .key("1")
            .script(&Script::new("pay"));
        assert_eq!(call.send().await.status, 201, "{path}");
        let told = heard.all();
        assert_eq!(told.last().expect("an event").operation, operation);
    }
}

/// B02-04
async fn a_nested_route_is_another_operation_than_the_same_route_elsewhere(world: World) {
    let plain = pay(&world, "/accounts/7/charge", "pay");
    let nested = pay(&world, "/nested/acme/accounts/7/charge", "pay");
    let first = plain.clone().send().await;
    let second = nested.clone().send().await;
    assert_eq!((first.status, second.status), (201, 201));
    plain.send().await.assert_replays(&first);
    nested.send().await.assert_replays(&second);
    assert_eq!(world.app.effects("pay"), 2);
}

/// B02-04. The whole path counts, and not what is left of it in the nested router.
async fn another_resource_of_a_nested_route_is_refused(world: World) {
    let first = pay(&world, "/nested/acme/accounts/7/charge", "pay");
    assert_eq!(first.send().await.status, 201);
    for path in [
        "/nested/globex/accounts/7/charge",
        "/nested/acme/accounts/8/charge",
    ] {
        let other = pay(&world, path, "pay").send().await;
        other.assert_refused(409, "key-reused");
    }
    assert_eq!(world.app.effects("pay"), 1);
}

/// B02-04
async fn a_handler_without_a_route_is_refused_as_not_configured(world: World) {
    let remedy = [
        "the handler has no route",
        "write `operation = \"…\"` in `#[idempotent]`",
    ];
    for path in ["/lost", "/nested-fallback/anywhere"] {
        let world = world.again(Setup::default()).await;
        is_not_configured(&world, pay(&world, path, "pay"), &remedy).await;
    }
}

/// B02-04
async fn a_named_operation_needs_no_route(world: World) {
    let call = pay(&world, "/named-fallback/anywhere", "pay");
    let first = call.clone().send().await;
    assert_eq!(first.status, 201);
    call.send().await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B02-03. The record is found under the new route, and method and path are part of what its key
/// stands for.
async fn a_named_operation_never_runs_again_under_another_route(world: World) {
    let call = pay(&world, "/named", "pay");
    let first = call.clone().send().await;
    assert_eq!(first.status, 201);
    let script = Script::new("pay");
    for (method, path) in [
        ("POST", "/renamed"),
        ("PUT", "/named"),
        ("POST", "/named-fallback/x"),
    ] {
        let other = world
            .call(method, path)
            .key("1")
            .script(&script)
            .send()
            .await;
        other.assert_refused(409, "key-reused");
    }
    call.send().await.assert_replays(&first);
    assert_eq!(world.app.effects("pay"), 1);
}

/// B02-05
async fn a_caller_whose_permission_is_revoked_gets_no_replay(world: World) {
    for path in [
        "/guarded/argument",
        "/guarded/route-layer",
        "/guarded/layer",
    ] {
        let call = pay(&world, path, path);
        let first = call.clone().send().await;
        assert_eq!(first.status, 201);
        world.app.forbid("ada");
        let refused = call.clone().send().await;
        assert_eq!((refused.status, refused.body.len()), (403, 0), "{path}");
        assert!(!refused.replayed());
        world.app.allow("ada");
        call.send().await.assert_replays(&first);
        assert_eq!(world.app.effects(path), 1);
    }
}

/// B02-05
async fn a_caller_whose_login_is_gone_gets_no_replay(world: World) {
    for path in [
        "/guarded/argument",
        "/guarded/route-layer",
        "/guarded/layer",
    ] {
        let call = pay(&world, path, path);
        let first = call.clone().send().await;
        assert_eq!(first.status, 201);
        let refused = call.clone().nobody().send().await;
        assert_eq!((refused.status, refused.body.len()), (401, 0), "{path}");
        call.send().await.assert_replays(&first);
        assert_eq!(world.app.effects(path), 1);
    }
}
