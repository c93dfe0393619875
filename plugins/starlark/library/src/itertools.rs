//! `itertools`: all of it as lists.

use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::none::NoneOr;
use starlark::values::tuple::{AllocTuple, UnpackTuple};
use starlark::values::{Heap, Value};

use super::numbers::{count, filtered};
use super::values::{call, items, list, misuse};

/// Most items that `product`, `permutations`, `combinations` and `repeat` return. As lists they exist all at once: without
/// their items, so many take 4 MB of the 64 MiB that a run has by default.
const MAX_ROWS: usize = 1_000_000;

type Rows<'v> = Vec<Vec<Value<'v>>>;

/// The type of `chain`: a function with one of its own.
#[starlark_module]
pub(crate) fn module(builder: &mut GlobalsBuilder) {
    const chain: super::functools::Chain = super::functools::Chain;

    fn islice<'v>(
        values: Value<'v>,
        #[starlark(args)] bounds: UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let bounds = &bounds.items;
        let (start, stop, step) = match bounds.len() {
            1 => (0, bound(bounds, 0, usize::MAX)?, 1),
            _ => (bound(bounds, 0, 0)?, bound(bounds, 1, usize::MAX)?, bound(bounds, 2, 1)?.max(1)),
        };
        let stop = stop.saturating_sub(start);
        Ok(list(heap, items(values, heap)?.into_iter().skip(start).take(stop).step_by(step)))
    }

    fn count<'v>(
        #[starlark(args)] _arguments: UnpackTuple<Value<'v>>,
    ) -> starlark::Result<Value<'v>> {
        Err(misuse("itertools.count() never ends: use `range` or `enumerate`"))
    }

    fn cycle<'v>(_values: Value<'v>) -> starlark::Result<Value<'v>> {
        Err(misuse("itertools.cycle() never ends: index with `%`, `xs[i % len(xs)]`"))
    }

    fn repeat<'v>(
        value: Value<'v>,
        times: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let times =
            times.ok_or_else(|| misuse("itertools.repeat() without a number never ends"))?;
        let times = super::numbers::count(times, "times")?;
        if times > MAX_ROWS {
            return Err(misuse(format!("itertools.repeat() returns at most {MAX_ROWS} items")));
        }
        Ok(list(heap, std::iter::repeat_n(value, times)))
    }

    fn product<'v>(
        #[starlark(args)] sequences: UnpackTuple<Value<'v>>,
        #[starlark(require = named)] repeat: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let times = repeat.map_or(Ok(1), |times| super::numbers::count(times, "repeat"))?;
        let columns: Rows<'v> = sequences
            .items
            .iter()
            .map(|sequence| items(*sequence, heap))
            .collect::<Result<_, _>>()?;
        let total = columns.iter().map(Vec::len).try_fold(1_usize, usize::checked_mul);
        let total = total.and_then(|n| n.checked_pow(u32::try_from(times).ok()?));
        bounded(total)?;
        let mut rows: Rows<'v> = vec![Vec::new()];
        for _ in 0..times {
            for column in &columns {
                let longer = rows
                    .iter()
                    .flat_map(|row| column.iter().map(|item| [&row[..], &[*item]].concat()));
                rows = longer.collect();
            }
        }
        Ok(tuples(rows, heap))
    }

    fn permutations<'v>(
        values: Value<'v>,
        r: Option<NoneOr<Value<'v>>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let pool = items(values, heap)?;
        let size = match r.and_then(NoneOr::into_option) {
            Some(size) => super::numbers::count(size, "r")?,
            None => pool.len(),
        };
        if size > pool.len() {
            return Ok(tuples(Vec::new(), heap));
        }
        bounded((0..size).try_fold(1_usize, |all, at| all.checked_mul(pool.len() - at)))?;
        let mut rows = Vec::new();
        permute(&pool, size, &mut Vec::new(), &mut rows);
        Ok(tuples(rows, heap))
    }

    fn combinations<'v>(
        values: Value<'v>,
        r: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        choose(values, r, false, heap)
    }

    fn combinations_with_replacement<'v>(
        values: Value<'v>,
        r: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        choose(values, r, true, heap)
    }

    fn accumulate<'v>(
        values: Value<'v>,
        func: Option<NoneOr<Value<'v>>>,
        #[starlark(require = named)] initial: Option<NoneOr<Value<'v>>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let function = func.and_then(NoneOr::into_option);
        let mut total = initial.and_then(NoneOr::into_option);
        let mut all: Vec<_> = total.into_iter().collect();
        for item in items(values, heap)? {
            let next = match (total, function) {
                (None, _) => item,
                (Some(total), None) => total.add(item, heap)?,
                (Some(total), Some(function)) => call(function, &[total, item], eval)?,
            };
            total = Some(next);
            all.push(next);
        }
        Ok(list(heap, all))
    }

    fn groupby<'v>(
        values: Value<'v>,
        key: Option<NoneOr<Value<'v>>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let heap = eval.heap();
        let key = key.and_then(NoneOr::into_option);
        let mut groups: Vec<(Value<'v>, Vec<Value<'v>>)> = Vec::new();
        for item in items(values, heap)? {
            let name = key.map_or(Ok(item), |key| call(key, &[item], eval))?;
            match groups.last_mut() {
                Some((last, group)) if last.equals(name)? => group.push(item),
                _ => groups.push((name, vec![item])),
            }
        }
        let pairs = groups.into_iter().map(|(name, group)| heap.alloc((name, list(heap, group))));
        Ok(list(heap, pairs))
    }

    fn zip_longest<'v>(
        #[starlark(args)] sequences: UnpackTuple<Value<'v>>,
        #[starlark(require = named)] fillvalue: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let columns: Rows<'v> = sequences
            .items
            .iter()
            .map(|sequence| items(*sequence, heap))
            .collect::<Result<_, _>>()?;
        let longest = columns.iter().map(Vec::len).max().unwrap_or_default();
        let fill = fillvalue.unwrap_or(Value::new_none());
        let rows = (0..longest).map(|at| {
            columns.iter().map(|column| column.get(at).copied().unwrap_or(fill)).collect()
        });
        Ok(tuples(rows.collect(), heap))
    }

    fn takewhile<'v>(
        predicate: Value<'v>,
        values: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let all = items(values, eval.heap())?;
        let end = first_false(predicate, &all, eval)?;
        Ok(list(eval.heap(), all[..end].iter().copied()))
    }

    fn dropwhile<'v>(
        predicate: Value<'v>,
        values: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let all = items(values, eval.heap())?;
        let end = first_false(predicate, &all, eval)?;
        Ok(list(eval.heap(), all[end..].iter().copied()))
    }

    fn filterfalse<'v>(
        predicate: Value<'v>,
        values: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        filtered(predicate, values, false, eval)
    }

    fn starmap<'v>(
        function: Value<'v>,
        values: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let mut results = Vec::new();
        for row in items(values, eval.heap())? {
            let row = items(row, eval.heap())?;
            results.push(call(function, &row, eval)?);
        }
        Ok(list(eval.heap(), results))
    }

    fn pairwise<'v>(values: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(tuples(items(values, heap)?.windows(2).map(<[_]>::to_vec).collect(), heap))
    }

    fn batched<'v>(values: Value<'v>, n: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let size = super::numbers::count(n, "n")?.max(1);
        Ok(tuples(items(values, heap)?.chunks(size).map(<[_]>::to_vec).collect(), heap))
    }

    fn compress<'v>(
        data: Value<'v>,
        selectors: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let pairs = items(data, heap)?.into_iter().zip(items(selectors, heap)?);
        Ok(list(heap, pairs.filter(|(_, keep)| keep.to_bool()).map(|(item, _)| item)))
    }
}

/// Returns a bound of `islice`; the default where it is missing or `None`.
fn bound(bounds: &[Value<'_>], at: usize, default: usize) -> starlark::Result<usize> {
    match bounds.get(at).filter(|bound| !bound.is_none()) {
        Some(bound) => count(*bound, "islice() bound"),
        None => Ok(default),
    }
}

fn bounded(rows: Option<usize>) -> starlark::Result<()> {
    match rows {
        Some(rows) if rows <= MAX_ROWS => Ok(()),
        _ => Err(misuse(format!("more than {MAX_ROWS} tuples: narrow the input first"))),
    }
}

fn tuples<'v>(rows: Rows<'v>, heap: Heap<'v>) -> Value<'v> {
    list(heap, rows.into_iter().map(|row| heap.alloc(AllocTuple(row))))
}

fn permute<'v>(pool: &[Value<'v>], size: usize, taken: &mut Vec<usize>, rows: &mut Rows<'v>) {
    if taken.len() == size {
        return rows.push(taken.iter().map(|at| pool[*at]).collect());
    }
    for at in 0..pool.len() {
        if !taken.contains(&at) {
            taken.push(at);
            permute(pool, size, taken, rows);
            taken.pop();
        }
    }
}

fn choose<'v>(
    values: Value<'v>,
    size: Value<'v>,
    again: bool,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let pool = items(values, heap)?;
    let size = count(size, "r")?;
    let mut rows: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..size {
        let mut longer = Vec::new();
        for row in &rows {
            let from = row.last().map_or(0, |last| last + usize::from(!again));
            longer.extend((from..pool.len()).map(|at| [&row[..], &[at]].concat()));
            bounded(Some(longer.len()))?;
        }
        rows = longer;
    }
    let rows = rows.into_iter().map(|row| row.into_iter().map(|at| pool[at]).collect());
    Ok(tuples(rows.collect(), heap))
}

fn first_false<'v>(
    predicate: Value<'v>,
    all: &[Value<'v>],
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<usize> {
    for (at, item) in all.iter().enumerate() {
        if !call(predicate, &[*item], eval)?.to_bool() {
            return Ok(at);
        }
    }
    Ok(all.len())
}
