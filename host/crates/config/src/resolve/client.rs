//! `mcp.client_configs`.

use std::collections::BTreeSet;

use super::{
    super::{
        Client, Disabled, Source,
        file::{self, AuthType, ConnectionType},
    },
    Field, plugin, upstream,
};
use airlock_core::tool::{ClientName, INTERNAL_CLIENT, Policy, Prefix, Trust};
use airlock_scripts::BindingLevel;

/// Returns the names of all clients. Disabled clients are included, so that a key may keep its row
/// for one.
pub(super) fn names(field: &Field<'_>, clients: &[file::Client]) -> BTreeSet<ClientName> {
    let mut names = BTreeSet::new();
    for (index, client) in clients.iter().enumerate() {
        let field = field.element(index).member("name");
        let Some(name) = field.accept(ClientName::parse(&client.name)) else { continue };
        if name.as_str() == INTERNAL_CLIENT {
            field
                .refuse(format_args!("{INTERNAL_CLIENT:?} is reserved for the tools of an embedding program; choose another name"));
        }
        if !names.insert(name) {
            field.refuse(format_args!("another client is named {:?} already", client.name));
        }
    }
    names
}

/// Returns the MCP servers that are disabled.
pub(super) fn disabled(clients: &[file::Client]) -> Vec<Disabled> {
    let disabled = clients.iter().filter_map(|client| {
        let connection_type = client.connection_type.of_server().filter(|_| client.disabled)?;
        // `names` has already noted an invalid name.
        Some(Disabled { name: ClientName::parse(&client.name).ok()?, connection_type })
    });
    disabled.collect()
}

/// Resolves every client that is not disabled.
pub(super) fn resolve(
    field: &Field<'_>,
    clients: Vec<file::Client>,
    names: &BTreeSet<ClientName>,
) -> Vec<Client> {
    refuse_shared_prefixes(field, &clients);
    let clients = clients.into_iter().enumerate();
    clients
        .filter_map(|(index, client)| resolve_one(&field.element(index), client, names))
        .collect()
}

fn resolve_one(
    field: &Field<'_>,
    client: file::Client,
    names: &BTreeSet<ClientName>,
) -> Option<Client> {
    let policy = policy(field, &client, names);
    if client.disabled {
        return None;
    }
    refuse_foreign_keys(field, &client);
    if client.code_mode_binding_level.is_some() && !client.code_mode {
        field
            .member("code_mode_binding_level")
            .refuse("belongs to a client with `is_code_mode_client`");
    }
    // `names` has already noted an invalid name.
    let name = ClientName::parse(&client.name).ok()?;
    let binding_level = client.code_mode_binding_level.map(BindingLevel::from);
    let source = match client.connection_type {
        ConnectionType::Stdio
        | ConnectionType::Docker
        | ConnectionType::Http
        | ConnectionType::Sse => Source::Upstream(upstream::resolve(field, &name, client)?),
        ConnectionType::Wasm | ConnectionType::Inprocess => {
            let field = field.member("wasm_config");
            let wasm = field.required(client.wasm_config)?;
            let clients = plugin::Clients { names, own: &name };
            Source::Plugin(Box::new(plugin::resolve(&field, wasm, &clients)))
        }
    };
    Some(Client { name, policy, binding_level, source })
}

fn policy(field: &Field<'_>, client: &file::Client, names: &BTreeSet<ClientName>) -> Policy {
    let execute = field.member("tools_to_execute").whitelist(&client.tools_to_execute);
    let auto = field.member("tools_to_auto_execute");
    let auto_execute = auto.whitelist(&client.tools_to_auto_execute);
    if let Some(name) = auto_execute.beyond(&execute) {
        auto.refuse(format_args!(
            "{name:?} is not in `tools_to_execute`, so it cannot run without an approval either"
        ));
    }
    Policy {
        execute,
        auto_execute,
        code_mode: client.code_mode,
        allow_on_all_keys: client.allow_on_all_virtual_keys,
        trust: match client.trust.unwrap_or_default() {
            // The operator installed a plugin and granted its rights.
            _ if client.connection_type.is_plugin() => Trust::Trusted,
            file::Trust::Trusted => Trust::Trusted,
            file::Trust::Untrusted => Trust::Untrusted,
        },
        prefix: prefix(field, client, names),
        resources: field.member("resources_to_read").uri_list(&client.resources_to_read),
        prompts: field.member("prompts_to_get").whitelist(&client.prompts_to_get),
        relays_instructions: client.relay_instructions,
    }
}

/// Returns the prefix of the client's tools. Notes a problem if it is not valid, or the name of
/// another client: the tools of both could then have the same names.
fn prefix(field: &Field<'_>, client: &file::Client, names: &BTreeSet<ClientName>) -> Prefix {
    let Some(prefix) = &client.prefix else { return Prefix::Client };
    let field = field.member("prefix");
    if prefix.is_empty() {
        return Prefix::Off;
    }
    if *prefix == client.name {
        return Prefix::Client;
    }
    let Ok(prefix) = ClientName::parse(prefix) else {
        field.refuse(format_args!("{prefix:?} is not a valid prefix: use a letter or `_`, then letters, digits or `_`, at most 32 characters; or \"\" for none"));
        return Prefix::Client;
    };
    if prefix.as_str() == INTERNAL_CLIENT || names.contains(&prefix) {
        field.refuse(format_args!("{:?} is the name of another client", prefix.as_str()));
    }
    Prefix::Other(prefix)
}

/// Notes a problem for every prefix that an earlier client has.
fn refuse_shared_prefixes(field: &Field<'_>, clients: &[file::Client]) {
    let mut seen = BTreeSet::new();
    for (index, client) in clients.iter().enumerate() {
        let prefix = client.prefix.as_deref();
        let prefix = prefix.filter(|prefix| !prefix.is_empty() && *prefix != client.name);
        if prefix.is_some_and(|prefix| !seen.insert(prefix)) {
            field.element(index).member("prefix").refuse("another client has this prefix already");
        }
    }
}

/// Connection types with a URL.
const HTTP: &str = "\"http\" or \"sse\"";

/// Refuses settings of another connection type, because they would be ignored.
fn refuse_foreign_keys(field: &Field<'_>, client: &file::Client) {
    let kind = client.connection_type;
    let is_stdio = kind == ConnectionType::Stdio;
    let is_docker = kind == ConnectionType::Docker;
    let is_http = matches!(kind, ConnectionType::Http | ConnectionType::Sse);
    let is_wasm = !is_stdio && !is_docker && !is_http;
    let mcp = "that of an MCP server";
    let keys = [
        ("startup_timeout", client.startup_timeout.is_some(), !is_wasm, mcp),
        ("request_timeout", client.request_timeout.is_some(), !is_wasm, mcp),
        ("heartbeat_interval", client.heartbeat_interval.is_some(), !is_wasm, mcp),
        ("is_ping_available", client.is_ping_available.is_some(), !is_wasm, mcp),
        ("stale_timeout", client.stale_timeout.is_some(), !is_wasm, mcp),
        ("lifecycle", client.lifecycle.is_some(), !is_wasm, mcp),
        ("idle_timeout", client.idle_timeout.is_some(), !is_wasm, mcp),
        ("max_concurrent_calls", client.max_concurrent_calls.is_some(), !is_wasm, mcp),
        ("max_waiting_calls", client.max_waiting_calls.is_some(), !is_wasm, mcp),
        ("tool_sync_interval", client.tool_sync_interval.is_some(), !is_wasm, mcp),
        ("stdio_config", client.stdio_config.is_some(), is_stdio, "\"stdio\""),
        ("docker_config", client.docker_config.is_some(), is_docker, "\"docker\""),
        ("connection_string", client.connection_string.is_some(), is_http, HTTP),
        ("allowed_extra_headers", !client.allowed_extra_headers.is_empty(), is_http, HTTP),
        ("tls_config", client.tls_config.is_some(), is_http, HTTP),
        ("auth_type", matches!(client.auth_type, AuthType::Oauth), is_http, HTTP),
        ("oauth_config", client.oauth_config.is_some(), is_http, HTTP),
        ("allow_private", client.allow_private, is_http, HTTP),
        (
            "headers",
            client.headers.as_ref().is_some_and(|headers| !headers.is_empty()),
            is_http,
            HTTP,
        ),
        ("prefix", client.prefix.is_some(), !is_wasm, mcp),
        ("trust", client.trust.is_some(), !is_wasm, mcp),
        ("pin", client.pin.is_some(), !is_wasm, mcp),
        ("resources_to_read", !client.resources_to_read.is_empty(), !is_wasm, mcp),
        ("prompts_to_get", !client.prompts_to_get.is_empty(), !is_wasm, mcp),
        ("relay_instructions", client.relay_instructions, !is_wasm, mcp),
        ("allow", !client.allow.is_empty(), !is_wasm, mcp),
        ("framing", client.framing.is_some(), is_stdio || is_docker, "\"stdio\" or \"docker\""),
        ("restart", client.restart.is_some(), !is_wasm, mcp),
        ("protocol", client.protocol.is_some(), !is_wasm, mcp),
        ("wasm_config", client.wasm_config.is_some(), is_wasm, "\"wasm\""),
    ];
    for (key, _, _, owner) in
        keys.into_iter().filter(|(_, is_given, belongs, _)| *is_given && !belongs)
    {
        field
            .member(key)
            .refuse(format_args!("belongs to a client whose `connection_type` is {owner}"));
    }
}
