//! Addresses of a service: the URI of each operation of an API at the host of the service.
//!
//! An API knows its requests and responses, and nothing of where it is hosted; an address knows nothing
//! of the API but its operations. A host has a file of its own, behind the cargo feature of its name.

#[cfg(feature = "azure")]
mod azure;
#[cfg(feature = "bedrock")]
mod bedrock;
#[cfg(any(feature = "azure", feature = "bedrock", feature = "vertex"))]
mod segment;
#[cfg(feature = "vertex")]
mod vertex;

use std::{fmt, sync::Arc};

use http::Uri;
use url::Url;

use super::{
    BadProvider, Object,
    http::{base_url, below},
    settings::{Api, Hosting, Service},
};
use airlock_conversation::read::Untranslatable;

/// Operation of an API that has one address for all models at its vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// OpenAI's chat completions.
    ChatCompletions,
    /// OpenAI's Responses API.
    Responses,
    /// Anthropic's Messages API.
    Messages,
}

/// Addresses of one service.
pub(super) trait Addresses: fmt::Debug + Send + Sync {
    /// Returns the URI of `path`, which may have a query, below the version of the API.
    fn below(&self, path: &str) -> Uri;

    /// Returns the URI of an operation. Fails if the name of the model cannot be a part of it: the
    /// name is the caller's and must not reach another address of the host.
    fn uri(
        &self,
        operation: Operation,
        model: &str,
        is_streamed: bool,
    ) -> Result<Uri, Untranslatable>;

    /// Returns the form of Anthropic's Messages API at this host; `None` if it is Anthropic's own.
    fn messages(&self) -> Option<HostedMessages> {
        None
    }
}

/// Form of Anthropic's Messages API at a host that has the model in the address.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostedMessages {
    /// Version of the API, which Anthropic itself has in a header.
    version: &'static str,
    /// True if the kind of response is in the address alone, and beta features are in the body alone.
    is_body_only: bool,
}

impl HostedMessages {
    /// Moves members of a request between its body, its address and its headers. `configured` are the
    /// beta features of all requests, and `betas` those of this one.
    pub(super) fn apply(
        self,
        message: &mut Object,
        configured: Option<&str>,
        betas: &mut Option<String>,
    ) {
        message.shift_remove("model");
        message.insert("anthropic_version".to_owned(), self.version.into());
        if self.is_body_only {
            message.shift_remove("stream");
            let betas = betas.take();
            let betas = configured.into_iter().chain(betas.as_deref());
            let betas: Vec<_> = betas.flat_map(|list| list.split(',')).map(str::trim).collect();
            if !betas.is_empty() {
                message.insert("anthropic_beta".to_owned(), betas.into());
            }
        }
    }
}

/// Addresses of the API's vendor, and of hosts with the same paths below a base URL.
#[derive(Debug)]
struct VendorPaths {
    base: Url,
    chat_completions: Uri,
    responses: Uri,
    messages: Uri,
}

impl VendorPaths {
    fn new(base: Url) -> Self {
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

impl Operation {
    /// Returns the path at the vendor of the API, below its version.
    fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat/completions",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }
}

/// Returns the addresses of a service. Fails if its base URL cannot be used, or if its host does not
/// have its API or is not part of this build.
pub(super) fn addresses(
    provider: &str,
    service: &Service,
) -> Result<Arc<dyn Addresses>, BadProvider> {
    let base = base_url(provider, &service.base_url)?;
    let is_hosted = match (&service.hosting, service.api) {
        (Hosting::Vendor, _)
        | (Hosting::Azure { .. }, Api::OpenAi)
        | (Hosting::Bedrock { .. }, Api::Anthropic)
        | (Hosting::Vertex { .. }, Api::Anthropic | Api::Gemini) => true,
        (Hosting::Azure { .. } | Hosting::Bedrock { .. } | Hosting::Vertex { .. }, _) => false,
    };
    if !is_hosted {
        return Err(BadProvider::Hosting { provider: provider.to_owned() });
    }
    match &service.hosting {
        Hosting::Vendor => Ok(Arc::new(VendorPaths::new(base))),
        #[cfg(feature = "azure")]
        Hosting::Azure { api_version } => Ok(azure::addresses(&base, api_version.as_deref())),
        #[cfg(not(feature = "azure"))]
        Hosting::Azure { .. } => Err(without(provider, "azure")),
        #[cfg(feature = "bedrock")]
        Hosting::Bedrock { .. } => Ok(Arc::new(bedrock::RegionPaths::new(base))),
        #[cfg(not(feature = "bedrock"))]
        Hosting::Bedrock { .. } => Err(without(provider, "bedrock")),
        #[cfg(feature = "vertex")]
        Hosting::Vertex { project, location } => {
            Ok(vertex::addresses(&base, project, location, service.api))
        }
        #[cfg(not(feature = "vertex"))]
        Hosting::Vertex { .. } => Err(without(provider, "vertex")),
    }
}

/// Returns the error of a host that is not part of this build.
#[cfg(not(all(feature = "azure", feature = "bedrock", feature = "vertex")))]
fn without(provider: &str, feature: &'static str) -> BadProvider {
    BadProvider::Feature { provider: provider.to_owned(), feature }
}

/// Returns a URL with more segments in its path.
#[cfg(any(feature = "azure", feature = "vertex"))]
fn extended(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

#[cfg(all(test, feature = "azure", feature = "bedrock", feature = "vertex"))]
mod tests;
