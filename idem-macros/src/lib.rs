//! The `#[idempotent]` attribute.
//!
//! Use it through `idem-axum`, which re-exports [`macro@idempotent_axum`] as `idempotent`, beside
//! the types that its expansion names. There is one macro for each framework, named after it; they
//! differ only in whose adapter they call.
//!
//! The macro is a pipeline of pure functions: `args` reads the arguments, `handler` takes the
//! function apart (`variant` its argument list), `expand` writes the new one.

mod args;
mod associated;
mod diagnostics;
mod duration;
mod expand;
mod handler;
mod variant;

use proc_macro::TokenStream;

use crate::expand::Framework;

/// Makes an axum handler safe to repeat.
///
/// A request with an `Idempotency-Key` runs the handler once; every later request with the same key
/// is answered with the first answer. A request without a key is handled as if the attribute were
/// not there.
///
/// ```ignore
/// // Not compiled here: `idem-axum` depends on this crate. Its documentation has a whole program.
/// #[idempotent(scope = "user", ttl = "24h")]
/// async fn create_payment(
///     State(app): State<App>,
///     user: AuthUser,
///     Json(body): Json<NewPayment>,
/// ) -> Result<(StatusCode, Json<Payment>), AppError> {
///     app.pay(user, body).await
/// }
/// ```
///
/// # Arguments
///
/// All are optional. What is not written is the engine's choice; the default is what the engine
/// chooses unless it is told otherwise.
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `scope = "user"` | within what a key is unique. `"user"`: an operation and a caller. `"endpoint"`: an operation alone, shared by all callers. Any other name: a resolver registered on the engine | `"user"` |
/// | `ttl = "24h"` | life of a completed record, from its completion | `24h` |
/// | `lease = "30s"` | how long a claim lives unrenewed, so how long a key stays blocked after its process died | `30s` |
/// | `wait = "10s"` | how long a request waits for a running one with the same key | no wait: 409 |
/// | `required`, `required = "any"` | a POST or PATCH (with `"any"`: every method that is not safe) without a key is refused with 400 | a key is optional |
/// | `header = "X-Event-Id"` | the header that carries the key | `Idempotency-Key` |
/// | `key_format = "uuid"` | a key that is no UUID is refused with 400 | any key |
/// | `operation = "payments.create"` | the name by which records are kept apart, instead of the route's | method and route |
/// | `on_lapse = "unknown"` | what follows an attempt that never ended. `"takeover"`: the next equal request runs the handler again. `"unknown"`: it is answered 409 `outcome-unknown` until somebody decides, for seven days or for `ttl` if that is longer | `"takeover"` |
/// | `associated` | the handler is a function in an `impl` block; see [below](#functions-in-an-impl-block) | a free function |
/// | `crate = "my_idem"` | where the adapter is, for a renamed or re-exported crate | `::idem_axum` |
///
/// A duration is a number and a unit: `300ms`, `30s`, `15m`, `24h` or `7d`, at most 100 years
/// (`36500d`), or a constant expression of type [`Duration`](std::time::Duration). It must be longer
/// than zero. Both forms are checked when the handler is compiled.
///
/// `operation` names what the handler does, whatever its route is called. The path is still part of
/// what a key stands for: after a change of the route, an honest retry on the new path is refused with
/// 409 `key-reused`, and not replayed. Nothing runs twice.
///
/// # Handlers
///
/// Any `async fn` without `self` that is an axum handler can have the attribute: with up to 16
/// arguments, with type and const parameters, and with any return type that is a response. Not
/// supported is `impl Trait` in the arguments.
///
/// An argument can be under `#[cfg(…)]`, but not under a `#[cfg_attr(…, cfg(…))]`. The arguments of a
/// handler can depend on up to six different conditions. Its list of arguments is written once for
/// every outcome of these, so twice as often for each, and the compiler keeps one; the body is
/// written once.
///
/// The function that other code sees takes one argument and returns a `Response`, so it can be
/// routed as before, but not called directly. Inside the body its name still means the handler.
///
/// # Functions in an `impl` block
///
/// An associated function says so:
///
/// ```ignore
/// impl Payments {
///     #[idempotent(associated, scope = "user", ttl = "24h")]
///     async fn create(Json(new): Json<NewPayment>) -> Result<Json<Self>, AppError> { /* … */ }
/// }
/// // post(Payments::create)
/// ```
///
/// `Self` and the parameters of the `impl` mean what they always do, except in a constant duration:
/// there the type is named. The `impl` is that of a type and not of a trait. What differs from a free
/// function:
///
/// * The policy is known only when the handler runs. So the key comes in the engine's header, and
///   `header` is refused. The body is read whenever that header is there; the key, its form, a key that is
///   missing and the caller are looked at after the last argument and not before it, so that a request that
///   is wrong in both is refused for its arguments.
/// * The handler itself is a function beside this one, called `__idem_create`. That is also what
///   `#[tracing::instrument]` calls its span, unless it says `name = "create"`. Inside the body,
///   `Self::create` means the function that other code sees, so it cannot be called.
/// * `#[expect]` means `#[allow]`: what is expected happens in one of the two functions.
/// * `#[debug_handler]` does not compile on it, nor would it without `#[idempotent]`.
///
/// # Other attributes
///
/// Those that need the signature as it was written go above: `#[utoipa::path]`. All others go
/// below, where they apply to the handler itself and run only when it runs: `#[debug_handler]`,
/// `#[tracing::instrument]`. Documentation, lint levels, `#[deprecated]` and `#[must_use]` can
/// stand on either side.
///
/// Each order works or is an error; none takes the protection away. `#[instrument]` may stand
/// anywhere. The first line that fits the others says how an order ends:
///
/// | from the top | |
/// |---|---|
/// | `utoipa::path` … `idempotent` … `debug_handler` | works |
/// | `idempotent` … `utoipa::path` | `` error: this attribute must see the handler's own arguments; move it above `#[idempotent]` `` |
/// | `debug_handler` … `idempotent` | `` error[E0061]: this function takes 1 argument but 2 arguments were supplied `` |
///
/// The last one is the compiler's, at the handler's name, and counts the handler's arguments: it
/// means that `#[debug_handler]` belongs below.
///
/// ```ignore
/// #[utoipa::path(post, path = "/payments")]
/// #[idempotent(scope = "user")]
/// #[axum::debug_handler]
/// #[tracing::instrument(skip_all)]
/// async fn create_payment(/* … */) { /* … */ }
/// ```
#[proc_macro_attribute]
pub fn idempotent_axum(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::idempotent(Framework::Axum, args.into(), &item.into()).into()
}

/// Makes an actix-web handler safe to repeat.
///
/// A request with an `Idempotency-Key` runs the handler once; every later request with the same key
/// is answered with the first answer. A request without a key is handled as if the attribute were
/// not there.
///
/// ```ignore
/// // Not compiled here: `idem-actix` depends on this crate. Its documentation has a whole program.
/// #[post("/payments")]
/// #[idempotent(scope = "user", ttl = "24h")]
/// async fn create_payment(
///     bank: web::Data<Bank>,
///     user: AuthUser,
///     new: web::Json<NewPayment>,
/// ) -> Result<HttpResponse, BankError> {
///     bank.pay(user, new.into_inner()).await
/// }
/// ```
///
/// # Arguments
///
/// Those of [`macro@idempotent_axum`]; where the adapter is, is `::idem_actix` unless
/// `crate = "…"` says otherwise.
///
/// # Handlers
///
/// Any `async fn` without `self` that is an actix-web handler can have the attribute: with up to 16
/// arguments, with type and const parameters, and with any return type that is a responder. It need
/// not be `Send`. Not supported is `impl Trait` in the arguments, and those can be under `#[cfg(…)]` as
/// those of [`macro@idempotent_axum`] can.
///
/// The function that other code sees takes one argument and returns an `HttpResponse`, so it can be
/// routed as before, but not called directly. Inside the body its name still means the handler.
///
/// # Functions in an `impl` block
///
/// They say `associated`, and differ from free functions as those of [`macro@idempotent_axum`] do.
///
/// # Other attributes
///
/// `#[get]`, `#[post]`, `#[route]`, `#[routes]` and the other route attributes of actix-web can stand
/// above or below; one that was renamed stands above. `#[utoipa::path]` goes above. All others go
/// below, where they apply to the handler itself and run only when it runs:
/// `#[tracing::instrument]`. Documentation, lint levels, `#[deprecated]` and `#[must_use]` can stand
/// on either side.
///
/// Each order works or is an error; none takes the protection away. The route attributes and
/// `#[instrument]` may stand anywhere:
///
/// | from the top | |
/// |---|---|
/// | `utoipa::path` … `idempotent` | works |
/// | `idempotent` … `utoipa::path` | `` error: this attribute must see the handler's own arguments; move it above `#[idempotent]` `` |
///
/// `#[utoipa::path]` stands above the route attribute too, as without us: a `paths(…)` of utoipa
/// finds it only there.
///
/// ```ignore
/// #[utoipa::path(post, path = "/payments", responses((status = 201)))]
/// #[post("/payments", wrap = "Login")]
/// #[idempotent(scope = "user")]
/// #[tracing::instrument(skip_all)]
/// async fn create_payment(/* … */) { /* … */ }
/// ```
#[proc_macro_attribute]
pub fn idempotent_actix(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::idempotent(Framework::Actix, args.into(), &item.into()).into()
}
