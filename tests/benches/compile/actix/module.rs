//! Handlers of one kind.

use actix_web::{
    http::StatusCode,
    web::{Data, Json, Path},
};
use serde::{Deserialize, Serialize};

use crate::{
    User,
    app::{App, Failure},
};

#[derive(Deserialize)]
pub struct NewPayment {
    amount: u64,
    currency: String,
    reference: Option<String>,
}

#[derive(Serialize)]
pub struct Payment {
    account: u64,
    amount: u64,
    currency: String,
    reference: Option<String>,
    balance: u64,
}

pub async fn handler(
    app: Data<App>,
    account: Path<u64>,
    user: User,
    Json(new): Json<NewPayment>,
) -> Result<(Json<Payment>, StatusCode), Failure> {
    let account = account.into_inner();
    if new.amount == 0 {
        return Err(Failure::Invalid("amount"));
    }
    let balance = app.book(&user.0, account, new.amount).await?;
    let payment = Payment {
        account,
        amount: new.amount,
        currency: new.currency,
        reference: new.reference,
        balance,
    };
    Ok((Json(payment), StatusCode::CREATED))
}
