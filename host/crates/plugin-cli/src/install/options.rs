//! The command line of an installation, as it was typed or as it is proposed.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{consent::ConsentOptions, place::NetworkOptions};
use airlock_authoring::install::{GrantOption, InstallOptions};
use airlock_strings::visible_line;
use airlock_terminal::{output::quoted, session::ConfigFile};

/// Description in a proposed command that stands for one of the operator's. It is refused.
pub(super) const DESCRIPTION: &str = "<WHAT IT DOES>";

/// Install a plugin
///
/// Shows what the plugin requests and why. If everything that it requires is granted, the component
/// is copied to `plugins/` beside the configuration, the configuration gets an entry for it, and
/// `airlock.lock` pins it. Otherwise nothing is changed, and the command that would install it is
/// printed. Grants belong to a name: use `--replace` to install a changed build of the same plugin,
/// and `--name` to install another plugin under another name. A granted request that is wider in
/// the changed build must be named again, with `--regrant` or `--grant`. `--replace` removes the grants
/// that the changed build no longer requests, and prints their names. A component from a registry or a URL
/// is shown with its publisher, who is one of `plugins.publishers` whose signature it has.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin install text.wasm\n  airlock plugin install weather.wasm --grant http.api --grant \
                  secret.token=env:WEATHER_TOKEN\n  airlock plugin install weather.wasm --replace\n  airlock plugin install oci://ghcr.io/acme/weather:1.2"
)]
pub(crate) struct InstallArgs {
    /// The component: a file, `oci://HOST/NAME:TAG` or `oci://HOST/NAME@sha256:DIGEST` in a registry, or
    /// an `https://` URL, which may have the digest of the component at its end: `#sha256:DIGEST`.
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) config: ConfigFile,
    /// Its name in the configuration, the prefix of its tools: a letter or `_`, then letters, digits
    /// and `_`, at most 32 characters. Default: the plugin's id, with `_` in place of `-`.
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Grant something that it requests; may be repeated. `http.NAME`, `kv.NAME`, `scratch`, `clocks`
    /// and `tools` grant what is requested under that name; `files.NAME=PATH` a directory, with `:rw`
    /// after the path for writing; `secret.NAME=env:VARIABLE` or `secret.NAME=file:PATH` a secret, with
    /// `:reveal` after it if the plugin may read the value; `slot.NAME=CLIENT-TOOL` one tool for a slot;
    /// `http=URL` a host for a request that leaves the hosts to you, with its methods after it as in
    /// `http=URL:GET,POST` (default: GET and HEAD), and with `:private` at the end for a host in a private
    /// network. A request `files.*` is granted as `files.NAME=PATH`, with a name of your
    /// choice for each directory.
    #[arg(long = "grant", value_name = "WHAT")]
    pub(super) grants: Vec<GrantOption>,
    /// Grant everything that it requests, except what needs a value from you.
    #[arg(long)]
    pub(super) grant_all: bool,
    /// The ceiling: `untrusted`, or `trusted` for private networks, plain HTTP and larger limits.
    #[arg(long, value_parser = ["untrusted", "trusted"])]
    pub(super) profile: Option<String>,
    /// Set a value of the plugin's own configuration; text, or JSON.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Set the description of a tool that has none, or replace its own.
    #[arg(long = "describe", value_name = "TOOL=TEXT")]
    pub(super) describe: Vec<String>,
    /// Replace the installed build, and keep its grants, except those that the new build does not
    /// request. The changes are shown.
    #[arg(long)]
    pub(super) replace: bool,
    #[command(flatten)]
    pub(super) consent: ConsentOptions,
    #[command(flatten)]
    pub(super) network: NetworkOptions,
}

impl InstallArgs {
    /// Returns the options of an installation that grants nothing.
    pub(super) fn new(file: PathBuf, config: ConfigFile) -> Self {
        Self {
            file,
            config,
            name: None,
            grants: Vec::new(),
            grant_all: false,
            profile: None,
            set: Vec::new(),
            describe: Vec::new(),
            replace: false,
            consent: ConsentOptions::default(),
            network: NetworkOptions::default(),
        }
    }

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
            ("--insecure-http", self.network.insecure_http),
        ] {
            words.extend(is_said.then(|| word.to_owned()));
        }
        words.join(" ")
    }

    /// Parses the options. Those that cannot be parsed are faults of the result.
    pub(super) fn options(&self) -> InstallOptions {
        let mut options = InstallOptions {
            grants: self.grants.clone(),
            grant_all: self.grant_all,
            profile: self.profile.clone(),
            replace: self.replace,
            consent: self.consent.consent(),
            ..InstallOptions::default()
        };
        for setting in self.set.iter().map(|setting| parse_setting(setting)) {
            match setting {
                Ok((key, value)) => {
                    options.settings.insert(key, value);
                }
                Err(fault) => options.faults.push(fault),
            }
        }
        for description in &self.describe {
            match description.split_once('=') {
                Some((tool, text)) if text != DESCRIPTION => {
                    options.descriptions.insert(tool.to_owned(), text.to_owned());
                }
                Some((tool, text)) => options.faults.push(visible_line(&format!(
                    "--describe {tool}: write the description in place of {text}"
                ))),
                None => options
                    .faults
                    .push(visible_line(&format!("--describe {description}: expected TOOL=TEXT"))),
            }
        }
        options
    }

    /// Returns the command line with `options` in place of its own. Settings and descriptions stay as
    /// they were typed.
    pub(super) fn with(&self, options: InstallOptions) -> Self {
        let InstallOptions { grants, profile, replace, consent, .. } = options;
        let regrant = consent.regrant.into_iter().collect();
        let consent = ConsentOptions { regrant, change_id: consent.change_id };
        Self { grants, profile, replace, consent, ..self.clone() }
    }
}

/// Parses the value of `--set`: a key, and JSON or else text. Fails with a message for people.
pub(crate) fn parse_setting(setting: &str) -> Result<(String, Value), String> {
    let (key, value) = setting
        .split_once('=')
        .ok_or_else(|| visible_line(&format!("--set {setting}: expected KEY=VALUE")))?;
    Ok((key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value))))
}

fn add_option(words: &mut Vec<String>, name: &str, value: &str) {
    words.extend([name.to_owned(), quoted(value)]);
}
