//! Finds names in the rules about sinks that nothing has. Servers come and go and change their tools, so such a name is no
//! error: the rule may only be about no call.

use std::{collections::BTreeSet, iter};

use serde_json::{Value, json};

use super::{
    callable::Callable,
    config::{Client, Config, Source},
};
use airlock_config_file::{error::Problem, key_path::KeyPath};
use airlock_core::{
    door::{SinkRule, SourceSelection},
    tool::{ClientName, READ_RESOURCE, SourceSet, ToolDefinition, ToolName, ToolPattern},
};
use airlock_lock::Lock;
use airlock_mcp_client::Pinning;
use airlock_strings::{cut, visible_line};

/// Longest list of names in a message, in bytes. A server may have thousands of tools.
const MAX_LISTED: usize = 1_000;

impl Config {
    /// Returns the names in `mcp.information_flow.sinks` that nothing has: clients, tools of clients whose definitions are
    /// known before the gateway runs, and arguments of these tools. Definitions are known that a component embeds or
    /// that `airlock.lock` has. Reads these files, and blocks.
    pub fn unmatched_sinks(&self) -> Vec<Problem> {
        if self.sinks.0.is_empty() {
            return Vec::new();
        }
        let known = KnownClients::new(self);
        let sinks = KeyPath::parse("mcp.information_flow.sinks");
        let rules = self.sinks.0.iter().enumerate();
        rules.flat_map(|(index, rule)| known.problems(&sinks.element(index), rule)).collect()
    }
}

/// The clients of a configuration, with their tools as far as they are known.
struct KnownClients(Vec<KnownClient>);

struct KnownClient {
    name: ClientName,
    /// `None` if they are not known.
    tools: Option<Vec<KnownTool>>,
}

struct KnownTool {
    full_name: ToolName,
    /// JSON Schema of its arguments.
    schema: Value,
}

impl KnownClients {
    fn new(config: &Config) -> Self {
        // A lock file that cannot be read is reported with the pins.
        let lock = config.lock.as_deref().and_then(|path| Lock::load(path).ok().flatten());
        let mut callable = Callable::new(config);
        let configured = config.clients.iter().map(|client| {
            let definitions = definitions(client, &mut callable, lock.as_ref());
            KnownClient::new(client, definitions.as_deref())
        });
        let disabled = config.disabled.iter().map(|disabled| disabled.name.clone());
        let others = disabled.chain(iter::once(ClientName::internal()));
        let others = others.map(|name| KnownClient { name, tools: None });
        Self(configured.chain(others).collect())
    }

    /// Returns the names in a rule that nothing has. `key` is that of the rule.
    fn problems(&self, key: &KeyPath, rule: &SinkRule) -> Vec<Problem> {
        let patterns = rule.tools.iter().enumerate().filter_map(|(index, pattern)| {
            let message = self.unmatched_pattern(pattern)?;
            Some(Problem { key: key.member("tools").element(index), message })
        });
        let sources = self.unmatched_sources(&rule.from).into_iter();
        let sources = sources.map(|message| Problem { key: key.member("from"), message });
        patterns.chain(sources).chain(self.unmatched_arguments(key, rule)).collect()
    }

    /// Returns the reason that no tool has a name that fits; `None` if one may have it.
    fn unmatched_pattern(&self, pattern: &ToolPattern) -> Option<String> {
        let name = pattern.client()?;
        let Some(client) = self.client_of(name) else {
            let clients = self.names();
            return Some(format!(
                "there is no client {name:?}, so the name is that of no tool; the clients are {clients}"
            ));
        };
        let tools = client.tools.as_ref()?;
        if tools.iter().any(|tool| pattern.matches(tool.full_name.as_str())) {
            return None;
        }
        let found = listed(tools.iter().map(|tool| tool.full_name.as_str()));
        let client = &client.name;
        Some(format!("no known tool of the client {client} has such a name; they are {found}"))
    }

    fn unmatched_sources(&self, from: &SourceSelection) -> Vec<String> {
        let SourceSelection::Named(sources) = from else { return Vec::new() };
        let unknown = sources.names().filter(|name| {
            *name != SourceSet::CALLER && !self.0.iter().any(|client| client.name.as_str() == *name)
        });
        let unknown = unknown.map(|name| {
            let clients = self.names();
            let caller = SourceSet::CALLER;
            format!(
                "there is no client {name:?}, so it is the source of nothing; the sources are {clients}, `{caller}` and `*`"
            )
        });
        unknown.collect()
    }

    /// Returns the arguments of a rule that none of its tools has, if all of these are known.
    fn unmatched_arguments(&self, key: &KeyPath, rule: &SinkRule) -> Vec<Problem> {
        let Some(tools) = self.tools_of(rule).filter(|tools| !tools.is_empty()) else {
            return Vec::new();
        };
        let unmatched = rule
            .arguments
            .iter()
            .enumerate()
            .filter(|(_, argument)| !tools.iter().any(|tool| argument.may_be_in(&tool.schema)));
        let unmatched = unmatched.map(|(index, argument)| {
            let members = tools.iter().filter_map(|tool| tool.schema["properties"].as_object());
            let found = listed(members.flat_map(|members| members.keys().map(String::as_str)));
            let message = visible_line(&format!(
                "no tool of the rule has an argument {:?}; they have {found}",
                argument.to_string()
            ));
            Problem { key: key.member("arguments").element(index), message }
        });
        unmatched.collect()
    }

    /// Returns the tools that a rule is about; `None` if not all of them are known.
    fn tools_of(&self, rule: &SinkRule) -> Option<Vec<&KnownTool>> {
        let mut found = Vec::new();
        for pattern in &rule.tools {
            // The tools of a client that does not exist are known: there are none.
            let Some(client) = self.client_of(pattern.client()?) else { continue };
            let tools = client.tools.as_ref()?.iter();
            found.extend(tools.filter(|tool| pattern.matches(tool.full_name.as_str())));
        }
        Some(found)
    }

    /// Returns the client of a pattern, in which case does not matter.
    fn client_of(&self, name: &str) -> Option<&KnownClient> {
        self.0.iter().find(|client| client.name.as_str().eq_ignore_ascii_case(name))
    }

    fn names(&self) -> String {
        listed(self.0.iter().map(|client| client.name.as_str()))
    }
}

impl KnownClient {
    fn new(client: &Client, definitions: Option<&[ToolDefinition]>) -> Self {
        let name = &client.name;
        let reader = (!client.policy.resources.is_empty()).then(|| KnownTool::reader(name));
        let tools = definitions.map(|definitions| {
            let tools = definitions.iter().map(|definition| KnownTool {
                full_name: ToolName::new(name, &definition.name),
                schema: definition.input_schema.to_value().unwrap_or_default(),
            });
            tools.chain(reader).collect()
        });
        Self { name: name.clone(), tools }
    }
}

impl KnownTool {
    /// Creates the tool as which rules decide about reading a resource of a client.
    fn reader(client: &ClientName) -> Self {
        let properties = json!({"uri": {"type": "string"}, "server": {"type": "string"}});
        let schema = json!({"type": "object", "properties": properties});
        Self { full_name: ToolName::new(client, READ_RESOURCE), schema }
    }
}

/// Returns the definitions of the tools of a client; `None` if they are not known.
fn definitions<'c>(
    client: &'c Client,
    callable: &mut Callable<'c>,
    lock: Option<&Lock>,
) -> Option<Vec<ToolDefinition>> {
    match &client.source {
        Source::Plugin(_) => callable.tools(client).map(<[_]>::to_vec),
        Source::Upstream(settings) if settings.pin == Pinning::Off => None,
        Source::Upstream(_) => {
            let accepted = lock?.upstream(&client.name)?.iter();
            accepted.map(|tool| serde_json::from_str(&tool.definition).ok()).collect()
        }
    }
}

/// Returns names as a list in a message, each once.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: BTreeSet<_> = names.collect();
    let names: Vec<_> = names.into_iter().collect();
    cut(visible_line(&names.join(", ")), MAX_LISTED)
}
