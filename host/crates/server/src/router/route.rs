//! The routes: their paths, and the rules for the requests of each.

use http::Method;

use crate::{
    audit_key, debug,
    identity::{self, CredentialRules},
    logins::{self, sessions::SessionTarget},
    mcp, models, responses, results, runs, template,
};
use airlock_operator_api::{
    admin_page, approvals,
    console::ConsoleTarget,
    management,
    operator::OperatorAct,
    operator_login::{self, OperatorLoginStep},
    reload, upstreams,
};

/// A route, with the identifier in its path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Route<'p> {
    Chat,
    Responses,
    /// The number of tokens of a request for a Response.
    InputTokens,
    StoredResponse(responses::StoredTarget, &'p str),
    Messages,
    /// The number of tokens of a request for a message.
    MessageTokens,
    /// Runs of scripts.
    Runs(runs::RunTarget, &'p str),
    /// Calls that wait for an approval.
    Approvals(approvals::ApprovalTarget, &'p str),
    Models,
    /// One model.
    Model(&'p str),
    Execute,
    /// Unchanged result of a call.
    Result(&'p str),
    Clients,
    /// The reasons that hide tools.
    Explain,
    /// A part of the page for operators.
    Console(ConsoleTarget<'p>),
    /// The record of one request's exchanges with models.
    Debug(&'p str),
    /// The management API.
    Management,
    /// The limits of the virtual key of the request.
    Quota,
    /// MCP, with the path after that of the endpoint.
    Mcp(&'p str),
    /// The deprecated transport of MCP.
    Sse(mcp::SseTarget<'p>),
    Reload(&'p str),
    ReloadConfiguration,
    /// A step of an operator's login at an identity provider.
    OperatorLogin(OperatorLoginStep),
    /// A page at which a user logs in at an MCP server.
    Login(logins::LoginRoute<'p>),
    /// The logins of users.
    LoginSessions(SessionTarget<'p>),
    /// Operation or question of the operator to one MCP server.
    Upstream(upstreams::UpstreamOperation, &'p str),
    Status(StatusRoute<'p>),
}

/// A route whose requests are not charged: its responses are small, and needed most when memory is
/// exhausted.
#[derive(Debug, Clone, Copy)]
pub(super) enum StatusRoute<'p> {
    Health,
    /// State of the gateway: whether it takes requests.
    Readiness,
    Metrics,
    /// Metadata of the gateway for OAuth clients, at this path.
    ResourceMetadata(&'p str),
    /// The public key of the audit log.
    AuditKey,
    /// A file of the page for operators, with its path after that of the page.
    Page(&'p str),
}

impl<'p> Route<'p> {
    /// Finds the route of a path; `None` if there is none.
    pub(super) fn parse(path: &'p str) -> Option<Self> {
        Some(match path {
            "/v1/chat/completions" => Self::Chat,
            "/v1/responses" => Self::Responses,
            template::INPUT_TOKENS => Self::InputTokens,
            template::MESSAGES => Self::Messages,
            template::MESSAGE_TOKENS => Self::MessageTokens,
            "/v1/models" => Self::Models,
            "/v1/mcp/tool/execute" => Self::Execute,
            "/api/mcp/clients" => Self::Clients,
            "/api/mcp/explain" => Self::Explain,
            reload::CONFIGURATION => Self::ReloadConfiguration,
            "/health" => Self::Status(StatusRoute::Health),
            "/ready" => Self::Status(StatusRoute::Readiness),
            "/metrics" => Self::Status(StatusRoute::Metrics),
            audit_key::PATH => Self::Status(StatusRoute::AuditKey),
            operator_login::LOGIN => Self::OperatorLogin(OperatorLoginStep::Begin),
            operator_login::CALLBACK => Self::OperatorLogin(OperatorLoginStep::Complete),
            template::QUOTA => Self::Quota,
            path if management::is_path(path) => Self::Management,
            _ => return Self::parse_id(path),
        })
    }

    /// Finds the route of a path with an identifier.
    fn parse_id(path: &'p str) -> Option<Self> {
        let stored = responses::StoredTarget::parse(path);
        let route = stored.map(|(target, id)| Self::StoredResponse(target, id));
        route
            .or_else(|| runs::RunTarget::parse(path).map(|(target, id)| Self::Runs(target, id)))
            .or_else(|| {
                let target = approvals::ApprovalTarget::parse(path);
                target.map(|(target, id)| Self::Approvals(target, id))
            })
            .or_else(|| ConsoleTarget::parse(path).map(Self::Console))
            .or_else(|| mcp::SseTarget::parse(path).map(Self::Sse))
            .or_else(|| logins::LoginRoute::parse(path).map(Self::Login))
            .or_else(|| SessionTarget::parse(path).map(Self::LoginSessions))
            .or_else(|| {
                let operation = upstreams::UpstreamOperation::parse(path);
                operation.map(|(operation, client)| Self::Upstream(operation, client))
            })
            .or_else(|| models::parse_path(path).map(Self::Model))
            .or_else(|| results::parse_path(path).map(Self::Result))
            .or_else(|| reload::parse_path(path).map(Self::Reload))
            .or_else(|| debug::parse_path(path).map(Self::Debug))
            .or_else(|| mcp::parse_path(path).map(Self::Mcp))
            .or_else(|| {
                let is_metadata = identity::is_metadata(path);
                is_metadata.then_some(Self::Status(StatusRoute::ResourceMetadata(path)))
            })
            .or_else(|| {
                let rest = admin_page::parse_path(path)?;
                Some(Self::Status(StatusRoute::Page(rest)))
            })
    }

    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::Chat
            | Self::Responses
            | Self::InputTokens
            | Self::Messages
            | Self::MessageTokens
            | Self::Execute
            | Self::ReloadConfiguration
            | Self::Reload(_) => &[Method::POST],
            Self::StoredResponse(target, _) => target.methods(),
            Self::Runs(target, _) => target.methods(),
            Self::Approvals(target, _) => target.methods(),
            Self::Upstream(operation, _) => operation.methods(),
            Self::Console(target) => target.methods(),
            Self::Mcp(_) => &[Method::POST, Method::GET, Method::DELETE],
            Self::Sse(target) => target.methods(),
            Self::Login(page) => page.methods(),
            Self::LoginSessions(target) => target.methods(),
            Self::Management => management::METHODS,
            Self::OperatorLogin(_) => &[Method::GET],
            Self::Models
            | Self::Model(_)
            | Self::Result(_)
            | Self::Clients
            | Self::Explain
            | Self::Debug(_)
            | Self::Quota
            | Self::Status(_) => &[Method::GET, Method::HEAD],
        }
    }

    /// Returns whether a request has a span of its own. Each message of MCP has one.
    pub(super) fn is_traced(self) -> bool {
        !matches!(self, Self::Status(_) | Self::Mcp(_) | Self::Sse(_))
    }

    /// Returns how the credential of a request is read.
    pub(super) fn credentials(self) -> CredentialRules<'p> {
        match self {
            Self::Mcp(rest) => CredentialRules::Mcp(rest),
            Self::Sse(_) => CredentialRules::Mcp(""),
            Self::LoginSessions(_) => CredentialRules::Logins,
            Self::Approvals(..) => CredentialRules::Approvals,
            _ => CredentialRules::Other,
        }
    }

    /// Returns whether only operators send such requests, so that no page of another origin does.
    pub(super) fn is_of_operators(self) -> bool {
        self.act().is_some() || matches!(self, Self::Management | Self::OperatorLogin(_))
    }

    /// Returns whether operators send such requests, beside others.
    pub(super) fn takes_operators(self) -> bool {
        matches!(
            self,
            Self::Management | Self::Clients | Self::Approvals(..) | Self::LoginSessions(_)
        )
    }

    /// Returns whether pages of other origins may lead browsers to such requests with this method.
    pub(super) fn is_visited(self, method: &Method) -> bool {
        matches!(self, Self::Login(_) | Self::OperatorLogin(_) | Self::Status(StatusRoute::Page(_)))
            && method == Method::GET
    }

    /// Returns whether a request with this method is a stream that waits for what happens.
    pub(super) fn waits(self, method: &Method) -> bool {
        let is_stream = match self {
            Self::Mcp(_) | Self::Sse(mcp::SseTarget::Stream(_)) => true,
            Self::Console(target) => target.waits(),
            _ => false,
        };
        is_stream && method == Method::GET
    }

    /// Returns the act of an operator that a request is; `None` if others may send it too.
    pub(super) fn act(self) -> Option<OperatorAct> {
        match self {
            Self::Reload(_) => Some(OperatorAct::Reload),
            Self::ReloadConfiguration => Some(OperatorAct::ReloadConfiguration),
            Self::Upstream(operation, _) => Some(operation.act()),
            Self::Explain => Some(OperatorAct::Explain),
            Self::Console(target) => Some(target.act()),
            Self::Debug(_) => Some(OperatorAct::ReadRequest),
            Self::Status(StatusRoute::Metrics) => Some(OperatorAct::ReadMetrics),
            _ => None,
        }
    }

    /// Returns the template of the paths of the route.
    pub(super) fn template(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::InputTokens => template::INPUT_TOKENS,
            Self::StoredResponse(..) => "/v1/responses/{id}",
            Self::Messages => template::MESSAGES,
            Self::MessageTokens => template::MESSAGE_TOKENS,
            Self::Runs(..) => "/v1/runs/{id}",
            Self::Approvals(..) => "/v1/approvals/{id}",
            Self::Models | Self::Model(_) => "/v1/models",
            Self::Execute => "/v1/mcp/tool/execute",
            Self::Result(_) => "/v1/mcp/results/{id}",
            Self::Clients => "/api/mcp/clients",
            Self::Explain => "/api/mcp/explain",
            Self::Debug(_) => "/api/requests/{id}/debug",
            // A stream of minutes, which is not counted among the short requests.
            Self::Console(ConsoleTarget::Events) => "/api/events",
            Self::Reload(_) | Self::Upstream(..) | Self::Console(ConsoleTarget::Definitions(_)) => {
                "/api/mcp/client/{name}/{operation}"
            }
            Self::Management | Self::Console(_) => "/api",
            Self::Quota => template::QUOTA,
            Self::Mcp(_) => "/mcp",
            Self::Sse(_) => "/sse",
            Self::ReloadConfiguration => reload::CONFIGURATION,
            Self::OperatorLogin(_) => operator_login::LOGIN,
            Self::Login(_) => "/oauth",
            Self::LoginSessions(_) => "/api/mcp/sessions",
            Self::Status(StatusRoute::Page(_)) => "/admin",
            Self::Status(StatusRoute::Health) => "/health",
            Self::Status(StatusRoute::Readiness) => "/ready",
            Self::Status(StatusRoute::Metrics) => "/metrics",
            Self::Status(StatusRoute::ResourceMetadata(_) | StatusRoute::AuditKey) => {
                "/.well-known"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{NO_ROUTE, TEMPLATES};

    #[test]
    fn the_template_of_a_path_is_one_of_the_list_and_has_no_part_that_a_caller_chose() {
        for (path, template) in [
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/v1/responses/resp_1", "/v1/responses/{id}"),
            ("/v1/models/secret", "/v1/models"),
            ("/v1/runs/secret/resume", "/v1/runs/{id}"),
            ("/v1/approvals/secret", "/v1/approvals/{id}"),
            ("/v1/mcp/results/secret", "/v1/mcp/results/{id}"),
            ("/api/mcp/client/secret/reload", "/api/mcp/client/{name}/{operation}"),
            ("/api/mcp/client/secret/logs", "/api/mcp/client/{name}/{operation}"),
            ("/api/mcp/client/secret/definitions", "/api/mcp/client/{name}/{operation}"),
            ("/api/governance/virtual-keys", "/api"),
            ("/api/events", "/api/events"),
            ("/api/runs/secret", "/api"),
            ("/admin/secret", "/admin"),
            ("/mcp/secret", "/mcp"),
            ("/sse", "/sse"),
            ("/metrics", "/metrics"),
            (audit_key::PATH, "/.well-known"),
            ("/secret", NO_ROUTE),
        ] {
            let found = Route::parse(path).map_or(NO_ROUTE, Route::template);
            assert_eq!(found, template, "{path}");
            assert!(TEMPLATES.contains(&found), "{path}");
        }
    }
}
