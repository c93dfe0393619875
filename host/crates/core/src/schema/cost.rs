//! Upper bounds on the cost of checking one value, by the depth of the value. They are computed
//! once from the graph of subschemas.
//!
//! First, the subschemas that meet the same value are gathered, with the number of times that each
//! evaluates it. Then the tables are extended by one level of the value at a time. Sums saturate,
//! so that an overflow gives a large number and not a small one.

use std::collections::{BTreeSet, HashMap};

use super::{
    MAX_DEPTH, Problem,
    graph::{Children, Graph, Misplaced},
};

/// The most evaluations of one value by a group of subschemas that all meet it. References and
/// `anyOf` multiply the subschemas that the author wrote. A union of a thousand forms passes; a
/// fan-out of 2⁵ times 2⁵ levels does not.
const MAX_EVALUATIONS: u64 = 1_024;
/// The most subschemas that may be evaluated inside each other, over the whole depth of a value.
/// Each takes up to 2 KiB of stack in `jsonschema`, measured. A check must fit into half a megabyte
/// of stack, because it may run on the stack of a guest's fiber.
pub(super) const MAX_NESTING: u64 = 256;
/// Greatest depth to which [`MAX_BRANCHED_EVALUATIONS`] applies. A recursion that branches is
/// refused if it costs too much down to this depth. Models rarely send deeper values. The price of
/// a value includes its real depth, so a deeper value that costs too much fails without a check.
const BRANCHING_DEPTH: usize = 6;
/// The most evaluations of a value down to that depth. Four branches of four subschemas each have
/// 16,384.
const MAX_BRANCHED_EVALUATIONS: u64 = 100_000;
/// The most steps of the computation: a few milliseconds. A union of 200 forms with ten members
/// each takes 60,000.
const MAX_STEPS: usize = 400_000;
/// Limit on evaluations times subschemas times `unevaluated` keywords. For these keywords,
/// `jsonschema` compiles the target of a reference again for each path that leads there, and once
/// more for each such keyword on the path.
const MAX_RECOMPILED: u64 = 1 << 20;

/// Upper bound on the cost of one value at a certain depth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Number of evaluations of the value by subschemas.
    pub(super) evaluations: u64,
    /// Cost of these evaluations, in units of about 5 ns.
    pub(super) work: u64,
    /// Cost of their patterns for each byte of the value, or of its key, in the same units.
    pub(super) patterns: u64,
    /// Number of evaluations that compare all its items with each other.
    pub(super) unique: u64,
    /// Number of subschemas inside each other when the value is evaluated.
    pub(super) nesting: u64,
}

/// Costs by depth, that of the outermost value first. Ends at the greatest depth that the schema
/// reaches.
pub(super) struct Costs(Vec<Cost>);

/// A subschema that is the first to meet a value, together with all subschemas that it applies to
/// the same value.
struct Entry {
    own: Cost,
    key_patterns: u64,
    members: Side,
    items: Side,
}

/// Entries that meet the children of a value: one list for each name, and one for any name.
#[derive(Default)]
struct Side {
    named: Vec<Vec<Edge>>,
    any: Vec<Edge>,
}

/// An entry or node by index, with the number of its evaluations.
type Edge = (usize, u64);

impl Costs {
    pub(super) fn of(graph: &Graph<'_>) -> Result<Self, Misplaced> {
        let order = Order::of(graph)?;
        let mut gathering = Gathering { graph, order: &order, steps: 0 };
        let entries = gathering.entries()?;
        let mut rows = vec![entries.iter().map(|entry| entry.own).collect::<Vec<_>>()];
        let mut root = vec![rows[0][0]];
        for depth in 1..=MAX_DEPTH {
            let above = rows.pop().unwrap_or_default();
            let row: Vec<_> = entries.iter().map(|entry| entry.below(&above, depth)).collect();
            if row.iter().all(|cost| *cost == Cost::default()) {
                break;
            }
            root.push(row[0]);
            rows.push(row);
        }
        let costs = Self(root);
        costs.check(graph)?;
        Ok(costs)
    }

    fn check(&self, graph: &Graph<'_>) -> Result<(), Misplaced> {
        let everywhere = |problem| Err(("#".into(), problem));
        let evaluations = || self.0.iter().map(|cost| cost.evaluations).enumerate();
        if let Some((depth, found)) = evaluations()
            .take(BRANCHING_DEPTH + 1)
            .find(|(_, found)| *found > MAX_BRANCHED_EVALUATIONS)
        {
            return everywhere(Problem::TooManyBranches {
                depth,
                found,
                limit: MAX_BRANCHED_EVALUATIONS,
            });
        }
        let most = evaluations().map(|(_, found)| found).max().unwrap_or(0);
        let unevaluated = graph.nodes.iter().filter(|node| node.is_unevaluated).count() as u64;
        if most.saturating_mul(graph.nodes.len() as u64).saturating_mul(unevaluated)
            > MAX_RECOMPILED
        {
            return everywhere(Problem::TooEntangled);
        }
        Ok(())
    }

    /// Returns the cost of a value at `depth`; zero beyond the depth that the schema reaches.
    pub(super) fn at(&self, depth: usize) -> Cost {
        self.0.get(depth).copied().unwrap_or_default()
    }
}

impl Entry {
    /// Returns the cost of a value `depth` levels below the value that this entry meets. `above`
    /// has the costs of all entries at one level less.
    fn below(&self, above: &[Cost], depth: usize) -> Cost {
        let (members, items) = (self.members.sum(above), self.items.sum(above));
        let mut cost = Cost {
            evaluations: members.evaluations.max(items.evaluations),
            work: members.work.max(items.work),
            patterns: members.patterns.max(items.patterns),
            unique: members.unique.max(items.unique),
            nesting: members.nesting.max(items.nesting),
        };
        if cost.nesting > 0 {
            cost.nesting = cost.nesting.saturating_add(self.own.nesting);
        }
        if depth == 1 {
            cost.patterns = cost.patterns.saturating_add(self.key_patterns);
        }
        cost
    }
}

impl Side {
    /// Returns the sum for the most expensive name, each kind of cost by itself.
    fn sum(&self, above: &[Cost]) -> Cost {
        let any = sum(&self.any, above);
        let mut dearest = any;
        for edges in &self.named {
            let one = sum(edges, above);
            dearest.evaluations =
                dearest.evaluations.max(any.evaluations.saturating_add(one.evaluations));
            dearest.work = dearest.work.max(any.work.saturating_add(one.work));
            dearest.patterns = dearest.patterns.max(any.patterns.saturating_add(one.patterns));
            dearest.unique = dearest.unique.max(any.unique.saturating_add(one.unique));
            dearest.nesting = dearest.nesting.max(one.nesting);
        }
        dearest
    }
}

fn sum(edges: &[Edge], costs: &[Cost]) -> Cost {
    edges.iter().fold(Cost::default(), |sum, &(entry, times)| {
        let cost = costs[entry];
        Cost {
            evaluations: sum.evaluations.saturating_add(cost.evaluations.saturating_mul(times)),
            work: sum.work.saturating_add(cost.work.saturating_mul(times)),
            patterns: sum.patterns.saturating_add(cost.patterns.saturating_mul(times)),
            unique: sum.unique.saturating_add(cost.unique.saturating_mul(times)),
            nesting: sum.nesting.max(cost.nesting),
        }
    })
}

/// Topological order of the subschemas: each comes before those that it applies to the same value.
struct Order {
    /// Position of each subschema in the order.
    rank: Vec<usize>,
    /// Length of the longest chain of subschemas on the same value that starts at each, itself
    /// included.
    height: Vec<u64>,
}

impl Order {
    fn of(graph: &Graph<'_>) -> Result<Self, Misplaced> {
        let count = graph.nodes.len();
        let mut order = Self { rank: vec![usize::MAX; count], height: vec![0; count] };
        let mut is_open = vec![false; count];
        let mut left = count;
        for start in 0..count {
            // Depth-first search without recursion, because a chain of references may be as long as
            // the document allows.
            let mut path = vec![(start, 0)];
            while let Some((node, next)) = path.pop() {
                if order.height[node] > 0 {
                    continue;
                }
                if let Some(&child) = graph.nodes[node].in_place.get(next) {
                    is_open[node] = true;
                    if is_open[child] {
                        return Err((graph.place(child), Problem::Cycle));
                    }
                    path.push((node, next + 1));
                    path.push((child, 0));
                    continue;
                }
                is_open[node] = false;
                let height =
                    graph.nodes[node].in_place.iter().map(|&child| order.height[child]).max();
                order.height[node] = 1 + height.unwrap_or(0);
                left -= 1;
                order.rank[node] = left;
                if order.height[node] > MAX_NESTING {
                    let problem =
                        Problem::TooNested { found: order.height[node], limit: MAX_NESTING };
                    return Err((graph.place(node), problem));
                }
            }
        }
        Ok(order)
    }

    /// Returns the number of evaluations of a node's in-place subschemas for one evaluation of the
    /// node. For an `unevaluated` keyword, these subschemas are evaluated again, and those inside
    /// them once more for each level.
    fn repeats(&self, graph: &Graph<'_>, node: usize) -> u64 {
        if graph.nodes[node].is_unevaluated { 2 + self.height[node] } else { 1 }
    }
}

/// Gathers the groups of subschemas that meet the same value.
struct Gathering<'g, 's> {
    graph: &'g Graph<'s>,
    order: &'g Order,
    steps: usize,
}

impl Gathering<'_, '_> {
    fn entries(&mut self) -> Result<Vec<Entry>, Misplaced> {
        let mut numbers = HashMap::from([(0, 0)]);
        let mut firsts = vec![0];
        let mut entries = Vec::new();
        while let Some(&first) = firsts.get(entries.len()) {
            let group = self.group(first)?;
            let mut entry = self.entry(first, &group)?;
            let edges = [&mut entry.members, &mut entry.items].into_iter();
            for (node, _) in
                edges.flat_map(|side| side.named.iter_mut().flatten().chain(&mut side.any))
            {
                *node = *numbers.entry(*node).or_insert_with(|| {
                    firsts.push(*node);
                    firsts.len() - 1
                });
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Returns the subschemas that meet the same value as `first`, with the number of evaluations
    /// of each. Fails if there are more evaluations than [`MAX_EVALUATIONS`].
    fn group(&mut self, first: usize) -> Result<Vec<Edge>, Misplaced> {
        let mut waiting = BTreeSet::from([(self.order.rank[first], first)]);
        let mut times = HashMap::from([(first, 1_u64)]);
        let mut group = Vec::new();
        // In order of rank, so that a subschema is visited after all subschemas that apply it.
        while let Some((_, node)) = waiting.pop_first() {
            let own = times[&node];
            group.push((node, own));
            let each = own.saturating_mul(self.order.repeats(self.graph, node));
            for &child in &self.graph.nodes[node].in_place {
                self.step(1)?;
                let total = times.entry(child).or_insert(0);
                *total = total.saturating_add(each);
                waiting.insert((self.order.rank[child], child));
            }
        }
        let found = group.iter().fold(0_u64, |sum, (_, times)| sum.saturating_add(*times));
        if found > MAX_EVALUATIONS {
            return Err((
                self.graph.place(first),
                Problem::TooManyEvaluations { found, limit: MAX_EVALUATIONS },
            ));
        }
        Ok(group)
    }

    /// Sums up the costs of a group. The edges of the result still refer to nodes, not to entries.
    fn entry(&mut self, first: usize, group: &[Edge]) -> Result<Entry, Misplaced> {
        let mut own = Cost { nesting: self.order.height[first], ..Cost::default() };
        let mut key_patterns = 0_u64;
        for &(node, times) in group {
            let node = &self.graph.nodes[node];
            own.evaluations = own.evaluations.saturating_add(times);
            own.work = own.work.saturating_add(node.weight.saturating_mul(times));
            own.patterns = own.patterns.saturating_add(node.pattern_cost.saturating_mul(times));
            own.unique = own.unique.saturating_add(u64::from(node.is_unique).saturating_mul(times));
            key_patterns = key_patterns.saturating_add(node.key_pattern_cost.saturating_mul(times));
        }
        let graph = self.graph;
        let members = self.side(group, |node| &graph.nodes[node].members)?;
        let items = self.side(group, |node| &graph.nodes[node].items)?;
        Ok(Entry { own, key_patterns, members, items })
    }

    /// Returns the subschemas that meet each child. For every name in the group, these are the
    /// subschemas for that name, and the `others` of the nodes that do not have the name.
    fn side<'k, K: Copy + Eq + std::hash::Hash + 'k>(
        &mut self,
        group: &[Edge],
        children: impl Fn(usize) -> &'k Children<K>,
    ) -> Result<Side, Misplaced> {
        let repeated =
            |(node, times): Edge| times.saturating_mul(self.order.repeats(self.graph, node));
        let mut side = Side::default();
        let mut others = Vec::new();
        let mut named: HashMap<K, Vec<(usize, Edge)>> = HashMap::new();
        for &(node, times) in group {
            let children = children(node);
            side.any.extend(children.any.iter().map(|&child| (child, repeated((node, times)))));
            others.extend(children.others.iter().map(|&child| (node, (child, times))));
            for &(name, child) in &children.named {
                named.entry(name).or_default().push((node, (child, times)));
            }
        }
        self.step(side.any.len() + (named.len() + 1) * (others.len() + 1))?;
        for knowing in named.into_values() {
            self.step(knowing.len())?;
            let owners: BTreeSet<_> = knowing.iter().map(|(node, _)| *node).collect();
            let unknowing = others.iter().filter(|(node, _)| !owners.contains(node));
            side.named.push(knowing.iter().chain(unknowing).map(|(_, edge)| *edge).collect());
        }
        side.named.push(others.into_iter().map(|(_, edge)| edge).collect());
        Ok(side)
    }

    fn step(&mut self, steps: usize) -> Result<(), Misplaced> {
        self.steps += steps;
        if self.steps > MAX_STEPS { Err(("#".into(), Problem::TooEntangled)) } else { Ok(()) }
    }
}
