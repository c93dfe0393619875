//! Reports that a component is being compiled, which happens once and takes seconds: on a terminal, and
//! in the log.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tracing::info;

/// A component that loads faster was in the cache, and no progress is shown.
const SOON: Duration = Duration::from_millis(200);

/// Awaits `load`, which compiles `wasm`, and reports progress if it takes longer than 0.2 seconds.
///
/// # Panics
///
/// If the template of the progress bar is invalid, which a test rules out.
pub async fn compiling<T>(
    progress: &MultiProgress,
    what: &str,
    wasm: &[u8],
    load: impl Future<Output = T>,
) -> T {
    let mut load = pin!(load);
    if let Ok(loaded) = tokio::time::timeout(SOON, load.as_mut()).await {
        return loaded;
    }
    let begun = Instant::now();
    info!(what, kibibytes = wasm.len() / 1024, "compiling to native code, once");
    let style =
        ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("a template that parses");
    let spinner = progress.add(ProgressBar::new_spinner().with_style(style));
    spinner
        .set_message(format!("compiling {what} ({} KiB) to native code, once", wasm.len() / 1024));
    spinner.enable_steady_tick(Duration::from_millis(120));
    let loaded = load.await;
    spinner.finish_and_clear();
    info!(what, duration = ?begun.elapsed(), "compiled");
    loaded
}
