//! A component under inspection: read, compiled, and asked for its tools with everything denied.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use airlock_compile::{CompileError, Compiling};
use airlock_config::{Config, environment};
use airlock_core::tool::ClientName;
use airlock_plugin::{
    CompileHook, ComponentSource, Metadata, MetadataError, compiling, read_component,
};
use airlock_sandbox::{self as sandbox, Grants, HostResources, Limits, LoadError, Plugin, Sandbox};
use airlock_store::components::ComponentDigest;

/// A component and its metadata, which is known without running it.
pub struct Component {
    /// Its file.
    pub path: PathBuf,
    /// Content of the file.
    pub bytes: Arc<[u8]>,
    /// Its manifest, tools and imports.
    pub metadata: Metadata,
}

/// A component compiled to native code, with nothing granted.
pub struct Compiled {
    /// The compiled component.
    pub plugin: Plugin,
    /// Time that compilation took; `None` if the native code came from the cache.
    pub took: Option<Duration>,
}

/// Reason that a component cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// The component cannot be read, compiled, or asked for its tools.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The metadata cannot be read.
    #[error("{path} cannot be used as a plugin")]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: MetadataError,
    },
    /// The component is in the store of gateways, and not in a file.
    #[error("the component {0} is in the store of gateways, which the management API shows")]
    Stored(ComponentDigest),
}

impl Component {
    /// Reads a component and its metadata.
    pub async fn read(path: &Path) -> Result<Self, ComponentError> {
        let bytes: Arc<[u8]> = read_component(path).await?.into();
        let path = path.to_owned();
        match Metadata::of(&bytes) {
            Ok(metadata) => Ok(Self { path, bytes, metadata }),
            Err(source) => Err(ComponentError::Metadata { path, source }),
        }
    }

    /// Reads a component with its tools. If its build did not embed them, it is compiled, which
    /// `on_compile` may show.
    pub async fn read_with_tools(
        path: &Path,
        on_compile: &CompileHook,
    ) -> Result<Self, ComponentError> {
        let mut component = Self::read(path).await?;
        if !component.embeds_tools()? {
            let compiled = component.compile(on_compile).await?;
            component.learn(&compiled).await?;
        }
        Ok(component)
    }

    /// Reads the component of a configured plugin, as [`Self::read_with_tools`] does.
    pub async fn read_source(
        source: &ComponentSource,
        on_compile: &CompileHook,
    ) -> Result<Self, ComponentError> {
        match source {
            ComponentSource::File(path) => Self::read_with_tools(path, on_compile).await,
            ComponentSource::Stored(digest) => Err(ComponentError::Stored(*digest)),
        }
    }

    /// Returns whether its build embedded its tools. Always false for a component without the
    /// contract: [`Metadata::of`] refuses one that embeds tools.
    pub fn embeds_tools(&self) -> Result<bool, LoadError> {
        Ok(sandbox::embedded_tools(&self.bytes)?.is_some())
    }

    /// Returns whether it exports no Airlock contract, so that its functions are the tools.
    pub fn is_plain(&self) -> Result<bool, LoadError> {
        Ok(sandbox::contract_version(&self.bytes)?.is_none())
    }

    /// Records the tools as the gateway will offer them: the embedded ones, else those that the
    /// component describes when asked, else the functions of a plain component.
    pub async fn learn(&mut self, compiled: &Compiled) -> Result<(), LoadError> {
        let tools = compiled.plugin.definitions(&self.bytes).await?;
        let Metadata { manifest, imports, .. } = self.metadata.clone();
        self.metadata = Metadata::new(&self.bytes, tools, manifest, imports);
        Ok(())
    }

    /// Compiles it, or takes it from the cache of native code, and links it with everything denied.
    pub async fn compile(&self, on_compile: &CompileHook) -> Result<Compiled, LoadError> {
        compile(&self.path, &self.bytes, on_compile).await
    }
}

/// Compiles a component, or takes it from the cache of native code, and links it with everything
/// denied.
pub(crate) async fn compile(
    path: &Path,
    bytes: &Arc<[u8]>,
    on_compile: &CompileHook,
) -> Result<Compiled, LoadError> {
    compile_with(path, bytes, Compiling::in_child(), on_compile).await
}

/// Compiles and links a component as [`compile`] does, but in this process: it was built from sources
/// of this machine a moment ago. Functions that did not change since the last build are not compiled
/// again.
pub(crate) async fn compile_built(
    path: &Path,
    bytes: &Arc<[u8]>,
    on_compile: &CompileHook,
) -> Result<Compiled, LoadError> {
    let compiling = Compiling::InProcess { reuses_functions: true };
    compile_with(path, bytes, compiling, on_compile).await
}

async fn compile_with(
    path: &Path,
    bytes: &Arc<[u8]>,
    settings: Compiling,
    on_compile: &CompileHook,
) -> Result<Compiled, LoadError> {
    // An empty configuration names the cache for compiled code; nothing else in it matters here.
    let config = Config::parse("{}", "", &environment)
        .map_err(|error| CompileError::Failed(error.into()))?;
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
    let plugin = compiling(Some(on_compile), &name, bytes, load).await?;
    Ok(Compiled { plugin, took: (!is_compiled).then(|| started.elapsed()) })
}
