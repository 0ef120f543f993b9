use actix_web::Error;
use actix_web::web::Path;
use idem_actix::idempotent;

#[actix_web::post("/{id}")]
#[idempotent]
#[utoipa::path(post, path = "/{id}")]
#[tracing::instrument(skip_all, err)]
async fn piut(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[actix_web::post("/{id}")]
#[idempotent]
#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/{id}")]
async fn pitu(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[actix_web::post("/{id}")]
#[tracing::instrument(skip_all, err)]
#[idempotent]
#[utoipa::path(post, path = "/{id}")]
async fn ptiu(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[utoipa::path(post, path = "/{id}")]
#[actix_web::post("/{id}")]
#[tracing::instrument(skip_all, err)]
async fn iupt(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[utoipa::path(post, path = "/{id}")]
#[tracing::instrument(skip_all, err)]
#[actix_web::post("/{id}")]
async fn iutp(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[actix_web::post("/{id}")]
#[utoipa::path(post, path = "/{id}")]
#[tracing::instrument(skip_all, err)]
async fn iput(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[actix_web::post("/{id}")]
#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/{id}")]
async fn iptu(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/{id}")]
#[actix_web::post("/{id}")]
async fn itup(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[idempotent]
#[tracing::instrument(skip_all, err)]
#[actix_web::post("/{id}")]
#[utoipa::path(post, path = "/{id}")]
async fn itpu(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[actix_web::post("/{id}")]
#[idempotent]
#[utoipa::path(post, path = "/{id}")]
async fn tpiu(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[idempotent]
#[utoipa::path(post, path = "/{id}")]
#[actix_web::post("/{id}")]
async fn tiup(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[idempotent]
#[actix_web::post("/{id}")]
#[utoipa::path(post, path = "/{id}")]
async fn tipu(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

fn main() {}
