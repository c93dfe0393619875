//! Exports the interpreter as the world `script-executor`.

use crate::Starlark;

type StarlarkExecutor = airlock_executor::component::Executor<Starlark>;

#[expect(unsafe_code, reason = "generated; the canonical ABI passes raw memory")]
mod exports {
    use super::StarlarkExecutor;

    airlock_executor::component::export!(StarlarkExecutor);
}

/// The source of randomness that `getrandom` expects from the embedder on this target. It always
/// fails, because a run must have the same result every time. Crates below Starlark link it and
/// never call it.
#[expect(unsafe_code, reason = "`getrandom` finds its custom backend by symbol name")]
mod entropy {
    #[unsafe(no_mangle)]
    extern "Rust" fn __getrandom_v03_custom(
        _dest: *mut u8,
        _len: usize,
    ) -> Result<(), getrandom::Error> {
        Err(getrandom::Error::UNSUPPORTED)
    }
}
