//! Servers that were started for us are for us alone.

use margay_drivers::{Setting, Target, open};
use margay_servers::{Server, started};

const SETTING: Setting = Setting { clients: 1, keys: 1, domain: 1, seed: 0 };

/// A regression: anybody on the machine was a superuser of them, over TCP and without a password.
#[test]
fn nobody_gets_in_without_the_password() {
    for (server, user) in [(Server::postgres(), "margay"), (Server::mariadb(), "root")] {
        let Some(server) = started(server) else { continue };
        let url = server.url();
        let (scheme, rest) = url.split_once("://").expect("an address");
        let (login, host) = rest.split_once('@').expect("a login");
        let (name, password) = login.split_once(':').expect("a password");
        assert_eq!((name, password.len()), (user, 32));
        for login in [user.to_owned(), format!("{user}:"), format!("{user}:wrong")] {
            let target: Target = format!("{scheme}://{login}@{host}").parse().expect("a target");
            let why = open(&target, &SETTING).err().expect("nobody gets in");
            assert!(why.contains("assword") || why.contains("denied"), "{scheme}, {login}: {why}");
        }
        open(&url.parse().expect("a target"), &SETTING).expect("the owner gets in");
    }
}
