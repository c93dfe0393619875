//! The exports of a guard: conversions between the types of the contract and those of the SDK.

use super::{
    Call, Effects, Guard, Hook, ListedTool, ModelExchange, Outcome, Verdict,
    bindings::exports::airlock::guard::hooks as wit,
};
use crate::Error;

impl<G: Guard> wit::Guest for G {
    fn check_settings(settings: String) -> Result<Vec<wit::Hook>, String> {
        <G as Guard>::check_settings(&settings).map_err(|error| error.to_string())?;
        Ok(G::HOOKS.iter().copied().map(wit::Hook::from).collect())
    }

    fn before_call(call: wit::Call) -> wit::Verdict {
        settled(G::before(&call.into()))
    }

    fn after_call(call: wit::Call, outcome: wit::Outcome) -> wit::Verdict {
        settled(G::after(&call.into(), &outcome.into()))
    }

    fn on_definition(listed: wit::ListedTool) -> wit::Verdict {
        settled(G::definition(&listed.into()))
    }

    fn before_model(exchange: wit::ModelExchange) -> wit::Verdict {
        settled(<G as Guard>::before_model(&exchange.into()))
    }

    fn after_model(exchange: wit::ModelExchange) -> wit::Verdict {
        settled(<G as Guard>::after_model(&exchange.into()))
    }
}

/// Converts a decision.
///
/// # Panics
///
/// If there is none: the gateway refuses the call of a guard that traps. The text of the error is lost, because it
/// may have parts of a result that the caller must not see.
fn settled(decided: Result<Verdict, Error>) -> wit::Verdict {
    match decided {
        Ok(verdict) => verdict.into(),
        Err(error) => panic!("the guard made no decision: {error}"),
    }
}

same_variants!(Hook = wit::Hook { Before After Definition BeforeModel AfterModel });

impl From<wit::ListedTool> for ListedTool {
    fn from(listed: wit::ListedTool) -> Self {
        Self {
            tool: listed.tool,
            client: listed.client,
            trusted: listed.trusted,
            definition: listed.definition,
            settings: listed.settings,
            extra: listed.extra,
        }
    }
}

impl From<wit::ModelExchange> for ModelExchange {
    fn from(exchange: wit::ModelExchange) -> Self {
        Self {
            model: exchange.model,
            key: exchange.key,
            tenant: exchange.tenant,
            texts: exchange.texts,
            settings: exchange.settings,
            extra: exchange.extra,
        }
    }
}

impl From<wit::Call> for Call {
    fn from(call: wit::Call) -> Self {
        Self {
            tool: call.tool,
            client: call.client,
            arguments: call.arguments,
            effects: call.effects.into(),
            origin: call.origin,
            key: call.key,
            tenant: call.tenant,
            settings: call.settings,
            extra: call.extra,
        }
    }
}

impl From<wit::Effects> for Effects {
    fn from(effects: wit::Effects) -> Self {
        Self {
            read_only: effects.read_only,
            destructive: effects.destructive,
            idempotent: effects.idempotent,
            open_world: effects.open_world,
            trusted: effects.trusted,
        }
    }
}

impl From<wit::Outcome> for Outcome {
    fn from(outcome: wit::Outcome) -> Self {
        match outcome {
            wit::Outcome::Success(json) => Self::Success(json),
            wit::Outcome::Failure(json) => Self::Failure(json),
        }
    }
}

impl From<Verdict> for wit::Verdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allow,
            Verdict::Rewrite(json) => Self::Rewrite(json),
            Verdict::Deny { code, reason } => Self::Deny(wit::Denial { code, reason }),
            Verdict::Ask(reason) => Self::Ask(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{wit::Guest as _, *};

    /// Decides as the tool is called.
    struct AsNamed;

    impl Guard for AsNamed {
        const HOOKS: &'static [Hook] = &[Hook::Before, Hook::Definition];

        fn before(call: &Call) -> Result<Verdict, Error> {
            match call.tool.as_str() {
                "a-rewrite" => Verdict::rewrite(&call.arguments::<Value>()?),
                "a-deny" => Ok(Verdict::deny("no", "not this one")),
                "a-ask" => Ok(Verdict::ask("sure?")),
                _ => Err(Error::invalid_input("an unknown tool")),
            }
        }

        fn definition(listed: &ListedTool) -> Result<Verdict, Error> {
            Ok(Verdict::deny("seen", format!("{listed:?}")))
        }

        fn before_model(exchange: &ModelExchange) -> Result<Verdict, Error> {
            Ok(Verdict::deny("before", format!("{exchange:?}")))
        }

        fn after_model(exchange: &ModelExchange) -> Result<Verdict, Error> {
            Ok(Verdict::deny("after", format!("{exchange:?}")))
        }
    }

    fn before(tool: &str) -> wit::Verdict {
        AsNamed::before_call(call(tool))
    }

    fn call(tool: &str) -> wit::Call {
        wit::Call {
            tool: tool.to_owned(),
            client: "a".to_owned(),
            arguments: r#"{"n":1.50}"#.to_owned(),
            effects: wit::Effects {
                read_only: Some(true),
                destructive: None,
                idempotent: None,
                open_world: Some(false),
                trusted: true,
            },
            origin: "model".to_owned(),
            key: Some("ann".to_owned()),
            tenant: "key \"ann\"".to_owned(),
            settings: r#"{"a":1}"#.to_owned(),
            extra: None,
        }
    }

    #[test]
    fn a_decision_is_that_of_the_contract() {
        assert!(
            matches!(before("a-rewrite"), wit::Verdict::Rewrite(json) if json == r#"{"n":1.5}"#)
        );
        let wit::Verdict::Deny(denial) = before("a-deny") else { panic!("it denies") };
        assert_eq!((denial.code.as_str(), denial.reason.as_str()), ("no", "not this one"));
        assert!(matches!(before("a-ask"), wit::Verdict::Ask(reason) if reason == "sure?"));
        let outcome = wit::Outcome::Success("{}".to_owned());
        assert!(matches!(AsNamed::after_call(call("a-deny"), outcome), wit::Verdict::Allow));
    }

    #[test]
    fn a_check_of_settings_returns_the_text_for_the_operator() {
        let check = <AsNamed as wit::Guest>::check_settings;
        let hooks = check("{}".to_owned()).expect("no settings");
        assert!(matches!(hooks[..], [wit::Hook::Before, wit::Hook::Definition]));
        assert!(check(r#"{"a":1}"#.to_owned()).unwrap_err().contains("unknown field `a`"));
    }

    #[test]
    #[should_panic(expected = "the guard made no decision: an unknown tool")]
    fn a_guard_that_fails_panics_so_that_the_call_is_refused() {
        let _ = before("a-other");
    }

    #[test]
    fn a_definition_has_every_member_of_the_contract() {
        let listed = wit::ListedTool {
            tool: "a-b".to_owned(),
            client: "a".to_owned(),
            trusted: true,
            definition: r#"{"name":"b"}"#.to_owned(),
            settings: "{}".to_owned(),
            extra: None,
        };
        let wit::Verdict::Deny(denial) = AsNamed::on_definition(listed) else {
            panic!("it denies")
        };
        let expected = ListedTool { trusted: true, ..ListedTool::new("a", &json!({"name": "b"})) };
        assert_eq!(denial.reason, format!("{expected:?}"));
    }

    #[test]
    fn an_exchange_has_every_member_of_the_contract() {
        let exchange = wit::ModelExchange {
            model: "provider/model".to_owned(),
            key: None,
            tenant: "anonymous".to_owned(),
            texts: r#"[{"role":"user","text":"a"}]"#.to_owned(),
            settings: "{}".to_owned(),
            extra: None,
        };
        let expected = format!("{:?}", ModelExchange::new(&[("user", "a")]));
        let before: fn(wit::ModelExchange) -> wit::Verdict = <AsNamed as wit::Guest>::before_model;
        let after: fn(wit::ModelExchange) -> wit::Verdict = <AsNamed as wit::Guest>::after_model;
        for (hook, decided) in [("before", before), ("after", after)] {
            let wit::Verdict::Deny(denial) = decided(exchange.clone()) else { panic!("it denies") };
            assert_eq!((denial.code.as_str(), &denial.reason), (hook, &expected));
        }
    }

    #[test]
    fn a_call_has_every_member_of_the_contract() {
        let found = Call::from(call("a-b"));
        let mut expected = Call::new("a-b", &json!({"n": 1.5}));
        expected.arguments = r#"{"n":1.50}"#.to_owned();
        expected.origin = "model".to_owned();
        expected.key = Some("ann".to_owned());
        expected.tenant = "key \"ann\"".to_owned();
        expected.settings = r#"{"a":1}"#.to_owned();
        expected.effects = Effects {
            read_only: Some(true),
            open_world: Some(false),
            trusted: true,
            ..Effects::default()
        };
        assert_eq!(found, expected);
    }
}
