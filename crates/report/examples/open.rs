//! How large a report is, and how long a real browser takes to open it:
//! `cargo run --release -p margay-report --example open -- FILE.html`.

#[path = "../tests/common/browser.rs"]
#[allow(dead_code, reason = "only opening is measured")]
mod browser;

use std::path::PathBuf;

fn main() {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let Some(mut browser) = browser::Browser::start() else { return };
    for file in files {
        let file = file.canonicalize().expect("the file exists");
        let bytes = std::fs::metadata(&file).expect("a file").len();
        let mut times: Vec<f64> = (0..5).map(|_| browser.open_file(&file).as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        println!(
            "{}: {:.2} MB, opened in {:.2} s (median of 5), {:.2} s (worst)",
            file.display(),
            bytes as f64 / 1e6,
            times[2],
            times[4]
        );
    }
}
