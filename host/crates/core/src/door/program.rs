//! Requests that functions of the embedding program send to their own gateway, and the depth of their calls.
//!
//! ```text
//! request ─► function at depth 1 ─► request ─► function at depth 2 ─► … at most `Budget::depth`
//! ```
//!
//! A function is a tool of the program, or a model. It has its depth in its task, and the requests that it sends there
//! take it from the task.

use std::{any::Any, sync::Arc};

tokio::task_local! {
    static CALL_DEPTH: u32;
}

/// A request of the embedding program, as its calls carry it along. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ProgramRequest {
    /// Depth of the call whose function sends the request; 0 if no such call does.
    pub depth: u32,
    /// Value for the functions of the program that the calls reach.
    pub context: Option<Arc<dyn Any + Send + Sync>>,
}

/// Returns the depth of the call whose function of the program runs in this task: 1 in a call of a request that no
/// function has sent, one more for each call around it; 0 if no function runs in this task.
pub fn call_depth() -> u32 {
    CALL_DEPTH.try_with(|depth| *depth).unwrap_or_default()
}

/// Runs a future as a part of a function whose call has this depth.
pub fn at_call_depth<F: Future>(depth: u32, function: F) -> impl Future<Output = F::Output> {
    CALL_DEPTH.scope(depth, function)
}

/// Polls as a part of a function whose call has this depth.
pub fn poll_at_call_depth<T>(depth: u32, poll: impl FnOnce() -> T) -> T {
    CALL_DEPTH.sync_scope(depth, poll)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_function_has_its_depth_in_its_own_task_alone() {
        assert_eq!(call_depth(), 0);
        let inner = at_call_depth(2, async {
            let apart = tokio::spawn(async { call_depth() }).await.expect("it does not panic");
            (call_depth(), poll_at_call_depth(3, call_depth), apart)
        });
        let depths = at_call_depth(1, async { (inner.await, call_depth()) }).await;
        assert_eq!(depths, ((2, 3, 0), 1));
        assert_eq!(call_depth(), 0);
    }
}
