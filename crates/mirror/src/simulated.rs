//! The mechanisms of the simulated databases, by the name that their histories carry.

use margay_levels::profile::Granularity;
use margay_verdict::mechanism::{Certified, Mechanisms, View};

/// The mechanisms of a simulated database, for example of `simdb-ssi`.
#[must_use]
pub fn simulated(dbms: &str) -> Option<Mechanisms> {
    let row = Some(Granularity::Row);
    let make = |view, write_locks, certifier| Mechanisms {
        view,
        together: true,
        read_locks: false,
        write_locks,
        first_updater_wins: false,
        certifier,
    };
    let refusing = |mechanisms| Mechanisms { first_updater_wins: true, ..mechanisms };
    Some(match dbms.strip_prefix("simdb-")? {
        "serial" => make(View::Statement, Some(Granularity::Database), Certified::Serializable),
        "ss2pl" => Mechanisms { read_locks: true, ..make(View::Statement, row, Certified::Serializable) },
        "rc-locking" | "rc-mvcc" => make(View::Statement, row, Certified::Committed),
        "si-fuw" => refusing(make(View::FirstStatement, row, Certified::Committed)),
        "si-fcw" | "percolator" => refusing(make(View::FirstStatement, None, Certified::Committed)),
        "ssi" => refusing(make(View::FirstStatement, row, Certified::Ssi)),
        "occ" => make(View::Statement, None, Certified::Serializable),
        "mvto" => make(View::Within, None, Certified::Serializable),
        "innodb-rr" => make(View::FirstRead, row, Certified::Committed),
        "read-uncommitted" => make(View::Uncommitted, row, Certified::Committed),
        _ => return None,
    })
}
