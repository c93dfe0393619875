//! `airlock plugin push`.

use std::path::PathBuf;

use anyhow::Context as _;

use super::place::NetworkOptions;
use airlock_authoring::{Component, signature_path};
use airlock_registry::{Artifact, Reference};
use airlock_terminal::{outcome::CommandOutcome, output, spinner::Spinner};

/// Push a plugin to a registry
///
/// Pushes a component as an OCI artifact of the CNCF's layout for WebAssembly, which other tools read too. If
/// there is a signature beside the component, as `minisign -S -m FILE` writes it, it becomes an annotation
/// of the artifact. The credential is that of `docker login`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin push weather.wasm oci://ghcr.io/acme/weather:1.2\n  minisign -S -m weather.wasm && airlock plugin push weather.wasm oci://ghcr.io/acme/weather:1.2"
)]
pub(super) struct PushArgs {
    /// The component.
    file: PathBuf,
    /// The artifact: `oci://HOST/NAME:TAG`.
    #[arg(value_name = "REFERENCE")]
    reference: Reference,
    #[command(flatten)]
    network: NetworkOptions,
}

pub(super) async fn run(args: &PushArgs) -> anyhow::Result<CommandOutcome> {
    let PushArgs { file, reference, network } = args;
    anyhow::ensure!(
        reference.is_tag(),
        "{reference} names a digest, and that of the artifact is known only when it is made: name a tag"
    );
    let component = Component::read(file).await?;
    let exports = airlock_compile::exports(&component.bytes)?;
    let artifact = Artifact {
        component: &component.bytes,
        imports: &component.metadata.imports,
        exports: &exports,
        signature: component.origin.signature.as_deref(),
    };
    let spinner = Spinner::begin(format!("pushing {reference}"));
    let mut registry = network.registry(reference.clone())?;
    let pushed = Box::pin(registry.push(&artifact)).await;
    let digest = pushed.with_context(|| format!("{reference} cannot be pushed"))?;
    drop(spinner);
    output::line(&format!("pushed {reference}"))?;
    output::line(&format!("       {}", reference.at(digest)))?;
    let beside = signature_path(file);
    output::hint(&match artifact.signature {
        Some(_) => format!("with the signature in {}", beside.display()),
        None => format!("not signed: there is no {}", beside.display()),
    });
    Ok(CommandOutcome::Success)
}
