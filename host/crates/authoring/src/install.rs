//! Installs a plugin: decides which rights it gets, compares it with the plugin that holds its name,
//! and writes the configuration, the lock and the component.
//!
//! An [`Installation`] is a component beside a configuration. [`Installation::plan`] decides it with the
//! operator's [`InstallOptions`] and writes nothing. A plan without obstacles can be
//! [installed](Installation::install). For one with obstacles, an [`InstallProposal`] has the options
//! that remove them. Obstacles and notes name the options of `airlock plugin install`.

mod accepted;
mod changes;
mod document;
mod grant;
mod obstacle;
mod plan;
mod proposal;
mod written;

use std::path::{Path, PathBuf};

use airlock_compile::CompileHook;
use airlock_config::Config;
use airlock_core::tool::{BadClientName, ClientName};
use airlock_lock::Lock;
use airlock_plugin::{Configured, Publishers, Request, Requests};

pub use self::{
    accepted::{AcceptError, AcceptedPlugins, ComparedPlugin},
    document::{ConfigDocument, DocumentError, entry_key},
    grant::{BadGrantOption, GrantOption},
    obstacle::Obstacle,
    plan::{InstallOptions, InstallPlan},
    proposal::InstallProposal,
    written::WrittenKeys,
};

use crate::{Component, ComponentError, component::write_signature};

/// A component, and the configuration that it is to be installed in.
pub struct Installation<'a> {
    /// The component.
    pub component: &'a Component,
    /// Its name in the configuration.
    pub name: ClientName,
    document: ConfigDocument,
    accepted: AcceptedPlugins,
    /// State of the plugin that holds the name; `None` if the name is free.
    holder: Option<Lock>,
    publishers: Publishers,
}

/// An installed plugin.
pub struct Installed {
    /// Path of the component's copy.
    pub file: PathBuf,
    /// Other plugins that were pinned as they are, because there was no lock file: a lock without them
    /// would keep them from loading.
    pub pinned: Vec<ClientName>,
    /// Other plugins that will not be loaded because they cannot be pinned, each with the reason.
    pub unpinned: Vec<(ClientName, String)>,
    /// Another name under which the same plugin is installed.
    pub twin: Option<ClientName>,
}

/// Reason that a plugin is not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The configuration cannot be changed.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The accepted state of the plugins is unknown or cannot be changed.
    #[error(transparent)]
    Accepted(#[from] AcceptError),
    /// The signature of the component cannot be kept beside it.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// The chosen name is invalid.
    #[error("--name: {problem}{}", .valid.as_ref().map(|name| format!("; try --name {name}")).unwrap_or_default())]
    Name {
        /// The defect.
        problem: BadClientName,
        /// The nearest valid name.
        valid: Option<String>,
    },
    /// The plugin's own name is not valid in a configuration.
    #[error(
        "the plugin's own name cannot be that of a client: {problem}; choose one, such as --name {}",
        .valid.as_deref().unwrap_or("NAME")
    )]
    OwnName {
        /// The defect.
        problem: BadClientName,
        /// The nearest valid name.
        valid: Option<String>,
    },
    /// A plugin is to be replaced, and none has the name.
    #[error(
        "--replace: nothing is installed as \"{name}\"; installed: {known}{}",
        .same.as_ref().map(|other| format!("; {other} is this plugin: --name {other}")).unwrap_or_default()
    )]
    NothingToReplace {
        /// The name.
        name: ClientName,
        /// The names of the installed plugins.
        known: String,
        /// Name under which this plugin is installed.
        same: Option<ClientName>,
    },
    /// The options do not permit or provide everything, or make the configuration invalid.
    #[error("{}", list(.name, .reasons))]
    Refused {
        /// The plugin's name in the configuration.
        name: ClientName,
        /// All reasons.
        reasons: Vec<String>,
    },
    /// No tool has a description, so that no model would see one.
    #[error(
        "{name} is not installed, and nothing was changed: none of its tools has a description"
    )]
    Undescribed {
        /// The plugin's name in the configuration.
        name: ClientName,
        /// Its tools; none if it has none.
        tools: Vec<String>,
    },
}

fn list(name: &ClientName, reasons: &[String]) -> String {
    let head = format!("{name} is not installed, and nothing was changed:");
    [&[head], reasons].concat().join("\n  ")
}

impl<'a> Installation<'a> {
    /// Reads the configuration and its lock. Writes nothing, so that an unreadable file leaves
    /// everything as it was. `name` is the operator's choice; without one, the plugin gets its own.
    /// `on_compile` may show that the plugin which holds the name is compiled.
    pub async fn open(
        component: &'a Component,
        name: Option<&str>,
        config: &Path,
        on_compile: &CompileHook,
    ) -> Result<Self, InstallError> {
        let name = match name {
            None => component.client_name()?,
            Some(name) => ClientName::parse(name)
                .map_err(|problem| InstallError::Name { problem, valid: valid_name(name) })?,
        };
        let document = ConfigDocument::open(config)?;
        let Config { clients, publishers, .. } = document.config()?;
        let accepted = AcceptedPlugins::read(&clients, config)?;
        let holder = accepted.holder(&name, on_compile).await;
        Ok(Self { component, name, document, accepted, holder, publishers })
    }

    /// Returns the path of the lock file.
    pub fn lock_file(&self) -> &Path {
        &self.accepted.path
    }

    /// Returns the id of the accepted plugin that holds the name; `None` without a manifest.
    pub fn holder_id(&self) -> Option<&str> {
        self.holder.as_ref()?.pin(&self.name)?.id.as_deref()
    }

    /// Returns the full names of the tools that installed plugins embed.
    pub fn known_tools(&self) -> Result<Vec<String>, DocumentError> {
        Ok(self.document.config()?.embedded_tools())
    }

    fn requests(&self) -> Option<&Requests> {
        self.component.metadata.manifest.as_ref().map(|manifest| &manifest.request)
    }

    /// Returns the request of this name.
    fn request(&self, name: &str) -> Option<Request<'_>> {
        self.requests()?.named(name)
    }

    /// Returns whether a grant is for the request of this name.
    fn is_for(&self, grant: &GrantOption, name: &str) -> bool {
        let request = self.requests().zip(self.request(name));
        request.is_some_and(|(requests, request)| grant.is_for(request, requests))
    }

    /// Returns another name under which the same plugin is installed.
    fn twin(&self) -> Option<ClientName> {
        self.accepted.with_id(self.component.metadata.id()?, &self.name).cloned()
    }

    /// Copies the component to `plugins/` beside the configuration, pins it, and writes the planned
    /// configuration. Fails without a change if the plan has an obstacle, no tool is described, or the configuration or
    /// the lock file has changed since it was read.
    pub async fn install(
        mut self,
        plan: &InstallPlan,
        on_compile: &CompileHook,
    ) -> Result<Installed, InstallError> {
        let name = self.name.clone();
        if !plan.obstacles.is_empty() {
            let reasons = plan.obstacles.iter().map(Obstacle::to_string).collect();
            return Err(InstallError::Refused { name, reasons });
        }
        if plan.undescribed.len() == self.component.metadata.tools.len() {
            return Err(InstallError::Undescribed { name, tools: plan.undescribed.clone() });
        }
        let (pinned, unpinned) = self.pin(on_compile).await?;
        let file = self.accepted.path.with_file_name("plugins").join(format!("{name}.wasm"));
        let component = document::stage(&file, &self.component.bytes)?;
        let config = plan.document.stage()?;
        // The last step that fails because of another writer, and the first one that changes something.
        self.accepted.save()?;
        document::put(component)?;
        // So that `airlock plugin accept` finds it.
        write_signature(&file, self.component.origin.signature.as_deref())?;
        document::put(config)?;
        Ok(Installed { file, pinned, unpinned, twin: self.twin() })
    }

    /// Adds the component to the accepted ones, and the other plugins too if this creates the lock. Returns
    /// those, and those that cannot be read. Writes nothing.
    async fn pin(
        &mut self,
        on_compile: &CompileHook,
    ) -> Result<(Vec<ClientName>, Vec<(ClientName, String)>), AcceptError> {
        let accepted = &mut self.accepted;
        let pin = accepted.next_pin(&self.name, self.component);
        accepted.lock.accept(pin);
        let mut pinned = Vec::new();
        let mut unpinned = Vec::new();
        let all = if accepted.is_new { accepted.select(&[])? } else { Vec::new() };
        let others = all.into_iter().filter(|plugin| plugin.client != self.name);
        for Configured { client, settings, .. } in others {
            match Component::read_source(&settings.component, on_compile).await {
                Ok(mut other) => match other.authenticate(&self.publishers) {
                    Ok(()) => {
                        accepted.lock.accept(other.pin(&client));
                        pinned.push(client);
                    }
                    Err(error) => unpinned.push((client, error.to_string())),
                },
                Err(error) => unpinned.push((client, error.to_string())),
            }
        }
        Ok((pinned, unpinned))
    }
}

impl Component {
    /// Returns the name that it gets in a configuration unless the operator chooses one: the manifest's
    /// id, else the stem of the file name, with `_` in place of `-` and `.`.
    pub fn client_name(&self) -> Result<ClientName, InstallError> {
        let own = match self.metadata.id() {
            Some(id) => id.to_owned(),
            None => self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        };
        ClientName::parse(&own.replace(['-', '.'], "_"))
            .map_err(|problem| InstallError::OwnName { problem, valid: valid_name(&own) })
    }
}

/// Returns the valid name that is nearest to a text; `None` if the text has no character of a name.
fn valid_name(text: &str) -> Option<String> {
    let begins_badly = !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let start = if begins_badly { "_" } else { "" };
    let fit = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let name: String = start.chars().chain(fit).take(32).collect();
    let has_fit = text.contains(|c: char| c.is_ascii_alphanumeric());
    (has_fit && ClientName::parse(&name).is_ok()).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;
    use crate::{Origin, manifest_with};
    use airlock_plugin::{Change, Metadata};

    /// Returns a component that requires the clocks and has one tool with this description.
    fn component(description: &str) -> Component {
        let request = json!({"clocks": {"reason": "Dates."}});
        let manifest = manifest_with(&json!({"id": "date-er", "request": request}));
        let tools = json!([{"name": "today", "description": description, "inputSchema": {}}]);
        let tools = serde_json::from_value(tools).expect("definitions");
        let metadata = Metadata::new(b"code", tools, Some(manifest), Vec::new());
        let bytes = b"code".as_slice().into();
        Component { path: "d.wasm".into(), bytes, metadata, origin: Origin::default() }
    }

    async fn opened<'a>(component: &'a Component, config: &Path) -> Installation<'a> {
        let opened = Installation::open(component, None, config, &|_| panic!("no other plugin"));
        opened.await.expect("there is no configuration yet")
    }

    #[tokio::test]
    async fn a_proposed_installation_has_no_obstacle_and_writes_component_configuration_and_lock() {
        let home = tempfile::tempdir().expect("a directory");
        let config = home.path().join("airlock.json");
        let component = component("Returns the date.");
        let installation = opened(&component, &config).await;
        let none = InstallOptions::default();
        let plan = installation.plan(&none).expect("a valid configuration");
        let text = "clocks is required and not granted".to_owned();
        assert_eq!(plan.obstacles, [Obstacle::NotGranted { request: "clocks".to_owned(), text }]);
        let proposal = InstallProposal::new(&installation, &none, &plan).expect("a proposal");
        assert!(proposal.installs && proposal.is_other && proposal.choices.is_empty());
        assert_eq!(proposal.options.grants, [GrantOption::Clocks]);

        let plan = installation.plan(&proposal.options).expect("a valid configuration");
        assert!(plan.obstacles.is_empty() && !config.exists());
        let installed = installation.install(&plan, &|_| panic!("no other plugin")).await;
        let installed = installed.expect("nothing is in the way");
        assert_eq!(installed.file, home.path().join("plugins/date_er.wasm"));
        assert_eq!(fs::read(installed.file).expect("it is copied"), b"code");
        let written = fs::read(&config).expect("it is written");
        let written: Value = serde_json::from_slice(&written).expect("JSON");
        let entry = &written["mcp"]["client_configs"][0]["wasm_config"];
        assert_eq!(entry["grants"], json!({"clocks": true}));
        let lock = Lock::load(&home.path().join("airlock.lock")).expect("a lock").expect("a file");
        let name = ClientName::parse("date_er").expect("a name");
        assert!(lock.pin(&name).is_some_and(|pin| pin.component == component.metadata.digest));
    }

    #[tokio::test]
    async fn a_plan_with_an_obstacle_or_without_a_described_tool_is_not_installed() {
        let home = tempfile::tempdir().expect("a directory");
        let config = home.path().join("airlock.json");
        let component = component(" ");
        for (grants, refused) in
            [(vec![], "clocks is required"), (vec![GrantOption::Clocks], "none of its tools")]
        {
            let installation = opened(&component, &config).await;
            let options = InstallOptions { grants, ..InstallOptions::default() };
            let plan = installation.plan(&options).expect("a valid configuration");
            let installed = installation.install(&plan, &|_| panic!("no other plugin")).await;
            let error = installed.map(|_| ()).expect_err("refused").to_string();
            assert!(error.contains(refused), "{error}");
            assert!(!config.exists() && !home.path().join("plugins").exists());
        }
    }

    #[tokio::test]
    async fn a_file_that_has_changed_since_it_was_read_stays_and_nothing_is_installed() {
        let component = component("Returns the date.");
        let options =
            InstallOptions { grants: vec![GrantOption::Clocks], ..InstallOptions::default() };
        for (changed, text) in [("airlock.json", "{}"), ("airlock.lock", "version = 1\n")] {
            let home = tempfile::tempdir().expect("a directory");
            let installation = opened(&component, &home.path().join("airlock.json")).await;
            let plan = installation.plan(&options).expect("a valid configuration");
            assert!(plan.obstacles.is_empty(), "{:?}", plan.obstacles);
            fs::write(home.path().join(changed), text).expect("written");
            let installed = installation.install(&plan, &|_| panic!("no other plugin")).await;
            let refused = installed.map(|_| ()).expect_err("refused").to_string();
            assert!(refused.contains(&format!("{changed} has changed meanwhile")), "{refused}");
            assert_eq!(fs::read_to_string(home.path().join(changed)).expect("read"), text);
            let left = ["airlock.json", "airlock.lock", "plugins/date_er.wasm"];
            let left = left.map(|file| home.path().join(file).exists());
            assert_eq!(left, [changed == "airlock.json", changed == "airlock.lock", false]);
        }
    }

    #[tokio::test]
    async fn the_accepted_component_without_its_signature_keeps_its_publisher() {
        let home = tempfile::tempdir().expect("a directory");
        let config = home.path().join("airlock.json");
        let name = ClientName::parse("date_er").expect("a name");
        let grants = vec![GrantOption::Clocks];
        let options = InstallOptions { grants, ..InstallOptions::default() };
        for signed_by in [Some("acme"), None] {
            let mut component = component("Returns the date.");
            component.origin.publisher = signed_by.map(str::to_owned);
            component.origin.source = Some("oci://r.example/date-er@sha256:00".to_owned());
            let installation = opened(&component, &config).await;
            let plan = installation.plan(&options).expect("a valid configuration");
            let installed = installation.install(&plan, &|_| panic!("no other plugin")).await;
            let _ = installed.expect("nothing is in the way");
            let lock = Lock::load(&home.path().join("airlock.lock")).expect("a lock");
            let lock = lock.expect("a file");
            let pin = lock.pin(&name).expect("it is pinned");
            assert_eq!(pin.publisher.as_deref(), Some("acme"), "signed by {signed_by:?}");
        }
        // Another build without the signature is the other publisher that it was before.
        let mut other = component("Returns another date.");
        other.metadata.digest = "sha256:01".to_owned();
        let installation = opened(&other, &config).await;
        let options = InstallOptions { replace: true, ..options };
        let plan = installation.plan(&options).expect("a valid configuration");
        let obstacles = plan.obstacles.as_slice();
        assert!(matches!(obstacles, [Obstacle::Change(Change::Publisher { .. })]), "{obstacles:?}");
    }

    #[tokio::test]
    async fn a_free_name_cannot_be_replaced() {
        let home = tempfile::tempdir().expect("a directory");
        let component = component("Returns the date.");
        let installation = opened(&component, &home.path().join("airlock.json")).await;
        let options = InstallOptions { replace: true, ..InstallOptions::default() };
        let error = installation.plan(&options).map(|_| ()).expect_err("refused").to_string();
        insta::assert_snapshot!(error, @r#"--replace: nothing is installed as "date_er"; installed: none"#);
    }

    #[tokio::test]
    async fn an_invalid_name_is_refused_with_the_nearest_valid_one() {
        let component = component("");
        let name = Some("my-notes");
        let path = Path::new("airlock.json");
        let opened = Installation::open(&component, name, path, &|_| panic!("no other plugin"));
        let error = opened.await.map(|_| ()).expect_err("refused").to_string();
        assert!(error.ends_with("; try --name my_notes"), "{error}");
        assert_eq!(valid_name("--"), None);
        assert_eq!(valid_name("2nd").as_deref(), Some("_2nd"));
    }
}
