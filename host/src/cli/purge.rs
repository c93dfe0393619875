//! Returns freed memory to the system while the gateway has nothing to do.
//!
//! The allocator of the binary returns freed pages only after a delay, and only when it takes or frees other
//! pages. A gateway that is idle after a burst of requests would keep the memory of the burst.

use std::{convert::Infallible, hint::black_box, time::Duration};

use tokio::time::sleep;

/// Time between two returns. The delay of the allocator is one second.
const INTERVAL: Duration = Duration::from_secs(2);
/// Size of a block that has pages of its own, in bytes: the smallest power of two for which the allocator takes new pages,
/// which is when it returns freed ones. The block is never written, so it takes no memory. But it lies on freed pages, which
/// are not returned while it exists, and never if each later block lies on them too: a block of 16 MiB kept 16 MiB.
const BLOCK_BYTES: usize = 1 << 20;

/// Returns freed memory at every [`INTERVAL`].
pub(super) async fn repeatedly() -> Infallible {
    loop {
        sleep(INTERVAL).await;
        drop(black_box(Vec::<u8>::with_capacity(BLOCK_BYTES)));
    }
}
