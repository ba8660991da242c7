//! `margay check --workers N --hosts FILE --process I`: several workers, on one machine or on
//! several.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use margay_cluster::{Cluster, Generation, Hosts, Network};

use crate::args::CheckArgs;
use crate::failure::{Failure, Status};
use crate::{duration, files, token};

#[derive(Args)]
pub struct ClusterArgs {
    /// With engine mirror: verify with this many worker threads. The findings do not depend on the
    /// number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: Option<u16>,
    /// With engine mirror: verify together with other processes, on this or other machines. FILE
    /// lists one HOST:PORT per line. Start the same command once for each line; only --process
    /// differs
    #[arg(long, value_name = "FILE", requires = "process")]
    pub hosts: Option<PathBuf>,
    /// Which of the hosts this process is; the first one is 0
    #[arg(long, value_name = "I", requires = "hosts")]
    pub process: Option<usize>,
    /// The file with the token that all hosts share; otherwise the environment variable
    /// MARGAY_CLUSTER_TOKEN has it
    #[arg(long, value_name = "FILE", requires = "hosts")]
    pub token_file: Option<PathBuf>,
    /// How long to wait for the other hosts at the beginning, and for a sign of life
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    pub patience: Duration,
}

/// Where this process stands.
pub enum Place {
    /// It verifies, by these arguments; alone if there is no cluster.
    Here(Box<CheckArgs>, Option<&'static Cluster>),
    /// It only supervised a child process that verified and has ended.
    Above(Status),
}

/// Finds out where this process stands, and what its engine is then.
pub fn place(mut all: Box<CheckArgs>) -> Result<Place, Failure> {
    let args = &all.cluster;
    let network = match &args.hosts {
        None if args.workers.is_none() => return Ok(Place::Here(all, None)),
        None => None,
        Some(hosts) => {
            let network = network(args, hosts)?;
            let Some(generation) = Generation::of_this_process() else {
                let supervised = margay_cluster::supervise();
                let status = supervised.map_err(|why| Failure::new(format!("a child process: {why}")))?;
                return Ok(Place::Above(Status::of(status)));
            };
            Some(Network { generation, ..network })
        }
    };
    // It lives as long as the process.
    let cluster: &'static Cluster =
        Box::leak(Box::new(Cluster::new(usize::from(args.workers.unwrap_or(1)), network)));
    let with = all.engine.with_workers(cluster).ok_or_else(|| {
        Failure::new("--workers and --hosts are for the engine that verifies mechanisms: add --engine mirror")
    });
    all.engine = with?;
    Ok(Place::Here(all, Some(cluster)))
}

fn network(args: &ClusterArgs, path: &PathBuf) -> Result<Network, Failure> {
    let name = |path: &PathBuf, why: String| Failure::new(format!("{}: {why}", path.display()));
    let hosts = Hosts::parse(&files::read_text(path)?).map_err(|why| name(path, why))?;
    let process = args.process.unwrap_or_default();
    if process >= hosts.count() {
        let last = hosts.count() - 1;
        return Err(name(path, format!("there is no process {process}: the hosts are numbered 0 to {last}")));
    }
    let token = token::read(args.token_file.as_deref())?;
    let generation = Generation::Try(0);
    Ok(Network { hosts, process, token, patience: args.patience, generation })
}
