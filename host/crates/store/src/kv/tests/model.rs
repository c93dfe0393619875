//! Any sequence of operations, compared with a map that has a quota.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Reference model of a store whose entries do not expire.
#[derive(Default)]
struct QuotaMap(BTreeMap<String, Vec<u8>>);

#[derive(Debug, Clone)]
enum MapStep {
    Set(String, Vec<u8>),
    Delete(String),
    Keys(String, u32),
}

fn steps() -> impl Strategy<Value = Vec<MapStep>> {
    let key = "[ab%_\u{0}é]{1,3}";
    let step = prop_oneof![
        (key, prop::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(key, value)| MapStep::Set(key, value)),
        key.prop_map(MapStep::Delete),
        ("[ab%_\u{0}é]{0,2}", 1..4_u32).prop_map(|(prefix, limit)| MapStep::Keys(prefix, limit)),
    ];
    prop::collection::vec(step, 1..40)
}

impl QuotaMap {
    fn bytes(&self) -> u64 {
        self.0
            .iter()
            .map(|(key, value)| ENTRY_OVERHEAD_BYTES + (key.len() + value.len()) as u64)
            .sum()
    }

    async fn take(&mut self, store: &PluginStore, step: MapStep) {
        match step {
            MapStep::Set(key, value) => {
                let before = self.bytes();
                let replaced = self.0.insert(key.clone(), value.clone());
                let fits = self.bytes() <= store.max_bytes || self.bytes() <= before;
                if !fits {
                    match replaced {
                        Some(value) => self.0.insert(key.clone(), value),
                        None => self.0.remove(&key),
                    };
                }
                assert_eq!(store.set(&key, value, None, None).await.is_ok(), fits);
            }
            MapStep::Delete(key) => {
                assert_eq!(
                    store.delete(&key, None).await.expect("deleted"),
                    self.0.remove(&key).is_some()
                );
            }
            MapStep::Keys(prefix, limit) => {
                let expected: Vec<_> =
                    self.0.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
                assert_eq!(all(store, &prefix, limit).await, expected);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_store_behaves_like_a_map_with_a_quota(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let bench = KvBench::new(TestHome::sqlite()).await;
            let mut model = QuotaMap::default();
            let store = bench.store(1_500);
            for step in steps {
                model.take(&store, step).await;
                assert_eq!(bench.usage().await, (model.bytes(), model.0.len() as u64));
            }
            for (key, expected) in &model.0 {
                assert_eq!(value(&store, key).await.as_ref(), Some(expected));
            }
        });
    }
}
