use axum::extract::Path;
use idem_axum::idempotent;

#[utoipa::path(post, path = "/{id}")]
#[axum::debug_handler]
#[idempotent]
#[tracing::instrument(skip_all, err)]
async fn udit(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/{id}")]
#[axum::debug_handler]
#[tracing::instrument(skip_all, err)]
#[idempotent]
async fn udti(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/{id}")]
#[tracing::instrument(skip_all, err)]
#[axum::debug_handler]
#[idempotent]
async fn utdi(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[axum::debug_handler]
#[utoipa::path(post, path = "/{id}")]
#[idempotent]
#[tracing::instrument(skip_all, err)]
async fn duit(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[axum::debug_handler]
#[utoipa::path(post, path = "/{id}")]
#[tracing::instrument(skip_all, err)]
#[idempotent]
async fn duti(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[axum::debug_handler]
#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/{id}")]
#[idempotent]
async fn dtui(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/{id}")]
#[axum::debug_handler]
#[idempotent]
async fn tudi(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[axum::debug_handler]
#[utoipa::path(post, path = "/{id}")]
#[idempotent]
async fn tdui(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

fn main() {}
