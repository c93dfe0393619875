//! Lists the files below `assets`, with their contents, for `src/lib.rs`.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    let assets = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("assets");
    println!("cargo::rerun-if-changed={}", assets.display());
    let mut files = Vec::new();
    walk(&assets, &mut files)?;
    files.sort();
    let mut list = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&assets)?.to_str().ok_or("a name is not UTF-8")?;
        let name = name.replace(std::path::MAIN_SEPARATOR, "/");
        let file = file.to_str().ok_or("a path is not UTF-8")?;
        writeln!(list, "    ({name:?}, include_bytes!({file:?}).as_slice()),")?;
    }
    list.push_str("]\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("files.rs"), list)?;
    Ok(())
}

/// Adds the files below a directory. Hidden ones are those of editors.
fn walk(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}
