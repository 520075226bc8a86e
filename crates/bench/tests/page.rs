//! The page of `compare --html` in a browser: `cargo test -p quadrille-bench --test page -- --ignored` (needs
//! Chromium).
//!
//! Two frames show the page as a desktop in light and a phone in dark would; a script in the page around them measures
//! what they look like, and Chromium prints the result. Pictures of both are kept beside the test's other output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Chromium's names on Debian, other Linux systems and Google's packages.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Loads the page twice and prints, as JSON, what it looks like in each frame.
const AROUND: &str = r#"<!doctype html><meta charset="utf-8"><body>
<iframe src="page.html" style="color-scheme: light; width: 1280px; height: 900px; border: 0"></iframe>
<iframe src="page.html" style="color-scheme: dark; width: 390px; height: 844px; border: 0"></iframe>
<pre id="found"></pre>
<script>
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const style = element => frame.contentWindow.getComputedStyle(element);
    const box = element => element.getBoundingClientRect();
    const bars = [...page.querySelectorAll(".bar svg")];
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    const curve = svg => {
      const around = box(svg), texts = [...svg.querySelectorAll("text")], places = texts.map(box);
      const leaves = ({left, right, top, bottom}) =>
        left < around.left - 1 || right > around.right + 1 || top < around.top - 1 || bottom > around.bottom + 1;
      return {
        lines: [...svg.querySelectorAll("polyline")].filter(line => line.points.length > 0).map(line => ({
          points: line.points.length,
          share_of_width: box(line).width / around.width,
          color: style(line).stroke,
        })),
        dots: [...svg.querySelectorAll("circle")].filter(dot => box(dot).width >= 3).length,
        beyond: [...svg.querySelectorAll("polyline, circle, text")].filter(part => leaves(box(part)))
          .map(part => part.nodeName + " " + part.textContent),
        text_px: Math.min(...texts.map(text => parseFloat(style(text).fontSize) * text.getScreenCTM().a)),
        text_color: style(texts[0]).fill,
        texts_that_meet: places.filter((one, i) => places.slice(i + 1).some(other => meet(one, other))).length,
      };
    };
    return {
      too_wide: root.scrollWidth - root.clientWidth,
      sections: page.querySelectorAll("section").length,
      bars: bars.length,
      narrowest_bar: Math.min(...bars.map(bar => box(bar).width)),
      clipped_names: [...page.querySelectorAll(".bar .name")].filter(name => name.scrollWidth > name.clientWidth + 1).length,
      curves: [...page.querySelectorAll("svg.curve")].map(curve),
      failed: [...page.querySelectorAll(".bar .failed")].map(row => ({
        text: row.textContent,
        color: style(row).color,
        height: box(row).height,
      })),
      paper: style(page.body).backgroundColor,
      ink: style(page.body).color,
      loaded: frame.contentWindow.performance.getEntriesByType("resource").length,
    };
  });
  document.getElementById("found").textContent = "FOUND" + JSON.stringify(found) + "END";
});
</script>
"#;

fn browser() -> &'static str {
    let runs = |name: &&&str| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
    };
    BROWSERS.iter().find(runs).expect("a Chromium is installed")
}

/// Runs the browser without a window, and without a network.
fn browse(profile: &Path, arguments: &[&str]) -> String {
    let output = Command::new(browser())
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--allow-file-access-from-files",
        ])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a comparison in short, with its page, where PATH is `path`.
fn compare(page: &Path, workloads: &[&str], runtimes: &str, reps: &str, path: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quadrille"));
    command
        .arg("compare")
        .args(workloads)
        .args(["--quick", "--reps", reps, "--runtimes", runtimes, "--html"])
        .arg(page);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.output().unwrap()
}

/// The folder of a test's files.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn address(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// What `page.html` in `folder` looks like: on a desktop in light, on a phone in dark.
fn look(folder: &Path) -> [Value; 2] {
    let around = folder.join("around.html");
    fs::write(&around, AROUND).unwrap();
    let dom = browse(
        &folder.join("profile"),
        &["--window-size=1800,1000", "--dump-dom", &address(&around)],
    );
    let json = dom
        .split_once("<pre id=\"found\">FOUND")
        .and_then(|(_, rest)| rest.split_once("END"))
        .unwrap_or_else(|| panic!("nothing was measured:\n{dom}"))
        .0;
    serde_json::from_str(json).unwrap()
}

/// Keeps what a page looks like.
fn take_picture(folder: &Path, page: &str, size: &str, picture: &str) {
    let path = folder.join(picture);
    browse(
        &folder.join("profile"),
        &[
            &format!("--window-size={size}"),
            &format!("--screenshot={}", path.display()),
            &address(&folder.join(page)),
        ],
    );
    assert!(fs::metadata(&path).unwrap().len() > 10_000, "{picture} is a picture");
}

/// By how much one of two colours is lighter, as WCAG 2 counts it: from 1 for the same to 21 for black and white.
fn contrast(one: &Value, other: &Value) -> f64 {
    let [one, other] = [one, other].map(|color| luminance(color.as_str().unwrap()) + 0.05);
    one.max(other) / one.min(other)
}

/// How light `rgb(28, 29, 33)` is; white is 1.
fn luminance(color: &str) -> f64 {
    let numbers = color.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')'));
    let numbers = numbers.unwrap_or_else(|| panic!("{color} is not opaque"));
    let linear = numbers.split(", ").map(|number| {
        let share = number.parse::<f64>().unwrap() / 255.0;
        if share <= 0.04045 {
            share / 12.92
        } else {
            ((share + 0.055) / 1.055).powf(2.4)
        }
    });
    linear
        .zip([0.2126, 0.7152, 0.0722])
        .map(|(part, weight)| part * weight)
        .sum()
}

/// What WCAG 2 asks of text, and of lines that mean something.
const CONTRAST_OF_TEXT: f64 = 4.5;
const CONTRAST_OF_LINES: f64 = 3.0;

/// What holds of each page.
fn check_readable(found: &[Value; 2]) {
    for frame in found {
        assert_eq!(
            frame["too_wide"], 0,
            "nothing but tables scrolls to the side: {found:?}"
        );
        assert_eq!(frame["clipped_names"], 0, "{found:?}");
        assert_eq!(frame["loaded"], 0, "{found:?}");
        let ink = contrast(&frame["ink"], &frame["paper"]);
        assert!(ink >= CONTRAST_OF_TEXT, "{ink} of ink to paper: {found:?}");
    }
    assert_ne!(found[0]["paper"], found[1]["paper"], "light and dark: {found:?}");
    assert_eq!(found[0]["ink"], "rgb(28, 29, 33)", "{found:?}");
}

#[test]
fn black_and_white_have_the_highest_contrast() {
    let [black, gray, white] = [0, 119, 255].map(|level| Value::from(format!("rgb({level}, {level}, {level})")));
    for (one, other, expected) in [
        (&black, &white, 21.0),
        (&white, &black, 21.0),
        (&gray, &gray, 1.0),
        // The darkest gray that is too pale for text on white.
        (&gray, &white, 4.48),
    ] {
        let found = contrast(one, other);
        assert!((found - expected).abs() < 0.01, "{one} and {other}: {found}");
    }
}

#[test]
#[ignore = "needs Chromium; run with --ignored"]
fn a_page_is_readable_on_a_desktop_and_on_a_phone_in_light_and_dark() {
    let folder = folder("page");
    let workloads = ["yield", "ping_pong", "thread_ping_pong"];
    let runtimes = "quadrille,quadrille:groups=on,filter=on,aggregation=on,cap=adaptive,lazy=on,tokio,smol,may";
    let output = compare(&folder.join("page.html"), &workloads, runtimes, "2", None);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));

    let found = look(&folder);
    check_readable(&found);
    for (frame, narrowest) in found.iter().zip([500.0, 300.0]) {
        // Ratios of tasks and of threads, five workloads, and what the page is about.
        assert_eq!(frame["sections"], 8, "{found:?}");
        assert!(frame["bars"].as_u64() >= Some(16), "{found:?}");
        assert!(frame["narrowest_bar"].as_f64() >= Some(narrowest), "{found:?}");
    }
    take_picture(&folder, "page.html", "1280,2400", "desktop.png");
    take_picture(&folder, "around.html", "1800,1000", "both.png");
}

/// A load curve of quadrille and tokio at ten loads.
fn check_curve(curve: &Value, paper: &Value) {
    let lines = curve["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 2, "{curve}");
    for line in lines {
        assert_eq!(line["points"], 10, "{curve}");
        assert!(line["share_of_width"].as_f64() >= Some(0.7), "{curve}");
        let contrast = contrast(&line["color"], paper);
        assert!(contrast >= CONTRAST_OF_LINES, "{contrast} to {paper}: {curve}");
    }
    assert_ne!(lines[0]["color"], lines[1]["color"], "{curve}");
    assert_eq!(curve["dots"], 20, "{curve}");
    assert_eq!(curve["beyond"], serde_json::json!([]), "{curve}");
    assert!(curve["text_px"].as_f64() >= Some(9.0), "{curve}");
    assert_eq!(curve["texts_that_meet"], 0, "{curve}");
    let contrast = contrast(&curve["text_color"], paper);
    assert!(contrast >= CONTRAST_OF_TEXT, "{contrast} to {paper}: {curve}");
}

/// A row of Go, where what has its name cannot be run.
fn check_failed(row: &Value, paper: &Value) {
    let text = row["text"].as_str().unwrap();
    assert!(text.starts_with("FAILED: go cannot be started: "), "{text}");
    assert!(row["height"].as_f64() >= Some(9.0), "{row}");
    let contrast = contrast(&row["color"], paper);
    assert!(contrast >= CONTRAST_OF_TEXT, "{contrast} to {paper}: {row}");
}

#[test]
#[ignore = "needs Chromium; run with --ignored"]
fn load_curves_and_rows_that_failed_are_readable_on_a_desktop_and_on_a_phone_in_light_and_dark() {
    let folder = folder("load");
    // So the rows of Go fail at once.
    fs::write(folder.join("go"), "").unwrap();
    let (page, workloads) = (folder.join("page.html"), ["load", "ping_pong"]);
    let output = compare(&page, &workloads, "quadrille,tokio,go", "1", Some(&folder));
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );

    let found = look(&folder);
    check_readable(&found);
    for frame in &found {
        let list = |name: &str| frame[name].as_array().unwrap();
        // The median, what 1 in 100 and 1 in 1000 exceeds, and processor time.
        assert_eq!(list("curves").len(), 4, "{found:?}");
        // ping_pong of one pair and of many.
        assert_eq!(list("failed").len(), 2, "{found:?}");
        list("curves")
            .iter()
            .for_each(|curve| check_curve(curve, &frame["paper"]));
        list("failed").iter().for_each(|row| check_failed(row, &frame["paper"]));
    }
    take_picture(&folder, "around.html", "1800,1000", "both.png");
}
