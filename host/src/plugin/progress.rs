//! Shows on a terminal that a component is being compiled, which happens once and takes seconds.

use std::{pin::pin, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// A component that loads faster was in the cache, and no progress is shown.
const SOON: Duration = Duration::from_millis(200);

/// Awaits `load`, which compiles `wasm`, and shows progress after [`SOON`]. Shows nothing without a
/// terminal.
pub(crate) async fn compiling<T>(
    progress: &MultiProgress,
    what: &str,
    wasm: &[u8],
    load: impl Future<Output = T>,
) -> T {
    let mut load = pin!(load);
    if let Ok(loaded) = tokio::time::timeout(SOON, load.as_mut()).await {
        return loaded;
    }
    let style =
        ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("a template that parses");
    let spinner = progress.add(ProgressBar::new_spinner().with_style(style));
    spinner
        .set_message(format!("compiling {what} ({} KiB) to native code, once", wasm.len() / 1024));
    spinner.enable_steady_tick(Duration::from_millis(120));
    let loaded = load.await;
    spinner.finish_and_clear();
    loaded
}
