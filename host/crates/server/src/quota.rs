//! `GET /api/governance/virtual-keys/quota`: the limits of the virtual key of the request, and what is used of
//! them. The key itself is the credential, and sees no other key's.

use super::App;
use airlock_http::respond::{self, ApiError, Reply};
use airlock_operator_api::management;
use airlock_requests::Sender;

/// Shows the limits of the sender's key. Fails if it has none, or if the store cannot be used.
pub(super) async fn show(app: &App, sender: &Sender) -> Result<Reply, ApiError> {
    let Some(key) = &sender.key else {
        return Err(ApiError::unauthorized("send the virtual key whose limits are wanted"));
    };
    let Some(desk) = app.hooks.operators.management.clone() else {
        return Err(management::disabled());
    };
    let shown = desk.quota(key.membership()).await.map_err(management::refused)?;
    Ok(respond::json(&shown))
}
