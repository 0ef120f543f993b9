use idem_actix::idempotent;

#[idempotent]
async fn create(body: String) -> String {
    body
}

fn main() {
    drop(create("body".to_owned()));
}
