//! Calls a tool of a fresh build in this process, and prints what it reports.

use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::uses::{Build, Session};
use crate::{
    cli::{call, output, plugin::grant::GrantOption, session},
    config::{Config, environment},
    door::{Caller, Event, Events, Origin, Progress},
    gateway::Gateway,
    plugin::{Manifest, Metadata, Requests},
    sandbox::UseRecorder,
    tool::{CallError, ClientName, INTERNAL_CLIENT, ToolOutput},
};

/// A build, with the rights and the configuration that it is called with.
pub(super) struct Entry<'a> {
    pub(super) component: &'a Path,
    pub(super) grants: &'a [GrantOption],
    pub(super) settings: &'a Map<String, Value>,
    /// Directory for the plugin's stores.
    pub(super) state: &'a Path,
}

impl Entry<'_> {
    /// Starts a gateway with this plugin alone, calls one tool, prints the outcome, and adds the uses of
    /// requests to `session`.
    pub(super) async fn call(
        &self,
        metadata: &Metadata,
        tool: &str,
        arguments: &str,
        session: &mut Session,
    ) -> anyhow::Result<()> {
        let text = self.config(metadata.manifest.as_ref())?.to_string();
        let mut config = Config::parse(&text, "airlock plugin dev", &environment)
            .context("the requests cannot be granted; see --grant")?;
        config.sandbox.compiling = session::compiler();
        let budget = config.budget;
        let recorder = UseRecorder::default();
        let gateway = Gateway::builder(config).record_uses(recorder.clone()).start().await?;
        let view = gateway.caller(Origin::Caller).view().clone();
        let (caller, events) = Caller::with_events(view, Origin::Caller, budget);
        let client = ClientName::parse(&client(metadata.manifest.as_ref()))?;
        let result = follow(&caller, &format!("{client}-{tool}"), arguments, events).await;
        session.add(tool, result.is_ok(), recorder.of(&client));
        let shown = call::show(&result, &gateway);
        gateway.stop().await;
        shown
    }

    /// Returns lines about the requests that the calls of `session` used.
    pub(super) fn report(&self, metadata: &Metadata, session: &Session) -> Vec<String> {
        let Some(manifest) = &metadata.manifest else { return Vec::new() };
        let tools = metadata.tools.iter().map(|tool| tool.name.as_str()).collect();
        let grants = &self.all_grants(Some(&manifest.request));
        session.report(&Build { manifest, tools, grants })
    }

    /// Returns the grants that need no value, and then those that the author typed.
    fn all_grants(&self, requests: Option<&Requests>) -> Vec<GrantOption> {
        let own = requests.map(GrantOption::all).unwrap_or_default();
        own.into_iter().chain(self.grants.iter().cloned()).collect()
    }

    /// Returns a configuration that grants what the plugin requests.
    fn config(&self, manifest: Option<&Manifest>) -> anyhow::Result<Value> {
        let requests = manifest.map(|manifest| &manifest.request);
        let mut grants = Map::new();
        for grant in self.all_grants(requests) {
            grant.apply(&mut grants, requests);
        }
        reveal(&mut grants, requests);
        let component = std::path::absolute(self.component).context("no working directory")?;
        let mut plugin = json!({"component": component, "profile": "trusted", "grants": grants});
        if !self.settings.is_empty() {
            plugin["config"] = Value::Object(self.settings.clone());
        }
        Ok(json!({
            "store": self.state.join("airlock.db"),
            "mcp": {"client_configs": [{
                "name": client(manifest),
                "connection_type": "wasm",
                "wasm_config": plugin,
                "tools_to_execute": ["*"],
            }]},
        }))
    }
}

/// Grants the values of the secrets that are granted and whose values the plugin requests. There is
/// no `--grant` for them, because an operator writes it to the configuration by hand.
fn reveal(grants: &mut Map<String, Value>, requests: Option<&Requests>) {
    let Some(Value::Object(granted)) = grants.get_mut("secret") else { return };
    let revealed = requests.into_iter().flat_map(|requests| &requests.secret);
    for (name, _) in revealed.filter(|(_, secret)| secret.reveal) {
        if let Some(secret) = granted.get_mut(name) {
            secret["reveal"] = json!(true);
        }
    }
}

/// Returns the name of the plugin in the configuration that is made for the call, and so in its log.
fn client(manifest: Option<&Manifest>) -> String {
    let id = manifest.map(|manifest| manifest.id.replace('-', "_"));
    // An id may begin with a digit, or be a reserved name.
    let is_fit = |id: &String| id != INTERNAL_CLIENT && ClientName::parse(id).is_ok();
    id.filter(is_fit).unwrap_or_else(|| "plugin".to_owned())
}

/// Runs a call, and prints its progress and its parts as they come.
async fn follow(
    caller: &Caller,
    name: &str,
    arguments: &str,
    mut events: Events,
) -> Result<ToolOutput, CallError> {
    let call = async { caller.admit(name, arguments)?.run().await };
    tokio::pin!(call);
    let result = loop {
        tokio::select! {
            Some(event) = events.recv() => print(&event),
            result = &mut call => break result,
        }
    };
    while let Ok(event) = events.try_recv() {
        print(&event);
    }
    result
}

fn print(event: &Event) {
    output::hint(&line(event));
}

/// Formats an event for people, on one line.
fn line(event: &Event) -> String {
    match event {
        Event::Progress { progress: Progress { done, total, message }, .. } => {
            let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
            let message = message.as_deref().map(|message| format!(": {message}"));
            output::one_line(&format!("progress {done}{total}{}", message.unwrap_or_default()), 200)
        }
        Event::Partial { part, .. } => {
            output::one_line(&format!("part: {}", part.as_text().unwrap_or("not text")), 200)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_a_call_grants_what_the_plugin_requests_and_what_is_typed() {
        let manifest = json!({
            "schema": crate::plugin::MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1",
            "request": {
                "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
                "files": {"data": {"access": "read_only", "reason": "r"}},
                "secret": {
                    "value": {"reveal": true, "reason": "r"},
                    "token": {"inject": {"query": "k"}, "audience": ["api"], "reason": "r"},
                },
            },
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest");
        let entry = Entry {
            component: Path::new("p.wasm"),
            grants: &["files.data=/srv", "secret.value=env:V", "secret.token=env:T"]
                .map(|grant| grant.parse().expect("a grant")),
            settings: &Map::new(),
            state: Path::new("/state"),
        };
        let config = entry.config(Some(&manifest)).expect("a configuration");
        let grants = &config["mcp"]["client_configs"][0]["wasm_config"]["grants"];
        assert_eq!(grants["http"], json!(["api"]), "{config:#}");
        assert!(grants.to_string().contains("/srv"), "{config:#}");
        let secrets =
            json!({"value": {"from": "env:V", "reveal": true}, "token": {"from": "env:T"}});
        assert_eq!(grants["secret"], secrets, "{config:#}");
        assert!(Config::parse(&config.to_string(), "test", &|_| None).is_ok(), "{config:#}");
    }
}
