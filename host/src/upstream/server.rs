//! Provides the tools of one server.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use futures_util::future::BoxFuture;
use rmcp::{
    model::{CallToolRequest, CallToolRequestParams, ClientRequest},
    service::ServiceError,
};
use tokio::{runtime::Handle, sync::Semaphore, time::timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::{
    decode,
    error::cause,
    http,
    limits::{MAX_RUNNING, MAX_RUNNING_PER_TENANT, MAX_WAITING, SLOTS_WEIGHT},
    outbox, result,
    sender::RequestSender,
};
use crate::{
    door::{Admitted, Provider},
    tenant::{Pool, Tenant},
    tool::{CallError, Cause, ToolName, ToolOutput},
};

/// Runs the tools of one server, connected or not. It outlives its connections, so a view from
/// before a disconnect can still be called through after it.
///
/// A call runs on the runtime of the upstream servers, which also reads the response. The caller's
/// task enforces the deadline.
pub(super) struct Server {
    shared: Arc<Shared>,
    /// Slots for running and waiting calls, divided among tenants.
    slots: Pool,
    runtime: Handle,
}

struct Shared {
    sender: ArcSwapOption<RequestSender>,
    /// Permits for running calls.
    permits: Semaphore,
    /// Permits for the running calls of each tenant that has a running or waiting call. There are
    /// at most as many tenants as slots.
    tenant_permits: Mutex<HashMap<Tenant, Weak<Semaphore>>>,
}

/// Reason that a server could not be asked or its response was lost. For the operator.
#[derive(Debug, thiserror::Error)]
enum Unavailable {
    #[error("it is not connected; nothing was sent")]
    NotConnected,
    #[error("the connection broke; the tool may have run")]
    ConnectionLost(#[source] Cause),
}

impl Server {
    /// Creates a server that is not connected, whose calls run on `runtime`.
    pub(super) fn new(runtime: Handle) -> Arc<Self> {
        let permits = Semaphore::new(MAX_RUNNING);
        let shared =
            Shared { sender: ArcSwapOption::empty(), permits, tenant_permits: Mutex::default() };
        let slots = Pool::new(MAX_RUNNING + MAX_WAITING, SLOTS_WEIGHT);
        Arc::new(Self { shared: Arc::new(shared), slots, runtime })
    }

    /// Sends further calls over `sender`. With `None`, they fail as not connected.
    pub(super) fn set_sender(&self, sender: Option<Arc<RequestSender>>) {
        self.shared.sender.store(sender);
    }

    /// Returns whether no call is running.
    pub(super) fn is_idle(&self) -> bool {
        self.shared.permits.available_permits() == MAX_RUNNING
    }

    async fn run(&self, call: Admitted) -> Result<ToolOutput, CallError> {
        let _slot = self.slots.take(call.chain().tenant(), 1).ok_or(CallError::Busy)?;
        let tool = call.tool().name.clone();
        let deadline = call.chain().deadline();
        let limit = whole_millis(deadline.saturating_duration_since(Instant::now()));
        let shared = self.shared.clone();
        let asking = async move { shared.ask(&call).await }.in_current_span();
        let asking = AbortOnDropHandle::new(self.runtime.spawn(asking));
        match timeout_at(deadline.into(), asking).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(ended)) => {
                Err(unavailable(&tool, Unavailable::ConnectionLost(Cause::from(ended))))
            }
            Err(_) => Err(CallError::Deadline { tool, limit }),
        }
    }
}

impl Shared {
    /// Returns the permits of one tenant.
    fn tenant_permits(&self, tenant: &Tenant) -> Arc<Semaphore> {
        // The map is consistent after every statement.
        let mut permits = self.tenant_permits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = permits.get(tenant).and_then(Weak::upgrade) {
            return known;
        }
        permits.retain(|_, known| known.strong_count() > 0);
        let own = Arc::new(Semaphore::new(MAX_RUNNING_PER_TENANT));
        permits.insert(tenant.clone(), Arc::downgrade(&own));
        own
    }

    async fn ask(&self, call: &Admitted) -> Result<ToolOutput, CallError> {
        let tool = call.tool();
        // The tenant's own permit comes first, so that its calls do not queue ahead of other
        // tenants' calls.
        let own = self.tenant_permits(call.chain().tenant());
        let _own_permit = own.acquire().await.map_err(|_| CallError::Busy)?;
        let _permit = self.permits.acquire().await.map_err(|_| CallError::Busy)?;
        let Some(sender) = self.sender.load_full() else {
            return Err(unavailable(&tool.name, Unavailable::NotConnected));
        };
        let params = CallToolRequestParams::new(tool.original.clone())
            .with_arguments(call.arguments().to_object());
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let report = |progress| call.chain().reporter().progress(progress);
        match sender.ask_with_progress(request, report).await {
            Ok(result) => result::read(&tool.name, result),
            Err(error) if decode::is_too_large(&error) || http::is_too_large(&error) => {
                Err(result::too_large(&tool.name))
            }
            Err(ServiceError::McpError(error)) => Err(result::refusal(error)),
            Err(error) if outbox::is_full(&error) => Err(CallError::Busy),
            Err(ServiceError::UnexpectedResponse) => {
                Err(result::no_result(&tool.name, "the answer is of no known shape"))
            }
            Err(error) => {
                sender.request_check();
                Err(unavailable(&tool.name, Unavailable::ConnectionLost(cause(error))))
            }
        }
    }
}

impl Provider for Server {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(self.run(call))
    }
}

fn unavailable(tool: &ToolName, cause: Unavailable) -> CallError {
    CallError::Unavailable { tool: tool.clone(), cause: Cause::from(cause) }
}

/// Rounds a time up to whole milliseconds. A deadline is an instant, so the time left of 30 s would
/// read 29.999987 s.
fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn permits_are_shared_by_the_calls_of_a_tenant_and_dropped_with_its_last_call() {
        let server = Server::new(Handle::current());
        let tenant = |number: u8| Tenant::of_key([number; 32], "name");
        let first = server.shared.tenant_permits(&tenant(0));
        assert!(Arc::ptr_eq(&first, &server.shared.tenant_permits(&tenant(0))));
        assert!(!Arc::ptr_eq(&first, &server.shared.tenant_permits(&tenant(1))));
        assert_eq!(first.available_permits(), MAX_RUNNING_PER_TENANT);
        for number in 1..=u8::MAX {
            drop(server.shared.tenant_permits(&tenant(number)));
        }
        let kept = server.shared.tenant_permits.lock().expect("not poisoned").len();
        assert_eq!(kept, 2, "those of the first tenant and of the last");
    }
}
