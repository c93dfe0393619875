//! `airlock precompile`: compiles what a gateway would compile at its first start.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context as _;

use airlock_authoring::Component;
use airlock_compile::{CodeCache, CompileHook, Compiling, compiling};
use airlock_config::{Config, environment};
use airlock_core::door::ScriptLanguage;
use airlock_executors::EmbeddedExecutor;
use airlock_sandbox::{self as sandbox, Limits, Sandbox};
use airlock_strings::visible_line;
use airlock_terminal::{outcome::CommandOutcome, output, spinner};

/// Compile the executors of scripts, and plugins, for this machine
///
/// A gateway compiles them at its first start, and keeps the code in `$AIRLOCK_CACHE_DIR`, or else in the user's cache
/// directory. This command does it before, for example while a package is installed or an image is built. Run it as the
/// user of the gateway and with its environment: code that another user has compiled is not loaded. What is in the cache
/// already is not compiled again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  AIRLOCK_CACHE_DIR=/var/cache/airlock airlock precompile /usr/lib/airlock/plugins/*.wasm"
)]
pub(super) struct PrecompileArgs {
    /// Components of plugins and guards.
    #[arg(value_name = "COMPONENT")]
    components: Vec<PathBuf>,
}

pub(super) async fn run(args: &PrecompileArgs) -> anyhow::Result<CommandOutcome> {
    // An empty configuration names the cache for compiled code.
    let mut settings = Config::parse("{}", "", &environment)?.sandbox;
    let cache = settings.cache.as_deref();
    let cache = cache.context("there is no place for compiled code: set AIRLOCK_CACHE_DIR")?;
    CodeCache::open(cache)
        .with_context(|| format!("{} cannot keep compiled code", cache.display()))?;
    settings.compiling = Compiling::in_child();
    let sandbox = Sandbox::new(&settings)?;
    for language in ScriptLanguage::ALL {
        executor(&sandbox, language).await?;
    }
    for path in &args.components {
        let component = Component::read(path).await?;
        let name = visible_line(&path.display().to_string());
        if sandbox::is_guard(&component.bytes)? {
            guard(&sandbox, &name, component.bytes).await?;
        } else {
            component.compile(&spinner::compiling).await?;
        }
        output::line(&format!("compiled {name}"))?;
    }
    Ok(CommandOutcome::Success)
}

/// Compiles a guard.
async fn guard(sandbox: &Sandbox, name: &str, wasm: Arc<[u8]>) -> anyhow::Result<()> {
    let load = sandbox.guard(wasm.clone(), Limits::PLUGIN, "{}".into());
    let on_compile: &CompileHook = &spinner::compiling;
    compiling(Some(on_compile), name, &wasm, load).await?;
    Ok(())
}

/// Compiles the executor of a language, if it is part of this build.
async fn executor(sandbox: &Sandbox, language: ScriptLanguage) -> anyhow::Result<()> {
    let embedded = airlock_executors::executor(language);
    let Some(EmbeddedExecutor { wasm, sha256 }) = embedded else { return Ok(()) };
    let name = format!("the executor of {}", language.name());
    let load = sandbox.executor(wasm, sha256);
    let on_compile: &CompileHook = &spinner::compiling;
    compiling(Some(on_compile), &name, wasm, load).await?;
    output::line(&format!("compiled {name}"))
}
