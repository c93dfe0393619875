//! `csv`: rows of text. Readers take a `StringIO`, or lines; writers a `StringIO`.

use std::fmt;

use allocative::Allocative;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::dict::AllocDict;
use starlark::values::none::NoneOr;
use starlark::values::{
    AllocValue, Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace,
    Value, ValueLike as _, starlark_value,
};

use super::io::StringIo;
use super::iterators::Iter;
use super::methods::bound;
use super::text;
use super::values::{Args, as_dict, items, list, misuse, required, text_of};

const ALL: i32 = 1;
const NONNUMERIC: i32 = 2;
const NONE: i32 = 3;

const METHODS: &[&str] = &["writeheader", "writerow", "writerows"];

/// Returns whether [`method`] has this method.
pub(crate) fn has(name: &str) -> bool {
    METHODS.contains(&name)
}

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
        let rows = rows.into_iter().map(|row| list(heap, row.into_iter().map(|it| heap.alloc(it))));
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
            [restkey, restval].map(|it| it.into_option().unwrap_or(Value::new_none()));
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
        Ok(heap.alloc(Writer::new(file, dialect, lineterminator, quoting)?))
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
        let writer = Writer::new(file, dialect, lineterminator, quoting)?;
        let names = items(fieldnames, heap)?;
        let missing = restval.into_option().unwrap_or_else(|| heap.alloc(""));
        let strict = extrasaction == "raise";
        Ok(heap.alloc(Writer { columns: Some(Columns { names, missing, strict }), ..writer }))
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
        let single = |text: &str, name: &str| {
            let mut chars = text.chars();
            let only = chars.next().filter(|_| chars.as_str().is_empty());
            only.ok_or_else(|| misuse(format!("\"{name}\" must be a 1-character string")))
        };
        let quote = quote.into_option().map(|it| single(it, "quotechar")).transpose()?;
        Ok(Self { delimiter: single(delimiter, "delimiter")?, quote, skip_space })
    }
}

/// The place of a reader in a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    RowStart,
    FieldStart,
    Field,
    Quoted,
    /// After a quote in a quoted field: its end, or half of a doubled quote.
    Quote,
    /// After the end of a line.
    LineEnd,
}

/// A row in the making.
struct Row<'a> {
    dialect: &'a Dialect,
    at: At,
    field: String,
    fields: Vec<String>,
}

impl Row<'_> {
    fn save(&mut self, next: At) {
        self.fields.push(std::mem::take(&mut self.field));
        self.at = next;
    }

    /// Reads one character.
    fn take(&mut self, c: char) -> starlark::Result<()> {
        let Dialect { delimiter, quote, skip_space } = *self.dialect;
        let end = c == '\n' || c == '\r';
        match self.at {
            At::Quoted if quote == Some(c) => self.at = At::Quote,
            At::Quoted => self.field.push(c),
            At::Quote if quote == Some(c) => {
                self.field.push(c);
                self.at = At::Quoted;
            }
            At::LineEnd if end => (),
            At::LineEnd => {
                return Err(misuse(
                    "csv: new-line character seen in unquoted field: split the text with `splitlines()`",
                ));
            }
            At::RowStart if end => self.at = At::LineEnd,
            _ if end => self.save(At::LineEnd),
            _ if c == delimiter => self.save(At::FieldStart),
            At::RowStart | At::FieldStart if quote == Some(c) => self.at = At::Quoted,
            At::RowStart | At::FieldStart if c == ' ' && skip_space => self.at = At::FieldStart,
            _ => {
                self.field.push(c);
                self.at = At::Field;
            }
        }
        Ok(())
    }

    /// Reads the end of a line. Returns the row if it ends there.
    fn end(&mut self) -> Option<Vec<String>> {
        match self.at {
            At::Quoted => return None,
            At::RowStart | At::LineEnd => (),
            At::FieldStart | At::Field | At::Quote => self.save(At::RowStart),
        }
        self.at = At::RowStart;
        Some(std::mem::take(&mut self.fields))
    }
}

/// Reads all rows of a `StringIO`, or of lines.
fn rows<'v>(
    lines: Value<'v>,
    dialect: &Dialect,
    heap: Heap<'v>,
) -> starlark::Result<Vec<Vec<String>>> {
    if lines.unpack_str().is_some() {
        return Err(misuse(
            "csv reads lines, not one text: write `csv.reader(io.StringIO(text))` or `csv.reader(text.splitlines())`",
        ));
    }
    let (mut rows, field, fields) = (Vec::new(), String::new(), Vec::new());
    let mut row = Row { dialect, at: At::RowStart, field, fields };
    for line in items(lines, heap)? {
        for c in text_of(line, "a line")?.chars() {
            row.take(c)?;
        }
        rows.extend(row.end());
    }
    // A quote that is still open ends with the text.
    if row.at == At::Quoted {
        row.save(At::RowStart);
        rows.push(row.fields);
    }
    Ok(rows)
}

/// The value of `csv.writer` and `csv.DictWriter`.
#[derive(
    Debug, Clone, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic,
)]
struct Writer<'v> {
    file: Value<'v>,
    #[allocative(skip)]
    #[trace(unsafe_ignore)]
    dialect: Dialect,
    #[trace(unsafe_ignore)]
    end: String,
    #[trace(unsafe_ignore)]
    quoting: i32,
    /// The columns of a `DictWriter`.
    columns: Option<Columns<'v>>,
}

#[derive(Debug, Clone, Trace, Allocative)]
struct Columns<'v> {
    names: Vec<Value<'v>>,
    /// Takes the place of what a row lacks.
    missing: Value<'v>,
    /// Whether a row with other keys is an error.
    #[trace(unsafe_ignore)]
    strict: bool,
}

impl<'v> Writer<'v> {
    fn new(file: Value<'v>, dialect: Dialect, end: &str, quoting: i32) -> starlark::Result<Self> {
        if file.downcast_ref::<StringIo>().is_none() {
            return Err(misuse("csv writes to an `io.StringIO()`"));
        }
        Ok(Self { file, dialect, end: end.into(), quoting, columns: None })
    }

    /// Returns the fields of a row: of a dict by the columns.
    fn fields(&self, row: Value<'v>, heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
        let Some(Columns { names, missing, strict }) = &self.columns else {
            return items(row, heap);
        };
        let dict = as_dict(row).ok_or_else(|| misuse("DictWriter writes dicts"))?;
        if *strict {
            for key in dict.keys() {
                let known = names.iter().try_fold(false, |known, name| {
                    Ok::<_, starlark::Error>(known || name.equals(key)?)
                })?;
                if !known {
                    let key = text::repr(key);
                    return Err(misuse(format!("dict contains fields not in fieldnames: {key}")));
                }
            }
        }
        let field = |name: &Value<'v>| Ok(dict.get(*name)?.unwrap_or(*missing));
        names.iter().map(field).collect()
    }

    fn write(&self, fields: &[Value<'v>], heap: Heap<'v>) -> starlark::Result<usize> {
        let mut out = String::new();
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                out.push(self.dialect.delimiter);
            }
            self.field(&mut out, *field, fields.len() == 1, heap)?;
        }
        out.push_str(&self.end);
        if let Some(file) = self.file.downcast_ref::<StringIo>() {
            file.write(&out);
        }
        Ok(out.chars().count())
    }

    fn field(
        &self,
        out: &mut String,
        field: Value<'v>,
        alone: bool,
        heap: Heap<'v>,
    ) -> starlark::Result<()> {
        let content = if field.is_none() { String::new() } else { text::str(field, heap) };
        let Dialect { delimiter, quote, .. } = self.dialect;
        let special = |c: char| {
            c == delimiter || Some(c) == quote || c == '\r' || c == '\n' || self.end.contains(c)
        };
        let needs = content.contains(special) || alone && content.is_empty();
        let number = matches!(field.get_type(), "int" | "float" | "bool");
        let quoted = match self.quoting {
            NONE => false,
            ALL => true,
            NONNUMERIC => !number,
            _ => needs,
        };
        match quote.filter(|_| quoted) {
            Some(quote) => {
                out.push(quote);
                for c in content.chars() {
                    out.extend((c == quote).then_some(quote));
                    out.push(c);
                }
                out.push(quote);
            }
            None if needs => return Err(misuse("csv: need to escape, but no quotes are allowed")),
            None => out.push_str(&content),
        }
        Ok(())
    }
}

impl fmt::Display for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<_csv.writer object>")
    }
}

impl<'v> AllocValue<'v> for Writer<'v> {
    fn alloc_value(self, heap: Heap<'v>) -> Value<'v> {
        heap.alloc_complex_no_freeze(self)
    }
}

#[starlark_value(type = "csv")]
impl<'v> StarlarkValue<'v> for Writer<'v> {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        match (attribute, &self.columns) {
            ("fieldnames", Some(columns)) => Some(list(heap, columns.names.iter().copied())),
            _ => bound(self.clone(), attribute, METHODS, heap),
        }
    }
}

/// Calls a method of a writer.
pub(crate) fn method<'v>(
    this: Value<'v>,
    name: &str,
    args: &Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let writer = this.downcast_ref::<Writer>().ok_or_else(|| misuse("this is no csv writer"))?;
    let argument = args.only_positional()?.first().copied();
    match (name, &writer.columns) {
        ("writeheader", Some(columns)) => Ok(heap.alloc(writer.write(&columns.names, heap)?)),
        ("writeheader", None) => Err(misuse("only a DictWriter has a header")),
        ("writerow", _) => {
            let fields = writer.fields(required(argument, "row")?, heap)?;
            Ok(heap.alloc(writer.write(&fields, heap)?))
        }
        _ => {
            for row in items(required(argument, "rows")?, heap)? {
                writer.write(&writer.fields(row, heap)?, heap)?;
            }
            Ok(Value::new_none())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::run::tests::{fail, result};

    #[test]
    fn misuse_is_told() {
        for (expression, message) in [
            ("csv.reader('a,b')", "csv reads lines, not one text: write"),
            ("csv.reader([1])", "a line must be a str, not int"),
            ("csv.reader(['a\\rb'])", "csv: new-line character"),
            ("csv.reader([], delimiter = '||')", "\"delimiter\" must be a 1-character string"),
            ("csv.writer([])", "csv writes to an `io.StringIO()`"),
            ("csv.writer(io.StringIO()).writeheader()", "only a DictWriter has a header"),
            (
                "csv.DictWriter(io.StringIO(), ['a']).writerow({'b': 1})",
                "dict contains fields not in fieldnames: 'b'",
            ),
            (
                "csv.writer(io.StringIO(), quoting = csv.QUOTE_NONE).writerow([','])",
                "csv: need to escape",
            ),
        ] {
            let message_of = fail(&format!("import csv, io\nx = {expression}")).message;
            assert!(message_of.starts_with(message), "{expression}: {message_of}");
        }
    }

    #[test]
    fn an_open_quote_ends_with_the_text() {
        let source = "import csv\nresult = list(csv.reader(['a,\"b', 'c']))";
        assert_eq!(result(source).as_deref(), Some(r#"[["a","bc"]]"#));
    }
}
