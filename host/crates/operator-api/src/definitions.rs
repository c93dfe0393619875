//! `/api/mcp/client/{name}/definitions`: the changed definitions of an MCP server, and their acceptance by an operator.

use std::collections::BTreeSet;

use http::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tracing::info;

use super::{
    DefinitionsToAccept, NotAccepted, OperatorApi,
    event_bus::Topic,
    operator::{OperatorAct, RequestOperator},
};
use airlock_catalog::MAX_TOOLS_PER_CLIENT;
use airlock_core::{
    act::{Act, ActKind, Actor},
    operator::Operator,
    request_memory::RequestCharge,
};
use airlock_http::{
    body,
    listing::Page,
    respond::{self, ApiError, Reply},
    work,
};
use airlock_ingress::RequestBody;
use airlock_strings::{cut, visible_line};

const PREFIX: &str = "/api/mcp/client/";
/// Maximum bytes of a part of the record of an acceptance, or of a dry run.
pub(crate) const RECORDED_BYTES: usize = 200;
/// Maximum bytes of the names of tools in it.
const RECORDED_NAMES_BYTES: usize = 2_000;

/// Request about the changed definitions of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionsTarget<'p> {
    /// Shows them.
    Show(&'p str),
    /// Accepts them as they were shown.
    Accept(&'p str),
}

impl<'p> DefinitionsTarget<'p> {
    /// Returns the request that a path means; `None` for other paths.
    pub(super) fn parse(path: &'p str) -> Option<Self> {
        let (client, operation) = path.strip_prefix(PREFIX)?.split_once('/')?;
        match operation {
            _ if client.is_empty() => None,
            "definitions" => Some(Self::Show(client)),
            "definitions/accept" => Some(Self::Accept(client)),
            _ => None,
        }
    }

    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::Show(_) => &[Method::GET, Method::HEAD],
            Self::Accept(_) => &[Method::POST],
        }
    }

    pub(super) fn act(self) -> OperatorAct {
        match self {
            Self::Show(_) => OperatorAct::ReadDefinitions,
            Self::Accept(_) => OperatorAct::AcceptDefinitions,
        }
    }
}

/// Body of an acceptance.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptBody {
    /// Digest of the review that was shown.
    review: String,
    /// Tools whose changes are accepted; absent for all changes of the review.
    #[serde(default)]
    tools: Option<BTreeSet<String>>,
}

/// Handles a request of an operator who may send it.
pub(super) async fn run(
    api: &OperatorApi,
    actor: &RequestOperator,
    target: DefinitionsTarget<'_>,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    match target {
        DefinitionsTarget::Show(client) => {
            let head = request.into_parts().0;
            show(api, client, head.uri.query().unwrap_or_default(), charge).await
        }
        DefinitionsTarget::Accept(client) => accept(api, actor, client, request, charge).await,
    }
}

/// Shows a page of the changes. They are compared on a blocking thread.
async fn show(
    api: &OperatorApi,
    client: &str,
    query: &str,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let Page { limit, offset, .. } = Page::parse(query)?;
    let hooks = api.hooks.clone();
    let client = client.to_owned();
    let shown = work::blocking(charge, move |charge| {
        let shown = hooks.upstreams.definitions(&client, limit, offset);
        let text = shown.map_err(|error| refusal(&error))?;
        charge.grow(text.len())?;
        Ok(text)
    });
    Ok(respond::json_text(shown.await?))
}

async fn accept(
    api: &OperatorApi,
    actor: &RequestOperator,
    client: &str,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let body = body::object(request, api.settings.bodies, charge).await?;
    actor.confirm(api).await?;
    let AcceptBody { review, tools } = body::parsed(body.into())?;
    if let Some(tools) = &tools
        && (tools.is_empty() || tools.len() > MAX_TOOLS_PER_CLIENT)
    {
        let message =
            format!("`tools` has 1 to {MAX_TOOLS_PER_CLIENT} names; leave it out for all changes");
        return Err(ApiError::bad_request("invalid_value", message).about("tools"));
    }
    let wanted = DefinitionsToAccept { review, tools };
    let record = api.hooks.approvals.acts().record_before(act(&actor.operator, client, &wanted));
    let accepted = api.hooks.upstreams.accept(client, wanted, Box::pin(record)).await;
    let accepted = accepted.map_err(|error| refusal(&error))?;
    let tools = accepted.len();
    info!(client, operator = actor.operator.name, tools, "definitions accepted");
    api.hooks.events.publish(Topic::Upstreams, || json!({"change": "definitions", "id": client}));
    Ok(respond::json(&json!({"status": "success", "accepted": accepted})))
}

/// Returns the record of an acceptance. The digest stands for the definitions that were shown, and the names say which
/// of them the lock file has.
fn act(operator: &Operator, client: &str, accepted: &DefinitionsToAccept) -> Act {
    let DefinitionsToAccept { review, tools } = accepted;
    let client = cut(client.to_owned(), RECORDED_BYTES);
    let act = Act::new(ActKind::DefinitionsAccepted, Actor::from(operator), client)
        .with("review", cut(review.clone(), RECORDED_BYTES));
    match tools {
        Some(tools) => {
            let names: Vec<_> = tools.iter().map(|name| visible_line(name)).collect();
            act.with("tools", cut(names.join(", "), RECORDED_NAMES_BYTES))
        }
        None => act,
    }
}

fn refusal(error: &NotAccepted) -> ApiError {
    let (status, code) = match error {
        NotAccepted::Unknown(_) => (StatusCode::NOT_FOUND, "unknown_client"),
        NotAccepted::NoSuchChange(_) => (StatusCode::BAD_REQUEST, "unknown_tool"),
        NotAccepted::Changed => (StatusCode::CONFLICT, "definitions_changed"),
        NotAccepted::Unusable(_) => (StatusCode::CONFLICT, "definitions_unusable"),
        NotAccepted::NotRecorded => (StatusCode::SERVICE_UNAVAILABLE, "records_unavailable"),
        NotAccepted::NotWritten(_) => (StatusCode::INTERNAL_SERVER_ERROR, "lock_not_written"),
    };
    ApiError::from_status(status, code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::operator::Role;

    #[test]
    fn the_record_of_an_acceptance_names_the_tools_of_a_part_of_the_review() {
        let name = "ann".to_owned();
        let operator = Operator { name, role: Role::Admin, sees_payloads: false };
        let names = ["b", "a\u{202e}"].map(str::to_owned);
        let many: BTreeSet<_> =
            (0..MAX_TOOLS_PER_CLIENT).map(|number| number.to_string()).collect();
        for (tools, expected) in
            [(None, None), (Some(BTreeSet::from(names)), Some("a⟨U+202E⟩, b")), (Some(many), None)]
        {
            let is_large = tools.as_ref().is_some_and(|tools| tools.len() == MAX_TOOLS_PER_CLIENT);
            let accepted = DefinitionsToAccept { review: "sha256:00".to_owned(), tools };
            let act = act(&operator, "fs", &accepted);
            let found = act.details.iter().find(|(name, _)| *name == "tools");
            let found = found.map(|(_, names)| names.as_str());
            if is_large {
                assert!(
                    found.is_some_and(|names| names.len() <= RECORDED_NAMES_BYTES),
                    "{found:?}"
                );
            } else {
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn a_path_names_a_client_and_its_definitions() {
        for (path, expected) in [
            ("/api/mcp/client/fs/definitions", Some(DefinitionsTarget::Show("fs"))),
            ("/api/mcp/client/fs/definitions/accept", Some(DefinitionsTarget::Accept("fs"))),
            ("/api/mcp/client//definitions", None),
            ("/api/mcp/client/fs/definitions/", None),
            ("/api/mcp/client/definitions", None),
            ("/api/mcp/client/fs/accept", None),
        ] {
            assert_eq!(DefinitionsTarget::parse(path), expected, "{path}");
        }
    }
}
