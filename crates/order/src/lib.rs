//! Graphs for checking: compressed adjacency, topological orders, strongly connected components,
//! shortest cycles, and reachability kept per chain.
//!
//! Nodes are `u32` numbers; what a node or an edge means is the caller's business. Nothing here
//! recurses, so a chain of a million nodes is no danger to the stack.

mod chains;
mod closure;
mod cycle;
mod graph;
mod sizes;
mod sources;
mod tally;
mod topo;

pub use chains::{Chains, Clocks};
pub use closure::Closure;
pub use cycle::{shortest_cycle, shortest_path};
pub use graph::{Graph, GraphBuilder};
pub use sizes::estimated_ranks;
pub use sources::Sources;
pub use topo::{components, topological_order};
