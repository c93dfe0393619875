//! `wasm_config`: a plugin, its grants, and the limits of its calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use super::{
    super::file::{self, NameOr},
    Place,
};
use crate::{
    egress::{Injection, Rule},
    plugin::{
        Answer, DirectoryAnswer, HttpAnswer, LimitsAnswer, Profile, QuotaAnswer, SecretAnswer,
        Settings, StoreAnswer,
    },
    sandbox::Access,
    secret::Source,
    tool::{ClientName, INTERNAL_CLIENT},
    units::{Size, Span},
};

pub(super) fn resolve(
    place: &Place<'_>,
    wasm: file::Wasm,
    names: &BTreeSet<ClientName>,
) -> Settings {
    let grants = place.member("grants");
    let file = wasm.grants;
    let answer = Answer {
        profile: wasm.profile,
        config: Arc::new(wasm.config),
        descriptions: descriptions(&place.member("descriptions"), wasm.descriptions),
        http: rules(&grants.member("http"), file.http),
        secrets: secrets(&grants.member("secrets"), file.secrets),
        stores: stores(&grants.member("kv"), file.kv),
        directories: directories(&grants.member("directories"), file.directories),
        scratch: file.scratch.map(|scratch| quota(scratch.max_bytes, scratch.max_files)),
        tools: tools(&grants.member("tools"), file.tools, names),
        clocks: file.clocks,
        random: file.random,
        limits: limits(&place.member("limits"), &wasm.limits, wasm.profile),
    };
    Settings { component: place.member("component").path(&wasm.component), answer }
}

fn descriptions(
    place: &Place<'_>,
    descriptions: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    for (tool, description) in &descriptions {
        if description.trim().is_empty() {
            place.member(tool).refuse("is empty: a model chooses a tool by its description");
        }
    }
    descriptions
}

fn tools(place: &Place<'_>, tools: Vec<String>, names: &BTreeSet<ClientName>) -> Vec<String> {
    for (index, tool) in tools.iter().enumerate() {
        let place = place.element(index);
        match tool.split_once('-') {
            None | Some((_, "" | "*")) => {
                place.refuse(format_args!(
                    "found {tool:?}, expected one tool's full name: CLIENT-TOOL"
                ));
            }
            // Tools of an embedding program are registered at run time, so they are not known here.
            Some((client, _))
                if client != INTERNAL_CLIENT
                    && !names.iter().any(|name| name.as_str() == client) =>
            {
                place.refuse(format_args!("{tool:?}: no client is named {client:?}"));
            }
            Some(_) => {}
        }
    }
    tools
}

fn rules(place: &Place<'_>, rules: Vec<NameOr<file::HttpRule>>) -> Vec<HttpAnswer> {
    let answer = |(index, rule): (usize, NameOr<file::HttpRule>)| match rule {
        NameOr::Name(name) => Some(HttpAnswer::Requested(name)),
        NameOr::Whole(rule) => {
            let made = Rule::new(&rule.url, &rule.methods, &rule.paths, rule.private);
            place.element(index).accept(made).map(HttpAnswer::Rule)
        }
    };
    rules.into_iter().enumerate().filter_map(answer).collect()
}

fn secrets(
    place: &Place<'_>,
    secrets: BTreeMap<String, file::SecretGrant>,
) -> BTreeMap<String, SecretAnswer> {
    let answer = |(name, secret): (String, file::SecretGrant)| {
        let place = place.member(&name);
        let answer = SecretAnswer {
            source: place.member("from").accept(Source::parse(&secret.from, place.base))?,
            audience: secret.audience.map(|audience| rules(&place.member("audience"), audience)),
            inject: secret.inject.and_then(|inject| injection(&place.member("inject"), &inject)),
            reveal: secret.reveal,
        };
        Some((name, answer))
    };
    secrets.into_iter().filter_map(answer).collect()
}

fn injection(place: &Place<'_>, inject: &file::Inject) -> Option<Injection> {
    match (&inject.header, &inject.query) {
        (Some(header), None) => place.accept(Injection::header(header, &inject.prefix)),
        (None, Some(query)) if inject.prefix.is_empty() => place.accept(Injection::query(query)),
        (None, Some(_)) => {
            place.member("prefix").refuse("goes with a `header` alone");
            None
        }
        _ => {
            place.refuse("expected either `header` or `query`");
            None
        }
    }
}

fn stores(place: &Place<'_>, stores: Vec<NameOr<file::StoreGrant>>) -> Vec<StoreAnswer> {
    let mut seen = BTreeSet::new();
    let answer = |(index, store): (usize, NameOr<file::StoreGrant>)| {
        let store = match store {
            NameOr::Name(name) => StoreAnswer { name, max_bytes: None },
            NameOr::Whole(store) => {
                StoreAnswer { name: store.name, max_bytes: store.max_bytes.map(|size| size.0) }
            }
        };
        fit_name(&place.element(index), &store.name, &mut seen);
        store
    };
    stores.into_iter().enumerate().map(answer).collect()
}

fn directories(place: &Place<'_>, directories: Vec<file::Directory>) -> Vec<DirectoryAnswer> {
    let mut seen = BTreeSet::new();
    let answer = |(index, directory): (usize, file::Directory)| {
        let place = place.element(index);
        fit_name(&place.member("name"), &directory.name, &mut seen);
        let access = match directory.access {
            file::Access::ReadOnly => Access::ReadOnly,
            file::Access::ReadWrite => Access::ReadWrite,
        };
        if access == Access::ReadOnly
            && (directory.max_bytes.is_some() || directory.max_files.is_some())
        {
            place.refuse("a directory that is only read grows by nobody: `max_bytes` and `max_files` go with `read_write`");
        }
        DirectoryAnswer {
            path: place.member("path").path(&directory.path),
            quota: quota(directory.max_bytes, directory.max_files),
            name: directory.name,
            access,
        }
    };
    directories.into_iter().enumerate().map(answer).collect()
}

fn quota(bytes: Option<Size>, files: Option<u64>) -> QuotaAnswer {
    QuotaAnswer { bytes: bytes.map(|size| size.0), files }
}

fn fit_name(place: &Place<'_>, name: &str, seen: &mut BTreeSet<String>) {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_fit) {
        place.refuse(format_args!("found {name:?}, expected 1 to 64 letters, digits, `_` or `-`"));
    } else if !seen.insert(name.to_owned()) {
        place.refuse(format_args!("another one is named {name:?} already"));
    }
}

/// Resolves the limits. Their maximum is that of the profile, so that a typing error such as an
/// hour of CPU time cannot take the gateway down.
fn limits(place: &Place<'_>, file: &file::Limits, profile: Profile) -> LimitsAnswer {
    let (most, http) = (profile.limits(), profile.bounds());
    let place = Ceiling { place, profile };
    LimitsAnswer {
        fuel: place.count("fuel", file.fuel, 1_000, most.fuel),
        cpu: place.time("cpu_time", file.cpu_time, most.cpu),
        deadline: place.time("deadline", file.deadline, most.deadline),
        memory_bytes: place.size("memory", file.memory, Size::kib(64), most.memory_bytes),
        table_elements: place
            .count("table_elements", file.table_elements, 0, most.table_elements as u64)
            .map(wide),
        handles: place.count("handles", file.handles, 1, most.handles as u64).map(wide),
        copied_bytes: place.size("copied", file.copied, Size::kib(64), most.copied_bytes),
        host_calls: place
            .count("host_calls", file.host_calls, 0, most.host_calls.into())
            .map(narrow),
        result_bytes: place.size("result", file.result, Size::kib(1), most.result_bytes),
        log_lines: place.count("log_lines", file.log_lines, 0, most.log_lines.into()).map(narrow),
        log_line_bytes: place.size("log_line", file.log_line, Size(64), most.log_line_bytes),
        http_requests: place
            .count("http_requests", file.http_requests, 0, http.requests.into())
            .map(narrow),
        http_response_bytes: place.size(
            "http_response",
            file.http_response,
            Size(0),
            http.response_bytes,
        ),
        http_request_bytes: place.size(
            "http_request",
            file.http_request,
            Size(0),
            http.request_bytes,
        ),
        http_timeout: place.time("http_timeout", file.http_timeout, http.timeout),
        http_redirects: place
            .count("http_redirects", file.http_redirects, 0, http.redirects.into())
            .map(narrow),
    }
}

fn wide(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Position of the limits in the file, and the profile that bounds them.
struct Ceiling<'a> {
    place: &'a Place<'a>,
    profile: Profile,
}

impl Ceiling<'_> {
    fn count(&self, key: &str, value: Option<u64>, least: u64, most: u64) -> Option<u64> {
        self.within(key, value, least, most)
    }

    fn time(&self, key: &str, value: Option<Span>, most: Duration) -> Option<Duration> {
        self.within(key, value, Span::millis(1), Span(most)).map(|span| span.0)
    }

    fn size(&self, key: &str, value: Option<Size>, least: Size, most: usize) -> Option<usize> {
        self.within(key, value, least, most.into()).map(Size::bytes)
    }

    fn within<T: Copy + PartialOrd + fmt::Display>(
        &self,
        key: &str,
        value: Option<T>,
        least: T,
        most: T,
    ) -> Option<T> {
        let value = value?;
        if value < least || value > most {
            let profile = self.profile.name();
            let message = format_args!(
                "must be from {least} to {most} with the profile {profile:?}, found {value}"
            );
            self.place.member(key).refuse(message);
        }
        Some(value)
    }
}
