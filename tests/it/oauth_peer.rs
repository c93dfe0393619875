//! The common part of the peers of the tests of logins: an MCP server and its authorization server, in one.

use airlock_test_http::{Answer, says};
use reqwest::Url;
use serde_json::{Value, json};

pub(crate) const JSON: &str = "content-type: application/json\r\n";

/// A request to a peer.
pub(crate) struct PeerRequest<'r> {
    pub(crate) method: &'r str,
    pub(crate) url: Url,
    pub(crate) base: String,
    pub(crate) bearer: Option<&'r str>,
    pub(crate) body: &'r str,
    head: &'r str,
}

impl<'r> PeerRequest<'r> {
    pub(crate) fn parse(text: &'r str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole request");
        let mut first = head.split(' ');
        let method = first.next().expect("a method");
        let path = first.next().expect("a path");
        let base = format!("http://{}", header(head, "host").expect("HTTP/1.1"));
        let url = Url::parse(&format!("{base}{path}")).expect("a URL");
        let bearer = header(head, "authorization");
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        Self { method, url, base, bearer, body, head }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&'r str> {
        header(self.head, name)
    }

    /// Returns a parameter of the URL.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        parameter(&self.url, name)
    }

    /// Returns a field of the form in the body.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        parameter(&Url::parse(&format!("http://form/?{}", self.body)).expect("a form"), name)
    }

    /// Returns the URL of the MCP server, which is the resource of its tokens.
    pub(crate) fn resource(&self) -> String {
        format!("{}/mcp", self.base)
    }

    /// Refuses a request without a good token. `scope` is a parameter of the challenge, with its comma.
    pub(crate) fn challenge(&self, scope: &str) -> Answer {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.base);
        let challenge =
            format!("www-authenticate: Bearer {scope}resource_metadata=\"{metadata}\"\r\n");
        says("401 Unauthorized", &challenge, "")
    }

    /// Returns the metadata of the authorization server.
    pub(crate) fn metadata(&self) -> Value {
        let base = &self.base;
        json!({
            "issuer": base,
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        })
    }

    /// Registers a client.
    pub(crate) fn registered(&self) -> Answer {
        let asked: Value = serde_json::from_str(self.body).expect("JSON");
        let client = json!({"client_id": "registered", "redirect_uris": asked["redirect_uris"]});
        says("201 Created", JSON, &client.to_string())
    }

    /// Checks the parameters that each request of a browser for a login has.
    pub(crate) fn check_authorization(&self) {
        assert_eq!(self.parameter("code_challenge_method").as_deref(), Some("S256"));
        assert_eq!(self.parameter("resource"), Some(self.resource()));
    }
}

pub(crate) fn document(document: &Value) -> Answer {
    says("200 OK", JSON, &document.to_string())
}

fn header<'r>(head: &'r str, name: &str) -> Option<&'r str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    let found = url.query_pairs().find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}
