//! `GET /v1/models`: the valid values of `model`.

use super::{
    App, Sender,
    memory::Charge,
    respond::{self, ApiError, Reply},
};

/// Lists the models of every provider that responds. The list is the same for every sender.
pub(super) async fn list(app: &App, _: &Sender, charge: &Charge) -> Result<Reply, ApiError> {
    let lists = app.models.list().await;
    charge.grow(lists.iter().map(|list| list.len()).sum())?;
    Ok(respond::json_text(format!(r#"{{"object":"list","data":[{}]}}"#, lists.join(","))))
}
