//! A network with a delay, in front of a server.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use super::process::thread_cpu;

/// Bytes that are passed on at once.
const BUFFER: usize = 64 << 10;

/// CPU time of the threads that pass on, in nanoseconds.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Listens on a free port of this machine, and passes what it receives on to `port`, and back, half of a
/// `round_trip` later each. Returns its port. It ends with the process.
pub fn delayed(port: u16, round_trip: Duration) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let own = listener.local_addr().expect("it listens").port();
    let delay = round_trip / 2;
    thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.expect("a connection");
            let far = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
            for stream in [&near, &far] {
                stream.set_nodelay(true).expect("a socket");
            }
            let back = (far.try_clone().expect("a socket"), near.try_clone().expect("a socket"));
            thread::spawn(move || pass(near, far, delay));
            thread::spawn(move || pass(back.0, back.1, delay));
        }
    });
    own
}

/// Returns the CPU time so far of all networks of this process.
pub fn cpu() -> Duration {
    Duration::from_nanos(SPENT.load(Ordering::Relaxed))
}

/// Passes on until one side closes. Threads sleep, because timers of the runtime count milliseconds.
fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let mut buffer = vec![0; BUFFER];
    let mut counted = Duration::ZERO;
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        thread::sleep(delay);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
        let spent = thread_cpu();
        let added = u64::try_from(spent.saturating_sub(counted).as_nanos()).unwrap_or(u64::MAX);
        SPENT.fetch_add(added, Ordering::Relaxed);
        counted = spent;
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
