//! The command line of an installation, as it was typed or as it is proposed.

use super::{Args, GrantOption, quoted};
use airlock_plugin::Consent;

impl Args {
    /// Returns the command that states these options, with a placeholder for what may be the value of
    /// a secret.
    pub(super) fn command(&self) -> String {
        let mut words = vec!["airlock plugin install".to_owned()];
        words.push(quoted(&self.file.display().to_string()));
        let mut option = |name: &str, value: &str| words.extend([name.to_owned(), quoted(value)]);
        if !self.config.is_default() {
            option("--config", &self.config.path.display().to_string());
        }
        for (name, value) in [("--name", &self.name), ("--profile", &self.profile)] {
            if let Some(value) = value {
                option(name, value);
            }
        }
        self.set.iter().for_each(|setting| option("--set", setting));
        self.describe.iter().for_each(|description| option("--describe", description));
        self.grants.iter().for_each(|grant| option("--grant", &grant.printable().to_string()));
        self.consent.regrant.iter().for_each(|request| option("--regrant", request));
        for (word, is_said) in [
            ("--grant-all", self.grant_all),
            ("--replace", self.replace),
            ("--change-id", self.consent.change_id),
        ] {
            words.extend(is_said.then(|| word.to_owned()));
        }
        words.join(" ")
    }

    /// Returns the consent that the options state. A request that is granted by its name in the same
    /// command is named by that.
    pub(super) fn consent(&self) -> Consent {
        let mut consent = self.consent.consent();
        consent.regrant.extend(self.grants.iter().filter_map(GrantOption::request));
        consent
    }
}
