use idem_actix::idempotent;

struct Service;

impl Service {
    #[idempotent]
    async fn create(&self) {}
}

fn main() {}
