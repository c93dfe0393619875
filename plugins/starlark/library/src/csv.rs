//! `csv`: rows of text. Readers take a `StringIO`, or lines; writers a `StringIO`.
//!
//! - `read`: rows from text
//! - `write`: rows as text

mod read;
mod write;

use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::dict::AllocDict;
use starlark::values::none::NoneOr;
use starlark::values::{Heap, Value};

use self::read::rows;
pub(crate) use self::write::TABLE;
use self::write::{ALL, Columns, CsvWriter, NONE, NONNUMERIC};
use super::iterators::Iter;
use super::values::{items, list, misuse};

/// The module `csv`.
#[starlark_module]
pub(crate) fn module(builder: &mut GlobalsBuilder) {
    const QUOTE_MINIMAL: i32 = 0;
    const QUOTE_ALL: i32 = ALL;
    const QUOTE_NONNUMERIC: i32 = NONNUMERIC;
    const QUOTE_NONE: i32 = NONE;

    /// Iterates over rows, each a list of texts.
    fn reader<'v>(
        #[starlark(require = pos)] lines: Value<'v>,
        #[starlark(require = named, default = ",")] delimiter: &str,
        #[starlark(require = named, default = NoneOr::Other("\""))] quotechar: NoneOr<&str>,
        #[starlark(require = named, default = false)] skipinitialspace: bool,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let dialect = Dialect::new(delimiter, quotechar, skipinitialspace)?;
        let rows = rows(lines, &dialect, heap)?;
        let rows =
            rows.into_iter().map(|row| list(heap, row.into_iter().map(|field| heap.alloc(field))));
        Ok(heap.alloc(Iter::new(rows.collect())))
    }

    /// Iterates over rows, each a dict with the fields of the first row, or `fieldnames`, as keys.
    #[expect(clippy::too_many_arguments, reason = "Python's function has them")]
    fn DictReader<'v>(
        #[starlark(require = pos)] lines: Value<'v>,
        #[starlark(default = NoneOr::None)] fieldnames: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] restkey: NoneOr<Value<'v>>,
        #[starlark(default = NoneOr::None)] restval: NoneOr<Value<'v>>,
        #[starlark(require = named, default = ",")] delimiter: &str,
        #[starlark(require = named, default = NoneOr::Other("\""))] quotechar: NoneOr<&str>,
        #[starlark(require = named, default = false)] skipinitialspace: bool,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let dialect = Dialect::new(delimiter, quotechar, skipinitialspace)?;
        let mut rows = rows(lines, &dialect, heap)?
            .into_iter()
            .map(|row| row.into_iter().map(|field| heap.alloc(field)).collect::<Vec<_>>());
        let names = match fieldnames.into_option() {
            Some(names) => items(names, heap)?,
            None => rows.next().unwrap_or_default(),
        };
        let [restkey, restval] =
            [restkey, restval].map(|value| value.into_option().unwrap_or(Value::new_none()));
        let rows = rows.filter(|row| !row.is_empty()).map(|mut row| {
            let more = if row.len() > names.len() { row.split_off(names.len()) } else { vec![] };
            row.resize(names.len(), restval);
            let rest = (!more.is_empty()).then(|| (restkey, list(heap, more)));
            heap.alloc(AllocDict(names.iter().copied().zip(row).chain(rest)))
        });
        let rows = rows.collect();
        let names = list(heap, names);
        Ok(heap.alloc(Iter::of_rows(rows, names)))
    }

    /// Creates what writes rows to a `StringIO`.
    fn writer<'v>(
        #[starlark(require = pos)] file: Value<'v>,
        #[starlark(require = named, default = ",")] delimiter: &str,
        #[starlark(require = named, default = NoneOr::Other("\""))] quotechar: NoneOr<&str>,
        #[starlark(require = named, default = "\r\n")] lineterminator: &str,
        #[starlark(require = named, default = 0)] quoting: i32,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let dialect = Dialect::new(delimiter, quotechar, false)?;
        Ok(heap.alloc(CsvWriter::new(file, dialect, lineterminator, quoting)?))
    }

    /// Creates what writes dicts to a `StringIO`.
    #[expect(clippy::too_many_arguments, reason = "Python's function has them")]
    fn DictWriter<'v>(
        #[starlark(require = pos)] file: Value<'v>,
        fieldnames: Value<'v>,
        #[starlark(default = NoneOr::None)] restval: NoneOr<Value<'v>>,
        #[starlark(default = "raise")] extrasaction: &str,
        #[starlark(require = named, default = ",")] delimiter: &str,
        #[starlark(require = named, default = NoneOr::Other("\""))] quotechar: NoneOr<&str>,
        #[starlark(require = named, default = "\r\n")] lineterminator: &str,
        #[starlark(require = named, default = 0)] quoting: i32,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let dialect = Dialect::new(delimiter, quotechar, false)?;
        let writer = CsvWriter::new(file, dialect, lineterminator, quoting)?;
        let names = items(fieldnames, heap)?;
        let missing = restval.into_option().unwrap_or_else(|| heap.alloc(""));
        let strict = extrasaction == "raise";
        Ok(heap.alloc(writer.with(Columns { names, missing, strict })))
    }
}

/// The characters that divide and enclose fields.
#[derive(Debug, Clone)]
struct Dialect {
    delimiter: char,
    quote: Option<char>,
    skip_space: bool,
}

impl Dialect {
    fn new(delimiter: &str, quote: NoneOr<&str>, skip_space: bool) -> starlark::Result<Self> {
        let quote = quote.into_option().map(|quote| single(quote, "quotechar")).transpose()?;
        Ok(Self { delimiter: single(delimiter, "delimiter")?, quote, skip_space })
    }
}

/// Returns the only character of a text.
fn single(text: &str, name: &str) -> starlark::Result<char> {
    let mut chars = text.chars();
    let only = chars.next().filter(|_| chars.as_str().is_empty());
    only.ok_or_else(|| misuse(format!("\"{name}\" must be a 1-character string")))
}
