//! Accounting of a bounded resource: counts the units of each tenant, and decides which tenant may
//! take more.

use std::collections::HashMap;

use super::Tenant;

/// A bounded resource, with the number of units that each tenant holds.
///
/// A tenant may take one more unit while it holds less than `weight` times the free units. This is
/// the dynamic threshold of shared-memory switches (Choudhury and Hahne, 1998). One tenant alone
/// gets at most `weight / (weight + 1)` of the capacity, rounded up. Tenants that all want more
/// than the capacity end up with equal parts. Some units stay free, so a new tenant need not wait
/// until another tenant returns units.
#[derive(Debug)]
pub struct Shares {
    capacity: usize,
    weight: usize,
    taken: usize,
    /// Units by tenant; only tenants that hold at least one.
    held: HashMap<Tenant, usize>,
}

impl Shares {
    /// Creates a resource of `capacity` units, all of them free.
    pub fn new(capacity: usize, weight: usize) -> Self {
        Self { capacity, weight, taken: 0, held: HashMap::new() }
    }

    /// Number of units that there are.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of units that all tenants hold together.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Number of units that `tenant` holds.
    pub fn held_by(&self, tenant: &Tenant) -> usize {
        self.held.get(tenant).copied().unwrap_or(0)
    }

    /// Returns whether `tenant` may take `amount` units now. The rule is the same as for taking
    /// them one by one. An amount of 0 is always admitted.
    pub fn admits(&self, tenant: &Tenant, amount: usize) -> bool {
        self.admits_beyond(self.held_by(tenant), amount)
    }

    /// Returns whether a tenant that holds `held` units may take `amount` more.
    fn admits_beyond(&self, held: usize, amount: usize) -> bool {
        let free = self.capacity - self.taken;
        let Some(before_last) = amount.checked_sub(1) else { return true };
        amount <= free
            && held.saturating_add(before_last) < self.weight.saturating_mul(free - before_last)
    }

    /// Takes `amount` units for `tenant`; false, and nothing is taken, if it may not have that
    /// many.
    pub fn take(&mut self, tenant: &Tenant, amount: usize) -> bool {
        let held = self.held_by(tenant);
        if !self.admits_beyond(held, amount) {
            return false;
        }
        if amount > 0 {
            self.taken += amount;
            // Only tenants that hold something have an entry. Each look-up hashes the tenant, under the lock of the
            // resource.
            if held == 0 {
                self.held.insert(tenant.clone(), amount);
            } else if let Some(held) = self.held.get_mut(tenant) {
                *held += amount;
            }
        }
        true
    }

    /// Frees `amount` of the units that `tenant` holds, at most all of them.
    pub fn give_back(&mut self, tenant: &Tenant, amount: usize) {
        let Some(held) = self.held.get_mut(tenant) else { return };
        let amount = amount.min(*held);
        *held -= amount;
        self.taken -= amount;
        if *held == 0 {
            self.held.remove(tenant);
        }
    }

    /// Returns whether `tenant` holds less than its fair part while another tenant holds more than
    /// that part. The fair part is the capacity divided by the number of tenants that hold units,
    /// this tenant included, rounded up.
    pub fn is_unfair_to(&self, tenant: &Tenant) -> bool {
        let tenants = self.held.len() + usize::from(!self.held.contains_key(tenant));
        let part = self.capacity.div_ceil(tenants);
        self.held_by(tenant) < part
            && self.held.iter().any(|(other, held)| other != tenant && *held > part)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tenant(number: u8) -> Tenant {
        Tenant::of_key([number; 32], number.to_string())
    }

    /// Takes units one by one until the first refusal, and returns the number of units taken.
    fn take_all(shares: &mut Shares, number: u8) -> usize {
        std::iter::from_fn(|| shares.take(&tenant(number), 1).then_some(())).count()
    }

    #[test]
    fn a_tenant_alone_leaves_units_free_for_later_tenants() {
        let mut shares = Shares::new(64, 3);
        assert_eq!([1, 2, 3, 4].map(|number| take_all(&mut shares, number)), [48, 12, 3, 1]);
        for (capacity, most) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (8, 6)] {
            assert_eq!(take_all(&mut Shares::new(capacity, 3), 1), most, "of {capacity}");
        }
    }

    #[test]
    fn fair_parts_are_equal_and_rounded_up() {
        let mut shares = Shares::new(4, 3);
        assert!(!shares.is_unfair_to(&tenant(1)), "none holds anything");
        assert!(shares.take(&tenant(1), 3));
        assert!(shares.is_unfair_to(&tenant(2)) && !shares.is_unfair_to(&tenant(1)));
        shares.give_back(&tenant(1), 1);
        assert!(!shares.is_unfair_to(&tenant(2)), "two of four are a part");
        assert!(shares.take(&tenant(2), 2));
        assert!(!shares.is_unfair_to(&tenant(3)), "a third part is 1.3, rounded up");
    }

    #[test]
    fn taking_many_units_at_once_follows_the_rule_for_single_units() {
        for most in [(64, 3, 48), (64, 7, 56), (7, 3, 6), (1, 7, 1)] {
            let (capacity, weight, most) = most;
            let mut shares = Shares::new(capacity, weight);
            assert!(!shares.take(&tenant(1), most + 1) && shares.taken() == 0, "of {capacity}");
            assert!(shares.take(&tenant(1), most) && !shares.take(&tenant(1), 1), "of {capacity}");
            assert!(shares.take(&tenant(1), 0), "nothing, always");
        }
    }

    #[derive(Debug, Clone)]
    enum Step {
        Take(u8, usize),
        GiveBack(u8, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = (any::<bool>(), 0..5_u8, 0..9_usize).prop_map(|(takes, number, amount)| {
            if takes { Step::Take(number, amount) } else { Step::GiveBack(number, amount) }
        });
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        #[test]
        fn counts_add_up_and_never_exceed_the_capacity(capacity in 0..40_usize, weight in 1..8_usize, steps in steps()) {
            let mut shares = Shares::new(capacity, weight);
            for step in steps {
                match step {
                    Step::Take(number, amount) => {
                        let before = shares.held_by(&tenant(number));
                        let admitted = shares.admits(&tenant(number), amount);
                        prop_assert_eq!(shares.take(&tenant(number), amount), admitted);
                        prop_assert_eq!(shares.held_by(&tenant(number)), before + if admitted { amount } else { 0 });
                    }
                    Step::GiveBack(number, amount) => shares.give_back(&tenant(number), amount),
                }
                prop_assert_eq!(shares.taken(), shares.held.values().sum::<usize>());
                prop_assert!(shares.taken() <= capacity && shares.held.values().all(|held| *held > 0));
                // A tenant that holds nothing is refused only if nothing is free.
                prop_assert_eq!(shares.admits(&Tenant::ANONYMOUS, 1), shares.taken() < capacity);
            }
        }

        /// All tenants take as many units as they may, whenever the largest one returns a unit.
        /// Tenant 0 takes first, so it starts with the largest part.
        #[test]
        fn tenants_that_want_everything_end_up_with_equal_parts(capacity in 8..60_usize, weight in 1..8_usize, tenants in 2..6_u8) {
            let mut shares = Shares::new(capacity, weight);
            for round in 0..capacity * 3 {
                for number in 0..tenants {
                    take_all(&mut shares, number);
                }
                let largest = (0..tenants).max_by_key(|number| shares.held_by(&tenant(*number))).expect("some");
                if round + 1 < capacity * 3 {
                    shares.give_back(&tenant(largest), 1);
                }
            }
            let held: Vec<_> = (0..tenants).map(|number| shares.held_by(&tenant(number))).collect();
            let least = held.iter().min().expect("some");
            let most = held.iter().max().expect("some");
            prop_assert!(most - least <= weight + 1, "{:?} of {}", held, capacity);
        }
    }
}
