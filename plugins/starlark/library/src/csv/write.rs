//! Rows as text.

use allocative::Allocative;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace, Value,
    ValueLike as _, starlark_value,
};

use super::super::bound::{MethodTable, bound};
use super::super::io::StringIo;
use super::super::macros::{never_frozen, shown_as};
use super::super::text;
use super::super::values::{Args, as_dict, items, list, misuse, required};
use super::Dialect;

/// Values of `quoting`; 0 quotes what has to be.
pub(super) const ALL: i32 = 1;
pub(super) const NONNUMERIC: i32 = 2;
pub(super) const NONE: i32 = 3;

const METHODS: &[&str] = &["writeheader", "writerow", "writerows"];

pub(crate) const TABLE: MethodTable =
    &[(METHODS, |this, name, args, eval| method(this, name, &args, eval.heap()))];

/// The value of `csv.writer` and `csv.DictWriter`.
#[derive(
    Debug, Clone, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic,
)]
pub(super) struct CsvWriter<'v> {
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
pub(super) struct Columns<'v> {
    pub(super) names: Vec<Value<'v>>,
    /// Takes the place of what a row lacks.
    pub(super) missing: Value<'v>,
    /// Whether a row with other keys is an error.
    #[trace(unsafe_ignore)]
    pub(super) strict: bool,
}

impl<'v> CsvWriter<'v> {
    pub(super) fn new(
        file: Value<'v>,
        dialect: Dialect,
        end: &str,
        quoting: i32,
    ) -> starlark::Result<Self> {
        if file.downcast_ref::<StringIo>().is_none() {
            return Err(misuse("csv writes to an `io.StringIO()`"));
        }
        Ok(Self { file, dialect, end: end.into(), quoting, columns: None })
    }

    /// Makes this a `DictWriter`.
    pub(super) fn with(self, columns: Columns<'v>) -> Self {
        Self { columns: Some(columns), ..self }
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
        names.iter().map(|name| Ok(dict.get(*name)?.unwrap_or(*missing))).collect()
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
        let is_special = content.contains(|c: char| {
            c == delimiter || Some(c) == quote || c == '\r' || c == '\n' || self.end.contains(c)
        });
        let needs = is_special || alone && content.is_empty();
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

shown_as!(CsvWriter<'_> => "<_csv.writer object>");
never_frozen!(CsvWriter);

#[starlark_value(type = "csv")]
impl<'v> StarlarkValue<'v> for CsvWriter<'v> {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        match (attribute, &self.columns) {
            ("fieldnames", Some(columns)) => Some(list(heap, columns.names.iter().copied())),
            _ => bound(self.clone(), attribute, METHODS, heap),
        }
    }
}

/// Calls a method of a writer.
fn method<'v>(
    this: Value<'v>,
    name: &str,
    args: &Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let writer = this.downcast_ref::<CsvWriter>().ok_or_else(|| misuse("this is no csv writer"))?;
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
