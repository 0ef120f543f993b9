use idem_axum::idempotent;

trait Create {
    #[idempotent]
    async fn create();
}

fn main() {}
