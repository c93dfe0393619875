//! Tests of records: owners, anchors, expiry and bounds.

use std::{convert::Infallible, time::Duration};

use super::*;
use crate::tests::home::{TestHome, on_both};
use airlock_database::sql::first;

const ANN: OwnerId = [1; 32];
const BEN: OwnerId = [2; 32];
const DAY: Duration = Duration::from_hours(24);
/// Bytes of each text of these tests.
const TEXT: usize = 1_000;
/// Bytes that a record with such a text counts.
const COST: u64 = OVERHEAD_BYTES + TEXT as u64;

/// A database, with bounds on its records.
struct RecallBench {
    database: Database,
    home: TestHome,
    bounds: RecallBounds,
}

impl RecallBench {
    async fn new(home: TestHome, bounds: RecallBounds) -> Self {
        Self { database: home.open().await, home, bounds }
    }

    /// Stores a record with one anchor, and a text of which each byte is its number.
    async fn put(&self, scope: OwnerId, number: u8) {
        let text = Some(char::from(number).to_string().repeat(TEXT));
        let record = NewRecord { anchors: vec![[number; 32]], text };
        self.database.recall(scope, self.bounds).put(record).await.expect("it is stored");
    }

    /// Returns for each anchor whether its text is there; `None` without a record.
    async fn seen(&self, scope: OwnerId, numbers: &[u8]) -> Vec<Option<bool>> {
        let anchors = numbers.iter().map(|number| [*number; 32]).collect();
        let found = self.find(scope, anchors).await;
        let seen = (0..numbers.len()).map(|position| {
            let entry = found.iter().find(|found| found.position == position)?;
            Some(entry.text.is_some())
        });
        seen.collect()
    }

    async fn find(&self, scope: OwnerId, anchors: Vec<Anchor>) -> Vec<StoredRecord> {
        let recall = self.database.recall(scope, self.bounds);
        match recall.find(anchors, |_| Ok::<(), Infallible>(())).await.expect("it is read") {
            Ok(found) => found,
        }
    }
}

fn bounds(owner: u64, total: u64) -> RecallBounds {
    let owner_bytes = owner * COST;
    let total_bytes = total * COST;
    RecallBounds { expire_after: 30 * DAY, owner_records: 100, owner_bytes, total_bytes }
}

on_both! {
    a_record_is_found_by_its_owner_alone_and_once_for_all_its_anchors,
    an_anchor_belongs_to_the_last_record_that_has_it,
    a_text_expires_and_its_record_stays_as_long_again,
    an_owner_whose_records_have_ended_is_forgotten_by_the_change_of_another,
    the_oldest_texts_of_an_owner_make_room_and_their_records_stay,
    the_owner_that_stores_most_makes_room_for_all,
    the_number_of_records_is_bounded_and_a_text_that_never_fits_is_not_stored,
    texts_that_are_not_admitted_are_not_read,
    records_of_more_anchors_than_one_statement_has_are_found_in_their_order,
}

async fn a_record_is_found_by_its_owner_alone_and_once_for_all_its_anchors(home: TestHome) {
    let bench = RecallBench::new(home, bounds(9, 9)).await;
    let record = NewRecord { anchors: vec![[1; 32], [2; 32]], text: Some("x".into()) };
    bench.database.recall(ANN, bench.bounds).put(record).await.expect("it is stored");
    let found = bench.find(ANN, vec![[3; 32], [2; 32], [1; 32]]).await;
    assert_eq!(found, [StoredRecord { position: 1, text: Some("x".into()) }]);
    assert_eq!(bench.find(BEN, vec![[1; 32], [2; 32]]).await, []);
}

async fn an_anchor_belongs_to_the_last_record_that_has_it(home: TestHome) {
    let bench = RecallBench::new(home, bounds(9, 9)).await;
    let recall = bench.database.recall(ANN, bench.bounds);
    for text in ["first", "second"] {
        let record = NewRecord { anchors: vec![[1; 32]], text: Some(text.into()) };
        recall.put(record).await.expect("it is stored");
    }
    assert_eq!(bench.find(ANN, vec![[1; 32]]).await[0].text.as_deref(), Some("second"));
}

async fn a_text_expires_and_its_record_stays_as_long_again(home: TestHome) {
    let bench = RecallBench::new(home, bounds(9, 9)).await;
    bench.put(ANN, 1).await;
    bench.home.clock.pass((30 * DAY).saturating_sub(Duration::from_millis(1)));
    assert_eq!(bench.seen(ANN, &[1]).await, [Some(true)]);
    bench.home.clock.pass(Duration::from_millis(1));
    assert_eq!(bench.seen(ANN, &[1]).await, [Some(false)]);
    // The next change removes the text from the disk.
    bench.put(BEN, 2).await;
    assert_eq!(bench.seen(ANN, &[1]).await, [Some(false)]);
    bench.home.clock.pass(30 * DAY);
    assert_eq!(bench.seen(ANN, &[1]).await, [None]);
}

async fn an_owner_whose_records_have_ended_is_forgotten_by_the_change_of_another(home: TestHome) {
    let bench = RecallBench::new(home, bounds(9, 9)).await;
    bench.put(ANN, 1).await;
    bench.home.clock.pass(60 * DAY);
    bench.put(BEN, 2).await;
    let owners = bench.database.read(|sql| sql.all("SELECT scope FROM recall_owner", &[], first));
    let owners: Vec<OwnerId> = owners.await.expect("read");
    assert_eq!(owners, [BEN]);
    bench.put(ANN, 3).await;
    assert_eq!(bench.seen(ANN, &[1, 3]).await, [None, Some(true)]);
}

async fn the_oldest_texts_of_an_owner_make_room_and_their_records_stay(home: TestHome) {
    // Three texts, or two beside the record of one that was removed.
    let bench = RecallBench::new(home, bounds(3, 30)).await;
    bench.put(BEN, 9).await;
    for number in 1..=4 {
        bench.put(ANN, number).await;
        bench.home.clock.pass(Duration::from_secs(1));
    }
    let seen = bench.seen(ANN, &[1, 2, 3, 4]).await;
    assert_eq!(seen, [Some(false), Some(false), Some(true), Some(true)]);
    assert_eq!(bench.seen(BEN, &[9]).await, [Some(true)]);
}

async fn the_owner_that_stores_most_makes_room_for_all(home: TestHome) {
    let bench = RecallBench::new(home, bounds(9, 3)).await;
    bench.put(ANN, 1).await;
    bench.put(BEN, 2).await;
    bench.home.clock.pass(Duration::from_secs(1));
    bench.put(BEN, 3).await;
    bench.put(ANN, 4).await;
    assert_eq!(bench.seen(BEN, &[2, 3]).await[0], Some(false));
    assert_eq!(bench.seen(ANN, &[4]).await, [Some(true)]);
}

async fn the_number_of_records_is_bounded_and_a_text_that_never_fits_is_not_stored(home: TestHome) {
    let bench = RecallBench::new(home, RecallBounds { owner_records: 2, ..bounds(1, 9) }).await;
    for number in 1..=3 {
        bench.put(ANN, number).await;
        bench.home.clock.pass(Duration::from_secs(1));
    }
    assert_eq!(bench.seen(ANN, &[1, 2]).await, [None, Some(false)]);
    let record = NewRecord { anchors: vec![[7; 32]], text: Some("x".repeat(TEXT + 1)) };
    bench.database.recall(BEN, bench.bounds).put(record).await.expect("it is stored");
    assert_eq!(bench.seen(BEN, &[7]).await, [Some(false)]);
}

async fn records_of_more_anchors_than_one_statement_has_are_found_in_their_order(home: TestHome) {
    let bench = RecallBench::new(home, bounds(99, 99)).await;
    for number in 20..90 {
        bench.put(ANN, number).await;
    }
    // Each twice, the last one first, behind one that is unknown.
    let numbers = (20..90).rev().flat_map(|number| [number, number]);
    let anchors: Vec<_> = [1].into_iter().chain(numbers).map(|number| [number; 32]).collect();
    let found = bench.find(ANN, anchors).await;
    assert_eq!(found.len(), 70);
    for (index, record) in found.iter().enumerate() {
        assert_eq!(record.position, 1 + 2 * index);
        let number = 89 - u8::try_from(index).expect("a small number");
        assert_eq!(record.text, Some(char::from(number).to_string().repeat(TEXT)));
    }
}

async fn texts_that_are_not_admitted_are_not_read(home: TestHome) {
    let bench = RecallBench::new(home, bounds(9, 9)).await;
    bench.put(ANN, 1).await;
    let recall = bench.database.recall(ANN, bench.bounds);
    let refused = recall.find(vec![[1; 32]], Err::<(), _>).await;
    assert_eq!(refused.expect("it is read"), Err(COST));
}
