//! `airlock audit export`.

use std::{
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};

use airlock_audit::{
    PublicKey, SigningKey,
    export::{ExportError, Selection, dsse, jsonl, pipelock},
    verify::{Evidence, verify},
};
use airlock_config::environment;
use airlock_core::secret::SecretSource;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Name of the key that the gateway makes, in the directory of the log.
const OWN_KEY: &str = "key.pem";

/// Export a log in a format that other programs check
///
/// The log is verified first. Receipts of Pipelock and statements are signed by the key of the log, so this runs where
/// that key is.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock audit export audit --format pipelock > receipts.jsonl\n  airlock audit export audit --format dsse --run run_0190a8c2 > run.dsse.json"
)]
pub(super) struct ExportArgs {
    /// Directory of the log.
    #[arg(value_name = "DIR")]
    log: PathBuf,
    /// Format of the export.
    #[arg(long, value_enum)]
    format: ExportFormat,
    /// Identifier of a run: only its lines.
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// The private key of the log, if it is not in its directory: `env:NAME` or `file:PATH`.
    #[arg(long, value_name = "SOURCE")]
    signing_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
    /// The lines as they are.
    Jsonl,
    /// Action receipts of Pipelock, version 1, for pipelock-verify.
    Pipelock,
    /// A statement of in-toto about one run, in a DSSE envelope.
    Dsse,
}

pub(super) fn run(args: &ExportArgs) -> anyhow::Result<CommandOutcome> {
    let report = verify(&args.log, &Evidence::default())?;
    if let Some(finding) = report.findings.first() {
        bail!("the log is not as it was signed, so it is not exported: {finding}");
    }
    let public = report.keys.last().context("the log has no key")?;
    match written(args, public) {
        Ok(()) => Ok(CommandOutcome::Success),
        Err(error) => match error.downcast_ref() {
            Some(ExportError::Write(cause)) if cause.kind() == io::ErrorKind::BrokenPipe => {
                Err(output::StdoutClosed.into())
            }
            _ => Err(error),
        },
    }
}

fn written(args: &ExportArgs, public: &PublicKey) -> anyhow::Result<()> {
    let selection = Selection { run: args.run.clone() };
    let mut out = BufWriter::new(io::stdout().lock());
    match args.format {
        ExportFormat::Jsonl => jsonl(&args.log, &selection, &mut out)?,
        ExportFormat::Pipelock => {
            let key = signing_key(args, public)?;
            pipelock(&args.log, &selection, &key, public.name(), &mut out)?;
        }
        ExportFormat::Dsse => {
            let run =
                args.run.as_deref().context("a statement is about one run: name it by --run")?;
            let envelope = dsse(&args.log, run, &signing_key(args, public)?, public)?;
            writeln!(out, "{envelope:#}").map_err(ExportError::Write)?;
        }
    }
    Ok(out.flush().map_err(ExportError::Write)?)
}

/// Reads the private key of the log.
fn signing_key(args: &ExportArgs, public: &PublicKey) -> anyhow::Result<SigningKey> {
    let source = match &args.signing_key {
        Some(source) => SecretSource::parse(source, Path::new(""))
            .map_err(|bad| anyhow::anyhow!("--signing-key {bad}"))?,
        None => SecretSource::File(args.log.join(OWN_KEY)),
    };
    let key = match &source {
        SecretSource::File(path) => SigningKey::read(path)?,
        SecretSource::Env(_) => {
            let secret = source.read(&environment).context("the key of the log cannot be read")?;
            let key = SigningKey::parse(secret.expose());
            key.map_err(|bad| anyhow::anyhow!("the key in {source} {bad}"))?
        }
    };
    ensure!(
        key.public(public.name()) == *public,
        "the key in {source} is not the one that signs the log, {public}"
    );
    Ok(key)
}
