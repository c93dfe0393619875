//! Requests of guests, through the one way out of the host.

use airlock_egress::{Error, Request, Response, Session};
use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use super::{BASE_FUEL, Store, burn, charge};

/// What it costs on top to send a request, in fuel.
pub(super) const SEND_FUEL: u64 = 9_000;
/// What one header costs on top of its bytes.
const HEADER_BYTES: usize = 48;

/// Sends a request and waits for the whole response.
pub(crate) async fn send(
    mut store: Store<'_>,
    request: Request,
) -> wasmtime::Result<Result<Response, Error>> {
    charge(&mut store, BASE_FUEL + SEND_FUEL, request_bytes(&request))?;
    let Some(session) = store.data().wasi_http.session().cloned() else {
        return Ok(Err(Error::denied()));
    };
    let result = detach(&session, request).await;
    burn(&mut store, result.as_ref().map_or(0, response_bytes) as u64)?;
    Ok(result)
}

/// Sends on a task of its own: this future is polled on the guest's small stack. Dropping it aborts
/// the task.
async fn detach(session: &Session, request: Request) -> Result<Response, Error> {
    AbortOnDropHandle::new(tokio::spawn(session.send(request))).await.unwrap_or_else(|lost| {
        error!(cause = %lost, "an outbound request was lost");
        Err(Error::lost())
    })
}

/// What a request takes up.
pub(super) fn request_bytes(request: &Request) -> usize {
    request.method.len()
        + request.url.len()
        + header_bytes(&request.headers)
        + request.body.as_ref().map_or(0, bytes::Bytes::len)
}

/// What a response takes up.
pub(super) fn response_bytes(response: &Response) -> usize {
    response.final_url.len() + header_bytes(&response.headers) + response.body.len()
}

fn header_bytes(headers: &[(String, Vec<u8>)]) -> usize {
    headers.iter().map(|(name, value)| HEADER_BYTES + name.len() + value.len()).sum()
}

#[cfg(test)]
pub(crate) mod tests;
