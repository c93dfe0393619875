//! The smaller requests and effects with which the calls of a build still succeed.
//!
//! Only what the session shows is narrowed. A request that was not granted could not be used, and a
//! tool without a successful call may need all that it declares; so both stay as they are.

use std::collections::BTreeSet;

use super::{Effect, FILE, GrantOption, Request, Seen, Table, UNRECORDED, Use, table};
use airlock_plugin::{DeclaredEffect, FilesAccess, HttpRequest, SecretRequest, ToolEffects};

/// The tables of plugin.toml that could be smaller.
pub(super) struct Smallest {
    replaced: Vec<Table>,
    /// Headers of the tables that could be removed.
    removed: Vec<String>,
    /// True if the plugin requests directories.
    has_files: bool,
    /// True if the requests have parts that the recorder does not know.
    has_details: bool,
}

impl Smallest {
    /// Returns what could be smaller; `None` if nothing could.
    pub(super) fn of(seen: &Seen<'_>) -> Option<Self> {
        let kept: Vec<_> = seen.requests().filter(|request| seen.keeps(*request)).collect();
        let tools = seen.build.manifest.tools.iter();
        let tools = tools.filter_map(|tool| seen.smaller_tool(tool, &kept));
        let requests = seen.requests().filter_map(|request| seen.smaller_request(request));
        let spared = seen.last_with_wasi();
        let removed = seen.requests().filter(|request| !seen.keeps(*request));
        let removed = removed.map(header).filter(|header| spared.as_ref() != Some(header));
        let has_unused_config = seen.has_config() && !seen.uses.contains(&Use::Config);
        let is_config_removed = has_unused_config && seen.uncalled().next().is_none();
        let config = is_config_removed.then(|| "[config]".to_owned());
        let smallest = Self {
            replaced: tools.chain(requests).collect(),
            removed: removed.chain(config).collect(),
            has_files: !seen.build.manifest.request.files.is_empty(),
            has_details: seen.has_details(),
        };
        (!smallest.replaced.is_empty() || !smallest.removed.is_empty()).then_some(smallest)
    }

    /// Returns it as lines for people, in which each table is TOML.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines =
            vec![format!("{FILE} could request less, as far as the calls of this build show.")];
        if self.has_files {
            let names =
                "A tool that only lists the names of its directories uses none of them here.";
            lines.push(names.to_owned());
        }
        if !self.removed.is_empty() {
            lines.push(format!("Remove: {}", self.removed.join(", ")));
        }
        if !self.replaced.is_empty() {
            lines.push("Replace:".to_owned());
            lines.extend(
                self.has_details.then(|| format!("# {UNRECORDED}, so they stay as they are")),
            );
            lines.extend(self.replaced.iter().map(|table| format!("\n{table}")));
        }
        lines
    }
}

impl<'a> Seen<'a> {
    /// Returns a line about each request that stays although it was granted and not used, with the
    /// reason.
    pub(super) fn kept_although_unused(&self) -> Vec<String> {
        let of_audience = self.requests().filter_map(|request| {
            let Request::Http(name, _) = request else { return None };
            let is_unused = self.is_judged(request) && !self.is_used(request);
            let secrets = self.audience_of(name).filter(|_| is_unused).collect::<Vec<_>>();
            let names = secrets.iter().map(|name| format!("secret.{name}")).collect::<Vec<_>>();
            let header = header(request);
            (!names.is_empty())
                .then(|| format!("{header} stays: it is in the audience of {}", names.join(", ")))
        });
        let wasi = self.last_with_wasi().map(|header| {
            format!(
                "{header} stays: a plugin in Rust without such a request is built without WASI, unless \
                 {FILE} has `[build]` with `wasi = true`"
            )
        });
        of_audience.chain(wasi).collect()
    }

    /// Returns the secrets that stay and are attached to requests to a destination.
    fn audience_of(&self, destination: &str) -> impl Iterator<Item = &'a str> {
        let secrets = self.build.manifest.request.secret.iter();
        let kept = secrets.filter(move |(own, secret)| {
            self.keeps(Request::Secret(own, secret))
                && self.audience(own, secret).contains(&destination)
        });
        kept.map(|(own, _)| own.as_str())
    }

    /// Returns the header of the request that must stay although it was not used: a plugin in Rust has
    /// WASI only if it has one of these requests.
    fn last_with_wasi(&self) -> Option<String> {
        let mut requests = self.requests().filter(needs_wasi);
        let is_kept = self.requests().any(|request| needs_wasi(&request) && self.keeps(request));
        requests.next().filter(|_| !is_kept).map(header)
    }

    /// Returns whether a tool without a successful call may use the request.
    fn may_be_needed(&self, request: Request<'_>) -> bool {
        if request.effect().is_none() {
            return self.uncalled().next().is_some();
        }
        let tools = self.build.manifest.tools.iter();
        let mut uncalled = tools.filter(|tool| !self.session.succeeded.contains(&tool.name));
        uncalled.any(|tool| tool.effects.iter().any(|effect| request.allows(effect)))
    }

    /// Returns whether the session shows all uses of the request.
    fn is_judged(&self, request: Request<'_>) -> bool {
        self.was_possible(request) && !self.may_be_needed(request)
    }

    /// Returns whether the session's calls could use the request. A plugin may send no request to a
    /// destination without the secret for it, and a secret for hosts that an operator chooses is sent
    /// nowhere here.
    fn was_possible(&self, request: Request<'_>) -> bool {
        match request {
            Request::Http(name, _) => self.is_granted(request) && self.has_secrets_of(name),
            Request::Secret(_, secret) => self.is_granted(request) && !self.is_for_any_host(secret),
            _ => self.is_granted(request),
        }
    }

    /// Returns whether all secrets for a destination are granted, none of them for any host.
    fn has_secrets_of(&self, destination: &str) -> bool {
        let secrets = self.build.manifest.request.secret.iter();
        let mut of_destination = secrets
            .filter(|(_, secret)| secret.audience.iter().any(|audience| audience == destination));
        of_destination.all(|(own, secret)| {
            self.is_granted(Request::Secret(own, secret)) && !self.is_for_any_host(secret)
        })
    }

    fn is_for_any_host(&self, secret: &SecretRequest) -> bool {
        let requests = &self.build.manifest.request.http;
        let mut audience = secret.audience.iter().filter_map(|name| requests.get(name));
        audience.any(HttpRequest::is_any_host)
    }

    /// Returns whether the request is part of the smallest plugin.toml.
    fn keeps(&self, request: Request<'a>) -> bool {
        let is_needed = !self.is_judged(request) || self.is_used(request);
        is_needed
            || matches!(request, Request::Http(name, _) if self.audience_of(name).next().is_some())
    }

    /// Returns the destinations that a secret is attached to requests for; none if it was never
    /// attached.
    fn audience(&self, name: &str, secret: &'a SecretRequest) -> Vec<&'a str> {
        let all: Vec<_> = secret.audience.iter().map(String::as_str).collect();
        if !self.is_judged(Request::Secret(name, secret)) {
            return all;
        }
        if !self.uses.contains(&Use::AttachedSecret(name.to_owned())) {
            let is_known = self.uses.contains(&Use::KnownSecret(name.to_owned()));
            return if is_known { all } else { Vec::new() };
        }
        let requests = &self.build.manifest.request.http;
        let needed = all.iter().copied().filter(|name| {
            let request =
                requests.get_key_value(*name).map(|(name, request)| Request::Http(name, request));
            request.is_some_and(|request| !self.is_judged(request) || self.is_used(request))
        });
        let needed: Vec<_> = needed.collect();
        // The operator's own hosts for the secret may be none of the destinations.
        if needed.is_empty() { all } else { needed }
    }

    /// Returns the smaller table of a request that was used; `None` if it is as small as it can be.
    fn smaller_request(&self, request: Request<'a>) -> Option<Table> {
        if !self.is_judged(request) || !self.is_used(request) {
            return None;
        }
        match request {
            Request::Files(name, files) => {
                let is_written = self.uses.contains(&Use::WriteFiles(name.to_owned()));
                let could_be = files.access == FilesAccess::ReadWrite && self.is_writable(request);
                (could_be && !is_written).then(|| Table::read_only(name, files))
            }
            Request::Secret(name, secret) => {
                let reveal = self.uses.contains(&Use::RevealedSecret(name.to_owned()));
                let audience = self.audience(name, secret);
                let is_smaller = audience.len() < secret.audience.len() || secret.reveal && !reveal;
                is_smaller.then(|| Table::secret(name, secret, &audience, reveal))
            }
            Request::Tools(tools) => {
                let used = self.ways(request).into_iter().filter(|(is_used, _)| *is_used);
                let used: Vec<_> = used.map(|(_, tool)| tool).collect();
                (used.len() < tools.call.len()).then(|| Table::tools(tools, &used))
            }
            _ => None,
        }
    }

    /// Returns whether the session's calls could write to a directory.
    pub(super) fn is_writable(&self, request: Request<'_>) -> bool {
        let Request::Files(name, _) = request else { return false };
        let requests = &self.build.manifest.request.files;
        self.build.grants.iter().any(|grant| {
            matches!(grant, GrantOption::Files { name: granted, may_write: true, .. }
                if granted == name || name == "*" && !requests.contains_key(granted))
        })
    }

    /// Returns the table of a called tool with smaller effects; `None` if they are as small as they
    /// can be.
    fn smaller_tool(&self, tool: &ToolEffects, kept: &[Request<'a>]) -> Option<Table> {
        if !self.session.succeeded.contains(&tool.name) {
            return None;
        }
        let needed = self.needed(tool, kept);
        let is_tight = on_each(&tool.effects, kept)
            .iter()
            .all(|declared| needed.iter().any(|effect| effect.includes(declared)));
        let is_valid =
            tool.effects.iter().all(|effect| kept.iter().any(|request| request.allows(effect)));
        (!is_tight || !is_valid).then(|| Table::tool(&tool.name, needed))
    }

    /// Returns the effects that a tool had, and those that it declares and could not have here.
    fn needed(&self, tool: &ToolEffects, kept: &[Request<'a>]) -> BTreeSet<DeclaredEffect> {
        let uses = self.session.uses.get(&tool.name);
        let had = uses
            .into_iter()
            .flatten()
            .filter_map(effect)
            .filter(|effect| !self.is_on_cache(effect));
        let unjudged = kept.iter().copied().filter(|request| {
            let is_read = match request {
                Request::Files(name, _) => {
                    let read = Use::ReadFiles((*name).to_owned());
                    uses.is_some_and(|uses| uses.contains(&read))
                }
                _ => false,
            };
            // It was granted for reading alone.
            if is_read { !self.is_writable(*request) } else { !self.was_possible(*request) }
        });
        let unjudged: Vec<_> = unjudged.collect();
        let mut needed: BTreeSet<_> = had.chain(on_each(&tool.effects, &unjudged)).collect();
        let all = needed.clone();
        needed.retain(|effect| !all.iter().any(|other| other != effect && other.includes(effect)));
        needed
    }

    fn is_on_cache(&self, declared: &DeclaredEffect) -> bool {
        let stores = &self.build.manifest.request.kv;
        let store = declared.request.as_ref().and_then(|name| stores.get(name));
        declared.effect.is_on_stores() && store.is_some_and(|store| store.cache)
    }
}

fn needs_wasi(request: &Request<'_>) -> bool {
    matches!(request, Request::Files(..) | Request::Scratch(_) | Request::Clocks(_))
}

/// Returns the effects on each of the requests that they are possible on.
fn on_each(effects: &BTreeSet<DeclaredEffect>, requests: &[Request<'_>]) -> Vec<DeclaredEffect> {
    let pairs =
        effects.iter().flat_map(|effect| requests.iter().map(move |request| (effect, request)));
    let possible = pairs.filter(|(effect, request)| request.allows(effect));
    possible.map(|(effect, request)| effect_on(effect, *request)).collect()
}

fn effect_on(declared: &DeclaredEffect, request: Request<'_>) -> DeclaredEffect {
    let effect = match (declared.effect, request) {
        (Effect::WriteFiles, Request::Files(_, files)) if files.access == FilesAccess::ReadOnly => {
            Effect::ReadFiles
        }
        (effect, _) => effect,
    };
    DeclaredEffect { effect, request: name(request).map(str::to_owned) }
}

/// Returns the effect that a use needs; `None` if it needs none.
fn effect(used: &Use) -> Option<DeclaredEffect> {
    let (effect, request) = match used {
        Use::Http(name) => (Effect::Http, Some(name)),
        Use::KnownSecret(name) | Use::AttachedSecret(name) | Use::RevealedSecret(name) => {
            (Effect::Secret, Some(name))
        }
        Use::ReadKv(name) => (Effect::ReadKv, Some(name)),
        Use::WriteKv(name) => (Effect::WriteKv, Some(name)),
        Use::ReadFiles(name) => (Effect::ReadFiles, Some(name)),
        Use::WriteFiles(name) => (Effect::WriteFiles, Some(name)),
        Use::Slot(name) => (Effect::CallTools, Some(name)),
        Use::Tool(_) => (Effect::CallTools, None),
        Use::Scratch | Use::Clocks | Use::Config => return None,
    };
    Some(DeclaredEffect { effect, request: request.cloned() })
}

/// Returns the name that an effect on the request has after its dot.
fn name(request: Request<'_>) -> Option<&str> {
    match request {
        Request::Http(name, _)
        | Request::Secret(name, _)
        | Request::Kv(name, _)
        | Request::Files(name, _)
        | Request::Slot(name, _) => Some(name),
        Request::Scratch(_) | Request::Tools(_) | Request::Clocks(_) => None,
    }
}

/// Returns the line that begins the table of a request.
fn header(request: Request<'_>) -> String {
    let kind = request.to_string();
    let kind = kind.split('.').next().unwrap_or_default();
    table::header(&[Some(kind), name(request)].into_iter().flatten().collect::<Vec<_>>())
}
