use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::{Kind, Settings, chat_replies};
use airlock_core::memory::MemoryBudget;
use airlock_json::object;

/// Returns scripted providers: of each, the name, the status of its error or 200, and its fallbacks.
fn models(providers: &[(&str, u16, &[&str])]) -> Models {
    let dir = tempfile::TempDir::new().expect("a directory");
    let settings: Vec<_> = providers
        .iter()
        .map(|(name, status, fallbacks)| {
            let answer = match status {
                200 => json!({"content": name}),
                _ => json!({"error": {"status": status, "message": name}}),
            };
            let script = dir.path().join(name);
            let turns = json!({"turns": [{"answer": answer}]});
            fs::write(&script, turns.to_string()).expect("a file");
            Settings {
                name: (*name).to_owned(),
                kind: Kind::Scripted { script },
                fallbacks: fallbacks.iter().map(|&fallback| fallback.to_owned()).collect(),
            }
        })
        .collect();
    Models::new(&settings).expect("good settings")
}

fn request(fallbacks: &Value) -> RawObject {
    RawObject::from(&object(json!({"model": "a/m", "messages": [], "fallbacks": fallbacks})))
}

async fn ask(route: &mut Route<'_>, prompt: &mut Prompt) -> Result<Value, ModelError> {
    let held = MemoryBudget::unlimited().charge();
    let terms = chat_replies::terms(false, &held);
    route.respond(prompt, terms).await.map(|response| chat_replies::whole(response).into())
}

/// Sends one request and returns the text of the answer and its model.
async fn answer(models: &Models, fallbacks: &Value) -> Result<[Value; 2], ModelError> {
    let mut body = request(fallbacks);
    let mut route = models.route(&mut body)?;
    let answer = ask(&mut route, &mut Prompt::new(body)).await?;
    Ok([answer["choices"][0]["message"]["content"].clone(), answer["model"].clone()])
}

#[test]
fn the_name_of_a_model_has_a_bounded_length() {
    let models = models(&[("a", 200, &[])]);
    for (length, is_good) in [(MAX_NAME_BYTES, true), (MAX_NAME_BYTES + 1, false)] {
        let name = format!("a/{}", "x".repeat(length - 2));
        let mut body = RawObject::from(&object(json!({"model": name, "messages": []})));
        assert_eq!(models.route(&mut body).is_ok(), is_good, "{length}");
        assert_eq!(models.route(&mut request(&json!([name]))).is_ok(), is_good, "{length}");
    }
}

#[tokio::test]
async fn a_provider_that_fails_is_replaced_by_the_first_fallback_that_responds() {
    let models = models(&[("a", 503, &[]), ("b", 429, &[]), ("c", 200, &[]), ("d", 200, &[])]);
    for fallbacks in [
        json!(["b/x", "c/y/z", "d/x"]),
        json!([{"provider": "b", "model": "x"}, {"provider": "c", "model": "y/z"}]),
    ] {
        assert_eq!(answer(&models, &fallbacks).await.expect("an answer"), ["c", "y/z"]);
    }
}

#[tokio::test]
async fn an_error_of_the_request_is_final() {
    for status in [400, 404, 422] {
        let models = models(&[("a", status, &["b/x"]), ("b", 200, &[])]);
        let error = answer(&models, &json!(null)).await.expect_err("a bad request");
        assert_eq!(error.status().as_u16(), status);
    }
}

#[tokio::test]
async fn the_error_of_the_first_provider_is_returned_if_all_fail() {
    let models = models(&[("a", 503, &[]), ("b", 400, &[]), ("c", 500, &[])]);
    let error = answer(&models, &json!(["b/x", "c/x"])).await.expect_err("all fail");
    assert_eq!((error.status().as_u16(), &error.to_object()["message"]), (503, &json!("a")));
}

#[tokio::test]
async fn a_failure_says_that_the_model_names_no_provider() {
    // Nothing listens on this port.
    let mut service = crate::Service::new(crate::Api::OpenAi, "http://127.0.0.1:1/v1");
    service.retries.max = 0;
    let kind = Kind::Service(Box::new(service));
    let settings = Settings { name: "a".to_owned(), kind, fallbacks: Vec::new() };
    let models = Models::new(&[settings]).expect("good settings");
    let failed = async |model: &str| {
        let mut body = RawObject::from(&object(json!({"model": model, "messages": []})));
        let mut route = models.route(&mut body).expect("a route");
        let error = ask(&mut route, &mut Prompt::new(body)).await.expect_err("nothing listens");
        let object = error.to_object();
        assert_eq!(
            (error.status().as_u16(), &object["code"]),
            (502, &json!("provider_unreachable"))
        );
        object["message"].as_str().expect("a text").to_owned()
    };
    let own = "the connection to provider 'a' failed";
    assert_eq!(failed("a/x").await, own);
    assert_eq!(failed("x").await, own);
    assert_eq!(
        failed("nosuch/x/y").await,
        format!(
            "no provider is named 'nosuch', so the model 'nosuch/x/y' was asked of the first one: {own}"
        )
    );
}

#[tokio::test]
async fn an_error_that_a_provider_wrote_is_kept_if_the_model_names_no_provider() {
    let models = models(&[("a", 503, &[])]);
    let mut body = RawObject::from(&object(json!({"model": "nosuch/x", "messages": []})));
    let mut route = models.route(&mut body).expect("a route");
    let error = ask(&mut route, &mut Prompt::new(body)).await.expect_err("it fails");
    assert!(matches!(error, ModelError::NoSuchProvider { .. }), "{error}");
    assert_eq!((error.status().as_u16(), &error.to_object()["message"]), (503, &json!("a")));
}

#[tokio::test]
async fn fallbacks_of_a_request_replace_those_of_the_configuration() {
    let models = models(&[("a", 503, &["b/x"]), ("b", 200, &[]), ("c", 200, &[])]);
    assert_eq!(answer(&models, &json!(null)).await.expect("an answer"), ["b", "x"]);
    assert_eq!(answer(&models, &json!(["c/y"])).await.expect("an answer"), ["c", "y"]);
    assert_eq!(answer(&models, &json!([])).await.expect_err("none is asked").status(), 503);
}

#[tokio::test]
async fn the_provider_that_responded_gets_all_later_requests_alone() {
    let models = models(&[("a", 503, &[]), ("b", 200, &[])]);
    let mut body = request(&json!(["b/x"]));
    let mut route = models.route(&mut body).expect("a route");
    assert_eq!(body.get("fallbacks"), None, "no provider gets them");
    let mut prompt = Prompt::new(body);
    assert_eq!(route.provider(), "a");
    for _ in 0..2 {
        ask(&mut route, &mut prompt).await.expect("an answer");
        assert_eq!((route.provider(), prompt.body.get("model")), ("b", Some(r#""x""#)));
        assert!(route.fallbacks.is_empty());
    }
}

#[test]
fn a_fallback_that_cannot_be_routed_is_refused_with_its_place() {
    let models = models(&[("a", 200, &[]), ("b", 200, &[])]);
    let nine: Vec<_> = (0..9).map(|n| format!("b/{n}")).collect();
    for (fallbacks, field) in [
        (json!("b/x"), "fallbacks"),
        (json!({"provider": "b", "model": "x"}), "fallbacks"),
        (json!(["b/x", 7]), "fallbacks[1]"),
        (json!(["b/x", "x"]), "fallbacks[1]"),
        (json!(["elsewhere/x"]), "fallbacks[0]"),
        (json!([{"provider": "b"}]), "fallbacks[0]"),
        (json!(nine), "fallbacks"),
    ] {
        let Err(error) = models.route(&mut request(&fallbacks)) else { panic!("{fallbacks}") };
        let object = error.to_object();
        assert_eq!((error.status().as_u16(), &object["param"]), (400, &json!(field)));
        assert!(error.to_string().starts_with(&format!("`{field}`: ")), "{error}");
    }
    assert!(models.route(&mut request(&json!(nine[..8]))).is_ok());
}

#[test]
fn a_member_that_a_provider_may_read_as_another_one_is_refused_by_its_name() {
    let models = models(&[("a", 200, &[])]);
    for name in ["Model", "N", "MAX_TOKENS", "max_to\u{212a}ens", "me\u{17f}\u{17f}ages"] {
        let mut body = request(&json!(null));
        body.set(name, "1");
        let Err(error) = models.route(&mut body) else { panic!("{name}") };
        let object = error.to_object();
        assert_eq!((error.status().as_u16(), &object["param"]), (400, &json!(name)));
        assert_eq!(object["code"], "unknown_parameter");
    }
    for name in ["model_version", "max_tokens", "nn", "\u{212a}", "metadata"] {
        let mut body = request(&json!(null));
        body.set(name, "1");
        assert!(models.route(&mut body).is_ok(), "{name}");
    }
}

#[test]
fn a_model_is_asked_once() {
    let models = models(&[("a", 200, &[]), ("b", 200, &[])]);
    let mut body = request(&json!(["b/x", "b/x", "b/y", {"provider": "b", "model": "x"}]));
    let route = models.route(&mut body).expect("a route");
    let asked: Vec<_> = route.fallbacks.iter().map(|target| target.model.as_str()).collect();
    assert_eq!(asked, ["x", "y"]);
    let own = format!("a/{}", route.first.model);
    assert!(models.route(&mut request(&json!([own]))).expect("a route").fallbacks.is_empty());
}

#[test]
fn a_configured_fallback_must_name_a_provider() {
    assert!(Models::new(&[settings("a/other")]).is_ok());
    for bad in ["b/m", "a", ""] {
        let error = Models::new(&[settings(bad)]).expect_err(bad);
        assert!(matches!(error, crate::BadProvider::Fallback { .. }), "{error}");
    }
}

fn settings(fallback: &str) -> Settings {
    let api = crate::Api::OpenAi;
    let service = crate::Service::new(api, "http://localhost/v1");
    Settings {
        name: "a".to_owned(),
        kind: Kind::Service(Box::new(service)),
        fallbacks: vec![fallback.to_owned()],
    }
}

#[test]
fn a_bare_model_gets_the_preferred_provider_if_there_is_one() {
    let models = models(&[("a", 200, &[]), ("anthropic", 200, &[])]);
    for (model, expected) in [
        ("claude", "anthropic/claude"),
        ("a/claude", "a/claude"),
        ("anthropic/claude", "anthropic/claude"),
        ("nobody/claude", "anthropic/nobody/claude"),
    ] {
        assert_eq!(models.qualified(model, "anthropic"), expected);
    }
    assert_eq!(models.qualified("claude", "absent"), "claude");
    assert!(!models.has_messages("anthropic/claude"), "a script has no API");
}
