//! What checking a value costs at most, by how deep in the value it is: computed once from the
//! graph of subschemas.
//!
//! Subschemas that meet the same value are gathered first, with how often each looks at it; then
//! the tables grow by one level of the value at a time. Sums saturate, so that an explosion is a
//! large number and not a small one.

use std::collections::{BTreeSet, HashMap};

use super::{
    MAX_DEPTH, Problem,
    graph::{Children, Graph, Misplaced},
};

/// The most subschemas that may look at one value where references and `anyOf` multiply nothing but
/// what the author wrote: a union of a thousand forms passes. 2⁵ times 2⁵ levels of fan-out do not.
const MAX_EVALUATIONS: u64 = 1_024;
/// The most subschemas that may be at work inside each other, over the whole depth of a value. Each
/// takes up to 2 KiB of stack in `jsonschema`, measured; a check has to do with half a megabyte,
/// because it may run on the stack of a guest's fiber.
pub(super) const MAX_NESTING: u64 = 256;
/// A recursion that branches is refused by what it costs at this depth. What models send is rarely
/// deeper, and a check is priced by the depth that it meets, so what is deeper costs its caller an
/// error and nobody any time.
const BRANCHING_DEPTH: usize = 6;
/// How often a value at that depth may be looked at: four branches, each of four subschemas, have
/// 16,384.
const MAX_BRANCHED_EVALUATIONS: u64 = 100_000;
/// Steps that the computation may take: a few milliseconds. A union of 200 forms with ten members
/// each takes 60,000.
const MAX_STEPS: usize = 400_000;
/// A bound on evaluations times subschemas times `unevaluated` keywords. For these keywords
/// `jsonschema` compiles what a reference leads to again for each way that leads there, and once
/// more for each such keyword on the way.
const MAX_RECOMPILED: u64 = 1 << 20;

/// What one value at a certain depth costs at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Subschemas that look at it.
    pub(super) evaluations: u64,
    /// What they do, in units of about 5 ns.
    pub(super) work: u64,
    /// What their patterns do for each byte of it, or of its key.
    pub(super) patterns: u64,
    /// How many compare all its items with each other.
    pub(super) unique: u64,
    /// Subschemas at work inside each other when it is looked at.
    pub(super) nesting: u64,
}

/// Costs by depth, the outermost value's first. None beyond the depth that the schema reaches.
pub(super) struct Costs(Vec<Cost>);

/// A subschema that is the first to meet a value, with all those that it applies in place.
struct Entry {
    own: Cost,
    key_patterns: u64,
    members: Side,
    items: Side,
}

/// What meets the children of a value: a list for each name, and one for any. An edge says which
/// entry, and how often.
#[derive(Default)]
struct Side {
    named: Vec<Vec<Edge>>,
    any: Vec<Edge>,
}

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

    /// What a value at `depth` costs.
    pub(super) fn at(&self, depth: usize) -> Cost {
        self.0.get(depth).copied().unwrap_or_default()
    }
}

impl Entry {
    /// The cost of a value `depth` levels below the one that this entry meets, from those one level
    /// less below.
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
    /// The sum for the dearest name.
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

/// Subschemas in an order in which each stands before those that it applies in place.
struct Order {
    /// The place of each in it.
    rank: Vec<usize>,
    /// How many are inside each other from each on, itself included.
    height: Vec<u64>,
}

impl Order {
    fn of(graph: &Graph<'_>) -> Result<Self, Misplaced> {
        let count = graph.nodes.len();
        let mut order = Self { rank: vec![usize::MAX; count], height: vec![0; count] };
        let mut is_open = vec![false; count];
        let mut left = count;
        for start in 0..count {
            // Depth first, without recursion: a chain of references may have any length.
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

    /// How often a node's in-place subschemas look at a value when it does once. One that asks what
    /// the others have looked at has each of them look again, and those inside them once more for
    /// each level.
    fn repeats(&self, graph: &Graph<'_>, node: usize) -> u64 {
        if graph.nodes[node].is_unevaluated { 2 + self.height[node] } else { 1 }
    }
}

/// Gathers what meets one value.
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

    /// The subschemas that meet a value together with `first`, and how often each does.
    fn group(&mut self, first: usize) -> Result<Vec<Edge>, Misplaced> {
        let mut waiting = BTreeSet::from([(self.order.rank[first], first)]);
        let mut times = HashMap::from([(first, 1_u64)]);
        let mut group = Vec::new();
        // By rank, so that a subschema comes up when all those that apply it have.
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

    /// Sums up a group. Its edges still name nodes.
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

    /// What meets each child: for every name that anyone in the group knows, those that know it and
    /// the `others` of those that do not.
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
