//! The parts of the attack lab (`make lab`) that need no gateway: a case as its file has it, the orders in a
//! text, the model that obeys them all, and the goal of the attacker.
//!
//! A case is one file of `tests/benches/lab/cases`; `docs/attack-lab.md` describes its members.

mod case;
mod failure;
mod goal;
mod guards;
mod model;
mod order;

pub use self::{
    case::{Case, Class, Key, LabTool, Obeyed, Server, Turn, Use},
    failure::LabFailure,
    goal::{Goal, Received, covers},
    guards::guards,
    model::ObedientModel,
    order::{LabCall, Order, orders, visible},
};
