//! The record of a call that waits: its request, the decision, its use, and its expiry.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::*;
use crate::approvals::{Approvals, Call, Decision};
use airlock_core::{
    act::{Act, ActKind, ActRecord, Actor, Acts},
    tenant::Tenant,
    tool::{Allowlist, ClientName, GuardQuestions, Policy, Prefix, SourceSet},
};
use airlock_store::{LazyDatabase, approvals::DecisionOutcome};

/// A record that keeps what it is given.
#[derive(Default)]
struct KeptActs(Mutex<Vec<Act>>);

impl ActRecord for KeptActs {
    fn record(&self, act: Act) {
        self.0.lock().push(act);
    }

    fn record_before(&self, act: Act) -> BoxFuture<'_, bool> {
        self.record(act);
        Box::pin(std::future::ready(true))
    }
}

/// Asks for the decision about a call. Returns the identifier under which it waits.
async fn waiting(approvals: &Approvals, call: &Call<'_>) -> String {
    match approvals.decision(call, Duration::ZERO).await {
        ApprovalVerdict::Waiting(id) => id,
        decided => panic!("{decided:?}"),
    }
}

#[tokio::test]
async fn each_step_of_a_call_that_waits_is_recorded_and_so_is_its_expiry() {
    let directory = tempfile::tempdir().expect("a directory");
    let hours = Arc::new(AtomicU64::new(0));
    let shown = hours.clone();
    let file = airlock_store::Settings {
        clock: Arc::new(move || {
            SystemTime::UNIX_EPOCH + Duration::from_hours(shown.load(Ordering::Relaxed))
        }),
        ..airlock_store::Settings::new(directory.path().join("airlock.db"))
    };
    let kept = Arc::new(KeptActs::default());
    let approvals = Approvals::new(LazyDatabase::new(file)).with_acts(Acts::new(kept.clone()));
    let caller = caller(&Filter::none());
    let call = Call {
        entry: caller.view().find(&Origin::Model, "desk-write").expect("it is there"),
        arguments: "{}",
        tenant: &Tenant::ANONYMOUS,
        client: None,
        origin: Origin::Model.name(),
        is_for_operators: false,
        sources: &SourceSet::default(),
        asked_by: &GuardQuestions::new(),
    };

    let id = waiting(&approvals, &call).await;
    assert_eq!(waiting(&approvals, &call).await, id, "it is sent again, and recorded once");
    let list = approvals.database().await.expect("it is open").all_approvals();
    let found = list.find(&id).await.expect("read").expect("it waits");
    let actor = Actor::Operator("bob".to_owned());
    let decision = Decision { approves: true, actor: &actor, reason: None };
    let decided = approvals.decide_and_record(&list, &found, &decision).await;
    assert_eq!(decided.expect("written"), DecisionOutcome::Decided);
    let verdict = approvals.decision(&call, Duration::ZERO).await;
    assert_eq!(verdict, ApprovalVerdict::Approved(Some("operator \"bob\"".to_owned())));

    let second = waiting(&approvals, &call).await;
    hours.store(2, Ordering::Relaxed);
    assert_ne!(waiting(&approvals, &call).await, second, "the first one has expired");
    let acts = kept.0.lock();
    let kinds: Vec<_> = acts.iter().map(|act| act.kind).collect();
    let expected = [
        ActKind::ApprovalAsked,
        ActKind::ApprovalGranted,
        ActKind::ApprovalUsed,
        ActKind::ApprovalAsked,
        ActKind::ApprovalExpired,
        ActKind::ApprovalAsked,
    ];
    assert_eq!(kinds, expected);
    assert_eq!((&acts[1].actor, &acts[1].object), (&actor, &id));
    assert!(acts[2].details.contains(&("decided_by", "operator \"bob\"".to_owned())));
    assert_eq!((&acts[4].actor, &acts[4].object), (&Actor::Gateway, &second));
    assert!(acts[4].details.contains(&("decision", "none".to_owned())));
}

#[tokio::test]
async fn a_call_that_waits_has_the_full_name_of_its_tool_whatever_the_prefix_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = airlock_store::Settings::new(directory.path().join("airlock.db"));
    let approvals = Approvals::new(LazyDatabase::new(file));
    let (catalog, _) = fake::catalog();
    let desk = ClientName::parse("desk").expect("a good name");
    let policy = Policy { execute: Allowlist::All, prefix: Prefix::Off, ..Policy::default() };
    catalog.set_policy(&desk, policy);
    let view = catalog.snapshot().view(&Filter::none(), None);
    let call = Call {
        entry: view.find(&Origin::Model, "write").expect("it is there"),
        arguments: "{}",
        tenant: &Tenant::ANONYMOUS,
        client: None,
        origin: Origin::Model.name(),
        is_for_operators: false,
        sources: &SourceSet::default(),
        asked_by: &GuardQuestions::new(),
    };
    let id = waiting(&approvals, &call).await;
    let list = approvals.database().await.expect("it is open").all_approvals();
    let found = list.find(&id).await.expect("read").expect("it waits");
    assert_eq!(crate::approvals::tool_of(&found), "desk-write");
}
