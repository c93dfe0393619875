//! The report on a translation: the outcome of each setting.

use serde::Serialize;
use serde_json::Value;

use airlock_config_file::key_path::KeyPath;

/// A translated configuration.
#[derive(Debug)]
pub struct Imported {
    /// The program whose configuration it was.
    pub program: &'static str,
    /// The configuration of the gateway.
    pub file: Value,
    /// The outcome of each setting.
    pub lines: Vec<SettingReport>,
    /// Environment variables that the configuration names and that are not set now.
    pub variables: Vec<String>,
}

impl Imported {
    /// Returns whether the result has neither a server nor a provider.
    pub fn is_empty(&self) -> bool {
        let has_servers = self.file["mcp"]["client_configs"]
            .as_array()
            .is_some_and(|clients| !clients.is_empty());
        let has_providers =
            self.file["providers"].as_object().is_some_and(|providers| !providers.is_empty());
        !has_servers && !has_providers
    }
}

/// The outcome of one setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SettingReport {
    /// Key in the file that was read, or in the result for what was not in it.
    pub key: KeyPath,
    /// The outcome.
    pub outcome: SettingOutcome,
    /// The reason, or the new form of the setting.
    pub message: String,
}

/// Outcome of one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingOutcome {
    /// It is in the result with its meaning.
    Taken,
    /// It is in the result in another form.
    Changed,
    /// It is not in the result because it has no meaning for the gateway.
    NoMeaning,
    /// It is not in the result, and the gateway behaves differently without it.
    Refused,
    /// It is in the result, and the gateway does not start before it is corrected.
    Invalid,
}

impl SettingOutcome {
    /// Returns the outcome as one or two words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Changed => "changed",
            Self::NoMeaning => "no meaning",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
        }
    }
}
