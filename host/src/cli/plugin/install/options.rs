//! The command line of an installation, as it was typed or as it is proposed.

use super::{Args, GrantOption, quoted};
use airlock_plugin::Consent;

impl Args {
    /// Returns the command that states these options, with a placeholder for what may be the value of
    /// a secret.
    pub(super) fn command(&self) -> String {
        let mut words = vec!["airlock plugin install".to_owned()];
        words.push(quoted(&self.file.display().to_string()));
        if !self.config.is_default() {
            add_option(&mut words, "--config", &self.config.path.display().to_string());
        }
        for (name, value) in [("--name", &self.name), ("--profile", &self.profile)] {
            if let Some(value) = value {
                add_option(&mut words, name, value);
            }
        }
        for setting in &self.set {
            add_option(&mut words, "--set", setting);
        }
        for description in &self.describe {
            add_option(&mut words, "--describe", description);
        }
        for grant in &self.grants {
            add_option(&mut words, "--grant", &grant.printable().to_string());
        }
        for request in &self.consent.regrant {
            add_option(&mut words, "--regrant", request);
        }
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

fn add_option(words: &mut Vec<String>, name: &str, value: &str) {
    words.extend([name.to_owned(), quoted(value)]);
}
