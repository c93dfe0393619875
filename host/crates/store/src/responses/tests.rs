//! Tests of stored responses: owners, conversations, expiry and bounds.

use std::{convert::Infallible, time::Duration};

use super::*;
use crate::{
    Settings,
    tests::home::{TestHome, on_both},
};
use airlock_database::{schema, sql::first};

const ANN: OwnerId = [1; 32];
const BEN: OwnerId = [2; 32];
const DAY: Duration = Duration::from_hours(24);
/// Bytes of each text of a response.
const TEXT: usize = 1_000;
/// Bytes that a response of these tests counts.
const COST: u64 = OVERHEAD_BYTES + 3 * TEXT as u64;

/// A database, with bounds on its responses.
struct ResponseBench {
    database: Database,
    home: TestHome,
    bounds: ResponseBounds,
}

impl ResponseBench {
    async fn new(home: TestHome, owner_responses: u64, total_responses: u64) -> Self {
        let bounds = ResponseBounds {
            expire_after: 30 * DAY,
            owner_bytes: owner_responses * COST,
            total_bytes: total_responses * COST,
        };
        Self { database: home.open().await, home, bounds }
    }

    fn responses(&self, scope: OwnerId) -> Responses {
        self.database.responses(scope, self.bounds)
    }

    /// Returns the identifiers of the responses that an owner can read.
    async fn ids(&self, scope: OwnerId, ids: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for id in ids {
            if self.responses(scope).get(id, any).await.is_ok() {
                found.push((*id).to_owned());
            }
        }
        found
    }

    /// Returns the bytes that the owners hold.
    async fn bytes(&self) -> Vec<i64> {
        let read = self
            .database
            .read(|sql| sql.all("SELECT bytes FROM response_owner ORDER BY scope", &[], first));
        read.await.expect("read")
    }
}

// The reader of a real request refuses what has no room.
#[expect(clippy::unnecessary_wraps)]
fn any(_bytes: u64) -> Result<(), Infallible> {
    Ok(())
}

fn response(id: &str, previous: Option<&str>) -> NewResponse {
    let texts = Texts {
        input: text_of(id, "input"),
        output: text_of(id, "output"),
        body: text_of(id, "body"),
    };
    NewResponse { id: id.to_owned(), previous: previous.map(str::to_owned), texts }
}

fn text_of(id: &str, name: &str) -> String {
    format!("{name} of {id}{}", " ".repeat(TEXT))[..TEXT].to_owned()
}

async fn put(responses: &Responses, id: &str, previous: Option<&str>) {
    responses.put(response(id, previous)).await.expect("it is stored");
}

on_both! {
    a_response_is_read_by_its_owner_alone,
    a_conversation_is_read_from_its_beginning_and_may_branch,
    a_conversation_of_more_turns_than_one_statement_reads_is_read_in_its_order,
    a_response_that_takes_the_identifier_of_a_deleted_one_makes_no_circle,
    the_reader_is_asked_about_the_size_before_a_text_is_copied,
    a_conversation_expires_as_a_whole_some_time_after_it_was_last_continued,
    an_owner_whose_responses_have_expired_is_forgotten_by_the_change_of_another,
    a_full_owner_loses_the_conversation_that_was_not_continued_for_longest,
    many_conversations_make_room_for_a_large_one,
    if_the_store_is_full_the_owner_of_most_loses_a_conversation,
}

async fn a_response_is_read_by_its_owner_alone(home: TestHome) {
    let bench = ResponseBench::new(home, 10, 10).await;
    put(&bench.responses(ANN), "a", None).await;
    let read = bench.responses(ANN).get("a", any).await.expect("it is there");
    assert_eq!(read, response("a", None).texts);
    assert!(
        matches!(bench.responses(BEN).get("a", any).await, Err(ReadError::Unknown { id }) if id == "a")
    );
    assert!(matches!(
        bench.responses(BEN).conversation("a", any).await,
        Err(ReadError::Unknown { .. })
    ));
    assert!(!bench.responses(BEN).delete("a").await.expect("a quiet database"));
    let continued = bench.responses(BEN).put(response("b", Some("a"))).await;
    assert!(matches!(continued, Err(PutError::PreviousGone)), "{continued:?}");
    assert!(bench.responses(ANN).delete("a").await.expect("a quiet database"));
    assert!(!bench.responses(ANN).delete("a").await.expect("a quiet database"));
    assert_eq!(bench.bytes().await, [0, 0]);
}

async fn a_conversation_is_read_from_its_beginning_and_may_branch(home: TestHome) {
    let bench = ResponseBench::new(home, 10, 10).await;
    let ann = bench.responses(ANN);
    for (id, previous) in [("a", None), ("b", Some("a")), ("c", Some("b")), ("d", Some("a"))] {
        put(&ann, id, previous).await;
    }
    for (id, expected) in [("c", &["a", "b", "c"][..]), ("d", &["a", "d"])] {
        let turns = ann.conversation(id, any).await.expect("it is there");
        let outputs: Vec<_> = turns.iter().map(|turn| turn.output.trim_end()).collect();
        let expected: Vec<_> = expected.iter().map(|id| format!("output of {id}")).collect();
        assert_eq!(outputs, expected);
    }
    assert!(ann.delete("b").await.expect("a quiet database"));
    let broken = ann.conversation("c", any).await;
    assert!(matches!(broken, Err(ReadError::Unknown { id }) if id == "b"));
    assert_eq!(ann.conversation("d", any).await.expect("it is there").len(), 2);
}

async fn a_conversation_of_more_turns_than_one_statement_reads_is_read_in_its_order(
    home: TestHome,
) {
    let bench = ResponseBench::new(home, 50, 100).await;
    let ann = bench.responses(ANN);
    for turn in 0..40 {
        let previous = (turn > 0).then(|| (turn - 1).to_string());
        put(&ann, &turn.to_string(), previous.as_deref()).await;
        put(&bench.responses(BEN), &format!("other{turn}"), None).await;
    }
    let turns = ann.conversation("39", any).await.expect("it is there");
    let expected = (0..40).map(|turn| text_of(&turn.to_string(), "output"));
    let outputs: Vec<_> = turns.into_iter().map(|turn| turn.output).collect();
    assert_eq!(outputs, expected.collect::<Vec<_>>());
}

async fn a_response_that_takes_the_identifier_of_a_deleted_one_makes_no_circle(home: TestHome) {
    let bench = ResponseBench::new(home, 10, 10).await;
    let ann = bench.responses(ANN);
    for (id, previous) in [("other", None), ("a", None), ("b", Some("a"))] {
        put(&ann, id, previous).await;
    }
    assert!(ann.delete("a").await.expect("a quiet database"));
    put(&ann, "a", Some("b")).await;
    let broken = ann.conversation("a", any).await;
    assert!(matches!(broken, Err(ReadError::Unknown { id }) if id == "a"));
}

async fn the_reader_is_asked_about_the_size_before_a_text_is_copied(home: TestHome) {
    let bench = ResponseBench::new(home, 10, 10).await;
    let ann = bench.responses(ANN);
    put(&ann, "a", None).await;
    put(&ann, "b", Some("a")).await;
    assert!(matches!(ann.get("a", Err).await, Err(ReadError::Refused(bytes)) if bytes == COST));
    let mut left = COST;
    let read = ann.conversation("b", move |bytes| {
        left = left.checked_sub(bytes).ok_or("full")?;
        Ok(())
    });
    assert!(matches!(read.await, Err(ReadError::Refused("full"))));
}

async fn a_conversation_expires_as_a_whole_some_time_after_it_was_last_continued(home: TestHome) {
    let bench = ResponseBench::new(home, 10, 10).await;
    let ann = bench.responses(ANN);
    put(&ann, "a", None).await;
    put(&ann, "other", None).await;
    bench.home.clock.pass(20 * DAY);
    put(&ann, "b", Some("a")).await;
    bench.home.clock.pass((30 * DAY).saturating_sub(Duration::from_millis(1)));
    assert_eq!(bench.ids(ANN, &["a", "b", "other"]).await, ["a", "b"]);
    bench.home.clock.pass(Duration::from_millis(1));
    assert_eq!(bench.ids(ANN, &["a", "b", "other"]).await, [""; 0]);
    assert!(matches!(ann.put(response("c", Some("b"))).await, Err(PutError::PreviousGone)));
    assert_eq!(bench.bytes().await, [0], "what has expired is purged");
}

async fn an_owner_whose_responses_have_expired_is_forgotten_by_the_change_of_another(
    home: TestHome,
) {
    let bench = ResponseBench::new(home, 10, 10).await;
    put(&bench.responses(ANN), "a", None).await;
    bench.home.clock.pass(30 * DAY);
    put(&bench.responses(BEN), "b", None).await;
    assert_eq!(bench.bytes().await, [COST.cast_signed()]);
    assert_eq!(bench.ids(BEN, &["a", "b"]).await, ["b"]);
    put(&bench.responses(ANN), "a", None).await;
    assert_eq!(bench.bytes().await, [COST.cast_signed(); 2]);
}

async fn a_full_owner_loses_the_conversation_that_was_not_continued_for_longest(home: TestHome) {
    let bench = ResponseBench::new(home, 3, 100).await;
    let ann = bench.responses(ANN);
    for id in ["a", "b"] {
        put(&ann, id, None).await;
        bench.home.clock.pass(DAY);
    }
    put(&ann, "a2", Some("a")).await;
    put(&ann, "c", None).await;
    assert_eq!(bench.ids(ANN, &["a", "a2", "b", "c"]).await, ["a", "a2", "c"]);
    // The conversation that is continued is never evicted for itself.
    put(&ann, "a3", Some("a2")).await;
    assert_eq!(bench.ids(ANN, &["a", "a2", "a3", "c"]).await, ["a", "a2", "a3"]);
    let refused = ann.put(response("a4", Some("a3"))).await;
    let bytes = 4 * COST;
    let limit = 3 * COST;
    assert!(
        matches!(refused, Err(PutError::TooLarge { bytes: b, limit: l }) if (b, l) == (bytes, limit)),
        "{refused:?}"
    );
    assert_eq!(bench.bytes().await, [3 * COST.cast_signed()]);
}

async fn many_conversations_make_room_for_a_large_one(home: TestHome) {
    let bench = ResponseBench::new(home, 250, 1_000).await;
    let ann = bench.responses(ANN);
    for id in 0..250 {
        put(&ann, &format!("small{id}"), None).await;
    }
    let mut large = response("large", None);
    large.texts.input = " ".repeat(248 * usize::try_from(COST).expect("a small number"));
    ann.put(large).await.expect("it is stored");
    assert_eq!(
        bench.ids(ANN, &["small0", "small248", "small249", "large"]).await,
        ["small249", "large"]
    );
}

async fn if_the_store_is_full_the_owner_of_most_loses_a_conversation(home: TestHome) {
    let bench = ResponseBench::new(home, 3, 4).await;
    for id in ["a", "b", "c"] {
        put(&bench.responses(ANN), id, None).await;
        bench.home.clock.pass(DAY);
    }
    put(&bench.responses(BEN), "x", None).await;
    put(&bench.responses(BEN), "y", None).await;
    assert_eq!(bench.ids(ANN, &["a", "b", "c"]).await, ["b", "c"]);
    assert_eq!(bench.ids(BEN, &["x", "y"]).await, ["x", "y"]);
    assert_eq!(bench.bytes().await, [2 * COST.cast_signed(), 2 * COST.cast_signed()]);
}

#[tokio::test]
async fn a_database_of_the_first_version_is_migrated_and_keeps_its_entries() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.db");
    let old = rusqlite::Connection::open(&path).expect("made");
    old.execute_batch(schema::MIGRATIONS[0]).expect("the first version");
    old.execute_batch(
        "INSERT INTO kv_store (plugin, name) VALUES ('p', 's'), ('p', 'empty');
         INSERT INTO kv_entry (store, key, version, cost, value) VALUES (1, x'6b', 1, 66, x'76')",
    )
    .expect("a store with an entry, and one without");
    old.pragma_update(None, "application_id", schema::APPLICATION_ID).expect("marked");
    old.pragma_update(None, "user_version", 1).expect("marked");
    drop(old);
    let database = Database::open(Settings::new(&path)).await.expect("it is migrated");
    let usage = database.kv_usage().await.expect("read");
    let [store] = &usage[..] else { panic!("{usage:?}") };
    assert_eq!((store.name.as_str(), store.entries, store.bytes), ("s", 1, 66));
    let bounds = ResponseBounds { expire_after: DAY, owner_bytes: COST, total_bytes: COST };
    put(&database.responses(ANN, bounds), "a", None).await;
}
