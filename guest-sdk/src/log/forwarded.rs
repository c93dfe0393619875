//! The lowest level that is forwarded from the crates `log` and `tracing`.

use std::sync::atomic::{AtomicU8, Ordering};

use super::Level;

static LEVEL: AtomicU8 = AtomicU8::new(Level::Info as u8);

/// Sets the lowest level that is forwarded from the crates `log` and `tracing`. It is
/// [`Level::Info`] at the start of each call: libraries write many lines below it, and a call has a
/// limited number. The macros of this crate are not affected.
pub fn set_forwarded_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
    #[cfg(feature = "log")]
    super::facade::level_changed(level);
    #[cfg(feature = "tracing")]
    super::subscriber::level_changed();
}

pub(super) fn is_forwarded(level: Level) -> bool {
    level as u8 >= LEVEL.load(Ordering::Relaxed)
}
