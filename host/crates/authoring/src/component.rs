//! A component under inspection: read, compiled, and asked for its tools with everything denied.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;

use crate::cli::session;
use airlock_config::{Config, environment};
use airlock_core::tool::ClientName;
use airlock_plugin::{Metadata, compiling, read_component};
use airlock_sandbox::{
    self as sandbox, Compiling, Grants, HostResources, Limits, LoadError, Plugin, Sandbox,
};

/// A component and its metadata, which is known without running it.
pub(super) struct Component {
    pub(super) path: PathBuf,
    pub(super) bytes: Arc<[u8]>,
    pub(super) metadata: Metadata,
}

/// A component compiled to native code, with nothing granted.
pub(super) struct Compiled {
    pub(super) plugin: Plugin,
    /// Time that compilation took; `None` if the native code came from the cache.
    pub(super) took: Option<Duration>,
}

impl Component {
    pub(super) async fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes: Arc<[u8]> = read_component(path).await?.into();
        let metadata = Metadata::of(&bytes)
            .with_context(|| format!("{} cannot be used as a plugin", path.display()))?;
        Ok(Self { path: path.to_owned(), bytes, metadata })
    }

    /// Reads a component with its tools, even if its build did not embed them.
    pub(super) async fn read_with_tools(path: &Path) -> anyhow::Result<Self> {
        let mut component = Self::read(path).await?;
        if !component.embeds_tools()? {
            let compiled = component.compile().await?;
            component.learn(&compiled).await?;
        }
        Ok(component)
    }

    /// Returns whether its build embedded its tools. Always false for a component without the
    /// contract: [`Metadata::of`] refuses one that embeds tools.
    pub(super) fn embeds_tools(&self) -> Result<bool, LoadError> {
        Ok(sandbox::embedded_tools(&self.bytes)?.is_some())
    }

    /// Returns whether it exports no Airlock contract, so that its functions are the tools.
    pub(super) fn is_plain(&self) -> Result<bool, LoadError> {
        Ok(sandbox::contract_version(&self.bytes)?.is_none())
    }

    /// Records the tools as the gateway will offer them: the embedded ones, else those that the
    /// component describes when asked, else the functions of a plain component.
    pub(super) async fn learn(&mut self, compiled: &Compiled) -> Result<(), LoadError> {
        let tools = compiled.plugin.definitions(&self.bytes).await?;
        let Metadata { manifest, imports, .. } = self.metadata.clone();
        self.metadata = Metadata::new(&self.bytes, tools, manifest, imports);
        Ok(())
    }

    pub(super) async fn compile(&self) -> Result<Compiled, LoadError> {
        compile(&self.path, &self.bytes).await
    }
}

/// Compiles a component, or takes it from the cache of native code, and links it with everything
/// denied.
pub(super) async fn compile(path: &Path, bytes: &Arc<[u8]>) -> Result<Compiled, LoadError> {
    compile_with(path, bytes, session::compiler()).await
}

/// Compiles and links a component as [`compile`] does, but in this process: it was built from sources
/// of this machine a moment ago. Functions that did not change since the last build are not compiled
/// again.
pub(super) async fn compile_built(path: &Path, bytes: &Arc<[u8]>) -> Result<Compiled, LoadError> {
    let compiling = Compiling { reuses_functions: true, ..Compiling::in_process() };
    compile_with(path, bytes, compiling).await
}

async fn compile_with(
    path: &Path,
    bytes: &Arc<[u8]>,
    settings: Compiling,
) -> Result<Compiled, LoadError> {
    // An empty configuration names the cache for compiled code; nothing else in it matters here.
    let config =
        Config::parse("{}", "", &environment).map_err(|error| LoadError::Compile(error.into()))?;
    let sandbox = Sandbox::new(&sandbox::Settings { compiling: settings, ..config.sandbox })?;
    let is_compiled = sandbox.is_compiled(bytes);
    let client = ClientName::parse("plugin").expect("a constant that fits");
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let started = Instant::now();
    let load = sandbox.plugin(
        &client,
        bytes.clone(),
        Grants::default(),
        Limits::PLUGIN,
        HostResources::default(),
    );
    let plugin = compiling(&indicatif::MultiProgress::new(), &name, bytes, load).await?;
    Ok(Compiled { plugin, took: (!is_compiled).then(|| started.elapsed()) })
}
