//! Reasons that a message was not forwarded, for the client.

use std::fmt;

use http::StatusCode;

use airlock_json::raw;
use airlock_strings::with_causes;

/// Longest part of a body that is no message in an error, in characters.
const SHOWN: usize = 200;

/// Reason that a message was not forwarded. For the client.
pub(super) struct Failed(pub(super) String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<reqwest::Error> for Failed {
    fn from(error: reqwest::Error) -> Self {
        // Without the URL, which may hold a credential.
        Self(format!("the gateway cannot be reached: {}", with_causes(&error.without_url())))
    }
}

/// Describes a response that is no message of MCP.
pub(super) fn no_message(status: StatusCode, location: Option<&str>, body: &str) -> Failed {
    if status.is_redirection()
        && let Some(location) = location
    {
        return Failed(format!(
            "the gateway redirects to {location}; redirects are not followed, so give that URL to --connect"
        ));
    }
    let message = raw::member(body, "error").and_then(|error| raw::member(error, "message"));
    let said = message.and_then(raw::string).unwrap_or_else(|| body.into());
    let said: String = said.chars().take(SHOWN).collect();
    let hint = if status == StatusCode::NOT_FOUND {
        "; the path of the endpoint is /mcp"
    } else {
        "; is this the URL of an MCP endpoint?"
    };
    Failed(format!("the gateway responded with status {status}{hint}: {said}"))
}
