//! Tells the linker that the module stays loaded: its threads outlive the environment that loaded it.

fn main() {
    napi_build::setup();
}
