//! Tools and their results as values of the interpreter.

use airlock_executor::{Bindings, ToolAnswer, ToolError};
use monty_types::{DictPairs, MontyClassInstance, MontyClassType, MontyObject, MontyUuid};

use crate::convert;

/// Returns the value of the global that holds the tools of a namespace; `None` if there is no such
/// namespace. Its attributes are not in it: the interpreter asks for each.
pub(crate) fn namespace(bindings: &Bindings, name: &str) -> Option<MontyObject> {
    let id = identity(bindings.named().position(|named| named == name)?);
    Some(object(class(name.to_owned(), id), Vec::new()))
}

/// Returns the name of the namespace that a value has from [`namespace`].
pub(crate) fn name_of(bindings: &Bindings, id: MontyUuid) -> Option<&str> {
    let at = usize::try_from(u128::from_be_bytes(*id.as_bytes())).ok()?.checked_sub(1)?;
    bindings.named().nth(at)
}

/// Returns the identity of the namespace at this position. Zero stands for none.
fn identity(at: usize) -> MontyUuid {
    MontyUuid::from_u128(at as u128 + 1)
}

/// Creates a class of which the host has the objects.
pub(crate) fn class(name: String, id: MontyUuid) -> MontyClassType {
    let attrs = DictPairs::from(Vec::new());
    MontyClassType { name, id, host_defined: true, is_dataclass: false, attrs }
}

/// Creates the object of such a class.
pub(crate) fn object(
    class_type: MontyClassType,
    attrs: Vec<(MontyObject, MontyObject)>,
) -> MontyObject {
    MontyObject::ClassInstance(Box::new(MontyClassInstance {
        instance_id: class_type.id,
        class_type,
        attrs: DictPairs::from(attrs),
    }))
}

/// Converts the result of a tool to a value of the script.
pub(crate) fn value(answer: ToolAnswer) -> Result<MontyObject, ToolError> {
    answer.into_value(convert::from_json, MontyObject::String)
}
