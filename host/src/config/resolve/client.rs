//! `mcp.client_configs`.

use std::collections::BTreeSet;

use super::{
    super::{
        Client, Source,
        file::{self, ConnectionType},
    },
    Field, plugin, upstream,
};
use crate::tool::{ClientName, INTERNAL_CLIENT, Policy};

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

/// Resolves every client that is not disabled.
pub(super) fn resolve(
    field: &Field<'_>,
    clients: Vec<file::Client>,
    names: &BTreeSet<ClientName>,
) -> Vec<Client> {
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
    let policy = policy(field, &client);
    if client.disabled {
        return None;
    }
    refuse_foreign_keys(field, &client);
    // `names` has already noted an invalid name.
    let name = ClientName::parse(&client.name).ok()?;
    let source = match client.connection_type {
        ConnectionType::Stdio | ConnectionType::Http => {
            Source::Upstream(upstream::resolve(field, &name, client)?)
        }
        ConnectionType::Wasm | ConnectionType::Inprocess => {
            let field = field.member("wasm_config");
            let wasm = field.required(client.wasm_config)?;
            let clients = plugin::Clients { names, own: &name };
            Source::Plugin(Box::new(plugin::resolve(&field, wasm, &clients)))
        }
    };
    Some(Client { name, policy, source })
}

fn policy(field: &Field<'_>, client: &file::Client) -> Policy {
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
    }
}

/// Refuses settings of another connection type, because they would be ignored.
fn refuse_foreign_keys(field: &Field<'_>, client: &file::Client) {
    let (is_stdio, is_http) = (
        client.connection_type == ConnectionType::Stdio,
        client.connection_type == ConnectionType::Http,
    );
    let is_wasm = !is_stdio && !is_http;
    let keys = [
        ("stdio_config", client.stdio_config.is_some(), is_stdio, "\"stdio\""),
        ("connection_string", client.connection_string.is_some(), is_http, "\"http\""),
        (
            "headers",
            client.headers.as_ref().is_some_and(|headers| !headers.is_empty()),
            is_http,
            "\"http\"",
        ),
        ("connect_timeout", client.connect_timeout.is_some(), !is_wasm, "\"stdio\" or \"http\""),
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
