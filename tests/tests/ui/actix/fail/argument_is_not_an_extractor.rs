use actix_web::web::{self, ServiceConfig};
use idem_actix::idempotent;

struct Login(u32);

#[idempotent]
async fn create(login: Login, _: String) -> String {
    login.0.to_string()
}

pub fn configure(config: &mut ServiceConfig) {
    config.route("/", web::post().to(create));
}

fn main() {}
