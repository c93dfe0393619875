use super::*;

fn token(more: &Value) -> Value {
    let mut secret = json!({"reason": "signs in"});
    secret.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let mut request = api(&json!({}));
    request["secret"] = json!({"token": secret});
    request
}

fn secret(grant: SecretGrant) -> Grant {
    Grant { secret: [("token".to_owned(), grant)].into(), ..http(&[named("api")]) }
}

fn from(variable: &str) -> SecretGrant {
    SecretGrant {
        source: SecretSource::Env(variable.to_owned()),
        audience: None,
        inject: None,
        reveal: false,
    }
}

fn injected() -> Value {
    json!({"inject": {"header": "authorization", "prefix": "Bearer "}, "audience": ["api"]})
}

#[test]
fn a_secret_is_attached_to_its_audience_and_not_revealed() {
    let asked = token(&injected());
    let grants = granted(&asked, &secret(from("TOKEN"))).grants;
    assert!(grants.secrets.contains("token") && grants.revealed.is_empty());
    let credential = format!("{:?}", grants.credentials);
    assert!(
        credential.contains("authorization") && credential.contains("api.example.com"),
        "{credential}"
    );
    assert!(credential.contains(r#"destinations: {"api"}"#), "{credential}");
    assert!(!credential.contains("hush"), "{credential}");
    insta::assert_snapshot!(
        refused(&asked, &http(&[named("api")])),
        @r#"the plugin needs secret.token, which is not granted; its reason: signs in; grant it with "secret": {"token": {"from": "env:NAME"}}"#
    );
    insta::assert_snapshot!(
        refused(&asked, &secret(from("UNSET"))),
        @"grants.secret.token.from: the environment variable UNSET is not set, or is not text"
    );
    let unasked = granted(&api(&json!({})), &secret(from("TOKEN")));
    assert!(unasked.grants.secrets.is_empty());
    assert_eq!(
        unasked.notes,
        ["grants.secret.token opens nothing: the plugin does not ask for it"]
    );
}

#[test]
fn both_parts_of_a_user_and_password_are_redacted_from_results() {
    assert_eq!(redacted(""), "[secret token] [secret token] [secret token]");
    assert_eq!(redacted("me"), "s3cret-user s3cret-word [secret token]");
}

fn redacted(user: &str) -> String {
    let asked = token(&json!({"inject": {"basic": user}, "audience": ["api"]}));
    let asked = manifest(&asked, None);
    let rights = Rights::intersect(Some(&asked), &secret(from("TOKEN")), &|_: &SecretSource| {
        Ok(Secret::new("s3cret-user:s3cret-word"))
    });
    let text = "s3cret-user s3cret-word s3cret-user:s3cret-word";
    rights.expect("granted").grants.scrubber.text(text).into_owned()
}

#[test]
fn an_audience_of_the_operator_is_required_without_a_manifest() {
    let narrow = SecretGrant {
        audience: Some(vec![HttpGrant::Rule(rule("https://api.example.com GET /v1"))]),
        ..from("TOKEN")
    };
    let credentials =
        format!("{:?}", granted(&token(&injected()), &secret(narrow)).grants.credentials);
    assert!(credentials.contains("v1"), "{credentials}");
    let header = Injection::header("x-key", "").expect("a header");
    let plain = SecretGrant { inject: Some(header), ..from("TOKEN") };
    let grant = Grant { secret: [("token".to_owned(), plain)].into(), ..Grant::default() };
    insta::assert_snapshot!(
        Rights::intersect(None, &grant, &read).expect_err("refused"),
        @"grants.secret.token.audience: is required for a plugin that embeds no manifest"
    );
}

#[test]
fn a_secret_is_sent_only_to_places_that_the_plugin_requested() {
    let asked = token(&injected());
    let wide = granted(&asked, &sending_to(&["https://*.example.com GET,POST /v1/**"]));
    let credentials = format!("{:?}", wide.grants.credentials);
    assert!(
        !credentials.contains("Below")
            && credentials.contains("v1")
            && !credentials.contains("POST"),
        "{credentials}"
    );
    insta::assert_snapshot!(
        refused(&asked, &sending_to(&["https://api.example.com GET /**", "https://other.example.org GET /**"])),
        @"grants.secret.token.audience[1]: found https://other.example.org GET /**, the plugin asks to send it to https://api.example.com GET,HEAD /**"
    );
    let mut open = token(&injected());
    open["http"]["api"]["url"] = json!("*");
    let chosen = granted(&open, &sending_to(&["https://other.example.org GET /**"]));
    assert!(
        format!("{:?}", chosen.grants.credentials).contains("other.example.org"),
        "the hosts are the operator's choice"
    );
}

fn sending_to(audience: &[&str]) -> Grant {
    let audience = audience.iter().map(|text| HttpGrant::Rule(rule(text))).collect();
    let secret = SecretGrant { audience: Some(audience), ..from("TOKEN") };
    let places = ["https://api.example.com GET,POST /**", "https://other.example.org GET /**"];
    Grant {
        secret: [("token".to_owned(), secret)].into(),
        ..http(&places.map(|text| HttpGrant::Rule(rule(text))))
    }
}

#[test]
fn a_secret_for_any_host_is_sent_to_the_operators_own_rules_alone() {
    let mut asked = token(&json!({"inject": {"header": "x-key"}, "audience": ["any"]}));
    asked["http"]["any"] = json!({"url": "*", "reason": "hosts of your choice"});
    let own = HttpGrant::Rule(rule("https://chosen.example.org GET,POST /v1/**"));
    let grant = Grant { http: vec![named("api"), own], ..secret(from("TOKEN")) };
    let rights = granted(&asked, &grant);
    let credentials = format!("{:?}", rights.grants.credentials);
    assert!(
        credentials.contains("chosen.example.org") && credentials.contains("POST"),
        "{credentials}"
    );
    assert!(!credentials.contains("api.example.com"), "{credentials}");
    assert!(rights.notes.is_empty(), "{:?}", rights.notes);
}

#[test]
fn a_secret_without_a_granted_host_in_its_audience_is_reported() {
    let mut asked = token(&json!({"inject": {"header": "x-key"}, "audience": ["any"]}));
    asked["http"]["any"] = json!({"url": "*", "reason": "hosts of your choice", "optional": true});
    let rights = granted(&asked, &secret(from("TOKEN")));
    insta::assert_snapshot!(rights.notes.join("\n"), @r#"grants.secret.token is sent nowhere: no host of its audience (http.any) is granted; grant one with "http""#);
}

#[test]
fn a_secrets_value_is_shown_only_if_asked_for_granted_and_trusted() {
    let asked = token(&json!({"reveal": true}));
    assert!(granted(&asked, &trusted(revealing())).grants.revealed.contains_key("token"));
    insta::assert_snapshot!(
        refused(&asked, &revealing()),
        @r#"grants.secret.token.reveal: the profile "untrusted" shows no plugin a secret's value; "profile": "trusted" does"#
    );
    let kept = granted(&asked, &trusted(secret(from("TOKEN"))));
    assert!(
        kept.grants.revealed.is_empty() && kept.notes[0].contains("requests the value"),
        "{:?}",
        kept.notes
    );
    let unasked = granted(&token(&injected()), &trusted(revealing()));
    assert!(
        unasked.grants.revealed.is_empty() && unasked.notes[0].contains("opens nothing"),
        "{:?}",
        unasked.notes
    );
}

fn revealing() -> Grant {
    secret(SecretGrant { reveal: true, ..from("TOKEN") })
}
