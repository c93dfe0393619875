//! `GET /v1/models` and `GET /v1/models/{id}`: the valid values of `model`.

use percent_encoding::percent_decode_str;

use super::App;
use airlock_core::{request_memory::RequestCharge, threads};
use airlock_http::respond::{self, ApiError, Reply};
use airlock_json::raw;
use airlock_requests::Sender;
use airlock_strings::cut;

/// Start of the path of one model.
const PREFIX: &str = "/v1/models/";
/// Maximum length of an identifier that an error repeats, in bytes.
const SHOWN_BYTES: usize = 128;

/// Lists the models of every provider that responds. The list is the same for every sender.
pub(super) async fn list(app: &App, _: &Sender, charge: &RequestCharge) -> Result<Reply, ApiError> {
    let lists = app.parts.models.list().await;
    charge.grow(lists.iter().map(|list| list.len()).sum())?;
    Ok(respond::json_text(format!(r#"{{"object":"list","data":[{}]}}"#, lists.join(","))))
}

/// Shows one model of the list. Fails if it is not in it.
pub(super) async fn show(app: &App, id: &str, charge: &RequestCharge) -> Result<Reply, ApiError> {
    let id = percent_decode_str(id).decode_utf8_lossy().into_owned();
    let lists = app.parts.models.list().await;
    let bytes: usize = lists.iter().map(|list| list.len()).sum();
    charge.grow(bytes)?;
    let wanted = id.clone();
    let found = threads::read(charge.tenant(), bytes, move || {
        lists.iter().find_map(|list| find(list, &wanted))
    });
    if let Some(model) = found.await {
        return Ok(respond::json_text(model));
    }
    let shown = cut(id, SHOWN_BYTES);
    let message = format!(
        "there is no model {shown:?}; /v1/models lists the models of the providers that respond"
    );
    Err(ApiError::not_found("model_not_found", message).about("model"))
}

/// Returns the model with this identifier from a list: JSON texts with commas between them.
fn find(list: &str, id: &str) -> Option<String> {
    let list = format!("[{list}]");
    let mut models = raw::elements(&list).into_iter().flatten();
    let found = models
        .find(|model| raw::member(model, "id").and_then(raw::string).is_some_and(|own| own == id));
    found.map(str::to_owned)
}

/// Returns the identifier in the path of one model. It has a slash, which may be encoded.
pub(super) fn parse_path(path: &str) -> Option<&str> {
    path.strip_prefix(PREFIX).filter(|id| !id.is_empty())
}
