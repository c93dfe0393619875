//! Records that sessions are used, beside the requests that use them: no request waits for a write.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};
use tracing::warn;

use airlock_operator_api::SessionLookup;
use airlock_store::{Database, operator_session::SecretDigest};

/// The records under way, at most one for each session. They are cancelled when this is dropped.
#[derive(Default)]
pub(super) struct SessionUses(Mutex<Running>);

#[derive(Default)]
struct Running {
    tasks: JoinSet<()>,
    by_digest: HashMap<SecretDigest, AbortHandle>,
}

impl SessionUses {
    /// Begins to record that the session with this digest is used now, unless that is under way. A check is no use.
    pub(super) fn record(&self, database: &Database, digest: SecretDigest, lookup: SessionLookup) {
        if lookup == SessionLookup::Check {
            return;
        }
        let mut running = self.0.lock();
        let Running { tasks, by_digest } = &mut *running;
        while tasks.try_join_next().is_some() {}
        by_digest.retain(|_, task| !task.is_finished());
        by_digest.entry(digest).or_insert_with(|| {
            let database = database.clone();
            tasks.spawn(async move {
                // Without it, the session ends earlier.
                if let Err(error) = database.record_operator_session_use(digest).await {
                    warn!(%error, "the use of an operator's session is not recorded");
                }
            })
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use airlock_store::{
        Settings,
        operator_session::{NewOperatorSession, SessionRules},
    };

    use super::*;

    #[tokio::test]
    async fn a_session_has_one_record_under_way_and_another_one_later() {
        let directory = tempfile::tempdir().expect("a directory");
        let settings = Settings::new(directory.path().join("airlock.db"));
        let database = Database::open(settings).await.expect("it is made");
        let session = NewOperatorSession {
            id: "1".to_owned(),
            digest: [1; 32],
            policy: [2; 32],
            issuer: "https://idp".to_owned(),
            subject: "ann".to_owned(),
            name: "ann".to_owned(),
            role: "viewer".to_owned(),
            sees_payloads: false,
        };
        let hour = Duration::from_hours(1);
        database.open_operator_session(session, hour, None).await.expect("written");
        let uses = SessionUses::default();
        // The runtime has one thread, so nothing runs before this test waits.
        for _ in 0..3 {
            uses.record(&database, [1; 32], SessionLookup::Use);
        }
        uses.record(&database, [3; 32], SessionLookup::Use);
        uses.record(&database, [4; 32], SessionLookup::Check);
        assert_eq!(uses.0.lock().tasks.len(), 2, "a check is no use");
        let mut tasks = std::mem::take(&mut uses.0.lock().tasks);
        while let Some(done) = tasks.join_next().await {
            done.expect("recorded");
        }
        uses.record(&database, [1; 32], SessionLookup::Use);
        assert_eq!(uses.0.lock().by_digest.len(), 1, "those that have ended are forgotten");
        let rules = SessionRules { policy: [2; 32], idle: hour };
        let found = database.operator_session([1; 32], rules, "peer").await.expect("read");
        assert!(found.is_some_and(|found| !found.is_use_due));
    }
}
