//! The mechanisms of the simulated databases, by the name that their histories carry.

use margay_levels::profile::Granularity;
use margay_verdict::mechanism::{Certified, Locking, Mechanisms, Points, ReadView};

/// The mechanisms of a simulated database, for example of `simdb-ssi`.
#[must_use]
pub fn simulated(dbms: &str) -> Option<Mechanisms> {
    let row = Some(Granularity::Row);
    let make = |view, write_locks, certifier| Mechanisms {
        view,
        together: view != ReadView::Uncommitted,
        read_locks: false,
        write_locks,
        read_regions: false,
        write_regions: false,
        update_search: false,
        first_updater_wins: false,
        skips_unchanged: false,
        locking: Locking::Plain,
        certifier,
        points: None,
    };
    let refusing = |mechanisms| Mechanisms { first_updater_wins: true, update_search: true, ..mechanisms };
    let at = |points, mechanisms| Mechanisms { points: Some(points), update_search: true, ..mechanisms };
    let locking =
        |mechanisms| Mechanisms { read_locks: true, read_regions: true, write_regions: true, ..mechanisms };
    Some(match dbms.strip_prefix("simdb-")? {
        "serial" => {
            let one = make(ReadView::Statement, Some(Granularity::Database), Certified::Serializable);
            at(Points::Within, one)
        }
        "ss2pl" => at(Points::Within, locking(make(ReadView::Statement, row, Certified::Serializable))),
        "rc-locking" | "rc-mvcc" => make(ReadView::Statement, row, Certified::Committed),
        "si-fuw" => refusing(make(ReadView::FirstStatement, row, Certified::Committed)),
        "si-fcw" | "percolator" => refusing(make(ReadView::FirstStatement, None, Certified::Committed)),
        "ssi" => at(Points::Within, refusing(make(ReadView::FirstStatement, row, Certified::Ssi))),
        "occ" => at(Points::Commit, make(ReadView::Statement, None, Certified::Serializable)),
        "mvto" => at(Points::Within, make(ReadView::Within, None, Certified::Serializable)),
        "innodb-rr" => make(ReadView::FirstRead, row, Certified::Committed),
        "read-uncommitted" => make(ReadView::Uncommitted, row, Certified::Committed),
        _ => return None,
    })
}
