//! Bounds the records of events that no limit bounds.
//!
//! The refusals of a caller have no limit, because those of a limit are refusals too, and neither have the questions to
//! its own user. With a record of each, one caller could fill the disks of the logs, after which no call with effects
//! runs for any caller. So the first events of each caller in a period are recorded, and the others are counted.

use std::{
    collections::HashMap,
    mem,
    time::{Duration, Instant, SystemTime},
};

use crate::event::{CountedEvents, CountedKind, RecordEvent, logged_party, short};
use airlock_core::{
    act::{ActKind, Actor},
    tenant::Tenant,
};
use airlock_store::call_log::{CallStatus, LoggedParty};

/// Events of one kind and caller in a period that have records of their own: ten a second.
pub(crate) const RECORDED: u32 = 600;
/// Length of a period. It begins with the first such event after the end of the previous one.
const PERIOD: Duration = Duration::from_mins(1);
/// Maximum callers, one for each kind of events, that are counted apart in one period. An identity
/// provider may have any number of users, and each count becomes an event. Events of further
/// callers are counted together.
const MAX_CALLERS: usize = 1_024;

/// The events of the running period that no limit bounds.
#[derive(Default)]
pub(crate) struct CallerCounts {
    /// End of the period; `None` before the first event.
    ends: Option<Instant>,
    callers: HashMap<EventCaller, CallerCount>,
    others: CallerCount,
    /// True if an event has no record of its own.
    has_counted: bool,
}

/// The caller of events of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum EventCaller {
    /// The caller of refused calls and requests to models.
    Refused(Tenant),
    /// The caller of questions to the user of a client, and of denials of that user: the name of the key, and the user.
    Asking(Option<String>, Option<[String; 2]>),
}

/// Events of one caller.
#[derive(Default)]
struct CallerCount {
    recorded: u32,
    counted: u64,
    /// `None` if none was counted, and for callers that are counted together.
    party: Option<LoggedParty>,
}

impl CallerCounts {
    /// Counts an event if no limit bounds it. Returns whether it has a record of its own: false beyond `most` events of
    /// its caller in this period.
    pub(crate) fn admit(&mut self, event: &RecordEvent, most: u32, now: Instant) -> bool {
        let Some(id) = EventCaller::of_event(event) else { return true };
        // A period that is over stays until its counts are taken.
        if self.ends.is_none_or(|ends| ends <= now) && !self.has_counted {
            *self = Self { ends: Some(now + PERIOD), ..Self::default() };
        }
        let is_apart = self.callers.len() < MAX_CALLERS || self.callers.contains_key(&id);
        let caller = if is_apart { self.callers.entry(id).or_default() } else { &mut self.others };
        if caller.recorded < most {
            caller.recorded += 1;
            return true;
        }
        caller.counted = caller.counted.saturating_add(1);
        if is_apart && caller.party.is_none() {
            caller.party = party(event);
        }
        self.has_counted = true;
        false
    }

    /// Returns the time at which counts are to be taken; `None` if there are none.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.ends.filter(|_| self.has_counted)
    }

    /// Ends the period, and returns its counts.
    pub(crate) fn take(&mut self) -> Vec<CountedEvents> {
        let Self { callers, others, .. } = mem::take(self);
        let apart = callers.into_iter().map(|(id, count)| (Some(id.kind()), count));
        let all = apart.chain([(None, others)]).filter(|(_, caller)| caller.counted > 0);
        let until = SystemTime::now();
        let counted = all.map(|(kind, caller)| CountedEvents {
            until,
            kind,
            count: caller.counted,
            party: caller.party,
        });
        counted.collect()
    }
}

impl EventCaller {
    /// Returns the caller of an event that no limit bounds; `None` for other events.
    fn of_event(event: &RecordEvent) -> Option<Self> {
        match event {
            RecordEvent::Refused(refused) => Some(Self::Refused(refused.tenant.clone())),
            RecordEvent::Model(end) if end.status == CallStatus::Refused => {
                Some(Self::Refused(end.tenant.clone()))
            }
            // A call that a user grants is made, and counts in the limits of its caller.
            RecordEvent::Act(timed)
                if matches!(timed.act.kind, ActKind::ApprovalAsked | ActKind::ApprovalDenied) =>
            {
                Self::of_actor(&timed.act.actor)
            }
            _ => None,
        }
    }

    fn of_actor(actor: &Actor) -> Option<Self> {
        match actor {
            Actor::Key(key) => Some(Self::Asking(Some(key.clone()), None)),
            Actor::User { key, user } => {
                let user = [user.issuer.clone(), user.subject.clone()];
                Some(Self::Asking(Some(key.clone()), Some(user)))
            }
            Actor::Anonymous => Some(Self::Asking(None, None)),
            _ => None,
        }
    }

    fn kind(&self) -> CountedKind {
        match self {
            Self::Refused(_) => CountedKind::Refusals,
            Self::Asking(..) => CountedKind::Approvals,
        }
    }
}

/// Returns the party that has caused an event.
fn party(event: &RecordEvent) -> Option<LoggedParty> {
    Some(match event {
        RecordEvent::Refused(refused) => logged_party(&refused.tenant, &refused.membership),
        RecordEvent::Model(end) => logged_party(&end.tenant, &end.membership),
        RecordEvent::Act(timed) => match &timed.act.actor {
            Actor::Key(key) => LoggedParty { key_name: Some(short(key)), ..LoggedParty::default() },
            Actor::User { key, user } => LoggedParty {
                key_name: Some(short(key)),
                user_issuer: Some(short(&user.issuer)),
                user_subject: Some(short(&user.subject)),
                ..LoggedParty::default()
            },
            _ => LoggedParty::default(),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{LostEvents, TimedAct},
        testing::refused,
    };
    use airlock_core::act::Act;

    fn key(number: usize) -> Tenant {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&(number as u64).to_be_bytes());
        Tenant::of_key(digest, format!("key {number}"))
    }

    fn act(kind: ActKind, actor: Actor) -> RecordEvent {
        let act = Act::new(kind, actor, "notes-add");
        RecordEvent::Act(Box::new(TimedAct { at: SystemTime::UNIX_EPOCH, act }))
    }

    #[test]
    fn questions_of_a_caller_are_bounded_and_acts_of_operators_and_grants_are_not() {
        let now = Instant::now();
        let mut counts = CallerCounts::default();
        let asked = act(ActKind::ApprovalAsked, Actor::Key("ann".to_owned()));
        assert!(counts.admit(&asked, 1, now));
        assert!(!counts.admit(&asked, 1, now));
        assert!(!counts.admit(&act(ActKind::ApprovalDenied, Actor::Key("ann".to_owned())), 1, now));
        for (kind, actor) in [
            (ActKind::ApprovalGranted, Actor::Key("ann".to_owned())),
            (ActKind::ApprovalDenied, Actor::Operator("ann".to_owned())),
            (ActKind::ApprovalExpired, Actor::Gateway),
        ] {
            assert!(counts.admit(&act(kind, actor), 0, now), "{kind:?}");
        }
        assert!(counts.admit(&act(ActKind::ApprovalAsked, Actor::Anonymous), 1, now));
        let taken = counts.take();
        assert_eq!((taken.len(), taken[0].count), (1, 2));
        assert_eq!(taken[0].kind, Some(CountedKind::Approvals));
        let party = taken[0].party.as_ref().expect("the caller");
        assert_eq!(party.key_name.as_deref(), Some("ann"));
    }

    #[test]
    fn refusals_beyond_the_bound_of_a_caller_are_counted_and_those_of_others_are_recorded() {
        let now = Instant::now();
        let mut counts = CallerCounts::default();
        let admitted = (0..5).filter(|_| counts.admit(&refused(key(1)), 2, now)).count();
        assert_eq!(admitted, 2);
        assert!(counts.admit(&refused(key(2)), 2, now));
        let lost = LostEvents { until: SystemTime::UNIX_EPOCH, count: 1 };
        assert!(counts.admit(&RecordEvent::Lost(lost), 0, now), "it is no refusal");
        assert_eq!(counts.due(), Some(now + PERIOD));
        let taken = counts.take();
        assert_eq!(taken.len(), 1);
        let party = taken[0].party.as_ref().expect("the caller");
        assert_eq!((taken[0].count, party.key_name.as_deref()), (3, Some("key 1")));
        assert_eq!(counts.due(), None);
        assert!(counts.admit(&refused(key(1)), 2, now), "another period");
    }

    #[test]
    fn a_period_begins_anew_unless_its_counts_are_not_taken_yet() {
        let now = Instant::now();
        let mut counts = CallerCounts::default();
        assert!(counts.admit(&refused(key(1)), 1, now));
        assert!(counts.admit(&refused(key(1)), 1, now + PERIOD));
        assert!(!counts.admit(&refused(key(1)), 1, now + PERIOD));
        assert!(!counts.admit(&refused(key(1)), 1, now + 3 * PERIOD));
        assert_eq!(counts.take().iter().map(|counted| counted.count).sum::<u64>(), 2);
    }

    #[test]
    fn callers_beyond_the_bound_are_counted_together() {
        let now = Instant::now();
        let mut counts = CallerCounts::default();
        for number in 0..MAX_CALLERS {
            assert!(counts.admit(&refused(key(number)), 1, now));
        }
        let further = [MAX_CALLERS, MAX_CALLERS + 1].map(|number| refused(key(number)));
        assert!(counts.admit(&further[0], 1, now));
        assert!(!counts.admit(&further[1], 1, now));
        assert_eq!(counts.callers.len(), MAX_CALLERS);
        let taken = counts.take();
        assert_eq!((taken.len(), taken[0].count), (1, 1));
        assert!(taken[0].party.is_none());
    }
}
