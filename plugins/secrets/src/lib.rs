//! Keeps secrets out of arguments, results and responses of models. A call whose arguments have one is denied; in a result,
//! an error or a response, a mark takes its place, if the settings do not say otherwise. [`find`] knows the formats, [`json`] the texts in a document.

pub mod find;
pub mod json;
#[cfg(test)]
mod rates;
pub mod settings;

use airlock_guest::{
    Error,
    guard::{Call, Guard, Hook, ModelExchange, Outcome, Verdict},
};

use self::{
    find::Kind,
    settings::{AfterCall, BeforeCall, Settings},
};

/// The guard.
#[derive(Debug)]
pub struct Secrets;

impl Guard for Secrets {
    const HOOKS: &'static [Hook] = &[Hook::Before, Hook::After, Hook::AfterModel];

    fn check_settings(settings: &str) -> Result<(), Error> {
        Settings::check(settings)
    }

    fn before(call: &Call) -> Result<Verdict, Error> {
        let Settings { kinds, before, .. } = call.settings()?;
        if before == BeforeCall::Allow {
            return Ok(Verdict::Allow);
        }
        let present = json::kinds(&call.arguments, &kinds)?;
        if present.is_empty() {
            return Ok(Verdict::Allow);
        }
        let reason = format!("the arguments have a secret: {}", names(&present));
        if before == BeforeCall::Ask {
            return Ok(Verdict::ask(reason));
        }
        Ok(Verdict::deny("secret_in_arguments", reason))
    }

    fn after(call: &Call, outcome: &Outcome) -> Result<Verdict, Error> {
        let Settings { kinds, after, .. } = call.settings()?;
        decide(outcome.text(), &kinds, after, "outcome")
    }

    fn after_model(exchange: &ModelExchange) -> Result<Verdict, Error> {
        let Settings { kinds, after_model, .. } = exchange.settings()?;
        decide(&exchange.texts, &kinds, after_model, "response")
    }
}

/// Decides about the JSON text of an outcome or of a response, which `name` names.
fn decide(json: &str, kinds: &[Kind], after: AfterCall, name: &str) -> Result<Verdict, Error> {
    match after {
        AfterCall::Allow => Ok(Verdict::Allow),
        AfterCall::Remove => {
            let redacted = json::redact(json, kinds)?;
            Ok(redacted.map_or(Verdict::Allow, Verdict::Rewrite))
        }
        AfterCall::Deny => {
            let present = json::kinds(json, kinds)?;
            if present.is_empty() {
                return Ok(Verdict::Allow);
            }
            let reason = format!("the {name} has a secret: {}", names(&present));
            Ok(Verdict::deny(format!("secret_in_{name}"), reason))
        }
    }
}

fn names(kinds: &[Kind]) -> String {
    let names: Vec<_> = kinds.iter().map(|kind| kind.name()).collect();
    names.join(", ")
}

airlock_guest::guard!(Secrets);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::find::checksum::signed;

    /// Returns a token with a valid checksum.
    fn token() -> String {
        format!("ghp_{}", signed("zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ"))
    }

    #[test]
    fn a_call_with_a_secret_is_denied_and_the_reason_names_its_kind_alone() {
        let call = Call::new("web-fetch", &json!({"url": "https://a.b", "headers": [token()]}));
        let denied =
            Verdict::deny("secret_in_arguments", "the arguments have a secret: github_token");
        assert_eq!(Secrets::before(&call), Ok(denied));
        let plain = Call::new("web-fetch", &json!({"url": "https://a.b", "n": 4}));
        assert_eq!(Secrets::before(&plain), Ok(Verdict::Allow));
    }

    #[test]
    fn a_secret_in_a_result_or_an_error_is_removed_and_nothing_else_changes() {
        let call = Call::new("web-fetch", &json!({}));
        let text = format!(
            r#"{{"content":[{{"type":"text","text":"a\u00e9 {}\n"}}],"n":1.50,"big":123456789012345678901}}"#,
            token()
        );
        let expected = r#"{"content":[{"type":"text","text":"aé [secret removed: github_token]\n"}],"n":1.50,"big":123456789012345678901}"#;
        for outcome in [Outcome::Success(text.clone()), Outcome::Failure(text)] {
            let verdict = Secrets::after(&call, &outcome);
            assert_eq!(verdict, Ok(Verdict::Rewrite(expected.to_owned())));
        }
        let again = Outcome::Success(expected.to_owned());
        assert_eq!(Secrets::after(&call, &again), Ok(Verdict::Allow));
    }

    #[test]
    fn a_secret_in_a_response_of_a_model_is_removed_or_withholds_it() {
        let text = format!("use {} now", token());
        let exchange = ModelExchange::new(&[("assistant", text.as_str()), ("call", "{}")]);
        let expected = ModelExchange::new(&[
            ("assistant", "use [secret removed: github_token] now"),
            ("call", "{}"),
        ]);
        assert_eq!(Secrets::after_model(&exchange), Ok(Verdict::Rewrite(expected.texts)));
        let exchange = exchange.with_settings(&json!({"after_model": "deny"}));
        let denied = Verdict::deny("secret_in_response", "the response has a secret: github_token");
        assert_eq!(Secrets::after_model(&exchange), Ok(denied));
        let exchange = exchange.with_settings(&json!({"after_model": "allow"}));
        assert_eq!(Secrets::after_model(&exchange), Ok(Verdict::Allow));
    }

    #[test]
    fn settings_choose_the_kinds_and_the_decisions() {
        let arguments = json!({"header": token()});
        let text = json!({"content": [{"type": "text", "text": token()}]}).to_string();
        let outcome = Outcome::Success(text);
        let before = "the arguments have a secret: github_token";
        let withheld = Verdict::deny("secret_in_outcome", "the outcome has a secret: github_token");
        for (settings, expected) in [
            (json!({"before": "ask", "after": "deny"}), [Verdict::ask(before), withheld]),
            (json!({"before": "allow", "after": "allow"}), [Verdict::Allow, Verdict::Allow]),
            (json!({"kinds": ["jwt", "iban"]}), [Verdict::Allow, Verdict::Allow]),
        ] {
            let call = Call::new("web-fetch", &arguments).with_settings(&settings);
            let verdicts = [Secrets::before(&call), Secrets::after(&call, &outcome)];
            assert_eq!(verdicts, expected.map(Ok), "{settings}");
        }
    }

    #[test]
    fn a_secret_that_is_a_key_is_removed_and_keys_stay_distinct() {
        let text = json!({token(): 1, "a": {token(): token()}}).to_string();
        let redacted =
            json::redact(&text, &Kind::ALL).expect("it is JSON").expect("it has secrets");
        let redacted: Value = serde_json::from_str(&redacted).expect("it is JSON");
        let mark = "[secret removed: github_token]";
        assert_eq!(redacted, json!({mark: 1, "a": {format!("{mark} 2"): mark}}));
    }
}
