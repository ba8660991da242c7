//! What README.md and docs/TOUR.md say happens, happens.

mod common;

use std::process::Command;

use common::{finish, root};
use margay_formats::Format;
use tempfile::TempDir;

/// One command of a `console` block and what stands below it.
#[derive(Debug)]
struct Example {
    command: String,
    status: i32,
    /// Beginnings of lines that must be printed.
    lines: Vec<String>,
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).expect(name)
}

/// The commands of all `console` blocks, in order.
fn examples(text: &str) -> Vec<Example> {
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let mut found: Vec<Example> = Vec::new();
    for line in blocks.flat_map(str::lines) {
        match line.strip_prefix("$ ") {
            Some(command) => found.push(example(command)),
            None => found.last_mut().expect("a command comes first").lines.push(line.to_owned()),
        }
    }
    found
}

/// A comment at the end of a command says its exit status unless that is 0.
fn example(command: &str) -> Example {
    let status =
        command.split_once("# exit status ").map_or(0, |(_, status)| status.parse().expect("a number"));
    Example { command: command.to_owned(), status, lines: Vec::new() }
}

#[test]
fn the_commands_print_what_the_readme_says() {
    assert!(run_all(&page("README.md")) >= 5, "too few commands");
}

#[test]
fn the_commands_print_what_the_tour_says() {
    assert!(run_all(&page("docs/TOUR.md")) >= 18, "too few commands");
}

/// Runs the commands of a page, and says how many there are.
fn run_all(text: &str) -> usize {
    let folder = TempDir::new().expect("a folder");
    let examples_folder = folder.path().join("examples");
    std::os::unix::fs::symlink(root().join("examples"), examples_folder).expect("a link");
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_margay"));
    let path = format!(
        "{}:{}",
        binary.parent().expect("a folder").display(),
        std::env::var("PATH").expect("a path")
    );
    let mut ran = 0;
    for example in examples(text).iter().filter(|example| example.command.contains("margay ")) {
        let mut shell = Command::new("bash");
        shell.args(["-c", &example.command]).current_dir(folder.path()).env("PATH", &path);
        let run = finish(shell, b"").expect(example.status);
        for line in &example.lines {
            let mut printed = run.stdout.lines().chain(run.stderr.lines());
            assert!(printed.any(|text| text.starts_with(line)), "{example:?}\n{}{}", run.stdout, run.stderr);
        }
        ran += 1;
    }
    ran
}

#[test]
fn the_first_two_commands_are_the_ones_of_a_fresh_machine() {
    let text = page("README.md");
    let first = examples(&text);
    assert_eq!(first[0].command, "cargo run --release -- run");
    assert_eq!(first[1].command, "./test");
}

#[test]
fn the_table_of_formats_is_the_programs() {
    let text = page("docs/TOUR.md");
    let rows: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("| format |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    let expected: Vec<String> = Format::ALL
        .iter()
        .map(|format| {
            let write = if format.can_write() { "yes" } else { "–" };
            let name = [format.name()];
            let extensions = if format.extensions().is_empty() { &name[..] } else { format.extensions() };
            let extensions: Vec<_> = extensions.iter().map(|extension| format!("`.{extension}`")).collect();
            format!("| `{format}` | {} | {} | yes | {write} |", format.about(), extensions.join(", "))
        })
        .collect();
    assert_eq!(rows, expected);
}
