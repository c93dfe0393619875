//! Set-up of an instance before its first call: the panic hook, and the receivers of the crates
//! `log` and `tracing`.

use std::sync::Once;

/// Prepares the instance, once. Later calls cost one load.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        #[cfg(target_family = "wasm")]
        report_panics();
        #[cfg(feature = "log")]
        crate::log::facade::install();
        #[cfg(feature = "tracing")]
        crate::log::subscriber::install();
    });
}

/// Writes the text and the location of a panic to the host's log. The standard library writes them to
/// stderr, which a plugin without WASI does not have.
#[cfg(target_family = "wasm")]
fn report_panics() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        crate::log::write_panic(panic);
        previous(panic);
    }));
}
