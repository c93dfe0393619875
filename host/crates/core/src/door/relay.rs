//! Requests for resources, prompts and completions: the decision, and the permission that it makes.
//!
//! A source is asked only through a [`Relay`], and only [`RelayView::admit`] makes one. The rules
//! are those of tools: the operator's lists ∩ headers ∩ virtual key, denied by default. What is
//! hidden is not found, exactly like what does not exist.

mod claims;
mod mailbox;
mod source;
mod view;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;

pub use self::{
    claims::Claims,
    mailbox::{Mailbox, Subscription},
    source::RelaySource,
    view::RelayView,
};
use super::{CallerCapabilities, SessionId};
use crate::{
    tenant::Tenant,
    tool::{Answers, Cause, ClientName, InputRequired, QuestionKinds},
};

/// A request to a source, under the source's own names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayRequest {
    /// Reads a resource.
    Read {
        /// Its URI.
        uri: String,
    },
    /// Receives a notification for each change of a resource.
    Subscribe {
        /// Its URI.
        uri: String,
    },
    /// Gets a prompt.
    Prompt {
        /// Its name.
        name: String,
        /// Its arguments: the text of a JSON object.
        arguments: Option<String>,
    },
    /// Completes an argument.
    Complete {
        /// Owner of the argument.
        subject: Subject,
        /// The argument: the text of a JSON object.
        argument: String,
        /// Arguments that are known already: the text of a JSON object.
        context: Option<String>,
    },
}

/// Owner of an argument that can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A prompt, by its name.
    Prompt(String),
    /// A template of resources, by its URI template.
    Template(String),
}

/// Reason that a request for a resource or a prompt has no result.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// It does not exist, or is hidden from the caller.
    #[error("it does not exist")]
    NotFound,
    /// The operator has switched all tools off, and resources and prompts with them.
    #[error("all tools of this gateway are switched off by its operator")]
    Disabled,
    /// The source has no such method.
    #[error("its server does not offer this")]
    Unsupported,
    /// Too many requests run or wait at the source.
    #[error("its server is busy; try again later")]
    Busy,
    /// The caller has too many subscriptions at the source.
    #[error("this caller has {limit} subscriptions at its server, as many as it may")]
    TooManySubscriptions {
        /// The limit.
        limit: usize,
    },
    /// The source cannot be reached. The cause is for the operator.
    #[error("its server is not available")]
    Unavailable(#[source] Cause),
    /// The request ran past its deadline.
    #[error("its server did not respond within {limit:?}")]
    Deadline {
        /// Time that the request had.
        limit: Duration,
    },
    /// The result is over a bound.
    #[error("the result is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The bound.
        limit_bytes: usize,
    },
    /// The result is not one of MCP.
    #[error("its server returned no valid result: {reason}")]
    Invalid {
        /// Reason, without text of the source.
        reason: &'static str,
    },
    /// The source asks the caller. The request is resumed with the answers.
    #[error("its server waits for answers of the caller")]
    InputRequired(Box<InputRequired>),
    /// No request waits for the answers.
    #[error(
        "no such request waits for these answers: they came too late, were given before, or belong to another request"
    )]
    NotWaiting,
    /// The source refused the request.
    #[error("{message}")]
    Refused {
        /// Code of JSON-RPC.
        code: i64,
        /// Text of the source; without secrets, and cut.
        message: String,
    },
}

/// Serves requests that only an MCP server has: those for resources and prompts, and the end of
/// those that wait for answers.
pub trait McpServer: Send + Sync {
    /// Runs an admitted request for a resource, a prompt or a completion. Returns the result of the
    /// server as the text of a JSON object. Dropping the future cancels the request.
    fn relay(&self, relay: Relay) -> BoxFuture<'_, Result<String, RelayError>>;

    /// Begins to put `label` into `mailbox` for each change of the resource that an admitted request
    /// names, until the returned value is dropped.
    fn subscribe(
        &self,
        relay: Relay,
        mailbox: &Arc<Mailbox>,
        label: &str,
    ) -> Result<Subscription, RelayError>;

    /// Ends a request that waits for answers under `token`, because its caller has left.
    fn forget(&self, token: &str);
}

/// The receiver of a [`Relay`]: a provider of tools, which need not be a server.
trait RelayTarget: Send + Sync {
    /// Returns the MCP server that serves the request; `None` if the provider is none.
    fn server(&self) -> Option<&dyn McpServer>;
}

/// A request that may be sent. The value is the permission to send the request once.
#[must_use = "an admitted request does nothing until it is run"]
pub struct Relay {
    client: ClientName,
    request: RelayRequest,
    tenant: Tenant,
    limit: Duration,
    deadline: Instant,
    capabilities: CallerCapabilities,
    answers: Option<Answers>,
    target: Arc<dyn RelayTarget>,
}

impl Relay {
    /// Sets what the caller takes: the source may ask it questions of these kinds.
    pub fn with_capabilities(self, capabilities: CallerCapabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Makes the request the continuation of one that waits for answers.
    pub fn answering(self, answers: Answers) -> Self {
        Self { answers: Some(answers), ..self }
    }

    /// Questions that the caller can answer.
    pub fn questions(&self) -> QuestionKinds {
        self.capabilities.questions
    }

    /// Session of the caller; `None` if the request belongs to none.
    pub fn session(&self) -> Option<SessionId> {
        self.capabilities.session
    }

    /// Takes the answers, if the request is the continuation of one that waits for them.
    pub fn take_answers(&mut self) -> Option<Answers> {
        self.answers.take()
    }

    /// The client that is asked.
    pub fn client(&self) -> &ClientName {
        &self.client
    }

    /// The request.
    pub fn request(&self) -> &RelayRequest {
        &self.request
    }

    /// The tenant that the request is accounted to.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Instant by which the request must have ended.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Time that the request had in all.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Runs the request. Returns the result of the source as the text of a JSON object. Dropping
    /// the future cancels the request.
    pub async fn run(self) -> Result<String, RelayError> {
        let target = self.target.clone();
        target.server().ok_or(RelayError::Unsupported)?.relay(self).await
    }

    /// Subscribes to the changes of the resource that the request names: each puts `label` into
    /// `mailbox`, until the returned value is dropped.
    pub fn subscribe(
        self,
        mailbox: &Arc<Mailbox>,
        label: &str,
    ) -> Result<Subscription, RelayError> {
        let target = self.target.clone();
        target.server().ok_or(RelayError::Unsupported)?.subscribe(self, mailbox, label)
    }
}

#[cfg(test)]
mod tests;
