#![deny(warnings)]

use actix_web::Error;
use actix_web::middleware::NormalizePath;
use actix_web::web::{Path, ServiceConfig};
use idem_actix::idempotent;

#[utoipa::path(post, path = "/1/{id}")]
#[actix_web::post("/1/{id}", wrap = "NormalizePath::trim()")]
#[idempotent]
#[tracing::instrument(skip_all, err)]
async fn upit(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/2/{id}")]
#[actix_web::post("/2/{id}", wrap = "NormalizePath::trim()")]
#[tracing::instrument(skip_all, err)]
#[idempotent]
async fn upti(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/3/{id}")]
#[idempotent]
#[actix_web::post("/3/{id}", wrap = "NormalizePath::trim()")]
#[tracing::instrument(skip_all, err)]
async fn uipt(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/4/{id}")]
#[idempotent]
#[tracing::instrument(skip_all, err)]
#[actix_web::post("/4/{id}", wrap = "NormalizePath::trim()")]
async fn uitp(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/5/{id}")]
#[tracing::instrument(skip_all, err)]
#[actix_web::post("/5/{id}", wrap = "NormalizePath::trim()")]
#[idempotent]
async fn utpi(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[utoipa::path(post, path = "/6/{id}")]
#[tracing::instrument(skip_all, err)]
#[idempotent]
#[actix_web::post("/6/{id}", wrap = "NormalizePath::trim()")]
async fn utip(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[actix_web::post("/7/{id}", wrap = "NormalizePath::trim()")]
#[utoipa::path(post, path = "/7/{id}")]
#[idempotent]
#[tracing::instrument(skip_all, err)]
async fn puit(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[actix_web::post("/8/{id}", wrap = "NormalizePath::trim()")]
#[utoipa::path(post, path = "/8/{id}")]
#[tracing::instrument(skip_all, err)]
#[idempotent]
async fn puti(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[actix_web::post("/9/{id}", wrap = "NormalizePath::trim()")]
#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/9/{id}")]
#[idempotent]
async fn ptui(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/10/{id}")]
#[actix_web::post("/10/{id}", wrap = "NormalizePath::trim()")]
#[idempotent]
async fn tupi(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[utoipa::path(post, path = "/11/{id}")]
#[idempotent]
#[actix_web::post("/11/{id}", wrap = "NormalizePath::trim()")]
async fn tuip(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[tracing::instrument(skip_all, err)]
#[actix_web::post("/12/{id}", wrap = "NormalizePath::trim()")]
#[utoipa::path(post, path = "/12/{id}")]
#[idempotent]
async fn tpui(id: Path<u32>, body: String) -> Result<String, Error> {
    Ok(format!("{id} {body}"))
}

#[derive(utoipa::OpenApi)]
#[openapi(paths(upit, upti, uipt, uitp, utpi, utip, tupi, tuip))]
struct Api;

pub fn configure(config: &mut ServiceConfig) {
    let paths = <Api as utoipa::OpenApi>::openapi().paths.paths;
    assert_eq!(paths.len(), 8);
    config
        .service(upit)
        .service(upti)
        .service(uipt)
        .service(uitp)
        .service(utpi)
        .service(utip)
        .service(puit)
        .service(puti)
        .service(ptui)
        .service(tupi)
        .service(tuip)
        .service(tpui);
}
