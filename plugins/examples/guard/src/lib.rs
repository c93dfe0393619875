//! Denies mail to other domains, and removes the address of the sender from results.

use airlock_guest::{
    Error,
    guard::{Call, Guard, Hook, Outcome, Verdict, parse_settings},
    serde::Deserialize,
    serde_json::Value,
};

/// The settings, in `guards[].settings` of the gateway's configuration.
#[derive(Deserialize)]
#[serde(crate = "airlock_guest::serde", default, deny_unknown_fields)]
struct Settings {
    /// The domain that mail may go to.
    domain: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { domain: "example.com".to_owned() }
    }
}

/// The address that results do not show.
const SENDER: &str = "robot@example.com";

/// The guard.
pub struct OwnDomain;

impl Guard for OwnDomain {
    const HOOKS: &'static [Hook] = &[Hook::Before, Hook::After];

    fn check_settings(settings: &str) -> Result<(), Error> {
        parse_settings::<Settings>(settings).map(drop)
    }

    fn before(call: &Call) -> Result<Verdict, Error> {
        let Settings { domain } = call.settings()?;
        let arguments: Value = call.arguments()?;
        let to = arguments["to"].as_str().and_then(|to| to.split_once('@'));
        Ok(match to {
            // Of one address alone: a list has a second `@`.
            Some((_, to)) if to == domain => Verdict::Allow,
            _ => Verdict::deny("foreign_domain", format!("mail goes to {domain} alone")),
        })
    }

    fn after(_: &Call, outcome: &Outcome) -> Result<Verdict, Error> {
        let text = outcome.text();
        // The address has no character that JSON escapes.
        Ok(if text.contains(SENDER) {
            Verdict::Rewrite(text.replace(SENDER, "[sender]"))
        } else {
            Verdict::Allow
        })
    }
}

airlock_guest::guard!(OwnDomain);

#[cfg(test)]
mod tests {
    use airlock_guest::serde_json::json;

    use super::*;

    fn before(arguments: &Value) -> Verdict {
        OwnDomain::before(&Call::new("mail-send", arguments)).expect("a verdict")
    }

    #[test]
    fn mail_goes_to_the_own_domain_alone() {
        assert_eq!(before(&json!({ "to": "ann@example.com" })), Verdict::Allow);
        for foreign in [
            json!({ "to": "ann@example.org" }),
            json!({ "to": "eve@example.org, ann@example.com" }),
            json!({ "to": ["ann@example.com"] }),
        ] {
            assert!(matches!(before(&foreign), Verdict::Deny { .. }), "{foreign}");
        }
    }

    #[test]
    fn the_settings_name_the_domain() {
        let call = Call::new("mail-send", &json!({ "to": "ann@example.org" }));
        let call = call.with_settings(&json!({ "domain": "example.org" }));
        assert_eq!(OwnDomain::before(&call), Ok(Verdict::Allow));
        assert!(OwnDomain::check_settings("{}").is_ok());
        assert!(OwnDomain::check_settings(r#"{"domains":[]}"#).is_err());
    }

    #[test]
    fn results_do_not_show_the_sender() {
        let call = Call::new("mail-send", &json!({ "to": "ann@example.com" }));
        let outcome = Outcome::Success(
            r#"{"content":[{"type":"text","text":"by robot@example.com"}]}"#.to_owned(),
        );
        let expected = r#"{"content":[{"type":"text","text":"by [sender]"}]}"#;
        let verdict = OwnDomain::after(&call, &outcome).expect("a verdict");
        assert_eq!(verdict, Verdict::Rewrite(expected.to_owned()));
    }
}
