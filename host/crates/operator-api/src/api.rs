//! The state of the handlers of operators' requests.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{OperatorHooks, OperatorSettings, admin::ToolTexts, operator_login::LoginRate};
use airlock_core::door::LiveKeys;
use airlock_requests::RequestParts;

/// State of the handlers of operators' requests that began with the same settings.
pub struct OperatorApi {
    pub(super) settings: OperatorSettings,
    /// The parts that do not depend on HTTP.
    pub(super) parts: Arc<RequestParts>,
    // From here on, the parts that live as long as the gateway.
    pub(super) hooks: Arc<OperatorHooks>,
    /// Virtual keys of now.
    pub(super) keys: LiveKeys,
    /// Cancelled when the gateway stops.
    pub(super) closing: CancellationToken,
    /// Texts of the tools in the list of clients.
    pub(super) tool_texts: ToolTexts,
    /// Bounds the logins of operators that each peer begins.
    pub(super) login_rate: Arc<LoginRate>,
    /// Place for the upload of a component.
    pub(super) uploads: Arc<Semaphore>,
}

impl OperatorApi {
    /// Creates the state of a gateway with these parts. `closing` is cancelled when the gateway stops.
    pub fn new(
        hooks: Arc<OperatorHooks>,
        keys: LiveKeys,
        closing: CancellationToken,
        parts: Arc<RequestParts>,
        settings: OperatorSettings,
    ) -> Self {
        Self {
            settings,
            parts,
            hooks,
            keys,
            closing,
            tool_texts: ToolTexts::default(),
            login_rate: Arc::default(),
            uploads: Arc::new(Semaphore::new(1)),
        }
    }

    /// Returns the state with other settings.
    pub fn with_settings(&self, parts: Arc<RequestParts>, settings: OperatorSettings) -> Self {
        Self {
            settings,
            parts,
            hooks: self.hooks.clone(),
            keys: self.keys.clone(),
            closing: self.closing.clone(),
            tool_texts: self.tool_texts.clone(),
            login_rate: self.login_rate.clone(),
            uploads: self.uploads.clone(),
        }
    }
}
