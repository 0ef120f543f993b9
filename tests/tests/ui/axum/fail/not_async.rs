use idem_axum::idempotent;

#[idempotent]
fn create() -> impl Future<Output = &'static str> {
    std::future::ready("created")
}

fn main() {}
