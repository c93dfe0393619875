//! The command line.

use std::env;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

const USAGE: &str = "\
Builds Airlock's guests: plugins, script executors and components written as text.

airlock-build [OPTIONS] [NAME | DIRECTORY | FILE.wat]…

Without a name it builds every guest of this repository.

  --target DIR   where to compile, in DIR/guests [default: target]
  --out DIR      where the finished components go [default: plugins in the target directory]
  --list         says what there is to build, and builds nothing
  -h, --help     this text
";

/// What was asked for.
pub(crate) struct Options {
    /// The repository.
    pub(crate) root: PathBuf,
    /// Guests are compiled below it.
    pub(crate) target: PathBuf,
    /// Finished components go here.
    pub(crate) out: PathBuf,
    /// Only tell what there is.
    pub(crate) list: bool,
    /// Names, directories and files; all guests if empty.
    pub(crate) wanted: Vec<String>,
}

impl Options {
    /// Reads the command line; nothing if all it asked for was help.
    pub(crate) fn from_arguments() -> Result<Option<Self>> {
        let root = root();
        let mut target = root.join("target");
        let mut out = None;
        let mut list = false;
        let mut wanted = Vec::new();
        let mut arguments = env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut directory = || {
                let value = arguments.next().with_context(|| format!("{argument} needs a directory"))?;
                Ok::<_, anyhow::Error>(std::path::absolute(value)?)
            };
            match argument.as_str() {
                "--target" => target = directory()?,
                "--out" => out = Some(directory()?),
                "--list" => list = true,
                "-h" | "--help" => {
                    print!("{USAGE}");
                    return Ok(None);
                }
                flag if flag.starts_with('-') => {
                    bail!("unknown option {flag}: see airlock-build --help")
                }
                _ => wanted.push(argument),
            }
        }
        let out = out.unwrap_or_else(|| target.join("plugins"));
        Ok(Some(Self { root, target, out, list, wanted }))
    }
}

/// The repository that this tool is part of.
fn root() -> PathBuf {
    let here = here();
    here.ancestors().nth(2).map_or_else(|| here.clone(), PathBuf::from)
}

/// Where this tool's source is: as `cargo run` says, for a checkout may have been moved since it was compiled.
pub(crate) fn here() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}
