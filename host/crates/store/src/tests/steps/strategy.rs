//! Random steps.

use std::time::Duration;

use proptest::{collection::vec, option, prelude::*};

use super::subjects::Step;

/// Owners, and identifiers of each: few, so that steps meet.
const OWNERS: u8 = 2;
const IDS: u8 = 8;
/// Keys and texts with all that databases treat differently.
const KEY: &str = "[aB%\u{0}é]{1,2}";
const TEXT: &str = "[a%_'\\\\\u{0}é\u{10ffff}A]{0,40}";

pub(super) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..1_500_u64).prop_map(|ms| Step::Pass(Duration::from_millis(ms))),
        kv(),
        responses(),
        records(),
        new_run(),
        runs(),
        others(),
        settings(),
    ]
}

fn kv() -> impl Strategy<Value = Step> {
    let owner = 0..OWNERS;
    let value = vec(any::<u8>(), 0..200);
    let version = option::weighted(0.2, 0..9_u64);
    prop_oneof![
        (owner.clone(), KEY, value, version, option::of(0..2_000_u64)).prop_map(
            |(owner, key, value, if_version, ttl)| {
                Step::KvSet { owner, key, value, if_version, ttl }
            }
        ),
        (owner.clone(), vec(KEY, 0..40), 0..2_000_usize)
            .prop_map(|(owner, keys, max_bytes)| Step::KvRead { owner, keys, max_bytes }),
        (owner.clone(), KEY).prop_map(|(owner, key)| Step::KvDelete { owner, key }),
        (owner.clone(), "[aB%\u{0}é]{0,1}", 1..5_u32)
            .prop_map(|(owner, prefix, limit)| Step::KvKeys { owner, prefix, limit }),
        (owner.clone(), owner).prop_map(|(from, to)| Step::KvTransfer { from, to }),
        Just(Step::KvSweep),
    ]
}

fn responses() -> impl Strategy<Value = Step> {
    let owner = 0..OWNERS;
    prop_oneof![
        (owner.clone(), 0..IDS, option::of(0..IDS), TEXT)
            .prop_map(|(owner, id, previous, text)| Step::Respond { owner, id, previous, text }),
        (owner.clone(), 0..IDS).prop_map(|(owner, id)| Step::ReadResponse { owner, id }),
        (owner, 0..IDS).prop_map(|(owner, id)| Step::DeleteResponse { owner, id }),
    ]
}

fn records() -> impl Strategy<Value = Step> {
    let owner = 0..OWNERS;
    let anchors = vec(0..IDS, 0..4);
    prop_oneof![
        (owner.clone(), anchors.clone(), option::of(TEXT))
            .prop_map(|(owner, anchors, text)| Step::Record { owner, anchors, text }),
        (owner, anchors).prop_map(|(owner, anchors)| Step::Recall { owner, anchors }),
    ]
}

fn new_run() -> impl Strategy<Value = Step> {
    (0..OWNERS, 0..IDS, TEXT, 0..3_u8, any::<bool>())
        .prop_map(|(owner, id, text, tools, ends)| Step::Run { owner, id, text, tools, ends })
}

fn runs() -> impl Strategy<Value = Step> {
    let owner = 0..OWNERS;
    prop_oneof![
        (owner.clone(), 0..IDS, any::<bool>(), TEXT)
            .prop_map(|(owner, id, decides, answer)| Step::RunOn { owner, id, decides, answer }),
        (owner.clone(), 0..IDS, TEXT).prop_map(|(owner, id, outcome)| Step::Cancel {
            owner,
            id,
            outcome
        }),
        (option::of(owner), 0..IDS).prop_map(|(owner, id)| Step::Runs { owner, id }),
    ]
}

fn others() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..OWNERS, 0..IDS, option::of(any::<bool>()))
            .prop_map(|(owner, call, decides)| Step::Approval { owner, call, decides }),
        (TEXT, any::<bool>()).prop_map(|(tool, is_first)| Step::Pins { tool, is_first }),
        (TEXT, any::<bool>()).prop_map(|(token, is_removed)| Step::Login { token, is_removed }),
    ]
}

fn settings() -> impl Strategy<Value = Step> {
    prop_oneof![
        (
            KEY,
            any::<bool>(),
            option::of(prop_oneof![Just(String::new()), TEXT]),
            prop::bool::weighted(0.2)
        )
            .prop_map(|(name, is_key, document, is_late)| Step::Entry {
                name,
                is_key,
                document,
                is_late
            }),
        (option::of(0..IDS), 0..5_u32).prop_map(|(before, limit)| Step::Recorded { before, limit }),
        (KEY, prop::bool::weighted(0.2), any::<bool>()).prop_map(
            |(name, first_only, is_removed)| Step::Operator { name, first_only, is_removed }
        ),
    ]
}
