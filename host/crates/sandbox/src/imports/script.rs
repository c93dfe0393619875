//! The imports of a script executor: the tools of the script by their names in it, and their calls.
//!
//! A guest asks for the tools that its script uses, so that a run costs the same with ten tools and
//! with a thousand. The calls are made by what runs the script, which decides them and has their
//! journal. A plugin has none of this.

use std::sync::Arc;

use super::tools::{TOOL_FUEL, ToolReply, receive};
use crate::{
    Bindings, ScriptCall, ScriptCalls, SourceCall, ToolFlow, WrongCall,
    run::{
        charge::{BASE_FUEL, charge, charge_call},
        state::{ScriptSide, Store},
    },
};

/// Fuel that looking at a call costs before the script runs, and at each of its arguments.
const LOOK_FUEL: u64 = 1_000;

fn bindings(store: &Store<'_, ScriptSide>) -> Arc<Bindings> {
    store.data().call.guest.bindings.clone()
}

/// Finds a tool by its name or its alias. Returns its name in its namespace, and its full name.
pub(crate) fn find(
    store: &mut Store<'_, ScriptSide>,
    namespace: &str,
    name: &str,
) -> wasmtime::Result<Option<(String, String)>> {
    charge_call(store, BASE_FUEL, namespace.len() + name.len())?;
    let bindings = bindings(store);
    let found = bindings.find(namespace, name);
    Ok(found.map(|binding| (binding.name.clone(), binding.tool.to_string())))
}

/// Returns the names of the tools of a namespace.
pub(crate) fn names(
    store: &mut Store<'_, ScriptSide>,
    namespace: &str,
) -> wasmtime::Result<Vec<String>> {
    charge_call(store, BASE_FUEL, namespace.len())?;
    let names = bindings(store).tools(namespace).map(str::to_owned).collect();
    charged(store, names)
}

/// Returns the names of all namespaces.
pub(crate) fn namespaces(store: &mut Store<'_, ScriptSide>) -> wasmtime::Result<Vec<String>> {
    charge_call(store, BASE_FUEL, 0)?;
    let names = bindings(store).namespaces().map(str::to_owned).collect();
    charged(store, names)
}

/// Returns the names of all global functions.
pub(crate) fn functions(store: &mut Store<'_, ScriptSide>) -> wasmtime::Result<Vec<String>> {
    charge_call(store, BASE_FUEL, 0)?;
    let names = bindings(store).functions().map(str::to_owned).collect();
    charged(store, names)
}

/// Returns those calls of a source that would fail if the script reached them.
pub(crate) fn check(
    store: &mut Store<'_, ScriptSide>,
    calls: &[SourceCall],
) -> wasmtime::Result<Vec<WrongCall>> {
    charge_call(store, BASE_FUEL, 0)?;
    for call in calls {
        charge(store, LOOK_FUEL * call.values() as u64 + call.bytes() as u64)?;
    }
    let maker: Arc<dyn ScriptCalls> = store.data().call.guest.calls.clone();
    let wrong = maker.check(&bindings(store), calls);
    charge(store, wrong.iter().map(WrongCall::bytes).sum::<usize>() as u64)?;
    Ok(wrong)
}

/// Takes what the arguments of the calls of a script may come from.
pub(crate) fn follow(
    store: &mut Store<'_, ScriptSide>,
    flows: Vec<ToolFlow>,
) -> wasmtime::Result<()> {
    charge_call(store, BASE_FUEL, 0)?;
    for flow in &flows {
        charge(store, LOOK_FUEL * flow.values() as u64 + flow.bytes() as u64)?;
    }
    let maker: Arc<dyn ScriptCalls> = store.data().call.guest.calls.clone();
    maker.follow(flows);
    Ok(())
}

/// Charges fuel for names that the guest receives.
fn charged(store: &mut Store<'_, ScriptSide>, names: Vec<String>) -> wasmtime::Result<Vec<String>> {
    charge(store, names.iter().map(String::len).sum::<usize>() as u64)?;
    Ok(names)
}

/// Calls one tool and waits for its result.
pub(crate) async fn call(
    mut store: Store<'_, ScriptSide>,
    request: ScriptCall,
) -> wasmtime::Result<ToolReply> {
    let mut answers = make(&mut store, vec![request], false).await?;
    answers.pop().ok_or_else(|| wasmtime::Error::msg("a call without a result"))
}

/// Calls several tools at the same time. The results are in the order of the requests.
pub(crate) async fn call_batch(
    mut store: Store<'_, ScriptSide>,
    requests: Vec<ScriptCall>,
) -> wasmtime::Result<Vec<ToolReply>> {
    make(&mut store, requests, true).await
}

async fn make(
    store: &mut Store<'_, ScriptSide>,
    requests: Vec<ScriptCall>,
    is_block: bool,
) -> wasmtime::Result<Vec<ToolReply>> {
    for request in &requests {
        let bytes = request.tool.len() + request.arguments.len();
        charge_call(store, BASE_FUEL + TOOL_FUEL, bytes)?;
    }
    let calls: Arc<dyn ScriptCalls> = store.data().call.guest.calls.clone();
    let names: Vec<_> = requests.iter().map(|request| request.tool.clone()).collect();
    match calls.make(requests, is_block).await {
        Ok(answers) => {
            names.iter().zip(answers).map(|(name, answer)| receive(store, name, answer)).collect()
        }
        Err(stop) => Err(store.data_mut().stop(stop)),
    }
}
