//! A guest that tries everything that WASI has, as ordinary programs would. Each tool reports the
//! outcome.

use std::{
    collections::HashMap,
    env, fs,
    fs::OpenOptions,
    hint::black_box,
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream, ToSocketAddrs as _, UdpSocket},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use airlock_guest::{plugin, tool};

plugin!(attempt, fill, surroundings, network, time, numbers, sleep, flood_clock);

/// Tries to do everything with one path; answers with what worked.
#[tool]
fn attempt(path: String) -> String {
    let mut worked = Vec::new();
    let mut note = |what, result: io::Result<()>| worked.extend(result.is_ok().then_some(what));
    note("read", fs::read(&path).map(drop));
    note("list", fs::read_dir(&path).map(drop));
    note("link", fs::hard_link(&path, "/docs/linked"));
    note(
        "append",
        OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(b"appended")),
    );
    note("create", OpenOptions::new().write(true).create_new(true).open(&path).map(drop));
    note("create directory", fs::create_dir(&path));
    note("resize", OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(1)));
    note("rename from", fs::rename(&path, "/docs/renamed"));
    note("write", fs::write(&path, "written"));
    note("rename to", fs::write("/docs/own", "own").and_then(|()| fs::rename("/docs/own", &path)));
    note("remove", fs::remove_file(&path));
    note("remove directory", fs::remove_dir(&path));
    note("symlink", symlink(&path));
    worked.join(", ")
}

/// Creates a symlink to a path, in the first preopened directory.
#[cfg(target_os = "wasi")]
fn symlink(target: &str) -> io::Result<()> {
    let directories = wasip2::filesystem::preopens::get_directories();
    let (directory, _) = directories.first().ok_or(io::ErrorKind::NotFound)?;
    directory.symlink_at(target, "symlink").map_err(|_| io::ErrorKind::PermissionDenied.into())
}

/// Reports an error in native builds, where the symlink would work.
#[cfg(not(target_os = "wasi"))]
fn symlink(_: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Writes `bytes` to the end of a file, a thousand at a time; answers with how many it has then,
/// and what went wrong.
#[tool]
fn fill(path: String, bytes: usize) -> String {
    let fill = || {
        let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
        let mut left = bytes;
        while left > 0 {
            let part = left.min(1_000);
            file.write_all(&vec![b'x'; part])?;
            left -= part;
        }
        io::Result::Ok(())
    };
    let filled = fill();
    let has = fs::metadata(&path).map_or(0, |metadata| metadata.len());
    match filled {
        Ok(()) => format!("{has}"),
        Err(error) => format!("{has}, {:?}", error.kind()),
    }
}

/// Tells what a program finds when it starts.
#[tool]
fn surroundings() -> String {
    let mut input = String::new();
    let read = io::stdin().read_to_string(&mut input);
    let root = fs::read_dir("/").map(Iterator::count);
    format!(
        "environment {}, arguments {}, input {:?} {input:?}, root {:?}, directory {:?}",
        env::vars_os().count(),
        env::args_os().count(),
        read.map_err(|error| error.kind()),
        root.map_err(|error| error.kind()),
        env::current_dir().map_err(|error| error.kind()),
    )
}

/// Tries to reach the network; answers with what worked.
#[tool]
fn network() -> String {
    let mut worked = Vec::new();
    let mut note = |what, result: io::Result<()>| worked.extend(result.is_ok().then_some(what));
    for address in ["127.0.0.1:9", "[::1]:9", "93.184.216.34:80"] {
        note("connect", TcpStream::connect(address).map(drop));
        note(
            "send",
            UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.send_to(b"x", address)).map(drop),
        );
    }
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        note("listen", TcpListener::bind(address).map(drop));
        note("bind", UdpSocket::bind(address).map(drop));
    }
    for name in ["localhost:80", "example.com:80"] {
        note("look up", name.to_socket_addrs().map(drop));
    }
    worked.join(", ")
}

/// Tells the time: since 1970 in nanoseconds, and between two looks at the other clock.
#[tool]
fn time() -> String {
    let between = Instant::now();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{} {}", since.as_nanos(), between.elapsed().as_nanos())
}

/// Tells in what order a map is iterated.
#[tool]
fn numbers() -> String {
    let map: HashMap<u32, u32> = (0..64).map(|key| (key, key)).collect();
    map.keys().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// Sleeps; answers with how long that was by its own clock, in milliseconds.
#[tool]
fn sleep(milliseconds: u64) -> String {
    let began = Instant::now();
    thread::sleep(Duration::from_millis(milliseconds));
    began.elapsed().as_millis().to_string()
}

/// Looks at the clock so many times.
#[tool]
fn flood_clock(times: u64) -> &'static str {
    for _ in 0..times {
        black_box(Instant::now());
    }
    "done"
}
