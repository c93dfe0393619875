//! The exports of a component, and which of them are functions that JSON can call.

use std::{collections::BTreeSet, fmt};

use wasmtime::component::{
    Component, ComponentExportIndex,
    types::{ComponentFunc, ComponentItem},
};

use super::{
    error::BadComponent,
    shape::{Field, Shape},
    unfold::{BadTypes, MAX_PARTS, Unfolder},
};

/// Exports of a component other than types and resources. A component with more is refused: a
/// function without parameters counts towards no other limit but the 50,000 exports of a component,
/// and each is a definition that a model would read.
pub(super) const MAX_EXPORTS: usize = 1_000;

/// The name of one export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExportName {
    /// The interface that contains it, such as `weather:station/api@1.0.0`; `None` if the component
    /// exports it directly.
    pub(super) interface: Option<String>,
    /// Name of the export itself.
    pub(super) name: String,
}

impl ExportName {
    /// Returns the tool name: `get-weather` becomes `get_weather`. In an interface it becomes
    /// `api_get_weather`, without the package and version of the interface. The name does not
    /// depend on other exports, so that a tool keeps its name when others are added or removed.
    pub(super) fn tool_name(&self) -> String {
        let name = match &self.interface {
            Some(interface) => {
                let versioned = interface.rsplit(['/', ':']).next().unwrap_or(interface);
                let short = versioned.split('@').next().unwrap_or(versioned);
                format!("{short}_{}", self.name)
            }
            None => self.name.clone(),
        };
        name.replace('-', "_")
    }

    /// Returns the WASI interface that contains the export; `None` if it is not part of WASI.
    fn wasi(&self) -> Option<&str> {
        self.interface.as_deref().filter(|interface| interface.starts_with("wasi:"))
    }
}

impl fmt::Display for ExportName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interface {
            Some(interface) => write!(f, "{interface}#{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// An exported function that JSON can call.
pub(super) struct Function {
    pub(super) export: ExportName,
    pub(super) index: ComponentExportIndex,
    pub(super) parameters: Vec<Field>,
    pub(super) result: Option<Shape>,
}

/// A part of a component that is not a tool: an export, or a section that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOutExport {
    pub(super) item: String,
    pub(super) reason: String,
}

impl fmt::Display for LeftOutExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.item, self.reason)
    }
}

/// The exports of a component, types aside.
pub(super) struct Exports {
    pub(super) functions: Vec<Function>,
    pub(super) left_out: Vec<LeftOutExport>,
}

/// Examines all exports. An export that cannot be called is left out. A component is refused only
/// if its size suggests an attack.
pub(super) fn examine(component: &Component) -> Result<Exports, BadComponent> {
    let ty = component.component_type();
    // The meaning of these interfaces is fixed elsewhere, and models must not call them.
    let mut exports = ty.exports(component.engine());
    if let Some((name, _)) = exports.find(|(name, _)| name.starts_with("airlock:")) {
        return Err(BadComponent::OtherContract(name.to_owned()));
    }
    let mut collector = Collector {
        component,
        unfolder: Unfolder::new(),
        exports_left: MAX_EXPORTS,
        wasi: BTreeSet::new(),
        is_all_wasi: true,
        found: Exports { functions: Vec::new(), left_out: Vec::new() },
    };
    for (name, export) in ty.exports(component.engine()) {
        match export.ty {
            ComponentItem::ComponentInstance(interface) => {
                for (function, export) in interface.exports(component.engine()) {
                    collector.collect(Some(name), function, &export.ty)?;
                }
            }
            item => collector.collect(None, name, &item)?,
        }
    }
    if collector.is_all_wasi && !collector.wasi.is_empty() {
        return Err(BadComponent::Program(
            collector.wasi.into_iter().collect::<Vec<_>>().join(" and "),
        ));
    }
    Ok(collector.found)
}

struct Collector<'a> {
    component: &'a Component,
    unfolder: Unfolder,
    exports_left: usize,
    /// WASI interfaces among the exports.
    wasi: BTreeSet<String>,
    is_all_wasi: bool,
    found: Exports,
}

impl Collector<'_> {
    fn collect(
        &mut self,
        interface: Option<&str>,
        name: &str,
        item: &ComponentItem,
    ) -> Result<(), BadComponent> {
        if matches!(item, ComponentItem::Type(_) | ComponentItem::Resource(_)) {
            return Ok(());
        }
        let left = self.exports_left.checked_sub(1);
        self.exports_left = left.ok_or(BadComponent::TooManyExports { limit: MAX_EXPORTS })?;
        let export = ExportName { interface: interface.map(str::to_owned), name: name.to_owned() };
        match export.wasi() {
            Some(wasi) => _ = self.wasi.insert(wasi.to_owned()),
            None => self.is_all_wasi = false,
        }
        match item {
            ComponentItem::ComponentFunc(function) => return self.function(export, function),
            ComponentItem::ComponentInstance(_) => {
                self.leave_out(&export, "it is an interface inside an interface");
            }
            _ => self.leave_out(&export, "it is not a function"),
        }
        Ok(())
    }

    fn function(
        &mut self,
        export: ExportName,
        function: &ComponentFunc,
    ) -> Result<(), BadComponent> {
        if let Some(reason) = exclusion(&export, function) {
            self.leave_out(&export, reason);
            return Ok(());
        }
        match (self.unfold(function), self.index(&export)) {
            (Ok((parameters, result)), Some(index)) => {
                self.found.functions.push(Function { export, index, parameters, result });
            }
            (Ok(_), None) => self.leave_out(&export, "it cannot be found by its name"),
            (Err(BadTypes::Unsupported(reason)), _) => self.leave_out(&export, &reason),
            (Err(BadTypes::TooManyParts), _) => {
                return Err(BadComponent::TooManyParts { limit: MAX_PARTS });
            }
        }
        Ok(())
    }

    fn unfold(
        &mut self,
        function: &ComponentFunc,
    ) -> Result<(Vec<Field>, Option<Shape>), BadTypes> {
        Ok((self.unfolder.parameters(function)?, self.unfolder.result(function)?))
    }

    fn index(&self, export: &ExportName) -> Option<ComponentExportIndex> {
        let interface = match &export.interface {
            Some(interface) => Some(self.component.get_export_index(None, interface.as_str())?),
            None => None,
        };
        self.component.get_export_index(interface.as_ref(), export.name.as_str())
    }

    fn leave_out(&mut self, export: &ExportName, reason: &str) {
        self.found
            .left_out
            .push(LeftOutExport { item: export.to_string(), reason: reason.to_owned() });
    }
}

/// Returns the reason for which a function cannot be a tool whatever its types are; `None` if there
/// is none.
fn exclusion(export: &ExportName, function: &ComponentFunc) -> Option<&'static str> {
    if export.wasi().is_some() {
        return Some(
            "it is for a host that runs programs or serves requests, which this release does not",
        );
    }
    if export.name.starts_with('[') {
        return Some("it belongs to a resource");
    }
    function.async_().then_some("it is asynchronous")
}
