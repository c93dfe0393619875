//! `wasm_config`: a plugin, what it is lent, what its calls may spend.

use std::collections::BTreeSet;

use super::{
    super::{
        Wasm, file,
        values::{Size, Span},
    },
    Place,
};
use crate::{
    catalog::ClientName,
    sandbox::{Access, Directory, Grants, Limits},
};

pub(super) fn resolve(place: &Place<'_>, wasm: file::Wasm, names: &BTreeSet<ClientName>) -> Wasm {
    Wasm {
        component: place.member("component").path(&wasm.component),
        grants: grants(&place.member("grants"), wasm.grants, names),
        limits: limits(&place.member("limits"), &wasm.limits),
    }
}

fn grants(place: &Place<'_>, grants: file::Grants, names: &BTreeSet<ClientName>) -> Grants {
    let tools = place.member("tools");
    for (index, tool) in grants.tools.iter().enumerate() {
        let place = tools.element(index);
        match tool.split_once('-') {
            None | Some((_, "" | "*")) => {
                place.refuse(format_args!("found {tool:?}, expected one tool's full name: CLIENT-TOOL"));
            }
            Some((client, _)) if !names.iter().any(|name| name.as_str() == client) => {
                place.refuse(format_args!("{tool:?}: no client is named {client:?}"));
            }
            Some(_) => {}
        }
    }
    Grants { directories: directories(&place.member("directories"), grants.directories), tools: grants.tools }
}

fn directories(place: &Place<'_>, directories: Vec<file::Directory>) -> Vec<Directory> {
    let mut seen = BTreeSet::new();
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let resolve = |(index, directory): (usize, file::Directory)| {
        let place = place.element(index);
        let name = place.member("name");
        if directory.name.is_empty() || directory.name.len() > 64 || !directory.name.chars().all(is_fit) {
            name.refuse(format_args!("found {:?}, expected 1 to 64 letters, digits, `_` or `-`", directory.name));
        } else if !seen.insert(directory.name.clone()) {
            name.refuse(format_args!("another directory is named {:?} already", directory.name));
        }
        let access = match directory.access {
            file::Access::ReadOnly => Access::ReadOnly,
            file::Access::ReadWrite => Access::ReadWrite,
        };
        Directory { name: directory.name, path: place.member("path").path(&directory.path), access }
    };
    directories.into_iter().enumerate().map(resolve).collect()
}

/// The bounds on the bounds keep a slip of the finger, such as an hour of CPU time, from taking the gateway down.
fn limits(place: &Place<'_>, file: &file::Limits) -> Limits {
    let base = Limits::PLUGIN;
    let ms = Span::millis(1);
    Limits {
        fuel: place.member("fuel").within(file.fuel, base.fuel, 1_000..=1_000_000_000_000),
        cpu: place.member("cpu_time").within(file.cpu_time, Span(base.cpu), ms..=Span::secs(5 * 60)).0,
        // Without a word a call has what `tool_execution_timeout` gives it.
        deadline: place.member("deadline").within(file.deadline, Span::secs(60 * 60), ms..=Span::secs(60 * 60)).0,
        memory_bytes: size(place, "memory", file.memory, base.memory_bytes, Size::kib(64)..=Size::mib(1 << 10)),
        table_elements: place.member("table_elements").count(file.table_elements, 20_000, 0..=20_000) as usize,
        handles: place.member("handles").count(file.handles, 1_024, 1..=65_536) as usize,
        copied_bytes: size(place, "copied", file.copied, base.copied_bytes, Size::kib(64)..=Size::mib(256)),
        host_calls: place.member("host_calls").count(file.host_calls, base.host_calls, 0..=1_000_000),
        result_bytes: size(place, "result", file.result, base.result_bytes, Size::kib(1)..=Size::mib(64)),
        log_lines: place.member("log_lines").count(file.log_lines, base.log_lines, 0..=100_000),
        log_line_bytes: size(place, "log_line", file.log_line, base.log_line_bytes, Size(64)..=Size::kib(64)),
    }
}

fn size(place: &Place<'_>, key: &str, value: Option<Size>, default: usize, range: std::ops::RangeInclusive<Size>) -> usize {
    place.member(key).within(value, default.into(), range).bytes()
}
