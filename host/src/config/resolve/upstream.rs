//! MCP servers: `stdio_config`, `connection_string`, `headers`.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue, Uri, uri::Scheme};

use super::{
    super::{
        file::{self, ConnectionType},
        values::EnvText,
    },
    Field,
};
use crate::{
    secret::Secret,
    tool::ClientName,
    units::Span,
    upstream::{Settings, Transport},
};

/// Headers that the transport itself sets.
const RESERVED: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

pub(super) fn resolve(
    field: &Field<'_>,
    name: &ClientName,
    client: file::Client,
) -> Option<Settings> {
    let timeouts = Span::millis(1)..=Span::secs(10 * 60);
    let connect_timeout =
        field.member("connect_timeout").within(client.connect_timeout, Span::secs(30), timeouts).0;
    let transport = if client.connection_type == ConnectionType::Stdio {
        let field = field.member("stdio_config");
        stdio(&field, field.required(client.stdio_config)?)
    } else {
        let headers =
            headers(&field.member("headers"), client.headers.unwrap_or_default(), &RESERVED);
        let field = field.member("connection_string");
        Transport::Http { url: url(&field, field.required(client.connection_string)?)?, headers }
    };
    Some(Settings { name: name.clone(), transport, connect_timeout })
}

fn stdio(field: &Field<'_>, stdio: file::Stdio) -> Transport {
    let command = field.member("command");
    if stdio.command.trim().is_empty() {
        command.refuse("is empty");
    }
    // A command without `/` is searched in `PATH`.
    let is_path = stdio.command.contains('/');
    let command = if is_path {
        command.base.join(&stdio.command).to_string_lossy().into_owned()
    } else {
        stdio.command
    };
    Transport::Stdio {
        command,
        args: stdio.args,
        env: environment(&field.member("envs"), &stdio.envs),
    }
}

/// Returns the whole environment of the child process.
fn environment(field: &Field<'_>, entries: &[String]) -> BTreeMap<String, Secret> {
    let mut variables = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let field = field.element(index);
        let (name, value) = entry
            .split_once('=')
            .map_or((entry.as_str(), None), |(name, value)| (name, Some(value)));
        if !is_variable_name(name) {
            // The entry is not quoted: it may be a secret without its name.
            field.refuse("expected `NAME`, `NAME=value` or `NAME=env.OTHER`, where a name has letters, digits and `_`");
        } else if !seen.insert(name) {
            field.refuse(format_args!("{name} is listed twice"));
        } else if let Some(value) = variable(&field, name, value) {
            variables.insert(name.to_owned(), value);
        }
    }
    variables
}

fn variable(field: &Field<'_>, name: &str, value: Option<&str>) -> Option<Secret> {
    match value.map(EnvText::parse) {
        None => field.variable(name),
        Some(EnvText::Variable(other)) => field.variable(&other),
        // A variable may be set to the empty string on purpose.
        Some(EnvText::Written(value)) => Some(value),
    }
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns an HTTP URL. Errors do not quote it, because some services put tokens into their URLs.
pub(super) fn url(field: &Field<'_>, text: EnvText) -> Option<String> {
    let text = field.text(text)?;
    let is_http =
        |uri: &Uri| uri.scheme() == Some(&Scheme::HTTP) || uri.scheme() == Some(&Scheme::HTTPS);
    let Some(uri) = text.expose().parse::<Uri>().ok().filter(is_http) else {
        field.refuse("expected a URL that starts with http:// or https://");
        return None;
    };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        field
            .refuse("a URL with a user name or password in it would show up in logs; use a header");
        return None;
    }
    Some(text.expose().to_owned())
}

/// Returns headers for every request, except `reserved` ones.
pub(super) fn headers(
    field: &Field<'_>,
    headers: BTreeMap<String, EnvText>,
    reserved: &[&str],
) -> BTreeMap<String, Secret> {
    let mut checked = BTreeMap::new();
    for (name, value) in headers {
        let field = field.member(&name);
        let Ok(header) = name.parse::<HeaderName>() else {
            field.refuse("is not a valid header name");
            continue;
        };
        if reserved.contains(&header.as_str()) {
            field.refuse("is set by the transport itself");
            continue;
        }
        let Some(value) = field.text(value) else { continue };
        if HeaderValue::from_str(value.expose()).is_err() {
            field.refuse(
                "the value has a line break or another character that an HTTP header cannot have",
            );
        } else if checked.insert(header.as_str().to_owned(), value).is_some() {
            field.refuse("is listed twice (case does not count)");
        }
    }
    checked
}
