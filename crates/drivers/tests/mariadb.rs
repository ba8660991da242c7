//! What MariaDB does that a driver has to know, played on a real server.

mod play;

use margay_drivers::{Ask, Cond, Target};
use play::{REGISTER, ROW, alone, ask, opened, prepare, put, read, row, two};

/// Who sets what is there already writes nothing in InnoDB, and goes on seeing the snapshot: runs
/// at REPEATABLE READ were recorded as if the transaction had not seen its own write.
#[test]
fn an_update_that_is_recorded_has_written() {
    let Some(database) = opened(&Target::StartMariadb) else { return };
    for level in database.levels() {
        prepare(database.as_ref(), level);
        let [mut first, mut second] = two(database.as_ref(), level);
        first.begin().expect("begun");
        // Takes the snapshot; at SERIALIZABLE a look at the row itself would lock it.
        read(first.as_mut(), if level == "SERIALIZABLE" { REGISTER } else { ROW });
        alone(second.as_mut(), &[put(5, 20)]);
        let changed = ask(first.as_mut(), Ask::Update(Cond { low: 4, high: 6 }, Some(5)));
        assert_eq!(changed, [(ROW, row(5, 20))], "{level}");
        assert_eq!(read(first.as_mut(), ROW), row(5, 20), "{level}");
        first.commit().expect("committed");
    }
}
