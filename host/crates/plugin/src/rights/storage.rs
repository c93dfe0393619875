//! Stores, directories and scratch space, and their quotas.

use super::Intersection;
use crate::{
    FilesAccess, FilesGrant, FilesRequest, PartialQuota, Request, ScratchRequest, manifest::ANY,
};
use airlock_core::units::Size;
use airlock_sandbox::{Access, Directory, KvStore, Quota};

/// Quotas of directories and stores without a quota of the operator's, whatever the plugin
/// requests.
pub(super) const DEFAULT_DIRECTORY: Quota = Quota { bytes: 1 << 30, files: 10_000 };
pub(super) const DEFAULT_SCRATCH: Quota = Quota { bytes: 64 << 20, files: 1_000 };
/// Name of the scratch directory in the guest, which no granted directory may have.
const SCRATCH: &str = "tmp";
pub(super) const DEFAULT_STORE_BYTES: u64 = 4 << 20;

impl Intersection<'_> {
    pub(super) fn kv(&mut self) -> Vec<KvStore> {
        let mut stores = Vec::new();
        for (name, grant) in &self.grant.kv {
            let request = self.requests.map(|requests| requests.kv.get(name));
            if request == Some(None) {
                self.unrequested(&format!("grants.kv.{name}"));
                continue;
            }
            let requested = request.flatten().map(|request| request.max_bytes.0);
            let max_bytes = lesser(requested, grant.max_bytes, DEFAULT_STORE_BYTES);
            self.note_less(&format!("kv.{name}"), requested, max_bytes, size);
            stores.push(KvStore {
                name: name.clone(),
                max_bytes,
                is_shared: grant.shared,
                is_cache: request.flatten().is_some_and(|request| request.cache),
            });
        }
        let grant = self.grant;
        let requests = self.requests.into_iter().flat_map(|requests| &requests.kv);
        for (name, request) in requests.filter(|(name, _)| !grant.kv.contains_key(*name)) {
            let request = Request::Kv(name, request);
            self.missing(&request, request, &format!("grant it with \"kv\": {{{name:?}: {{}}}}"));
        }
        stores
    }

    pub(super) fn files(&mut self) -> Vec<Directory> {
        let mut directories = Vec::new();
        for (name, grant) in &self.grant.files {
            let request = self
                .requests
                .map(|requests| requests.files.get(name).or_else(|| requests.files.get(ANY)));
            if request == Some(None) {
                self.unrequested(&format!("grants.files.{name}"));
                continue;
            }
            if name == SCRATCH {
                let problem = "is the scratch directory in the guest; choose another name";
                self.refuse(format!("grants.files.{name}"), problem);
                continue;
            }
            let is_named = self.requests.is_none_or(|requests| requests.files.contains_key(name));
            let covered_by = if is_named { name } else { ANY };
            directories.push(Directory {
                request: covered_by.to_owned(),
                ..self.directory(name, grant, request.flatten())
            });
        }
        for (name, request) in self.requests.into_iter().flat_map(|requests| &requests.files) {
            self.note_missing_directory(name, request, &directories);
        }
        directories
    }

    fn directory(
        &mut self,
        name: &str,
        grant: &FilesGrant,
        request: Option<&FilesRequest>,
    ) -> Directory {
        let requested = request.map(FilesRequest::quota).unwrap_or_default();
        let quota = quota(requested, grant.quota, DEFAULT_DIRECTORY);
        let is_read_only = request.is_some_and(|request| request.access == FilesAccess::ReadOnly);
        let access = if is_read_only { Access::ReadOnly } else { grant.access };
        // The quota of a read-only directory limits nothing.
        if access == Access::ReadWrite {
            self.note_quota(&format!("files.{name}"), requested, quota);
        }
        let name = name.to_owned();
        let path = grant.path.clone();
        Directory { request: name.clone(), name, path, access, quota }
    }

    fn note_missing_directory(
        &mut self,
        name: &str,
        request: &FilesRequest,
        granted: &[Directory],
    ) {
        let access = request.access.name();
        let writes = request.access == FilesAccess::ReadWrite;
        let request = Request::Files(name, request);
        match granted.iter().find(|directory| directory.name == name || name == ANY) {
            None => {
                let guest_name = if name == ANY { "NAME" } else { name };
                let grant = r#"{"path": "DIRECTORY", "access": "ACCESS"}"#;
                let grant = grant.replace("ACCESS", access);
                let remedy = format!("grant it with \"files\": {{{guest_name:?}: {grant}}}");
                self.missing(&request, request, &remedy);
            }
            Some(directory) if writes && directory.access == Access::ReadOnly => {
                self.notes.push(format!(
                    "{request} is granted for reading alone; the plugin asks to write too"
                ));
            }
            Some(_) => {}
        }
    }

    pub(super) fn scratch(&mut self) -> Option<Quota> {
        let request = self.requests.map(|requests| requests.scratch.as_ref());
        match (request, self.grant.scratch) {
            (Some(None), Some(_)) => {
                self.unrequested("grants.scratch");
                None
            }
            (Some(Some(request)), None) => {
                let request = Request::Scratch(request);
                self.missing(&request, request, "grant it with \"scratch\": {}");
                None
            }
            (_, None) => None,
            (request, Some(granted)) => {
                let requested = request.flatten().map(ScratchRequest::quota).unwrap_or_default();
                let quota = quota(requested, granted, DEFAULT_SCRATCH);
                self.note_quota("scratch", requested, quota);
                Some(quota)
            }
        }
    }

    fn note_quota(&mut self, key: &str, requested: PartialQuota, granted: Quota) {
        self.note_less(key, requested.bytes, granted.bytes, size);
        self.note_less(key, requested.files, granted.files, |files| format!("{files} files"));
    }

    /// Notes that a quota is less than requested.
    fn note_less(
        &mut self,
        key: &str,
        requested: Option<u64>,
        granted: u64,
        show: fn(u64) -> String,
    ) {
        if let Some(requested) = requested.filter(|requested| *requested > granted) {
            let granted = show(granted);
            let requested = show(requested);
            self.notes.push(format!("{key} holds {granted}; the plugin requests {requested}"));
        }
    }
}

impl FilesRequest {
    fn quota(&self) -> PartialQuota {
        PartialQuota { bytes: self.max_bytes.map(|size| size.0), files: self.max_files }
    }
}

impl ScratchRequest {
    fn quota(&self) -> PartialQuota {
        PartialQuota { bytes: Some(self.max_bytes.0), files: Some(self.max_files) }
    }
}

/// Combines both sides of a quota.
fn quota(requested: PartialQuota, granted: PartialQuota, default: Quota) -> Quota {
    Quota {
        bytes: lesser(requested.bytes, granted.bytes, default.bytes),
        files: lesser(requested.files, granted.files, default.files),
    }
}

/// Returns the granted amount or else the default, and never more than is requested. A requested
/// amount alone never raises the default, because it could fill a disk.
fn lesser(requested: Option<u64>, granted: Option<u64>, default: u64) -> u64 {
    let granted = granted.unwrap_or(default);
    requested.map_or(granted, |requested| requested.min(granted))
}

fn size(bytes: u64) -> String {
    Size(bytes).to_string()
}
