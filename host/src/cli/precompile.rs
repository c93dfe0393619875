//! `airlock precompile`: compiles what a gateway would compile at its first start.

use std::path::PathBuf;

use anyhow::Context as _;

use airlock_authoring::Component;
use airlock_compile::{CodeCache, CompileHook, Compiling, compiling};
use airlock_config::{Config, environment};
use airlock_core::door::ScriptLanguage;
use airlock_executors::EmbeddedExecutor;
use airlock_sandbox::{self as sandbox, Limits, LoadError, Sandbox};
use airlock_strings::visible_line;
use airlock_terminal::{outcome::CommandOutcome, output, spinner};

/// Compile the executors of scripts, and plugins, for this machine
///
/// A gateway compiles them at its first start, and keeps the code in `$AIRLOCK_CACHE_DIR`, or else in the user's cache
/// directory. This command does it before, for example while a package is installed or an image is built. Run it as the
/// user of the gateway and with its environment: code that another user has compiled is not loaded. What is in the cache
/// already is not compiled again, and its line says so.
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
        let is_new = if sandbox::is_guard(&component.bytes)? {
            let load = sandbox.guard(component.bytes.clone(), Limits::PLUGIN, "{}".into());
            load_counted(&sandbox, &name, &component.bytes, load).await?
        } else {
            component.compile(&spinner::compiling).await?.took.is_some()
        };
        output::line(&line(&name, is_new))?;
    }
    Ok(CommandOutcome::Success)
}

/// Compiles the executor of a language, if it is part of this build.
async fn executor(sandbox: &Sandbox, language: ScriptLanguage) -> anyhow::Result<()> {
    let embedded = airlock_executors::executor(language);
    let Some(EmbeddedExecutor { wasm, sha256 }) = embedded else { return Ok(()) };
    let name = format!("the executor of {}", language.name());
    let is_new = load_counted(sandbox, &name, wasm, sandbox.executor(wasm, sha256)).await?;
    output::line(&line(&name, is_new))
}

/// Awaits `load`, which compiles `wasm` if it is not in the cache. Returns whether it was compiled.
async fn load_counted<T>(
    sandbox: &Sandbox,
    name: &str,
    wasm: &[u8],
    load: impl Future<Output = Result<T, LoadError>>,
) -> anyhow::Result<bool> {
    let before = sandbox.compile_totals().compiled;
    let on_compile: &CompileHook = &spinner::compiling;
    compiling(Some(on_compile), name, wasm, load).await?;
    Ok(sandbox.compile_totals().compiled > before)
}

/// Returns the line about a component.
fn line(name: &str, is_new: bool) -> String {
    if is_new { format!("compiled {name}") } else { format!("in the cache already: {name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_component_tells_whether_it_was_compiled() {
        assert_eq!(line("a.wasm", true), "compiled a.wasm");
        assert_eq!(line("a.wasm", false), "in the cache already: a.wasm");
    }
}
