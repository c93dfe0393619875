use super::{
    super::storage::{DEFAULT_DIRECTORY, DEFAULT_SCRATCH, DEFAULT_STORE_BYTES},
    *,
};

#[test]
fn a_store_holds_the_lesser_of_request_and_grant() {
    let asked = json!({"kv": {"notes": {"max_bytes": "1MiB", "reason": "remembers"}}});
    for (found, expected) in [(None, 1 << 20), (Some(1 << 10), 1 << 10), (Some(1 << 30), 1 << 20)] {
        let stores = granted(&asked, &store("notes", found)).grants.stores;
        assert_eq!(
            stores,
            [KvStore {
                name: "notes".to_owned(),
                max_bytes: expected,
                is_shared: false,
                is_cache: false
            }]
        );
    }
    insta::assert_snapshot!(
        refused(&asked, &Grant::default()),
        @r#"the plugin needs kv.notes, which is not granted; its reason: remembers; grant it with "kv": {"notes": {}}"#
    );
    let unasked = granted(&json!({}), &store("notes", None));
    assert!(unasked.grants.stores.is_empty());
    assert_eq!(unasked.notes, ["grants.kv.notes opens nothing: the plugin does not ask for it"]);
    let without_manifest =
        Rights::intersect(None, &store("notes", None), &read).expect("it is granted");
    assert_eq!(without_manifest.grants.stores[0].max_bytes, DEFAULT_STORE_BYTES);
}

fn store(name: &str, max_bytes: Option<u64>) -> Grant {
    let kv = [(name.to_owned(), KvGrant { max_bytes, shared: false })].into();
    Grant { kv, ..Grant::default() }
}

#[test]
fn no_directory_has_the_name_of_the_scratch_directory() {
    let asked = json!({"files": {"*": {"access": "read_only", "reason": "reads"}}});
    let files =
        FilesGrant { path: "/d".into(), access: Access::ReadOnly, quota: PartialQuota::default() };
    let grant = Grant { files: [("tmp".to_owned(), files)].into(), ..Grant::default() };
    let refused = refused(&asked, &grant);
    let expected = "grants.files.tmp: is the scratch directory in the guest; choose another name";
    assert!(refused.starts_with(expected), "{refused}");
}

#[test]
fn a_directory_is_writable_only_if_requested_and_granted() {
    for (request, access, granted_access) in [
        ("read_write", Access::ReadWrite, Access::ReadWrite),
        ("read_write", Access::ReadOnly, Access::ReadOnly),
        ("read_only", Access::ReadWrite, Access::ReadOnly),
    ] {
        let found = granted(&data(request), &granting_data(access));
        let directory = &found.grants.directories[0];
        assert_eq!(
            (directory.access, directory.quota),
            (granted_access, Quota { bytes: 1_000, files: 5 }),
            "{request}, {access:?}"
        );
        assert_eq!(
            !found.notes.is_empty(),
            request == "read_write" && access == Access::ReadOnly,
            "{:?}",
            found.notes
        );
    }
    insta::assert_snapshot!(
        refused(&data("read_only"), &Grant::default()),
        @r#"the plugin needs files.data, which is not granted; its reason: reads; grant it with "files": {"data": {"path": "DIRECTORY", "access": "read_only"}}"#
    );
    assert!(
        granted(&json!({}), &granting_data(Access::ReadOnly)).grants.directories.is_empty(),
        "it does not ask"
    );
}

fn data(access: &str) -> Value {
    json!({"files": {"data": {"access": access, "max_files": 5, "reason": "reads"}}})
}

fn granting_data(access: Access) -> Grant {
    let quota = PartialQuota { bytes: Some(1_000), files: Some(9) };
    let files = FilesGrant { path: "/d".into(), access, quota };
    Grant { files: [("data".to_owned(), files)].into(), ..Grant::default() }
}

#[test]
fn scratch_space_must_be_requested_and_granted() {
    let asked = json!({"scratch": {"max_bytes": "1MiB", "max_files": 3, "reason": "unpacks"}});
    assert_eq!(
        granted(&asked, &granting_scratch(None)).grants.scratch,
        Some(Quota { bytes: 1 << 20, files: 3 })
    );
    assert_eq!(
        granted(&asked, &granting_scratch(Some(7))).grants.scratch,
        Some(Quota { bytes: 7, files: 3 })
    );
    insta::assert_snapshot!(
        refused(&asked, &Grant::default()),
        @r#"the plugin needs scratch, which is not granted; its reason: unpacks; grant it with "scratch": {}"#
    );
    assert_eq!(granted(&json!({}), &granting_scratch(None)).grants.scratch, None);
}

fn granting_scratch(bytes: Option<u64>) -> Grant {
    Grant { scratch: Some(PartialQuota { bytes, files: None }), ..Grant::default() }
}

#[test]
fn a_requested_quota_is_capped_at_the_default_unless_the_operator_sets_one() {
    let asked = json!({
        "kv": {"notes": {"max_bytes": "10240GiB", "reason": "remembers"}},
        "files": {"data": {"access": "read_write", "max_bytes": "10240GiB", "max_files": 1_000_000_000, "reason": "writes"}},
        "scratch": {"max_bytes": "10240GiB", "max_files": 1_000_000_000, "reason": "unpacks"},
    });
    let usual = granted(&asked, &granting_space(None, None));
    assert_eq!(usual.grants.stores[0].max_bytes, DEFAULT_STORE_BYTES);
    assert_eq!(
        (usual.grants.directories[0].quota, usual.grants.scratch),
        (DEFAULT_DIRECTORY, Some(DEFAULT_SCRATCH))
    );
    insta::assert_snapshot!(usual.notes.join("\n"), @r"
    files.data holds 1GiB; the plugin requests 10240GiB
    files.data holds 10000 files; the plugin requests 1000000000 files
    scratch holds 64MiB; the plugin requests 10240GiB
    scratch holds 1000 files; the plugin requests 1000000000 files
    kv.notes holds 4MiB; the plugin requests 10240GiB
    ");
    let bytes = 10_240_u64 << 30;
    let files = 1_000_000_000;
    let said = granted(&asked, &granting_space(Some(bytes), Some(files)));
    assert_eq!(
        (said.grants.stores[0].max_bytes, said.grants.scratch),
        (bytes, Some(Quota { bytes, files }))
    );
    assert_eq!(said.grants.directories[0].quota, Quota { bytes, files });
    assert!(said.notes.is_empty(), "{:?}", said.notes);
}

fn granting_space(bytes: Option<u64>, files: Option<u64>) -> Grant {
    let quota = PartialQuota { bytes, files };
    let files = FilesGrant { path: "/d".into(), access: Access::ReadWrite, quota };
    Grant {
        kv: [("notes".to_owned(), KvGrant { max_bytes: bytes, shared: false })].into(),
        files: [("data".to_owned(), files)].into(),
        scratch: Some(quota),
        ..Grant::default()
    }
}

#[test]
fn a_directory_belongs_to_the_request_of_its_name_or_else_to_the_one_for_any() {
    let grant = Grant { files: [files("data"), files("more")].into(), ..Grant::default() };
    let both = json!({"files": {
        "data": {"access": "read_only", "reason": "reads"},
        "*": {"access": "read_only", "reason": "reads"},
    }});
    assert_eq!(requests(&granted(&both, &grant)), ["data data", "more *"]);
    let without_manifest = Rights::intersect(None, &grant, &read).expect("it is granted");
    assert_eq!(requests(&without_manifest), ["data data", "more more"]);
}

fn files(name: &str) -> (String, FilesGrant) {
    let path = "/d".into();
    let quota = PartialQuota::default();
    (name.to_owned(), FilesGrant { path, access: Access::ReadWrite, quota })
}

fn requests(rights: &Rights) -> Vec<String> {
    let directories = rights.grants.directories.iter();
    directories.map(|directory| format!("{} {}", directory.name, directory.request)).collect()
}
