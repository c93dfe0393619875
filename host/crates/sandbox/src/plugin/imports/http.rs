//! HTTP requests of guests, sent through the egress.

use airlock_egress::{EgressError, EgressRequest, EgressResponse, Session};
use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use super::http_cost::{SEND_FUEL, request_bytes, response_bytes};
use crate::{
    DeclaredEffect, Effect,
    plugin::side::PluginSide,
    run::{
        charge::{BASE_FUEL, charge, charge_call},
        state::{State, Store},
    },
};

/// Sends a request and waits for the whole response.
pub(crate) async fn send(
    mut store: Store<'_, PluginSide>,
    request: EgressRequest,
) -> wasmtime::Result<Result<EgressResponse, EgressError>> {
    charge_call(&mut store, BASE_FUEL + SEND_FUEL, request_bytes(&request))?;
    if let Some(effect) = undeclared(store.data_mut(), &request) {
        return Ok(Err(EgressError::undeclared(&effect.to_string())));
    }
    let Some(session) = store.data().running.wasi_http.session().cloned() else {
        return Ok(Err(EgressError::denied()));
    };
    store.data_mut().running.has_acted = true;
    let result = detach(&session, request).await;
    charge(&mut store, result.as_ref().map_or(0, response_bytes) as u64)?;
    Ok(result)
}

/// Returns an effect that a request needs and that the running tool does not declare. The egress
/// knows which destination a URL belongs to.
fn undeclared(state: &mut State<PluginSide>, request: &EgressRequest) -> Option<DeclaredEffect> {
    let mut credentials = request.credentials.iter();
    state
        .lacks(Effect::Http, None)
        .or_else(|| credentials.find_map(|name| state.lacks(Effect::Secret, Some(name))))
}

/// Sends the request on a separate task, because this future is polled on the guest's small stack.
/// Dropping the future aborts the task.
async fn detach(session: &Session, request: EgressRequest) -> Result<EgressResponse, EgressError> {
    AbortOnDropHandle::new(tokio::spawn(session.send(request))).await.unwrap_or_else(|lost| {
        error!(cause = %lost, "an outbound request was lost");
        Err(EgressError::lost())
    })
}

#[cfg(test)]
pub(crate) mod tests;
