//! What a record takes, and what it tells whoever reads the memory of the server.

use idem_core::store::{Claim, Completion};

use crate::{
    attempt::{Attempt, CALLER, OPERATION, paid, record_of},
    world::World,
};

/// The limits are classes of the server's allocator: one byte more, and a record takes the next.
#[tokio::test]
async fn a_record_is_small() {
    let world = World::shared().await;
    for (response, class, most) in [(190, 320, 424), (600, 768, 872)] {
        let mut attempt = Attempt::fresh();
        attempt.acquire(&world.store).await;
        let claimed: usize = world
            .ask("MEMORY USAGE", &[&world.name(attempt.key())])
            .await;
        let _ = attempt.complete(&world.store, &record_of(response)).await;
        let name = world.name(attempt.key()).replace(&world.prefix, "idem:v1:");
        let _: () = world
            .ask("COPY", &[&world.name(attempt.key()), &name])
            .await;
        let used: usize = world.ask("MEMORY USAGE", &[&name]).await;
        let _: () = world.ask("DEL", &[&name]).await;
        let value = world.value(attempt.key()).await.expect("a record").len();
        eprintln!("in progress {claimed} B; with {response} B: value {value} B, in all {used} B");
        // The server adds a header of five bytes and a zero.
        assert!(value + 6 <= class, "{value} bytes");
        assert!(used <= most, "{used} bytes");
    }
}

#[tokio::test]
async fn a_record_names_neither_the_key_nor_the_caller() {
    let world = World::shared().await;
    let mut attempt = Attempt::fresh();
    attempt.acquire(&world.store).await;
    let _ = attempt.complete(&world.store, &paid()).await;

    let pattern = format!("{}*", world.prefix);
    let names: Vec<String> = world.ask("KEYS", &[&pattern]).await;
    assert_eq!(names, [world.name(attempt.key())]);
    let digest = names[0].strip_prefix(&world.prefix).expect("the prefix");
    assert_eq!(digest.len(), 45);
    assert!(digest.starts_with('{') && digest.ends_with('}'), "{digest}");

    let value = world.value(attempt.key()).await.expect("a record");
    let holds = |text: &str| {
        let text = text.as_bytes();
        value.windows(text.len()).any(|part| part == text)
    };
    assert!(holds(OPERATION));
    assert!(!holds(CALLER) && !holds("ada"));
    let key = attempt.client_key();
    assert!(!holds(key) && !holds(&key[..5]) && !holds(&key[key.len() - 5..]));
}

/// An operation as long as somebody cares to name it, and a namespace too.
#[tokio::test]
async fn a_long_operation_is_cut_and_told_apart_by_its_digest() {
    use idem_core::{Store, store::Audit};
    let world = World::shared().await;
    let mut told = Vec::new();
    for end in ["a", "b"] {
        let attempt = Attempt::fresh();
        let (operation, namespace) = ("ö".repeat(40_000) + end, "n".repeat(300) + end);
        let audit = Audit {
            operation: &operation,
            namespace: &namespace,
            ..attempt.audit()
        };
        let claim = idem_core::store::ClaimRequest {
            audit,
            ..attempt.as_claim()
        };
        let claim = world.store.claim(&claim).await.expect("it answers");
        assert!(matches!(claim, Claim::Acquired { .. }), "{claim:?}");
        let value = world.value(attempt.key()).await.expect("a record");
        assert!(value.len() <= 53 + 33 + 512, "{} bytes", value.len());
        let completion = attempt.complete(&world.store, &paid()).await;
        assert_eq!(completion, Completion::Stored);
        let summary = world.store.inspect(attempt.key()).await;
        let summary = summary.expect("it answers").expect("a record");
        assert!(summary.operation.starts_with("öö"));
        told.push((summary.namespace, summary.operation));
    }
    assert_ne!(told[0].0, told[1].0);
    assert_ne!(told[0].1, told[1].1);
}
