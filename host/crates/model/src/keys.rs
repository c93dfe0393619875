//! Keys of a service: those that serve a model, and the choice among them by weight.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use uuid::Uuid;

use super::{BadProvider, http::SignIn, settings};

/// The keys of one service.
#[derive(Debug)]
pub(super) struct ServiceKeys(Vec<ServiceKey>);

/// One key.
pub(super) struct ServiceKey {
    /// Its name in logs.
    pub(super) name: String,
    /// The step that signs a request in with it; `None` if requests are sent without a credential.
    pub(super) sign_in: Option<Box<dyn SignIn>>,
    models: Option<BTreeSet<String>>,
    weight: f64,
}

/// A generator of random numbers that are not secret: splitmix64. Its seed is random.
#[derive(Debug)]
pub(super) struct Random(AtomicU64);

impl ServiceKeys {
    /// Creates the keys of a service; without any, one that sends no credential. `sign_in` returns
    /// the step that signs a request in with a key.
    pub(super) fn new(
        keys: &[settings::Key],
        sign_in: impl Fn(&settings::Key) -> Result<Option<Box<dyn SignIn>>, BadProvider>,
    ) -> Result<Self, BadProvider> {
        if keys.is_empty() {
            let name = "none".to_owned();
            return Ok(Self(vec![ServiceKey { name, sign_in: None, models: None, weight: 1.0 }]));
        }
        let keys = keys.iter().map(|key| Ok(ServiceKey::new(key, sign_in(key)?)));
        keys.collect::<Result<_, _>>().map(Self)
    }

    /// Returns the keys that serve a model.
    pub(super) fn serving(&self, model: &str) -> Vec<&ServiceKey> {
        self.0
            .iter()
            .filter(|key| key.models.as_ref().is_none_or(|models| models.contains(model)))
            .collect()
    }

    /// Returns whether any key serves a model.
    pub(super) fn serve(&self, model: &str) -> bool {
        !self.serving(model).is_empty()
    }

    /// Returns the key that the list of models is requested with.
    pub(super) fn first(&self) -> Option<&ServiceKey> {
        self.0.first()
    }
}

impl ServiceKey {
    fn new(key: &settings::Key, sign_in: Option<Box<dyn SignIn>>) -> Self {
        let models = key.models.as_ref().map(|models| models.iter().cloned().collect());
        Self { name: key.name.clone(), sign_in, models, weight: key.weight }
    }
}

/// Removes one of `keys`, chosen at random by weight, and returns it. A key of weight 0 is chosen
/// only if there is no other. `None` if there are no keys.
pub(super) fn choose<'k>(
    keys: &mut Vec<&'k ServiceKey>,
    random: &Random,
) -> Option<&'k ServiceKey> {
    let total: f64 = keys.iter().map(|key| key.weight).sum();
    let mut left = random.fraction() * total;
    let chosen = keys.iter().position(|key| {
        left -= key.weight;
        left < 0.0
    });
    // Rounding may leave a remainder after the last key.
    let last = keys.iter().rposition(|key| key.weight > 0.0);
    let at = chosen.or(last).unwrap_or_default();
    (!keys.is_empty()).then(|| keys.remove(at))
}

airlock_strings::debug_fields!(ServiceKey { name });

impl Random {
    /// Creates a generator with a random seed.
    pub(super) fn new() -> Self {
        Self::seeded(Uuid::new_v4().as_u64_pair().0)
    }

    /// Creates a generator with this seed.
    pub(super) fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Returns a number from 0 up to, but not including, 1.
    pub(super) fn fraction(&self) -> f64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut bits = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        // 32 bits are exact in a double.
        f64::from((bits >> 32) as u32) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::secret::Secret;

    fn keys(keys: &[(&str, f64, Option<&[&str]>)]) -> ServiceKeys {
        let keys = keys.iter().map(|(name, weight, models)| settings::Key {
            weight: *weight,
            models: models.map(|models| models.iter().map(|&model| model.to_owned()).collect()),
            ..settings::Key::new(*name, Secret::new("k"))
        });
        let keys: Vec<_> = keys.collect();
        ServiceKeys::new(&keys, |_| Ok(None)).expect("good keys")
    }

    fn names(keys: &[&ServiceKey]) -> Vec<String> {
        keys.iter().map(|key| key.name.clone()).collect()
    }

    #[test]
    fn only_keys_that_serve_the_model_are_eligible() {
        let keys =
            keys(&[("all", 1.0, None), ("a", 1.0, Some(&["m", "n"])), ("none", 1.0, Some(&[]))]);
        assert_eq!(names(&keys.serving("m")), ["all", "a"]);
        assert_eq!(names(&keys.serving("M")), ["all"]);
    }

    #[test]
    fn keys_are_chosen_in_proportion_to_their_weights() {
        let keys = keys(&[("a", 3.0, None), ("b", 1.0, None), ("c", 0.0, None)]);
        let random = Random::seeded(7);
        let mut counts = [0_u32; 3];
        for _ in 0..10_000 {
            let chosen = choose(&mut keys.serving("m"), &random).expect("a key");
            counts["abc".find(&chosen.name).expect("one of them")] += 1;
        }
        assert!((7_300..7_700).contains(&counts[0]), "{counts:?}");
        assert_eq!((counts[0] + counts[1], counts[2]), (10_000, 0));
    }

    #[test]
    fn a_key_of_weight_zero_is_chosen_after_the_others() {
        let keys = keys(&[("spare", 0.0, None), ("a", 0.1, None)]);
        let mut left = keys.serving("m");
        for expected in [Some("a"), Some("spare"), None] {
            let chosen = choose(&mut left, &Random::new());
            assert_eq!(chosen.map(|key| key.name.as_str()), expected);
        }
    }
}
