//! `--regrant` and `--change-id`: the operator's consent to what a changed plugin would be granted.

use airlock_plugin::{Consent, Drift};
use airlock_terminal::session::ConfigFile;

/// Consent to a changed plugin, as options.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ConsentOptions {
    /// Grant a request again that is granted and has become wider: `http.api`, `secret.token`; or,
    /// as `effects.TOOL`, the wider effects of a tool.
    #[arg(long, value_name = "REQUEST")]
    pub(super) regrant: Vec<String>,
    /// Let a plugin with another id, without the signature of the same publisher, or of an earlier version
    /// of that publisher, take the name, and with it all grants.
    #[arg(long)]
    pub(super) change_id: bool,
}

impl ConsentOptions {
    pub(super) fn consent(&self) -> Consent {
        Consent { regrant: self.regrant.iter().cloned().collect(), change_id: self.change_id }
    }
}

/// Returns the command that accepts a plugin with all of its differences.
pub fn accept_command(drift: &Drift, config: &ConfigFile) -> String {
    let client = &drift.client;
    let consent = Consent::for_all_of(drift).options();
    format!("airlock plugin accept {client}{consent}{}", config.option())
}
