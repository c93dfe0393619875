//! The options behind the keys of `wasm_config`: a problem with what was typed is reported in the words
//! that were typed.

use airlock_config::{ConfigError, KeyPath, Problem};
use airlock_plugin::Reason;
use airlock_strings::visible_line;

/// Keys of `wasm_config` that options were written to, each with its option.
#[derive(Debug, Clone, Default)]
pub struct WrittenKeys(Vec<(KeyPath, String)>);

impl WrittenKeys {
    /// Records that `option` was written to `key`.
    pub fn add(&mut self, key: KeyPath, option: String) {
        self.0.push((key, option));
    }

    /// Returns the option that was written to a key of `wasm_config`, or above it.
    pub fn option(&self, key: &KeyPath) -> Option<&str> {
        let mut options = self.0.iter().filter(|(written, _)| key.below(written).is_some());
        options.next().map(|(_, option)| option.as_str())
    }

    /// Formats a problem at a key of `wasm_config`: behind the option that was written there, or else
    /// behind the key.
    pub fn problem(&self, Problem { key, message }: &Problem) -> String {
        let place = self.option(key).map_or_else(|| key.to_string(), str::to_owned);
        visible_line(&format!("{place}: {message}"))
    }

    /// Formats the problems of a configuration that has the plugin at `entry`, the key of its
    /// `wasm_config`.
    pub fn invalid(&self, entry: &KeyPath, error: &ConfigError) -> Vec<String> {
        let lines = error.problems().iter().map(|problem| match problem.key.below(entry) {
            Some(key) => self.problem(&Problem { key, message: problem.message.clone() }),
            None => visible_line(&format!("{}: {problem}", error.file())),
        });
        lines.collect()
    }

    /// Formats a reason for which the plugin is not loaded. The author's reason for a request is
    /// left out.
    pub fn reason(&self, reason: &Reason) -> String {
        match reason {
            Reason::NotGranted { right, .. } => {
                visible_line(&format!("{right} is required and not granted"))
            }
            Reason::Profile { key, request, limit, profile } => {
                let granted = request.as_deref().or_else(|| self.option(&KeyPath::parse(key)));
                let granted = granted.unwrap_or(key);
                let profile = profile.name();
                visible_line(&format!("{granted} is granted, but the profile {profile} {limit}"))
            }
            Reason::NoValue { secret, error } => {
                self.problem_at(&format!("grants.secret.{secret}.from"), error)
            }
            Reason::Invalid { key, problem } => self.problem_at(key, problem),
        }
    }

    fn problem_at(&self, key: &str, message: &str) -> String {
        self.problem(&Problem { key: KeyPath::parse(key), message: message.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_named_by_the_option_that_wrote_its_key() {
        let grants = KeyPath::default().member("grants");
        let mut typed = WrittenKeys::default();
        typed.add(grants.member("files").member("data"), "--grant files.data=/d".to_owned());
        typed.add(grants.member("http").element(1), "--grant http.api".to_owned());
        assert_eq!(
            typed.problem(&problem("grants.files.data.path")),
            "--grant files.data=/d: is wrong"
        );
        assert_eq!(typed.problem(&problem("grants.http[1]")), "--grant http.api: is wrong");
        // Other keys, although they begin with the same letters.
        assert_eq!(
            typed.problem(&problem("grants.files.data2.path")),
            "grants.files.data2.path: is wrong"
        );
        assert_eq!(typed.problem(&problem("grants.http[12]")), "grants.http[12]: is wrong");
        assert_eq!(typed.problem(&problem("grants.http")), "grants.http: is wrong");
    }

    #[test]
    fn a_problem_outside_the_plugin_is_named_by_its_file_and_key() {
        let entry = KeyPath::parse("mcp.client_configs[1].wasm_config");
        let mut typed = WrittenKeys::default();
        typed.add(KeyPath::parse("grants.slot.find"), "--grant slot.find=x-y".to_owned());
        let problems = [
            "mcp.client_configs[1].wasm_config.grants.slot.find",
            "mcp.client_configs[10].wasm_config.grants.slot.find",
        ];
        let problems = problems.map(problem).to_vec();
        let error = ConfigError::Invalid { file: "a.json".to_owned(), problems };
        assert_eq!(
            typed.invalid(&entry, &error),
            [
                "--grant slot.find=x-y: is wrong",
                "a.json: mcp.client_configs[10].wasm_config.grants.slot.find: is wrong"
            ]
        );
    }

    fn problem(key: &str) -> Problem {
        Problem { key: KeyPath::parse(key), message: "is wrong".to_owned() }
    }
}
