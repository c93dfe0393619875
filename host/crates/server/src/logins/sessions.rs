//! `/api/mcp/sessions`: the logins of users at MCP servers, for a caller itself and for operators; and
//! `/api/mcp/per-user-headers/flows/{link}`, by which a caller enters the headers that a server needs without
//! a browser.

use std::time::{Duration, SystemTime};

use http::{Method, Request};
use serde_json::{Value, json};
use tracing::info;

use super::user_logins::LoginRefusal;
use crate::App;
use airlock_core::{
    act::Actor,
    operator::{Operator, Right},
    request_memory::RequestCharge,
    secret::Secret,
    tenant::Tenant,
};
use airlock_http::{
    body,
    listing::Page,
    respond::{self, ApiError, Reply},
};
use airlock_ingress::RequestBody;
use airlock_operator_api::operator;
use airlock_requests::Sender;
use airlock_store::{OwnerId, login::UserLogin};

const PATH: &str = "/api/mcp/sessions";
/// Path to which the headers of a link are sent, before its identifier.
pub(super) const HEADERS: &str = "/api/mcp/per-user-headers/flows/";
/// The last second of the year 9999, the latest that is written in RFC 3339.
const LATEST: Duration = Duration::from_secs(253_402_300_799);

/// The list, or one login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionTarget<'p> {
    /// The list.
    All,
    /// One login, by its identifier.
    One(&'p str),
    /// The headers of a link, by its identifier.
    Headers(&'p str),
}

impl<'p> SessionTarget<'p> {
    /// Finds the target of a path; `None` for other paths.
    pub(crate) fn parse(path: &'p str) -> Option<Self> {
        if let Some(link) = path.strip_prefix(HEADERS) {
            return (!link.is_empty() && !link.contains('/')).then_some(Self::Headers(link));
        }
        let rest = path.strip_prefix(PATH)?;
        if rest.is_empty() {
            return Some(Self::All);
        }
        let id = rest.strip_prefix('/')?;
        (!id.is_empty() && !id.contains('/')).then_some(Self::One(id))
    }

    pub(crate) fn methods(self) -> &'static [Method] {
        match self {
            Self::All => &[Method::GET, Method::HEAD],
            Self::One(_) => &[Method::DELETE],
            Self::Headers(_) => &[Method::PUT],
        }
    }
}

/// Lists the logins of a caller, or those of all for an operator; removes one of them; or stores the headers
/// that a caller enters.
pub(crate) async fn run(
    app: &App,
    sender: &Sender,
    operator: Option<&Operator>,
    target: SessionTarget<'_>,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let holder = match operator {
        Some(_) => None,
        None => Some(own_scope(&sender.tenant())?),
    };
    match target {
        SessionTarget::All => {
            if let Some(operator) = operator {
                operator::check_right(operator, Right::Read, "list the logins of users")?;
            }
            list(app, holder, request.uri().query()).await
        }
        SessionTarget::Headers(link) => submit(app, holder, link, request, charge).await,
        SessionTarget::One(id) => {
            if let Some(operator) = operator {
                operator::check_right(operator, Right::Change, "remove the logins of users")?;
            }
            let by = operator.map_or_else(|| Actor::from(&sender.tenant()), Actor::from);
            let removing = app.hooks.logins.revoke(id, holder, by);
            if !removing.await.map_err(|error| unavailable(&error))? {
                let message = format!("there is no login {:?}", respond::excerpt(id));
                return Err(ApiError::not_found("unknown_session", message));
            }
            if let Some(Operator { name, .. }) = operator {
                info!(operator = name, session = id, "an operator has removed the login of a user");
            }
            Ok(respond::json(&json!({"status": "success", "id": id})))
        }
    }
}

/// Stores the headers of a link, which has to be the caller's own: its credential takes the place of the
/// confirmation in a browser.
async fn submit(
    app: &App,
    holder: Option<OwnerId>,
    link: &str,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let holder = holder.ok_or_else(|| {
        ApiError::forbidden(
            "not_a_user",
            "headers belong to a virtual key or an access token, and not to an operator",
        )
    })?;
    let body = body::object(request, app.settings.bodies(), charge).await?;
    let values = body.get("headers").and_then(Value::as_object);
    let values = values.ok_or_else(|| {
        ApiError::bad_request(
            "invalid_headers",
            "expected an object `headers` with a text for each header that the server needs",
        )
    })?;
    let mut entered = Vec::new();
    for (name, value) in values {
        let value = value.as_str().ok_or_else(|| {
            let name = respond::excerpt(name);
            ApiError::bad_request("invalid_headers", format!("`headers` has no text for {name:?}"))
        })?;
        entered.push((name.clone(), Secret::new(value)));
    }
    let logins = &app.hooks.logins;
    let offer = logins.find(link).await.map_err(|error| not_submitted(&error))?;
    // The link of another caller is one that does not exist.
    if offer.holder != holder || offer.header_keys.is_empty() {
        return Err(not_submitted(&LoginRefusal::Gone));
    }
    logins.submit(link, &entered).await.map_err(|error| not_submitted(&error))?;
    Ok(respond::json(&json!({"status": "success", "mcp_client_name": offer.client})))
}

fn not_submitted(refusal: &LoginRefusal) -> ApiError {
    match refusal {
        LoginRefusal::Unavailable(_) => unavailable(refusal),
        LoginRefusal::Invalid(reason) => ApiError::bad_request("invalid_headers", reason.clone()),
        refusal => ApiError::not_found("unknown_link", refusal.to_string()),
    }
}

async fn list(app: &App, holder: Option<OwnerId>, query: Option<&str>) -> Result<Reply, ApiError> {
    let page = Page::parse(query.unwrap_or_default())?;
    let offset = u32::try_from(page.offset).unwrap_or(u32::MAX);
    let mut logins =
        app.hooks.logins.list(holder, offset).await.map_err(|error| unavailable(&error))?;
    logins.truncate(page.limit);
    let sessions: Vec<_> = logins.iter().map(shown).collect();
    let count = sessions.len();
    Ok(respond::json(&json!({
        "sessions": sessions, "count": count, "limit": page.limit, "offset": page.offset,
    })))
}

/// Describes a login, without its tokens.
fn shown(login: &UserLogin) -> Value {
    let holder = &login.holder;
    let user = (!holder.issuer.is_empty())
        .then(|| json!({"issuer": holder.issuer, "subject": holder.subject}));
    let auth_type = if login.has_headers() { "per_user_headers" } else { "per_user_oauth" };
    let status = match (login.is_active, login.has_headers()) {
        (true, _) => "active",
        (false, true) => "needs_update",
        (false, false) => "needs_reauth",
    };
    json!({
        "id": holder.session,
        "mcp_client_id": login.id.client,
        "mcp_client_name": login.id.client,
        "auth_type": auth_type,
        "status": status,
        "virtual_key_name": holder.key_name,
        "user": user,
        "scopes": login.scopes.split_ascii_whitespace().collect::<Vec<_>>(),
        "obtained_at": time(login.obtained_ms),
        "token_expires_at": login.expires_ms.map(time),
    })
}

/// Renders milliseconds since 1970.
fn time(milliseconds: i64) -> String {
    let since = Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default());
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since.min(LATEST)).to_string()
}

fn own_scope(tenant: &Tenant) -> Result<OwnerId, ApiError> {
    let identity = tenant.identity();
    identity.map(|identity| identity.scope).ok_or_else(|| {
        ApiError::unauthorized("a virtual key or an access token is required: logins belong to one")
    })
}

fn unavailable(refusal: &LoginRefusal) -> ApiError {
    let message = format!("the logins of users cannot be used: {refusal}");
    ApiError::unavailable("store_unavailable", message)
}
