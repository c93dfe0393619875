//! The configurations under which each case is run: the columns of the tables, the weakest first.
//!
//! Another defence is another entry of [`ALL`].

use airlock_tests::{
    Client, Setup,
    lab::{self, Case, Key, LabTool, Server, Use},
};
use serde_json::{Value, json};

/// A configuration of the gateway.
pub(crate) struct Configuration {
    /// Title of its column.
    pub(crate) name: &'static str,
    /// Summary of the settings, for the report.
    pub(crate) about: &'static str,
    /// Configures the client of a server.
    client: fn(Client, &Server) -> Client,
    /// Returns the servers whose tools a key may use.
    servers: fn(&Case, &Key) -> Vec<String>,
    /// True if the operator accepts the definitions before the gateway starts, unread.
    pub(crate) accepts_definitions: bool,
    /// Returns the guards of all calls.
    guards: fn() -> Vec<Value>,
    /// Returns the sinks of a case.
    sinks: fn(&Case) -> Vec<Value>,
}

/// All configurations. Each stops what the one before it stops.
pub(crate) static ALL: [Configuration; 5] = [
    Configuration {
        name: "open",
        about: "every tool is permitted without an approval, for all keys; no pins, no marks",
        client: open,
        servers: all_servers,
        accepts_definitions: false,
        guards: Vec::new,
        sinks: no_sinks,
    },
    Configuration {
        name: "door",
        about: "lists of permitted tools, approvals of effects, keys and owners; no pins",
        client: door,
        servers: own_servers,
        accepts_definitions: false,
        guards: Vec::new,
        sinks: no_sinks,
    },
    Configuration {
        name: "pins",
        about: "as door, with strict pins of definitions that the operator has accepted unread",
        client: pins,
        servers: own_servers,
        accepts_definitions: true,
        guards: Vec::new,
        sinks: no_sinks,
    },
    Configuration {
        name: "guards",
        about: "as pins, with two shipped guards: secrets, and policy with the rules of policy.json",
        client: pins,
        servers: own_servers,
        accepts_definitions: true,
        guards: lab::guards,
        sinks: no_sinks,
    },
    Configuration {
        name: "provenance",
        about: "as guards, with sinks: after results of one server were read, no tool of another one is called that has \
                effects or takes arguments, which can carry data away",
        client: pins,
        servers: own_servers,
        accepts_definitions: true,
        guards: lab::guards,
        sinks: tools_of_other_servers,
    },
];

impl Configuration {
    /// Returns the configuration of a case, whose servers `client` makes.
    pub(crate) fn setup(&self, case: &Case, client: impl Fn(&Setup, &Server) -> Client) -> Setup {
        let mut setup = Setup::new();
        for server in &case.servers {
            let client = (self.client)(client(&setup, server), server);
            setup = setup.client(client);
        }
        for key in &case.keys {
            let servers = (self.servers)(case, key);
            let rows: Vec<(&str, &[&str])> =
                servers.iter().map(|server| (server.as_str(), &["*"][..])).collect();
            setup = setup.key(&key.name, &Key::value_of(&key.name), &rows);
        }
        let guards = (self.guards)();
        if !guards.is_empty() {
            setup = setup.set("/guards", guards);
        }
        let sinks = (self.sinks)(case);
        if !sinks.is_empty() {
            setup = setup.set("/mcp/information_flow/sinks", sinks);
        }
        // The cases are about decisions, not about how many rounds a model may take.
        setup = setup.set("/mcp/tool_manager_config/max_agent_depth", 100);
        let settings = case.settings.iter();
        settings.fold(setup, |setup, (pointer, value)| setup.set(pointer, value.clone()))
    }
}

fn open(client: Client, _server: &Server) -> Client {
    client.auto(&["*"]).set("/pin", "off").set("/trust", "trusted")
}

fn door(client: Client, server: &Server) -> Client {
    pins(client, server).set("/pin", "off")
}

fn pins(client: Client, server: &Server) -> Client {
    let client = client
        .execute(&tools(server, &[Use::Auto, Use::Ask]))
        .auto(&tools(server, &[Use::Auto]))
        .set("/pin", "strict");
    if server.owners.is_empty() {
        client
    } else {
        client.set("/virtual_keys", server.owners.clone())
    }
}

/// Returns the names of the tools that have one of these rights.
fn tools<'s>(server: &'s Server, rights: &[Use]) -> Vec<&'s str> {
    let tools = server.tools.iter().filter(|tool| rights.contains(&tool.door));
    tools.map(LabTool::name).collect()
}

fn no_sinks(_case: &Case) -> Vec<Value> {
    Vec::new()
}

/// Returns sinks that refuse the calls of a server with effects or arguments after results of another one.
fn tools_of_other_servers(case: &Case) -> Vec<Value> {
    let sinks = case.servers.iter().map(|server| {
        let tools = server.tools.iter().filter(|tool| is_sink(tool));
        let tools: Vec<_> = tools.map(|tool| format!("{}-{}", server.name, tool.name())).collect();
        let others = case.servers.iter().filter(|other| other.name != server.name);
        let from: Vec<_> = others.map(|other| other.name.as_str()).collect();
        json!({"tools": tools, "from": from, "decision": "deny"})
    });
    // A rule about no tool or no source is refused.
    sinks.filter(|sink| has_elements(&sink["tools"]) && has_elements(&sink["from"])).collect()
}

fn has_elements(list: &Value) -> bool {
    list.as_array().is_some_and(|list| !list.is_empty())
}

fn is_sink(tool: &LabTool) -> bool {
    let properties = tool.definition["inputSchema"]["properties"].as_object();
    tool.door == Use::Ask || properties.is_some_and(|properties| !properties.is_empty())
}

fn all_servers(case: &Case, _key: &Key) -> Vec<String> {
    case.servers.iter().map(|server| server.name.clone()).collect()
}

fn own_servers(_case: &Case, key: &Key) -> Vec<String> {
    key.servers.clone()
}
