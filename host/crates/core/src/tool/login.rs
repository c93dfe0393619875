//! A login that a call needs, at the server of its tool and for its caller alone.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{ClientName, Question, QuestionKind};

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
}

impl LoginRequired {
    /// Returns the question that has the user of an MCP client open the link (MCP, section
    /// "Elicitation", mode `url`). `id` names the elicitation.
    pub fn to_question(&self, id: &str) -> Question {
        let message = format!("Log in at the server {} to use its tools", self.client);
        let params =
            [("mode", "url"), ("message", &message), ("url", &self.url), ("elicitationId", id)];
        let params: Map<String, Value> =
            params.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect();
        Question { key: QUESTION.to_owned(), kind: QuestionKind::Url, params }
    }

    /// Returns the login as Bifrost's `mcp_auth_required`.
    pub fn to_json(&self) -> Value {
        let client = self.client.as_str();
        json!({
            "kind": "oauth",
            "mcp_client_id": client,
            "mcp_client_name": client,
            "authorize_url": self.url,
            "message": format!("Authentication required for {client}: open `authorize_url` in a browser, then repeat the request."),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_asked_for_by_its_link() {
        let client = ClientName::parse("up").expect("a good name");
        let login = LoginRequired { client, url: "https://a.example/oauth/login/x".to_owned() };
        let question = login.to_question("7");
        assert_eq!(question.kind, QuestionKind::Url);
        assert_eq!(
            Value::from(question.params),
            json!({"mode": "url", "message": "Log in at the server up to use its tools",
                   "url": "https://a.example/oauth/login/x", "elicitationId": "7"})
        );
        assert_eq!(login.to_json()["authorize_url"], login.url);
    }
}
