//! Values of the variables of one body.

use super::values::FlowValue;

/// Values of variables that only one body uses, sorted by variable. A list, because each branch and each loop copies all of
/// them, and joins them with others that have mostly the same variables.
#[derive(Default)]
pub(super) struct Locals(Vec<(usize, FlowValue)>);

impl Locals {
    /// Returns the number of variables that have a value.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Iterates over the variables and their values.
    pub(super) fn variables(&self) -> impl Iterator<Item = (usize, FlowValue)> {
        self.0.iter().copied()
    }

    /// Returns the value of a variable; `None` if it has none here.
    pub(super) fn get(&self, variable: usize) -> Option<FlowValue> {
        self.find(variable).ok().map(|at| self.0[at].1)
    }

    /// Returns the value of a variable. One that has none gets an empty one.
    pub(super) fn entry(&mut self, variable: usize) -> &mut FlowValue {
        let at = self.find(variable).unwrap_or_else(|at| {
            self.0.insert(at, (variable, FlowValue::default()));
            at
        });
        &mut self.0[at].1
    }

    /// Joins values into these. Returns whether these have grown.
    pub(super) fn join(&mut self, others: &Self) -> bool {
        let mut has_grown = false;
        let mut added = Vec::new();
        let mut at = 0;
        for (variable, value) in &others.0 {
            while self.0.get(at).is_some_and(|(known, _)| known < variable) {
                at += 1;
            }
            match self.0.get_mut(at) {
                Some((known, own)) if *known == *variable => has_grown |= own.grow(value),
                _ => {
                    has_grown |= *value != FlowValue::default();
                    added.push((*variable, *value));
                }
            }
        }
        if !added.is_empty() {
            self.0.append(&mut added);
            // Two sorted runs: they are merged.
            self.0.sort_by_key(|(variable, _)| *variable);
        }
        has_grown
    }

    /// Returns the place of a variable; of one that has no value, the place that it would have.
    fn find(&self, variable: usize) -> Result<usize, usize> {
        self.0.binary_search_by_key(&variable, |(known, _)| *known)
    }
}

impl Clone for Locals {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    /// Keeps the allocation.
    fn clone_from(&mut self, others: &Self) {
        self.0.clone_from(&others.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::values::OriginSet;
    use super::*;

    fn value(tool: usize) -> FlowValue {
        FlowValue::plain(OriginSet::of_tool(tool))
    }

    fn locals(values: &[(usize, FlowValue)]) -> Locals {
        let mut locals = Locals::default();
        for (variable, value) in values {
            *locals.entry(*variable) = *value;
        }
        locals
    }

    #[test]
    fn joined_values_are_sorted_by_variable_and_have_the_values_of_both() {
        let mut own = locals(&[(5, value(0)), (1, value(1))]);
        assert!(own.join(&locals(&[(0, value(2)), (5, value(3)), (7, FlowValue::default())])));
        let joined =
            [(0, value(2)), (1, value(1)), (5, value(0).with(value(3))), (7, FlowValue::default())];
        assert_eq!(own.variables().collect::<Vec<_>>(), joined);
        assert_eq!((own.get(5), own.get(6)), (Some(value(0).with(value(3))), None));
    }

    #[test]
    fn values_grow_only_by_what_they_do_not_have() {
        let mut own = locals(&[(1, value(1).with(value(2)))]);
        assert!(!own.join(&locals(&[(1, value(2)), (2, FlowValue::default())])));
        assert_eq!(own.len(), 2);
        assert!(own.join(&locals(&[(2, value(1))])));
    }
}
