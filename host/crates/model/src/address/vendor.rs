//! The vendor of an API, and hosts with the same paths below a base URL.

use http::Uri;
use url::Url;

use super::addresses::{Addresses, Operation};
use crate::http::below;
use airlock_conversation::read::Untranslatable;

/// Addresses of the API's vendor, and of hosts with the same paths below a base URL.
#[derive(Debug)]
pub(super) struct VendorPaths {
    base: Url,
    chat_completions: Uri,
    responses: Uri,
    messages: Uri,
}

impl VendorPaths {
    pub(super) fn new(base: Url) -> Self {
        let chat_completions = below(&base, Operation::ChatCompletions.path());
        let responses = below(&base, Operation::Responses.path());
        let messages = below(&base, Operation::Messages.path());
        Self { base, chat_completions, responses, messages }
    }
}

impl Addresses for VendorPaths {
    fn below(&self, path: &str) -> Uri {
        below(&self.base, path)
    }

    fn uri(&self, operation: Operation, _: &str, _: bool) -> Result<Uri, Untranslatable> {
        Ok(match operation {
            Operation::ChatCompletions => self.chat_completions.clone(),
            Operation::Responses => self.responses.clone(),
            Operation::Messages => self.messages.clone(),
        })
    }
}

/// Returns a URL with more segments in its path.
#[cfg(any(feature = "azure", feature = "vertex"))]
pub(super) fn extended(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}
