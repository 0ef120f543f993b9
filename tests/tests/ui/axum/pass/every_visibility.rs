#![deny(warnings, private_interfaces, unnameable_types)]
#![allow(unused)]

pub mod outer {
    pub mod inner {
        use idem_axum::idempotent;

        #[idempotent]
        async fn private() {}

        #[idempotent]
        #[allow(clippy::needless_pub_self)]
        pub(self) async fn here() {}

        #[idempotent]
        pub(super) async fn above() {}

        #[idempotent]
        pub(in crate::outer) async fn within() {}

        #[idempotent]
        pub(crate) async fn everywhere() {}

        #[idempotent]
        pub async fn public() {}
    }

    fn reach() {
        let _ = (inner::above, inner::within);
    }
}

fn main() {
    let _ = (outer::inner::everywhere, outer::inner::public);
}
