//! A plugin: compiled and linked once, instantiated for every call.

mod rights;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use airlock_core::{
    door::{Admitted, Provider},
    tenant::Tenant,
    tool::{CallError, ClientName, ToolDefinition, ToolName, ToolOutput},
};
use airlock_egress::Outlet;
use airlock_store::Database;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tracing::{debug, warn};
use wasmtime::component::{Component, Linker};

use self::rights::{Rights, ToolRights};
use crate::{
    Access, Directory, Grants, HostResources, Limits, LoadError, OffLimits, Sandbox,
    contract::{self, ToolGuest},
    imports::{self, log::LogRate},
    load::section,
    run::{
        admission::Share,
        circuit::Circuit,
        instance::{Call, Guest, State},
    },
    schemas::{Schemas, Tools},
    uses::CallRecorder,
    wasi::{self, Mounts, Wasi},
};

/// Limits on a plugin that describes its tools, which it does with everything denied.
const DESCRIBE: Limits = Limits {
    fuel: 100_000_000,
    cpu: std::time::Duration::from_secs(1),
    deadline: std::time::Duration::from_secs(5),
    host_calls: 100,
    ..Limits::PLUGIN
};

/// A compiled and linked plugin with its grants.
pub struct Plugin {
    sandbox: Sandbox,
    client: ClientName,
    guest: Box<dyn ToolGuest>,
    schemas: Schemas,
    circuit: Circuit,
    /// Share from which its calls get slots.
    share: Share,
    /// Rate limit on the log lines of its calls.
    log: Arc<LogRate>,
    limits: Limits,
    rights: Rights,
    database: Option<Database>,
    /// Directories of the whole grant, which the tools share.
    mounts: Mounts,
    native_bytes: usize,
}

/// Builds the linker of the plugins' world: the host's interfaces, and WASI, which denies
/// everything that was not granted.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasi::link(&mut linker)?;
    imports::wasi_http::link(&mut linker)?;
    contract::link(&mut linker)?;
    Ok(linker)
}

impl Plugin {
    pub(crate) fn new(
        sandbox: Sandbox,
        client: ClientName,
        component: &Component,
        wasm: &[u8],
        grants: &Grants,
        limits: Limits,
        host: HostResources,
    ) -> Result<Self, LoadError> {
        let guest = contract::open(sandbox.plugin_linker(), component, wasm)?;
        let off_limits = sandbox.off_limits();
        for directory in &grants.directories {
            check_directory(directory, &off_limits)?;
        }
        let mounts = Mounts::new(grants).map_err(|error| LoadError::Directory {
            path: std::env::temp_dir(),
            reason: format!("no place for scratch directories: {error}"),
        })?;
        let native = component.image_range();
        Ok(Self {
            circuit: Circuit::new(client.clone(), &limits),
            share: sandbox.share(),
            log: Arc::default(),
            rights: Rights::new(&client, grants, &host),
            sandbox,
            client,
            guest,
            schemas: Schemas::default(),
            limits,
            database: host.database,
            mounts,
            native_bytes: native.end.addr() - native.start.addr(),
        })
    }

    /// Returns the size of the compiled image, in bytes: the native code with all that belongs to
    /// it. The image is mapped once, however many instances there are.
    pub fn native_bytes(&self) -> usize {
        self.native_bytes
    }

    /// Returns the plugin's tools: from the section that its build embedded, or else from one call
    /// of the guest with everything denied. A plain component has no such section; its tools are
    /// listed without running it.
    pub async fn definitions(&self, wasm: &[u8]) -> Result<Vec<ToolDefinition>, LoadError> {
        if !self.guest.embeds_descriptors() {
            return self.describe().await;
        }
        if let Some(section) = section::find(wasm)? {
            return section::parse(section);
        }
        debug!(plugin = %self.client, "no tool descriptors are embedded; asking the plugin");
        self.describe().await
    }

    /// Sets the tools that this plugin runs, and compiles their schemas. Returns the plugin and its
    /// tools.
    pub async fn with_tools(
        mut self,
        definitions: Vec<ToolDefinition>,
    ) -> Result<(Self, Tools), LoadError> {
        let compiled = tokio::task::spawn_blocking(move || Schemas::compile(definitions)).await;
        let (schemas, tools) = compiled.map_err(|panic| LoadError::Descriptors(panic.into()))?;
        self.schemas = schemas;
        Ok((self, tools))
    }

    /// Returns the tools that the component itself reports, with everything denied. Descriptors
    /// that its build embedded are ignored.
    pub async fn describe(&self) -> Result<Vec<ToolDefinition>, LoadError> {
        let name = ToolName::new(&self.client, "describe");
        let call = Call::denied(name, self.as_guest(), DESCRIBE);
        let slot = self
            .share
            .wait_for_slot(&Tenant::GATEWAY, 1, None)
            .await
            .map_err(|_| LoadError::Describe(CallError::busy()))?;
        let described =
            self.sandbox.run(slot, call, async |store| self.guest.describe(store).await).await;
        described.map_err(LoadError::Describe)?.map_err(LoadError::RefusedToDescribe)
    }

    /// Returns the guest as its calls name it.
    fn as_guest(&self) -> Guest {
        Guest::Plugin(self.client.clone(), self.log.clone())
    }

    async fn invoke(&self, call: Admitted) -> Result<ToolOutput, CallError> {
        let tool = call.tool();
        let tenant = call.chain().tenant();
        let schemas = &self.schemas;
        schemas.check_arguments(&tool.original, &tool.name, tenant, call.arguments()).await?;
        let permit = self.circuit.permit(call.chain().tenant(), &tool.name)?;
        let result = self.run(call).await;
        permit.end(&result);
        result
    }

    async fn run(&self, call: Admitted) -> Result<ToolOutput, CallError> {
        let tool = call.tool().clone();
        let name = &tool.name;
        let arguments = call.arguments().as_str();
        let chain = call.chain();
        let ToolRights { grants, outlet, origin } = self.rights.of(&tool.original);
        let recorder =
            grants.recorder.as_ref().map(|recorder| recorder.of_call(&self.client, &tool.original));
        let slot = self
            .share
            .wait_for_slot(chain.tenant(), chain.depth(), Some(chain.deadline()))
            .await
            .map_err(|_| CallError::busy())?;
        let wasi = Wasi::granted(
            &self.client,
            chain.tenant(),
            grants,
            &self.mounts,
            self.sandbox.memory(),
            recorder.as_ref(),
        )
        .map_err(|cause| CallError::unavailable(name.clone(), cause))?;
        let guest_call = Call {
            tool: name.clone(),
            guest: self.as_guest(),
            chain: Some(chain.clone()),
            origin: origin.clone(),
            limits: self.limits,
            grants: grants.clone(),
            database: self.database.clone(),
            outlet: outlet.as_ref().map(|outlet| recorded(outlet, grants, recorder.as_ref())),
            wasi,
            recorder,
        };
        let answered = self
            .sandbox
            .run(slot, guest_call, async |store| {
                self.guest.invoke(store, &tool.original, arguments).await
            })
            .await?;
        let mut returned = answered.map_err(|mut error| {
            grants.scrubber.error(&mut error);
            CallError::from(error)
        })?;
        if grants.scrubber.output(&mut returned.output) {
            warn!(tool = %name, "a secret was redacted from a plugin's result");
        }
        if returned.output.size() > self.limits.result_bytes {
            return Err(CallError::result_too_large(name.clone(), self.limits.result_bytes));
        }
        let output = &mut returned.output;
        self.schemas.check_result(&tool.original, name, chain.tenant(), output).await?;
        Ok(returned.readable())
    }
}

impl Provider for Plugin {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(self.invoke(call))
    }

    fn status(&self) -> Map<String, Value> {
        Map::from_iter([("circuit".to_owned(), self.circuit.describe().into())])
    }
}

/// Returns the outlet for one call, which reports the requests to the call's recorder if there is
/// one.
fn recorded(outlet: &Outlet, grants: &Grants, recorder: Option<&CallRecorder>) -> Outlet {
    match recorder {
        Some(recorder) => outlet.observed(grants.destinations.clone(), Arc::new(recorder.clone())),
        None => outlet.clone(),
    }
}

/// Checks a granted directory at load and not at the first call. Fails if the directory does not
/// exist or must not be granted. A plugin that can write to the gateway's own files can run any
/// code in this process, or grant itself anything.
fn check_directory(directory: &Directory, off_limits: &OffLimits) -> Result<(), LoadError> {
    let path = directory
        .path
        .canonicalize()
        .map_err(|error| refused_directory(directory, error.to_string()))?;
    if !path.is_dir() {
        return Err(refused_directory(directory, "it is not a directory".into()));
    }
    if let Some(own) = off_limits.unreadable.iter().find(|own| overlaps(own, &path)) {
        return Err(refused_directory(
            directory,
            format!("{} belongs to the gateway; no plugin may read it", own.display()),
        ));
    }
    match off_limits.unwritable.iter().find(|own| overlaps(own, &path)) {
        Some(own) if directory.access == Access::ReadWrite => Err(refused_directory(
            directory,
            format!("{} belongs to the gateway; no plugin may write to it", own.display()),
        )),
        _ => Ok(()),
    }
}

fn refused_directory(directory: &Directory, reason: String) -> LoadError {
    LoadError::Directory { path: directory.path.clone(), reason }
}

/// Returns the path of a file with links resolved. The file itself need not exist.
fn resolved(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.canonicalize()
        .ok()
        .or_else(|| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)))
}

fn overlaps(own: &Path, path: &Path) -> bool {
    resolved(own).is_some_and(|own| own.starts_with(path) || path.starts_with(&own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quota;

    #[test]
    fn the_gateways_own_files_are_not_granted_to_plugins() {
        let home = tempfile::tempdir().expect("a directory");
        for directory in ["cache/below", "config", "data", "other"] {
            std::fs::create_dir_all(home.path().join(directory)).expect("a directory");
        }
        // Neither file exists yet.
        let off_limits = OffLimits {
            unwritable: vec![home.path().join("config/airlock.lock")],
            unreadable: vec![home.path().join("cache"), home.path().join("data/airlock.db")],
        };
        for hidden in [
            home.path().to_owned(),
            home.path().join("cache"),
            home.path().join("cache/below"),
            home.path().join("data"),
        ] {
            assert!(
                !is_granted(&off_limits, hidden.clone(), Access::ReadOnly)
                    && !is_granted(&off_limits, hidden.clone(), Access::ReadWrite),
                "{}",
                hidden.display()
            );
        }
        assert!(
            is_granted(&off_limits, home.path().join("config"), Access::ReadOnly)
                && !is_granted(&off_limits, home.path().join("config"), Access::ReadWrite)
        );
        assert!(is_granted(&off_limits, home.path().join("other"), Access::ReadWrite));
        std::os::unix::fs::symlink(home.path().join("config"), home.path().join("other/link"))
            .expect("a link");
        assert!(
            !is_granted(&off_limits, home.path().join("other/link"), Access::ReadWrite),
            "links are followed"
        );
        assert!(!is_granted(&off_limits, home.path().join("missing"), Access::ReadOnly));
    }

    fn is_granted(off_limits: &OffLimits, path: PathBuf, access: Access) -> bool {
        let quota = Quota { bytes: 1, files: 1 };
        check_directory(
            &Directory { name: "d".into(), request: "d".into(), path, access, quota },
            off_limits,
        )
        .is_ok()
    }
}
