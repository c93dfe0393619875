//! Work of a request that would keep a worker of the runtime from other requests.

use super::respond::ApiError;
use airlock_core::{
    request_memory::RequestCharge,
    threads::{self, INLINE_BYTES},
};

/// Work on a tree is done on a blocking thread if its request has more than this charge, in bytes.
const INLINE_TREE_BYTES: usize = 8 * INLINE_BYTES;

/// Runs work on a text: here if it is short, else on a blocking thread.
pub async fn on_text<T: Send + 'static>(
    text: Vec<u8>,
    charge: &RequestCharge,
    work: impl FnOnce(Vec<u8>, &RequestCharge) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if text.len() <= INLINE_BYTES {
        return work(text, charge);
    }
    // Boxed, as in `threads::read`.
    Box::pin(blocking(charge, move |charge| work(text, charge))).await
}

/// Runs work on a tree that is charged: here if the charge is small, else on a blocking thread.
pub async fn on_tree<T: Send + 'static>(
    charge: &RequestCharge,
    work: impl FnOnce(&RequestCharge) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if charge.bytes() <= INLINE_TREE_BYTES {
        return work(charge);
    }
    Box::pin(blocking(charge, work)).await
}

/// Runs work on a blocking thread.
pub async fn blocking<T: Send + 'static>(
    charge: &RequestCharge,
    work: impl FnOnce(&RequestCharge) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    // A clone of the charge, because the thread continues if the request is dropped.
    let own = charge.clone();
    threads::run(charge.tenant(), move || work(&own)).await
}
