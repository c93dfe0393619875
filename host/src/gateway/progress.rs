//! Shows on a terminal that something is compiled, which happens once and takes seconds.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::sandbox::Sandbox;

/// Awaits `load`, which compiles `wasm`, and says so meanwhile unless the cache has it. Nothing is shown where there is no
/// terminal.
pub(crate) async fn compiling<T>(
    progress: &MultiProgress,
    sandbox: &Sandbox,
    what: &str,
    wasm: &[u8],
    load: impl Future<Output = T>,
) -> T {
    if sandbox.is_compiled(wasm) {
        return load.await;
    }
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("a template that parses");
    let spinner = progress.add(ProgressBar::new_spinner().with_style(style));
    spinner.set_message(format!("compiling {what} ({} KiB) to native code, once", wasm.len() / 1024));
    spinner.enable_steady_tick(Duration::from_millis(120));
    let loaded = load.await;
    spinner.finish_and_clear();
    loaded
}
