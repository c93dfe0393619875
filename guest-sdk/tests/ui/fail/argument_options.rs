use airlock_guest::{data, tool};

/// Has an unknown key.
#[tool]
fn unknown_key(#[arg(min = 1)] _n: u8) {}

/// Has a key twice.
#[tool]
fn key_twice(#[arg(default, default = 1)] _n: u8) {}

/// Has a default that is never used.
#[tool]
fn option(#[arg(default = 1)] _n: Option<u8>) {}

/// Has a range without its end.
#[tool]
fn half_open(#[arg(range = 1..10)] _n: u8) {}

/// Has a range of everything.
#[tool]
fn unbounded(#[arg(range = ..)] _n: u8) {}

/// Has an option on the field of a variant.
#[data]
enum Shape {
    Circle {
        #[data(default = 1)]
        radius: u8,
    },
}

/// Has an option of a parameter on a field.
#[data]
struct Page {
    #[arg(range = 1..=100)]
    number: u8,
}

/// Has an option of a parameter on the field of a variant.
#[data]
enum Solid {
    Sphere {
        #[arg(default = 1)]
        radius: u8,
    },
}

fn main() {}
