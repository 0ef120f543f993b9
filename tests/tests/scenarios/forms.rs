//! Every form of a handler that the attribute accepts, at work: none compiles into a handler without
//! protection. B15-01

use std::{collections::BTreeSet, fs, net::SocketAddr, path::Path};

use axum::Router;
use idem_tests::{Answer, Call, actix_app, axum_app};
use idem_tests_2024::{actix, axum as on_axum};
use reqwest::Client;

#[tokio::test]
async fn every_form_on_axum_is_protected() {
    let idem = idem_axum::Idempotency::builder(idem_axum::MemoryStore::new())
        .scope("user", |_: &http::request::Parts| Some("ada".to_owned()))
        .scope("tenant", |_: &http::request::Parts| Some("acme".to_owned()))
        .build()
        .expect("the settings are valid");
    let forms = on_axum::routers();
    let router = forms.iter().fold(Router::new(), |router, (name, form)| {
        router.nest(&format!("/{name}"), form())
    });
    let (addr, server) = axum_app::serve(router.layer(idem)).await;

    let forms = forms.iter().map(|(name, _)| *name);
    assert_protected(addr, "axum", forms, &[]).await;
    server.abort();
}

#[tokio::test]
async fn every_form_on_actix_is_protected() {
    let idem = idem_actix::Idempotency::builder(idem_actix::MemoryStore::new())
        .scope("user", |_: &actix_web::HttpRequest| Some("ada".to_owned()))
        .scope("tenant", |_: &actix_web::HttpRequest| {
            Some("acme".to_owned())
        })
        .build()
        .expect("the settings are valid");
    let factory = move || {
        let app = actix_web::App::new().app_data(idem.clone());
        actix::configures()
            .into_iter()
            .fold(app, |app, (name, form)| {
                app.service(actix_web::web::scope(&format!("/{name}")).configure(form))
            })
    };
    let (addr, server) = actix_app::serve(factory, 1).await;

    let forms = actix::configures().into_iter().map(|(name, _)| name);
    assert_protected(addr, "actix", forms, &["route_attributes/12"]).await;
    server.abort();
}

/// Sends each request twice, and the second is answered from the record; but for those of a safe
/// method, which needs no protection.
async fn assert_protected(
    addr: SocketAddr,
    framework: &str,
    forms: impl Iterator<Item = &'static str>,
    safe: &[&str],
) {
    let client = Client::builder().redirect(reqwest::redirect::Policy::none());
    let client = client.no_proxy().build().expect("a client");
    let mut number = 0;
    let mut unprotected = Vec::new();
    for form in forms {
        let paths = paths(framework, form);
        assert!(!paths.is_empty(), "{form} has no route");
        for path in paths {
            number += 1;
            let path = format!("{form}{path}");
            let key = format!("00000000-0000-4000-8000-{number:012}");
            let call = |method| {
                Call::new(client.clone(), addr, method, &format!("/{path}"))
                    .key(&key)
                    .set("x-event-id", &key)
                    .json("[1, 2]")
            };
            let (first, second) = twice(call).await;
            let is_replay = second.header("idempotent-replayed") == Some("true")
                && first.header("idempotent-replayed").is_none()
                && (second.status, &second.body) == (first.status, &first.body);
            if is_replay == safe.contains(&&*path) {
                unprotected.push((path, first, second));
            }
        }
    }
    assert!(unprotected.is_empty(), "{framework}: {unprotected:#?}");
}

/// The two answers, with the method that the route has.
async fn twice(call: impl Fn(&'static str) -> Call) -> (Answer, Answer) {
    for method in ["POST", "PUT", "PATCH", "GET"] {
        let first = call(method).send().await;
        if ![404, 405].contains(&first.status) {
            return (first, call(method).send().await);
        }
    }
    panic!("no method is right for {:?}", call("POST"));
}

/// The paths that the file of a form says, with their parameters filled in.
fn paths(framework: &str, form: &str) -> BTreeSet<String> {
    let file = format!("tests/ui/{framework}/pass/{form}.rs");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = fs::read_to_string(file).expect("a form has a file");
    text.split('"')
        .filter(|text| {
            text.strip_prefix('/')
                .is_some_and(|path| path.starts_with(|first: char| first.is_ascii_digit()))
        })
        .map(|path| {
            let segments = path.split('/');
            let segments = segments.map(|it| if it.starts_with('{') { "7" } else { it });
            segments.collect::<Vec<_>>().join("/")
        })
        .collect()
}
