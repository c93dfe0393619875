//! The events of a gateway for its operators: what its parts tell goes to the bus, from which streams read.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::sleep;

use airlock_catalog::Catalog;
use airlock_core::act::{Act, ActKind, ActRecord, Acts};
use airlock_operator_api::{EventBus, Topic};
use airlock_scripts::runs::Runs;
use airlock_store::{LazyDatabase, changes::ChangeKind};

/// Interval at which a store that does not exist is looked for, and between two attempts to follow it.
const LOOK: Duration = Duration::from_secs(1);
/// Least time between two events about sources of tools, which may change many times a second.
const LEAST_INTERVAL: Duration = Duration::from_millis(500);

/// Publishes acts before they are recorded.
struct PublishedActs {
    bus: Arc<EventBus>,
    next: Acts,
}

impl PublishedActs {
    fn publish(&self, act: &Act) {
        if let Some(state) = approval_state(act) {
            self.bus.publish(
                Topic::Approvals,
                || json!({"id": call_of(act), "state": state, "tool": detail(act, "tool")}),
            );
        }
    }
}

/// Returns the identifier that lists have of the call of an act.
fn call_of(act: &Act) -> String {
    match detail(act, "position") {
        Some(position) => format!("{}:{position}", act.object),
        None => act.object.clone(),
    }
}

fn detail<'a>(act: &'a Act, name: &str) -> Option<&'a String> {
    act.details.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
}

impl ActRecord for PublishedActs {
    fn record(&self, act: Act) {
        self.publish(&act);
        self.next.record(|| act);
    }

    fn record_before(&self, act: Act) -> BoxFuture<'_, bool> {
        self.publish(&act);
        Box::pin(self.next.record_before(act))
    }
}

/// Returns the state of a call after an act; `None` if the act is not about one that waits.
fn approval_state(act: &Act) -> Option<&'static str> {
    Some(match act.kind {
        // The first of two approvals: the call still waits.
        ActKind::ApprovalGranted if detail(act, "approval").is_some() => "first_approval",
        ActKind::ApprovalAsked => "pending",
        ActKind::ApprovalGranted => "approved",
        ActKind::ApprovalDenied => "denied",
        ActKind::ApprovalUsed => "used",
        ActKind::ApprovalExpired => "expired",
        _ => return None,
    })
}

/// Returns the record of acts about calls that wait, which publishes them before it hands them to `next`.
pub(super) fn published(bus: &Arc<EventBus>, next: Acts) -> Acts {
    Acts::new(Arc::new(PublishedActs { bus: bus.clone(), next }))
}

/// Returns the same runs of scripts, published when they begin and stop in this process. Decisions about their calls are
/// published before they are recorded in `acts`.
pub(super) fn published_runs(bus: &Arc<EventBus>, runs: &Runs, acts: &Acts) -> Runs {
    let runs = runs.with_acts(published(bus, acts.clone()));
    let bus = bus.clone();
    runs.observe(Arc::new(move |id: &str, is_running: bool| {
        let state = if is_running { "running" } else { "stopped" };
        bus.publish(Topic::Runs, || json!({"id": id, "state": state}));
    }));
    runs
}

/// Publishes changes of the sources of tools. Returns once the catalog is gone.
pub(super) async fn follow_catalog(bus: Arc<EventBus>, catalog: Arc<Catalog>) {
    let mut changes = catalog.changes();
    while changes.changed().await.is_ok() {
        bus.publish(Topic::Upstreams, || json!({"change": "list"}));
        sleep(LEAST_INTERVAL).await;
    }
}

/// Publishes changes of the store, which any gateway has made. Never returns.
pub(super) async fn follow_store(bus: Arc<EventBus>, database: LazyDatabase) -> Infallible {
    loop {
        if !database.location().is_missing_file()
            && let Ok(opened) = database.open().await
        {
            let mut changes = opened.changes();
            while let Some(kinds) = changes.next().await {
                for kind in kinds {
                    publish_change(&bus, kind);
                }
            }
        }
        sleep(LOOK).await;
    }
}

fn publish_change(bus: &EventBus, kind: ChangeKind) {
    match kind {
        ChangeKind::Approvals => bus.publish(Topic::Approvals, || json!({"change": "list"})),
        ChangeKind::Config
        | ChangeKind::Keys
        | ChangeKind::Logins
        | ChangeKind::Operators
        | ChangeKind::Pins => bus.publish(Topic::Config, || json!({"change": kind.name()})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::act::Actor;

    fn act(kind: ActKind) -> Act {
        Act::new(kind, Actor::Gateway, "run_1")
    }

    #[test]
    fn only_acts_about_calls_that_wait_have_a_state() {
        assert_eq!(approval_state(&act(ActKind::ApprovalAsked)), Some("pending"));
        assert_eq!(approval_state(&act(ActKind::ApprovalExpired)), Some("expired"));
        for kind in [ActKind::ConfigChanged, ActKind::OperatorLoggedIn, ActKind::ToolTried] {
            assert_eq!(approval_state(&act(kind)), None, "{kind:?}");
        }
    }

    #[test]
    fn the_first_of_two_approvals_is_no_approval_and_a_call_of_a_script_has_its_position() {
        let approved = act(ActKind::ApprovalGranted);
        assert_eq!((approval_state(&approved), &*call_of(&approved)), (Some("approved"), "run_1"));
        let first = act(ActKind::ApprovalGranted).with("approval", "first of two");
        assert_eq!(approval_state(&first), Some("first_approval"));
        assert_eq!(call_of(&act(ActKind::ApprovalGranted).with("position", "2.1")), "run_1:2.1");
    }
}
