//! Finds the secrets among the variables of a server's process, for redaction in everything that the server sends.
//!
//! These are not secrets: values that are too short, variables like `PATH`, and a value that is a path or plain words and
//! whose name does not suggest a credential. Redacting those would garble legitimate responses, names of tools and files
//! among them.

use std::collections::BTreeMap;

use reqwest::Url;

use airlock_core::secret::Secret;
use airlock_mcp_oauth::Secrets;

/// Variables that the process of a server inherits from the gateway: places, languages and names,
/// which most programs need and which grant no access. Their values occur in many legitimate responses.
pub const INHERITED_VARIABLES: [&str; 15] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "TZ",
    "USER",
];
/// Other variables of this kind, which a configuration may pass on.
const PLACE_VARIABLES: [&str; 3] = ["PWD", "SHELL", "TERM"];
/// Parts of the names of variables whose values are redacted even if they look like paths or plain
/// words.
const SECRET_WORDS: [&str; 12] = [
    "AUTH", "COOKIE", "CRED", "DSN", "KEY", "PASS", "PIN", "PRIVATE", "PWD", "SECRET", "SESSION",
    "TOKEN",
];
/// Maximum digits in a variable's value that is taken for plain words, as in `python3` or `v2.1`.
/// A generated secret has more.
const MAX_DIGITS_IN_WORDS: usize = 2;

/// Collects the secrets among the variables of a process.
pub(super) fn variable_secrets(env: &BTreeMap<String, Secret>) -> Secrets {
    let mut secrets = Secrets::default();
    for (name, value) in env.iter().filter(|(name, _)| !is_public(name)) {
        add_variable(&mut secrets, name, value.expose());
    }
    secrets
}

fn add_variable(secrets: &mut Secrets, name: &str, value: &str) {
    match Url::parse(value).ok().filter(Url::has_host) {
        // The address of a service occurs in most of its responses.
        Some(url) if is_bare(&url) => {}
        Some(_) => {
            secrets.add(name, value);
            secrets.add_url(name, value);
        }
        None if is_path_or_words(value) && !names_a_credential(name) => {}
        None => secrets.add(name, value),
    }
}

fn names_a_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Returns whether a value is a path or plain words: `production`, `us-east-1`, `/srv/data`.
fn is_path_or_words(value: &str) -> bool {
    let is_path = value.starts_with('/') || value.starts_with("./") || value.starts_with('~');
    let is_of_words =
        value.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_., ".contains(c));
    is_path
        || is_of_words && value.chars().filter(char::is_ascii_digit).count() <= MAX_DIGITS_IN_WORDS
}

/// Returns whether a URL has no path, query or password.
fn is_bare(url: &Url) -> bool {
    matches!(url.path(), "" | "/") && url.query().is_none() && url.password().is_none()
}

fn is_public(variable: &str) -> bool {
    INHERITED_VARIABLES.contains(&variable) || PLACE_VARIABLES.contains(&variable)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use airlock_core::secret::Scrubber;
    use airlock_mcp_oauth::Redactor;

    fn stdio(env: &[(&str, &str)]) -> Arc<Scrubber> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value)));
        let env: BTreeMap<_, _> = env.collect();
        Redactor::new(variable_secrets(&env)).expect("good secrets").scrubber()
    }

    #[test]
    fn values_of_variables_are_redacted_and_places_are_not() {
        let env = [
            ("HOME", "/home/someone"),
            ("PATH", "/usr/bin:/bin"),
            ("LEVEL", "info"),
            ("TOKEN", "hunter2hunter2"),
            ("API", "https://api.example.com/"),
            ("HOOK", "https://hooks.example.com/T0/B0/xyz"),
            ("DB", "postgres://app:pass-word@db/app"),
        ];
        let scrubber = stdio(&env);
        let said = "info: /home/someone has hunter2hunter2 for https://api.example.com/ and https://hooks.example.com/T0/B0/xyz, pass-word";
        insta::assert_snapshot!(
            scrubber.line(said, 1_000),
            @"info: /home/someone has [secret TOKEN] for https://api.example.com/ and [secret HOOK], [secret DB]"
        );
    }

    #[test]
    fn words_and_paths_are_redacted_only_under_the_name_of_a_credential() {
        let words =
            [("AWS_REGION", "us-east-1"), ("NODE_ENV", "production"), ("ALLOWED", "/srv/data")];
        let scrubber = stdio(
            &[&words[..], &[("DB_PASSWORD", "correct-horse"), ("SALT", "x9f2k4p1")]].concat(),
        );
        insta::assert_snapshot!(
            scrubber.line("us-east-1 production /srv/data/a correct-horse x9f2k4p1", 1_000),
            @"us-east-1 production /srv/data/a [secret DB_PASSWORD] [secret SALT]"
        );
    }

    /// Returns whether a variable's value is redacted.
    fn is_redacted(name: &str, value: &str) -> bool {
        stdio(&[(name, value)]).line(value, 1_000) != value
    }

    #[test]
    fn only_a_value_of_path_or_few_digits_and_lower_case_is_plain() {
        for plain in [
            "/srv/data/0123456789",
            "./data/0123456789",
            "~/data/0123456789",
            "eu-central-12",
            "one, two_three.four",
        ] {
            assert!(!is_redacted("SETTING", plain), "{plain}");
        }
        for secret in ["eu-central-123", "eu-Central", "production!", "../data/x", "data/x/y"] {
            assert!(is_redacted("SETTING", secret), "{secret}");
        }
    }

    #[test]
    fn a_value_is_secret_from_eight_bytes() {
        assert!(!is_redacted("TOKEN", "abcdef1") && is_redacted("TOKEN", "abcdef12"));
    }

    #[test]
    fn the_name_of_a_credential_makes_plain_words_a_secret() {
        for name in [
            "BASIC_AUTH",
            "COOKIES",
            "CREDENTIAL",
            "SENTRY_DSN",
            "api_key",
            "PASSPHRASE",
            "USER_PIN",
            "PRIVATE_SEED",
            "MYSQL_PWD",
            "CLIENT_SECRET",
            "SESSION_ID",
            "GhToken",
        ] {
            assert!(is_redacted(name, "correct-horse"), "{name}");
            assert!(is_redacted(name, "/correct/horse"), "{name}");
        }
        for name in ["HOST", "REGION", "MODE"] {
            assert!(!is_redacted(name, "correct-horse"), "{name}");
        }
    }

    #[test]
    fn public_variables_are_never_secret() {
        let value = "C0rrect-Horse-Battery";
        for name in [
            "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "PWD", "SHELL", "TERM",
            "TMPDIR", "TZ", "USER",
        ] {
            assert!(!is_redacted(name, value), "{name}");
        }
        assert!(is_redacted("OTHER", value));
    }
}
