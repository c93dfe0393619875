//! The tools of a run, and what a call of one is and returns.

use std::sync::Arc;

use airlock_executor::{Binding, Bindings};
use jiter::JsonError;
use monty_types::{DictPairs, MontyClassInstance, MontyClassType, MontyObject, MontyUuid};

use crate::convert;

/// The tools behind a run: the host's import in WebAssembly, a stub in tests.
pub trait Tools {
    /// Calls one tool and waits for its result.
    fn call(&self, request: Request) -> Result<Answer, ToolFailure>;

    /// Calls several tools at once. The results are in the order of the requests.
    fn call_batch(&self, requests: Vec<Request>) -> Vec<Result<Answer, ToolFailure>> {
        requests.into_iter().map(|request| self.call(request)).collect()
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Full name of the tool.
    pub tool: String,
    /// Arguments, as a JSON object.
    pub arguments: String,
}

/// The result of a tool.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Data, as JSON text.
    Json(String),
    /// Text for a reader. It becomes data if it is JSON, and stays a string otherwise.
    Text(String),
    /// Parts of which at least one is no text. A single part stands for itself.
    Parts(Vec<Part>),
}

/// A part of a result.
#[derive(Clone, Debug)]
pub enum Part {
    /// Text for a reader.
    Text(String),
    /// Something that a script can name and not read, as a dict of these fields. Bytes never reach
    /// a script.
    Handle(Vec<(&'static str, Field)>),
}

/// A field of a handle.
#[derive(Clone, Debug)]
pub enum Field {
    /// A text, such as a media type.
    Text(String),
    /// A number of bytes.
    Size(u64),
}

#[cfg(test)]
pub(crate) fn field(text: &str) -> Field {
    Field::Text(text.to_owned())
}

/// The failure of a tool. Scripts catch it as a `ToolError` with these attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFailure {
    /// Kind of the failure, such as `not-found`.
    pub kind: String,
    /// Stable identifier that the tool chose.
    pub code: Option<String>,
    /// Message for a reader.
    pub message: String,
    /// Details, as JSON text.
    pub data: Option<String>,
}

/// The tools of one run, by the names that the script uses.
pub(crate) struct Shelves<'a>(pub(crate) &'a Bindings);

impl<'a> Shelves<'a> {
    /// Returns the value of the global that holds the tools of a namespace; `None` if there is no
    /// such namespace. Its attributes are not in it: the interpreter asks for each.
    pub(crate) fn namespace(&self, name: &str) -> Option<MontyObject> {
        let id = identity(self.0.named().position(|named| named == name)?);
        let empty = || DictPairs::from(Vec::new());
        let class_type = MontyClassType {
            name: name.to_owned(),
            id,
            host_defined: true,
            is_dataclass: false,
            attrs: empty(),
        };
        let instance = MontyClassInstance { class_type, instance_id: id, attrs: empty() };
        Some(MontyObject::ClassInstance(Box::new(instance)))
    }

    /// Returns the name of the namespace that a value has from [`Shelves::namespace`].
    pub(crate) fn name_of(&self, id: MontyUuid) -> Option<&'a str> {
        let at = usize::try_from(u128::from_be_bytes(*id.as_bytes())).ok()?.checked_sub(1)?;
        self.0.named().nth(at)
    }

    /// Finds a tool by its name, or by its alias if no tool of the namespace has that name.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<Arc<Binding>> {
        self.0.find(namespace, name)
    }

    /// Returns the names of the tools of a namespace.
    pub(crate) fn tools(&self, namespace: &str) -> Vec<String> {
        self.0.names(namespace)
    }

    /// Returns the names of all namespaces, each once.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.namespaces()
    }
}

/// Returns the identity of the namespace at this position. Zero stands for none.
fn identity(at: usize) -> MontyUuid {
    MontyUuid::from_u128(at as u128 + 1)
}

/// Converts the result of a tool to a value of the script.
pub(crate) fn value(answer: Answer) -> Result<MontyObject, JsonError> {
    match answer {
        Answer::Json(json) => convert::from_json(&json),
        Answer::Text(text) => Ok(convert::from_json(&text).unwrap_or(MontyObject::String(text))),
        Answer::Parts(parts) => {
            let mut values: Vec<_> = parts.into_iter().map(part).collect();
            Ok(match values.len() {
                1 => values.remove(0),
                _ => MontyObject::List(values),
            })
        }
    }
}

fn part(part: Part) -> MontyObject {
    match part {
        Part::Text(text) => MontyObject::String(text),
        Part::Handle(fields) => {
            let fields = fields.into_iter().map(|(name, field)| {
                let value = match field {
                    Field::Text(text) => MontyObject::String(text),
                    Field::Size(bytes) => {
                        MontyObject::Int(i64::try_from(bytes).unwrap_or(i64::MAX))
                    }
                };
                (MontyObject::String(name.to_owned()), value)
            });
            MontyObject::dict(fields.collect::<Vec<_>>())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use airlock_executor::Catalogue;

    use super::*;
    use crate::{Script, run};

    /// A catalogue of 500 tools in five namespaces that counts what is asked of it.
    struct Many(Arc<AtomicUsize>);

    impl Catalogue for Many {
        fn find(&self, namespace: &str, name: &str) -> Option<Binding> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let number: usize = name.strip_prefix("tool_")?.parse().ok()?;
            let tool = format!("{namespace}-{name}");
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            (number < 100).then_some(Binding { namespace, name, alias: None, tool })
        }

        fn names(&self, _: &str) -> Vec<String> {
            panic!("a script that ends well lists no tools")
        }

        fn namespaces(&self) -> Vec<String> {
            panic!("a script that ends well lists no namespaces")
        }
    }

    struct Named;

    impl Tools for Named {
        fn call(&self, request: Request) -> Result<Answer, ToolFailure> {
            Ok(Answer::Text(request.tool))
        }
    }

    #[test]
    fn a_script_that_uses_two_of_500_tools_asks_for_two() {
        let times = Arc::new(AtomicUsize::new(0));
        let named = (0..5).map(|n| format!("server_{n}")).collect();
        let source = "out = []
for _ in range(3):
    out.append(server_1.tool_7(a=1))
    out.append(server_3.tool_99())
result = out[2:4]";
        let script = Script {
            name: "code".into(),
            source: source.into(),
            bindings: Bindings::new(named, Box::new(Many(times.clone()))),
            clock_ms: None,
        };
        let value = run(&script, &Named, &|_| ()).expect("it ends well");
        assert_eq!(value.as_deref(), Some(r#"["server_1-tool_7","server_3-tool_99"]"#));
        assert_eq!(times.load(Ordering::Relaxed), 2);
    }
}
