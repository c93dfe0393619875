//! The exports of a guard: conversions between the types of the contract and those of the SDK.

use super::{
    Call, Effects, Guard, Outcome, Verdict, bindings::exports::airlock::guard::hooks as wit,
};
use crate::Error;

impl<G: Guard> wit::Guest for G {
    fn check_settings(settings: String) -> Result<(), String> {
        <G as Guard>::check_settings(&settings).map_err(|error| error.to_string())
    }

    fn before_call(call: wit::Call) -> wit::Verdict {
        settled(G::before(&call.into()))
    }

    fn after_call(call: wit::Call, outcome: wit::Outcome) -> wit::Verdict {
        settled(G::after(&call.into(), &outcome.into()))
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
        fn before(call: &Call) -> Result<Verdict, Error> {
            match call.tool.as_str() {
                "a-rewrite" => Verdict::rewrite(&call.arguments::<Value>()?),
                "a-deny" => Ok(Verdict::deny("no", "not this one")),
                "a-ask" => Ok(Verdict::ask("sure?")),
                _ => Err(Error::invalid_input("an unknown tool")),
            }
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
        assert_eq!(check("{}".to_owned()), Ok(()));
        assert!(check(r#"{"a":1}"#.to_owned()).unwrap_err().contains("unknown field `a`"));
    }

    #[test]
    #[should_panic(expected = "the guard made no decision: an unknown tool")]
    fn a_guard_that_fails_panics_so_that_the_call_is_refused() {
        let _ = before("a-other");
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
