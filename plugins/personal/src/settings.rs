//! Settings of the guard.

use airlock_guest::{Error, guard::parse_settings};
use serde::Deserialize;

use crate::find::PersonalKind;

/// Settings of the guard.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PersonalSettings {
    /// The kinds that are searched.
    pub kinds: Vec<PersonalKind>,
    /// The decision about a call whose arguments have personal data.
    pub before: ToolDecision,
    /// The decision about a request to a model that has personal data.
    pub before_model: RequestDecision,
}

/// Decision about a call whose arguments have personal data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolDecision {
    /// It is made. The arguments are not searched.
    #[default]
    Allow,
    /// It needs an approval.
    Ask,
    /// It is not made.
    Deny,
}

/// Decision about a request to a model that has personal data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestDecision {
    /// The model gets placeholders, and tools and callers get the data.
    #[default]
    Placeholder,
    /// A mark takes the place of each find, for good.
    Remove,
    /// It is not sent.
    Deny,
}

impl Default for PersonalSettings {
    fn default() -> Self {
        Self {
            kinds: PersonalKind::ALL.to_vec(),
            before: ToolDecision::default(),
            before_model: RequestDecision::default(),
        }
    }
}

impl PersonalSettings {
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
        let names: Vec<_> = PersonalKind::ALL.iter().map(|kind| kind.name()).collect();
        let text = serde_json::json!({"kinds": names}).to_string();
        let default = PersonalSettings::default();
        assert_eq!(parse_settings::<PersonalSettings>(&text).as_ref(), Ok(&default));
        assert_eq!(parse_settings::<PersonalSettings>("{}").as_ref(), Ok(&default));
    }

    #[test]
    fn an_error_names_the_setting_that_is_not_valid() {
        for (text, start) in [
            (r#"{"kind":["iban"]}"#, "kind: unknown field"),
            (r#"{"kinds":["iban","name"]}"#, "kinds[1]: unknown variant `name`"),
            (r#"{"kinds":[]}"#, "kinds: is empty"),
            (r#"{"before":"placeholder"}"#, "before: unknown variant `placeholder`"),
            (r#"{"before_model":"ask"}"#, "before_model: unknown variant `ask`"),
        ] {
            let refused = PersonalSettings::check(text).expect_err(text);
            assert!(refused.message().starts_with(start), "{refused}");
        }
    }
}
