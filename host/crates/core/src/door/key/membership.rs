//! Identifiers under which the calls of a key are counted and recorded.

/// The identifiers of a virtual key, and of the groups that it belongs to. They stay the same when the
/// credential is rotated and when the key is renamed. The default is that of a caller without a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Membership {
    /// Identifier of the key; its name if it has none.
    pub key: Option<String>,
    /// Name of the key, for people.
    pub key_name: Option<String>,
    /// Identifier of its team; the name if it has none.
    pub team: Option<String>,
    /// Identifier of its customer, or of the customer of its team; the name if it has none.
    pub customer: Option<String>,
    /// Name of the environment that it is bound to.
    pub environment: Option<String>,
}
