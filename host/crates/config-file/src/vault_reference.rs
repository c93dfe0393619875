//! References to secrets of the embedding program's vaults.

/// Begins a value that refers to a vault.
const PREFIX: &str = "vault.";

/// A reference to a secret of a vault. It is no secret itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VaultReference {
    /// Name of the vault.
    pub vault: String,
    /// Text that the vault knows.
    pub secret: String,
}

impl VaultReference {
    /// Parses `vault.NAME/REFERENCE`; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (vault, secret) = text.strip_prefix(PREFIX)?.split_once('/')?;
        let is_reference = is_name(vault) && !secret.is_empty();
        is_reference.then(|| Self { vault: vault.to_owned(), secret: secret.to_owned() })
    }
}

/// Returns whether a text of a configuration refers to a secret of a vault, so that it is no secret itself.
pub fn is_vault_reference(text: &str) -> bool {
    VaultReference::parse(text).is_some()
}

/// Returns whether a configuration can name a vault like this.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
