//! The refusal of what is beyond a directory's quota.

use wasmtime_wasi::p2::{FsError, StreamError, bindings::filesystem::types::ErrorCode};

/// There is no room for what a guest wants to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the directory's quota is used up")]
pub(super) struct OverQuota;

impl From<OverQuota> for FsError {
    fn from(_: OverQuota) -> Self {
        ErrorCode::Quota.into()
    }
}

impl From<OverQuota> for StreamError {
    fn from(over: OverQuota) -> Self {
        Self::LastOperationFailed(over.into())
    }
}
