use std::{
    os::unix::fs::{PermissionsExt as _, symlink},
    time::{Duration, SystemTime},
};

use airlock_strings::hex;
use wasmtime::CacheStore as _;

use super::*;
use crate::settings::Form;

const HOUR: Duration = Duration::from_hours(1);

/// A cache that holds two components.
struct Kept {
    _home: tempfile::TempDir,
    engine: Engine,
    cache: CodeCache,
    names: [CodeName; 2],
}

fn kept() -> Kept {
    let home = tempfile::tempdir().expect("a directory");
    let engine = crate::engine::compiler_engine().expect("an engine");
    let cache = CodeCache::open(&home.path().join("code")).expect("a cache");
    let names = ["(component)", "(component (core module))"].map(|text| {
        let wasm = wat::parse_str(text).expect("a component");
        let name = CodeName::new(&engine, Form::Plain, &wasm);
        assert!(cache.load(&engine, &name).is_none());
        cache
            .store(&name, &engine.precompile_component(&wasm).expect("it compiles"))
            .expect("stored");
        name
    });
    Kept { _home: home, engine, cache, names }
}

impl Kept {
    fn path(&self) -> PathBuf {
        self.cache.path(&self.names[0])
    }

    fn loads(&self, name: usize) -> bool {
        self.cache.load(&self.engine, &self.names[name]).is_some()
    }

    /// Replaces the bytes of the first component's file.
    fn rewrite(&self, change: impl FnOnce(&mut Vec<u8>)) {
        rewrite(&self.path(), change);
    }

    /// Asserts that the first component is not loaded, that its file is removed, and that the
    /// second component still loads.
    fn is_refused(&self) {
        assert!(!self.loads(0), "it was loaded");
        assert!(fs::symlink_metadata(self.path()).is_err(), "it is still there");
        assert!(self.loads(1), "the other one");
    }
}

/// Replaces a file's bytes, as a process with write access to the directory could.
fn rewrite(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("it is there");
    change(&mut bytes);
    fs::remove_file(path).expect("removed");
    fs::write(path, bytes).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(CODE_MODE)).expect("changed");
}

/// Sets the time at which a file was last used.
fn set_age(path: &Path, age: Duration) {
    let file = File::open(path).expect("it is there");
    file.set_modified(SystemTime::now() - age).expect("its time is its owner's to set");
}

fn age(path: &Path) -> Duration {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a time");
    modified.elapsed().expect("it is in the past")
}

#[test]
fn stored_code_is_loaded_again_and_by_a_cache_opened_later_too() {
    let kept = kept();
    assert!(kept.cache.holds(&kept.names[0]));
    assert!(kept.loads(0) && kept.loads(1));
    let again = CodeCache::open(kept.cache.directory()).expect("a cache");
    assert!(again.load(&kept.engine, &kept.names[0]).is_some());
}

#[test]
fn a_file_with_a_flipped_bit_is_refused() {
    let length = usize::try_from(fs::metadata(kept().path()).expect("it is there").len())
        .expect("it is small");
    for at in [0, length / 2, length - blake3::OUT_LEN - 1, length - blake3::OUT_LEN, length - 1] {
        let kept = kept();
        kept.rewrite(|bytes| bytes[at] ^= 1);
        kept.is_refused();
    }
}

#[test]
fn a_truncated_or_extended_file_is_refused() {
    let cuts: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes.truncate(bytes.len() - 1),
        |bytes| bytes.truncate(blake3::OUT_LEN),
        |bytes| bytes.truncate(blake3::OUT_LEN - 1),
        Vec::clear,
        |bytes| bytes.push(0),
    ];
    for cut in cuts {
        let kept = kept();
        kept.rewrite(cut);
        kept.is_refused();
    }
}

#[test]
fn code_without_a_digest_under_the_caches_own_key_is_refused() {
    let own = kept();
    let other = kept();
    // Valid code, digested with the key of another cache.
    let foreign = fs::read(other.path()).expect("it is there");
    own.rewrite(|bytes| *bytes = foreign);
    own.is_refused();
    // Valid code without a digest.
    let bare = kept();
    let native = bare
        .engine
        .precompile_component(&wat::parse_str("(component)").expect("a component"))
        .expect("it compiles");
    bare.rewrite(|bytes| *bytes = native);
    bare.is_refused();
    let junk = kept();
    junk.rewrite(|bytes| *bytes = b"not native code".to_vec());
    junk.is_refused();
}

#[test]
fn two_valid_files_with_swapped_names_are_refused() {
    let kept = kept();
    let [one, other] = [0, 1].map(|index| kept.cache.path(&kept.names[index]));
    let aside = kept.cache.directory().join("aside");
    fs::rename(&one, &aside)
        .and_then(|()| fs::rename(&other, &one))
        .and_then(|()| fs::rename(&aside, &other))
        .expect("swapped");
    assert!(!kept.loads(0) && !kept.loads(1));
    assert!(!kept.cache.holds(&kept.names[0]) && !kept.cache.holds(&kept.names[1]));
}

#[test]
fn symbolic_and_hard_links_to_valid_code_are_refused() {
    let linked = kept();
    let elsewhere = linked.cache.directory().join("elsewhere");
    fs::rename(linked.path(), &elsewhere)
        .and_then(|()| symlink(&elsewhere, linked.path()))
        .expect("linked");
    linked.is_refused();
    assert!(elsewhere.exists(), "only the link is removed");
    let twice = kept();
    fs::hard_link(twice.path(), twice.cache.directory().join("second")).expect("linked");
    twice.is_refused();
    let directory = kept();
    fs::remove_file(directory.path())
        .and_then(|()| fs::create_dir(directory.path()))
        .expect("made");
    assert!(!directory.loads(0) && directory.loads(1));
}

#[test]
fn a_file_with_another_mode_or_owner_is_refused() {
    for mode in [0o402, 0o420, 0o600, 0o440, 0o4400] {
        let kept = kept();
        fs::set_permissions(kept.path(), fs::Permissions::from_mode(mode)).expect("changed");
        kept.is_refused();
    }
    // Only root can change the owner of a file.
    if own_user() == 0 {
        let kept = kept();
        std::os::unix::fs::chown(kept.path(), Some(12_345), None).expect("given away");
        kept.is_refused();
    }
}

#[test]
fn a_file_that_cannot_be_read_for_lack_of_descriptors_is_kept() {
    let kept = kept();
    discard(&kept.path(), &CacheFileError::Read(rustix::io::Errno::MFILE.into()));
    assert!(kept.loads(0));
    discard(&kept.path(), &CacheFileError::Digest);
    assert!(!kept.loads(0));
}

#[test]
fn a_directory_that_other_users_can_write_to_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).expect("changed");
    assert!(CodeCache::open(home.path()).is_err());
    let linked = tempfile::tempdir().expect("a directory");
    symlink("/tmp", linked.path().join("code")).expect("linked");
    assert!(CodeCache::open(&linked.path().join("code")).is_err());
}

#[test]
fn a_lost_or_exposed_key_is_replaced_and_older_files_are_refused() {
    let spoil: [fn(&Path); 5] = [
        |key| fs::remove_file(key).expect("removed"),
        |key| fs::set_permissions(key, fs::Permissions::from_mode(0o640)).expect("changed"),
        |key| fs::write(key, b"short").expect("written"),
        |key| fs::hard_link(key, key.with_extension("copy")).expect("linked"),
        |key| {
            fs::rename(key, key.with_extension("moved"))
                .and_then(|()| symlink(key.with_extension("moved"), key))
                .expect("linked");
        },
    ];
    for spoil in spoil {
        let kept = kept();
        let key = kept.cache.directory().join("key");
        let before = fs::read(&key).expect("a key");
        spoil(&key);
        let again = CodeCache::open(kept.cache.directory()).expect("a cache");
        assert_ne!(fs::read(&key).expect("a key"), before);
        let metadata = fs::symlink_metadata(&key).expect("a key");
        assert_eq!(
            (metadata.is_file(), metadata.mode() & 0o7777, metadata.len()),
            (true, 0o600, 32)
        );
        assert!(again.load(&kept.engine, &kept.names[0]).is_none());
        assert!(!again.holds(&kept.names[0]), "it is removed, to be compiled anew");
    }
}

#[test]
fn caches_opened_at_the_same_time_use_one_key() {
    let home = tempfile::tempdir().expect("a directory");
    let engine = crate::engine::compiler_engine().expect("an engine");
    let wasm = wat::parse_str("(component)").expect("a component");
    let name = CodeName::new(&engine, Form::Plain, &wasm);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| CodeCache::open(home.path()).expect("a cache")))
            .collect();
        let caches: Vec<_> =
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        caches[0]
            .store(&name, &engine.precompile_component(&wasm).expect("it compiles"))
            .expect("stored");
        assert!(caches.iter().all(|cache| cache.load(&engine, &name).is_some()));
    });
}

#[test]
fn functions_are_kept_and_a_file_that_is_not_what_was_written_has_none() {
    let function = [7; 32];
    let (kept, path) = kept_functions(&function);
    let found = kept.cache.functions();
    assert_eq!(found.get(&function).as_deref(), Some(&b"code of a function"[..]));
    fs::remove_file(&path).expect("removed");
    kept.cache.store_functions(&found).expect("nothing is new");
    assert!(!path.exists());

    let changes: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes[40] ^= 1,
        |bytes| bytes.truncate(bytes.len() - blake3::OUT_LEN),
        |bytes| bytes.push(0),
        Vec::clear,
    ];
    for change in changes {
        let (kept, path) = kept_functions(&function);
        rewrite(&path, change);
        assert_eq!(kept.cache.functions().get(&function), None);
        assert!(!path.exists(), "it is removed");
    }
    // Code of a component, with its digest, under the name of the functions.
    let (kept, path) = kept_functions(&function);
    let component = fs::read(kept.path()).expect("it is there");
    rewrite(&path, |bytes| *bytes = component);
    assert_eq!(kept.cache.functions().get(&function), None);
    assert!(!path.exists() && kept.loads(0));
}

fn kept_functions(function: &[u8]) -> (Kept, PathBuf) {
    let kept = kept();
    let functions = FunctionCache::default();
    assert!(functions.insert(function, b"code of a function".to_vec()));
    kept.cache.store_functions(&functions).expect("stored");
    let path = kept.cache.path(&CodeName::functions());
    (kept, path)
}

#[test]
fn beyond_its_size_limit_the_least_recently_used_code_is_evicted() {
    let mut kept = kept();
    let wasm = wat::parse_str("(component (core module (func)))").expect("a component");
    let third = CodeName::new(&kept.engine, Form::Plain, &wasm);
    let native = kept.engine.precompile_component(&wasm).expect("it compiles");
    let paths = [0, 1].map(|index| kept.cache.path(&kept.names[index]));
    kept.cache.store(&third, &native).expect("stored");
    assert!(kept.loads(0) && kept.loads(1), "there is room for all");

    set_age(&paths[0], 100 * HOUR);
    set_age(&paths[1], 50 * HOUR);
    assert!(kept.loads(0), "it is used again");
    kept.cache.max_bytes = size(&paths[0]) + size(&kept.cache.path(&third));
    kept.cache.store(&third, &native).expect("stored");
    assert!(!paths[1].exists() && paths[0].exists());
    assert!(kept.cache.load(&kept.engine, &third).is_some());
    assert!(!kept.loads(1) && kept.loads(0));

    // One byte less: only what was just stored stays, whatever its size.
    for max_bytes in [kept.cache.max_bytes - 1, 0] {
        kept.cache.max_bytes = max_bytes;
        kept.cache.store(&third, &native).expect("stored");
        assert!(!paths[0].exists());
        assert!(kept.cache.load(&kept.engine, &third).is_some());
    }
}

#[test]
fn on_a_full_disk_the_least_recently_used_code_makes_room() {
    let kept = kept();
    let paths = [0, 1].map(|index| kept.cache.path(&kept.names[index]));
    set_age(&paths[0], 50 * HOUR);
    let new = kept.cache.path(&CodeName(hex(&[3; 32])));
    prune::make_room(kept.cache.directory(), &new, 0).expect("pruned");
    assert!(paths[0].exists() && paths[1].exists());
    prune::make_room(kept.cache.directory(), &paths[0], 1).expect("pruned");
    assert!(paths[0].exists() && !paths[1].exists(), "what is stored again is no room");
    prune::make_room(kept.cache.directory(), &new, u64::MAX).expect("pruned");
    assert!(!paths[0].exists());
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).expect("it is there").len()
}

#[test]
fn a_use_is_recorded_at_most_once_a_day() {
    let kept = kept();
    set_age(&kept.path(), 5 * HOUR);
    assert!(kept.loads(0));
    assert!(age(&kept.path()) > 4 * HOUR, "it is not written again");
    set_age(&kept.path(), 25 * HOUR);
    assert!(kept.loads(0));
    assert!(age(&kept.path()) < HOUR);
    assert!(kept.loads(0), "it is the same file");
}

#[test]
fn files_that_the_cache_did_not_write_stay_and_abandoned_ones_are_removed() {
    let mut kept = kept();
    let directory = kept.cache.directory().to_owned();
    let digest = "0".repeat(64);
    let partial = format!(".1.{}", uuid::Uuid::new_v4());
    let foreign = [
        directory.join("key"),
        plant(&directory, "notes.txt", CODE_MODE),
        plant(&directory, "short.cwasm", CODE_MODE),
        plant(&directory, &format!("{digest}.cwasm"), 0o600),
        plant(&directory, &format!("{}.cwasm", "G".repeat(64)), CODE_MODE),
        plant(&directory, ".1.part", 0o600),
        plant(&directory, &format!(".x{partial}"), 0o600),
    ];
    let link = directory.join(format!("{}.cwasm", "1".repeat(64)));
    symlink(&foreign[1], &link).expect("linked");
    let inner = directory.join(format!("{}.cwasm", "2".repeat(64)));
    fs::create_dir(&inner).expect("made");
    let abandoned = plant(&directory, &partial, 0o600);
    let current = plant(&directory, &format!(".2.{}", uuid::Uuid::new_v4()), 0o600);
    set_age(&current, HOUR);

    kept.cache.max_bytes = 0;
    let wasm = wat::parse_str("(component)").expect("a component");
    let native = kept.engine.precompile_component(&wasm).expect("it compiles");
    kept.cache.store(&kept.names[0], &native).expect("stored");
    assert!(kept.loads(0) && !kept.loads(1));
    assert!(!abandoned.exists() && current.exists());
    for path in foreign.iter().chain([&link, &inner]) {
        assert!(fs::symlink_metadata(path).is_ok(), "{} is gone", path.display());
    }
}

fn plant(directory: &Path, name: &str, mode: u32) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, "text").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
    set_age(&path, 30 * HOUR);
    path
}

#[test]
fn caches_that_prune_one_directory_at_the_same_time_store_without_a_failure() {
    let kept = kept();
    let native = fs::read(kept.path()).expect("it is there");
    let names: Vec<_> = (0..4u8).map(|thread| CodeName(hex(&[thread; 32]))).collect();
    std::thread::scope(|scope| {
        for name in &names {
            let cache = CodeCache::open(kept.cache.directory()).expect("a cache");
            let cache = CodeCache { max_bytes: 1, ..cache };
            let native = &native;
            scope.spawn(move || {
                for _ in 0..20 {
                    cache.store(name, native).expect("stored");
                }
            });
        }
    });
    // Two that store at the same time may each remove the other's file, but not what was stored last.
    let last =
        CodeCache { max_bytes: 1, ..CodeCache::open(kept.cache.directory()).expect("a cache") };
    last.store(&names[0], &native).expect("stored");
    let left: Vec<_> = names.iter().filter(|name| kept.cache.holds(name)).collect();
    assert_eq!(left, [&names[0]]);
}
