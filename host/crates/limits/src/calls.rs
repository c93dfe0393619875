//! Limits of calls of tools.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use airlock_core::{
    door::{Admitted, CallControl, Chain, ControlledCall, Permission, Refusal},
    tool::{CallError, ToolOutput},
};
use futures_util::future::BoxFuture;

use crate::{
    batch::Demand,
    limit::Measure,
    limiter::{HeldAmounts, Limiter},
    live::LiveLimit,
};

impl CallControl for Limiter {
    fn begin<'c>(
        &'c self,
        call: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>> {
        let membership = call.chain().view().membership();
        let limits = self.applied(membership, |limit| limit.counts_call(call));
        if limits.is_empty() {
            return Box::pin(NotLimited);
        }
        Box::pin(self.begin_limited(call, limits))
    }

    fn refused(&self, _refusal: &Refusal<'_>) {}
}

impl Limiter {
    /// Takes the amounts of a call to which these limits apply.
    async fn begin_limited(
        &self,
        call: &Admitted,
        limits: Vec<Arc<LiveLimit>>,
    ) -> Result<Box<dyn ControlledCall>, CallError> {
        let price = self.prices().call(call.tool().full_name.as_str()).unwrap_or_default();
        let price = price.millionths();
        let bytes = call.arguments().as_str().len() as u64;
        // The call that it continues was counted, but no longer runs.
        let is_counted = call.permission() == Permission::Continuation;
        let demands = limits.iter().filter_map(|limit| {
            let amount = match limit.limit.measure {
                _ if is_counted => 0,
                Measure::ToolCalls => 1,
                Measure::ArgumentBytes => bytes,
                Measure::Cost => price,
                Measure::Requests | Measure::Tokens | Measure::Concurrency => 0,
            };
            let limit = limit.clone();
            (amount > 0).then_some(Demand { limit, amount, least: amount })
        });
        let tenant = call.chain().tenant();
        let taken = self.take(tenant, &limits, demands.collect(), None).await;
        let held = taken.inspect_err(|denied| self.metrics.count(denied))?;
        let chain = call.chain().clone();
        Ok(Box::new(LimitedCall { held, chain }))
    }
}

/// Future of a call to which no limit applies. Neither it nor the call has a size, so boxing them allocates nothing.
struct NotLimited;

impl Future for NotLimited {
    type Output = Result<Box<dyn ControlledCall>, CallError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(Box::new(Unlimited)))
    }
}

/// A call to which no limit applies.
struct Unlimited;

impl ControlledCall for Unlimited {
    fn end(self: Box<Self>, _result: &Result<ToolOutput, CallError>) {}
}

/// A call with limits. If it is dropped, it counts.
struct LimitedCall {
    held: HeldAmounts,
    chain: Chain,
}

impl ControlledCall for LimitedCall {
    fn end(self: Box<Self>, result: &Result<ToolOutput, CallError>) {
        // The code of the error tells nothing: a plugin may return that of a call which it has made.
        if result.as_ref().is_err_and(CallError::has_not_begun) {
            // A server that refuses a call, for example because of its credentials, has its arguments.
            let is_delivered = self.chain.reporter().is_delivered();
            self.held.settle(|limit, _| {
                let is_used = is_delivered && limit.measure == Measure::ArgumentBytes;
                (!is_used).then_some(0)
            });
        }
    }
}
