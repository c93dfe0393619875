//! Checks that the files and the tools named by a configuration exist, and that its plugins could be
//! loaded and are pinned.

use std::path::Path;

use super::{
    callable::Callable,
    config::{Client, Config, Source},
};
use airlock_compile::{Compiling, imports};
use airlock_config_file::{
    environment::environment,
    error::{ConfigError, Problem},
    key_path::KeyPath,
    refused::NamedPart,
};
use airlock_core::{
    secret,
    tool::{ClientName, ToolDefinition},
};
use airlock_ingress::{BadTls, TlsSettings};
use airlock_lock::Lock;
use airlock_mcp_client::{Pinning, UnusableFile};
use airlock_model::{self as model, BadProvider, CloudCredential, Models, ServiceAccountKey};
use airlock_plugin::{
    self as plugin, Drift, Grant, Metadata, Reason, Rights, UnassignedStore, read_component,
};
use airlock_replicas::ReplicaTls;
use airlock_sandbox::{self as sandbox, LoadError, Sandbox};
use airlock_store::{Settings, kv};
use airlock_strings::{visible_line, with_causes};
use airlock_tls::BadIdentity;
use airlock_upstream as upstream;

impl Config {
    /// Checks every script, component and directory, that the grant of each plugin is what the plugin
    /// needs, and every tool that a plugin may call, as far as it is known. `origin` names the
    /// configuration file in the error. A gateway also starts without them; only the affected source
    /// fails.
    pub async fn check_files(&self, origin: &str) -> Result<(), ConfigError> {
        let mut problems = self.check_named_files().await;
        problems.extend(self.check_stores());
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ConfigError::Invalid { file: origin.to_owned(), problems })
        }
    }

    /// Checks what [`Self::check_files`] does, except for the database. Returns the problems.
    pub async fn check_named_files(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        problems.extend(self.server.tls.as_ref().and_then(check_tls));
        problems.extend(check_replica_tls(&self.server.replica_tls));
        for provider in &self.providers {
            problems.extend(check_provider(provider));
        }
        for (index, guard) in self.guards.iter().enumerate() {
            let key = KeyPath::parse("guards").element(index).member("component");
            problems.extend(check_guard(key, &guard.component).await);
        }
        let mut callable = Callable::new(self);
        for client in &self.clients {
            let plugin = match &client.source {
                Source::Plugin(plugin) => plugin,
                Source::Upstream(upstream) => {
                    let unusable = upstream.transport.check_files().into_iter();
                    let unusable = unusable.filter(|file| file.is_certain);
                    problems.extend(unusable.map(|file| unusable_file(&client.name, file)));
                    continue;
                }
            };
            let key = key_of_plugin(&client.name);
            problems.extend(check_plugin(&key, client.name.as_str(), plugin).await);
            problems.extend(check_grant(&key, &plugin.grant, &mut callable));
        }
        problems
    }

    /// Compiles the guards, and asks each whether it accepts its settings. Returns the problems that
    /// [`Self::check_named_files`] does not return.
    pub async fn check_guards(&self, compiling: Compiling) -> Vec<Problem> {
        if self.guards.is_empty() {
            return Vec::new();
        }
        let guards = KeyPath::parse("guards");
        let settings = sandbox::Settings {
            instances_per_depth: 1,
            depths: 1,
            compiling,
            ..self.sandbox.clone()
        };
        let sandbox = match Sandbox::new(&settings) {
            Ok(sandbox) => sandbox,
            Err(error) => return vec![Problem { key: guards, message: with_causes(&error) }],
        };
        let mut problems = Vec::new();
        for (index, guard) in self.guards.iter().enumerate() {
            let key = guards.element(index);
            if check_guard(key.member("component"), &guard.component).await.is_none()
                && let Err(error) = airlock_guards::check(guard, &sandbox).await
            {
                let key = key.member(airlock_guards::faulty_key(&error));
                problems.push(Problem { key, message: visible_line(&with_causes(&error)) });
            }
        }
        problems
    }

    /// Returns what a gateway starts with and what may still be a mistake: clients of which no tool is
    /// offered, names in `tools_to_execute` that no tool of a plugin has, commands of MCP servers that are not in
    /// the `PATH` of this process, and what [`Self::unmatched_sinks`] returns. Blocks.
    pub fn warnings(&self) -> Vec<Problem> {
        let mut warnings = Vec::new();
        let tls = self.server.tls.as_ref().and_then(|tls| tls.check().ok());
        warnings.extend(tls.into_iter().flatten().map(|untimely| Problem {
            key: KeyPath::parse("server.tls").member(untimely.key()),
            message: untimely.to_string(),
        }));
        let mut callable = Callable::new(self);
        for client in &self.clients {
            let Client { name, policy, source, .. } = client;
            warnings.extend(callable.unknown(client, &policy.execute).map(|message| Problem {
                key: key_of_client(name).member("tools_to_execute"),
                message,
            }));
            if policy.execute.is_empty() {
                let key = key_of_client(name).member("tools_to_execute");
                let message = "is empty, so none of its tools is offered".to_owned();
                warnings.push(Problem { key, message });
            }
            if policy.exclude.covers_all() {
                let key = key_of_client(name).member("tools_to_exclude");
                let message = "takes all tools away, so none of its tools is offered".to_owned();
                warnings.push(Problem { key, message });
            }
            if let Source::Upstream(upstream) = source {
                let files = upstream.transport.check_files().into_iter();
                let uncertain = files.filter(|file| !file.is_certain).map(|mut file| {
                    file.message
                        .push_str("; a gateway that is started with another PATH may find it");
                    unusable_file(name, file)
                });
                warnings.extend(uncertain);
            }
        }
        warnings.extend(self.unmatched_sinks());
        warnings
    }

    /// Checks that every entry in a store of a plugin has a holder. Does not make or change the
    /// database. Blocks.
    pub fn check_stores(&self) -> Vec<Problem> {
        let usage = match kv::usage(&Settings::at(self.store.clone())) {
            Ok(usage) => usage,
            Err(error) => {
                let key = KeyPath::default().member("store");
                return vec![Problem { key, message: with_causes(&error) }];
            }
        };
        let problems = self.plugins().flat_map(|(name, plugin)| {
            let key = key_of_plugin(name).member("grants").member("kv");
            let stores = UnassignedStore::find(name, &plugin.grant, &usage).into_iter();
            stores.map(move |found| Problem { key: key.clone(), message: found.to_string() })
        });
        problems.collect()
    }

    /// Checks the directories and the tools that the grant of a plugin names, as
    /// [`Self::check_files`] does, for a plugin whose component need not be at its path yet: `tools`
    /// are its tools. The keys are those in `wasm_config`.
    pub fn check_grant(&self, client: &ClientName, tools: &[ToolDefinition]) -> Vec<Problem> {
        let Some(plugin) = self.plugin(client) else { return Vec::new() };
        let mut callable = Callable::new(self);
        if let Some(component) = plugin.component.file() {
            callable.add(component, tools);
        }
        check_grant(&KeyPath::default(), &plugin.grant, &mut callable)
    }

    /// Checks that the lock file permits every plugin whose component can be read, as the gateway does
    /// when it loads the plugin. `remedy` returns the commands that show and accept a difference.
    pub async fn check_pins(&self, remedy: impl Fn(&Drift) -> String) -> Vec<Problem> {
        let Some(path) = &self.lock else { return Vec::new() };
        let lock = match Lock::load_of_plugins(path) {
            Ok(Some(lock)) => lock,
            Ok(None) => return self.without_publisher(),
            Err(error) => return vec![Problem::of_file(with_causes(&error))],
        };
        let mut problems = Vec::new();
        for Client { name, policy, source, .. } in &self.clients {
            let Source::Plugin(plugin) = source else { continue };
            let Some(component) = plugin.component.file() else { continue };
            let Ok(wasm) = read_component(component).await else { continue };
            let Ok(metadata) = Metadata::read(&wasm) else { continue };
            let drift = Drift::between(&lock, name, &metadata, &plugin.grant, policy);
            let reason = if let Some(drift) = drift.filter(Drift::is_of_component) {
                Some(format!("{}; {}", drift.summary(), remedy(&drift)))
            } else {
                let unsigned = self.publishers.check_pin(lock.pin(name)).err();
                unsigned.map(|error| error.to_string())
            };
            problems.extend(reason.map(|reason| not_loaded(name, &reason)));
        }
        problems
    }

    /// Returns the problems of plugins of files without a lock file, if a signature is required.
    fn without_publisher(&self) -> Vec<Problem> {
        let Err(error) = self.publishers.check_pin(None) else { return Vec::new() };
        let of_files = self.plugins().filter(|(_, plugin)| plugin.component.file().is_some());
        of_files.map(|(name, _)| not_loaded(name, &error.to_string())).collect()
    }

    /// Checks that the definitions of every MCP server in the lock file can be used. A file that cannot
    /// be read is reported by [`Self::check_pins`].
    pub fn check_accepted(&self) -> Vec<Problem> {
        let lock = self.lock.as_deref().and_then(|path| Lock::load(path).ok().flatten());
        let Some(lock) = lock else { return Vec::new() };
        self.clients.iter().filter_map(|client| defect(client, &lock)).collect()
    }

    /// Returns the full names of the tools that the components of the plugins embed. Tools of MCP
    /// servers, and of plugins that embed none, are not known before the gateway runs.
    pub fn embedded_tools(&self) -> Vec<String> {
        Callable::new(self).known()
    }

    /// Returns the plugins that no lock file pins: any component at their paths is loaded. Uploaded ones
    /// are pinned in the store. Empty if a lock file lists plugins, because plugins that are not in it are
    /// refused, and for a configuration that was not loaded from a file, because it has no place for one.
    pub fn unpinned(&self) -> Vec<ClientName> {
        // A lock file that cannot be read is no missing one: the gateway refuses all plugins.
        let lock = self.lock.as_deref().map(Lock::load_of_plugins);
        if !matches!(lock, Some(Ok(None))) {
            return Vec::new();
        }
        let of_files = self.plugins().filter(|(_, plugin)| plugin.component.file().is_some());
        of_files.map(|(name, _)| name.clone()).collect()
    }
}

fn not_loaded(plugin: &ClientName, reason: &str) -> Problem {
    let message = visible_line(&format!("the gateway does not load it, because {reason}"));
    Problem { key: key_of_plugin(plugin).member("component"), message }
}

/// Returns the key of the `wasm_config` of a plugin.
fn key_of_plugin(client: &ClientName) -> KeyPath {
    key_of_client(client).member("wasm_config")
}

fn key_of_client(client: &ClientName) -> KeyPath {
    NamedPart::Clients.key().named(client.as_str())
}

/// Checks the files of a provider, and that it can be set up.
fn check_provider(provider: &model::Settings) -> Option<Problem> {
    let key = KeyPath::default().member("providers").member(&provider.name);
    let (member, path) = match &provider.kind {
        model::Kind::Scripted { script } => ("script", Some(script)),
        model::Kind::Service(service) => ("ca", service.ca.as_ref()),
    };
    let member = key.member(member);
    let absent = path.and_then(|path| missing(member.clone(), path, Path::is_file, "file"));
    absent.or_else(|| missing_service_account(provider, &key)).or_else(|| {
        // Its fallbacks are other providers.
        let alone = model::Settings { fallbacks: Vec::new(), ..provider.clone() };
        let error = Models::new(&[alone]).err()?;
        let key = match &error {
            BadProvider::ServiceAccount { .. } => key.member("keys"),
            BadProvider::Identity { cause: BadIdentity::Certificate(_), .. } => {
                key.member("client_certificate")
            }
            BadProvider::Identity { cause: BadIdentity::Key(_), .. } => key.member("client_key"),
            _ if path.is_some() => member,
            _ => key,
        };
        Some(Problem { key, message: with_causes(&error) })
    })
}

/// Returns the problem of a service account whose file does not exist.
fn missing_service_account(provider: &model::Settings, key: &KeyPath) -> Option<Problem> {
    let model::Kind::Service(service) = &provider.kind else { return None };
    service.keys.iter().find_map(|own| match &own.cloud {
        Some(CloudCredential::ServiceAccount(ServiceAccountKey::File(path))) => {
            missing(key.member("keys").named(&own.name), path, Path::is_file, "file")
        }
        _ => None,
    })
}

/// Checks the component of a guard, as far as that is possible without running it.
async fn check_guard(key: KeyPath, component: &Path) -> Option<Problem> {
    let absent = missing(key.clone(), component, Path::is_file, "file");
    if absent.is_some() {
        return absent;
    }
    let wasm = read_component(component).await;
    let refused = match wasm.and_then(|wasm| Ok(imports(&wasm)?)) {
        Ok(names) if names.is_empty() => return None,
        Ok(names) => LoadError::GuardImports { names: names.into_iter().take(5).collect() },
        Err(error) => error,
    };
    Some(Problem { key, message: visible_line(&with_causes(&refused)) })
}

async fn check_plugin(key: &KeyPath, client: &str, plugin: &plugin::Settings) -> Vec<Problem> {
    // A gateway checks one in the store when it reads it.
    let Some(component) = plugin.component.file() else { return Vec::new() };
    match missing(key.member("component"), component, Path::is_file, "file") {
        Some(problem) => vec![problem],
        None => refusal(key, client, component, &plugin.grant).await,
    }
}

/// Checks the directories and the tools that a grant names. `key` is that of `wasm_config`.
fn check_grant<'c>(key: &KeyPath, grant: &'c Grant, callable: &mut Callable<'c>) -> Vec<Problem> {
    let grants = key.member("grants");
    let directories = grant.files.iter().filter_map(|(name, directory)| {
        let key = grants.member("files").member(name).member("path");
        missing(key, &directory.path, Path::is_dir, "directory")
    });
    directories.chain(callable.problems(&grants, grant)).collect()
}

/// Returns the reasons for which the gateway would not load a plugin. The component is not run.
async fn refusal(key: &KeyPath, client: &str, component: &Path, grant: &Grant) -> Vec<Problem> {
    let wasm = match read_component(component).await {
        Ok(wasm) => wasm,
        Err(error) => return vec![unusable(key, &error)],
    };
    if sandbox::is_guard(&wasm).unwrap_or(false) {
        return vec![unusable(key, &LoadError::GuardAsPlugin)];
    }
    let manifest = match Metadata::read(&wasm) {
        Ok(metadata) => metadata.manifest,
        Err(error) => return vec![unusable(key, &error)],
    };
    let rights = Rights::intersect(manifest.as_ref(), grant, &|source: &secret::SecretSource| {
        source.read(&environment)
    });
    let reasons = rights.err().into_iter().flat_map(|refusal| refusal.reasons);
    let problems = reasons.map(|reason| match &reason {
        Reason::NoValue { secret, error } => Problem {
            key: key.member("grants").member("secret").member(secret).member("from"),
            message: format!(
                "the secret {secret:?} of the plugin {client} has no value, so that the plugin is not loaded: {error}"
            ),
        },
        _ => Problem { key: key.clone(), message: visible_line(&reason.to_string()) },
    });
    problems.collect()
}

fn defect(client: &Client, lock: &Lock) -> Option<Problem> {
    let Source::Upstream(settings) = &client.source else { return None };
    if settings.pin == Pinning::Off {
        return None;
    }
    let defect = upstream::pins::defect(lock, &client.name)?;
    let message = format!("no tool of the server is offered: {defect}");
    Some(Problem { key: key_of_client(&client.name), message })
}

/// Checks the files of the listener's TLS.
fn check_tls(tls: &TlsSettings) -> Option<Problem> {
    let key = KeyPath::parse("server.tls");
    let files = [("certificate", Some(&tls.certificate)), ("key", Some(&tls.key))];
    let lists = tls.client_crl.iter().map(|path| ("client_crl", Some(path)));
    let files = files.into_iter().chain([("client_ca", tls.client_ca.as_ref())]).chain(lists);
    let mut absent =
        files.filter_map(|(name, path)| missing(key.member(name), path?, Path::is_file, "file"));
    absent.next().or_else(|| {
        let BadTls { key: name, problem } = tls.check().err()?;
        Some(Problem { key: key.member(name), message: with_causes(&problem) })
    })
}

/// Checks the files of the gateways for each other.
fn check_replica_tls(tls: &ReplicaTls) -> Option<Problem> {
    if *tls == ReplicaTls::default() {
        return None;
    }
    let error = tls.check().err()?;
    Some(Problem { key: KeyPath::parse("server.replica_tls"), message: with_causes(&error) })
}

fn unusable_file(client: &ClientName, file: UnusableFile) -> Problem {
    let key = key_of_client(client).join(&KeyPath::parse(&file.key));
    Problem { key, message: file.message }
}

fn unusable(key: &KeyPath, error: &(dyn std::error::Error + 'static)) -> Problem {
    Problem { key: key.member("component"), message: with_causes(error) }
}

fn missing(key: KeyPath, path: &Path, is_there: fn(&Path) -> bool, what: &str) -> Option<Problem> {
    (!is_there(path))
        .then(|| Problem { key, message: format!("there is no {what} {}", path.display()) })
}
