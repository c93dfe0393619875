//! All limits of a gateway, found by the identifiers of a caller.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use airlock_core::{
    door::{Admitted, Membership},
    tool::Tool,
};

use crate::{
    limit::{Limit, Measure, Owner, Scope},
    live::LiveLimit,
};

/// The limits of a gateway. The default has none.
#[derive(Debug, Clone, Default)]
pub struct LimitSet {
    by_id: BTreeMap<String, Arc<LiveLimit>>,
    everyone: Vec<Arc<LiveLimit>>,
    keys: HashMap<String, Vec<Arc<LiveLimit>>>,
    teams: HashMap<String, Vec<Arc<LiveLimit>>>,
    customers: HashMap<String, Vec<Arc<LiveLimit>>>,
}

impl LimitSet {
    /// Collects limits, with the state in memory that those with the same identifiers have in an older set. Of
    /// two with the same identifier, the later one is kept; the configuration refuses that case.
    pub(crate) fn continuing(older: &Self, limits: &[Limit]) -> Self {
        let limits = limits.iter().map(|limit| {
            let local = older.find(&limit.id).map(|older| older.local.clone()).unwrap_or_default();
            (limit.id.clone(), Arc::new(LiveLimit { limit: limit.clone(), local }))
        });
        let mut set = Self { by_id: limits.collect(), ..Self::default() };
        // In the order of identifiers, in which they are taken.
        for limit in set.by_id.values() {
            let of_owner = match &limit.limit.owner {
                Owner::Everyone => &mut set.everyone,
                Owner::Key(id) => set.keys.entry(id.clone()).or_default(),
                Owner::Team(id) => set.teams.entry(id.clone()).or_default(),
                Owner::Customer(id) => set.customers.entry(id.clone()).or_default(),
            };
            of_owner.push(limit.clone());
        }
        set
    }

    /// Returns the limits that are higher or lower than in an older set.
    pub(crate) fn changed_since<'s>(
        &'s self,
        older: &'s Self,
    ) -> impl Iterator<Item = &'s Arc<LiveLimit>> {
        self.by_id.iter().filter_map(|(id, limit)| {
            let before = older.by_id.get(id)?;
            (before.limit.most != limit.limit.most).then_some(limit)
        })
    }

    /// Returns the limits that apply to a caller, each once.
    pub(crate) fn of_caller<'s>(
        &'s self,
        membership: &Membership,
    ) -> impl Iterator<Item = &'s Arc<LiveLimit>> {
        let groups = [
            find(&self.keys, membership.key.as_deref()),
            find(&self.teams, membership.team.as_deref()),
            find(&self.customers, membership.customer.as_deref()),
        ];
        self.everyone.iter().chain(groups.into_iter().flatten())
    }

    /// Iterates over all limits.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<LiveLimit>> {
        self.by_id.values()
    }

    /// Returns the limit with an identifier.
    pub(crate) fn find(&self, id: &str) -> Option<&Arc<LiveLimit>> {
        self.by_id.get(id)
    }

    /// Iterates over the limits of a virtual key, by its identifier.
    pub fn of_key(&self, id: &str) -> impl Iterator<Item = &Limit> {
        find(&self.keys, Some(id)).iter().map(|limit| &limit.limit)
    }

    /// Iterates over the limits, in the order of their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = &Limit> {
        self.by_id.values().map(|limit| &limit.limit)
    }
}

/// Looks a caller's group up, and does not hash its name if no group has a limit.
fn find<'s>(
    groups: &'s HashMap<String, Vec<Arc<LiveLimit>>>,
    id: Option<&str>,
) -> &'s [Arc<LiveLimit>] {
    let found = id.filter(|_| !groups.is_empty()).and_then(|id| groups.get(id));
    found.map_or(&[], Vec::as_slice)
}

impl Limit {
    /// Returns whether the limit counts a call of a tool.
    pub(crate) fn counts_call(&self, call: &Admitted) -> bool {
        let counts_calls = self.measure.is_of_calls_alone()
            || matches!(self.measure, Measure::Cost | Measure::Concurrency);
        // A call in the place of another one costs its own price, as that of the other may be nothing, and sends its
        // arguments to a second source.
        let counts_both = matches!(self.measure, Measure::Cost | Measure::ArgumentBytes);
        let is_substitute = call.is_substitute() && !counts_both;
        counts_calls && self.scope.has_call(call.tool(), is_substitute)
    }

    /// Returns whether the limit counts a request to a model.
    pub(crate) fn counts_request(&self, provider: Option<&str>, model: &str) -> bool {
        !self.measure.is_of_calls_alone() && self.scope.has_request(provider, model)
    }
}

impl Scope {
    /// Returns whether a call is in the scope. One that takes the place of another call is the same call
    /// for a scope that has both: it counts for its own tool and client alone.
    fn has_call(&self, tool: &Tool, is_substitute: bool) -> bool {
        // The gateway's own tools, such as those of code mode, belong to no client.
        let Some(own_client) = &tool.client else { return false };
        match self {
            Self::All => !is_substitute,
            Self::Client(client) => client == own_client.as_str(),
            Self::Tool(name) => name == tool.full_name.as_str(),
            Self::Model { .. } => false,
        }
    }

    /// Returns whether a request to a model is in the scope. Without the name of a provider, it may be that
    /// of any. Names are compared without case, and without the folder in which Gemini's API has them: providers
    /// accept both.
    fn has_request(&self, provider: Option<&str>, model: &str) -> bool {
        match self {
            Self::All => true,
            Self::Model { provider: of_provider, model: of_model } => {
                let is_provider = match (of_provider, provider) {
                    (Some(limited), Some(asked)) => limited.eq_ignore_ascii_case(asked),
                    _ => true,
                };
                is_provider
                    && (of_model == "*" || below(of_model).eq_ignore_ascii_case(below(model)))
            }
            Self::Client(_) | Self::Tool(_) => false,
        }
    }
}

/// Returns the name of a model below the folder of all models, if it has that.
pub(crate) fn below(model: &str) -> &str {
    const FOLDER: &str = "models/";
    match model.split_at_checked(FOLDER.len()) {
        Some((folder, name)) if folder.eq_ignore_ascii_case(FOLDER) => name,
        _ => model,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use airlock_core::tool::ClientName;
    use serde_json::json;

    use super::*;
    use crate::limit::Window;

    fn limit(id: &str, owner: Owner) -> Limit {
        let window = Window::Rolling(Duration::from_mins(1));
        Limit {
            id: id.into(),
            owner,
            owner_name: None,
            scope: Scope::All,
            measure: Measure::Requests,
            most: 1,
            window,
        }
    }

    fn set(limits: &[Limit]) -> LimitSet {
        LimitSet::continuing(&LimitSet::default(), limits)
    }

    fn ids(set: &LimitSet, membership: &Membership) -> Vec<String> {
        set.of_caller(membership).map(|limit| limit.limit.id.clone()).collect()
    }

    #[test]
    fn a_caller_has_the_limits_of_everyone_of_its_key_and_of_its_groups() {
        let set = set(&[
            limit("a", Owner::Key("k".into())),
            limit("b", Owner::Key("other".into())),
            limit("c", Owner::Team("t".into())),
            limit("d", Owner::Customer("k".into())),
            limit("e", Owner::Everyone),
        ]);
        assert_eq!(ids(&set, &Membership::default()), ["e"]);
        let key = Membership { key: Some("k".into()), ..Membership::default() };
        assert_eq!(ids(&set, &key), ["e", "a"]);
        let all = Membership { team: Some("t".into()), customer: Some("k".into()), ..key };
        assert_eq!(ids(&set, &all), ["e", "a", "c", "d"]);
    }

    #[test]
    fn a_change_of_the_limits_keeps_what_runs() {
        let limits = ["a", "b"].map(|id| limit(id, Owner::Everyone));
        let older = set(&limits[..1]);
        let running = older.find("a").expect("it is there").local.begin(1);
        let newer = LimitSet::continuing(&older, &limits);
        assert_eq!(newer.find("a").expect("it is there").local.running(), 1);
        drop(running);
        assert_eq!(newer.find("a").expect("it is there").local.running(), 0);
    }

    fn scope(provider: Option<&str>, model: &str) -> Scope {
        Scope::Model { provider: provider.map(str::to_owned), model: model.to_owned() }
    }

    #[test]
    fn the_gateways_own_tools_are_in_no_scope_and_a_substitute_is_in_its_own_alone() {
        let run = Tool::own("executeToolCode", "", json!({"type": "object"}));
        let tool = Scope::Tool("executeToolCode".to_owned());
        assert!(!Scope::All.has_call(&run, false) && !tool.has_call(&run, false));
        let client = ClientName::parse("files").expect("a name");
        let definition = json!({"name": "read", "inputSchema": {}});
        let definition = serde_json::from_value(definition).expect("a definition");
        let read = Tool::adopt(&client, definition).expect("a good tool");
        let client = Scope::Client("files".to_owned());
        let tool = Scope::Tool("files-read".to_owned());
        assert!([&Scope::All, &client, &tool].iter().all(|scope| scope.has_call(&read, false)));
        assert!([&client, &tool].iter().all(|scope| scope.has_call(&read, true)));
        assert!(!Scope::All.has_call(&read, true), "the call that it replaces is counted");
        assert!(!Scope::Tool("files-write".to_owned()).has_call(&read, false));
    }

    #[test]
    fn a_limit_of_a_model_counts_requests_that_name_it_in_any_way() {
        assert!(scope(None, "m").has_request(Some("p"), "M"));
        assert!(scope(Some("p"), "m").has_request(Some("p"), "models/m"));
        assert!(scope(Some("p"), "models/m").has_request(Some("p"), "m"));
        assert!(scope(Some("p"), "m").has_request(Some("p"), "Models/M"));
        assert!(scope(Some("p"), "m").has_request(None, "m"), "it may be of this provider");
        assert!(scope(Some("p"), "*").has_request(Some("P"), "x"));
        assert!(!scope(Some("p"), "*").has_request(Some("q"), "x"));
        assert!(!scope(None, "m").has_request(Some("p"), "m2"));
        assert!(!Scope::Tool("m".into()).has_request(None, "m"));
    }
}
