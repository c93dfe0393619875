//! A component under inspection: read, compiled, and asked for its tools with everything denied.

use std::{
    ffi::OsString,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::file::replace;
use airlock_compile::{CompileError, CompileHook, Compiling, compiling};
use airlock_config::{Config, environment};
use airlock_core::{regular_file, tool::ClientName};
use airlock_lock::Pin;
use airlock_plugin::{
    ComponentSource, MAX_SIGNATURE_BYTES, Metadata, MetadataError, Publishers, SignatureError,
    read_component,
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
    /// Its place and its signature.
    pub origin: Origin,
}

/// Place that a component was fetched from, and its signature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The place, as the lock file records it; `None` for a file.
    pub source: Option<String>,
    /// Text of its signature. It may be of anyone.
    pub signature: Option<String>,
    /// Publisher whose signature was checked.
    pub publisher: Option<String>,
}

/// A component compiled to native code, with nothing granted.
pub struct CompiledComponent {
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
    /// The signature beside the component cannot be read or written.
    #[error("{path} cannot be used as a signature")]
    Signature {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The component is in the store of gateways, and not in a file.
    #[error("the component {0} is in the store of gateways, which the management API shows")]
    Stored(ComponentDigest),
}

impl Component {
    /// Reads a component and its metadata, with the signature in the file beside it.
    pub async fn read(path: &Path) -> Result<Self, ComponentError> {
        let bytes = read_component(path).await?;
        let signature = read_signature(path)?;
        Self::new(path.to_owned(), bytes, Origin { signature, ..Origin::default() })
    }

    /// Reads the metadata of a component that was fetched. `path` names it, and is not read.
    pub fn new(path: PathBuf, bytes: Vec<u8>, origin: Origin) -> Result<Self, ComponentError> {
        match Metadata::read(&bytes) {
            Ok(metadata) => Ok(Self { path, bytes: bytes.into(), metadata, origin }),
            Err(source) => Err(ComponentError::Metadata { path, source }),
        }
    }

    /// Checks its signature, and records the publisher. Fails if these publishers do not permit it.
    pub fn authenticate(&mut self, publishers: &Publishers) -> Result<(), SignatureError> {
        let signature = self.origin.signature.as_deref();
        self.origin.publisher = publishers.publisher(&self.bytes, signature)?.map(str::to_owned);
        Ok(())
    }

    /// Returns the state that the lock file records if it is accepted as it is now.
    pub fn pin(&self, client: &ClientName) -> Pin {
        let Origin { source, publisher, .. } = self.origin.clone();
        Pin { source, publisher, ..self.metadata.pin(client) }
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
    /// contract: [`Metadata::read`] refuses one that embeds tools.
    pub fn embeds_tools(&self) -> Result<bool, LoadError> {
        Ok(sandbox::embedded_tools(&self.bytes)?.is_some())
    }

    /// Returns whether it exports no Airlock contract, so that its functions are the tools.
    pub fn is_plain(&self) -> Result<bool, LoadError> {
        Ok(sandbox::contract_version(&self.bytes)?.is_none())
    }

    /// Records the tools as the gateway will offer them: the embedded ones, else those that the
    /// component describes when asked, else the functions of a plain component.
    pub async fn learn(&mut self, compiled: &CompiledComponent) -> Result<(), LoadError> {
        let tools = compiled.plugin.definitions(&self.bytes).await?;
        let Metadata { manifest, imports, .. } = self.metadata.clone();
        self.metadata = Metadata::new(&self.bytes, tools, manifest, imports);
        Ok(())
    }

    /// Compiles it, or takes it from the cache of native code, and links it with everything denied.
    pub async fn compile(&self, on_compile: &CompileHook) -> Result<CompiledComponent, LoadError> {
        compile(&self.path, &self.bytes, on_compile).await
    }
}

/// Returns the path of the signature of a component: its own, with `.minisig` after it.
pub fn signature_path(component: &Path) -> PathBuf {
    let mut path = OsString::from(component);
    path.push(".minisig");
    path.into()
}

/// Reads the signature beside a component; `None` if there is none.
fn read_signature(component: &Path) -> Result<Option<String>, ComponentError> {
    let path = signature_path(component);
    let mut text = String::new();
    let read = regular_file::open(&path)
        .and_then(|file| file.take(MAX_SIGNATURE_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ComponentError::Signature { path, source }),
    }
}

/// Writes the signature beside a component, or removes that of an earlier one.
pub(crate) fn write_signature(
    component: &Path,
    signature: Option<&str>,
) -> Result<(), ComponentError> {
    let path = signature_path(component);
    let written = match signature {
        Some(text) => replace(&path, text.as_bytes()),
        None => match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        },
    };
    written.map_err(|source| ComponentError::Signature { path, source })
}

/// Compiles a component, or takes it from the cache of native code, and links it with everything
/// denied.
pub(crate) async fn compile(
    path: &Path,
    bytes: &Arc<[u8]>,
    on_compile: &CompileHook,
) -> Result<CompiledComponent, LoadError> {
    compile_with(path, bytes, Compiling::in_child(), on_compile).await
}

/// Compiles and links a component as [`compile`] does, but in this process: it was built from sources
/// of this machine a moment ago. Functions that did not change since the last build are not compiled
/// again.
pub(crate) async fn compile_built(
    path: &Path,
    bytes: &Arc<[u8]>,
    on_compile: &CompileHook,
) -> Result<CompiledComponent, LoadError> {
    let compiling = Compiling::InProcess { reuses_functions: true };
    compile_with(path, bytes, compiling, on_compile).await
}

async fn compile_with(
    path: &Path,
    bytes: &Arc<[u8]>,
    settings: Compiling,
    on_compile: &CompileHook,
) -> Result<CompiledComponent, LoadError> {
    let sandbox = sandbox_with(settings)?;
    let is_compiled = sandbox.is_compiled(bytes);
    let client = ClientName::parse("plugin").expect("a constant that fits");
    let started = Instant::now();
    let load = sandbox.plugin(
        &client,
        bytes.clone(),
        Grants::default(),
        Limits::PLUGIN,
        HostResources::default(),
    );
    let plugin = compiling(Some(on_compile), &file_name(path), bytes, load).await?;
    Ok(CompiledComponent { plugin, took: (!is_compiled).then(|| started.elapsed()) })
}

/// Compiles a guard, or takes it from the cache of native code, and links it. Fails if it imports anything. It has no
/// settings yet, so it is not asked about them.
pub(crate) async fn load_guard(
    path: &Path,
    bytes: &Arc<[u8]>,
    on_compile: &CompileHook,
) -> Result<(), LoadError> {
    let sandbox = sandbox_with(Compiling::in_child())?;
    let load = sandbox.guard(bytes.clone(), Limits::PLUGIN, "{}".into());
    compiling(Some(on_compile), &file_name(path), bytes, load).await.map(drop)
}

fn sandbox_with(compiling: Compiling) -> Result<Sandbox, LoadError> {
    // An empty configuration names the cache for compiled code; nothing else in it matters here.
    let config = Config::parse("{}", "", &environment)
        .map_err(|error| CompileError::Failed(error.into()))?;
    Sandbox::new(&sandbox::Settings { compiling, ..config.sandbox })
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
