//! A real browser, without any library: Chromium speaks its DevTools protocol over a pair of pipes.
//!
//! # Design
//! `--remote-debugging-pipe` makes Chromium read commands from descriptor 3 and write answers to
//! descriptor 4, JSON between zero bytes. A shell connects its own standard input and output to
//! these before it becomes Chromium.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
const FLAGS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --disable-default-apps --disable-extensions --hide-scrollbars --remote-debugging-pipe";

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    session: String,
    number: u64,
    events: VecDeque<Value>,
    /// Removed after the browser has ended.
    _profile: TempDir,
}

impl Browser {
    /// Starts Chromium; `None`, with a printed reason, where there is none.
    pub fn start() -> Option<Self> {
        let Some(program) = NAMES.into_iter().find(|name| on_path(name)) else {
            eprintln!("SKIPPED: no Chromium on this machine ({} are looked for)", NAMES.join(", "));
            return None;
        };
        let profile = TempDir::new().expect("a temporary folder");
        let command = format!(
            "exec {program} {FLAGS} --user-data-dir='{}' about:blank 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null",
            profile.path().display()
        );
        let mut child = Command::new("sh")
            .args(["-c", &command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let input = child.stdin.take().expect("it is piped");
        let output = listen(child.stdout.take().expect("it is piped"));
        let mut browser = Browser {
            child,
            input,
            output,
            session: String::new(),
            number: 0,
            events: VecDeque::new(),
            _profile: profile,
        };
        browser.attach();
        Some(browser)
    }

    fn attach(&mut self) {
        let page = self.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached =
            self.call("Target.attachToTarget", json!({"targetId": page["targetId"], "flatten": true}));
        self.session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        self.size(1280, 900);
    }

    /// Sends a command and waits for its answer; events that come meanwhile are kept.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).and_then(|()| self.input.flush()).expect("the browser listens");
        loop {
            let answer =
                self.output.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer to {method}"));
            if answer["id"] == self.number {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push_back(answer);
        }
    }

    /// The size of the window.
    pub fn size(&mut self, width: u32, height: u32) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", params);
    }

    /// Dark or light, as the system would have it.
    pub fn scheme(&mut self, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.call("Emulation.setEmulatedMedia", json!({"features": [feature]}));
    }

    /// Opens an address and waits until it is loaded; says how long that took.
    pub fn open(&mut self, address: &str) -> Duration {
        self.events.clear();
        let start = Instant::now();
        self.call("Page.navigate", json!({"url": address}));
        self.wait_for_event("Page.loadEventFired");
        start.elapsed()
    }

    /// Opens a file.
    pub fn open_file(&mut self, path: &Path) -> Duration {
        self.open(&format!("file://{}", path.display()))
    }

    fn wait_for_event(&mut self, method: &str) {
        if self.events.iter().any(|event| event["method"] == method) {
            return;
        }
        loop {
            let event =
                self.output.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{method} did not come"));
            self.events.push_back(event.clone());
            if event["method"] == method {
                return;
            }
        }
    }

    /// What an expression of the page gives.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// How many elements match.
    pub fn count(&mut self, selector: &str) -> usize {
        let number = self.eval(&format!("document.querySelectorAll({}).length", json!(selector)));
        number.as_u64().expect("a number") as usize
    }

    /// The text of the first element that matches.
    pub fn text(&mut self, selector: &str) -> String {
        let text = self.eval(&format!("document.querySelector({})?.textContent ?? ''", json!(selector)));
        text.as_str().expect("a text").to_owned()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let start = Instant::now();
        while self.eval(expression) != Value::Bool(true) {
            assert!(start.elapsed() < PATIENCE, "never true: {expression}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn middle(&mut self, selector: &str) -> (f64, f64) {
        let found = self.eval(&format!(
            "(() => {{ const e = document.querySelector({}); if (!e) return null; e.scrollIntoView({{block: 'center'}}); \
             const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()",
            json!(selector)
        ));
        assert!(!found.is_null(), "no {selector}");
        (found[0].as_f64().expect("x"), found[1].as_f64().expect("y"))
    }

    /// Moves the mouse over an element.
    pub fn hover(&mut self, selector: &str) {
        let (x, y) = self.middle(selector);
        self.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
    }

    /// Clicks an element with the mouse.
    pub fn click(&mut self, selector: &str) {
        let (x, y) = self.middle(selector);
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let params = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", params);
        }
    }

    /// Presses a key: a character, or a name like `Tab`.
    pub fn key(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            _ => 0,
        };
        let text = if key == "Enter" {
            "\r"
        } else if code == 0 {
            key
        } else {
            ""
        };
        let down = json!({"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code});
        self.call("Input.dispatchKeyEvent", down);
        self.call(
            "Input.dispatchKeyEvent",
            json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}),
        );
    }

    /// Types a text.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// A picture of the whole page.
    pub fn screenshot(&mut self, file: &Path) {
        let layout = self.call("Page.getLayoutMetrics", json!({}));
        let size = &layout["cssContentSize"];
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let shot = self.call(
            "Page.captureScreenshot",
            json!({"format": "png", "captureBeyondViewport": true, "clip": clip}),
        );
        std::fs::write(file, decode(shot["data"].as_str().expect("a picture")))
            .expect("a file can be written");
    }

    /// What went wrong since the page was opened: errors on the console, exceptions, and requests
    /// other than for the page itself.
    pub fn complaints(&mut self, address: &str) -> Vec<String> {
        // An answer to anything means that earlier events have arrived.
        self.eval("0");
        let told = self.events.iter().filter_map(|event| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(format!("exception: {params}")),
                "Runtime.consoleAPICalled" => Some(format!("console: {params}")),
                "Log.entryAdded" => Some(format!("log: {params}")),
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str()?;
                    (!url.starts_with(address) && !url.starts_with("data:"))
                        .then(|| format!("request: {url}"))
                }
                "Page.javascriptDialogOpening" => Some(format!("dialog: {params}")),
                _ => None,
            }
        });
        told.collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn listen(output: ChildStdout) -> Receiver<Value> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(output);
        loop {
            let mut message = Vec::new();
            match reader.read_until(0, &mut message) {
                Ok(0) | Err(_) => return,
                Ok(_) => message.pop(),
            };
            let Ok(value) = serde_json::from_slice(&message) else { continue };
            if send.send(value).is_err() {
                return;
            }
        }
    });
    receive
}

fn decode(base64: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = base64.bytes().filter(|&byte| byte != b'=').map(digit).collect();
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let word =
            chunk.iter().fold(0u32, |word, &digit| (word << 6) | u32::from(digit)) << (6 * (4 - chunk.len()));
        out.extend(&word.to_be_bytes()[1..chunk.len()]);
    }
    out
}
