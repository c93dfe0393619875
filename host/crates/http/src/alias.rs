//! Other paths of the same APIs: `/openai` and `/anthropic` as base paths, as Bifrost has them for the
//! SDKs of both.

use http::{Request, Uri, uri::PathAndQuery};

/// Base path for clients of OpenAI's APIs.
const OPENAI: &str = "/openai";
/// Base path for clients of Anthropic's API.
const ANTHROPIC: &str = "/anthropic";
/// Ends of the paths that clients are set up for.
const ENDS: [&str; 7] = [
    "/chat/completions",
    "/responses",
    "/messages",
    "/messages/count_tokens",
    "/models",
    "/mcp/tool/execute",
    "/mcp",
];

/// Mark of a request below `/anthropic`: its sender is a client of Anthropic's API.
#[derive(Debug, Clone, Copy)]
pub struct BelowAnthropic;

/// Path of a request before it was given the one that routes have.
#[derive(Debug, Clone)]
struct SentPath(String);

/// Returns the path of a request as its sender wrote it.
pub fn sent_path<B>(request: &Request<B>) -> &str {
    let sent = request.extensions().get::<SentPath>();
    sent.map_or_else(|| request.uri().path(), |sent| &sent.0)
}

/// Gives a request with another path the path that routes have.
pub fn apply<B>(request: &mut Request<B>) {
    let sent = request.uri().path();
    let of_anthropic = canonical(sent, ANTHROPIC);
    let is_of_anthropic = of_anthropic.is_some();
    let Some(path) = of_anthropic.or_else(|| canonical(sent, OPENAI)) else { return };
    let sent = SentPath(sent.to_owned());
    request.extensions_mut().insert(sent);
    if is_of_anthropic {
        request.extensions_mut().insert(BelowAnthropic);
    }
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(path + &query).ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

/// Returns the path that one below `base` stands for, with or without the version; `None` for other paths.
fn canonical(path: &str, base: &str) -> Option<String> {
    let rest = path.strip_prefix(base)?;
    let rest = rest.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).unwrap_or(rest);
    let is_whole = rest.len() > 1 && rest.starts_with('/') && rest != "/v1";
    is_whole.then(|| format!("/v1{rest}"))
}

/// Returns the path that is most likely meant by one that does not exist: of a client whose base URL
/// lacks the version, or has it twice.
pub fn meant(path: &str) -> Option<String> {
    let path = path.trim_end_matches('/');
    let end = ENDS.iter().find(|end| path.ends_with(**end))?;
    Some(if *end == "/mcp" { (*end).to_owned() } else { format!("/v1{end}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_path_of_openai_stands_for_the_apis_of_this_version() {
        assert_eq!(path("/openai/chat/completions"), "/v1/chat/completions");
        assert_eq!(path("/openai/v1/responses/resp_1?a=b"), "/v1/responses/resp_1?a=b");
        assert_eq!(path("http://h/openai/v1/models"), "http://h/v1/models");
        for other in
            ["/openai", "/openai/", "/openai/v1", "/openaix/v1/models", "/v1/openai/models"]
        {
            assert_eq!(path(other), other);
        }
    }

    #[test]
    fn a_request_below_the_base_path_of_anthropic_is_marked() {
        for (sent, expected, is_marked) in [
            ("/anthropic/v1/messages?beta=true", "/v1/messages?beta=true", true),
            ("/anthropic/v1/messages/count_tokens", "/v1/messages/count_tokens", true),
            ("/anthropic/v1/models", "/v1/models", true),
            ("/openai/v1/models", "/v1/models", false),
            ("/v1/messages", "/v1/messages", false),
            ("/anthropic/v1", "/anthropic/v1", false),
        ] {
            let mut request = Request::builder().uri(sent).body(()).expect("a request");
            apply(&mut request);
            assert_eq!(Some(sent_path(&request)), sent.split('?').next());
            let has_mark = request.extensions().get::<BelowAnthropic>().is_some();
            assert_eq!((request.uri().to_string().as_str(), has_mark), (expected, is_marked));
        }
    }

    fn path(uri: &str) -> String {
        let mut request = Request::builder().uri(uri).body(()).expect("a request");
        apply(&mut request);
        request.uri().to_string()
    }

    #[test]
    fn a_path_without_the_version_or_with_it_twice_is_recognised() {
        assert_eq!(meant("/chat/completions").as_deref(), Some("/v1/chat/completions"));
        assert_eq!(meant("/v1/v1/responses/").as_deref(), Some("/v1/responses"));
        assert_eq!(meant("/messages").as_deref(), Some("/v1/messages"));
        assert_eq!(meant("/api/mcp").as_deref(), Some("/mcp"));
        assert_eq!(meant("/embeddings"), None);
    }
}
