//! The metadata of the gateway that OAuth clients read.

use super::*;

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
    let metadata = serde_json::to_string_pretty(&verifier(settings).metadata()).expect("JSON");
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
    assert_eq!(verifier_of(RESOURCE).metadata().get("scopes_supported"), None);
}

#[test]
fn metadata_is_served_under_the_path_of_the_resource_and_at_the_root() {
    let root = "/.well-known/oauth-protected-resource";
    for (resource, path) in [
        ("https://gw.example.com", root.to_owned()),
        ("https://gw.example.com/", root.to_owned()),
        ("https://gw.example.com/mcp", format!("{root}/mcp")),
        ("https://gw.example.com/a/mcp/", format!("{root}/a/mcp/")),
    ] {
        let verifier = verifier_of(resource);
        let paths = verifier.metadata_paths();
        assert_eq!(paths.first(), Some(&path), "{resource}");
        assert_eq!(paths.last().map(String::as_str), Some(root), "{resource}");
        assert_eq!(verifier.metadata_url(), format!("https://gw.example.com{path}"));
    }
    let verifier = verifier_of("http://[::1]:8080/mcp");
    assert_eq!(
        verifier.metadata_url(),
        "http://[::1]:8080/.well-known/oauth-protected-resource/mcp"
    );
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
        TokenRefusal::Invalid(Invalid::Expired),
        TokenRefusal::Scope { required: vec!["x".to_owned()] },
    ] {
        assert!(challenge(&verifier, Some(&refusal)).is_some_and(|value| value.starts_with(start)));
    }
    assert_eq!(challenge(&verifier, Some(&TokenRefusal::View)), None);
    let unavailable = TokenRefusal::Unavailable { retry_after: Duration::from_secs(1) };
    assert_eq!(challenge(&verifier, Some(&unavailable)), None);
}

fn challenge(verifier: &Verifier, refusal: Option<&TokenRefusal>) -> Option<String> {
    let value = verifier.challenge(refusal)?;
    Some(value.to_str().expect("ASCII").to_owned())
}
