//! A handler whose own transactions use the pool of the store.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Extension, Router, extract::State, http::StatusCode, routing::post};
use idem_axum::{Attempt, Idempotency, Principal, idempotent};
use idem_core::PostgresStore;
use idem_services::Postgres;
use idem_tests::axum_app::serve;
use sqlx::{Executor, PgPool};

/// A shop with its database, and a provider that remembers what it was asked.
#[derive(Clone)]
struct Shop {
    pool: PgPool,
    charges: Arc<AtomicUsize>,
    keys: Arc<Mutex<Vec<String>>>,
}

/// Charges at the provider inside of a transaction, which is rolled back the first time.
#[idempotent]
async fn charge(State(shop): State<Shop>, attempt: Attempt, _body: String) -> StatusCode {
    let mut transaction = shop.pool.begin().await.expect("a connection");
    let order = "INSERT INTO orders DEFAULT VALUES";
    transaction
        .execute(order)
        .await
        .expect("the table is there");
    let key = attempt.downstream_key("charge");
    shop.keys.lock().expect("no panic").push(key);
    if shop.charges.fetch_add(1, Ordering::Relaxed) == 0 {
        transaction.rollback().await.expect("it is open");
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    transaction.commit().await.expect("it is open");
    StatusCode::CREATED
}

/// B06-03: the claim is committed outside of the handler's transaction, and is not undone with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_rolls_back_keeps_its_key() {
    let database = format!("shop_{:016x}", rand::random::<u64>());
    let url = Postgres::shared().await.create_database(&database, &[]);
    let pool = PgPool::connect(&url.await).await.expect("the server runs");
    let table = "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY)";
    pool.execute(table).await.expect("the database is new");
    let store = PostgresStore::from_pool(pool.clone());
    store.migrate().await.expect("the database is new");
    let shop = Shop {
        pool: pool.clone(),
        charges: Arc::default(),
        keys: Arc::default(),
    };
    let router = Router::new()
        .route("/charge", post(charge))
        .with_state(shop.clone())
        .layer(Idempotency::new(store))
        .layer(Extension(Principal::new("ada")));
    let (addr, _server) = serve(router).await;
    let send = async |body: &'static str| {
        let request = reqwest::Client::new().post(format!("http://{addr}/charge"));
        let request = request.header("idempotency-key", "k").body(body);
        let answer = request.send().await.expect("an answer");
        let replayed = answer.headers().contains_key("idempotent-replayed");
        (answer.status().as_u16(), replayed)
    };

    assert_eq!(send("12 EUR").await, (500, false));
    // The key stays bound to its request, though all that the handler wrote is gone.
    assert_eq!(send("99 EUR").await, (409, false));
    assert_eq!(send("12 EUR").await, (201, false));
    assert_eq!(send("12 EUR").await, (201, true));

    let orders = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM orders");
    assert_eq!(orders.fetch_one(&pool).await.expect("it answers"), 1);
    // The provider was asked twice, with one key.
    let keys = shop.keys.lock().expect("no panic").clone();
    assert_eq!((keys.len(), &keys[0]), (2, &keys[1]));
}
