//! Which format it is: by content first, then by extension; a directory by what lies in it.

use std::path::Path;

use crate::input::{Entry, Input};
use crate::{Format, FormatError};

impl Format {
    /// The format that a path's extension stands for, under `.gz` or `.zst` too. `margay convert`
    /// chooses what to write by it.
    #[must_use]
    pub fn from_extension(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?;
        if matches!(extension, "gz" | "zst") {
            return Self::from_extension(Path::new(path.file_stem()?));
        }
        let stands = |format: &Format| format.name() == extension || format.extensions().contains(&extension);
        Format::ALL.into_iter().find(stands)
    }
}

pub(crate) fn detect(input: &mut Input<'_>) -> Result<Format, FormatError> {
    let (name, is_directory) = (input.name.clone(), input.is_directory());
    if is_directory {
        return of_directory(Path::new(&name));
    }
    let head = input.head()?;
    if head.is_empty() {
        return Err(FormatError::new("the file is empty").in_file(&name));
    }
    of_content(&head)
        .or_else(|| Format::from_extension(Path::new(&name)))
        .ok_or_else(|| FormatError::new("the format is not recognised; name it with --from").in_file(&name))
}

fn of_directory(path: &Path) -> Result<Format, FormatError> {
    let name = path.display().to_string();
    let files = Input::open(path, crate::stop::Stop::default())?.files()?;
    let named = |predicate: &dyn Fn(&str) -> bool| files.iter().any(|file| predicate(&file.name));
    if named(&|name| name.ends_with("history.bincode")) {
        return Ok(Format::Dbcop);
    }
    if named(&|name| name.contains("loader-") && name.ends_with(".json")) {
        return Ok(Format::Leopard);
    }
    let mut found = None;
    for file in files.into_iter().filter(is_log) {
        match of_content(&file.open()?.head()?) {
            Some(format) if format.is_directory() => {
                found = Some(format);
                break;
            }
            // A session without transactions says nothing.
            _ => {}
        }
    }
    found.ok_or_else(|| {
        FormatError::new("no history is recognised in this directory; name its format with --from")
            .in_file(&name)
    })
}

fn is_log(file: &Entry<'_>) -> bool {
    file.name.ends_with(".log") || file.name.ends_with(".json")
}

/// The format of a stream that begins with `head`.
fn of_content(head: &[u8]) -> Option<Format> {
    if head.starts_with(crate::binary::MAGIC) {
        return Some(Format::MargayBin);
    }
    of_binary(head).or_else(|| of_text(text_part(head)?))
}

/// The head as far as it is text: it may end within a character, and one broken byte does not make
/// another format of it.
fn text_part(head: &[u8]) -> Option<&str> {
    match std::str::from_utf8(head) {
        Ok(text) => Some(text),
        Err(e) => std::str::from_utf8(&head[..e.valid_up_to()]).ok(),
    }
}

fn of_binary(head: &[u8]) -> Option<Format> {
    let byte = |at: usize| head.get(at).copied();
    // A start (tag, id) and the tag after it; a timestamp may stand between them.
    let cobra = || byte(0) == Some(b'S') && [9, 17].iter().any(|&at| is_tag(byte(at), b"RWC"));
    let vbox = || byte(0) == Some(b'T') && is_tag(byte(21), b"SWRPCA");
    if head.contains(&0) && cobra() {
        return Some(Format::Cobra);
    }
    if head.contains(&0) && vbox() {
        return Some(Format::Vbox);
    }
    is_dbcop(head).then_some(Format::Dbcop)
}

fn is_tag(byte: Option<u8>, tags: &[u8]) -> bool {
    byte.is_some_and(|byte| tags.contains(&byte))
}

/// Five numbers and the length of a text, all far below what eight bytes can hold.
fn is_dbcop(head: &[u8]) -> bool {
    head.len() >= 48 && head[..48].chunks_exact(8).all(|number| number[5..] == [0, 0, 0])
}

fn of_text(text: &str) -> Option<Format> {
    let start = text.trim_start();
    match start.as_bytes().first()? {
        b'{' | b'[' | b'(' | b';' | b'#' | b'"' => of_document(start),
        _ if start.lines().any(super::foreign::is_jepsen_log) => Some(Format::JepsenLog),
        _ => start.lines().map(str::trim).find(|line| !line.is_empty()).and_then(of_line),
    }
}

/// JSON, EDN, and the brackets of dbcop's text.
fn of_document(text: &str) -> Option<Format> {
    let has = |key: &str| text.contains(&format!("\"{key}\""));
    let line = text.lines().next().unwrap_or_default();
    if text.starts_with('{') && line.contains("\"margay\"") {
        Some(Format::Margay)
    } else if has("operationTraceType") {
        Some(Format::Leopard)
    } else if has("sts") && has("cts") {
        Some(Format::Chronos)
    } else if has("data") && (has("params") || has("events"))
        || text.starts_with('[') && has("events") && has("committed")
    {
        Some(Format::DbcopJson)
    } else if has("type") && (has("process") || has("f") || has("value")) {
        Some(Format::ElleJson)
    } else if text.starts_with('{') && (has("isInitial") || has("value")) {
        Some(Format::Viper)
    } else if [":type", ":process", ":f "].iter().any(|key| text.contains(key)) {
        Some(Format::Edn)
    } else if text.starts_with('[') && (line.contains(":=") || line.contains("==")) {
        Some(Format::DbcopHist)
    } else {
        None
    }
}

fn of_line(line: &str) -> Option<Format> {
    let words = line.split_ascii_whitespace().count();
    let tagged = |open: char| line.starts_with(['r', 'w']) && line[1..].starts_with(open);
    let bar = |c: char| line.len() > 1 && line.chars().all(|d| d == c);
    if tagged('(') && line.ends_with(')') {
        Some(Format::Text)
    } else if tagged(' ') && words == 3 || line == "-" || line == "=" || bar('=') {
        Some(Format::Awdit)
    } else if line.starts_with("//") || bar('-') {
        Some(Format::DbcopHist)
    } else {
        None
    }
}
