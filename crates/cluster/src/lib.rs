//! Engine `mirror` on several workers: threads of one process, and processes of several machines.
//!
//! # Problem
//! One thread verifies two to three million operations a second. Where that is not enough, several
//! are to find what one finds, byte for byte; and when one of them dies, nobody says `clean`.
//!
//! # Algorithm
//! What workers do and what they tell each other is in [`margay_mirror`]; here is the way between
//! them ([`margay_mirror::Exchange`]), on timely dataflow. Timely delivers a letter to the worker
//! that it is for, and knows when all letters of a round have been delivered: the frontier of a
//! probe has passed the round. Within a process letters are moved; between processes they cross as
//! bytes of our own (`mail`).
//!
//! Timely's own sockets know no deadline and no secret. So processes meet here (`meet`): each
//! proves that it knows the token, and they compare versions, shapes, mechanisms and histories.
//! Timely ends a process when another one dies, in ways that cannot be caught. So dataflow runs in
//! a child process (`supervise`), whose end its parent turns into another try, or into `unknown`.
//! Pulses on connections of their own (`pulse`) notice those that are silent.
//!
//! # Invariants
//! - No type of timely is in a public signature.
//! - A verdict is printed only by a child that ended by itself.
//!
//! # Differs from the paper
//! Leopard's verifiers each take the data of their own clients. Here each process reads the whole
//! history.

mod mail;
mod meet;
mod pulse;
mod supervise;
mod workers;

pub use margay_remote::Token;
pub use meet::Hosts;
pub use supervise::{Generation, supervise};
pub use workers::{Cluster, Network, crossed};
