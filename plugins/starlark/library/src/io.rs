//! `io`: text in memory that is read and written like a file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use allocative::Allocative;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::{
    AllocValue, Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Trace,
    Value, ValueLike as _, starlark_value,
};

use super::bound::{MethodTable, bound};
use super::macros::shown_as;
use super::values::{Args, as_i64, items, list, misuse, required, text_of};

const METHODS: &[&str] =
    &["close", "flush", "getvalue", "read", "readline", "readlines", "seek", "write", "writelines"];

pub(crate) const TABLE: MethodTable =
    &[(METHODS, |this, name, args, eval| method(this, name, args, eval.heap()))];

/// The module `io`.
#[starlark_module]
pub(crate) fn module(builder: &mut GlobalsBuilder) {
    fn StringIO<'v>(
        initial_value: Option<&str>,
        newline: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> anyhow::Result<Value<'v>> {
        // Lines keep the ends that they have.
        let _ = newline;
        Ok(heap.alloc(StringIo::new(initial_value.unwrap_or_default())))
    }
}

/// A text with a position, which all copies of the value share.
#[derive(
    Debug, Clone, Trace, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic,
)]
pub struct StringIo {
    #[allocative(skip)]
    #[trace(unsafe_ignore)]
    state: Arc<Mutex<BufferState>>,
}

#[derive(Debug)]
struct BufferState {
    text: String,
    /// Byte at which the next read or write begins.
    at: usize,
}

impl StringIo {
    fn new(text: &str) -> Self {
        Self { state: Arc::new(Mutex::new(BufferState { text: text.to_owned(), at: 0 })) }
    }

    fn state(&self) -> MutexGuard<'_, BufferState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes at the position, over as many characters as there are.
    pub fn write(&self, new: &str) {
        let BufferState { text, at } = &mut *self.state();
        if *at == text.len() {
            text.push_str(new);
        } else {
            let over: usize =
                text[*at..].chars().take(new.chars().count()).map(char::len_utf8).sum();
            text.replace_range(*at..*at + over, new);
        }
        *at += new.len();
    }

    /// Takes the characters from the position on, at most `most` of them.
    fn read(&self, most: Option<usize>) -> String {
        let BufferState { text, at } = &mut *self.state();
        let rest = &text[*at..];
        let length =
            most.map_or(rest.len(), |most| rest.chars().take(most).map(char::len_utf8).sum());
        *at += length;
        rest[..length].to_owned()
    }

    /// Takes the next line with its end; empty at the end of the text.
    fn line(&self) -> String {
        let BufferState { text, at } = &mut *self.state();
        let rest = &text[*at..];
        let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
        *at += length;
        rest[..length].to_owned()
    }

    /// Takes all lines that are left.
    fn lines(&self) -> Vec<String> {
        std::iter::from_fn(|| Some(self.line()).filter(|line| !line.is_empty())).collect()
    }
}

shown_as!(StringIo => "<_io.StringIO object>");

impl<'v> AllocValue<'v> for StringIo {
    fn alloc_value(self, heap: Heap<'v>) -> Value<'v> {
        heap.alloc_complex_no_freeze(self)
    }
}

#[starlark_value(type = "StringIO")]
impl<'v> StarlarkValue<'v> for StringIo {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        bound(self.clone(), attribute, METHODS, heap)
    }

    fn iterate_collect(&self, heap: Heap<'v>) -> starlark::Result<Vec<Value<'v>>> {
        Ok(self.lines().into_iter().map(|line| heap.alloc(line)).collect())
    }
}

/// Calls a method of a `StringIO`.
fn method<'v>(
    this: Value<'v>,
    name: &str,
    args: Args<'v>,
    heap: Heap<'v>,
) -> starlark::Result<Value<'v>> {
    let io = this.downcast_ref::<StringIo>().ok_or_else(|| misuse("this is no StringIO"))?;
    let [argument] = args.bind(["argument"])?;
    match name {
        "getvalue" => Ok(heap.alloc(&*io.state().text)),
        "read" => {
            let most = argument.and_then(as_i64).and_then(|most| usize::try_from(most).ok());
            Ok(heap.alloc(io.read(most)))
        }
        "readline" => Ok(heap.alloc(io.line())),
        "readlines" => Ok(list(heap, io.lines().into_iter().map(|line| heap.alloc(line)))),
        "write" => {
            let text = text_of(required(argument, "text")?, "text")?;
            io.write(text);
            Ok(heap.alloc(text.chars().count()))
        }
        "writelines" => {
            for line in items(required(argument, "lines")?, heap)? {
                io.write(text_of(line, "a line")?);
            }
            Ok(Value::new_none())
        }
        "seek" => {
            let at =
                as_i64(required(argument, "position")?).and_then(|at| usize::try_from(at).ok());
            let at = at.ok_or_else(|| misuse("seek() takes a position from 0"))?;
            let mut state = io.state();
            state.at = state.text.char_indices().nth(at).map_or(state.text.len(), |(byte, _)| byte);
            Ok(heap.alloc(at))
        }
        _ => Ok(Value::new_none()),
    }
}
