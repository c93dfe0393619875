//! Settings of the guard.

use airlock_guest::{Error, guard::parse_settings};
use serde::Deserialize;

use crate::find::Kind;

/// Settings of the guard.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The kinds that are searched.
    pub kinds: Vec<Kind>,
    /// The decision about a call whose arguments have a secret.
    pub before: BeforeCall,
    /// The decision about an outcome that has a secret.
    pub after: AfterCall,
    /// The decision about a response of a model that has a secret.
    pub after_model: AfterCall,
}

/// Decision about a call whose arguments have a secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BeforeCall {
    /// It is not made.
    #[default]
    Deny,
    /// It needs an approval.
    Ask,
    /// It is made. The arguments are not searched.
    Allow,
}

/// Decision about an outcome or a response that has a secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterCall {
    /// A mark takes the place of each secret.
    #[default]
    Remove,
    /// It is withheld.
    Deny,
    /// Nothing changes. It is not searched.
    Allow,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kinds: Kind::ALL.to_vec(),
            before: BeforeCall::default(),
            after: AfterCall::default(),
            after_model: AfterCall::default(),
        }
    }
}

impl Settings {
    /// Fails if the settings cannot be read, or if the guard would find nothing with them.
    pub fn check(text: &str) -> Result<(), Error> {
        let settings: Self = parse_settings(text)?;
        if settings.kinds.is_empty() {
            return Err(Error::invalid_input(
                "kinds: is empty, so that nothing is found; leave it out for all",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_a_setting_by_its_name_and_all_are_the_default() {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let text = serde_json::json!({"kinds": names}).to_string();
        assert_eq!(parse_settings::<Settings>(&text), Ok(Settings::default()));
        assert_eq!(parse_settings::<Settings>("{}"), Ok(Settings::default()));
    }

    #[test]
    fn an_error_names_the_setting_that_is_not_valid() {
        for (text, start) in [
            (r#"{"kind":["jwt"]}"#, "kind: unknown field"),
            (r#"{"kinds":["jwt","password"]}"#, "kinds[1]: unknown variant `password`"),
            (r#"{"kinds":[]}"#, "kinds: is empty"),
            (r#"{"before":"remove"}"#, "before: unknown variant `remove`"),
            (r#"{"after":"ask"}"#, "after: unknown variant `ask`"),
        ] {
            let refused = Settings::check(text).expect_err(text);
            assert!(refused.message().starts_with(start), "{refused}");
        }
    }
}
