extern crate idem_axum as renamed;

mod facade {
    pub use idem_axum as idem;
}

use facade::idem::idempotent;

#[idempotent(crate = "crate::facade::idem", ttl = "1s")]
async fn from_the_root() {}

#[idempotent(crate = "self::facade::idem")]
async fn from_here() {}

#[idempotent(crate = "facade::idem")]
async fn relative() {}

#[idempotent(crate = "::idem_axum")]
async fn absolute() {}

#[renamed::idempotent(crate = "crate::renamed")]
async fn renamed_crate() {}

fn main() {
    let _ = (from_the_root, from_here, relative, absolute, renamed_crate);
}
