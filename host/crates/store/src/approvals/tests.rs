use super::{
    DecisionOutcome::{Decided, First, NotWaiting, SameActor},
    *,
};
use crate::tests::home::{TestHome, on_both};

const ANN: OwnerId = [1; 32];
const BOB: OwnerId = [2; 32];
const LIFE: Duration = Duration::from_mins(1);

struct Test {
    database: Database,
    home: TestHome,
}

impl Test {
    async fn new(home: TestHome) -> Self {
        Self { database: home.open().await, home }
    }

    async fn ask(&self, scope: OwnerId, call: u8, id: &str) -> CallVerdict {
        self.ask_with(scope, call, id, "{}").await
    }

    async fn ask_with(&self, scope: OwnerId, call: u8, id: &str, text: &str) -> CallVerdict {
        let asked = self.database.ask_approval(scope, [call; 32], id.into(), text.into(), LIFE);
        asked.await.expect("it is usable").verdict
    }

    async fn ids(&self, limit: u32, offset: u32) -> (Vec<String>, bool) {
        let listed = self.database.all_approvals().list(limit, offset).await.expect("usable");
        (listed.calls.into_iter().map(|call| call.id).collect(), listed.has_more)
    }
}

fn by_ann(id: &str) -> UsedDecision {
    UsedDecision { id: id.to_owned(), decided_by: Some("ann".to_owned()), reason: None }
}

fn decision(approves: bool, actor: &str) -> NewDecision {
    NewDecision { approves, actor: actor.to_owned(), reason: None, needs_two: false }
}

/// Returns the approval of a call that needs two.
fn one_of_two(actor: &str) -> NewDecision {
    NewDecision { needs_two: true, ..decision(true, actor) }
}

async fn decide(list: &Approvals, id: &str, decision: NewDecision) -> DecisionOutcome {
    list.decide(id, decision).await.expect("it is usable")
}

fn waiting(id: &str) -> CallVerdict {
    CallVerdict::Waiting(id.to_owned())
}

on_both! {
    a_repeated_call_is_the_same_one_and_uses_its_decision_once,
    a_call_expires_with_its_decision_and_an_owner_has_a_bounded_number,
    an_approval_that_has_expired_is_not_used_however_many_others_have_expired,
    owners_take_turns_in_the_list,
    two_actors_approve_a_call_that_needs_both_and_one_denies_it,
    of_two_actors_who_decide_at_the_same_time_one_is_first,
    a_part_of_the_list_has_a_bounded_size_and_begins_with_a_call_of_each_owner,
}

async fn a_repeated_call_is_the_same_one_and_uses_its_decision_once(home: TestHome) {
    let test = Test::new(home).await;
    assert_eq!(test.ask(ANN, 1, "a").await, waiting("a"));
    assert_eq!(test.ask(ANN, 1, "b").await, waiting("a"));
    assert_eq!(test.ask(BOB, 1, "c").await, waiting("c"));
    let own = test.database.approvals(ANN);
    assert_eq!(decide(&own, "c", decision(true, "ann")).await, NotWaiting, "of another owner");
    assert_eq!(own.find("c").await.expect("usable"), None);
    assert_eq!(own.find("a").await.expect("usable").map(|call| call.approved), Some(None));
    assert!(own.is_waiting("a").await.expect("usable"));
    assert_eq!(decide(&own, "a", decision(true, "ann")).await, Decided);
    assert!(!own.is_waiting("a").await.expect("usable"));
    assert_eq!(decide(&own, "a", decision(false, "ann")).await, NotWaiting, "it is decided");
    assert_eq!(test.ask(ANN, 1, "d").await, CallVerdict::Approved(by_ann("a")));
    assert_eq!(test.ask(ANN, 1, "e").await, waiting("e"));
    let reason = Some("not today".to_owned());
    let denial = NewDecision { reason: reason.clone(), ..decision(false, "ann") };
    let all = test.database.all_approvals();
    assert_eq!(all.waiting_count().await.expect("usable"), 2);
    assert_eq!(decide(&all, "e", denial).await, Decided);
    assert_eq!(all.waiting_count().await.expect("usable"), 1, "the other one of bob");
    assert_eq!(own.waiting_count().await.expect("usable"), 0);
    let shown = all.find("e").await.expect("usable").expect("its decision is unused");
    assert_eq!((shown.approved, &shown.reason), (Some(false), &reason));
    let denied = UsedDecision { reason, ..by_ann("e") };
    assert_eq!(test.ask(ANN, 1, "f").await, CallVerdict::Denied(denied));
    assert_eq!(test.ask(BOB, 1, "g").await, waiting("c"), "no decision reached it");
}

async fn a_call_expires_with_its_decision_and_an_owner_has_a_bounded_number(home: TestHome) {
    let test = Test::new(home).await;
    assert_eq!(test.ask(ANN, 1, "a").await, waiting("a"));
    let all = test.database.all_approvals();
    assert_eq!(decide(&all, "a", decision(true, "ann")).await, Decided);
    assert_eq!(all.list(9, 0).await.expect("usable").calls[0].approved, Some(true));
    test.home.clock.pass(LIFE);
    assert_eq!(all.list(9, 0).await.expect("usable").calls, []);
    let expired = test.database.remove_expired_approvals().await.expect("usable");
    assert_eq!(expired.len(), 1);
    assert_eq!((expired[0].id.as_str(), expired[0].approved), ("a", Some(true)));
    assert_eq!(test.database.remove_expired_approvals().await.expect("usable"), []);
    assert_eq!(test.ask(ANN, 1, "b").await, waiting("b"), "the approval has expired");
    for call in 2..=64 {
        assert_eq!(test.ask(ANN, call, &call.to_string()).await, waiting(&call.to_string()));
    }
    assert_eq!(test.ask(ANN, 65, "65").await, CallVerdict::Full);
    assert_eq!(test.ask(ANN, 64, "x").await, waiting("64"));
    assert_eq!(test.ask(BOB, 65, "y").await, waiting("y"));
    let own = test.database.approvals(ANN).list(100, 0).await.expect("usable");
    assert_eq!((own.calls.len(), own.has_more), (64, false));
}

async fn owners_take_turns_in_the_list(home: TestHome) {
    let test = Test::new(home).await;
    for (scope, call, id) in
        [(ANN, 1, "a1"), (ANN, 2, "a2"), (ANN, 3, "a3"), (BOB, 1, "b1"), (BOB, 2, "b2")]
    {
        assert_eq!(test.ask(scope, call, id).await, waiting(id));
        test.home.clock.pass(Duration::from_secs(1));
    }
    let all = ["a1", "b1", "a2", "b2", "a3"].map(str::to_owned);
    assert_eq!(test.ids(5, 0).await, (all.to_vec(), false));
    assert_eq!(test.ids(2, 0).await, (all[..2].to_vec(), true));
    assert_eq!(test.ids(2, 2).await, (all[2..4].to_vec(), true));
    assert_eq!(test.ids(2, 4).await, (all[4..].to_vec(), false));
    assert_eq!(test.ids(2, 5).await, (Vec::new(), false));
}

async fn a_part_of_the_list_has_a_bounded_size_and_begins_with_a_call_of_each_owner(
    home: TestHome,
) {
    let test = Test::new(home).await;
    let long = "x".repeat(64 << 10);
    for scope in 10..19 {
        for call in 0..16 {
            let id = format!("{scope}-{call}");
            assert_eq!(test.ask_with([scope; 32], call, &id, &long).await, waiting(&id));
        }
    }
    test.home.clock.pass(Duration::from_secs(1));
    assert_eq!(test.ask(ANN, 1, "late").await, waiting("late"));
    let (first, has_more) = test.ids(1_000, 0).await;
    assert_eq!((first.len(), has_more), (128, true), "8 MiB, with a short one");
    assert_eq!(first[9], "late");
    let (rest, has_more) = test.ids(1_000, 128).await;
    assert_eq!((rest.len(), has_more), (17, false));
}

async fn two_actors_approve_a_call_that_needs_both_and_one_denies_it(home: TestHome) {
    let test = Test::new(home).await;
    let all = test.database.all_approvals();
    assert_eq!(test.ask(ANN, 1, "a").await, waiting("a"));
    assert_eq!(decide(&all, "a", one_of_two("ann")).await, First);
    assert_eq!(decide(&all, "a", one_of_two("ann")).await, SameActor);
    assert_eq!(test.ask(ANN, 1, "b").await, waiting("a"), "it still waits");
    let shown = all.find("a").await.expect("usable").expect("it waits");
    assert_eq!((shown.approved, shown.decided_by.as_deref()), (None, Some("ann")));
    assert_eq!(decide(&all, "a", one_of_two("bob")).await, Decided);
    let both = UsedDecision { decided_by: Some("ann\nbob".to_owned()), ..by_ann("a") };
    assert_eq!(test.ask(ANN, 1, "b").await, CallVerdict::Approved(both));
    assert_eq!(test.ask(ANN, 2, "c").await, waiting("c"));
    assert_eq!(decide(&all, "c", one_of_two("bob")).await, First);
    assert_eq!(
        decide(&all, "c", NewDecision { approves: false, ..one_of_two("ann") }).await,
        Decided
    );
    assert_eq!(test.ask(ANN, 2, "d").await, CallVerdict::Denied(by_ann("c")));
    assert_eq!(all.count().await.expect("usable"), 0);
}

async fn of_two_actors_who_decide_at_the_same_time_one_is_first(home: TestHome) {
    let test = Test::new(home).await;
    let all = test.database.all_approvals();
    assert_eq!(test.ask(ANN, 1, "a").await, waiting("a"));
    let approving = decide(&all, "a", decision(true, "ann"));
    let denying = decide(&all, "a", decision(false, "bob"));
    let (one, other) = tokio::join!(approving, denying);
    assert!(matches!((one, other), (Decided, NotWaiting) | (NotWaiting, Decided)));
    assert_eq!(all.count().await.expect("usable"), 1);
}

async fn an_approval_that_has_expired_is_not_used_however_many_others_have_expired(home: TestHome) {
    let test = Test::new(home).await;
    let others = PURGED_AT_ONCE + 64;
    for number in 0..others {
        let scope = [u8::try_from(3 + number / 64).expect("few"); 32];
        let call = u8::try_from(number % 64).expect("few");
        assert_eq!(test.ask(scope, call, &number.to_string()).await, waiting(&number.to_string()));
    }
    test.home.clock.pass(Duration::from_secs(1));
    assert_eq!(test.ask(ANN, 1, "a").await, waiting("a"));
    let all = test.database.all_approvals();
    assert_eq!(decide(&all, "a", decision(true, "ann")).await, Decided);
    test.home.clock.pass(LIFE);
    assert_eq!(test.ask(ANN, 1, "b").await, waiting("b"));
}
