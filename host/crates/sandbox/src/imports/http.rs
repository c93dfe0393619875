//! HTTP requests of guests, sent through the egress.

use airlock_egress::{Error, Request, Response, Session};
use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use super::{BASE_FUEL, Store, charge, charge_call};
use crate::{DeclaredEffect, Effect, run::instance::State};

/// Fuel that sending a request costs in addition to [`BASE_FUEL`].
pub(super) const SEND_FUEL: u64 = 9_000;
/// Bytes charged for one header in addition to its name and value.
const HEADER_BYTES: usize = 48;

/// Sends a request and waits for the whole response.
pub(crate) async fn send(
    mut store: Store<'_>,
    request: Request,
) -> wasmtime::Result<Result<Response, Error>> {
    charge_call(&mut store, BASE_FUEL + SEND_FUEL, request_bytes(&request))?;
    if let Some(effect) = undeclared(store.data_mut(), &request) {
        return Ok(Err(Error::undeclared(&effect.to_string())));
    }
    let Some(session) = store.data().wasi_http.session().cloned() else {
        return Ok(Err(Error::denied()));
    };
    store.data_mut().has_acted = true;
    let result = detach(&session, request).await;
    charge(&mut store, result.as_ref().map_or(0, response_bytes) as u64)?;
    Ok(result)
}

/// Returns an effect that a request needs and that the running tool does not declare. The egress
/// knows which destination a URL belongs to.
fn undeclared(state: &mut State, request: &Request) -> Option<DeclaredEffect> {
    let mut credentials = request.credentials.iter();
    state
        .lacks(Effect::Http, None)
        .or_else(|| credentials.find_map(|name| state.lacks(Effect::Secret, Some(name))))
}

/// Sends the request on a separate task, because this future is polled on the guest's small stack.
/// Dropping the future aborts the task.
async fn detach(session: &Session, request: Request) -> Result<Response, Error> {
    AbortOnDropHandle::new(tokio::spawn(session.send(request))).await.unwrap_or_else(|lost| {
        error!(cause = %lost, "an outbound request was lost");
        Err(Error::lost())
    })
}

/// Returns the bytes that a request is charged for.
pub(super) fn request_bytes(request: &Request) -> usize {
    request.method.len()
        + request.url.len()
        + header_bytes(&request.headers)
        + request.body.as_ref().map_or(0, bytes::Bytes::len)
        + request.credentials.iter().map(|name| size_of::<String>() + name.len()).sum::<usize>()
}

/// Returns the bytes that a response is charged for.
pub(super) fn response_bytes(response: &Response) -> usize {
    response.final_url.len() + header_bytes(&response.headers) + response.body.len()
}

fn header_bytes(headers: &[(String, Vec<u8>)]) -> usize {
    headers.iter().map(|(name, value)| HEADER_BYTES + name.len() + value.len()).sum()
}

#[cfg(test)]
pub(crate) mod tests;
