//! The container of a server: found, created, started, and removed after its last session.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Weak},
    time::Duration,
};

use bollard::{
    models::{
        ContainerCreateBody, ContainerInspectResponse, HostConfig, HostConfigLogConfig,
        Mount as ApiMount, MountType,
    },
    query_parameters::{
        CreateContainerOptions, CreateImageOptions, ListContainersOptions, RemoveContainerOptions,
    },
};
use futures_util::TryStreamExt as _;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{
    runtime::Handle,
    sync::{OwnedRwLockReadGuard, RwLock},
    time::{Instant, sleep},
};
use tracing::{info, warn};

use super::{
    super::settings::{Docker, Image, Mount, Place},
    engine::{Engine, TIMEOUT, ask, ask_within},
    error::DockerError,
};
use airlock_core::tool::ClientName;
use airlock_strings::{hex, with_causes};

/// Label with the name of the client to which a container belongs.
const CLIENT_LABEL: &str = "airlock.client";
/// Label with the digest of the settings from which a container was created.
const CONFIG_LABEL: &str = "airlock.config";
/// Digits of the digest in the name of a container.
const NAME_DIGITS: usize = 12;
/// Time limit for pulling an image.
const PULL_TIMEOUT: Duration = Duration::from_mins(10);
/// Interval of requests for a container that is being created.
const CREATE_POLL: Duration = Duration::from_millis(20);
/// Maximum sessions of a container that are looked at, each with a request to the daemon. With
/// more of them, the container is left as it is.
const MAX_SESSIONS: usize = 64;
/// `/tmp` of a container whose file system cannot be written.
const TMP_OPTIONS: &str = "rw,nosuid,nodev,size=64m,mode=1777";

/// Containers by name that sessions are being started in, or that are being removed.
static GATES: LazyLock<Mutex<HashMap<String, Weak<RwLock<()>>>>> = LazyLock::new(Mutex::default);

/// Returns the gate of a container. It is held for reading while a session is started, and for writing
/// while the last session is looked for and the container removed: a session that begins between the two
/// would be killed with it.
fn gate(name: &str) -> Arc<RwLock<()>> {
    let mut gates = GATES.lock();
    gates.retain(|_, gate| gate.strong_count() > 0);
    if let Some(gate) = gates.get(name).and_then(Weak::upgrade) {
        return gate;
    }
    let gate = Arc::default();
    gates.insert(name.to_owned(), Arc::downgrade(&gate));
    gate
}

/// A container, which the daemon knows by its identifier and by its name.
#[derive(Clone)]
struct Container {
    engine: Engine,
    id: String,
    name: String,
}

/// Use of a container by one session. Dropping it releases the container without waiting.
pub(super) struct ContainerLease {
    container: Container,
    /// True if the gateway created the container.
    is_own: bool,
    /// True if the gateway removes the container after the last session.
    is_removed: bool,
    is_released: bool,
    /// Keeps the container until the session has started; `None` from then on, and for one of the
    /// operator.
    starting: Option<OwnedRwLockReadGuard<()>>,
}

impl ContainerLease {
    /// Returns the container of a server. One of the gateway is created and started if needed, and
    /// containers from earlier settings that no session uses are removed.
    pub(super) async fn take(
        engine: &Engine,
        settings: &Docker,
        client: &ClientName,
    ) -> Result<Self, DockerError> {
        let (is_own, is_removed) = match &settings.place {
            Place::Existing(_) => (false, false),
            Place::Own(image) => (true, !image.keep),
        };
        let (container, name, starting) = match &settings.place {
            Place::Existing(name) => (existing(engine, name).await?, name.clone(), None),
            Place::Own(image) => {
                let (container, name, starting) = Box::pin(ensure(engine, image, client)).await?;
                (container, name, Some(starting))
            }
        };
        let id = container.id.unwrap_or_else(|| name.clone());
        let container = Container { engine: engine.clone(), id, name };
        Ok(Self { container, is_own, is_removed, is_released: false, starting })
    }

    /// Records that the session has started.
    pub(super) fn started(&mut self) {
        self.starting = None;
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.container.engine
    }

    pub(super) fn id(&self) -> &str {
        &self.container.id
    }

    pub(super) fn name(&self) -> &str {
        &self.container.name
    }

    /// Returns the reason that the container is not running, although it was.
    pub(super) async fn stopped(&self) -> DockerError {
        let Container { engine, id, name } = &self.container;
        let name = name.clone();
        if !self.is_own {
            return DockerError::NotRunning { name };
        }
        match inspect(engine, id).await {
            Ok(Some(container)) => DockerError::Ended { name, code: exit_code(&container) },
            Ok(None) => DockerError::NoContainer { name },
            Err(error) => error,
        }
    }

    /// Removes the container at once, with all its processes, if it is the gateway's own and has no
    /// other session than `session`. Otherwise returns the lease.
    pub(super) async fn remove_if_last(mut self, session: &str) -> Option<Self> {
        self.starting = None;
        let _alone = gate(&self.container.name).write_owned().await;
        if !self.is_removed || !self.container.has_only(Some(session)).await {
            return Some(self);
        }
        self.is_released = true;
        self.container.remove().await;
        None
    }

    /// Removes the container if it is the gateway's own and no session is left.
    pub(super) async fn release(mut self) {
        self.starting = None;
        self.is_released = true;
        if self.is_removed {
            self.container.release().await;
        }
    }
}

impl Drop for ContainerLease {
    fn drop(&mut self) {
        if self.is_removed
            && !self.is_released
            && let Ok(runtime) = Handle::try_current()
        {
            let container = self.container.clone();
            // It ends within the time limits of three requests.
            runtime.spawn(async move { container.release().await });
        }
    }
}

impl Container {
    /// Removes the container if no session runs in it.
    async fn release(&self) {
        let _alone = gate(&self.name).write_owned().await;
        if self.has_only(None).await {
            self.remove().await;
        }
    }

    async fn remove(&self) {
        let Self { engine, id, name } = self;
        let options = RemoveContainerOptions { force: true, v: true, link: false };
        let removing = engine.api().remove_container(id, Some(options));
        match ask("remove a container", removing).await {
            Ok(()) => info!(container = name, "container removed"),
            // Another session has just done the same.
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            Err(error) => {
                warn!(container = name, error = with_causes(&error), "container not removed");
            }
        }
    }

    /// Returns whether the container has no running session besides `session`. Returns false if that
    /// is not known.
    async fn has_only(&self, session: Option<&str>) -> bool {
        let Ok(Some(found)) = inspect(&self.engine, &self.id).await else { return false };
        let sessions = found.exec_ids.unwrap_or_default();
        if sessions.len() > MAX_SESSIONS {
            return false;
        }
        for other in sessions.iter().filter(|id| Some(id.as_str()) != session) {
            let inspecting = self.engine.api().inspect_exec(other);
            match ask("describe a session", inspecting).await {
                Ok(state) if state.running == Some(false) => {}
                Err(error) if error.is_not_found() => {}
                _ => return false,
            }
        }
        true
    }
}

/// Returns a container; `None` if there is none.
async fn inspect(
    engine: &Engine,
    name: &str,
) -> Result<Option<ContainerInspectResponse>, DockerError> {
    match ask("describe a container", engine.api().inspect_container(name, None)).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_running(container: &ContainerInspectResponse) -> bool {
    container.state.as_ref().and_then(|state| state.running).unwrap_or(false)
}

fn exit_code(container: &ContainerInspectResponse) -> i64 {
    container.state.as_ref().and_then(|state| state.exit_code).unwrap_or_default()
}

async fn existing(engine: &Engine, name: &str) -> Result<ContainerInspectResponse, DockerError> {
    let found = inspect(engine, name).await?;
    let found = found.ok_or_else(|| DockerError::NoContainer { name: name.to_owned() })?;
    if is_running(&found) {
        Ok(found)
    } else {
        Err(DockerError::NotRunning { name: name.to_owned() })
    }
}

/// Returns the gateway's own container for these settings, running, its name, and what keeps it.
async fn ensure(
    engine: &Engine,
    image: &Image,
    client: &ClientName,
) -> Result<(ContainerInspectResponse, String, OwnedRwLockReadGuard<()>), DockerError> {
    let body = body(image, client, &image_id(engine, image).await?);
    let digest = label(&body, CONFIG_LABEL).to_owned();
    remove_outdated(engine, client, &digest).await?;
    let name = format!("airlock-{client}-{}", &digest[..NAME_DIGITS]);
    let starting = gate(&name).read_owned().await;
    let found = match inspect(engine, &name).await? {
        Some(found) => found,
        None => Box::pin(create(engine, &name, body)).await?,
    };
    let labels = found.config.as_ref().and_then(|config| config.labels.as_ref());
    if labels.and_then(|labels| labels.get(CONFIG_LABEL)) != Some(&digest) {
        return Err(DockerError::Foreign { name });
    }
    if is_running(&found) {
        return Ok((found, name, starting));
    }
    ask("start a container", engine.api().start_container(&name, None)).await?;
    let started = inspect(engine, &name).await?;
    let started = started.ok_or_else(|| DockerError::NoContainer { name: name.clone() })?;
    if is_running(&started) {
        return Ok((started, name, starting));
    }
    let code = exit_code(&started);
    Err(DockerError::Ended { name, code })
}

async fn create(
    engine: &Engine,
    name: &str,
    body: ContainerCreateBody,
) -> Result<ContainerInspectResponse, DockerError> {
    let options = CreateContainerOptions { name: Some(name.to_owned()), platform: String::new() };
    match ask("create a container", engine.api().create_container(Some(options), body)).await {
        Ok(_) => info!(container = name, "container created"),
        // Another session has just created it.
        Err(error) if error.is_conflict() => {}
        Err(error) => return Err(error),
    }
    created(engine, name, TIMEOUT).await
}

/// Returns a container that this session or another one creates. Waits for at most `limit`: the
/// daemon reserves a name when the request to create it arrives, and describes the container once it
/// is created. Fails if there is none by then.
async fn created(
    engine: &Engine,
    name: &str,
    limit: Duration,
) -> Result<ContainerInspectResponse, DockerError> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(created) = inspect(engine, name).await? {
            return Ok(created);
        }
        if Instant::now() >= deadline {
            return Err(DockerError::NoContainer { name: name.to_owned() });
        }
        sleep(CREATE_POLL).await;
    }
}

/// Removes the containers of this client that were created from other settings and have no running
/// session.
async fn remove_outdated(
    engine: &Engine,
    client: &ClientName,
    digest: &str,
) -> Result<(), DockerError> {
    let filter = HashMap::from([("label".to_owned(), vec![format!("{CLIENT_LABEL}={client}")])]);
    let options = ListContainersOptions { all: true, filters: Some(filter), ..Default::default() };
    let found = ask("list containers", engine.api().list_containers(Some(options))).await?;
    for container in found {
        let config = container.labels.as_ref().and_then(|labels| labels.get(CONFIG_LABEL));
        let is_outdated = config.is_some_and(|config| config != digest);
        if let Some(id) = container.id.filter(|_| is_outdated) {
            Container { engine: engine.clone(), name: id.clone(), id }.release().await;
        }
    }
    Ok(())
}

/// Returns the identifier of the image, which changes with its contents. Pulls the image if it is
/// missing and may be pulled.
async fn image_id(engine: &Engine, image: &Image) -> Result<String, DockerError> {
    match ask("describe an image", engine.api().inspect_image(&image.name)).await {
        Ok(found) => return found.id.ok_or_else(|| no_image(image)),
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    if !image.pull {
        return Err(no_image(image));
    }
    info!(image = image.name, "pulling an image");
    let options = CreateImageOptions {
        from_image: Some(with_tag(&image.name)),
        ..CreateImageOptions::default()
    };
    let pulled = engine.api().create_image(Some(options), None, None);
    let pulled = pulled.try_for_each(|_| async { Ok(()) });
    ask_within(PULL_TIMEOUT, "pull an image", pulled).await?;
    let found = ask("describe an image", engine.api().inspect_image(&image.name)).await?;
    found.id.ok_or_else(|| no_image(image))
}

fn no_image(image: &Image) -> DockerError {
    DockerError::NoImage { image: image.name.clone() }
}

/// Returns the name with a tag. Without one, the daemon would pull all tags.
fn with_tag(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

/// Returns the description of a container of the gateway. It has no secrets: the server's variables
/// are those of the session.
fn body(image: &Image, client: &ClientName, image_id: &str) -> ContainerCreateBody {
    let host = HostConfig {
        network_mode: Some(image.network.clone()),
        memory: Some(signed(image.memory_bytes)),
        // As much as `memory`: no swap.
        memory_swap: Some(signed(image.memory_bytes)),
        nano_cpus: image.nano_cpus.map(signed),
        pids_limit: Some(signed(image.pids)),
        readonly_rootfs: Some(image.read_only),
        tmpfs: image.read_only.then(|| HashMap::from([("/tmp".into(), TMP_OPTIONS.into())])),
        cap_drop: Some(vec!["ALL".into()]),
        security_opt: Some(vec!["no-new-privileges".into()]),
        mounts: Some(image.mounts.iter().map(mount).collect()),
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        ..HostConfig::default()
    };
    let mut body = ContainerCreateBody {
        image: Some(image.name.clone()),
        entrypoint: Some(image.main.clone()),
        cmd: Some(Vec::new()),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    };
    // The maps have one entry at most, so the text is the same every time.
    let text = serde_json::to_string(&body).unwrap_or_default();
    let digest = hex(&Sha256::digest(format!("{image_id}\n{client}\n{text}")));
    body.labels = Some(HashMap::from([
        (CLIENT_LABEL.to_owned(), client.to_string()),
        (CONFIG_LABEL.to_owned(), digest),
    ]));
    body
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn mount(mount: &Mount) -> ApiMount {
    ApiMount {
        source: Some(mount.source.to_string_lossy().into_owned()),
        target: Some(mount.target.clone()),
        typ: Some(MountType::BIND),
        read_only: Some(mount.read_only),
        ..ApiMount::default()
    }
}

fn label<'b>(body: &'b ContainerCreateBody, name: &str) -> &'b str {
    let value = body.labels.as_ref().and_then(|labels| labels.get(name));
    value.map(String::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
