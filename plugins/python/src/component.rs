//! Exports the interpreter as the world `script-executor`.

use crate::Python;

type PythonExecutor = airlock_executor::component::Executor<Python>;

#[expect(unsafe_code, reason = "generated; the canonical ABI passes raw memory")]
mod exports {
    use super::PythonExecutor;

    airlock_executor::component::export!(PythonExecutor);
}

/// The source of randomness that `getrandom` expects from the embedder on this target. It returns
/// the same bytes in every run, because a run must have the same result every time. Hash maps below
/// the interpreter seed themselves with it, and the interpreter gives identities to objects that
/// leave it; neither is visible to scripts.
#[expect(unsafe_code, reason = "`getrandom` finds its custom backend by symbol name")]
mod entropy {
    use std::slice;
    use std::sync::atomic::{AtomicU64, Ordering};

    static DRAWN: AtomicU64 = AtomicU64::new(0);

    #[unsafe(no_mangle)]
    unsafe extern "Rust" fn __getrandom_v03_custom(
        dest: *mut u8,
        len: usize,
    ) -> Result<(), getrandom::Error> {
        // SAFETY: `getrandom` passes a valid, writable buffer of this length, whose bytes need not
        // be initialized; a `u8` may hold anything once it is written.
        unsafe { dest.write_bytes(0, len) };
        let bytes = unsafe { slice::from_raw_parts_mut(dest, len) };
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&next().to_le_bytes()[..word.len()]);
        }
        Ok(())
    }

    /// Returns the next number of SplitMix64, so that no two identities are equal.
    fn next() -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let drawn = DRAWN.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
