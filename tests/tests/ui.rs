//! What the attribute says of everything that it does not accept: one small file for each.
//!
//! `TRYBUILD=overwrite cargo test -p idem-tests --test ui` writes the messages anew; read the
//! difference line by line. What is accepted is in `ui/<framework>/pass/`, and compiled in
//! `editions/`.

use std::{collections::BTreeMap, fs};

#[test]
fn every_mistake_is_reported_where_it_is_on_axum() {
    trybuild::TestCases::new().compile_fail("tests/ui/axum/fail/*.rs");
}

#[test]
fn every_mistake_is_reported_where_it_is_on_actix() {
    trybuild::TestCases::new().compile_fail("tests/ui/actix/fail/*.rs");
}

/// B15-01
#[test]
fn every_order_of_attributes_is_tried_and_ends_as_documented_on_axum() {
    let attributes = ["utoipa::path", "debug_handler", "instrument", "idempotent"];
    assert_orders("axum", attributes, &["refused", "impossible"]);
}

/// B15-01
#[test]
fn every_order_of_attributes_is_tried_and_ends_as_documented_on_actix() {
    let attributes = ["utoipa::path", "post", "instrument", "idempotent"];
    assert_orders("actix", attributes, &["refused"]);
}

fn assert_orders(framework: &str, attributes: [&str; 4], failures: &[&str]) {
    let mut endings = BTreeMap::new();
    for order in orders(&read(&format!("{framework}/pass"), "legal", "rs")) {
        assert_eq!(endings.insert(order, "works".to_owned()), None);
    }
    for failure in failures {
        let fail = format!("{framework}/fail");
        let tried = orders(&read(&fail, failure, "rs"));
        let said = read(&fail, failure, "stderr");
        let mut errors = said.lines().filter(|line| line.starts_with("error"));
        for order in tried {
            // One for each, in the order of the source.
            let error = errors.next().expect("each order is an error");
            assert_eq!(endings.insert(order, error.to_owned()), None);
        }
        assert_eq!(errors.next(), None, "an order has more than one error");
    }

    let documented = documented(framework);
    for order in permutations(&attributes) {
        let (_, ending) = documented
            .iter()
            .find(|(pattern, _)| is_among(pattern, &order))
            .unwrap_or_else(|| panic!("{order:?} is not documented"));
        let tried = endings.remove(&order);
        assert_eq!(tried.as_ref(), Some(ending), "{order:?}");
    }
    assert!(endings.is_empty(), "{endings:?}");
}

type Order = Vec<String>;

fn read(directory: &str, orders: &str, extension: &str) -> String {
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ui");
    let file = format!("{tests}/{directory}/attributes_in_every_{orders}_order.{extension}");
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The attributes of each function, from the top.
fn orders(source: &str) -> Vec<Order> {
    let mut orders = Vec::new();
    let mut order = Order::new();
    for line in source.lines() {
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split(['(', ']']).next().expect("there is one");
            let name = path.rsplit("::").next().expect("there is one");
            order.push(if name == "path" { path } else { name }.to_owned());
        } else if line.starts_with("async fn") {
            orders.push(std::mem::take(&mut order));
        } else {
            order.clear();
        }
    }
    orders
}

/// The rows of the table in the documentation: what stands above what, and how that ends.
fn documented(framework: &str) -> Vec<(Order, String)> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../idem-macros/src/lib.rs");
    let source = fs::read_to_string(source).expect("the macro is there");
    let end = source.find(&format!("pub fn idempotent_{framework}"));
    let source = &source[..end.expect("it is documented")];
    let table = source.rfind("/// | from the top |").expect("its table");
    let rows = source[table..].lines().skip(2);
    rows.map_while(|line| line.strip_prefix("/// | ")?.strip_suffix(" |"))
        .map(|row| {
            let (order, ending) = row.split_once(" | ").expect("two cells");
            let names = order.split(" … ").map(|name| name.trim_matches('`'));
            let error = ending
                .strip_prefix("``")
                .and_then(|it| it.strip_suffix("``"));
            let ending = error.map_or(ending, str::trim);
            (names.map(str::to_owned).collect(), ending.to_owned())
        })
        .collect()
}

/// Whether all of `pattern` is in `order`, one after the other.
fn is_among(pattern: &[String], order: &[String]) -> bool {
    let mut order = order.iter();
    pattern.iter().all(|name| order.any(|it| it == name))
}

fn permutations(names: &[&str]) -> Vec<Order> {
    let Some((first, others)) = names.split_first() else {
        return vec![Order::new()];
    };
    let insert = |order: Order, at| {
        let mut order = order;
        order.insert(at, (*first).to_owned());
        order
    };
    permutations(others)
        .into_iter()
        .flat_map(|order| (0..=order.len()).map(move |at| insert(order.clone(), at)))
        .collect()
}
