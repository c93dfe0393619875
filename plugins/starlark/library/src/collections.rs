//! `collections`: `Counter`, `defaultdict` and `OrderedDict` here, and
//!
//! - `deque`: lists that change at both ends
//! - `tuples`: `namedtuple`

mod deque;
mod tuples;

use std::fmt;

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::dict::{AllocDict, Dict, DictMut, DictRef};
use starlark::values::list::AllocList;
use starlark::values::none::NoneOr;
use starlark::values::{Heap, StarlarkValue, Value, ValueLike as _, starlark_value};

use self::deque::Deque;
pub(crate) use self::tuples::TupleType;
use super::bound::{MethodTable, bound};
use super::class::Type;
use super::containers::DictLike;
use super::creation::{dict_of, insert_all};
use super::order::sort_by;
use super::text;
use super::values::{Args, as_dict, as_i64, call, items, list, misuse, size};

impl fmt::Display for DictLike<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = text::repr(self.inner);
        match self.factory {
            Some(factory) => write!(f, "defaultdict({}, {inner})", text::repr(factory)),
            None if inner == "{}" => f.write_str("Counter()"),
            None => {
                let mut pairs = most_common(self.inner).unwrap_or_default();
                let mut out = String::new();
                text::enclosed(&mut out, "{", "}", pairs.drain(..), |out, (key, count)| {
                    out.push_str(&format!("{}: {}", text::repr(key), text::repr(count)));
                });
                write!(f, "Counter({out})")
            }
        }
    }
}

const DICT_METHODS: &[&str] = &["copy", "elements", "most_common", "subtract", "total", "update"];

#[starlark_value(type = "defaultdict")]
impl<'v> StarlarkValue<'v> for DictLike<'v> {
    fn at(&self, index: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        if let Some(found) = as_dict(self.inner).map(|dict| dict.get(index)).transpose()?.flatten()
        {
            return Ok(found);
        }
        let Some(factory) = self.factory else {
            let dict = as_dict(self.inner);
            let found = twin(index, heap).and_then(|twin| dict?.get(twin).transpose());
            return found.unwrap_or_else(|| Ok(heap.alloc(0)));
        };
        let made = match factory.downcast_ref::<Type>().map(|class| class.name) {
            Some("list") => heap.alloc(AllocList::EMPTY),
            Some("dict") => heap.alloc(AllocDict::EMPTY),
            Some("int") => heap.alloc(0),
            Some("float") => heap.alloc(0.0),
            Some("str") => heap.alloc(""),
            Some("bool") => Value::new_bool(false),
            Some("tuple") => heap.alloc(starlark::values::tuple::AllocTuple::EMPTY),
            _ if factory.is_none() => {
                return Err(misuse(format!("KeyError: {}", text::repr(index))));
            }
            _ => return Err(misuse("this defaultdict needs its function: read it as `d[key]`")),
        };
        self.set_at(index, made)?;
        Ok(made)
    }

    fn set_at(&self, index: Value<'v>, value: Value<'v>) -> starlark::Result<()> {
        self.inner.set_at(index, value)
    }

    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        bound(self.clone(), attribute, DICT_METHODS, heap)
            .or_else(|| self.inner.get_attr(attribute, heap).ok().flatten())
    }

    fn iterate_collect(&self, heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
        items(self.inner, heap)
    }

    fn length(&self) -> starlark::Result<i32> {
        self.inner.length()
    }

    fn to_bool(&self) -> bool {
        self.inner.to_bool()
    }

    fn is_in(&self, other: Value<'v>) -> starlark::Result<bool> {
        self.inner.is_in(other)
    }

    fn equals(&self, other: Value<'v>) -> starlark::Result<bool> {
        let other = other.downcast_ref::<Self>().map_or(other, |like| like.inner);
        self.inner.equals(other)
    }

    fn add(&self, other: Value<'v>, heap: Heap<'v>) -> Option<starlark::Result<Value<'v>>> {
        self.factory.is_none().then(|| combine(self.inner, other, heap, |a, b| a + b))
    }

    /// The counts that are positive.
    fn plus(&self, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        self.signed("+", |_, count| count, heap)
    }

    /// The counts that are negative, without their sign.
    fn minus(&self, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        self.signed("-", |_, count| count.saturating_neg(), heap)
    }

    fn sub(&self, other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        combine(self.inner, other, heap, |a, b| a - b)
    }

    fn bit_and(&self, other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        combine(self.inner, other, heap, i64::min)
    }

    fn bit_or(&self, other: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        if self.factory.is_none() {
            return combine(self.inner, other, heap, i64::max);
        }
        let mut map = SmallMap::new();
        insert_all(&mut map, self.inner, heap)?;
        insert_all(&mut map, other, heap)?;
        Ok(heap.alloc(Self { inner: heap.alloc(Dict::new(map)), factory: self.factory }))
    }
}

/// Combines two counters, without the counts that are not positive.
fn combine<'v>(
    left: Value<'v>,
    right: Value<'v>,
    heap: Heap<'v>,
    by: fn(i64, i64) -> i64,
) -> starlark::Result<Value<'v>> {
    let other = as_dict(right).ok_or_else(|| misuse("a Counter is combined with a Counter"))?;
    let this = as_dict(left).ok_or_else(|| misuse("a Counter is combined with a Counter"))?;
    let mut map = SmallMap::new();
    for (key, _) in this.iter_hashed().chain(other.iter_hashed()) {
        let total = by(count_of(this.get_hashed(key)), count_of(other.get_hashed(key)));
        if total > 0 {
            map.insert_hashed(key, heap.alloc(total));
        }
    }
    Ok(heap.alloc(DictLike { inner: heap.alloc(Dict::new(map)), factory: None }))
}

fn count_of(value: Option<Value<'_>>) -> i64 {
    value.and_then(as_i64).unwrap_or_default()
}

/// Adds to counts: those of a dict, or 1 for each item.
fn count_all<'v>(
    inner: Value<'v>,
    from: Value<'v>,
    sign: i64,
    heap: Heap<'v>,
) -> starlark::Result<()> {
    let mut added = Vec::new();
    match as_dict(from) {
        Some(dict) => added.extend(dict.iter()),
        None => added.extend(items(from, heap)?.into_iter().map(|item| (item, heap.alloc(1)))),
    }
    let mut dict = DictMut::from_value(inner)?;
    for (key, count) in added {
        let mut key = key.get_hashed()?;
        let mut before = dict.aref.get_hashed(key);
        // What was counted first stays the key.
        if before.is_none()
            && let Some(twin) = twin(*key.key(), heap)
        {
            let twin = twin.get_hashed()?;
            before = dict.aref.get_hashed(twin);
            key = if before.is_some() { twin } else { key };
        }
        let total = match before {
            _ if sign < 0 => before.unwrap_or(heap.alloc(0)).sub(count, heap)?,
            None => count,
            Some(before) => before.add(count, heap)?,
        };
        dict.aref.insert_hashed(key, total);
    }
    Ok(())
}

/// Returns the truth value that Python counts as this number, or the number for a truth value.
fn twin<'v>(key: Value<'v>, heap: Heap<'v>) -> Option<Value<'v>> {
    if let Some(truth) = key.unpack_bool() {
        return Some(heap.alloc(i32::from(truth)));
    }
    let mut truths = [false, true].into_iter();
    let same = truths.find(|truth| heap.alloc(i32::from(*truth)).equals(key).unwrap_or_default());
    same.map(Value::new_bool)
}

/// Returns the entries of a counter, the most frequent first.
fn most_common<'v>(inner: Value<'v>) -> starlark::Result<Vec<(Value<'v>, Value<'v>)>> {
    let mut entries: Vec<_> =
        DictRef::from_value(inner).map(|dict| dict.iter().collect()).unwrap_or_default();
    sort_by(&mut entries, &mut |a, b| b.1.compare(a.1))?;
    Ok(entries)
}

/// Calls `Counter`, `defaultdict` or `deque`.
pub(crate) fn construct<'v>(
    name: &str,
    mut args: Args<'v>,
    eval: &mut Evaluator<'v, '_, '_>,
) -> starlark::Result<Value<'v>> {
    let heap = eval.heap();
    match name {
        "Counter" => {
            let inner = heap.alloc(AllocDict::EMPTY);
            for from in &args.positional {
                count_all(inner, *from, 1, heap)?;
            }
            for (name, count) in &args.named {
                inner.set_at(heap.alloc(*name), *count)?;
            }
            Ok(heap.alloc(DictLike { inner, factory: None }))
        }
        "defaultdict" => {
            let factory = if args.positional.is_empty() {
                Value::new_none()
            } else {
                args.positional.remove(0)
            };
            let inner = heap.alloc(Dict::new(dict_of(args, heap)?));
            Ok(heap.alloc(DictLike { inner, factory: Some(factory) }))
        }
        _ => Deque::construct(args, heap),
    }
}

/// The methods that the dict in a `Counter` or `defaultdict` lacks.
pub(crate) const DICT_LIKE: MethodTable = &[(DICT_METHODS, |this, name, args, eval| {
    let like = this.downcast_ref::<DictLike>().ok_or_else(|| misuse("this is no dict"))?;
    like.method(name, &args, eval.heap())
})];

/// The methods that the list in a `deque` lacks.
pub(crate) const DEQUE: MethodTable = &[(deque::METHODS, |this, name, args, eval| {
    let deque = this.downcast_ref::<Deque>().ok_or_else(|| misuse("this is no deque"))?;
    deque.method(name, &args, eval)
})];

impl<'v> DictLike<'v> {
    fn signed(
        &self,
        operator: &str,
        by: fn(i64, i64) -> i64,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        if self.factory.is_some() {
            return Err(misuse(format!("bad operand type for unary {operator}: 'defaultdict'")));
        }
        combine(heap.alloc(AllocDict::EMPTY), self.inner, heap, by)
    }

    fn method(&self, name: &str, args: &Args<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        match name {
            "copy" => {
                let mut map = SmallMap::new();
                insert_all(&mut map, self.inner, heap)?;
                Ok(heap.alloc(Self { inner: heap.alloc(Dict::new(map)), factory: self.factory }))
            }
            "most_common" => {
                let entries = most_common(self.inner)?;
                let most = match args.positional.first().filter(|most| !most.is_none()) {
                    Some(most) => usize::try_from(size(*most, "n")?).unwrap_or_default(),
                    None => entries.len(),
                };
                Ok(list(heap, entries.into_iter().take(most).map(|entry| heap.alloc(entry))))
            }
            "elements" => {
                let mut all = Vec::new();
                for (key, count) in as_dict(self.inner).iter().flat_map(|dict| dict.iter()) {
                    let count = usize::try_from(size(count, "count")?).unwrap_or_default();
                    all.extend(std::iter::repeat_n(key, count));
                }
                Ok(list(heap, all))
            }
            "total" => as_dict(self.inner)
                .iter()
                .flat_map(|dict| dict.values())
                .try_fold(heap.alloc(0), |total, count| total.add(count, heap)),
            _ if self.factory.is_some() => {
                let mut map = SmallMap::new();
                for from in &args.positional {
                    insert_all(&mut map, *from, heap)?;
                }
                let mut dict = DictMut::from_value(self.inner)?;
                for (key, value) in map.into_iter_hashed() {
                    dict.aref.insert_hashed(key, value);
                }
                Ok(Value::new_none())
            }
            _ => {
                let sign = if name == "subtract" { -1 } else { 1 };
                for from in &args.positional {
                    count_all(self.inner, *from, sign, heap)?;
                }
                Ok(Value::new_none())
            }
        }
    }

    /// Returns the value of a key, made by the factory if there is none.
    pub(crate) fn get_or_make(
        &self,
        key: Value<'v>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let known = as_dict(self.inner).map(|dict| dict.get(key)).transpose()?.flatten();
        match (known, self.factory) {
            (Some(value), _) => Ok(value),
            (None, Some(factory)) if !factory.is_none() => {
                let made = call(factory, &[], eval)?;
                self.inner.set_at(key, made)?;
                Ok(made)
            }
            _ => self.at(key, eval.heap()),
        }
    }
}

/// The module `collections`.
#[starlark_module]
pub(crate) fn module(builder: &mut GlobalsBuilder) {
    const Counter: Type = Type { name: "Counter" };
    const OrderedDict: Type = Type { name: "OrderedDict" };
    const defaultdict: Type = Type { name: "defaultdict" };
    const deque: Type = Type { name: "deque" };

    /// Creates a type of tuples with names.
    fn namedtuple<'v>(
        typename: &str,
        field_names: Value<'v>,
        #[starlark(require = named)] defaults: Option<NoneOr<Value<'v>>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        if defaults.is_some() {
            return Err(misuse("namedtuple() has no defaults here: give every value"));
        }
        let fields = match field_names.unpack_str() {
            Some(names) => names.replace(',', " ").split_whitespace().map(Into::into).collect(),
            None => {
                items(field_names, heap)?.into_iter().map(|name| text::str(name, heap)).collect()
            }
        };
        Ok(heap.alloc(TupleType::new(typename, fields)))
    }

    /// Looks keys up in several dicts, the first one first.
    fn ChainMap<'v>(
        #[starlark(args)] maps: starlark::values::tuple::UnpackTuple<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut all = SmallMap::new();
        for map in maps.items.into_iter().rev() {
            insert_all(&mut all, map, heap)?;
        }
        Ok(heap.alloc(Dict::new(all)))
    }
}
