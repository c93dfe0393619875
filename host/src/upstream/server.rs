//! One server as the provider of its tools.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use futures_util::future::BoxFuture;
use rmcp::{
    model::{CallToolRequest, CallToolRequestParams, ClientRequest},
    service::ServiceError,
};
use tokio::{sync::Semaphore, time::timeout_at};

use super::{answer, http, link::Link, trouble::cause};
use crate::{
    catalog::{CallError, Cause, Provider, ToolName, ToolOutput},
    door::Admitted,
};

/// Calls that run at one time on one server.
pub(super) const MAX_RUNNING: usize = 32;
/// Calls that may wait for their turn; beyond it the answer is "busy".
pub(super) const MAX_WAITING: usize = 128;

/// Runs the tools of one server, whether it is connected or not. It stays the same from connection to connection, so a
/// view made before a break can still be called through after it.
pub(super) struct Server {
    link: ArcSwapOption<Link>,
    /// Running and waiting calls.
    places: Semaphore,
    /// Running calls.
    turns: Semaphore,
}

/// Why a server could not be asked, or its answer not be had. For the operator.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("it is not connected; nothing was sent")]
    NotConnected,
    #[error("the connection broke; the tool may have run")]
    Broken(#[source] Cause),
}

impl Server {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            link: ArcSwapOption::empty(),
            places: Semaphore::new(MAX_RUNNING + MAX_WAITING),
            turns: Semaphore::new(MAX_RUNNING),
        })
    }

    /// Sends calls over `link` from now on, or nowhere.
    pub(super) fn set_link(&self, link: Option<Arc<Link>>) {
        self.link.store(link);
    }

    /// Whether no call is running.
    pub(super) fn is_idle(&self) -> bool {
        self.turns.available_permits() == MAX_RUNNING
    }

    async fn run(&self, call: Admitted) -> Result<ToolOutput, CallError> {
        let deadline = call.chain().deadline();
        let limit = whole_millis(deadline.saturating_duration_since(Instant::now()));
        match timeout_at(deadline.into(), self.ask(&call)).await {
            Ok(answer) => answer,
            Err(_) => Err(CallError::Deadline { tool: call.tool().name.clone(), limit }),
        }
    }

    async fn ask(&self, call: &Admitted) -> Result<ToolOutput, CallError> {
        let tool = call.tool();
        let _place = self.places.try_acquire().map_err(|_| CallError::Busy)?;
        let _turn = self.turns.acquire().await.map_err(|_| CallError::Busy)?;
        let Some(link) = self.link.load_full() else {
            return Err(unavailable(&tool.name, Lost::NotConnected));
        };
        let params = CallToolRequestParams::new(tool.original.clone()).with_arguments(call.arguments().to_object());
        match link.ask(ClientRequest::CallToolRequest(CallToolRequest::new(params))).await {
            Ok(result) => answer::read(&tool.name, result),
            Err(ServiceError::McpError(error)) => Err(answer::refusal(error)),
            Err(ServiceError::UnexpectedResponse) => Err(answer::no_result(&tool.name, "the answer is of no known shape")),
            Err(error) if http::is_too_large(&error) => Err(answer::too_large(&tool.name)),
            Err(error) => {
                link.raise_doubt();
                Err(unavailable(&tool.name, Lost::Broken(cause(error))))
            }
        }
    }
}

impl Provider for Server {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(self.run(call))
    }
}

fn unavailable(tool: &ToolName, lost: Lost) -> CallError {
    CallError::Unavailable { tool: tool.clone(), cause: Cause::from(lost) }
}

/// A deadline is an instant, so what is left of thirty seconds reads 29.999987 s; it was meant to be thirty.
fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX))
}
