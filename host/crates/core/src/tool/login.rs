//! A login that a call needs, at the server of its tool and for its caller alone, and the errors of calls
//! whose caller has no credentials for the server.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    CallError, ClientName, Details, ErrorKind, HostCode, Question, QuestionKind, ToolName,
};

/// Time for which a link to log in can be followed.
pub const LOGIN_LINK_LIFE: Duration = Duration::from_mins(15);

/// Name of the question by which the user of an MCP client is asked to log in.
const QUESTION: &str = "login";

/// A login that a call needs, at the server of its tool and for its caller alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginRequired {
    /// The client whose server needs it.
    pub client: ClientName,
    /// Link of the gateway at which the user of the caller begins the login. Who has it can log in for
    /// the caller, so it is for the caller alone.
    pub url: String,
    /// Names of the headers whose values the user enters at the link; empty if the user logs in with an
    /// account.
    pub header_keys: Vec<String>,
}

impl LoginRequired {
    /// Returns the question that has the user of an MCP client open the link (MCP, section
    /// "Elicitation", mode `url`). `id` names the elicitation.
    pub fn to_question(&self, id: &str) -> Question {
        let message = if self.header_keys.is_empty() {
            format!("Log in at the server {} to use its tools", self.client)
        } else {
            format!("Enter your credentials for the server {} to use its tools", self.client)
        };
        let params =
            [("mode", "url"), ("message", &message), ("url", &self.url), ("elicitationId", id)];
        let params: Map<String, Value> =
            params.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect();
        Question { key: QUESTION.to_owned(), kind: QuestionKind::Url, params }
    }

    /// Returns the login as Bifrost's `mcp_auth_required`.
    pub fn to_json(&self) -> Value {
        let client = self.client.as_str();
        if self.header_keys.is_empty() {
            return json!({
                "kind": "oauth",
                "mcp_client_id": client,
                "mcp_client_name": client,
                "authorize_url": self.url,
                "message": format!("Authentication required for {client}: open `authorize_url` in a browser, then repeat the request."),
            });
        }
        json!({
            "kind": "headers",
            "mcp_client_id": client,
            "mcp_client_name": client,
            "submit_url": self.url,
            "required_header_keys": self.header_keys,
            "message": format!("Authentication required for {client}: open `submit_url` in a browser and enter the values of the headers, then repeat the request."),
        })
    }
}

impl CallError {
    /// Creates the error of a call whose caller has to log in at the server of the tool first, or to enter
    /// the headers that the server needs.
    pub fn login_required(tool: ToolName, login: LoginRequired) -> Self {
        let act = if login.header_keys.is_empty() {
            "log in"
        } else {
            "enter the credentials that it needs"
        };
        let message = format!(
            "' did not run: its user has to log in at the server {} first. Open {} in a browser and {act}, then repeat the call. \
             The link is for this user alone, and valid for {} minutes",
            login.client,
            login.url,
            LOGIN_LINK_LIFE.as_secs() / 60,
        );
        Self::about(tool, ErrorKind::AuthRequired, HostCode::LoginRequired, ("tool '", message))
            .with_details(Details::LoginRequired(Box::new(login)))
    }

    /// Creates the error of a call whose caller is anonymous, of a tool that acts for one user.
    pub fn identity_required(tool: ToolName) -> Self {
        let message = (
            "tool '",
            "' acts at its server with an account of its user's own, and this caller is anonymous: call it with a virtual key, \
             or at /mcp with an access token",
        );
        Self::about(tool, ErrorKind::AuthRequired, HostCode::IdentityRequired, message)
    }

    /// Creates the error of a call whose caller has no access token, of a tool whose server gets one that is
    /// exchanged for it.
    pub fn token_required(tool: ToolName) -> Self {
        let message = (
            "tool '",
            "' acts at its server with a token for which the access token of its caller is exchanged, and this caller has none, \
             or its request has ended: call it at /mcp with an access token of the identity provider, and not with a virtual key",
        );
        Self::about(tool, ErrorKind::AuthRequired, HostCode::IdentityRequired, message)
    }

    /// Creates the error of a call whose caller's access token was not exchanged for one of the tool's
    /// server, for a reason that is about the token.
    pub fn token_refused(tool: ToolName, reason: &str) -> Self {
        let message = ("tool '", format!("' did not run: {reason}"));
        Self::about(tool, ErrorKind::AuthRequired, HostCode::TokenRefused, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_asked_for_by_its_link() {
        let client = ClientName::parse("up").expect("a good name");
        let url = "https://a.example/oauth/login/x".to_owned();
        let login = LoginRequired { client, url, header_keys: Vec::new() };
        let question = login.to_question("7");
        assert_eq!(question.kind, QuestionKind::Url);
        assert_eq!(
            Value::from(question.params),
            json!({"mode": "url", "message": "Log in at the server up to use its tools",
                   "url": "https://a.example/oauth/login/x", "elicitationId": "7"})
        );
        assert_eq!(login.to_json()["authorize_url"], login.url);
        let headers = LoginRequired { header_keys: vec!["x-key".to_owned()], ..login };
        let asked = headers.to_json();
        assert_eq!(
            (&asked["kind"], &asked["submit_url"]),
            (&json!("headers"), &json!(headers.url))
        );
        assert_eq!(asked["required_header_keys"], json!(["x-key"]));
    }
}
