//! The interface of a host: the URI of each operation of an API, and the form of its requests there.

use std::fmt;

use http::Uri;

use airlock_conversation::{Object, read::Untranslatable};

/// Operation of an API that has one address for all models at its vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// OpenAI's chat completions.
    ChatCompletions,
    /// OpenAI's Responses API.
    Responses,
    /// Anthropic's Messages API.
    Messages,
}

impl Operation {
    /// Returns the path at the vendor of the API, below its version.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat/completions",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }
}

/// Addresses of one service.
pub(crate) trait Addresses: fmt::Debug + Send + Sync {
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
pub(crate) struct HostedMessages {
    /// Version of the API, which Anthropic itself has in a header.
    pub(super) version: &'static str,
    /// True if the kind of response is in the address alone, and beta features are in the body alone.
    pub(super) is_body_only: bool,
}

impl HostedMessages {
    /// Moves members of a request between its body, its address and its headers. `configured` are the
    /// beta features of all requests, and `betas` those of this one.
    pub(crate) fn apply(
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
