//! The configuration with which a fresh build is called: the plugin with everything granted that it
//! requests, and the clients whose tools its slots are bound to.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::{Map, Value, json};

use airlock_authoring::install::{ConfigDocument, GrantOption, WrittenKeys, entry_key};
use airlock_compile::Compiling;
use airlock_config::{Config, KeyPath, environment};
use airlock_core::{
    secret,
    tool::{ClientName, INTERNAL_CLIENT, ToolName},
};
use airlock_lock::{FILE_NAME as LOCK_FILE, Lock};
use airlock_plugin::{Manifest, Metadata, Reason, Requests, Rights};
use airlock_terminal::{
    output,
    session::ConfigFile,
    tool_call::{client_of, reachable},
};

/// A build, with the rights and the configuration that it is called with.
pub(super) struct FreshBuild<'a> {
    pub(super) component: &'a Path,
    pub(super) metadata: &'a Metadata,
    pub(super) grants: &'a [GrantOption],
    pub(super) settings: &'a Map<String, Value>,
    /// Directory for the plugin's stores.
    pub(super) state: &'a Path,
    /// The configuration with the other clients.
    pub(super) file: &'a ConfigFile,
}

impl FreshBuild<'_> {
    pub(super) fn manifest(&self) -> Option<&Manifest> {
        self.metadata.manifest.as_ref()
    }

    /// Returns the plugin's own names of its tools, for a message.
    pub(super) fn tool_names(&self) -> String {
        let names: Vec<_> = self.metadata.tools.iter().map(|tool| tool.name.as_str()).collect();
        output::one_line(&names.join(", "), 200)
    }

    fn requests(&self) -> Option<&Requests> {
        self.manifest().map(|manifest| &manifest.request)
    }

    /// Returns the name of the plugin in the configuration, and so in its log.
    pub(super) fn client(&self) -> ClientName {
        let id = self.metadata.id().map(|id| id.replace('-', "_"));
        // An id may begin with a digit, or be a reserved name.
        let id = id.filter(|id| id != INTERNAL_CLIENT);
        id.and_then(|id| ClientName::parse(&id).ok())
            .unwrap_or_else(|| ClientName::parse("plugin").expect("a constant that fits"))
    }

    /// Returns the grants that need no value, and then those that the author typed and the plugin
    /// requests.
    pub(super) fn all_grants(&self) -> Vec<GrantOption> {
        let requests = self.requests();
        let own = requests.map(GrantOption::all).unwrap_or_default();
        let typed = self
            .grants
            .iter()
            .filter(|grant| requests.is_none_or(|requests| grant.is_requested(requests)));
        own.into_iter().chain(typed.cloned()).collect()
    }

    /// Returns the checked configuration. Fails with everything that would keep the plugin from
    /// being loaded, in the words of the options.
    pub(super) fn config(&self) -> anyhow::Result<Config> {
        if let Some(requests) = self.requests() {
            // The author may have removed the request since the command was typed.
            for line in GrantOption::unrequested(self.grants, requests) {
                output::hint(&line);
            }
        }
        let client = self.client();
        let mut typed = WrittenKeys::default();
        let own = self.entry(&client, &mut typed)?;
        let others = self.others(&client)?;
        let key = entry_key(others.len());
        let file = self.file.path.display().to_string();
        let origin = if others.is_empty() { "airlock plugin dev" } else { &file };
        let clients: Vec<_> = others.iter().cloned().chain([own]).collect();
        let document = json!({
            "store": self.state.join("airlock.db"),
            "mcp": {"client_configs": clients},
        });
        let mut config = Config::parse(&document.to_string(), origin, &environment)
            .map_err(|error| self.refused(typed.invalid(&key, &error)))?;
        let needed: Vec<_> =
            reachable(&config, client.as_str()).into_iter().map(str::to_owned).collect();
        config.clients.retain(|client| needed.iter().any(|name| name == client.name.as_str()));
        self.check(&config, &client, &typed)?;
        config.sandbox.compiling = Compiling::in_child();
        if !others.is_empty() {
            self.protect(&mut config, &client)?;
        }
        Ok(config)
    }

    /// Has the other plugins loaded as in the gateway of their configuration: only if they are
    /// pinned, and without access to the gateway's files.
    fn protect(&self, config: &mut Config, client: &ClientName) -> anyhow::Result<()> {
        config.sandbox.off_limits = config.own_files(&self.file.path);
        if let Some(mut lock) = Lock::load_of_plugins(&self.file.path.with_file_name(LOCK_FILE))? {
            lock.accept(self.metadata.pin(client));
            let path = self.state.join(LOCK_FILE);
            lock.save(&path)?;
            config.lock = Some(path);
        }
        Ok(())
    }

    /// Fails if the gateway would not load the plugin, or if a granted directory or tool does not
    /// exist.
    fn check(
        &self,
        config: &Config,
        client: &ClientName,
        typed: &WrittenKeys,
    ) -> anyhow::Result<()> {
        let settings = config.plugin(client).context("the plugin is part of the document")?;
        let rights = Rights::intersect(
            self.manifest(),
            &settings.grant,
            &|source: &secret::SecretSource| source.read(&environment),
        );
        let reasons = rights.err().map(|refusal| refusal.reasons).unwrap_or_default();
        let mut lines: Vec<_> =
            reasons.iter().map(|reason| self.explain(reason, client, typed)).collect();
        let problems = config.check_grant(client, &self.metadata.tools);
        lines.extend(problems.iter().map(|problem| typed.problem(problem)));
        ensure!(lines.is_empty(), self.refused(lines));
        Ok(())
    }

    /// Formats a reason, with the option that grants what is missing.
    fn explain(&self, reason: &Reason, client: &ClientName, typed: &WrittenKeys) -> String {
        let text = typed.reason(reason);
        let Reason::NotGranted { request, .. } = reason else { return text };
        let missing = self.requests().and_then(|requests| requests.named(request));
        let option = missing.map(|request| GrantOption::suggestion(client.as_str(), request));
        option.map_or_else(
            || text.clone(),
            |option| format!("{text}: --grant {}", output::quoted(&option.to_string())),
        )
    }

    /// Makes the error. If a slot is bound to no tool, the plugin's own tools are listed.
    fn refused(&self, mut lines: Vec<String>) -> anyhow::Error {
        let tells_of_slot = self.grants.iter().any(|grant| {
            matches!(grant, GrantOption::Slot { .. })
                && lines.iter().any(|line| line.starts_with(&grant.option()))
        });
        if tells_of_slot {
            lines.push(format!("tools of this plugin: {}", self.tool_names()));
        }
        anyhow!("the plugin cannot be called:\n  {}", lines.join("\n  "))
    }

    /// Returns the entry of the plugin. Records the keys of what was typed.
    fn entry(&self, client: &ClientName, typed: &mut WrittenKeys) -> anyhow::Result<Value> {
        let requests = self.requests();
        let mut grants = Map::new();
        for grant in self.all_grants() {
            let key = self.with_full_name(client, &grant).apply(&mut grants, requests);
            typed.add(key, grant.option());
        }
        reveal(&mut grants, requests);
        let component = std::path::absolute(self.component).context("no working directory")?;
        let mut plugin = json!({"component": component, "profile": "trusted", "grants": grants});
        if !self.settings.is_empty() {
            plugin["config"] = Value::Object(self.settings.clone());
        }
        typed.add(KeyPath::default().member("config"), "--set".to_owned());
        Ok(json!({
            "name": client,
            "connection_type": "wasm",
            "wasm_config": plugin,
            "tools_to_execute": ["*"],
        }))
    }

    /// Returns a slot's grant with the full name of the tool, if that is one of this plugin by its own
    /// name.
    fn with_full_name(&self, client: &ClientName, grant: &GrantOption) -> GrantOption {
        match grant {
            GrantOption::Slot { name, tool }
                if self.metadata.tools.iter().any(|own| own.name == *tool) =>
            {
                let tool = ToolName::new(client, tool).to_string();
                GrantOption::Slot { name: name.clone(), tool }
            }
            _ => grant.clone(),
        }
    }

    /// Returns the other clients of the configuration, if a tool of another client is granted.
    fn others(&self, client: &ClientName) -> anyhow::Result<Vec<Value>> {
        let Some((option, other)) = self.foreign(client) else { return Ok(Vec::new()) };
        let path = &self.file.path;
        if !path.exists() {
            bail!(
                "{option}: no client is named {other:?}, because there is no {}; name the \
                 configuration that has it with --config, or bind a tool of this plugin: {}",
                path.display(),
                self.tool_names()
            );
        }
        let document = ConfigDocument::open(path)?;
        let others = document.entries().iter().filter(|entry| entry["name"] != client.as_str());
        Ok(others.cloned().collect())
    }

    /// Returns the first granted tool of another client: its option, and the name of the client.
    fn foreign(&self, client: &ClientName) -> Option<(String, String)> {
        let granted = self.all_grants().into_iter();
        let granted = granted.map(|grant| self.with_full_name(client, &grant));
        let tools = granted.flat_map(|grant| match (&grant, self.requests()) {
            (GrantOption::Slot { tool, .. }, _) => vec![(grant.option(), tool.clone())],
            (GrantOption::Tools, Some(Requests { tools: Some(tools), .. })) => {
                tools.call.iter().map(|tool| ("request.tools".to_owned(), tool.clone())).collect()
            }
            _ => Vec::new(),
        });
        let mut others =
            tools.filter_map(|(option, tool)| Some((option, client_of(&tool)?.to_owned())));
        others.find(|(_, other)| other != client.as_str())
    }
}

/// Grants the values of the secrets that are granted and whose values the plugin requests, with and
/// without `:reveal`: a fresh build is called with everything that it requests.
fn reveal(grants: &mut Map<String, Value>, requests: Option<&Requests>) {
    let Some(Value::Object(granted)) = grants.get_mut("secret") else { return };
    let revealed = requests.into_iter().flat_map(|requests| &requests.secret);
    for (name, _) in revealed.filter(|(_, secret)| secret.reveal) {
        if let Some(secret) = granted.get_mut(name) {
            secret["reveal"] = json!(true);
        }
    }
}

#[cfg(test)]
mod tests;
