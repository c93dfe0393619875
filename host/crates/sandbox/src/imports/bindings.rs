//! The tools of a script by their names in it. A guest asks for those that its script uses, so that a
//! run costs the same with ten tools and with a thousand. No tool is called here, and a plugin has none.

use super::{BASE_FUEL, Store, charge, charge_call};

/// Finds a tool by its name or its alias. Returns its name in its namespace, and its full name.
pub(crate) fn find(
    store: &mut Store<'_>,
    namespace: &str,
    name: &str,
) -> wasmtime::Result<Option<(String, String)>> {
    charge_call(store, BASE_FUEL, namespace.len() + name.len())?;
    let found = store.data().call.bindings.find(namespace, name);
    Ok(found.map(|binding| (binding.name.clone(), binding.tool.to_string())))
}

/// Returns the names of the tools of a namespace.
pub(crate) fn names(store: &mut Store<'_>, namespace: &str) -> wasmtime::Result<Vec<String>> {
    charge_call(store, BASE_FUEL, namespace.len())?;
    let names = store.data().call.bindings.tools(namespace).map(str::to_owned).collect();
    charged(store, names)
}

/// Returns the names of all namespaces.
pub(crate) fn namespaces(store: &mut Store<'_>) -> wasmtime::Result<Vec<String>> {
    charge_call(store, BASE_FUEL, 0)?;
    let names = store.data().call.bindings.namespaces().map(str::to_owned).collect();
    charged(store, names)
}

/// Charges fuel for names that the guest receives.
fn charged(store: &mut Store<'_>, names: Vec<String>) -> wasmtime::Result<Vec<String>> {
    charge(store, names.iter().map(String::len).sum::<usize>() as u64)?;
    Ok(names)
}
