//! `GET /api/mcp/explain`: which tools a request would see, and which rules hide the others.
//!
//! The query describes the request: `key` names its virtual key, or each `role` is one that its access
//! token gives it; `include_clients`, `include_tools` and
//! `exclude_tools` are the values of its headers, and `virtual_mcp` is the slug in its path.

use std::sync::Arc;

use serde_json::{Value, json};
use url::form_urlencoded;

use super::{OperatorApi, tries::SHOWN_BYTES};
use airlock_catalog::{ExplainedClient, ExplainedTool, Explanation, Reason, Snapshot};
use airlock_core::{
    door::{ApprovalChoice, Filter, LiveKeys, MAX_ROLES, VirtualKey, roles_view},
    request_memory::RequestCharge,
};
use airlock_http::{
    listing::Page,
    respond::{self, ApiError, Reply},
    work,
};
use airlock_strings::cut;

/// Explains the tools of a request. The caller has checked that the request is an operator's: the
/// response has names of tools that a key may not see. Fails if the query is invalid, or if no key has
/// the name.
///
/// The text is written on a blocking thread, and charged before it is written.
pub async fn show(
    api: &OperatorApi,
    query: &str,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let question = Question::parse(query)?;
    let key = question.sender(&api.keys)?;
    let snapshot = api.parts.catalog.snapshot();
    let written = ExplanationDocument {
        filter: question.filter(&snapshot, key.as_deref())?,
        snapshot,
        question,
        key,
        requires_key: api.settings.requires_key,
        approval: api.parts.agent.approval,
        disabled: api.hooks.upstreams.disabled(),
    };
    let text = work::blocking(charge, move |charge| written.write(charge)).await?;
    Ok(respond::json_text(text))
}

/// The query.
#[derive(Debug, Default, PartialEq)]
struct Question {
    /// Name of the virtual key; `None` for a request without one.
    key: Option<String>,
    /// Roles of its access token. Empty for a request without one.
    roles: Vec<String>,
    include_clients: Option<String>,
    include_tools: Option<String>,
    exclude_tools: Option<String>,
    /// Slug of the virtual MCP whose path the request has; `None` for `/mcp`.
    virtual_mcp: Option<String>,
    /// Part of the names of the tools, in lower case. Empty for every name.
    tool: String,
    page: Page,
}

impl Question {
    /// Reads a query. Fails if a number is invalid or a list has too many names. Other parameters are
    /// ignored, and of two with one name the last one counts.
    fn parse(query: &str) -> Result<Self, ApiError> {
        let mut question = Self { page: Page::parse(query)?, ..Self::default() };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "key" => question.key = Some(value.into_owned()),
                "role" => question.roles.push(value.into_owned()),
                "include_clients" => question.include_clients = Some(value.into_owned()),
                "include_tools" => question.include_tools = Some(value.into_owned()),
                "exclude_tools" => question.exclude_tools = Some(value.into_owned()),
                "virtual_mcp" => question.virtual_mcp = Some(value.into_owned()),
                "tool" => question.tool = value.to_lowercase(),
                _ => {}
            }
        }
        if question.key.is_some() && !question.roles.is_empty() {
            let message =
                "parameter `role` is beside `key`: a request has a virtual key or an access token";
            return Err(ApiError::bad_request("invalid_value", message).about("role"));
        }
        if question.roles.len() > MAX_ROLES {
            let message = format!("parameter `role` is there more than {MAX_ROLES} times");
            return Err(ApiError::bad_request("invalid_value", message).about("role"));
        }
        for (name, value) in [
            ("include_clients", &question.include_clients),
            ("include_tools", &question.include_tools),
            ("exclude_tools", &question.exclude_tools),
        ] {
            respond::check_names(value.as_deref()).map_err(|problem| {
                let message = format!("parameter `{name}` {problem}");
                ApiError::bad_request("invalid_value", message).about(name)
            })?;
        }
        Ok(question)
    }

    /// Returns the key of the request, or the one that stands for its roles; `None` if it has neither.
    /// Fails if it does not exist.
    fn sender(&self, keys: &LiveKeys) -> Result<Option<Arc<VirtualKey>>, ApiError> {
        if let Some(name) = &self.key {
            return keys.named(name).map(Some).ok_or_else(|| unknown_key(name));
        }
        if self.roles.is_empty() {
            return Ok(None);
        }
        // A `,` separates roles in a view.
        let are_names = !self.roles.iter().any(|role| role.contains(','));
        let found = keys.view(&roles_view(&self.roles)).filter(|_| are_names);
        found.map(Some).ok_or_else(unknown_role)
    }

    /// Returns the selection of the request. Fails if there is no such virtual MCP for the key.
    fn filter(&self, snapshot: &Snapshot, key: Option<&VirtualKey>) -> Result<Filter, ApiError> {
        let filter = Filter::parse(self.include_clients.as_deref(), self.include_tools.as_deref());
        let mut filter = filter.excluding(self.exclude_tools.as_deref());
        if let Some(slug) = &self.virtual_mcp {
            let group = snapshot.group(slug, key).ok_or_else(|| unknown_group(slug))?;
            filter.narrow_to_group(Some(group));
        }
        Ok(filter)
    }
}

fn unknown_group(slug: &str) -> ApiError {
    let slug = cut(slug.to_owned(), SHOWN_BYTES);
    let message = format!(
        "no virtual MCP is served to such a request at {slug:?}: it does not exist, is not enabled, or has `virtual_keys` without this key"
    );
    ApiError::not_found("unknown_virtual_mcp", message).about("virtual_mcp")
}

fn unknown_role() -> ApiError {
    let message = "one of the roles does not exist; each `role` is the name of a role";
    ApiError::not_found("unknown_role", message).about("role")
}

fn unknown_key(name: &str) -> ApiError {
    let name = cut(name.to_owned(), SHOWN_BYTES);
    let message =
        format!("no active virtual key is named {name:?}; `key` is the name of a virtual key");
    ApiError::not_found("unknown_key", message).about("key")
}

/// All that the response is made of.
struct ExplanationDocument {
    snapshot: Arc<Snapshot>,
    question: Question,
    filter: Filter,
    key: Option<Arc<VirtualKey>>,
    requires_key: bool,
    approval: ApprovalChoice,
    /// Names and transports of the MCP servers that the configuration disables.
    disabled: Vec<(String, &'static str)>,
}

impl ExplanationDocument {
    fn write(&self, charge: &RequestCharge) -> Result<String, ApiError> {
        let explanation = self.snapshot.explain(&self.filter, self.key.as_deref());
        let explanation = explanation.with_approval(self.approval);
        let clients: Vec<_> = explanation.clients().collect();
        let mut text = String::from("{\"tools\":[");
        let (count, total) = self.write_tools(&clients, &mut text, charge)?;
        charge.append(&mut text, &["],\"clients\":["])?;
        self.write_clients(&clients, &mut text, charge)?;
        let rest = self.rest(&explanation, count, total).to_string();
        charge.append(&mut text, &["],", rest.trim_start_matches('{')])?;
        Ok(text)
    }

    /// Writes the tools of the page. Returns their number, and the number of all tools.
    fn write_tools(
        &self,
        clients: &[ExplainedClient<'_>],
        text: &mut String,
        charge: &RequestCharge,
    ) -> Result<(usize, usize), ApiError> {
        let Page { limit, offset, .. } = self.question.page;
        let mut count = 0;
        let mut total = 0;
        for client in clients {
            for tool in client.tools().filter(|tool| tool.matches(&self.question.tool)) {
                if total >= offset && count < limit {
                    let separator = if count > 0 { "," } else { "" };
                    let tool = describe_tool(client, &tool).to_string();
                    charge.append(text, &[separator, &tool])?;
                    count += 1;
                }
                total += 1;
            }
        }
        Ok((count, total))
    }

    /// Writes all clients, sorted by name, and then those that are disabled.
    fn write_clients(
        &self,
        clients: &[ExplainedClient<'_>],
        text: &mut String,
        charge: &RequestCharge,
    ) -> Result<(), ApiError> {
        let clients = clients.iter().map(describe_client);
        let disabled = self.disabled.iter().map(|(name, _)| describe_disabled(name));
        for (number, client) in clients.chain(disabled).enumerate() {
            let separator = if number > 0 { "," } else { "" };
            charge.append(text, &[separator, &client.to_string()])?;
        }
        Ok(())
    }

    fn rest(&self, explanation: &Explanation<'_>, count: usize, total: usize) -> Value {
        let mut rest = json!({
            "key": self.key.as_ref().filter(|_| self.question.key.is_some()).map(|key| &key.name),
            "approval_choice": explanation.approval().name(),
            "count": count,
            "total_count": total,
            "limit": self.question.page.limit,
            "offset": self.question.page.offset,
        });
        if !self.question.roles.is_empty() {
            rest["roles"] = json!(self.question.roles);
        }
        if let Some(reason) = explanation.concealed() {
            rest["concealed"] = describe_reasons(vec![reason]);
        }
        if self.requires_key && self.key.is_none() {
            rest["note"] = "The gateway refuses a request without a virtual key, because `server.require_virtual_key` is \
                            true."
                .into();
        }
        rest
    }
}

fn describe_tool(client: &ExplainedClient<'_>, tool: &ExplainedTool<'_>) -> Value {
    let mut out = json!({
        "name": tool.name(),
        "client": client.name(),
        "visible": tool.visibility().code(),
        "reasons": describe_reasons(tool.reasons()),
    });
    if let Some(approval) = tool.approval() {
        out["approval"] = if approval.is_needed() { "needed" } else { "not_needed" }.into();
        out["approval_reason"] = tool.approval_reason().into();
    }
    if let Some(reason) = tool.prefixed_because() {
        out["prefixed_because"] = reason.into();
    }
    out
}

fn describe_client(client: &ExplainedClient<'_>) -> Value {
    let mut out = json!({"name": client.name(), "state": client.state()});
    if let Some(reason) = client.state_reason() {
        out["reason"] = reason.into();
    }
    let reasons = client.reasons();
    if !reasons.is_empty() {
        out["reasons"] = describe_reasons(reasons);
    }
    out
}

fn describe_disabled(name: &str) -> Value {
    let reason = format!(
        "The client {name} is disabled. Enable it with `airlock client enable {name}`, or set its `disabled` to false."
    );
    json!({"name": name, "state": "disabled", "reason": reason})
}

fn describe_reasons(reasons: Vec<Reason>) -> Value {
    let reasons = reasons.into_iter();
    reasons.map(|Reason { rule, message }| json!({"rule": rule, "message": message})).collect()
}

#[cfg(test)]
mod tests;
