//! The smallest effects with which the calls of a tool still succeed.

use std::collections::BTreeSet;

use super::request_uses::RequestUses;
use airlock_plugin::{FilesAccess, Request, ToolEffects};
use airlock_sandbox::{DeclaredEffect, Effect, Use};

impl<'a> RequestUses<'a> {
    /// Returns the smallest effects of a tool on the requests that stay; `None` if it has no successful
    /// call, or if its effects are as small as they can be.
    pub(super) fn smaller_effects(
        &self,
        tool: &ToolEffects,
        kept: &[Request<'a>],
    ) -> Option<BTreeSet<DeclaredEffect>> {
        if !self.calls.succeeded.contains(&tool.name) {
            return None;
        }
        let needed = self.needed_effects(tool, kept);
        let is_tight = on_each(&tool.effects, kept)
            .iter()
            .all(|declared| needed.iter().any(|effect| effect.includes(declared)));
        let is_valid =
            tool.effects.iter().all(|effect| kept.iter().any(|request| request.allows(effect)));
        (!is_tight || !is_valid).then_some(needed)
    }

    /// Returns the effects that a tool had, and those that it declares and could not have here.
    fn needed_effects(&self, tool: &ToolEffects, kept: &[Request<'a>]) -> BTreeSet<DeclaredEffect> {
        let uses = self.calls.uses.get(&tool.name);
        let had = uses.into_iter().flatten().filter_map(needed_effect);
        let had = had.filter(|effect| !self.is_on_cache(effect));
        let unjudged = kept.iter().copied().filter(|request| match request {
            // It was granted for reading alone.
            Request::Files(name, _)
                if uses.is_some_and(|uses| uses.contains(&Use::ReadFiles((*name).to_owned()))) =>
            {
                !self.is_writable(*request)
            }
            _ => !self.was_possible(*request),
        });
        let unjudged: Vec<_> = unjudged.collect();
        let all: BTreeSet<_> = had.chain(on_each(&tool.effects, &unjudged)).collect();
        let needed = all
            .iter()
            .filter(|effect| !all.iter().any(|other| other != *effect && other.includes(effect)));
        needed.cloned().collect()
    }

    fn is_on_cache(&self, declared: &DeclaredEffect) -> bool {
        let stores = &self.build.manifest.request.kv;
        let store = declared.request.as_ref().and_then(|name| stores.get(name));
        declared.effect.is_on_stores() && store.is_some_and(|store| store.cache)
    }
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
    DeclaredEffect { effect, request: request.name().map(str::to_owned) }
}

/// Returns the effect that a use needs; `None` if it needs none.
fn needed_effect(used: &Use) -> Option<DeclaredEffect> {
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
