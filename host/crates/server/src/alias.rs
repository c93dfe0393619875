//! Other paths of the same APIs: `/openai` as a base path, as Bifrost has it for OpenAI's SDKs.

use http::{Request, Uri, uri::PathAndQuery};

/// Base path for clients of OpenAI's APIs.
const BASE: &str = "/openai";
/// Ends of the paths that clients are set up for.
const ENDS: [&str; 5] = ["/chat/completions", "/responses", "/models", "/mcp/tool/execute", "/mcp"];

/// Gives a request with another path the path that routes have.
pub(super) fn apply<B>(request: &mut Request<B>) {
    let Some(path) = canonical(request.uri().path()) else { return };
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(path + &query).ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

/// Returns the path that `/openai/…` stands for, with or without the version; `None` for other paths.
fn canonical(path: &str) -> Option<String> {
    let rest = path.strip_prefix(BASE)?;
    let rest = rest.strip_prefix("/v1").filter(|rest| rest.starts_with('/')).unwrap_or(rest);
    let is_whole = rest.len() > 1 && rest.starts_with('/') && rest != "/v1";
    is_whole.then(|| format!("/v1{rest}"))
}

/// Returns the path that is most likely meant by one that does not exist: of a client whose base URL
/// lacks the version, or has it twice.
pub(super) fn meant(path: &str) -> Option<String> {
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

    fn path(uri: &str) -> String {
        let mut request = Request::builder().uri(uri).body(()).expect("a request");
        apply(&mut request);
        request.uri().to_string()
    }

    #[test]
    fn a_path_without_the_version_or_with_it_twice_is_recognised() {
        assert_eq!(meant("/chat/completions").as_deref(), Some("/v1/chat/completions"));
        assert_eq!(meant("/v1/v1/responses/").as_deref(), Some("/v1/responses"));
        assert_eq!(meant("/api/mcp").as_deref(), Some("/mcp"));
        assert_eq!(meant("/embeddings"), None);
    }
}
