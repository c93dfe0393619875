//! Reports that a component is being compiled, which happens once and takes seconds: in the log, and to
//! the program.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use tracing::info;

/// A component that loads faster was in the cache, and nothing is reported.
const SOON: Duration = Duration::from_millis(200);

/// Called with a message for people when a component begins to be compiled. The returned value is
/// dropped when that ends. Several components may be compiled at the same time.
pub type CompileHook = dyn Fn(&str) -> Box<dyn Send> + Send + Sync;

/// Awaits `load`, which compiles `wasm`, and reports it if it takes longer than 0.2 seconds.
pub async fn compiling<T>(
    on_compile: Option<&CompileHook>,
    what: &str,
    wasm: &[u8],
    load: impl Future<Output = T>,
) -> T {
    let mut load = pin!(load);
    if let Ok(loaded) = tokio::time::timeout(SOON, load.as_mut()).await {
        return loaded;
    }
    let begun = Instant::now();
    let kibibytes = wasm.len() / 1024;
    info!(what, kibibytes, "compiling to native code, once");
    let shown = on_compile
        .map(|hook| hook(&format!("compiling {what} ({kibibytes} KiB) to native code, once")));
    let loaded = load.await;
    drop(shown);
    info!(what, duration = ?begun.elapsed(), "compiled");
    loaded
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    struct Shown(Arc<AtomicUsize>);
    impl Drop for Shown {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_compilation_is_shown_until_it_ends_and_a_quick_one_is_not_shown() {
        let shown = Arc::new(AtomicUsize::new(0));
        let count = shown.clone();
        let hook = move |message: &str| -> Box<dyn Send> {
            assert_eq!(message, "compiling fetch (2 KiB) to native code, once");
            count.fetch_add(1, Ordering::Relaxed);
            Box::new(Shown(count.clone()))
        };
        compiling(Some(&|_| panic!("it is quick")), "fetch", &[0; 2048], async {}).await;
        let slow = async {
            tokio::time::sleep(SOON * 2).await;
            shown.load(Ordering::Relaxed)
        };
        assert_eq!(compiling(Some(&hook), "fetch", &[0; 2048], slow).await, 1);
        assert_eq!(shown.load(Ordering::Relaxed), 0, "its end is known");
    }
}
