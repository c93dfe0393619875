//! Tools and their results as values of the interpreter.

use std::sync::Arc;

use airlock_executor::{Answer, Binding, Bindings};
use jiter::JsonError;
use monty_types::{DictPairs, MontyClassInstance, MontyClassType, MontyObject, MontyUuid};

use crate::convert;

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
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_script_that_uses_two_of_500_tools_asks_for_two() {
        airlock_executor::testing::check_lazy_bindings::<crate::Python>();
    }
}
