use axum::extract::Path;
use idem_axum::idempotent;

#[axum::debug_handler]
#[idempotent]
#[utoipa::path(post, path = "/{id}")]
#[tracing::instrument(skip_all, err)]
async fn diut(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[axum::debug_handler]
#[idempotent]
#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/{id}")]
async fn ditu(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[axum::debug_handler]
#[tracing::instrument(skip_all, err)]
#[idempotent]
#[utoipa::path(post, path = "/{id}")]
async fn dtiu(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[utoipa::path(post, path = "/{id}")]
#[axum::debug_handler]
#[tracing::instrument(skip_all, err)]
async fn iudt(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[utoipa::path(post, path = "/{id}")]
#[tracing::instrument(skip_all, err)]
#[axum::debug_handler]
async fn iutd(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[axum::debug_handler]
#[utoipa::path(post, path = "/{id}")]
#[tracing::instrument(skip_all, err)]
async fn idut(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[axum::debug_handler]
#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/{id}")]
async fn idtu(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/{id}")]
#[axum::debug_handler]
async fn itud(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[tracing::instrument(skip_all, err)]
#[axum::debug_handler]
#[utoipa::path(post, path = "/{id}")]
async fn itdu(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[axum::debug_handler]
#[idempotent]
#[utoipa::path(post, path = "/{id}")]
async fn tdiu(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[idempotent]
#[utoipa::path(post, path = "/{id}")]
#[axum::debug_handler]
async fn tiud(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[idempotent]
#[axum::debug_handler]
#[utoipa::path(post, path = "/{id}")]
async fn tidu(Path(id): Path<u32>, body: String) -> Result<String, String> {
    Ok(format!("{id} {body}"))
}

fn main() {}
