use airlock_guest::tool;

/// Is async.
#[tool]
async fn waits() {}

/// Is generic.
#[tool]
fn generic<T>(_value: T) {}

/// Is unsafe.
#[tool]
unsafe fn dares() {}

/// Is not Rust.
#[tool]
extern "C" fn foreign() {}

struct Counter;

impl Counter {
    /// Is a method.
    #[tool]
    fn count(&self) {}
}

fn main() {}
