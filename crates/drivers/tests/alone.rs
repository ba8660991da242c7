//! Two runs in one database of a server would make and drop the same tables.

use margay_drivers::{Setting, Target, open};
use margay_servers::Server;

#[test]
fn a_second_run_in_the_same_database_is_refused_until_the_first_has_ended() {
    let setting = Setting { clients: 1, keys: 1, domain: 1, seed: 0 };
    for server in [Server::postgres(), Server::mariadb()] {
        let server = match server {
            Ok(server) => server,
            Err(reason) => {
                println!("SKIPPED: {reason}");
                continue;
            }
        };
        let target: Target = server.url().parse().expect("a target");
        let first = open(&target, &setting).expect("nobody else is there");
        let refused = open(&target, &setting).err().expect("somebody is there");
        assert!(refused.contains("another run of margay"), "{refused}");
        drop(first);
        open(&target, &setting).expect("nobody is there any more");
    }
}
