//! The contract with guests. Each version is one module: the types generated from its `wit/`, their
//! conversion to the catalog's types, and the linking of its imports. The behaviour of the imports is
//! implemented once, in `imports`, and in `plugin::imports` for those that only plugins have.

pub(crate) mod v0_1;
