//! A call of a tool of the embedding program, as the body of the tool sees it.

use std::{any::Any, fmt, future::Future, sync::Arc, time::Instant};

use tokio_util::sync::CancellationToken;

use airlock_core::{
    door::{Admitted, CallId, Chain, Origin, Progress},
    tenant::Tenant,
};

/// A running call of a [`NativeTool`](super::NativeTool). Cheap to clone.
#[derive(Clone)]
pub struct ToolContext {
    chain: Chain,
    origin: Origin,
    /// Cancelled when the call has ended, whatever its end is.
    ended: CancellationToken,
}

impl ToolContext {
    pub(super) fn new(call: &Admitted, ended: CancellationToken) -> Self {
        Self { chain: call.chain().clone(), origin: call.origin().clone(), ended }
    }

    /// Identifier of the call, as in the records of a request.
    pub fn id(&self) -> CallId {
        self.chain.id()
    }

    /// The party that the call is accounted to: the holder of a virtual key, or all callers without
    /// one.
    pub fn tenant(&self) -> &Tenant {
        self.chain.tenant()
    }

    /// The origin of the call: a model, a script, a plugin, an MCP client, a caller, or the program itself.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Depth of the call: 1 for a call of a request, one more for each call around it. The requests that a body sends to the
    /// gateway in its own task, and their calls, are deeper; at `max_call_depth` of the configuration they are refused. A
    /// request that it sends in another task takes the depth from [`RequestBuilder::call_depth`](crate::RequestBuilder::call_depth).
    pub fn depth(&self) -> u32 {
        self.chain.whole_depth()
    }

    /// The [context](crate::RequestBuilder::context) of the request of the program that has led to the call; `None` if it
    /// has none, or one of another type.
    pub fn request_context<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.chain.program()?.context.clone()?.downcast().ok()
    }

    /// Instant at which the gateway cancels the call.
    pub fn deadline(&self) -> Instant {
        self.chain.deadline()
    }

    /// Reports the progress of the call. A caller that reads slowly gets only some of the reports.
    pub fn report_progress(&self, progress: Progress) {
        self.chain.reporter().progress(progress);
    }

    /// Returns whether the call has ended: it was cancelled, has passed its deadline, or has its result. For
    /// work that the body has started elsewhere; the future of the body itself is dropped.
    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Returns a future that completes when the call has ended, as [`Self::has_ended`].
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        self.ended.clone().cancelled_owned()
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext")
            .field("id", &self.id())
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}
