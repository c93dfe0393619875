//! `airlock plugin pull`.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};

use super::place::{ComponentPlace, NetworkOptions, show_origin};
use airlock_authoring::signature_path;
use airlock_registry::Reference;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Pull a plugin from a registry
///
/// Writes the component to a file, and its signature beside it, with `.minisig` after the name. Everything
/// is compared with its digest; the signature is not checked before it is installed. Nothing is granted.
/// The credential is that of `docker login`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin pull oci://ghcr.io/acme/weather:1.2\n  airlock plugin pull oci://localhost:5000/weather:1 -o w.wasm"
)]
pub(super) struct PullArgs {
    /// The artifact: `oci://HOST/NAME:TAG` or `oci://HOST/NAME@sha256:DIGEST`.
    #[arg(value_name = "REFERENCE")]
    reference: Reference,
    /// The file to write. Neither it nor a signature beside it may exist. Default: the last part of the name, with
    /// `.wasm` after it.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkOptions,
}

pub(super) async fn run(args: &PullArgs) -> anyhow::Result<CommandOutcome> {
    let place = ComponentPlace::Artifact(args.reference.clone());
    let (component, _) = place.read(&args.network).await?;
    let file = args.output.clone().unwrap_or_else(|| component.path.clone());
    let beside = signature_path(&file);
    ensure!(
        fs::symlink_metadata(&beside).is_err(),
        "{} exists already, and stays as it is; `-o FILE` writes another file",
        beside.display()
    );
    write_new(&file, &component.bytes)?;
    if let Some(signature) = &component.origin.signature {
        write_new(&beside, signature.as_bytes())?;
    }
    show_origin(&component.origin)?;
    output::line(&format!("wrote {}", file.display()))?;
    Ok(CommandOutcome::Success)
}

/// Writes a file that does not exist yet. A symbolic link is not followed.
fn write_new(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let name = file.display();
    match File::create_new(file) {
        Ok(mut created) => {
            created.write_all(bytes).with_context(|| format!("{name} cannot be written"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{name} exists already, and stays as it is; `-o FILE` writes another file")
        }
        Err(error) => Err(error).with_context(|| format!("{name} cannot be created")),
    }
}
