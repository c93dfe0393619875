//! Settings that are refused.

use super::*;

/// Returns the error for good settings with a change.
fn refused(change: impl FnOnce(&mut VerifierSettings)) -> Option<String> {
    let mut settings = settings();
    change(&mut settings);
    settings.check().err().map(|error| error.field)
}

#[test]
fn complete_settings_are_accepted() {
    assert_eq!(refused(|_| {}), None);
    assert_eq!(
        refused(|settings| {
            settings.issuer = "http://localhost:8080/realms/a".to_owned();
            settings.resource = "http://127.0.0.1:8080/mcp".to_owned();
            settings.jwks_uri = Some("https://keys.example.com/?p=policy".to_owned());
            settings.scopes = vec!["tools:read".to_owned(), "!#[]~".to_owned()];
            settings.audiences = vec!["api://airlock".to_owned()];
            settings.clock_skew = Duration::from_mins(5);
        }),
        None
    );
}

#[test]
fn unsafe_urls_are_refused_by_name() {
    for unsafe_url in ["http://idp.example.com", "https://idp.example.com/#x", "idp", ""] {
        assert_eq!(
            refused(|settings| settings.issuer = unsafe_url.to_owned()).as_deref(),
            Some("issuer")
        );
        assert_eq!(
            refused(|settings| settings.resource = unsafe_url.to_owned()).as_deref(),
            Some("resource")
        );
        assert_eq!(
            refused(|settings| settings.jwks_uri = Some(unsafe_url.to_owned())).as_deref(),
            Some("jwks_uri")
        );
    }
    for query in ["https://idp.example.com/?", "https://idp.example.com/?tenant=a"] {
        assert_eq!(
            refused(|settings| settings.issuer = query.to_owned()).as_deref(),
            Some("issuer")
        );
        assert_eq!(
            refused(|settings| settings.resource = query.to_owned()).as_deref(),
            Some("resource")
        );
    }
}

#[test]
fn an_empty_table_of_views_is_refused() {
    assert_eq!(refused(|settings| settings.views.clear()).as_deref(), Some("views"));
    let error = VerifierSettings { views: Vec::new(), ..settings() }.check().expect_err("no views");
    insta::assert_snapshot!(error, @"views: must have a row: without one, every token is refused");
}

#[test]
fn empty_and_oversized_texts_are_refused() {
    for odd in [String::new(), "x".repeat(1025), "a\nb".to_owned()] {
        assert_eq!(
            refused(|settings| settings.views[1].claim = odd.clone()).as_deref(),
            Some("views[1].claim")
        );
        assert_eq!(
            refused(|settings| settings.views[1].value = odd.clone()).as_deref(),
            Some("views[1].value")
        );
        assert_eq!(
            refused(|settings| settings.views[0].view = odd.clone()).as_deref(),
            Some("views[0].view")
        );
        assert_eq!(
            refused(|settings| settings.audiences = vec![odd.clone()]).as_deref(),
            Some("audiences[0]")
        );
        assert_eq!(
            refused(|settings| settings.scopes = vec![odd.clone()]).as_deref(),
            Some("scopes[0]")
        );
        assert_eq!(
            refused(|settings| settings.resource_name = odd.clone()).as_deref(),
            Some("resource_name")
        );
    }
    for scope in ["two words", "qu\"ote", "back\\slash", "ä", "\t"] {
        let scopes = vec!["good".to_owned(), scope.to_owned()];
        assert_eq!(
            refused(|settings| settings.scopes = scopes).as_deref(),
            Some("scopes[1]"),
            "{scope}"
        );
    }
}

#[test]
fn lists_and_skew_are_bounded() {
    assert_eq!(refused(|settings| settings.views = rows(1000)), None);
    assert_eq!(refused(|settings| settings.views = rows(1001)).as_deref(), Some("views"));
    let beyond = Duration::from_mins(5) + Duration::from_nanos(1);
    assert_eq!(refused(|settings| settings.clock_skew = beyond).as_deref(), Some("clock_skew"));
}

fn rows(count: usize) -> Vec<ViewRule> {
    vec![settings().views[0].clone(); count]
}

#[test]
fn a_verifier_checks_its_settings() {
    let settings = VerifierSettings { views: Vec::new(), ..settings() };
    let error = Verifier::new(settings, reqwest::Client::builder()).expect_err("no views");
    assert!(matches!(error, crate::VerifierError::Settings(_)));
}
