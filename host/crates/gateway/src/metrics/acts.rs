//! Counts what people do: approvals, logins, changes of settings. Each act is counted once, where it is handed to the
//! records, whether or not there are any.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use prometheus_client::{
    collector::Collector, encoding::DescriptorEncoder, metrics::counter::Counter,
};

use airlock_core::act::{Act, ActKind, ActRecord, Acts};
use airlock_records::Recorder;
use airlock_upstream::encode_family;

/// Kinds of acts, in the order of their counters.
const KINDS: [ActKind; 14] = [
    ActKind::ApprovalAsked,
    ActKind::ApprovalGranted,
    ActKind::ApprovalDenied,
    ActKind::ApprovalUsed,
    ActKind::ApprovalExpired,
    ActKind::ConfigChanged,
    ActKind::OperatorLoggedIn,
    ActKind::OperatorLoggedOut,
    ActKind::UserLoggedIn,
    ActKind::UserLoggedOut,
    ActKind::LogErased,
    ActKind::ToolTried,
    ActKind::ServerTried,
    ActKind::DefinitionsAccepted,
];

/// Counters of acts. Cheap to clone.
#[derive(Clone)]
pub(in super::super) struct CountedActs(Arc<[Counter; KINDS.len()]>);

impl CountedActs {
    /// Returns the record of acts that counts them, and hands them on to the records if there are any.
    pub(in super::super) fn before(&self, recorder: Option<&Arc<Recorder>>) -> Acts {
        Acts::new(Arc::new(CountingRecord { acts: self.clone(), recorder: recorder.cloned() }))
    }

    fn count(&self, kind: ActKind) {
        let known = KINDS.iter().zip(&*self.0).find(|(known, _)| **known == kind);
        if let Some((_, counter)) = known {
            counter.inc();
        }
    }
}

impl Default for CountedActs {
    fn default() -> Self {
        Self(Arc::new(KINDS.map(|_| Counter::default())))
    }
}

/// Counts acts, then records them.
struct CountingRecord {
    acts: CountedActs,
    recorder: Option<Arc<Recorder>>,
}

impl ActRecord for CountingRecord {
    fn record(&self, act: Act) {
        self.acts.count(act.kind);
        if let Some(recorder) = &self.recorder {
            recorder.record(act);
        }
    }

    /// Counts the act only if it may happen.
    fn record_before(&self, act: Act) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let kind = act.kind;
            let may_happen = match &self.recorder {
                Some(recorder) => recorder.record_before(act).await,
                None => true,
            };
            if may_happen {
                self.acts.count(kind);
            }
            may_happen
        })
    }
}

impl Collector for CountedActs {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let acts = KINDS.iter().zip(&*self.0);
        encode_family(
            &mut encoder,
            "airlock_acts",
            "Acts of people, by their kind: approvals that were asked for, granted, denied, used or not used in time; logins; changes.",
            acts.map(|(kind, counter)| ([("act", kind.name())], counter.clone())),
        )
    }
}

airlock_strings::debug_fields!(CountedActs {});

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::act::Actor;

    fn count(acts: &CountedActs, kind: ActKind) -> u64 {
        let at = KINDS.iter().position(|known| *known == kind).expect("it is counted");
        acts.0[at].get()
    }

    #[tokio::test]
    async fn acts_are_counted_without_records_too() {
        let counted = CountedActs::default();
        let acts = counted.before(None);
        acts.record(|| Act::new(ActKind::ApprovalAsked, Actor::Gateway, "call"));
        assert!(acts.record_before(Act::new(ActKind::LogErased, Actor::Gateway, "log")).await);
        assert_eq!(count(&counted, ActKind::ApprovalAsked), 1);
        assert_eq!(count(&counted, ActKind::LogErased), 1);
        assert_eq!(count(&counted, ActKind::ApprovalGranted), 0);
    }
}
