//! A tool as a type: its descriptor and its function.

use crate::{Context, Descriptor, Error, Output};

/// A tool. [`macro@crate::tool`] implements it for a type named like the function. Implement it by
/// hand only if the schema is not that of a Rust type.
///
/// With it, a test can check what a model sees:
///
/// ```
/// use airlock_guest::{Tool, testing::Host, tool};
///
/// /// Answers at once.
/// #[tool]
/// fn ping() -> &'static str {
///     "pong"
/// }
///
/// assert_eq!(ping::descriptor().description, "Answers at once.");
/// let output = Host::new().call::<ping>(serde_json::json!({})).unwrap();
/// assert_eq!(output.first_text(), Some("pong"));
///
/// let error = Host::new().call::<ping>(serde_json::json!({ "loud": true })).unwrap_err();
/// assert_eq!(error.message(), "unknown argument `loud`; this tool takes no arguments");
/// ```
pub trait Tool {
    /// `^[a-zA-Z0-9_-]{1,64}$`, unique in the plugin; the same as in the descriptor.
    const NAME: &'static str;

    /// Returns the descriptor. It must be pure: the host may call it with every capability denied.
    fn descriptor() -> Descriptor;

    /// Runs the tool on the JSON text of its arguments.
    fn invoke(arguments: &str, context: &Context<'_>) -> Result<Output, Error>;
}
