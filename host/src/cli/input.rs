//! Input of the commands: standard input or a file, bounded in size.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use anyhow::{Context as _, ensure};

/// Largest input, in bytes. A pipe may never end. The door's limit on arguments is smaller, so that the door is what
/// refuses oversized ones.
const MAX_BYTES: u64 = 16 << 20;

/// Reads all of standard input.
pub(super) fn stdin() -> anyhow::Result<String> {
    text(io::stdin().lock(), "standard input")
}

/// Reads a file, or standard input for `-`.
pub(super) fn file(path: &Path) -> anyhow::Result<String> {
    if path.as_os_str() == "-" {
        return stdin();
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("{name} cannot be read"))?;
    text(file, &name)
}

fn text(source: impl Read, name: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    source
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("{name} cannot be read"))?;
    ensure!(text.len() as u64 <= MAX_BYTES, "{name} is larger than {} MiB", MAX_BYTES >> 20);
    Ok(text)
}
