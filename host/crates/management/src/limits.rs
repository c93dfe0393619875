//! Budgets and rate limits with what is used of them; overrides of budgets, and resets. The limits themselves
//! are members of keys, groups, clients and limits on models.

mod describe;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::{Value, json};
use tracing::warn;

use self::describe::{budget, rate_limit};
use crate::{
    body,
    change::ConfigState,
    page::ListQuery,
    refusal::{Result, conflict, invalid, not_found},
    route::LimitOwner,
    service::Service,
};
use airlock_core::{
    act::Actor, door::Membership, money::Money, operator::Operator, tenant::Tenant, threads,
};
use airlock_limits::{
    LimitChangeError, LimitState, Limiter,
    limit::{Limit, Measure, Owner, Scope, Window},
};
use airlock_operator_api::ManagementRefusal;
use airlock_store::entries::{EntryKind, LimitChange};

/// Maximum windows of an override (`cycles`): almost three years of days. One that is to stay
/// longer has the `mode` "forever".
const MAX_CYCLES: u32 = 1_000;

/// A temporary raise of one budget.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewOverride {
    /// In US dollars.
    amount: f64,
    mode: OverrideMode,
    /// For [`OverrideMode::Cycles`].
    cycles: Option<u32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OverrideMode {
    /// For a number of windows, with the present one.
    Cycles,
    /// Until it is removed.
    Forever,
}

impl Service {
    /// Lists the budgets with what is used of them.
    pub(crate) async fn list_budgets(&self, query: &str) -> Result<Value> {
        let page = ListQuery::parse(query, &[])?;
        let limits = self.wanted_limits(&page, |measure| measure == Measure::Cost).await?;
        let states = self.states(&limits.iter().collect::<Vec<_>>()).await?;
        let describing = threads::run(&Tenant::GATEWAY, move || {
            let shown = limits.iter().zip(&states);
            let shown = shown.map(|(limit, found)| budget(limit, found.as_ref()));
            page.document("budgets", shown.collect())
        });
        Ok(describing.await)
    }

    /// Lists the other limits with what is used of them, those of one owner on the same requests and calls
    /// together.
    pub(crate) async fn list_rate_limits(&self, query: &str) -> Result<Value> {
        let page = ListQuery::parse(query, &[])?;
        let limits = self.wanted_limits(&page, |measure| measure != Measure::Cost).await?;
        let states = self.states(&limits.iter().collect::<Vec<_>>()).await?;
        let describing = threads::run(&Tenant::GATEWAY, move || {
            let groups = grouped(&limits.iter().collect::<Vec<_>>(), states);
            let shown = groups.iter().filter_map(|limits| rate_limit(limits));
            page.document("rate_limits", shown.collect())
        });
        Ok(describing.await)
    }

    /// Reads the limits of a list. Nothing else of the configuration is kept while their counts are read: requests that
    /// wait for the store have no place among those that read all of it.
    async fn wanted_limits(
        &self,
        page: &ListQuery,
        is_listed: fn(Measure) -> bool,
    ) -> Result<Vec<Limit>> {
        let mut limits = self.state().await?.merged.config.limits;
        limits.retain(|limit| is_listed(limit.measure) && is_wanted(page, limit));
        Ok(limits)
    }

    /// Shows a key the limits of its own, and what is used of them. The limits are those in force, so that the
    /// request, which every key may send, reads no configuration.
    pub(crate) async fn show_quota(&self, membership: &Membership) -> Result<Value> {
        let Some(key) = &membership.key else {
            return Err(invalid("send the virtual key whose limits are wanted"));
        };
        let limiter = self.limiter()?;
        let set = limiter.limits();
        let limits: Vec<_> = set.of_key(key).collect();
        let states = limiter.states_for(key, &ids(&limits)).await?;
        let states = in_order(&limits, states);
        let budgets =
            limits.iter().zip(&states).filter(|(limit, _)| limit.measure == Measure::Cost);
        let budgets = budgets.map(|(limit, found)| budget(limit, found.as_ref()));
        let budgets: Vec<_> = budgets.collect();
        let others = limits.iter().zip(states).filter(|(limit, _)| limit.measure != Measure::Cost);
        let (others, states): (Vec<&Limit>, Vec<_>) =
            others.map(|(limit, found)| (*limit, found)).unzip();
        let rates = grouped(&others, states);
        let rates: Vec<_> = rates.iter().filter_map(|limits| rate_limit(limits)).collect();
        Ok(json!({
            "virtual_key_id": key,
            "virtual_key_name": membership.key_name,
            "budgets": budgets,
            "rate_limits": rates,
        }))
    }

    /// Raises a budget for some windows, or until the override is removed.
    pub(crate) async fn set_override(
        &self,
        actor: &Operator,
        owner: LimitOwner,
        id: &str,
        budget_id: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        let new: NewOverride = body::read(body)?;
        let amount = amount(new.amount)?;
        let state = self.state().await?;
        let limit = owned_budget(&state, owner, id, budget_id)?;
        let windows = windows(&new, limit.window)?;
        let limiter = self.limiter()?;
        let after = json!({"amount": new.amount, "cycles": windows});
        self.record_limit(actor, "limit.override", limit, Some(&after)).await?;
        let set = limiter.set_override(&limit.id, amount.millionths(), windows).await;
        set.map_err(not_changed)?;
        self.show_budget(limit, "Budget override set successfully").await
    }

    /// Removes the override of a budget.
    pub(crate) async fn clear_override(
        &self,
        actor: &Operator,
        owner: LimitOwner,
        id: &str,
        budget_id: &str,
    ) -> Result<Value> {
        let state = self.state().await?;
        let limit = owned_budget(&state, owner, id, budget_id)?;
        let limiter = self.limiter()?;
        self.record_limit(actor, "limit.override_removed", limit, None).await?;
        limiter.clear_override(&limit.id).await.map_err(not_changed)?;
        self.show_budget(limit, "Budget override removed successfully").await
    }

    /// Forgets what was spent of the budgets of an element.
    pub(crate) async fn reset_budgets(
        &self,
        actor: &Operator,
        owner: LimitOwner,
        id: &str,
    ) -> Result<()> {
        let state = self.state().await?;
        let subject = LimitSubject::find(&state, owner, id)?;
        let limiter = self.limiter()?;
        let limits = state.merged.config.limits.iter();
        let limits: Vec<_> =
            limits.filter(|limit| limit.measure == Measure::Cost && subject.has(limit)).collect();
        for limit in &limits {
            self.record_limit(actor, "limit.reset", limit, None).await?;
        }
        let ids: Vec<_> = limits.iter().map(|limit| limit.id.as_str()).collect();
        limiter.reset(&ids).await.map_err(not_changed)
    }

    /// Forgets what removed limits have counted. A gateway that has not taken the change yet may count again,
    /// and does the same once it has.
    pub(crate) async fn forget_counts(&self, limits: BTreeSet<String>) {
        if limits.is_empty() {
            return;
        }
        let forgotten = match self.settings.database.available().await {
            Ok(database) => database.forget_counts(limits).await,
            Err(error) => Err(error),
        };
        if let Err(error) = forgotten {
            warn!(%error, "the counts of removed limits stay in the database");
        }
    }

    async fn show_budget(&self, limit: &Limit, message: &str) -> Result<Value> {
        let states = self.states(&[limit]).await?;
        let shown = budget(limit, states.first().and_then(Option::as_ref));
        let effective = shown["effective_max_limit"].clone();
        Ok(json!({"message": message, "budget": shown, "effective_max_limit": effective}))
    }

    /// Records a change of what a limit counts, before it is made.
    async fn record_limit(
        &self,
        actor: &Operator,
        action: &str,
        limit: &Limit,
        after: Option<&Value>,
    ) -> Result<()> {
        let change = LimitChange {
            actor: Actor::from(actor).to_string(),
            action: action.to_owned(),
            limit: limit.id.clone(),
            after: after.map(Value::to_string),
        };
        self.database().await?.record_limit_change(change).await?;
        Ok(())
    }

    /// Returns the states of limits, in the same order; `None` for those that are not in force.
    async fn states(&self, limits: &[&Limit]) -> Result<Vec<Option<LimitState>>> {
        let Some(limiter) = self.gateway.as_ref().and_then(|gateway| gateway.limiter()) else {
            return Ok(vec![None; limits.len()]);
        };
        let states = limiter.states(&ids(limits)).await?;
        Ok(in_order(limits, states))
    }

    /// Fails if nothing counts limits here.
    pub(crate) fn check_limiter(&self) -> Result<()> {
        self.limiter().map(drop)
    }

    fn limiter(&self) -> Result<&Limiter> {
        let limiter = self.gateway.as_ref().and_then(|gateway| gateway.limiter());
        limiter.ok_or_else(|| conflict("no gateway runs here that counts limits"))
    }
}

fn ids<'l>(limits: &[&'l Limit]) -> Vec<&'l str> {
    limits.iter().map(|limit| limit.id.as_str()).collect()
}

/// Returns states in the order of their limits; `None` for a limit without one.
fn in_order(limits: &[&Limit], states: Vec<LimitState>) -> Vec<Option<LimitState>> {
    let states = states.into_iter().map(|state| (state.id.clone(), state));
    let mut states: HashMap<_, _> = states.collect();
    limits.iter().map(|limit| states.remove(&limit.id)).collect()
}

/// Returns the refusal of a change of what a limit counts.
fn not_changed(error: LimitChangeError) -> ManagementRefusal {
    match error {
        LimitChangeError::Unavailable(error) => error.into(),
        LimitChangeError::Unknown(_) => {
            conflict("the gateway has not taken this limit yet; try again, or see its log")
        }
    }
}

/// The element whose limits are meant.
struct LimitSubject<'s> {
    /// Kind and name of the key, team or customer; `None` for all callers.
    owner: Option<(EntryKind, &'s str)>,
    scope: Scope,
}

impl<'s> LimitSubject<'s> {
    fn find(state: &'s ConfigState, owner: LimitOwner, id: &str) -> Result<Self> {
        let kind = owner.kind();
        let element = state.known(kind, id, owner.title())?;
        if owner != LimitOwner::Model {
            let owner = Some((kind, element.name.as_str()));
            return Ok(Self { owner, scope: Scope::All });
        }
        let value = element.value.as_ref().unwrap_or(&Value::Null);
        let provider = value["provider"].as_str().filter(|provider| *provider != "*");
        let provider = provider.map(str::to_owned);
        let model = value["model_name"].as_str().unwrap_or_default().to_owned();
        let key = value["scope_id"].as_str().filter(|id| !id.is_empty());
        let owner = key.map(|key| {
            let element = state.named(EntryKind::VirtualKey, key);
            (EntryKind::VirtualKey, element.map_or(key, |element| element.name.as_str()))
        });
        Ok(Self { owner, scope: Scope::Model { provider, model } })
    }

    /// Returns whether a limit is one of the element.
    fn has(&self, limit: &Limit) -> bool {
        limit.scope == self.scope && owner(limit) == self.owner
    }
}

/// Returns the kind and the name of the owner of a limit; `None` for all callers.
fn owner(limit: &Limit) -> Option<(EntryKind, &str)> {
    let kind = match limit.owner {
        Owner::Everyone => return None,
        Owner::Key(_) => EntryKind::VirtualKey,
        Owner::Team(_) => EntryKind::Team,
        Owner::Customer(_) => EntryKind::Customer,
    };
    Some((kind, limit.owner_name.as_deref()?))
}

/// Returns whether the owner of a limit is one that a list is to have.
fn is_wanted(page: &ListQuery, limit: &Limit) -> bool {
    page.matches(limit.owner_name.as_deref().unwrap_or_default())
}

/// Finds a budget of an element by its identifier.
fn owned_budget<'s>(
    state: &'s ConfigState,
    owner: LimitOwner,
    id: &str,
    budget_id: &str,
) -> Result<&'s Limit> {
    let subject = LimitSubject::find(state, owner, id)?;
    let mut limits = state.merged.config.limits.iter();
    let found = limits.find(|limit| {
        limit.id == budget_id && limit.measure == Measure::Cost && subject.has(limit)
    });
    found.ok_or_else(|| {
        not_found("Budget not found; GET /api/governance/budgets has the identifiers")
    })
}

/// Groups limits by their owner and by what they count.
fn grouped<'l>(
    limits: &[&'l Limit],
    states: Vec<Option<LimitState>>,
) -> Vec<Vec<(&'l Limit, Option<LimitState>)>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for (limit, found) in limits.iter().zip(states) {
        groups.entry((&limit.owner, &limit.scope)).or_default().push((*limit, found));
    }
    groups.into_values().collect()
}

fn amount(amount: f64) -> Result<Money> {
    Money::from_dollars(amount).filter(|_| amount > 0.0).ok_or_else(|| {
        let most = Money::MOST_DOLLARS;
        invalid(format!("`amount` must be above 0, and at most {most} US dollars; found {amount}"))
    })
}

/// Returns the number of windows of an override; `None` if it stays until it is removed.
fn windows(new: &NewOverride, window: Window) -> Result<Option<u32>> {
    match (new.mode, new.cycles) {
        (OverrideMode::Cycles, _) if window == Window::Never => {
            Err(invalid("this budget has one window without end; use the `mode` \"forever\""))
        }
        (OverrideMode::Forever, None) => Ok(None),
        (OverrideMode::Forever, Some(_)) => {
            Err(invalid("`cycles` belongs to the `mode` \"cycles\""))
        }
        (OverrideMode::Cycles, Some(cycles)) if (1..=MAX_CYCLES).contains(&cycles) => {
            Ok(Some(cycles))
        }
        (OverrideMode::Cycles, found) => {
            let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
            Err(invalid(format!("`cycles` must be from 1 to {MAX_CYCLES}, found {found}")))
        }
    }
}

#[cfg(test)]
mod tests;
