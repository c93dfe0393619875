//! The metadata of the gateway that OAuth clients read.

use super::*;
use crate::ResourcePart;

const ROOT: &str = "/.well-known/oauth-protected-resource";

fn verifier_of(resource: &str) -> Verifier {
    verifier(VerifierSettings { resource: resource.to_owned(), ..settings() })
}

#[test]
fn metadata_names_the_resource_its_issuer_and_its_scopes() {
    let mut settings = settings();
    settings.scopes = vec!["tools".to_owned()];
    settings.resource_name = "Tools of Example".to_owned();
    for value in ["tools:write", "tools"] {
        settings.views.push(ViewRule {
            claim: "scope".to_owned(),
            value: value.to_owned(),
            view: "all".to_owned(),
        });
    }
    let metadata = serde_json::to_string_pretty(&verifier(settings).metadata(ROOT)).expect("JSON");
    insta::assert_snapshot!(metadata, @r#"
    {
      "resource": "https://gw.example.com/mcp",
      "authorization_servers": [
        "https://idp.example.com"
      ],
      "bearer_methods_supported": [
        "header"
      ],
      "resource_name": "Tools of Example",
      "scopes_supported": [
        "tools",
        "tools:write"
      ]
    }
    "#);
}

#[test]
fn metadata_without_scopes_does_not_mention_them() {
    let metadata = verifier_of(RESOURCE).metadata(ROOT).expect("it is there");
    assert_eq!(metadata.get("scopes_supported"), None);
}

#[test]
fn metadata_is_served_under_the_path_of_the_resource_and_at_the_root() {
    for (resource, path) in [
        ("https://gw.example.com", ROOT.to_owned()),
        ("https://gw.example.com/", ROOT.to_owned()),
        ("https://gw.example.com/mcp", format!("{ROOT}/mcp")),
        ("https://gw.example.com/a/mcp/", format!("{ROOT}/a/mcp/")),
        ("http://[::1]:8080/mcp", format!("{ROOT}/mcp")),
    ] {
        let verifier = verifier_of(resource);
        for path in [&path, ROOT] {
            let metadata = verifier.metadata(path).expect("it is there");
            assert_eq!(metadata["resource"], resource, "{path}");
        }
        let origin = resource.split('/').take(3).collect::<Vec<_>>().join("/");
        let challenge = challenge(&verifier, None).expect("a challenge");
        assert!(challenge.contains(&format!("\"{origin}{path}\"")), "{challenge}");
    }
}

#[test]
fn a_part_has_metadata_of_its_own_below_that_of_the_resource() {
    let part = ResourcePart::parse("on-call").expect("a part");
    for (resource, path) in [
        (RESOURCE, format!("{ROOT}/mcp/on-call")),
        ("https://gw.example.com/a/mcp/", format!("{ROOT}/a/mcp/on-call")),
    ] {
        let verifier = verifier_of(resource);
        let metadata = verifier.metadata(&path).expect("it is there");
        let identifier = format!("{}/on-call", resource.trim_end_matches('/'));
        assert_eq!(metadata["resource"], identifier.as_str());
        let challenge = verifier.challenge(Some(&part), None).expect("a challenge");
        let challenge = challenge.to_str().expect("ASCII");
        assert!(challenge.contains(&format!("\"https://gw.example.com{path}\"")), "{challenge}");
        for other in [format!("{path}/"), format!("{path}/x"), format!("{ROOT}/mcpon-call")] {
            assert_eq!(verifier.metadata(&other), None, "{other}");
        }
    }
    // An issuer that does not know the resource by its URL knows no part of it either.
    let audiences = vec!["api://gateway".to_owned()];
    let by_audience = verifier(VerifierSettings { audiences, ..settings() });
    assert_eq!(by_audience.metadata(&format!("{ROOT}/mcp/on-call")), None);
    assert_eq!(by_audience.challenge(Some(&part), None), by_audience.challenge(None, None));
    // A resource without a path is the whole host.
    let whole = verifier_of("https://gw.example.com/");
    assert_eq!(whole.metadata(&format!("{ROOT}/on-call")), None);
    assert_eq!(whole.challenge(Some(&part), None), whole.challenge(None, None));
}

#[test]
fn a_challenge_is_sent_if_another_token_would_help() {
    let verifier = verifier_of(RESOURCE);
    let start = concat!(
        "Bearer resource_metadata=",
        r#""https://gw.example.com/.well-known/oauth-protected-resource/mcp""#
    );
    assert_eq!(challenge(&verifier, None).as_deref(), Some(start));
    for refusal in [
        TokenRefusal::Invalid(InvalidToken::Expired),
        TokenRefusal::Scope { required: vec!["x".to_owned()] },
    ] {
        assert!(challenge(&verifier, Some(&refusal)).is_some_and(|value| value.starts_with(start)));
    }
    assert_eq!(challenge(&verifier, Some(&TokenRefusal::View)), None);
    let unavailable = TokenRefusal::Unavailable { retry_after: Duration::from_secs(1) };
    assert_eq!(challenge(&verifier, Some(&unavailable)), None);
}

fn challenge(verifier: &Verifier, refusal: Option<&TokenRefusal>) -> Option<String> {
    let value = verifier.challenge(None, refusal)?;
    Some(value.to_str().expect("ASCII").to_owned())
}
